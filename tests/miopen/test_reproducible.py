"""Equal requests give equal bytes, however and wherever they are built."""

from __future__ import annotations

import os
from pathlib import Path

from small import Run


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_workers_folders_and_stores_leave_no_trace(
    kdbforge: Run, tmp_path: Path, small: Path
) -> None:
    built = []
    (tmp_path / "elsewhere").mkdir()
    for jobs, output, hash_seed in (("1", "a", "1"), ("2", "elsewhere/a-longer-name", "2")):
        done = kdbforge(
            "--store", tmp_path / f"store-{jobs}",
            "build", small, "--gpu", "gfx906_60", "--gpu", "gfx906_64", "--policy", "normal",
            "-o", tmp_path / output, "-j", jobs,
            env={**os.environ, "PYTHONHASHSEED": hash_seed, "HOME": str(tmp_path / output)},
            cwd=tmp_path / "elsewhere" if jobs == "2" else tmp_path,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        built.append(contents(tmp_path / output))
    names = [f"gfx906_{n}.{suffix}" for n in (60, 64) for suffix in ("kdb", "manifest.json")]
    assert sorted(built[0]) == names
    assert built[0] == built[1]


def test_neither_order_nor_repetition_of_problems_matters_to_the_database(
    kdbforge: Run, tmp_path: Path, small: Path
) -> None:
    lines = small.read_text().splitlines()
    turned = tmp_path / "turned.txt"
    turned.write_text("\n".join([*reversed(lines), *lines]))
    for source in (small, turned):
        done = kdbforge("build", source, "--gpu", "gfx906_60", "-o", tmp_path / source.stem)
        assert done.returncode == 0, done.stderr
    kdb = "gfx906_60.kdb"
    assert contents(tmp_path / "small")[kdb] == contents(tmp_path / "turned")[kdb]
