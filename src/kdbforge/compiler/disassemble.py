"""Disassembles code objects with the toolchain's own libamd_comgr, in a child process.

A foreign object meets LLVM's decoder there and nowhere else; a crash costs an error message.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from kdbforge.codeobject.checks import Finding, Level
from kdbforge.codeobject.details import Function, functions
from kdbforge.codeobject.elf import describe_image
from kdbforge.codeobject.image import read_image
from kdbforge.compiler.worker import comgr_library, tail
from kdbforge.errors import HostError, UnknownNameError, WorkerError
from kdbforge.model.toolchain import Toolchain
from kdbforge.vgpu.launch import command

__all__ = ["Disassembly", "Instruction", "check_code", "disassemble"]

_GUEST = Path(__file__).with_name("disassemble_guest.py")
_TIMEOUT_SECONDS = 300.0
_MEMORY_BYTES = 4 << 30
_LOG_BYTES = 1 << 16
#: What may be the last instruction of a function, and what may pad it behind that.
_ENDS = ("s_endpgm", "s_setpc_b64", "s_set_pc_i64", "s_branch", "s_trap")
_PADDING = ("s_code_end", "s_nop")


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction."""

    address: int
    size: int
    text: str | None  # None: not an instruction of this processor
    branch_target: int | None  # where a branch goes to


@dataclass(frozen=True, slots=True)
class Disassembly:
    """One function, instruction by instruction from its first byte to its last."""

    name: str
    address: int
    code: bytes
    instructions: tuple[Instruction, ...]


def disassemble(
    toolchain: Toolchain, data: bytes, *, names: Collection[str] | None = None
) -> tuple[Disassembly, ...]:
    """Disassemble the functions of a code object in the order of their addresses.

    Bytes that are no instruction are told as such (`Instruction.text` is None) and skipped,
    four at a time. With `names` only these functions are disassembled.

    Raises
    ------
    DatabaseError
        If it is no code object, or its code is not where its symbols say.
    UnknownNameError
        If it has no function of one of the names.
    WorkerError
        If the disassembler crashes, hangs, or does not know the processor.
    """
    image = read_image(data)
    target = describe_image(image).target
    chosen = _choose(functions(image), names)
    request = {
        "isa": f"amdgcn-amd-amdhsa--{target}",
        "functions": [[function.address, function.code.hex()] for function in chosen],
    }
    found = json.loads(_run(toolchain, json.dumps(request).encode("ascii")))
    return tuple(
        Disassembly(
            function.name,
            function.address,
            function.code,
            tuple(Instruction(*instruction) for instruction in instructions),
        )
        for function, instructions in zip(chosen, found, strict=True)
    )


def check_code(code: Iterable[Disassembly]) -> tuple[Finding, ...]:
    """Check that all code decodes, and that no branch and no end leads out of its function.

    Jumps to addresses in registers are not followed.
    """
    return tuple(
        Finding(Level.CODE, function.name, message)
        for function in code
        for message in _check_function(function)
    )


def _check_function(function: Disassembly) -> Iterator[str]:
    bad = [each.address for each in function.instructions if each.text is None]
    if bad:
        yield f"{len(bad)} of its words are no instruction, the first at {bad[0]:#x}"
    starts = {each.address for each in function.instructions}
    for each in function.instructions:
        if each.branch_target is not None and each.branch_target not in starts:
            yield f"`{each.text}` at {each.address:#x} leads to where no instruction of it is"
    names = [(each.text or "?").split()[0] for each in function.instructions]
    while names and names[-1] in _PADDING:
        names.pop()
    if not names or not names[-1].startswith(_ENDS):
        yield "It goes on behind its last instruction"


def _choose(found: tuple[Function, ...], names: Collection[str] | None) -> tuple[Function, ...]:
    if names is None:
        return found
    known = {function.name for function in found}
    for name in names:
        if name not in known:
            raise UnknownNameError("function", name, sorted(known))
    return tuple(function for function in found if function.name in names)


def _run(toolchain: Toolchain, request: bytes) -> bytes:
    library = comgr_library(toolchain)
    args = [str(library), str(os.getpid()), str(_MEMORY_BYTES)]
    argv, environment = command(toolchain, _GUEST, args)
    try:
        done = subprocess.run(
            argv,
            input=request,
            capture_output=True,
            cwd="/",
            env=environment,
            timeout=_TIMEOUT_SECONDS,
            start_new_session=True,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise WorkerError(
            f"The disassembler did not finish within {_TIMEOUT_SECONDS:.0f} seconds"
        ) from None
    except OSError as error:
        raise HostError(f"Cannot start the disassembler: {error.strerror}") from error
    if done.returncode:
        log = tail(done.stderr[-_LOG_BYTES:].decode("utf-8", "replace"))
        raise WorkerError(
            f"The disassembler failed: {_cause(done.returncode)}",
            context=tuple(log.splitlines()),
            hint=f"kdbforge toolchain show {toolchain.name}",
        )
    return done.stdout


def _cause(returncode: int) -> str:
    return f"signal {-returncode}" if returncode < 0 else f"exit status {returncode}"
