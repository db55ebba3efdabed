"""Logs of libMIOpen as sources of problems: real excerpts, damaged in the ways that logs are."""

from __future__ import annotations

import contextlib
import io
import random
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from kdbforge.cli.problems import problems as command
from kdbforge.errors import InputError, KdbforgeError
from kdbforge.problems import ProblemList, load, parse

DATA = Path(__file__).parent / "data" / "logs"

#: What the logs of levels 5 and 6 were made of.
LINES = """\
conv -n 1 -c 16 -H 14 -W 14 -k 32 -y 3 -x 3 -p 2 -q 2 -l 2 -j 2 -g 4 -F 2
convint8 -n 1 -c 16 -H 14 -W 14 -k 32 -y 3 -x 3 -p 1 -q 1 -F 1
conv -n 1 -c 8 --in_d 6 -H 7 -W 9 -k 12 --fil_d 3 -y 3 -x 1 --pad_d 1 -p 1 -q 0 --spatial_dim 3 \
-I NDHWC -f NDHWC -O NDHWC -F 4
conv -n 1 -c 16 -H 7 -W 7 -k 8 -y 3 -x 3 -p 1 -q 1 -u 2 -v 2 -m trans -Y 1 -X 1 -g 4 -F 1
"""
RUN = [problem for line in LINES.splitlines() for problem in parse(line)]
KEY = "16-14-15-3x3-8-14-15-1-1x1-1x1-1x1-0-NCHW-FP32-F"
PREFIX = "MIOpen(HIP): Info2 [FindRecord] "


def level6(*, commands: bool = True) -> bytes:
    data = (DATA / "level6.log").read_bytes()
    lines = data.splitlines(keepends=True)
    return b"".join(line for line in lines if commands or b"Command [" not in line)


def load_bytes(data: bytes) -> ProblemList:
    return load(["-"], stdin=io.TextIOWrapper(io.BytesIO(data), encoding="utf-8"))


def load_text(text: str) -> ProblemList:
    return load_bytes(text.encode())


def notes(found: ProblemList) -> list[str]:
    return [note.text for note in found.notes]


@pytest.mark.parametrize("level", [5, 6])
def test_commands_and_keys_are_the_same_problems(level: int) -> None:
    found = load([str(DATA / f"level{level}.log")])
    assert list(found) == RUN


def test_keys_alone() -> None:
    found = load_bytes(level6(commands=False))
    *others, transposed = RUN
    assert list(found)[:-1] == others
    # The backward pass of a convolution of 8x14x14 is all that MIOpen knows of it.
    (plain,) = parse("conv -n 1 -c 8 -H 14 -W 14 -k 16 -y 3 -x 3 -p 1 -q 1 -u 2 -v 2 -g 4 -F 2")
    assert (list(found)[-1], transposed.transposed) == (plain, True)


def test_level_4_has_commands_only() -> None:
    found = load([str(DATA / "level4.log")])
    assert len(found) == 11
    (note,) = found.notes
    assert (note.kind, note.count) == ("output-pads", 2)
    assert note.text.startswith(
        "2 transposed convolutions may have output pads, which only `MIOPEN_LOG_LEVEL=6` shows"
    )


def test_counts_and_origins() -> None:
    found = load_text(
        f"{PREFIX}Looking for key {KEY} in file \"\"\n"
        f"MIOpen(HIP): Info [FindConvolution] Find Start: {KEY}, findMode: DYNAMIC_HYBRID(5)\n"
        f"MIOpen(HIP): Info2 [SetValues] {KEY}, content inserted: GemmFwdRest:0.02,120960\n"
        f"MIOpen(HIP): Info [LogFindDbItem] {KEY}=GemmFwdRest:0.02,120960\n"
    )  # fmt: skip
    assert found.counts == (4,)
    assert found.origins == ("<stdin>:1",)
    assert list(found) == parse("conv -n 1 -c 16 -H 14 -W 15 -k 8 -y 3 -x 3 -p 1 -q 1 -F 1")


def test_missed_kernels_are_counted_once() -> None:
    found = load_bytes(level6() * 3)
    (note,) = found.notes
    assert (note.kind, note.count, note.first) == ("missed-kernels", 4, "<stdin>:31")
    assert note.examples[0] == "MIOpenCol2Im2d.cpp.o"
    assert note.text.startswith(
        "4 kernels were in no kernel database; the log does not say for which problems, first at"
        " <stdin>:31: MIOpenCol2Im2d.cpp.o, "
    )


def test_other_primitives_come_as_commands() -> None:
    found = load([str(DATA / "primitives.log")])
    assert list(found) == [
        *parse("MIOpenDriver bnorm -n 2 -c 16 -H 14 -W 14 -m 1 -F 2 -r 1"),
        *parse("MIOpenDriver pool -W 2x16x14x14,3136x196x14x1 -y 2 -x 2 -u 2 -v 2 -F 1"),
        *parse("MIOpenDriver activ -n 2 -c 16 -H 14 -W 14 -m 3 -F 1 -A 0 -B 0 -G 0"),
        *parse("MIOpenDriver softmax -n 2 -c 16 -H 14 -W 14 -F 1"),
        *parse("conv -n 2 -c 16 -H 14 -W 14 -k 8 -y 3 -x 3 -p 1 -q 1 -F 1"),
    ]
    assert not [note for note in found.notes if note.kind == "not-supported"]


def test_other_primitives_without_commands_are_noted_by_their_solvers() -> None:
    lines = (DATA / "primitives.log").read_bytes().splitlines(keepends=True)
    found = load_bytes(b"".join(line for line in lines if b"MIOpenDriver" not in line))
    assert list(found) == parse("conv -n 2 -c 16 -H 14 -W 14 -k 8 -y 3 -x 3 -p 1 -q 1 -F 1")
    note = next(note for note in found.notes if note.kind == "not-supported")
    assert note.count == 4
    assert "PoolingForward2d" in note.examples


def test_keys_that_are_not_supported_are_noted() -> None:
    eight_bits = KEY.replace("FP32", "FP8FP8FP32")
    found = load_text(f"{PREFIX}Looking for key {eight_bits} in file \"\"\n" * 2
                      + f"{PREFIX}Looking for key {KEY} in file \"\"\n")  # fmt: skip
    assert notes(found) == [
        f"1 problem left out as not supported, first at <stdin>:1: {eight_bits}"
    ]


# The ways in which logs are damaged.


def coloured(line: bytes) -> bytes:
    return b"\x1b[1;31m" + line.replace(b"Info", b"\x1b[32mInfo\x1b[0m") + b"\x1b[0m\x1b[K"


WAYS: dict[str, Callable[[bytes], bytes]] = {
    "CRLF": lambda line: line + b"\r",
    "colours": coloured,
    "torchrun": lambda line: b"[rank3]: " + line,
    "containerd": lambda line: b"2026-01-02T03:04:05.678901234Z stderr F " + line,
    "journal": lambda line: b"Jan 02 03:04:05 host python[4711]: " + line,
    "docker": lambda line: (
        b'{"log":"%s\\n","stream":"stderr","time":"2026-01-02T03:04:05.6Z"}'
        % line.replace(b'"', b'\\"')
    ),
    "progress bar": lambda line: b" 50%|#####     | 1/2 [00:01<00:01]\r" + line,
}


@pytest.mark.parametrize("commands", [True, False])
@pytest.mark.parametrize("way", WAYS)
def test_what_others_write_around_lines(way: str, commands: bool) -> None:
    plain = level6(commands=commands)
    changed = b"".join(WAYS[way](line) + b"\n" for line in plain.splitlines())
    found = load_bytes(changed)
    expected = load_bytes(plain)
    assert (found.problems, found.counts) == (expected.problems, expected.counts)
    assert [note.kind for note in found.notes] == ["missed-kernels"]


@pytest.mark.parametrize(
    ("noise", "reason"),
    [
        (b"\0" * 4096, "it holds a zero byte"),
        (b"caf\xe9", "Byte 0xe9 is not UTF-8 text"),
        (b"\x80\x81", "Byte 0x80 is not UTF-8 text"),
        (b"x" * (2**20 + 2), "Line of more than 1048576 bytes"),
        (b"x" * (3 * 2**20), "Line of more than 1048576 bytes"),
    ],
)
def test_binary_noise(noise: bytes, reason: str) -> None:
    head, tail = level6()[:500].rpartition(b"\n")[0], level6()
    found = load_bytes(head + b"\n" + noise + b"\n" + tail)
    assert list(found) == RUN
    lines = head.count(b"\n") + 1
    assert notes(found)[0] == f"1 damaged line skipped, first at <stdin>:{lines + 1}: {reason}"


def test_noise_before_the_log_shows_itself() -> None:
    found = load_bytes(b"\0\0\0\nloading\n" + level6())
    assert list(found) == RUN
    assert notes(found)[0].startswith("1 damaged line skipped, first at <stdin>:1: ")


def test_a_command_in_a_log_that_is_wrong() -> None:
    found = load_bytes(level6() + b"+ ./bin/MIOpenDriver conv -n 0\n")
    assert list(found) == RUN
    assert notes(found)[0].endswith(": `0` of flag `-n/--batchsize` is not a whole number from 1")


@pytest.mark.parametrize("size", range(1, len(KEY) + 8))
def test_a_last_line_that_is_cut_off(size: int) -> None:
    """A key of 4 groups is never taken for one of none, nor a number for a shorter one."""
    line = f"{PREFIX}Storing record: {KEY}_g4"
    text = f"{PREFIX}Storing record: {KEY.replace('16-', '32-', 1)}\n{line[: -size or None]}"
    found = load_text(text)
    assert len(found) == 1
    assert found.problems[0].in_channels == 32


def test_a_command_that_is_cut_off() -> None:
    whole = (
        "MIOpen(HIP): Command [LogCmdConvolution] ./bin/MIOpenDriver conv -n 1 -c 16 -H 14 -W 14"
        " -k 32 -y 3 -x 3 -p 1 -q 1 -u 1 -v 1 -l 1 -j 1 -m conv -g 1 -F 1 -t 1\n"
    )
    (problem,) = load_text(whole)
    for end in range(len(whole)):
        for rest in ("", "\n"):
            found = load_text(f"{PREFIX}Storing record: {KEY}\n{whole[:end]}{rest}")
            assert set(found) <= {problem, *load_text(f"{PREFIX}Storing record: {KEY}\n")}


@settings(max_examples=40, deadline=None)
@given(st.randoms(use_true_random=False))
def test_lines_of_several_processes(chance: random.Random) -> None:
    """Lines that others run into are noted, and no problem comes of it that was not run."""
    lines = level6(commands=chance.random() < 0.5).splitlines(keepends=True)
    mixed = b""
    while lines:
        line = lines.pop(0)
        cut = chance.randrange(len(line))
        if lines and chance.random() < 0.2:
            mixed += line[:cut] + lines.pop(0) + line[cut:]
        else:
            mixed += line
    # A command whose key was lost has no output pads.
    unpadded = parse(LINES.replace(" -Y 1 -X 1", "").splitlines()[-1])
    assert {*load_bytes(mixed)} <= {*RUN, *load_bytes(level6(commands=False)), *unpadded}


def test_the_rest_of_a_command() -> None:
    rest = "conv -g 1 -F 1 -t 1\n"
    for text in (level6() + rest.encode(), rest.encode() + level6()):
        found = load_bytes(text)
        assert list(found) == RUN
        assert notes(found)[0].endswith(
            ": In a log, a command without `MIOpenDriver` may be the rest of another line"
        )


def test_both_lines_on_one_line() -> None:
    one = f"{PREFIX}Looking for key {KEY.replace('16-', '4-', 1)}"
    other = f'{PREFIX}Looking for key {KEY} in file ""'
    found = load_text(one + other + "\n in file \"\"\n")  # fmt: skip
    assert [problem.in_channels for problem in found] == [16]
    assert notes(found) == ["1 damaged line skipped, first at <stdin>:1: The line is cut off"]


@pytest.mark.parametrize(
    "words",
    ["HW", " 1-1HW", "MIOpen(", "MIOpen(HIP): ", "Invoker registered for algorithm ",
     " and solver ", "Command [x] ./bin/MIOpenDriver ", 'Unable to load binary for: "', "conv -n ",
     "A=1 "],
)  # fmt: skip
def test_long_lines_of_hostile_words(words: str) -> None:
    """Each is read in a time that grows with its length, not with the square of it."""
    line = words * (400_000 // len(words))
    found = load_bytes(level6() + f"MIOpen(HIP): Info [x] {line}\n{line}\n".encode())
    assert list(found) == RUN


class Short(io.BytesIO):
    """A stream that gives few bytes at a time, as a pipe may."""

    def read(self, size: int | None = -1, /) -> bytes:
        return super().read(min(97, size or 0))


def test_short_reads() -> None:
    data = b"\0\n" + level6() + b"x" * (2**20 + 200) + b"\n" + level6()
    found = load(["-"], stdin=io.TextIOWrapper(Short(data)))
    expected = load_bytes(data)
    assert found == expected
    assert notes(found)[0].startswith("2 damaged lines skipped, first at <stdin>:1: it holds")


# What is no log.


@pytest.mark.parametrize(
    ("magic", "what", "tool"),
    [
        (b"\x1f\x8b\x08", "compressed with gzip", "gunzip -c"),
        (b"\x28\xb5\x2f\xfd", "compressed with Zstandard", "zstd -dc"),
        (b"\xfd7zXZ\0", "compressed with xz", "xz -dc"),
        (b"BZh91AY", "compressed with bzip2", "bunzip2 -c"),
        ("M".encode("utf-16"), "UTF-16 text", "iconv -f UTF-16"),
    ],
)
def test_compressed_logs_are_named(tmp_path: Path, magic: bytes, what: str, tool: str) -> None:
    path = tmp_path / "program.log.gz"
    path.write_bytes(magic + b"\0" * 9 + level6())
    with pytest.raises(InputError) as caught:
        load([str(path)])
    assert caught.value.message == f"`{path}` is {what}"
    assert caught.value.hint == f"{tool} {path} | kdbforge problems -"


@pytest.mark.parametrize("device", ["/dev/zero", "/dev/urandom"])
def test_endless_files_are_refused(device: str) -> None:
    with pytest.raises(InputError):
        load([device])


def test_a_log_without_problems_says_what_it_has() -> None:
    with pytest.raises(InputError) as caught:
        load_text(f"{PREFIX}Looking for key {KEY[:-3]} in file \"\"\n")  # fmt: skip
    assert caught.value.message == "No problem found in `<stdin>`"
    assert caught.value.context[0].startswith("1 damaged line skipped, first at <stdin>:1: ")


_LINES = st.sampled_from(
    [*level6().splitlines(), *(DATA / "primitives.log").read_bytes().splitlines()]
)


@settings(deadline=None)
@given(st.lists(st.tuples(_LINES, st.integers(0, 200), st.binary(max_size=3)), max_size=9))
def test_no_log_raises_anything_else(parts: list[tuple[bytes, int, bytes]]) -> None:
    data = b"".join(line[:cut] + noise + line[cut:] + b"\n" for line, cut, noise in parts)
    with contextlib.suppress(KdbforgeError):
        found = load_bytes(data)
        assert found.total >= len(found) > 0


# The command line.


def test_notes_go_to_stderr() -> None:
    result = CliRunner().invoke(command, [str(DATA / "level6.log")])
    assert result.exit_code == 0
    assert len(result.stdout.splitlines()) == len(RUN)
    assert result.stderr.startswith("note: 4 kernels were in no kernel database; ")


def test_notes_in_json() -> None:
    result = CliRunner().invoke(command, ["--json", str(DATA / "level6.log")])
    assert '"kind": "missed-kernels"' in result.stdout
