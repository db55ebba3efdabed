"""The nine databases of the request that kdbforge began with, in one command."""

from __future__ import annotations

import json
import os
from pathlib import Path

from small import SMALL, Run

from kdbforge.kdb.reader import read_kdb

NINE = [
    "gfx1010_36",
    "gfx1010_40",
    "gfx1011_36",
    "gfx1030_30",
    "gfx1030_40",
    "gfx803_56",
    "gfx803_64",
    "gfx1012_22",
    "gfx1031_20",
]


def test_nine_names_are_built_and_proven_at_once(
    kdbforge: Run, tmp_path: Path, shared_store: Path
) -> None:
    source = tmp_path / "one.txt"
    source.write_text(SMALL.splitlines()[0])
    gpus = [word for name in NINE for word in ("--gpu", name)]
    done = kdbforge(
        "--store", shared_store, "build", source, *gpus, "-o", tmp_path / "out", "--json"
    )
    assert done.returncode == 0, done.stderr
    expected = [f"{name}{suffix}" for name in NINE for suffix in (".kdb", ".manifest.json")]
    assert sorted(os.listdir(tmp_path / "out")) == sorted(expected)
    report = json.loads(done.stdout)
    assert report["complete"]
    assert len(report["proofs"]) == len(NINE)
    for proof in report["proofs"]:
        assert (proof["misses"], proof["errors"]) == ([], [])
        assert proof["hits"] > 0
    for name in NINE:
        arch = name.split("_")[0]
        records = list(read_kdb(tmp_path / "out" / f"{name}.kdb"))
        assert records
        assert all(record.kernel_args.endswith(f"-mcpu={arch}") for record in records)
    warnings = [line for line in done.stderr.splitlines() if line.startswith("warning: ")]
    (about_40,) = (line for line in warnings if "gfx1010_40" in line)
    assert "20" in about_40
    # GPUs that differ in their CU count alone share every job.
    assert report["plan"]["jobs"] < sum(gpu["records"] for gpu in report["plan"]["gpus"])
