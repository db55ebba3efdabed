"""MIOpenDriver command lines: what is read, what is refused and with which words."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from kdbforge.errors import InputError, KdbforgeError, UnknownNameError, UnsupportedError
from kdbforge.model.problem import DIRECTIONS, DTYPES, LAYOUTS, Convolution
from kdbforge.problems import check, driver_line, parse
from kdbforge.problems.commands import REFUSED
from kdbforge.problems.convolution import FLAGS
from kdbforge.problems.layouts import tensor_lengths, written_layout

#: What `MIOpenDriver conv -F 1` means: the driver's own defaults.
DEFAULT = Convolution(
    dtype="fp32",
    direction="fwd",
    layout="NCHW",
    batch=100,
    in_channels=3,
    out_channels=32,
    in_size=(32, 32),
    filter_size=(3, 3),
    pads=(0, 0),
    strides=(1, 1),
    dilations=(1, 1),
)
DEFAULT_3D = dataclasses.replace(
    DEFAULT,
    layout="NCDHW",
    in_size=(32, 32, 32),
    filter_size=(3, 3, 3),
    pads=(0, 0, 0),
    strides=(1, 1, 1),
    dilations=(1, 1, 1),
)


def one(line: str) -> Convolution:
    (problem,) = parse(line)
    return problem


def test_defaults_are_the_drivers() -> None:
    assert parse("MIOpenDriver conv") == [
        dataclasses.replace(DEFAULT, direction=direction) for direction in DIRECTIONS
    ]
    assert one("conv -F 1 -_ 3") == DEFAULT_3D


@pytest.mark.parametrize(
    ("command", "dtype"),
    [("conv", "fp32"), ("convfp16", "fp16"), ("convbfp16", "bf16"), ("convint8", "int8")],
)
def test_command_is_dtype(command: str, dtype: str) -> None:
    assert one(f"{command} -F 1").dtype == dtype


FULL_2D = dataclasses.replace(
    DEFAULT,
    batch=4,
    in_channels=16,
    out_channels=8,
    in_size=(14, 15),
    filter_size=(5, 4),
    pads=(2, 1),
    strides=(2, 3),
    dilations=(1, 2),
    groups=2,
    layout="NHWC",
)
FULL_3D = dataclasses.replace(
    FULL_2D,
    layout="NDHWC",
    in_size=(9, 14, 15),
    filter_size=(3, 5, 4),
    pads=(1, 2, 1),
    strides=(2, 2, 3),
    dilations=(2, 1, 2),
)


@pytest.mark.parametrize(
    "line",
    [
        "conv -n 4 -c 16 -H 14 -W 15 -k 8 -y 5 -x 4 -p 2 -q 1 -u 2 -v 3 -l 1 -j 2 -g 2"
        " -I NHWC -O NHWC -f NHWC -m conv -F 1 -_ 2",
        "conv --batchsize 4 --in_channels 16 --in_h 14 --in_w 15 --out_channels 8 --fil_h 5"
        " --fil_w 4 --pad_h 2 --pad_w 1 --conv_stride_h 2 --conv_stride_w 3 --dilation_h 1"
        " --dilation_w 2 --group_count 2 --in_layout nhwc --out_layout nhwc --fil_layout nhwc"
        " --mode conv --forw 1 --spatial_dim 2",
    ],
)
def test_all_2d_flags(line: str) -> None:
    assert one(line) == FULL_2D


@pytest.mark.parametrize(
    "line",
    [
        "conv -n 4 -c 16 -! 9 -H 14 -W 15 -k 8 -@ 3 -y 5 -x 4 -$ 1 -p 2 -q 1 -# 2 -u 2 -v 3"
        " -^ 2 -l 1 -j 2 -g 2 -I NDHWC -O NDHWC -f NDHWC -F 1 -_ 3",
        "conv '-n' 4 -c \"16\" '-!' 9 -H 14 -W 15 -k 8 -\\@ 3 -y 5 -x 4 '-$' 1 -p 2 -q 1 '-#' 2"
        " -u 2 -v 3 --dilation_d 2 -l 1 -j 2 -g 2 -I NDHWC -O NDHWC -f NDHWC -F 1 -_ 3",
        "conv -n 4 -c 16 --in_d 9 -H 14 -W 15 -k 8 --fil_d 3 -y 5 -x 4 --pad_d 1 -p 2 -q 1"
        " --conv_stride_d 2 -u 2 -v 3 --dilation_d 2 -l 1 -j 2 --spatial_dim 3"
        " --in_layout NDHWC --fil_layout NDHWC --out_layout NDHWC -m conv -g 2 -F 1 -t 1",
    ],
)
def test_all_3d_flags(line: str) -> None:
    assert one(line) == FULL_3D


def test_depth_flags_say_nothing_in_2d() -> None:
    line = "conv -F 1 --in_d 1 --fil_d 1 --pad_d 7 --conv_stride_d 2 --dilation_d 4 -_ 2"
    assert one(line) == DEFAULT


@pytest.mark.parametrize(
    ("mask", "directions"),
    [
        (0, ["fwd", "bwd", "wrw"]),
        (1, ["fwd"]),
        (2, ["bwd"]),
        (3, ["fwd", "bwd"]),
        (4, ["wrw"]),
        (5, ["fwd", "wrw"]),
        (6, ["bwd", "wrw"]),
        (7, ["fwd", "bwd", "wrw"]),
    ],
)
def test_forw_is_a_mask(mask: int, directions: list[str]) -> None:
    assert [problem.direction for problem in parse(f"conv -F {mask}")] == directions


def test_int8_is_forward_only() -> None:
    assert [problem.direction for problem in parse("MIOpenDriver convint8")] == ["fwd"]
    with pytest.raises(InputError, match="no int8 convolution in direction `bwd`"):
        parse("convint8 -F 3")


def test_the_last_of_repeated_flags_wins() -> None:
    assert one("conv -n 1 -F 2 --batchsize 2 -n 3 -F 1").batch == 3


def test_zero_groups_are_one() -> None:
    assert one("conv -F 1 -g 0") == DEFAULT


def test_depthwise() -> None:
    problem = one("convfp16 -n 1 -c 96 -H 56 -W 56 -k 96 -g 96 -p 1 -q 1 -F 1")
    assert problem.groups == 96
    assert problem.out_size == (56, 56)


def test_transposed() -> None:
    problem = one("conv -m trans -n 1 -c 8 -k 4 -H 10 -W 12 -u 2 -v 2 -p 1 -q 1 -Y 1 -X 0 -F 1")
    assert problem.transposed
    assert problem.output_pads == (1, 0)
    assert problem.out_size == (20, 23)
    assert one("conv -m trans -F 1 -Y 0 -X 0").output_pads == ()
    assert one("conv -m conv -F 1 -Y 1 -X 1") == DEFAULT  # the driver ignores them there


@pytest.mark.parametrize(
    ("flags", "pads"),
    [
        ("-z default", (5, 6)),
        ("-z valid", (0, 0)),
        ("-z same", (1, 2)),  # 32 % 1 == 0: (filter - stride) / 2
        ("-z same -u 2 -v 2 -H 33", (1, 1)),  # 33 % 2 == 1: (3 - 1) / 2; 32 % 2 == 0: (5 - 2) / 2
        ("-z same -u 8 -v 8", (0, 0)),
        ("-z valid -l 2", (5, 6)),  # with dilation the driver leaves the pads alone
        ("-z valid -m trans", (5, 6)),
        ("-z same -y 1 -x 1 -l 2", (0, 0)),
    ],
)
def test_pad_modes(flags: str, pads: tuple[int, int]) -> None:
    assert one(f"conv -F 1 -p 5 -q 6 -y 3 -x 5 {flags}").pads == pads


def test_flags_that_change_no_convolution_are_ignored() -> None:
    line = (
        "conv -F 1 -V 0 -i 1 -t 1 -w 2 -s 1 -P 0 -o 1 -d in.bin -e w.bin -a b.bin -D dy.bin"
        " -C /var/cache -b 1 -S ConvDirectNaiveConvFwd -G 1 -r 3 -U -1 -T -1 -R -1 -Z 0 -L 1"
        " -& 1 -N 1 -~ 2"
    )
    assert one(line) == DEFAULT
    assert one("conv -F 1 -S -1") == DEFAULT


def test_every_flag_of_the_driver_is_known() -> None:
    assert len(FLAGS) == 53
    assert "".join(sorted(flag.short for flag in FLAGS.values())) == "".join(
        sorted("IOf_Fnc!HWk@yx#uv$pqr%YXiVCtwsPodebmzZL^ljagDSGUTR&N~")
    )


@pytest.mark.parametrize(
    "line",
    [
        "conv -n 7 -F 1",
        "  conv\t-n 7   -F 1\r\n",
        "MIOpenDriver conv -n 7 -F 1",
        "./bin/MIOpenDriver conv -n 7 -F 1",
        "/opt/rocm/bin/MIOpenDriver conv -n 7 -F 1",
        '"/opt/my rocm/bin/MIOpenDriver" conv -n 7 -F 1',
        "C:\\rocm\\bin\\MIOpenDriver.exe conv -n 7 -F 1",
        "MIOPEN_FIND_MODE=1 HIP_VISIBLE_DEVICES=0 ./bin/MIOpenDriver conv -n 7 -F 1",
        "A=1 conv -n 7 -F 1",
        "$ ./bin/MIOpenDriver conv -n 7 -F 1",
        "+ time ./MIOpenDriver conv -n 7 -F 1",
        "srun -N 1 numactl -m 0 ./MIOpenDriver conv -n 7 -F 1",
        "conv -n 7 -F 1 # the first layer",
        "conv -n 7 -F 1 #-n 8",
        "MIOpen(HIP): Command [LogCmdConvolution] ./bin/MIOpenDriver conv -n 7 -F 1",
        "MIOpen(HIP): Command [LogCmdFindConvolution] ./bin/MIOpenDriver conv -n 7 -F 1 -t 1",
        "4711 140213 MIOpen(HIP)  12.345: Command [LogCmdConvolution] ./bin/MIOpenDriver"
        " conv -n 7 -F 1 -t 1 -S 0",
        "2026-02-03T10:11:12Z worker-3 | MIOpen(HIP): Command [LogCmdConvolution]"
        " MIOpenDriver.exe conv -n 7 -F 1",
        "[rank0]: running ./bin/MIOpenDriver conv -n 7 -F 1",
    ],
)
def test_ways_to_write_a_command(line: str) -> None:
    assert one(line) == dataclasses.replace(DEFAULT, batch=7)


@pytest.mark.parametrize("line", ["", "   ", "\r\n", "# MIOpenDriver conv", "  #conv -n 1"])
def test_blank_lines_and_comments(line: str) -> None:
    assert parse(line) == []


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("conv -n", "Flag `-n/--batchsize` has no value"),
        ("conv -n -c 3", "Flag `-n/--batchsize` has no value: `-c` follows"),
        ("conv -n 0", "`0` of flag `-n/--batchsize` is not a whole number from 1"),
        ("conv -H -56", "`-56` of flag `-H/--in_h` is not a whole number from 1"),
        ("conv -p -1", "`-1` of flag `-p/--pad_h` is not a whole number from 0"),
        ("conv -g -2", "`-2` of flag `-g/--group_count` is not a whole number from 0"),
        ("conv -u 0", "`0` of flag `-u/--conv_stride_h` is not a whole number from 1"),
        ("conv -l 0", "`0` of flag `-l/--dilation_h` is not a whole number from 1"),
        ("conv -k many", "`many` of flag `-k/--out_channels` is not a whole number from 1"),
        ("conv -k 3.5", "`3.5` of flag `-k/--out_channels` is not a whole number from 1"),
        ("conv -k 3x", "`3x` of flag `-k/--out_channels` is not a whole number from 1"),
        ("conv -k \u0663", "`\u0663` of flag `-k/--out_channels` is not a whole number from 1"),
        ("conv -V yes", "`yes` of flag `-V/--verify` is not a whole number"),
        ("conv -n 2147483648", "`2147483648` of flag `-n/--batchsize` is larger than 2147483647"),
        (
            "conv -n " + "9" * 5000,
            "`" + "9" * 157 + "...` of flag `-n/--batchsize` is larger than 2147483647",
        ),
        ("conv -B 1", "Unknown flag `-B`"),
        ("conv --batch 1", "Unknown flag `--batch`"),
        ("conv --batchsize=1", "Unknown flag `--batchsize=1`"),
        ("conv -n1 -c 3", "Unknown flag `-n1`"),
        ("conv -h 1", "Unknown flag `-h`"),
        ("conv -n 1 - 1", "`-` stands where a flag is expected"),
        ("conv -n 1 2>&1", "`2>&1` stands where a flag is expected"),
        ("conv -n 1 && conv -n 2", "`&&` stands where a flag is expected"),
        ("conv -F 8", "`8` of flag `-F/--forw` is not between 0 and 7"),
        ("conv -F -1", "`-1` of flag `-F/--forw` is not between 0 and 7"),
        ("conv -_ 1", "`1` of flag `-_/--spatial_dim` is neither 2 nor 3"),
        ("conv -m deconv", "`deconv` of flag `-m/--mode` is not one of `conv`, `trans`"),
        (
            "conv -z full",
            "`full` of flag `-z/--pad_mode` is not one of `default`, `same`, `valid`",
        ),
        (
            "conv -I nhwc",
            "Layout `nhwc` of flag `-I/--in_layout` is not one for 2 spatial dimensions, "
            "`NCHW` or `NHWC`",
        ),
        (
            "conv -I NHWC -O NHWC -f NHWC -_ 3",
            "Layout `NHWC` of flag `-I/--in_layout` is not one for 3 spatial dimensions, "
            "`NCDHW` or `NDHWC`",
        ),
        (
            "conv --in_layout NHWC",
            "Mixed layouts: `NHWC` of `-I/--in_layout`, `NCHW` of `-f/--fil_layout`, "
            "`NCHW` of `-O/--out_layout`",
        ),
        ("conv -c 3 -g 2", "2 groups do not divide the 3 input channels"),
        ("conv -c 4 -k 6 -g 4", "4 groups do not divide the 6 output channels"),
        (
            "conv -H 4 -y 7 -p 1",
            "Filter 7x3 does not fit the input 4x32 with pads 1x0 and dilations 1x1: "
            "the output would be 0x30",
        ),
        (
            "conv -H 2 -u 2",  # MIOpen computes -1 / 2 + 1 = 1 here
            "Filter 3x3 does not fit the input 2x32 with pads 0x0 and dilations 1x1: "
            "the output would be 0x30",
        ),
        (
            "conv -m trans -H 1 -p 2",
            "Filter 3x3 does not fit the input 1x32 with pads 2x0 and dilations 1x1: "
            "the output would be -1x34",
        ),
        ("conv -m trans -u 2 -Y 2", "Output pad `2` is not below its stride `2`"),
        (
            "conv -n 100000 -c 100000 -H 100000 -W 100000",
            "Input tensor of 100,000,000,000,000,000,000 elements is larger than any GPU's memory",
        ),
        (
            "conv -n 1 -c 1000000 -k 1000000 -y 1 -x 1 -H 1 -W 1",
            "Filter tensor of 1,000,000,000,000 elements is larger than any GPU's memory",
        ),
        (
            "conv -n 1 -c 1 -k 1 -p 1000000 -q 1000000",
            "Output tensor of 4,000,120,000,900 elements is larger than any GPU's memory",
        ),
        ("conv -p 2000000000", "Output size 4000000030x30 is larger than 2147483647"),
        ("conv -L 3", "`0` of flag `-Z/--tensor_vect` and `3` of flag `-L/--vector_length` "
         "do not go together"),
        ("conv -U fp64", "`fp64` of flag `-U/--in_cast_type` is not one of `-1`, `fp32`, "
         "`fp16`, `bf16`, `fp8`, `bf8`"),
        ("MIOpenDriver conv '-n 1", "The quote ' is not closed"),
        ("hello world", "`hello world` is not a MIOpenDriver command line"),
        ("MIOpenDriver", "`MIOpenDriver` is not a MIOpenDriver command line"),
        ("conv", "`conv` is not a MIOpenDriver command line"),
        ("MIOpen(HIP): Command [LogCmdConvolution] ./bin/MIOpenDriver",
         "The command in the log has no name"),
    ],
)  # fmt: skip
def test_bad_lines(line: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        parse(line)
    assert caught.value.message == message
    assert caught.value.exit_code == 2
    assert not isinstance(caught.value, UnsupportedError)
    assert caught.value.context[0].startswith(line.strip()[:150])


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("conv --batchsize=1", "write it like `--batchsize VALUE`"),
        ("conv -batchsize 1", "did you mean `--batchsize`?"),
        ("conv -n1", "write it like `-n VALUE`"),
        ("conv --out_chanels 1", "did you mean `--out_channels`, `--in_channels`?"),
        ("conv --qqq 1", None),
    ],
)
def test_hints_for_unknown_flags(line: str, hint: str | None) -> None:
    with pytest.raises(InputError) as caught:
        parse(line)
    assert caught.value.hint == hint


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("MIOpenDriver convfp64 -n 1", "convfp64"),
        ("MIOpenDriver convfp64", "convfp64"),
        ("MIOpenDriver --version", "--version"),
        ("MIOpen(HIP): Command [X] ./bin/MIOpenDriver convbf16 -n 1", "convbf16"),
        ("convbf16 -n 1", "convbf16"),
    ],
)
def test_unknown_commands(line: str, name: str) -> None:
    with pytest.raises(UnknownNameError) as caught:
        parse(line)
    assert caught.value.message == f"Unknown MIOpenDriver command `{name}`"
    assert caught.value.context == (line,)
    if name == "convbf16":
        assert caught.value.hint is not None
        assert "`convbfp16`" in caught.value.hint


@pytest.mark.parametrize("command", REFUSED)
def test_commands_that_are_not_supported(command: str) -> None:
    with pytest.raises(UnsupportedError) as caught:
        parse(f"./bin/MIOpenDriver {command} -n 1")
    assert caught.value.message == (
        f"The MIOpenDriver command `{command}` is not supported: {REFUSED[command]}"
    )
    assert caught.value.context == (f"./bin/MIOpenDriver {command} -n 1",)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (
            "-Z 1 -L 4",
            "Vectorised tensors (`-Z/--tensor_vect` 1, `-L/--vector_length` 4) are not supported",
        ),
        ("-U fp8", "The cast `fp8` of flag `-U/--in_cast_type` is not supported"),
        ("--wei_cast_type bf8", "The cast `bf8` of flag `-R/--wei_cast_type` is not supported"),
        ("-T fp16", "The cast `fp16` of flag `-T/--out_cast_type` is not supported"),
        ("-I CHWN", "Layout `CHWN` is not supported"),
    ],
)
def test_flags_that_are_not_supported(flags: str, message: str) -> None:
    with pytest.raises(UnsupportedError) as caught:
        parse(f"conv {flags}")
    assert caught.value.message == message


def test_errors_can_be_printed() -> None:
    with pytest.raises(InputError) as caught:
        parse("conv -n \x1b[31mred\x07" + "x" * 1000)
    text = caught.value.message + "".join(caught.value.context)
    assert text.isprintable()
    assert len(text) < 500


# Layouts in logs: what MIOpen 3.5 wrote for NHWC convolutions with lengths of 1.


@pytest.mark.parametrize(
    "flags",
    [
        "-n 1 -c 1 -H 32 -W 32 -k 1 -y 1 -x 1 --in_layout NHWC --out_layout NHWC",
        "-n 1 -c 8 -H 32 -W 32 -k 8 -y 1 -x 1 --in_layout NHWC --out_layout NHWC -g 8",
        "-n 1 -c 8 -H 32 -W 32 -k 8 -y 3 -x 1 --in_layout NHWC --fil_layout NHCW"
        " --out_layout NHWC -g 8",
    ],
)
def test_layouts_that_strides_do_not_tell(flags: str) -> None:
    logged = f"MIOpen(HIP): Command [LogCmdConvolution] ./bin/MIOpenDriver conv {flags} -F 1"
    assert one(logged).layout == "NHWC"


def test_layouts_that_strides_do_tell_must_agree() -> None:
    with pytest.raises(InputError, match="Mixed layouts"):
        parse("conv -c 2 -y 1 -x 1 --in_layout NHWC --out_layout NHWC")
    with pytest.raises(InputError, match="Layout `NHCW` of flag `-f/--fil_layout` is not one"):
        parse("conv -c 2 -y 3 -x 1 -I NHWC -f NHCW -O NHWC")


# Canonical lines.


def test_canonical_lines() -> None:
    assert driver_line(DEFAULT) == (
        "MIOpenDriver conv -n 100 -c 3 -H 32 -W 32 -k 32 -y 3 -x 3 -p 0 -q 0 -u 1 -v 1 -l 1 -j 1"
        " -m conv -g 1 -F 1"
    )
    assert driver_line(dataclasses.replace(FULL_3D, dtype="bf16", direction="wrw")) == (
        "MIOpenDriver convbfp16 -n 4 -c 16 --in_d 9 -H 14 -W 15 -k 8 --fil_d 3 -y 5 -x 4"
        " --pad_d 1 -p 2 -q 1 --conv_stride_d 2 -u 2 -v 3 --dilation_d 2 -l 1 -j 2"
        " --spatial_dim 3 --in_layout NDHWC --fil_layout NDHWC --out_layout NDHWC"
        " -m conv -g 2 -F 4"
    )


@st.composite
def problems(draw: st.DrawFn) -> Convolution:
    """Any problem that `check` accepts."""
    dims = draw(st.sampled_from([2, 3]))

    def sizes(least: int, most: int) -> tuple[int, ...]:
        return tuple(draw(st.integers(least, most)) for _ in range(dims))

    dtype = draw(st.sampled_from(DTYPES))
    groups = draw(st.integers(1, 8))
    transposed = draw(st.booleans())
    strides = sizes(1, 4)
    output_pads = tuple(draw(st.integers(0, step - 1)) for step in strides)
    problem = Convolution(
        dtype=dtype,
        direction="fwd" if dtype == "int8" else draw(st.sampled_from(DIRECTIONS)),
        layout=draw(st.sampled_from(LAYOUTS[dims])),
        batch=draw(st.integers(1, 128)),
        in_channels=groups * draw(st.integers(1, 32)),
        out_channels=groups * draw(st.integers(1, 32)),
        in_size=sizes(1, 24),
        filter_size=sizes(1, 7),
        pads=sizes(0, 4),
        strides=strides,
        dilations=sizes(1, 3),
        groups=groups,
        transposed=transposed,
        output_pads=output_pads if transposed and any(output_pads) else (),
    )
    assume(min(problem.out_size) >= 1)
    return problem


@given(problems())
def test_round_trip(problem: Convolution) -> None:
    check(problem)
    assert parse(driver_line(problem)) == [problem]


@given(problems())
def test_layouts_as_miopen_writes_them(problem: Convolution) -> None:
    """MIOpen logs the layouts that it sees in the strides; the problem is found again."""
    words = driver_line(dataclasses.replace(problem, layout=LAYOUTS[problem.spatial_dims][0]))
    for tensor, lengths in tensor_lengths(problem).items():
        words += f" --{tensor}_layout {written_layout(problem.layout, lengths)}"
    (found,) = parse(words)
    if found.layout == problem.layout:
        assert found == problem
    else:  # nothing in the strides tells them apart
        for lengths in tensor_lengths(problem).values():
            assert written_layout(problem.layout, lengths) == found.layout


@given(problems())
def test_logged_lines_mean_the_same(problem: Convolution) -> None:
    if problem.transposed:  # see test_logged_transposed_groups
        problem = dataclasses.replace(problem, groups=1)
    logged = f"MIOpen(HIP): Command [LogCmdConvolution] ./bin/{driver_line(problem)} -t 1 -S 0"
    assert parse(logged) == [problem]


def test_logged_transposed_groups() -> None:
    """What MIOpen 3.5.1 logs for `conv -c 6 -k 3 -g 3 -m trans` in NHWC: -k is of one group."""
    line = (
        "./bin/MIOpenDriver conv -n 2 -c 6 -H 4 -W 4 -k 1 -y 1 -x 1 -p 0 -q 0 -u 1 -v 1 -l 1 -j 1"
        " --in_layout NHWC --out_layout NHWC -m trans -g 3 -F 1 -t 1"
    )
    problem = one(f"MIOpen(HIP): Command [LogCmdFindConvolution] {line}")
    assert (problem.out_channels, problem.groups, problem.layout) == (3, 3, "NHWC")
    with pytest.raises(InputError, match="3 groups do not divide the 1 output channels"):
        parse(line.replace("NHWC", "NCHW"))


def assert_only_known_errors(line: str) -> None:
    """Assert that the line is read or refused properly."""
    error, found = None, []
    try:
        found = parse(line)
    except KdbforgeError as caught:
        error = caught
    assert error is None or (error.message and error.context)
    for problem in found:
        assert parse(driver_line(problem)) == [problem]


@given(st.text())
def test_no_text_raises_anything_else(text: str) -> None:
    assert_only_known_errors(text)


_PIECES = st.sampled_from(
    [
        *(f"-{flag.short}" for flag in FLAGS.values()),
        *(f"--{flag.long}" for flag in FLAGS.values()),
        *("conv", "convint8", "pool", "MIOpenDriver", "MIOpen(HIP):", "Command [X]", "#", "'", '"'),
        *("0", "1", "2", "3", "7", "-1", "64", "99999999999999999999999", "NHWC", "trans", "\\"),
        *("same", "A=1", "\0", "é", "-", "--"),
    ]
)


@given(st.lists(_PIECES, max_size=16), st.sampled_from(["conv", "./bin/MIOpenDriver conv", ""]))
def test_no_words_raise_anything_else(words: list[str], start: str) -> None:
    assert_only_known_errors(" ".join([start, *words]))


@given(st.lists(st.tuples(_PIECES, st.integers(-3, 2**33).map(str)), max_size=8))
def test_no_values_raise_anything_else(pairs: list[tuple[str, str]]) -> None:
    assert_only_known_errors(" ".join(["conv", *(word for pair in pairs for word in pair)]))


# Problems that no driver line made.


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"dtype": "fp64"},
            "`fp64` is not a dtype, which can be `fp32`, `fp16`, `bf16`, `int8`",
        ),
        ({"direction": "up"}, "`up` is not a direction, which can be `fwd`, `bwd`, `wrw`"),
        (
            {"layout": "NDHWC"},
            "`NDHWC` is not a layout for 2 spatial dimensions, which can be `NCHW`, `NHWC`",
        ),
        ({"in_size": (32,)}, "`NCHW` is not a layout for 1 spatial dimensions, which do not exist"),
        ({"pads": (0,)}, "Pads 0 must have 2 values"),
        ({"batch": 0}, "`0` in batch is not between 1 and 2147483647"),
        ({"groups": 2**31}, "`2147483648` in groups is not between 1 and 2147483647"),
        ({"output_pads": (0, 1)}, "Output pads are for transposed convolutions only"),
    ],
)
def test_check(change: dict[str, object], message: str) -> None:
    with pytest.raises(InputError) as caught:
        check(dataclasses.replace(DEFAULT, **change))
    assert caught.value.message == message
