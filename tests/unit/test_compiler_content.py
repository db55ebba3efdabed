"""Which jobs may share an object, and which must not although they look alike."""

from __future__ import annotations

import pytest

from kdbforge.compiler.content import content_base, content_key
from kdbforge.compiler.guest import content_digest
from kdbforge.model.job import Action, ActionOutput, FileInput, Job

ISA = "amdgcn-amd-amdhsa--gfx1030"
FINGERPRINT = "f" * 64
SOURCE = FileInput(1, "k.cpp", "a" * 64)
HEADER = FileInput(2, "k.h", "b" * 64)


def job(
    *options: str,
    inputs: tuple[FileInput | ActionOutput, ...] = (SOURCE, HEADER),
    kind: int = 0xD,
    isa: str = ISA,
    language: int = 3,
    link: tuple[str, ...] = (),
) -> Job:
    first = Action(kind, language, isa, options, "", False, inputs)
    last = Action(7, language, isa, link, "", False, (ActionOutput(0, 7, 0),))
    return Job((first, last), ActionOutput(1, 8, 0))


def base(*options: str, **rest: object) -> str | None:
    return content_base(job(*options, **rest), FINGERPRINT)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "options",
    [
        ("-DN=1",),
        ("-DN=2", "-UM"),
        ("-D", "N=1"),
        ("-U", "N"),
        ("-DMLO_X", "-D", "Y=cl_half"),
    ],
)
def test_macros_of_the_command_line_do_not_count(options: tuple[str, ...]) -> None:
    assert base("-O3", *options) == base("-O3")


@pytest.mark.parametrize(
    "options",
    [
        ("-O2",),
        ("-O3", "-mcumode"),
        ("-O3", "-Xclang", "-DN"),
        ("-O3", "-mllvm", "-DN"),
        ("-O3", "-Dcl_khr_fp16"),
        ("-O3", "-D", "__OPENCL_VERSION__=1"),
        ("-O3", "-Doff=fast"),
        ("-O3", "-include", "k.h"),
    ],
)
def test_other_options_count(options: tuple[str, ...]) -> None:
    assert base(*options) is not None
    assert base(*options) != base("-O3")


def test_inputs_target_language_and_the_rest_of_the_chain_count() -> None:
    # Every input: clang makes a symbol from them (`__hip_cuid_*`).
    renamed = FileInput(1, "other.cpp", SOURCE.digest)
    changed = FileInput(2, "k.h", "c" * 64)
    bases = [
        base(),
        base(inputs=(renamed, HEADER)),
        base(inputs=(SOURCE, changed)),
        base(inputs=(SOURCE,)),
        base(isa=ISA + ":xnack+"),
        base(language=2),
        base(kind=0xC),
        base(link=("-O1",)),
        content_base(job(), "e" * 64),
    ]
    assert None not in bases
    assert len(set(bases)) == len(bases)


@pytest.mark.parametrize(
    "option", ["-g", "-gline-tables-only", "-frecord-command-line", "-E", "@f"]
)
def test_options_that_write_macros_or_lines_down_exclude_a_job(option: str) -> None:
    assert base(option) is None


def test_only_a_compilation_of_sources_can_have_a_twin() -> None:
    assert base(inputs=(FileInput(6, "k.bc", "a" * 64),)) is None
    assert base(inputs=(SOURCE, ActionOutput(0, 6, 0))) is None
    assert base(kind=7) is None
    assert base(kind=8) is None


def test_the_key_needs_both_parts() -> None:
    assert len({content_key(a, b) for a in "12" for b in "34"}) == 4


def test_line_markers_count_but_not_the_scratch_folder() -> None:
    texts = [
        b'# 1 "/tmp/x/comgr-12-0-0a1b2c/input/k.cl" 2\nint x;\n',
        b'# 1 "/var/tmp/comgr-3456-17-ffffff/input/k.cl" 2\nint x;\n',
        b'# 2 "/tmp/x/comgr-12-0-0a1b2c/input/k.cl" 2\nint x;\n',
    ]
    first, second, third = map(content_digest, texts)
    assert first == second != third


@pytest.mark.parametrize(
    "line",
    [
        "#pragma unroll",
        "#pragma unroll 4",
        "#pragma unroll(8)",
        "#pragma nounroll",
        "#pragma OPENCL EXTENSION cl_khr_fp16 : enable",
        "#pragma clang diagnostic push // why",
        '#pragma clang diagnostic ignored "-Wshadow"',
        "#pragma clang fp contract(off)",
        "#pragma GCC visibility push(default)",
        "#pragma GCC visibility pop",
        "#pragma once",
        '#pragma push_macro("min")',
    ],
)
def test_pragmas_without_macros_are_no_obstacle(line: str) -> None:
    assert content_digest(f"int x;\n{line}\nint y;\n".encode()) != ""


@pytest.mark.parametrize(
    "line",
    [
        "#pragma unroll N",
        "#pragma unroll(MLO_WEIGHTS_PER_LOOP / 8)",
        "#pragma clang loop unroll_count(N)",
        "#pragma clang fp contract(MODE)",
        "#  pragma unroll N",
        "#pragma anything else",
        '_Pragma("unroll N")',
    ],
)
def test_pragmas_that_a_macro_may_decide_are_an_obstacle(line: str) -> None:
    # clang prints them unexpanded: equal text, different objects.
    assert content_digest(f"int x;\n{line}\nint y;\n".encode()) == ""
