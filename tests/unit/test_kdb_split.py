"""Splitting kernel databases, merging the parts again, and both on the command line."""

from __future__ import annotations

import hashlib
import json
import tempfile
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from databases import digest, for_target, plain_database, record, records_of
from hypothesis import given, settings
from hypothesis import strategies as st

from kdbforge.cli.main import cli
from kdbforge.errors import DatabaseError, InputError, KdbforgeError
from kdbforge.kdb.merge import MergeInput, merge_kdbs
from kdbforge.kdb.record import Record
from kdbforge.kdb.split import SplitReport, split_kdb
from kdbforge.kdb.writer import write_kdb

NAVI = record("a.cl")
NAVI31 = record("a.cl", arch="gfx1031")
ANY, OFF, ON = (
    record(f"{name}.cl", arch="gfx90a", xnack=xnack)
    for name, xnack in (("any", None), ("off", False), ("on", True))
)


def split(path: Path, folder: Path, **options: bool) -> SplitReport:
    report = split_kdb(path, folder, **options)
    assert report.rows_in == report.rows_out + len(report.rejected)
    return report


def run(*args: object) -> Result:
    return CliRunner().invoke(cli, ["kdb", *map(str, args)])


def test_parts(tmp_path: Path) -> None:
    """rocm-systems PR #7645: variants of xnack are not lost."""
    write_kdb(tmp_path / "all.kdb", [NAVI, NAVI31, ANY, OFF, ON])
    before = digest(tmp_path)
    report = split(tmp_path / "all.kdb", tmp_path / "out")
    assert [(part.db_id, part.rows, str(part.target)) for part in report.parts] == [
        ("gfx1030", 1, "gfx1030"),
        ("gfx1031", 1, "gfx1031"),
        ("gfx90a", 2, "gfx90a:xnack-"),
        ("gfx90a_xnack", 1, "gfx90a:xnack+"),
    ]
    assert records_of(tmp_path / "out/gfx90a.kdb") == [ANY, OFF]
    assert records_of(tmp_path / "out/gfx90a_xnack.kdb") == [ON]
    assert digest(tmp_path) == before


def test_one_key_for_both_settings(tmp_path: Path) -> None:
    """The variants of one kernel have one key; without an index both are in a file."""
    on, off = (record(arch="gfx90a", xnack=xnack) for xnack in (True, False))
    plain_database(tmp_path / "all.kdb", [on, off])
    assert split(tmp_path / "all.kdb", tmp_path / "out").rows_out == 2
    assert records_of(tmp_path / "out/gfx90a_xnack.kdb") == [on]
    assert records_of(tmp_path / "out/gfx90a.kdb") == [off]


def test_name_says_what_code_for_either_setting_is_for(tmp_path: Path) -> None:
    write_kdb(tmp_path / "gfx90a_xnack68.kdb", [ANY, ON])
    assert [
        part.db_id for part in split(tmp_path / "gfx90a_xnack68.kdb", tmp_path / "o").parts
    ] == ["gfx90a_xnack"]


@pytest.mark.parametrize("second", [OFF, record("off.cl", arch="gfx90a", xnack=False, variant=1)])
def test_no_row_is_dropped_for_its_key(tmp_path: Path, second: Record) -> None:
    plain_database(tmp_path / "all.kdb", [OFF, second])
    with pytest.raises(DatabaseError, match="with one key"):
        split_kdb(tmp_path / "all.kdb", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_settings_that_no_name_tells_apart(tmp_path: Path) -> None:
    both = [record(f"{n}.cl", arch="gfx90a", sramecc=n) for n in (True, False)]
    write_kdb(tmp_path / "all.kdb", both)
    with pytest.raises(DatabaseError, match=r"looks for both in `gfx90a\.kdb`"):
        split_kdb(tmp_path / "all.kdb", tmp_path / "out")


def test_damage(tmp_path: Path) -> None:
    bad = ("d.o", " -DN=0", NAVI.kernel_blob, "0" * 32, NAVI.uncompressed_size)
    none = ("e.o", " -DN=0", b"none", hashlib.md5(b"none").hexdigest(), 0)
    plain_database(tmp_path / "all.kdb", [NAVI, bad, none])
    report = split(tmp_path / "all.kdb", tmp_path / "out")
    assert [entry.number for entry in report.rejected] == [2, 3]
    with pytest.raises(DatabaseError, match="record 2 cannot be used"):
        split_kdb(tmp_path / "all.kdb", tmp_path / "strict", strict=True)
    assert not (tmp_path / "strict").exists()


def test_nothing_to_split(tmp_path: Path) -> None:
    write_kdb(tmp_path / "all.kdb", [])
    with pytest.raises(DatabaseError, match="no record"):
        split_kdb(tmp_path / "all.kdb", tmp_path / "out")


def test_files_that_exist(tmp_path: Path) -> None:
    write_kdb(tmp_path / "all.kdb", [NAVI, NAVI31])
    (tmp_path / "out").mkdir()
    (tmp_path / "out/gfx1031.kdb").write_bytes(b"mine")
    with pytest.raises(InputError, match="exists"):
        split_kdb(tmp_path / "all.kdb", tmp_path / "out")
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["gfx1031.kdb"]
    split(tmp_path / "all.kdb", tmp_path / "out", force=True)
    assert records_of(tmp_path / "out/gfx1031.kdb") == [NAVI31]


def test_input_is_not_overwritten(tmp_path: Path) -> None:
    write_kdb(tmp_path / "gfx1030.kdb", [NAVI, NAVI31])
    with pytest.raises(InputError, match="never modified"):
        split_kdb(tmp_path / "gfx1030.kdb", tmp_path, force=True)


numbers = st.sets(st.integers(0, 4), max_size=4)
TARGETS = [
    ("gfx1030", None), ("gfx1031", None), ("gfx90a", None), ("gfx90a", False), ("gfx90a", True),
]  # fmt: skip


@settings(max_examples=15, deadline=None)
@given(st.lists(numbers, min_size=len(TARGETS), max_size=len(TARGETS)).filter(any))
def test_split_then_merge_gives_the_same_records(chosen: list[set[int]]) -> None:
    records = [
        Record.pack(f"{arch}{xnack}.cl.o", f" -DN={n} -mcpu={arch}", for_target(arch, xnack))
        for (arch, xnack), found in zip(TARGETS, chosen, strict=True)
        for n in sorted(found)
    ]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_kdb(folder / "all.kdb", records)
        parts = split(folder / "all.kdb", folder / "once").parts
        joined = [one for part in parts for one in records_of(part.path)]
        assert sorted(joined, key=lambda r: r.key) == records_of(folder / "all.kdb")
        for part in parts:
            # A part splits into itself, and merging what it splits into gives it again.
            (again,) = split(part.path, folder / f"again-{part.db_id}").parts
            assert again.path.read_bytes() == part.path.read_bytes()
            merged = folder / f"merged-{part.db_id}.kdb"
            merge_kdbs(merged, [MergeInput(again.path), MergeInput(part.path)])
            assert merged.read_bytes() == part.path.read_bytes()


def test_split_command(tmp_path: Path) -> None:
    bad = ("d.o", " -DN=0", NAVI.kernel_blob, "0" * 32, NAVI.uncompressed_size)
    plain_database(tmp_path / "all.kdb", [NAVI, ON, bad])
    out = tmp_path / "out"
    result = run("split", tmp_path / "all.kdb", "-o", out)
    assert result.exit_code == 1
    assert result.stdout == (
        f"{out}/gfx1030.kdb: 1 records for gfx1030\n"
        f"{out}/gfx90a_xnack.kdb: 1 records for gfx90a:xnack+\n"
        f"record 3 LEFT OUT: d.o: Damaged record: MD5 is {NAVI.kernel_hash}, and kernel_hash "
        f"says {'0' * 32}\n"
        "3 records in = 2 out + 1 damaged\n"
    )
    found = json.loads(run("split", tmp_path / "all.kdb", "-o", out, "--force", "--json").stdout)
    assert (found["records_in"], found["records_out"], len(found["damaged"])) == (3, 2, 1)
    assert found["parts"][1]["db_id"] == "gfx90a_xnack"


def test_merge_command(tmp_path: Path) -> None:
    one, other, out = (tmp_path / f"{name}.kdb" for name in ("1", "2", "gfx1030_40"))
    write_kdb(one, [NAVI, record("b.cl")])
    write_kdb(other, [record("a.cl", variant=1)])
    result = run("merge", out, one, other)
    assert isinstance(result.exception, DatabaseError)
    result = run("merge", out, one, other, "--on-conflict", "last")
    assert result.exit_code == 0
    assert result.stdout == (
        f"{one}: 2 records\n"
        f"{other}: 1 records\n"
        f"conflict: a.cl.o -DN=0 -mcpu=gfx1030: taken from {other}\n"
        f"{out}: 2 records for gfx1030 (3 in = 2 out + 0 the same + 1 replaced + 0 damaged)\n"
    )


def test_merge_command_with_damage(tmp_path: Path) -> None:
    write_kdb(tmp_path / "1.kdb", [NAVI])
    (tmp_path / "2.kdb").write_bytes(b"version https://git-lfs.github.com/spec/v1\n")
    out, inputs = tmp_path / "m.kdb", (tmp_path / "1.kdb", tmp_path / "2.kdb")
    result = run("merge", out, *inputs)
    assert result.exit_code == 1
    assert f"{inputs[1]}: LEFT OUT: `{inputs[1]}` is a Git LFS pointer" in result.stdout
    found = json.loads(run("merge", out, *inputs, "--force", "--json").stdout)
    assert found["complete"] is False
    assert "Git LFS" in found["inputs"][1]["error"]
    assert isinstance(run("merge", out, *inputs, "--force", "--strict").exception, DatabaseError)


def manifest(kdb: Path, version: str, build_id: str) -> None:
    data = kdb.read_bytes()
    content = {
        "schema": 1,
        "toolchain": {
            "name": "t", "version": "7.2.4", "miopen_version": version,
            "build_id": build_id, "fingerprint": "f",
        },
        "policy": "default", "problems": {"count": 1}, "environment": {}, "gpus": [],
        "proofs": [], "missing": [],
        "files": [{
            "name": kdb.name, "records": 1, "size": len(data),
            "sha256": hashlib.sha256(data).hexdigest(),
        }],
    }  # fmt: skip
    kdb.with_suffix(".manifest.json").write_text(json.dumps(content))


def test_newest_manifest_command(tmp_path: Path) -> None:
    old, new, out = (tmp_path / f"{name}.kdb" for name in ("old", "new", "out"))
    write_kdb(old, [NAVI])
    write_kdb(new, [record("a.cl", variant=1)])
    manifest(old, "3.5.1", "aa")
    manifest(new, "3.10.0", "bb")
    result = run("merge", out, new, old, "--on-conflict", "newest-manifest")
    assert "different libMIOpens" in result.stderr
    assert records_of(out) == records_of(new)
    new.with_suffix(".manifest.json").write_text("{}")
    result = run("merge", out, new, old, "--on-conflict", "newest-manifest", "--force")
    assert isinstance(result.exception, KdbforgeError)
