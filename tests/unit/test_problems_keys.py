"""MIOpen's keys of convolutions: each is read as the problem that MIOpen has it for."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from test_problems_driver import problems

from kdbforge.errors import InputError, KdbforgeError, UnsupportedError
from kdbforge.model.problem import Convolution
from kdbforge.problems import find_db_key, parse
from kdbforge.problems.keys import read_key
from kdbforge.problems.transposed import as_logged, untransposed

#: Command, find-db key and network config, as libMIOpen 3.5.1 printed them for one call.
REAL = [
    (
        "conv -n 1 -c 16 -H 14 -W 15 -k 8 -y 3 -x 3 -p 1 -q 1 -F 1",
        "16-14-15-3x3-8-14-15-1-1x1-1x1-1x1-0-NCHW-FP32-F",
        "16x14x15x3x3x8x14x15x1xNCHWxFP32x1x1x1x1x1x1x1xFxDefault",
    ),
    (
        "conv -n 2 -c 16 -H 14 -W 14 -k 24 -y 5 -x 3 -p 2 -q 0 -u 2 -v 1 -F 2",
        "24-7-12-5x3-16-14-14-2-2x0-2x1-1x1-0-NCHW-FP32-B",
        "24x7x12x5x3x16x14x14x2xNCHWxFP32x2x0x2x1x1x1x1xBxDefault",
    ),
    (
        "conv -n 1 -c 16 -H 14 -W 14 -k 32 -y 3 -x 3 -p 2 -q 2 -l 2 -j 2 -g 4 -F 4",
        "32-14-14-3x3-16-14-14-1-2x2-1x1-2x2-0-NCHW-FP32-W_g4",
        "32x14x14x3x3x16x14x14x1xNCHWxFP32x2x2x1x1x2x2x4xWxDefault",
    ),
    (
        "convfp16 -n 1 -c 16 -H 14 -W 14 -k 32 -y 3 -x 3 -p 1 -q 1 -I NHWC -f NHWC -O NHWC -F 2",
        "32-14-14-3x3-16-14-14-1-1x1-1x1-1x1-0-NHWC-NHWC-NHWC-FP16-B",
        "32x14x14x3x3x16x14x14x1xNHWCxNHWCxNHWCxFP16x1x1x1x1x1x1x1xBxDefault",
    ),
    (
        "convint8 -n 1 -c 16 -H 14 -W 14 -k 32 -y 3 -x 3 -p 1 -q 1 -F 1",
        "16-14-14-3x3-32-14-14-1-1x1-1x1-1x1-0-NCHW-INT8INT8INT32-F",
        "16x14x14x3x3x32x14x14x1xNCHWxINT8INT8INT32x1x1x1x1x1x1x1xFxDefault",
    ),
    (
        "conv -n 1 -c 8 --in_d 6 -H 7 -W 9 -k 12 --fil_d 3 -y 3 -x 1 --pad_d 1 -p 1 -q 0"
        " --conv_stride_d 1 -u 2 -v 2 --spatial_dim 3 -F 4",
        "12-6-4-5-3x3x1-8-6-7-9-1-1x1x0-1x2x2-1x1x1-0-NCDHW-FP32-W",
        "12x6x4x5x3x3x1x8x6x7x9x1xNCDHWxFP32x1x1x0x1x2x2x1x1x1x1xWxDefault",
    ),
    (
        "conv -n 1 -c 8 --in_d 6 -H 7 -W 9 -k 12 --fil_d 3 -y 3 -x 1 --pad_d 1 -p 1 -q 0"
        " --spatial_dim 3 -I NDHWC -f NDHWC -O NDHWC -F 2",
        "12-6-7-9-3x3x1-8-6-7-9-1-1x1x0-1x1x1-1x1x1-0-NDHWC-NDHWC-NDHWC-FP32-B",
        "12x6x7x9x3x3x1x8x6x7x9x1xNDHWCxNDHWCxNDHWCxFP32x1x1x0x1x1x1x1x1x1x1xBxDefault",
    ),
    (
        "conv -n 1 -c 16 -H 7 -W 7 -k 8 -y 3 -x 3 -p 1 -q 1 -u 2 -v 2 -m trans -Y 1 -X 1 -g 4 -F 1",
        "16-7-7-3x3-8-14-14-1-1x1-2x2-1x1-0-NCHW-FP32-B_g4",
        "16x7x7x3x3x8x14x14x1xNCHWxFP32x1x1x2x2x1x1x4xBxDefault",
    ),
]


@pytest.mark.parametrize(("line", "key", "config"), REAL)
def test_real_keys(line: str, key: str, config: str) -> None:
    (problem,) = parse(line)
    assert find_db_key(problem) == key
    assert read_key(key) == read_key(config) == untransposed(problem)


@given(problems())
def test_problem_to_key_to_problem(problem: Convolution) -> None:
    assume(not (problem.dtype == "int8" and problem.transposed))  # runs backwards
    key = find_db_key(problem)
    found = read_key(key)
    assert found == untransposed(problem)


def test_layouts_guessed_from_strides() -> None:
    """An NHWC problem whose filter's channel is 1 long, with each name as MIOpen may print it."""
    names = ("NHWC-NCHW-NHWC", "NHWC-NHWC-NHWC")
    found = {read_key(f"1-5-6-1x1-4-5-6-2-0x0-1x1-1x1-0-{name}-FP32-F") for name in names}
    (problem,) = found
    assert problem is not None
    assert problem.layout == "NHWC"


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("16-9-9-3x3-8-9-9-1-1x1-1x1-1x1-0-NCHW-FP32-F_ciFP8_cwFP8", "`_ciFP8_cwFP8`"),
        ("16x9x9x3x3x8x9x9x1xNCHWxFP32xciFP8cwBF8x1x1x1x1x1x1x1xFxDefault", "`ciFP8cwBF8`"),
        ("16-9-9-3x3-8-9-9-1-1x1-1x1-1x1-0-NCHW-FP8FP8FP32-F", "Data types `FP8FP8FP32`"),
        ("16-9-9-3x3-8-9-9-1-1x1-1x1-1x1-0-NCHW-INT8-F", "Data types `INT8` in a key, fwd"),
        ("16-9-9-3x3-8-9-9-1-1x1-1x1-1x1-0-NCHW-INT8INT8INT32-B", "Data types `INT8INT8INT32`"),
        ("16-9-9-3x3-8-9-9-1-1x1-1x1-1x1-1-NCHW-FP32-F", "bias"),
        ("16-9-9-3x3-8-9-9-1-1x1-1x1-1x1-0-NCHWc-FP16-F", "Layout `NCHWc`"),
        ("16-9-9-3x3-8-9-9-1-1x1-1x1-1x1-0-NHWC-NCHW-NCHW-FP32-F", "Layout `NHWC-NCHW-NCHW`"),
        ("16-9-9-3x3-8-9-9-1-1x1-1x1-1x1-0-CHWN-CHWN-CHWN-FP32-F", "Layout `CHWN-CHWN-CHWN`"),
        ("512-2-7-7-3x3x3-512-2-7-7-4-1x1x1-1x1x1-1x1x1-0-NCHW-FP32-F", "Layout `NCHW`"),
        ("16x9x9x3x3x8x9x9x1xNCHWxFP32x1x1x1x1x1x1x1xFxBilinear", "`Bilinear` of alpha and beta"),
        ("3-1-1-3x3-4-2-2-16-0x0-2x2-1x1-0-NCHW-BF16-W", "does not fit the input"),
        ("16-9-9-3x3-8-9-9-1-1x1-1x1-1x1-0-NCHW-FP32-F_g3", "3 groups do not divide"),
    ],
)
def test_keys_that_are_not_supported(key: str, message: str) -> None:
    with pytest.raises(UnsupportedError) as caught:
        read_key(key)
    assert message in caught.value.message


@pytest.mark.parametrize(
    "key",
    [
        "16-14-15-3x3-8-14-16-1-1x1-1x1-1x1-0-NCHW-FP32-F",  # another output size
        "16-14-15-3x3-8-14-15-1-1x1-1x1-1x1-0-NCHW-FP32-",
        "16-14-15-3x3-8-14-15-1-1x1-1x1-1x1-0-NCHW-FP32-F_g",
        "16-14-15-3x3-8-14-15-1-1x1-1x1-0-NCHW-FP32-F",
        "16-14-15-3x3-8-1416-14-15-3x3-8-14-15-1-1x1-1x1-1x1-0-NCHW-FP32-F",
        "16-14-15-3x3-8-14-15-1-1x1-1x1-1x1-0-NCHW-FP32-FMIOpen",
        "16-14-15-3x3-8-14-15-99999999999-1x1-1x1-1x1-0-NCHW-FP32-F",
    ],
)
def test_damaged_keys(key: str) -> None:
    with pytest.raises(InputError) as caught:
        read_key(key)
    assert not isinstance(caught.value, UnsupportedError)


@pytest.mark.parametrize(
    "key",
    [
        "16x1x14x14x2xNCHWxNCHWxFP32xFP32xFP32xFP32xFP32xFP32x0xInfx1x0",  # batch normalisation
        "2x16x14x14x1x3x3x1x8x2x1x1x0x1x1x0x1x1x0x0x1xNCHWxFP32xF",  # perf-db: no output size
        "m1_dt1_ker2x2_str2x2_pad0x0_it0_im0_is0_xd2x16x14x14",
        "16x14x14x3x3x8x14x14x2xNCHWxFP32x1x1x1x1x1x1x1xFxDefaultbiasOnActivFwd3",
        "",
    ],
)
def test_other_keys(key: str) -> None:
    assert read_key(key) is None


_PIECES = st.sampled_from([*"0123456789-xFBWgc_", "NCHW", "NDHWC", "FP32", "INT8", "Default"])


@given(st.sampled_from(REAL), st.integers(0, 60), st.lists(_PIECES, max_size=4))
def test_no_key_raises_anything_else(
    real: tuple[str, str, str], cut: int, pieces: list[str]
) -> None:
    for text in real[1:]:
        changed = text[:cut] + "".join(pieces) + text[cut + len(pieces) :]
        with contextlib.suppress(KdbforgeError):
            problem = read_key(changed)
            assert problem is None or "-" not in changed or find_db_key(problem) == changed


# Output pads, which commands do not have.

_LINE = "conv -n 1 -c 16 -H 7 -W 7 -k 8 -y 3 -x 3 -p 1 -q 1 -u 2 -v 2 -m trans -g 4 -F"


def test_output_pads_come_from_keys() -> None:
    (logged,) = parse(f"{_LINE} 1")
    (meant,) = parse(f"{_LINE} 1 -Y 1")
    assert as_logged([logged], {untransposed(meant)}) == {
        logged: meant,
        untransposed(meant): meant,
    }


def test_both_without_and_with_output_pads() -> None:
    (logged,) = parse(f"{_LINE} 1")
    (padded,) = parse(f"{_LINE} 1 -Y 1 -X 1")
    keyed = {untransposed(logged), untransposed(padded)}
    assert as_logged([logged], keyed) == {
        untransposed(logged): logged,
        untransposed(padded): padded,
    }


def test_keys_of_other_problems_are_left_alone() -> None:
    (logged,) = parse(f"{_LINE} 1")
    (other,) = parse(f"{_LINE} 2")
    (larger,) = parse(f"{_LINE} 1".replace("-W 7", "-W 8"))  # two wider: more than an output pad
    keyed = {untransposed(other), untransposed(larger)}
    assert as_logged([logged], keyed) == {}
