"""Child process that disassembles code on the real libamd_comgr.

Standard library only: the toolchain's own Python runs this file. It knows nothing of kdbforge.

    disassemble_guest.py LIBAMD_COMGR PARENT_PID MEMORY_BYTES

On stdin, JSON: {"isa": name, "functions": [[address, code in hex] ...]}. On stdout, JSON: for each
function a list of [address, size, text or null, branch target or null].
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import signal
import sys
from typing import Any

PR_SET_PDEATHSIG = 1  # linux/prctl.h
WORD = 4  # every instruction is a multiple of it

# Callbacks of amd_comgr_create_disassembly_info (amd_comgr.h).
READ_MEMORY = ctypes.CFUNCTYPE(
    ctypes.c_uint64, ctypes.c_uint64, ctypes.c_void_p, ctypes.c_uint64, ctypes.c_void_p
)
PRINT_INSTRUCTION = ctypes.CFUNCTYPE(None, ctypes.c_char_p, ctypes.c_void_p)
PRINT_ADDRESS = ctypes.CFUNCTYPE(None, ctypes.c_uint64, ctypes.c_void_p)


class Handle(ctypes.Structure):
    """A comgr handle: one 64-bit number in a struct, passed by value."""

    _fields_ = [("handle", ctypes.c_uint64)]


class Disassembler:
    """Decodes for one processor."""

    def __init__(self, library: str, isa: str):
        self._comgr = ctypes.CDLL(library)
        self._address = 0
        self._code = b""
        self._text = ""
        self._target: int | None = None
        self._info = Handle()
        # They must live as long as the library may call them.
        self._callbacks = (
            READ_MEMORY(self._read), PRINT_INSTRUCTION(self._print), PRINT_ADDRESS(self._branch),
        )  # fmt: skip
        status = self._comgr.amd_comgr_create_disassembly_info(
            isa.encode("ascii"), *self._callbacks, ctypes.byref(self._info)
        )
        if status:
            sys.exit(f"comgr cannot disassemble for {isa} (status {status})")
        self._next = self._comgr.amd_comgr_disassemble_instruction
        self._next.argtypes = [Handle, ctypes.c_uint64, ctypes.c_void_p, ctypes.c_void_p]

    def function(self, address: int, code: bytes) -> list[list[Any]]:
        """All instructions of a piece of code that stands at an address."""
        self._address, self._code = address, code
        size = ctypes.c_uint64()
        reference = ctypes.byref(size)
        found: list[list[Any]] = []
        at, end = address, address + len(code)
        while at < end:
            self._target = None
            failed = self._next(self._info, at, None, reference)
            length = size.value
            # What claims to go on behind the end of its function is no instruction either.
            if failed or not length or at + length > end:
                length = min(WORD, end - at)
                found.append([at, length, None, None])
            else:
                found.append([at, length, self._text.strip(), self._target])
            at += length
        return found

    def _read(self, start: int, to: int, size: int, _: object) -> int:
        offset = start - self._address
        if offset < 0:
            return 0
        piece = self._code[offset : offset + size]
        ctypes.memmove(to, piece, len(piece))
        return len(piece)

    def _print(self, text: bytes, _: object) -> None:
        self._text = text.decode("utf-8", "replace")

    def _branch(self, address: int, _: object) -> None:
        self._target = address


def die_with(parent: int) -> None:
    """Let the kernel end this process when its parent ends, however that happens."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # it ended before the call
        os._exit(1)


def main() -> None:
    library, parent, memory_bytes = sys.argv[1:]
    die_with(int(parent))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_DATA, (int(memory_bytes), int(memory_bytes)))
    # The library may write to the standard output: keep the reply out of its reach.
    reply = os.fdopen(os.dup(1), "w", encoding="ascii")
    os.dup2(2, 1)
    request = json.load(sys.stdin)
    disassembler = Disassembler(library, request["isa"])
    found = [
        disassembler.function(address, bytes.fromhex(code))
        for address, code in request["functions"]
    ]
    json.dump(found, reply)
    reply.close()
    # Past the library's destructors, which only cost time.
    os._exit(0)


if __name__ == "__main__":
    main()
