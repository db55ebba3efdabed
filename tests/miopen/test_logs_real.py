"""Logs that the real libMIOpen writes: read back, they name exactly the problems that were run."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from kdbforge import Toolchain, find_gpu
from kdbforge.errors import InputError, UnsupportedError
from kdbforge.kdb.reader import read_ukdb_rows
from kdbforge.miopen.replay import ReplayOptions, replay
from kdbforge.model.problem import Convolution
from kdbforge.problems import find_db_key, load, parse
from kdbforge.problems.keys import read_key
from kdbforge.problems.transposed import untransposed
from kdbforge.vgpu.process import CompileMode

NHWC, NDHWC = (f" -I {layout} -f {layout} -O {layout}" for layout in ("NHWC", "NDHWC"))
TRANSPOSED = (
    "conv -n 1 -c 16 -H 7 -W 7 -k 8 -y 4 -x 4 -p 1 -q 1 -u 2 -v 2 -m trans",
    "conv -n 1 -c 16 -H 7 -W 7 -k 8 -y 3 -x 3 -p 1 -q 1 -u 2 -v 2 -m trans -Y 1 -X 1 -g 4",
)
#: A spread over data types, dimensions, layouts and geometries.
LINES = (
    "conv -n 1 -c 16 -H 14 -W 15 -k 8 -y 3 -x 3 -p 1 -q 1",
    "conv -n 2 -c 16 -H 14 -W 14 -k 24 -y 5 -x 3 -p 2 -q 0 -u 2 -v 1",
    "conv -n 1 -c 16 -H 14 -W 14 -k 32 -y 3 -x 3 -p 2 -q 2 -l 2 -j 2 -g 4",
    "convfp16 -n 1 -c 16 -H 14 -W 14 -k 32 -y 1 -x 1",
    "convfp16 -n 1 -c 16 -H 14 -W 14 -k 32 -y 3 -x 3 -p 1 -q 1" + NHWC,
    "convbfp16 -n 1 -c 16 -H 14 -W 14 -k 32 -y 3 -x 3 -p 1 -q 1",
    "convint8 -n 1 -c 16 -H 14 -W 14 -k 32 -y 3 -x 3 -p 1 -q 1",
    "conv -n 1 -c 8 --in_d 6 -H 7 -W 9 -k 12 --fil_d 3 -y 3 -x 1 --pad_d 1 -p 1 -q 0"
    " -u 2 -v 2 --spatial_dim 3",
    "conv -n 1 -c 8 --in_d 6 -H 7 -W 9 -k 12 --fil_d 3 -y 3 -x 1 --pad_d 1 -p 1 --spatial_dim 3"
    + NDHWC,
    "conv -n 1 -c 1 -H 14 -W 14 -k 1 -y 3 -x 3 -p 1 -q 1" + NHWC,
    "conv -n 2 -c 1 -H 5 -W 1 -k 1 -y 3 -x 1 -p 1" + NHWC,
    "conv -n 1 -c 16 -H 1 -W 1 -k 32 -y 1 -x 1" + NHWC,
    *TRANSPOSED,
)
PROBLEMS = [problem for line in LINES for problem in parse(line)]


def run(
    toolchain: Toolchain,
    problems: list[Convolution],
    folder: Path,
    calls: tuple[str, ...],
    **more: str,
) -> Path:
    """Run problems in a log of their own."""
    environment = {f"MIOPEN_{name}": value for name, value in more.items()}
    options = ReplayOptions(CompileMode.CAPTURE, calls, environment=environment)
    result = replay(toolchain, find_gpu("gfx1030_36"), problems, options, folder)
    assert not [outcome for outcome in result.outcomes if outcome.error]
    return folder / "log"


@pytest.mark.parametrize("calls", [("immediate",), ("find",), ("immediate-all", "find-normal")])
def test_level_6_names_what_was_run(
    toolchain: Toolchain, tmp_path: Path, calls: tuple[str, ...]
) -> None:
    log = run(toolchain, PROBLEMS, tmp_path / "run", calls, LOG_LEVEL="6")
    assert list(load([str(log)])) == list(dict.fromkeys(map(untransposed, PROBLEMS)))
    keys = [find_db_key(problem) for problem in PROBLEMS]
    text = log.read_text(errors="replace")
    assert [key for key in keys if f"key {key} " not in text] == []


def test_level_6_with_commands_names_what_was_run(toolchain: Toolchain, tmp_path: Path) -> None:
    log = run(
        toolchain, PROBLEMS, tmp_path / "run", ("immediate", "find"),
        LOG_LEVEL="6", ENABLE_LOGGING_CMD="1", ENABLE_LOGGING_MPMT="1",
        ENABLE_LOGGING_ELAPSED_TIME="1",
    )  # fmt: skip
    assert list(load([str(log)])) == PROBLEMS


def test_level_5_names_what_find_was_asked_for(toolchain: Toolchain, tmp_path: Path) -> None:
    log = run(toolchain, PROBLEMS[:9], tmp_path / "run", ("find",), LOG_LEVEL="5")
    assert list(load([str(log)])) == PROBLEMS[:9]


def test_transposed_convolutions_have_the_kernels_of_their_keys(
    toolchain: Toolchain, tmp_path: Path
) -> None:
    problems = [problem for line in TRANSPOSED for problem in parse(line)]
    asked = []
    for name, ran in (("one", problems), ("other", [untransposed(p) for p in problems])):
        run(toolchain, ran, tmp_path / name, ("immediate-all", "find-normal"))
        (database,) = (tmp_path / name / "cache").rglob("*.ukdb")
        asked.append({(row.kernel_name, row.kernel_args) for row in read_ukdb_rows(database)})
    assert asked[0] == asked[1]
    assert len(asked[0]) > 3


def test_keys_of_the_find_dbs_that_come_with_it(toolchain: Toolchain) -> None:
    """What is not read is refused: a filter larger than its input, sizes that are not MIOpen's."""
    keys = []
    for path in sorted(Path(toolchain.system_db or "").glob("*.HIP.fdb.txt")):
        with path.open() as file:
            keys += [line.partition("=")[0] for line in itertools.islice(file, 200)]
    refused = 0
    for key in keys:
        try:
            problem = read_key(key)
        except (InputError, UnsupportedError):
            refused += 1
            continue
        assert problem is not None
        assert find_db_key(problem) == key
    assert len(keys) > 2000
    assert refused < len(keys) / 50
