"""`kdbforge kdb info`, `ls`, `show`, `extract` as a person or a script calls them."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import re
import sqlite3
import struct
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kdbforge.cli.kdb.extract import object_name
from kdbforge.cli.main import cli
from kdbforge.errors import KdbforgeError
from kdbforge.kdb.inspect import Entry, open_kdb
from kdbforge.kdb.record import Record
from kdbforge.kdb.writer import write_kdb

DATA = Path(__file__).parent / "data"
NAVI = (DATA / "scale_gfx1030.co").read_bytes()
CDNA = (DATA / "scale_gfx90a_xnack+.co").read_bytes()
EVIL = "../../\x1b[31m/etc/passwd.o"
RECORDS = [
    Record.pack(EVIL, " -DE=1", NAVI),
    Record.pack("scale.cl.o", " -DN=1 -DFAST -mcpu=gfx1030", NAVI),
    Record.pack("scale.cl.o", " -DN=2 -mcpu=gfx1030", CDNA),
]
Run = Callable[..., Result]


@pytest.fixture
def kdb(tmp_path: Path) -> Path:
    write_kdb(tmp_path / "a.kdb", RECORDS)
    return tmp_path / "a.kdb"


@pytest.fixture
def run() -> Run:
    def call(*args: object) -> Result:
        return CliRunner().invoke(cli, ["kdb", *map(str, args)], catch_exceptions=True)

    return call


def fails(result: Result) -> KdbforgeError:
    assert isinstance(result.exception, KdbforgeError)
    return result.exception


def test_info(run: Run, kdb: Path) -> None:
    text = run("info", kdb).stdout
    assert re.search(r"^records +3 of 2 kernel files$", text, re.MULTILINE)
    assert re.search(r"^journal mode +delete$", text, re.MULTILINE)
    assert re.search(r"^compression +3 bzip2, 0 plain$", text, re.MULTILINE)
    samples = r"in 3 samples +gfx1030 \(2\), gfx90a:xnack\+ \(1\), code object v6 \(3\)$"
    assert re.search(samples, text, re.MULTILINE)
    assert re.search(r"^architectures +no -mcpu \(1, .*\), gfx1030 \(2, ", text, re.MULTILINE)


def test_info_json_of_two_files(run: Run, kdb: Path) -> None:
    found = json.loads(run("info", kdb, kdb, "--json").stdout)
    assert [part["records"] for part in found] == [3, 3]
    assert found[0]["languages"]["cl"]["records"] == 2
    assert found[0]["targets"] == {"gfx1030": 2, "gfx90a:xnack+": 1}


def test_ls(run: Run, kdb: Path) -> None:
    lines = run("ls", kdb).stdout.splitlines()
    assert len(lines) == 3
    assert lines[1].split() == [
        "2", str(len(RECORDS[1].kernel_blob)), "scale.cl.o", "-DN=1", "-DFAST", "-mcpu=gfx1030",
    ]  # fmt: skip
    assert "\x1b" not in lines[0]
    assert r"../../\x1b[31m/etc/passwd.o" in lines[0]
    long = run("ls", kdb, "-l", "--kernel", "scale*", "--arg", "-DN=2").stdout
    assert f"{len(CDNA)} {RECORDS[2].kernel_hash}  scale.cl.o" in long


def test_ls_as_data(run: Run, kdb: Path) -> None:
    whole = json.loads(run("ls", kdb, "--json").stdout)
    lines = [json.loads(line) for line in run("ls", kdb, "--nl").stdout.splitlines()]
    table = list(csv.DictReader(io.StringIO(run("ls", kdb, "--csv").stdout)))
    assert whole == lines
    assert [(row["kernel_name"], row["kernel_args"]) for row in whole] == [r.key for r in RECORDS]
    assert [{name: str(value) for name, value in row.items()} for row in whole] == table
    longer = json.loads(run("ls", kdb, "--json", "--long").stdout)
    assert [row["kernel_hash"] for row in longer] == [r.kernel_hash for r in RECORDS]


def test_ls_by_size(run: Run, kdb: Path) -> None:
    sizes = [
        row["stored_size"] for row in json.loads(run("ls", kdb, "--sort=size", "--json").stdout)
    ]
    assert sizes == sorted(sizes, reverse=True)


def test_show(run: Run, kdb: Path) -> None:
    text = run("show", kdb, 2).stdout
    for line in (
        r"kernel file  scale\.cl",
        r"macro +N +1",
        r"macro +FAST",
        r"option +-mcpu +gfx1030",
        r"code object  gfx1030, version 6",
        r"kf_scale +32 +2/8 +\d+/all +- +0 +0 +\d+ +1024 +0\+0",
        r"0 +8 +global global_buffer",
        r"8 +4 +by_value",
    ):
        assert re.search(f"^{line}", text, re.MULTILINE), line
    assert "wrong" not in text


def test_show_json(run: Run, kdb: Path) -> None:
    found = json.loads(run("show", kdb, "scale.cl", "--arg=-DN=2", "--json").stdout)
    assert found["id"] == 3
    assert found["options"][0] == {"kind": "macro", "name": "N", "value": "2"}
    (described,) = found["code_objects"]
    assert (described["target"], described["sramecc"]) == ("gfx90a:xnack+", "any")
    assert described["findings"] == []
    (kernel,) = described["kernels"]
    assert (kernel["name"], kernel["wave_size"]) == ("kf_scale", 64)
    assert kernel["metadata"]["arguments"][1]["size"] == 4


def test_show_says_what_is_wrong(run: Run, tmp_path: Path) -> None:
    other = NAVI[:48] + b"\x37" + NAVI[49:]
    write_kdb(tmp_path / "b.kdb", [Record.pack("k.cl.o", "", other)])
    text = run("show", tmp_path / "b.kdb", 1).stdout
    assert "wrong        Metadata is for `gfx1030`, e_flags `gfx1031`" in text


def test_show_opens_a_bundle(run: Run, tmp_path: Path) -> None:
    name = b"hipv4-amdgcn-amd-amdhsa--gfx1030"
    header = b"__CLANG_OFFLOAD_BUNDLE__" + struct.pack("<QQQQ", 1, 4096, len(NAVI), len(name))
    bundle = (header + name).ljust(4096, b"\0") + NAVI
    write_kdb(tmp_path / "b.kdb", [Record.pack("k.cpp.o", "", bundle)])
    text = run("show", tmp_path / "b.kdb", 1).stdout
    assert f"unpacked     {len(bundle)} bytes, an offload bundle" in text
    assert "code object  gfx1030, version 6" in text


def test_show_wants_one_record(run: Run, kdb: Path) -> None:
    error = fails(run("show", kdb, "scale*"))
    assert error.message == f"`scale*` means 2 records of `{kdb}`"
    assert error.context == ("2: scale.cl.o", "3: scale.cl.o")
    assert fails(run("show", kdb, 17)).message == f"`{kdb}` has no record `17`"
    error = fails(run("show", kdb, 2, "--function", "kf_scales"))
    assert (error.message, error.hint) == ("Unknown kernel `kf_scales`", "did you mean `kf_scale`?")


def test_extract(run: Run, kdb: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = run("extract", kdb, "-o", out, "--json")
    files = json.loads(done.stdout)
    assert [Path(file["path"]).read_bytes() for file in files] == [NAVI, NAVI, CDNA]
    assert sorted(out.iterdir()) == sorted(Path(file["path"]) for file in files)
    assert done.stderr == "3 code objects extracted\n"
    # What is extracted makes the same file again.
    again = [
        Record.pack(f["kernel_name"], f["kernel_args"], Path(f["path"]).read_bytes()) for f in files
    ]
    write_kdb(tmp_path / "again.kdb", again)
    assert (tmp_path / "again.kdb").read_bytes() == kdb.read_bytes()


@settings(
    deadline=None, max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.dictionaries(
        st.tuples(
            st.text(
                st.characters(exclude_characters="'\0", codec="utf-8"), min_size=1, max_size=20
            ),
            st.text(st.characters(exclude_characters="'\0", codec="utf-8"), max_size=20),
        ),
        st.sampled_from([NAVI, CDNA, b"x", bytes(10_000)]),
        min_size=1,
        max_size=5,
    )
)
def test_any_database_can_be_extracted_and_made_again(
    run: Run, tmp_path: Path, objects: dict[tuple[str, str], bytes]
) -> None:
    with tempfile.TemporaryDirectory(dir=tmp_path) as name:
        folder = Path(name)
        write_kdb(
            folder / "one.kdb",
            [Record.pack(name, args, data) for (name, args), data in objects.items()],
        )
        done = run("extract", folder / "one.kdb", "-o", folder / "out", "--json")
        again = [
            Record.pack(f["kernel_name"], f["kernel_args"], Path(f["path"]).read_bytes())
            for f in json.loads(done.stdout)
        ]
        assert all(path.parent == folder / "out" for path in (folder / "out").iterdir())
        write_kdb(folder / "again.kdb", again)
        assert (folder / "again.kdb").read_bytes() == (folder / "one.kdb").read_bytes()


def test_extract_some(run: Run, kdb: Path, tmp_path: Path) -> None:
    (line,) = run("extract", kdb, "-o", tmp_path, "--id", 3).stdout.splitlines()
    assert Path(line).read_bytes() == CDNA
    error = fails(run("extract", kdb, "-o", tmp_path, "--kernel", "none"))
    assert error.message == f"`{kdb}` has no such record"


def test_extract_overwrites_only_when_told_to(run: Run, kdb: Path, tmp_path: Path) -> None:
    out, target = tmp_path / "out", tmp_path / "precious"
    target.write_text("precious")
    out.mkdir()
    with open_kdb(kdb) as opened:
        names = [object_name(entry) for entry in opened.entries()]
    (out / names[2]).symlink_to(target)
    error = fails(run("extract", kdb, "-o", out))
    assert error.message == f"`{out / names[2]}` is there already"
    assert sorted(out.iterdir()) == [out / names[2]]
    assert run("extract", kdb, "-o", out, "--force").exit_code == 0
    assert (out / names[2]).read_bytes() == CDNA
    assert target.read_text() == "precious"


def test_extract_refuses_a_damaged_record(run: Run, tmp_path: Path) -> None:
    write_kdb(tmp_path / "a.kdb", RECORDS)
    db = sqlite3.connect(tmp_path / "a.kdb", isolation_level=None)
    db.execute("UPDATE kern_db SET kernel_hash = ? WHERE id = 2", (hashlib.md5(b"").hexdigest(),))
    db.close()
    error = fails(run("extract", tmp_path / "a.kdb", "-o", tmp_path / "out", "--id", 2))
    assert "kernel_hash says" in error.message


@pytest.mark.parametrize(
    "name",
    ["/etc/p.o", "..", "../..", ".", "", "-rf.o", ".rc.o", "a/b\\c.o", "x" * 9999, "\x1b[0m", "ü"],
)
def test_names_from_a_file_stay_in_the_folder(name: str) -> None:
    made = object_name(Entry(1, name, "", 1, None, None))
    assert re.fullmatch(r"[A-Za-z0-9_+][A-Za-z0-9._+-]{0,99}-[0-9a-f]{16}\.co", made)
    assert made != object_name(Entry(1, name, " -D", 1, None, None))
