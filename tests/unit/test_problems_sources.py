"""Files, standard input and suites as sources of problems."""

from __future__ import annotations

import io
import os
import tracemalloc
from pathlib import Path
from typing import TextIO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdbforge.errors import InputError, KdbforgeError, UnknownNameError, UnsupportedError
from kdbforge.problems import ProblemList, driver_line, load

LOG = """\
loading model ...
PRNG seed: 12345678
It's a fine day (don't close this quote
MIOpen(HIP): Info [get_device_name] Raw device name: gfx1030
MIOpen(HIP): Command [LogCmdFindConvolution] ./bin/MIOpenDriver conv -n 1 -c 3 -H 224 -W 224 \
-k 64 -y 7 -x 7 -p 3 -q 3 -u 2 -v 2 -l 1 -j 1 -m conv -g 1 -F 1 -t 1
MIOpen(HIP): Warning [x] Check the ./bin/MIOpenDriver --help for the correct base argument.
cat  pool conv
12:00 17 17 MIOpen(HIP): Command [LogCmdConvolution] ./bin/MIOpenDriver convfp16 -n 1 -c 64 \
-H 56 -W 56 -k 64 -y 3 -x 3 -p 1 -q 1 -u 1 -v 1 -l 1 -j 1 -m conv -g 1 -F 2 -t 1 -S 0
"""


def load_text(text: str) -> ProblemList:
    return load(["-"], stdin=io.StringIO(text))


def failure(text: str) -> KdbforgeError:
    with pytest.raises(KdbforgeError) as caught:
        load_text(text)
    assert caught.value.exit_code == 2
    return caught.value


def test_a_list(tmp_path: Path) -> None:
    path = tmp_path / "list.txt"
    path.write_bytes(
        b"\xef\xbb\xbf# two layers, one of them twice\r\n\r\n"
        b"./bin/MIOpenDriver conv -n 1 -F 1\r\n"
        b"MIOpenDriver convfp16 -n 2 -F 6  # training\r\n"
        b"conv -F 1 --batchsize 1"
    )
    found = load([str(path)])
    assert [(p.dtype, p.batch, p.direction) for p in found] == [
        ("fp32", 1, "fwd"),
        ("fp16", 2, "bwd"),
        ("fp16", 2, "wrw"),
    ]
    assert found.counts == (2, 1, 1)
    assert found.total == 4
    assert found.origins == (f"{path}:3", f"{path}:4", f"{path}:4")


def test_a_miopen_log() -> None:
    found = load_text(LOG)
    assert [(p.dtype, p.direction) for p in found] == [("fp32", "fwd"), ("fp16", "bwd")]
    assert found.origins == ("<stdin>:5", "<stdin>:8")


def test_what_miopendriver_prints() -> None:
    found = load_text(
        "MIOpenDriver conv -n 1 -F 1 -V 0\n"
        "PRNG seed: 12345678\n"
        "MIOpen Forward Conv. Algorithm: 1, Solution: 85/ConvDirectNaiveConvFwd\n"
        "GPU Kernel Time Forward Conv. Elapsed: 0.1 ms (average)\n"
    )
    assert len(found) == 1


def test_sources_are_merged_in_order(tmp_path: Path) -> None:
    path = tmp_path / "list.txt"
    path.write_text("conv -n 9 -F 1\n")
    suite = load(["suite:resnet18"])
    both = load([str(path), "suite:resnet18", "-"], stdin=io.StringIO("conv -n 9 -F 1\n"))
    assert both.problems[1:] == suite.problems
    assert both.counts[0] == 2
    assert both.origins[:2] == (f"{path}:1", "suite:resnet18:conv1")


def test_digest_is_of_the_set() -> None:
    lines = ["conv -n 1 -F 1", "conv -n 2 -F 1", "convfp16 -n 1 -F 4"]
    one = load_text("\n".join(lines))
    other = load_text("\n".join([*reversed(lines), lines[1]]))
    assert one.problems != other.problems
    assert one.digest == other.digest
    assert one.digest != load_text("\n".join(lines[:2])).digest
    assert len(one.digest) == 64


def test_a_list_can_be_fed_back() -> None:
    suite = load(["suite:mobilenet-v2"], dtypes=["bf16"], batch=[3])
    again = load_text("\n".join(driver_line(problem) for problem in suite))
    assert again.problems == suite.problems
    assert again.digest == suite.digest


def test_options_of_suites() -> None:
    found = load(["suite:vgg16"], batch=[1, 8], dtypes=["bf16", "int8"], directions=["wrw", "fwd"])
    assert {(p.dtype, p.direction, p.batch) for p in found} == {
        ("bf16", "wrw", 1),
        ("bf16", "wrw", 8),
        ("bf16", "fwd", 1),
        ("bf16", "fwd", 8),
        ("int8", "fwd", 1),
        ("int8", "fwd", 8),
    }


def test_options_leave_driver_lines_alone() -> None:
    found = load(
        ["-", "suite:resnet18"], batch=[4], dtypes=["bf16"], stdin=io.StringIO("conv -n 1 -F 1")
    )
    assert (found.problems[0].dtype, found.problems[0].batch) == ("fp32", 1)
    assert {(p.dtype, p.batch) for p in found.problems[1:]} == {("bf16", 4)}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch": [0]}, "Batch `0` is not between 1 and 2147483647"),
        ({"batch": [-4]}, "Batch `-4` is not between 1 and 2147483647"),
        ({"batch": [2**31]}, "Batch `2147483648` is not between 1 and 2147483647"),
        ({"batch": [2**31 - 1]}, "Input tensor of 323,256,418,415,616 elements is larger than any "
         "GPU's memory"),
        ({"batch": []}, "Option `--batch` names no value"),
        ({"dtypes": ["fp64"]}, "Unknown dtype `fp64`"),
        ({"directions": ["back"]}, "Unknown direction `back`"),
        ({"dtypes": ["int8"], "directions": ["bwd"]},
         "MIOpen has no int8 convolution in direction `bwd`"),
    ],
)  # fmt: skip
def test_bad_options(options: dict[str, list[int]], message: str) -> None:
    with pytest.raises(InputError) as caught:
        load(["suite:resnet18"], **options)
    assert caught.value.message == message


@pytest.mark.parametrize("option", ["batch", "dtype", "direction"])
def test_options_without_a_suite(option: str) -> None:
    values = {"batch": {"batch": [1]}, "dtype": {"dtypes": ["fp32"]}}
    with pytest.raises(InputError) as caught:
        load(["list.txt"], **values.get(option, {"directions": ["fwd"]}))
    assert caught.value.message == f"Option `--{option}` is for suites, and no source is one"


# What cannot be read.


def test_unreadable_files(tmp_path: Path) -> None:
    for source, message in (
        (tmp_path / "none.txt", "No such file or directory"),
        (tmp_path, "Is a directory"),
        (tmp_path / ("x" * 300), "File name too long"),
    ):
        with pytest.raises(InputError) as caught:
            load([str(source)])
        assert caught.value.message.startswith("Cannot read `")
        assert caught.value.message.endswith(f"`: {message}")


def test_odd_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="Cannot read `a\N{REPLACEMENT CHARACTER}b`: embedded"):
        load(["a\0b"])
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError) as caught:
        load(["resnet50"])
    assert caught.value.hint == "did you mean `suite:resnet50`?"
    with pytest.raises(UnknownNameError, match="Unknown suite `resnet49`"):
        load(["suite:resnet49"])


def test_no_source_and_stdin_twice() -> None:
    with pytest.raises(InputError, match="No source of problems is given"):
        load([])
    with pytest.raises(InputError, match="Standard input `-` is given more than once"):
        load(["-", "-"])


@pytest.mark.parametrize(
    ("data", "message", "context"),
    [
        (b"", "`{}` is empty", ()),
        (b"\n# nothing\n", "No problem found in `{}`", ()),
        (b"MIOpen(HIP): Info [x] nothing\n", "No problem found in `{}`", ()),
        (b"\x7fELF\x02\0\0\0\n", "`{}` is a binary file", ("{}:1: it holds a zero byte",)),
        (b"conv -n 1\n\0", "`{}` is a binary file", ("{}:2: it holds a zero byte",)),
        (b"conv -n 1\n# caf\xe9\n", "Byte 0xe9 is not UTF-8 text", ("{}:2",)),
        (b"x" * (2**20 + 2), "Line of more than 1048576 bytes", ("{}:1",)),
        (
            b"conv -n 1 -F 1\nhello world\n",
            "`hello world` is not a MIOpenDriver command line",
            ("{}:2", "hello world"),
        ),
        (
            b"# layers\n./bin/MIOpenDriver conv -n 1 --batch 4\n",
            "Unknown flag `--batch`",
            ("{}:2", "./bin/MIOpenDriver conv -n 1 --batch 4"),
        ),
        (
            b"conv -n 1\nconvfp64 -n 1\n",
            "Unknown MIOpenDriver command `convfp64`",
            ("{}:2", "convfp64 -n 1"),
        ),
        (
            b"conv -n 1 -H -3\n",
            "`-3` of flag `-H/--in_h` is not a whole number from 1",
            ("{}:1", "conv -n 1 -H -3"),
        ),
    ],
)
def test_bad_files(tmp_path: Path, data: bytes, message: str, context: tuple[str, ...]) -> None:
    path = tmp_path / "list.txt"
    path.write_bytes(data)
    with pytest.raises(InputError) as caught:
        load([str(path)])
    assert caught.value.message == message.format(path)
    assert caught.value.context == tuple(line.format(path) for line in context)
    assert caught.value.exit_code == 2


def test_other_commands_name_file_and_line() -> None:
    error = failure("conv -n 1 -F 1\n./bin/MIOpenDriver gemmfp16 -n 1 -c 64\n")
    assert isinstance(error, UnsupportedError)
    assert error.message == (
        "The MIOpenDriver command `gemmfp16` is not supported: "
        "rocBLAS runs it, with kernels of its own"
    )
    assert error.context == ("<stdin>:2", "./bin/MIOpenDriver gemmfp16 -n 1 -c 64")


def test_errors_in_a_log_are_notes() -> None:
    cut = "MIOpen(HIP): Command [LogCmdConvolution] ./bin/MIOpenDriver conv -n\n"
    found = load_text(LOG + cut)
    assert len(found) == 2
    assert [note.text for note in found.notes] == [
        "1 damaged line skipped, first at <stdin>:9: The command in the log is cut off"
    ]


def test_the_first_unread_line_is_named() -> None:
    error = failure("conv -n 1 -F 1\nfirst\nsecond\n")
    assert error.context == ("<stdin>:2", "first")


def test_a_log_may_begin_with_other_text_and_commands() -> None:
    assert len(load_text("hello\n./MIOpenDriver conv -n 1 -F 1\nMIOpen(HIP): Info [x] y\n")) == 1


def test_a_hint_for_an_empty_log() -> None:
    error = failure("MIOpen(HIP): Info [x] y\n")
    assert error.hint == "log a program's problems with `MIOPEN_ENABLE_LOGGING_CMD=1`"


def test_a_pipe_is_read_to_its_end() -> None:
    reader, writer = os.pipe()
    with os.fdopen(writer, "w") as file:
        file.write("conv -n 5 -F 1\n")
    try:
        assert load([f"/dev/fd/{reader}"]).problems[0].batch == 5
    finally:
        os.close(reader)


def test_memory_does_not_grow_with_the_log(tmp_path: Path) -> None:
    path = tmp_path / "big.log"
    with path.open("w") as file:
        file.writelines(LOG for _ in range(1000))  # 0.7 MB
    tracemalloc.start()
    try:
        found = load([str(path)])
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert found.counts == (1000, 1000)
    assert peak < path.stat().st_size / 3


def assert_only_known_errors(stream: TextIO) -> None:
    """Assert that the text gives problems or is refused properly."""
    error, total = None, 0
    try:
        total = load(["-"], stdin=stream).total
    except KdbforgeError as caught:
        error = caught
    assert total > 0 if error is None else error.message


@given(st.binary(max_size=200))
def test_no_bytes_raise_anything_else(data: bytes) -> None:
    assert_only_known_errors(io.TextIOWrapper(io.BytesIO(data), encoding="utf-8"))


@given(st.lists(st.sampled_from([*LOG.splitlines(), "conv -n 1", "conv -n", "'", "x", "#", ""])))
def test_no_lines_raise_anything_else(lines: list[str]) -> None:
    assert_only_known_errors(io.StringIO("\n".join(lines)))
