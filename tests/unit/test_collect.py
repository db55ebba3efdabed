"""Driver commands taken out of a program's stderr, whatever stands around them."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from kdbforge.problems.driver import parse
from kdbforge.runner.collect import Collector, collected_text

CONV = "conv -n 2 -c 3 -H 8 -W 8 -k 4 -y 3 -x 3 -F 1"
LOGGED = f"MIOpen(HIP): Command [LogCmdConvolution] ./bin/MIOpenDriver {CONV}\n".encode()
POOL = b"MIOpen(HIP): Command [LogCmdPooling] ./bin/MIOpenDriver pool -M 0\n"


def split(*chunks: bytes, keep: bool = False) -> tuple[bytes, dict[str, int]]:
    collector = Collector(keep_commands=keep)
    output = b"".join(collector.feed(chunk) for chunk in chunks) + collector.end()
    return output, dict(collector.counts)


def test_commands_are_counted_and_the_rest_is_given_back() -> None:
    output, counts = split(b"begin\n", LOGGED, b"in between \xff\n", POOL, LOGGED, b"no line end")
    assert output == b"begin\nin between \xff\nno line end"
    assert list(counts.items()) == [(CONV, 2), ("pool -M 0", 1)]


def test_a_command_in_a_line_that_has_begun() -> None:
    assert split(b"working: ", LOGGED, b"50%\n") == (b"working: 50%\n", {CONV: 1})


def test_number_and_time_in_front_go_with_the_command() -> None:
    assert split(b"71 0.123 " + LOGGED) == (b"", {CONV: 1})
    assert split(b"71", b" 0.123 MI", LOGGED[2:]) == (b"", {CONV: 1})


def test_prompts_are_not_held_back() -> None:
    collector = Collector()
    assert collector.feed(b"continue? ") == b"continue? "
    assert collector.feed(b"loss 0.25") == b"loss 0.25"
    assert collector.feed(b"\nM") == b"\n"
    assert collector.feed(b"IOpen is a name\n") == b"MIOpen is a name\n"


def test_other_log_lines_stay() -> None:
    line = b"MIOpen(HIP): Warning [Compile] MIOpenDriver conv -n 1\n"
    assert split(line) == (line, {})


def test_a_command_without_its_end_is_not_counted() -> None:
    assert split(LOGGED[:-5]) == (LOGGED[:-5], {})


def test_commands_that_the_program_logs_by_itself_stay() -> None:
    assert split(LOGGED, keep=True) == (LOGGED, {CONV: 1})


@given(st.data())
def test_where_the_stream_is_cut_does_not_matter(data: st.DataObject) -> None:
    part = st.sampled_from([LOGGED, POOL, b"MIOpen(", b"x\n", b"M", b"12 ", b"\n", b"Command ["])
    text = b"".join(data.draw(st.lists(part, max_size=8)))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=6)))
    edges = [0, *cuts, len(text)]
    chunks = [text[a:b] for a, b in pairwise(edges)]
    assert split(*chunks) == split(text)


def test_the_text_is_a_problem_list() -> None:
    lines = collected_text({CONV: 12}, ["prog", "a\nb"]).splitlines()
    assert lines[0] == "# What `prog a?b` asked of MIOpen: 12 calls"
    assert [parse(line) for line in lines] == [[], parse(f"MIOpenDriver {CONV}")]
