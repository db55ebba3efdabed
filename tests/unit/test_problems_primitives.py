"""Problem lines of all primitives but convolution: reading, defaults, refusals, round trips."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kdbforge.errors import InputError
from kdbforge.model.problem import Operation
from kdbforge.problems import driver_line, parse
from kdbforge.problems.flags import Flag, Take
from kdbforge.problems.primitives import COMMANDS, PRIMITIVES

LOGGED_BNORM = (
    "MIOpen(HIP): Command [LogCmdBNorm] ./bin/MIOpenDriver bnorm -n 1 -c 2 -H 3 -W 3 -m 1 {} "
    "--layout NCHW"
)


def operations(line: str) -> list[Operation]:
    found = parse(line)
    assert all(isinstance(problem, Operation) for problem in found)
    return found  # type: ignore[return-value]


def one(line: str) -> dict[str, str]:
    (problem,) = operations(line)
    return dict(problem.arguments)


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_defaults_of_every_command_make_problems_that_come_back(command: str) -> None:
    found = operations(f"MIOpenDriver {command}")
    assert found
    primitive, dtype = COMMANDS[command]
    for problem in found:
        assert (problem.primitive, problem.dtype) == (primitive.name, dtype)
        assert operations(driver_line(problem)) == [problem]


VALUES = {
    Take.SIZE: st.integers(1, 64).map(str),
    Take.PAD: st.integers(0, 3).map(str),
    Take.NUMBER: st.integers(0, 2).map(str),
    Take.REAL: st.floats(-4, 4, width=32).map(repr),
    Take.TEXT: st.just("x"),
    Take.SIZES: st.lists(st.integers(1, 64).map(str), min_size=1, max_size=5).map(",".join),
    Take.AXES: st.sets(st.integers(0, 3).map(str), min_size=1).map(lambda s: ",".join(sorted(s))),
    Take.TENSOR: st.lists(st.integers(1, 64).map(str), min_size=2, max_size=5).map("x".join),
}


def value_of(flag: Flag) -> st.SearchStrategy[str]:
    return st.sampled_from(flag.choices) if flag.choices else VALUES[flag.take]


@st.composite
def lines(draw: st.DrawFn) -> str:
    command = draw(st.sampled_from(sorted(COMMANDS)))
    words = [command]
    flags = list(COMMANDS[command][0].flags.values())
    for flag in draw(st.lists(st.sampled_from(flags), unique=True, max_size=6)):
        name = f"-{flag.short}" if draw(st.booleans()) else f"--{flag.long}"
        value = draw(value_of(flag))
        words += [name, value] if value else []
    return "MIOpenDriver " + " ".join(words)


@settings(max_examples=400)
@given(lines())
def test_what_is_read_comes_back_from_its_line(line: str) -> None:
    with contextlib.suppress(InputError):  # values that do not go together
        for problem in operations(line):
            assert operations(driver_line(problem)) == [problem]


@settings(max_examples=200)
@given(st.sampled_from(sorted(COMMANDS)), st.text(max_size=12), st.text(max_size=12))
def test_anything_else_is_an_error_of_ours(command: str, flag: str, value: str) -> None:
    with contextlib.suppress(InputError):
        parse(f"MIOpenDriver {command} -{flag} {value}")


def test_flags_of_one_command_do_not_clash() -> None:
    for primitive in PRIMITIVES.values():
        shorts = [flag.short for flag in primitive.flags.values()]
        assert len(shorts) == len(set(shorts)), primitive.name


def test_lines_that_ask_for_the_same_are_one_problem() -> None:
    first = parse("MIOpenDriver activ -n 2 -c 8 -A 1 -i 5 -V 0 -t 1 -F 1")
    assert first == parse("MIOpenDriver activ --in_channels 8 --batchsize 2 --alpha 1.0 -F 1")


def test_all_directions_are_divided() -> None:
    assert [dict(p.arguments)["forw"] for p in operations("MIOpenDriver rnn -F 0")] == list("124")
    assert [dict(p.arguments)["forw"] for p in operations("MIOpenDriver softmax")] == ["1", "2"]


def test_inference_has_no_backward_pass() -> None:
    assert one("MIOpenDriver rnn -c 1")["forw"] == "1"


def test_batchnorm_runs_forward_unless_only_backward_is_asked_for() -> None:
    assert one("MIOpenDriver bnorm")["forw"] == "1"
    both = one("MIOpenDriver bnorm -F 1 -b 1")
    assert (both["forw"], both["back"]) == ("1", "0")
    backward = one("MIOpenDriver bnorm -F 0 -b 1")
    assert (backward["forw"], backward["back"]) == ("0", "1")


@pytest.mark.parametrize(
    ("flags", "save", "run"),
    [
        # libMIOpen 3.4 and 3.5 log `-s` and `-r` for each other, in different directions.
        ("--forw 1 -b 0 -r 1 -s 1", "1", "1"),
        ("--forw 1 -b 0", "0", "0"),
        ("--forw 0 -b 1 -r 1", "1", "0"),
        ("--forw 0 -b 1 -s 1", "1", "0"),
        ("--forw 2 -b 0 -r 1", "0", "1"),
        ("--forw 2 -b 0 -s 1", "0", "1"),
        ("-f 3 -x 1 -y 1 -z 0 --forw 2 -b 0 -s 1", "0", "1"),
    ],
)
def test_logged_batchnorm_has_the_statistics_of_its_direction(
    flags: str, save: str, run: str
) -> None:
    logged = one(LOGGED_BNORM.format(flags))
    assert (logged["save"], logged["run"]) == (save, run)


@pytest.mark.parametrize("flag", ["-s", "-r"])
def test_logged_training_with_one_kind_of_statistics_is_read_both_ways(flag: str) -> None:
    read = [dict(p.arguments) for p in operations(LOGGED_BNORM.format(f"--forw 1 -b 0 {flag} 1"))]
    assert [(one["save"], one["run"]) for one in read] == [("1", "0"), ("0", "1")]


def test_a_logged_fusion_has_its_number_behind_another_flag() -> None:
    line = "MIOpen(HIP): Command [LogCmdFusion] ./bin/MIOpenDriver CBAInfer -n 1 -c 8 -k 8 -F {}"
    assert one(line.format(4))["fusion_mode"] == "4"
    for number in ("7", "--inputmode"):  # any word became the number
        with pytest.raises(InputError, match=f"`{number}` of flag `-F/--fusion_number` is not one"):
            parse(line.format(number))


def test_half_precision_batchnorm_has_its_parameters_in_single_precision() -> None:
    """MIOpenDriver 3.3 says so in the name, 3.4 and 3.5 have nothing else."""
    assert parse("MIOpenDriver bnormfp16") == parse("MIOpenDriver bnormfp16fp32")
    assert parse("MIOpenDriver bnormbfp16") == parse("MIOpenDriver bnormbfp16fp32")


def test_both_spellings_of_pool() -> None:
    old = parse("MIOpenDriver pool -n 1 -c 8 -H 16 -W 12 -y 2 -x 2 -F 1")
    assert old == parse("MIOpenDriver pool -W 1x8x16x12 -y 2 -x 2 -F 1")
    deep = parse("MIOpenDriver pool -n 1 -c 8 -D 4 -H 16 -W 12 -_ 3 -F 1")
    assert deep == parse("MIOpenDriver pool -W 1x8x4x16x12 -F 1")


def test_strides_that_a_layout_names_are_that_layout() -> None:
    """As libMIOpen logs the pooling of a tensor in NHWC."""
    line = "MIOpenDriver pool -W 1x8x16x12,{} -F 1"
    assert parse(line.format("1536x1x96x8")) == parse(line.format("NHWC"))
    assert parse(line.format("1536x192x12x1")) == parse("MIOpenDriver pool -W 1x8x16x12 -F 1")
    assert parse(line.format("1536x1x128x8")) != parse(line.format("NHWC"))


def test_a_sequence_of_batches_is_cut_and_shortened() -> None:
    assert one("MIOpenDriver rnn -n 8,4,4,4 -k 3 -F 1")["batchsize"] == "8,4"
    assert one("MIOpenDriver rnn -n 4,4,4 -k 3 -F 1")["batchsize"] == "4"


def test_the_last_length_of_a_sample_holds_for_the_rest() -> None:
    line = "MIOpenDriver rnn_seq -n 4 -k 9 -F 1"
    assert one(line)["seq_len_array"] == "9"
    assert parse(f"{line} -K 9,9,9,9") == parse(line)
    assert parse(f"{line} -I 2 -K 7,9,8,8") == parse(f"{line} -I 2 -K 7,9,8")
    assert parse(line) != parse(f"{line} -K 9,8")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("activ -m 10", "`10` of flag `-m/--mode` is not one of `0`, `1`, `2`, `3`"),
        ("softmax -F 4", "`4` of flag `-F/--forw` is not between 0 and 3"),
        ("bnorm -L NCHWW", "`NCHWW` of flag `-L/--layout` is not one of"),
        ("lrn -N", "Flag `-N/--lrnN` has no value"),
        ("lrn -A nan", "`nan` of flag `-A/--alpha` is not a number"),
        ("reduce -R 4", "`4` of flag `-R/--DimsToReduce` are no different axes of a tensor with 4"),
        ("reduce -R 1,1", "`1,1` of flag `-R/--DimsToReduce` are no different axes"),
        ("rnn -n 4,8 -k 2", "The batches of flag `-n/--batchsize` may only fall"),
        ("rnn -p 1 -W 8 -H 16", "With skipped input (`-p 1`), input and hidden length"),
        ("rnn_seq -p 1 -W 8 -H 16", "With skipped input (`-p 1`), input and hidden length"),
        ("rnn_seq -n 2 -K 3,2,1", "`-K/--seq_len_array` has more lengths than the batch has"),
        ("rnn_seq -k 4 -K 5", "`-K/--seq_len_array` is over `4`, the longest sequence"),
        ("rnn_seq -I 1 -K 4,5", "`-K/--seq_len_array` may only fall where nothing is padded"),
        ("rnn_seq -I 0", "`0` of flag `-I/--io_layout` is not one of `1`, `2`, `3`"),
        ("rnn_seq -n 1000000 -k 1000000", "is larger than any GPU's memory"),
        ("pool -W 8x8", "A tensor of 2 axes cannot be pooled"),
        ("pool -W 1x8x8x8,NCDHW", "`NCDHW` in flag `-W/--input` is no layout of 4 axes"),
        ("pool -W 1x8x8x8,64x8x1", "has not a stride for each length"),
        ("cat -1 2x3 -2 3x2", "The inputs cannot be concatenated along axis 0"),
        ("glu -D 3x4", "Axis 0 of length 3 cannot be split in half"),
        ("kthvalue -D 4x4 -k 5", "Axis -1 of length 4 has no value 5"),
        ("multimarginloss -D 4x4x4", "has two lengths"),
        ("CBAInfer -c 3 -g 2", "The groups do not divide the 3 of `--in_channels`"),
        ("activ -n 2000000000 -c 2000000000", "is larger than any GPU's memory"),
        ("tensorop -X 1", "Unknown flag `-X`"),
        ("dropout -d 1,2,3,4,5,6", "has more than the 5 axes that dropout takes"),
    ],
)
def test_refusals_name_what_is_wrong(line: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        parse(f"MIOpenDriver {line}")
    assert message in caught.value.message
