"""Says how the code of two objects differs, instruction by instruction.

Both are disassembled by the toolchain's own comgr; addresses are left out of the comparison.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from kdbforge.codeobject.bundle import device_objects
from kdbforge.compiler.disassemble import Disassembly, Instruction, disassemble
from kdbforge.errors import KdbforgeError
from kdbforge.model.toolchain import Toolchain

__all__ = ["CodeDiff", "diff_code"]

#: Functions of one object that are compared, and their instructions where those differ: difflib
#: takes quadratic time.
_MAX_FUNCTIONS = 8
_MAX_INSTRUCTIONS = 2000
_CONTEXT = 2


@dataclass(frozen=True, slots=True)
class CodeDiff:
    """How one function differs."""

    name: str
    lines: tuple[str, ...]  # of a unified diff; empty where nothing could be disassembled
    note: str = ""  # what is not shown, and why


def diff_code(
    toolchain: Toolchain, recorded: bytes, rebuilt: bytes, names: Collection[str]
) -> tuple[CodeDiff, ...]:
    """Compare functions that both objects have; `-` is the record's, `+` the rebuilt code.

    Never fails on what is in the objects: what cannot be disassembled is said in a note. At most
    eight functions are compared, and of each at most 2,000 instructions.
    """
    chosen = sorted(names)[:_MAX_FUNCTIONS]
    if not chosen:
        return ()
    try:
        theirs, ours = (
            {function.name: function for function in _disassembled(toolchain, data, chosen)}
            for data in (recorded, rebuilt)
        )
    except KdbforgeError as error:
        return tuple(CodeDiff(name, (), error.message) for name in chosen)
    return tuple(_diff(theirs[name], ours[name]) for name in chosen)


def _disassembled(
    toolchain: Toolchain, data: bytes, names: Collection[str]
) -> tuple[Disassembly, ...]:
    (code_object,) = device_objects(data)
    return disassemble(toolchain, code_object, names=names)


def _diff(their: Disassembly, our: Disassembly) -> CodeDiff:
    before = [_text(their, instruction) for instruction in their.instructions]
    after = [_text(our, instruction) for instruction in our.instructions]
    same = _common_start(before, after)
    first, second = before[same:], after[same:]
    note = ""
    if max(len(first), len(second)) > _MAX_INSTRUCTIONS:
        note = f"Only {_MAX_INSTRUCTIONS} instructions are compared from the first that differs"
        first, second = first[:_MAX_INSTRUCTIONS], second[:_MAX_INSTRUCTIONS]
    return CodeDiff(their.name, tuple(_unified(first, second, before[:same])), note)


def _text(function: Disassembly, instruction: Instruction) -> str:
    if instruction.text is not None:
        return instruction.text
    start = instruction.address - function.address
    return f"(no instruction: {function.code[start : start + instruction.size].hex()})"


def _common_start(one: Sequence[str], other: Sequence[str]) -> int:
    for index, (first, second) in enumerate(zip(one, other, strict=False)):
        if first != second:
            return index
    return min(len(one), len(other))


def _unified(first: list[str], second: list[str], common: list[str]) -> Iterator[str]:
    """Hunks with the number of their first instruction; `common` is what comes before both."""
    context = common[-_CONTEXT:]
    start = len(common) - len(context)
    matcher = difflib.SequenceMatcher(None, context + first, context + second, autojunk=False)
    for hunk in matcher.get_grouped_opcodes(_CONTEXT):
        yield f"@@ -{hunk[0][1] + start} +{hunk[0][3] + start} @@"
        for kind, a, b, c, d in hunk:
            if kind == "equal":
                yield from (f" {line}" for line in (context + first)[a:b])
            else:
                yield from (f"-{line}" for line in (context + first)[a:b])
                yield from (f"+{line}" for line in (context + second)[c:d])
