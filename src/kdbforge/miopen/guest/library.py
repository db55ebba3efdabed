"""libMIOpen, the virtual GPU's HIP and SQLite as the child calls them, every status checked."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from ctypes import byref, c_int, c_size_t, c_uint64, c_void_p
from pathlib import Path
from typing import Any

STATUS_SUCCESS, STATUS_NOT_IMPLEMENTED = 0, 6  # miopen.h
SQLITE_OPEN_READWRITE = 2
#: int (*)(sqlite3 *, const char **, const sqlite3_api_routines *), see sqlite3_auto_extension.
SqliteEntryPoint = ctypes.CFUNCTYPE(c_int, c_void_p, c_void_p, c_void_p)


class CallError(Exception):
    """A libMIOpen or HIP call returned an error status, or what stands for one."""

    def __init__(self, call: str, status: int, outcome: str = ""):
        super().__init__(f"{call} {outcome or f'returned status {status}'}")
        self.call = call
        self.status = status


class AbsentError(Exception):
    """This version of libMIOpen does not have a function."""

    def __init__(self, name: str):
        super().__init__(f"this libMIOpen has no {name}")
        self.name = name


class Sqlite:
    """The SQLite that libMIOpen uses, told that the user kernel database is for this run only.

    MIOpen opens and closes that database for every kernel, and each time SQLite waits for the
    disk, folds its write-ahead log into the file and deletes it: most of the time of a plan.
    Where libMIOpen has SQLite built in, all of this does nothing: a second copy of SQLite in the
    process would break the locks of the first.
    """

    def __init__(self, libmiopen: ctypes.CDLL):
        self._calls = libmiopen
        self._relaxed = False
        self._held = c_void_p()
        self._entry_point = SqliteEntryPoint(self._on_open)

    def relax(self) -> None:
        """Wait for the disk no more, in any connection from now on."""
        try:
            self._calls.sqlite3_auto_extension(self._entry_point)
        except AttributeError:
            return
        self._relaxed = True

    def hold_open(self, folder: str) -> None:
        """Keep a connection to the user kernel database in `folder`, once there is one."""
        if not self._relaxed or self._held:
            return
        for path in Path(folder).rglob("*.ukdb"):
            opened = self._calls.sqlite3_open_v2(
                os.fsencode(path), byref(self._held), c_int(SQLITE_OPEN_READWRITE), None
            )
            # Only a connection that has read something takes part in the log.
            if opened == 0:
                self._execute(self._held, b"PRAGMA schema_version")
            return

    def _on_open(self, connection: int, _error: int, _api: int) -> int:
        self._execute(c_void_p(connection), b"PRAGMA synchronous=OFF")
        return 0  # anything else would fail MIOpen's own call

    def _execute(self, connection: c_void_p, statement: bytes) -> None:
        self._calls.sqlite3_exec(connection, statement, None, None, None)


class Library:
    """libMIOpen and the GPU's HIP, with every status checked."""

    def __init__(self, libmiopen: str, libamdhip: str, virtual: bool):
        self._hip = ctypes.CDLL(libamdhip)
        self._miopen = ctypes.CDLL(libmiopen)
        self._virtual = virtual
        if virtual:
            self._hip.kdbforge_vgpu_calls.restype = c_uint64
        self.sqlite = Sqlite(self._miopen)
        self._shared_handle = c_void_p()

    def call(self, name: str, *args: Any) -> None:
        """Call `miopen<name>`; pointers are passed as c_void_p, sizes as c_size_t.

        Raises
        ------
        AbsentError
            If the library does not have it.
        CallError
            If the status is not success.
        """
        try:
            function = getattr(self._miopen, f"miopen{name}")
        except AttributeError:
            raise AbsentError(f"miopen{name}") from None
        status = function(*args)
        if status != STATUS_SUCCESS:
            raise CallError(f"miopen{name}", status)

    def mark(self, text: str) -> None:
        """Write `text` into the capture journal: what follows belongs to it."""
        if self._virtual:
            self._hip.kdbforge_vgpu_mark(text.encode())

    def hip_calls(self) -> int:
        """Number of HIP calls that the virtual GPU has answered."""
        return int(self._hip.kdbforge_vgpu_calls()) if self._virtual else 0

    @contextmanager
    def buffer(self, size: int) -> Iterator[c_void_p]:
        """Device memory of `size` bytes; a null pointer for none."""
        pointer = c_void_p()
        if size:
            status = self._hip.hipMalloc(byref(pointer), c_size_t(size))
            if status:
                raise CallError(f"hipMalloc of {size} bytes", status)
        try:
            yield pointer
        finally:
            if pointer:
                self._hip.hipFree(pointer)

    def share_handle(self) -> None:
        """Give the same handle to all problems from now on, to the end of the process."""
        self.call("Create", byref(self._shared_handle))

    @contextmanager
    def handle(self) -> Iterator[c_void_p]:
        """The shared handle, or else a new one."""
        if self._shared_handle:
            yield self._shared_handle
            return
        with self.object("Create", "Destroy") as own:
            yield own

    @contextmanager
    def object(self, kind: str, destroy: str) -> Iterator[c_void_p]:
        """A handle or descriptor made by `miopen<kind>`."""
        handle = c_void_p()
        self.call(kind, byref(handle))
        try:
            yield handle
        finally:
            self.call(destroy, handle)


def ints(values: list[int]) -> ctypes.Array[c_int]:
    """A C array of int."""
    return (c_int * len(values))(*values)
