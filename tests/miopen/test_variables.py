"""Variables of MIOpen that the user's programs have set: `--env`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from small import Run

NO_DIRECT = "MIOPEN_DEBUG_CONV_DIRECT=0"
GPU = ("--gpu", "gfx906_60", "--policy", "normal")


def test_planning_and_proof_have_them(
    kdbforge: Run, small: Path, shared_store: Path, tmp_path: Path
) -> None:
    def records(*options: str) -> int:
        done = kdbforge("plan", small, *GPU, *options, "--json")
        (gpu,) = json.loads(done.stdout)["gpus"]
        return int(gpu["records"])

    assert 0 < records("--env", NO_DIRECT) < records()
    out = tmp_path / "out"
    built = kdbforge(
        "--store", shared_store, "build", small, *GPU, "--env", NO_DIRECT, "-o", out
    )  # fmt: skip
    assert built.returncode == 0, built.stderr
    assert f"The user must set {NO_DIRECT} " in built.stderr
    manifest = json.loads((out / "gfx906_60.manifest.json").read_text())
    assert manifest["environment"]["MIOPEN_DEBUG_CONV_DIRECT"] == "0"
    kdb = out / "gfx906_60.kdb"
    assert kdbforge("prove", kdb, small, *GPU, "--env", NO_DIRECT).returncode == 0
    without = kdbforge("prove", kdb, small, *GPU)
    assert without.returncode == 1
    assert "  miss: " in without.stderr


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("MIOPEN_DEBUG_CONV_DIREKT=0", "did you mean `MIOPEN_DEBUG_CONV_DIRECT`"),
        ("MIOPEN_FIND_MODE=1", "MIOPEN_FIND_MODE cannot be set for a build: `--policy` says"),
        ("MIOPEN_DEBUG_CONV_DIRECT", "`MIOPEN_DEBUG_CONV_DIRECT` is not NAME=VALUE"),
        ("=0", "`` is not NAME=VALUE"),
    ],
)
def test_what_cannot_be_set(kdbforge: Run, small: Path, word: str, message: str) -> None:
    done = kdbforge("plan", small, *GPU, "--env", word)
    assert done.returncode == 2
    assert message in done.stderr
