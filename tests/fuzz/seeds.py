"""Writes the hand-made part of the corpus: python tests/fuzz/seeds.py

Its objects are those of tests/unit/data, which a real compiler made; the rest of the corpus was
found by fuzzing and kept because it reaches more.
"""

from __future__ import annotations

import hashlib
import sqlite3
import sys
import tempfile
from contextlib import closing
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent)]

from fuzz.targets import bundle, journal, signature  # noqa: E402
from kdbforge.codeobject.bundle import BundleEntry  # noqa: E402
from kdbforge.codeobject.image import read_image  # noqa: E402
from kdbforge.kdb.record import Record  # noqa: E402
from kdbforge.kdb.schema import CREATE_INDEX, CREATE_TABLE  # noqa: E402
from kdbforge.model.job import Action, ActionOutput, FileInput, Job  # noqa: E402
from kdbforge.model.plan import (  # noqa: E402
    GpuPlan,
    Plan,
    PlannedRecord,
    ToolchainId,
    Unplanned,
    UnstableKey,
)
from kdbforge.planner.planfile import write_plan  # noqa: E402
from kdbforge.problems.driver import parse  # noqa: E402

DATA = HERE.parent / "unit" / "data"
NAVI = (DATA / "scale_gfx1030.co").read_bytes()
CDNA = (DATA / "scale_gfx90a_xnack+.co").read_bytes()
LINES = (
    "./bin/MIOpenDriver conv -n 1 -c 3 -H 224 -W 224 -k 64 -y 7 -x 7 -p 3 -q 3 -u 2 -v 2 -l 1 -j 1"
    " -m conv -g 1 -F 1 -t 1",
    "MIOpenDriver convfp16 -n 2 -c 8 -!  4 -H 8 -W 8 -k 4 -@ 3 -y 3 -x 3 --spatial_dim 3 "
    "--in_layout NDHWC --fil_layout NDHWC --out_layout NDHWC -m trans -g 2 -F 4",
    "MIOpen(HIP): Command [LogCmdConvolution] ./bin/MIOpenDriver convbfp16 -n 1 -c 8 -H 8 -W 8 -k 8"
    " -y 1 -x 1 -p 0 -q 0 -u 1 -v 1 -l 1 -j 1 -m conv -g 1 -F 2",
    "convint8 -n 1 -F 1 # comment",
)
PROFILE = """\
[[profile]]
arch = "gfx1010"
wave_size = 32
lds_kib = 64
memory_gib = 8
max_grid_dim_x = 2147483647
cooperative_launch = true
clock_mhz = 1905
memory_clock_mhz = 875
features = ["xnack"]
wgp = true
source = "a test"
products = [{ name = "Radeon RX 5700 XT", num_cu = 20 }]
"""
MANIFEST = b"""{"schema": 1, "policy": "default", "problems": {"count": 2, "sha256": "00"},
"environment": {"A": "0"}, "files": [{"name": "gfx1030_40.kdb", "records": 1, "sha256": "00",
"size": 5}], "gpus": [{"target": "gfx1030", "num_cu": 40, "basename": "gfx1030_40"}], "missing": [],
"proofs": [{"gpu": "x", "problems": 2, "hits": 1, "misses": 0, "errors": 0}], "toolchain":
{"name": "t", "version": "7", "miopen_version": "3", "build_id": "ab", "fingerprint": "ff"}}"""


def main() -> None:
    for target, files in (
        ("kdb", _databases()),
        ("kdb_rows", _rows()),
        ("elf", {"navi": NAVI, "cdna": CDNA}),
        ("notes", {"navi": _note(NAVI), "cdna": _note(CDNA)}),
        ("bundle", _bundles()),
        ("journal", {"chain": _journal()}),
        ("plan", {"small": _plan()}),
        ("manifest", {"small": MANIFEST}),
        ("signature", _signatures()),
        ("profiles", {"navi": PROFILE.encode()}),
        ("problems", {str(n): line.encode() + b"\n" for n, line in enumerate(LINES)}),
    ):
        folder = HERE / "corpus" / target
        folder.mkdir(parents=True, exist_ok=True)
        for name, data in files.items():
            (folder / f"seed-{name}").write_bytes(data)


def _databases() -> dict[str, bytes]:
    """With pages of 512 bytes, which SQLite takes as well, a database of two records is small."""
    args = " -DX=1 -mcpu=gfx1030"
    packed = Record.pack("a.cl.o", args, NAVI)
    plain = Record("b.cpp.o", args, NAVI, packed.kernel_hash, 0)
    other = Record.pack("b.cpp.o", " -mcpu=gfx90a", CDNA)
    return {
        "packed": _database([packed]),
        "two": _database([packed, other]),
        "plain": _database([plain]),
        "empty": _database([]),
        "wal": _database([packed], "PRAGMA journal_mode=WAL"),
        "no-index": _database([packed], "DROP INDEX idx_kern_db"),
    }


def _database(records: list[Record], *statements: str) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.kdb"
        with closing(sqlite3.connect(path, isolation_level=None)) as db:
            for statement in ("PRAGMA page_size=512", CREATE_TABLE, CREATE_INDEX):
                db.execute(statement)
            for number, one in enumerate(records, 1):
                values = (number, *one.key, one.kernel_blob, one.kernel_hash, one.uncompressed_size)
                db.execute("INSERT INTO kern_db VALUES(?, ?, ?, ?, ?, ?)", values)
            index = db.execute("SELECT name FROM sqlite_master WHERE type = 'index'").fetchone()[0]
            for statement in statements:
                db.execute(statement.replace("idx_kern_db", f'"{index}"'))
        return path.read_bytes()


def _rows() -> dict[str, bytes]:
    """One of each schema, with rows that are mostly in order."""
    return {str(n): bytes([0, n, 3, *([n * 7 % 256, n] * 30)]) for n in range(19)}


def _note(data: bytes) -> bytes:
    (found,) = (note.content for note in read_image(data).notes() if note.kind == 32)
    return found


def _bundles() -> dict[str, bytes]:
    part = NAVI[:200]
    entries = (
        BundleEntry("host-x86_64-unknown-linux--", None, b""),
        BundleEntry("hipv4-amdgcn-amd-amdhsa--gfx1030", None, part),
        BundleEntry("hipv4-amdgcn-amd-amdhsa--gfx90a:sramecc+:xnack-", None, part[::-1]),
    )
    plain = bundle.plain(entries)
    packed = {
        f"v{version}-{name}": bundle.compressed(plain, version, method)
        for version in (1, 2, 3)
        for method, name in enumerate(("zlib", "zstd"))
    }
    return {"plain": plain, **packed}


def _journal() -> bytes:
    nonce, isa = b"0011", b"amdgcn-amd-amdhsa--gfx1030"
    first = [nonce, b"1", b"2", b"2", isa, b"", b"1", b"0", b"1", b"-O3", b"1", b"1", b"k.cl"]
    second = [nonce, b"2", b"9", b"0", isa, b"", b"1", b"0", b"0", b"1", b"4", b"", b"action:1:4:0"]
    return journal.join([
        (1, [nonce, b"42", b"capture", b"gfx1030"]),
        (2, [nonce, b"1", b"kernel void k() {}"]),
        (3, [*first, b"blob:1"]),
        (3, second),
        (4, [nonce, b"problem 0 find"]),
        (5, [nonce, b"capture", b"kdbforge-capture:0011:2:8:0\n"]),
        (6, [nonce, b"2", b"2", b"gfx1030", b"k.cl", b"1", b"-O3"]),
        (7, [nonce, b"hipGraphLaunch"]),
    ])  # fmt: skip


def _plan() -> bytes:
    source = b"kernel void k() {}"
    digest = hashlib.sha256(source).hexdigest()
    actions = (
        Action(2, 2, "gfx1030", ("-O3",), "", False, (FileInput(1, "k.cl", digest),)),
        Action(9, 0, "gfx1030", (), "", False, (ActionOutput(0, 4, 0, "k.o"),)),
    )
    job = Job(actions, ActionOutput(1, 8, 0))
    key = job.key("f" * 64)
    problems = (parse(LINES[0])[0], parse(LINES[1])[0])
    gpu = GpuPlan(
        "rx", "gfx1030", 40, "gfx1030_40", (PlannedRecord("k.cl.o", " -O3", key),), ((key,), ()),
        (Unplanned(1, "find", "status 7", "log"),), (UnstableKey("b.o", "x"),),
    )  # fmt: skip
    toolchain = ToolchainId("debian-7", "7", "3.5.1", "ab", "f" * 64)
    plan = Plan(toolchain, "default", {"A": "0"}, problems, (gpu,), {key: job}, {digest: source})
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "plan"
        write_plan(plan, path)
        return path.read_bytes()


def _signatures() -> dict[str, bytes]:
    return {
        "public": str(signature.key().public).encode(),
        "secret": signature.key().text().encode(),
        "line": b"\0\0\0" + signature.line(),
        "wrong": b"\1\1\1\1\1\1\1" + signature.line(),
    }


if __name__ == "__main__":
    main()
