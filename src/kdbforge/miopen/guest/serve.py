"""Serves one request: runs its problems one after the other and tells how each went."""

from __future__ import annotations

import ctypes
import json
import os
import sys
import time
from collections.abc import Callable
from ctypes import byref, c_float, c_int
from pathlib import Path
from typing import Any, TextIO

from .convolution import Convolution
from .library import AbsentError, CallError, Library
from .operations import RUNNERS
from .tensors import Operation

PR_SET_PDEATHSIG, SIGKILL = 1, 9


class ErrorLog:
    """MIOpen's messages: descriptor 2 goes to a file, of which the newest part is read back."""

    def __init__(self, path: Path):
        self._path = path
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(descriptor, 2)
        self._offset = os.fstat(2).st_size

    def take(self, limit: int = 4000) -> str:
        """What was written since the last call, at most its last `limit` bytes."""
        size = os.fstat(2).st_size
        with self._path.open("rb") as file:
            file.seek(max(self._offset, size - limit))
            text = file.read(limit)
        self._offset = size
        return text.decode(errors="replace").strip()


def compile_anything(library: Library) -> None:
    """Make the library store one record, so that the name of its database is seen."""
    with (
        library.object("Create", "Destroy") as handle,
        library.object("CreateTensorDescriptor", "DestroyTensorDescriptor") as tensor,
        library.buffer(64) as data,
    ):
        library.call("Set4dTensorDescriptor", tensor, c_int(1), *map(c_int, (1, 1, 2, 2)))
        library.call("SetTensor", handle, tensor, data, byref(c_float(1)))


def run_problem(library: Library, problem: dict[str, Any], call: str) -> int:
    """Run one problem in one way; return the number of solutions that were run or found."""
    if problem["primitive"] == "conv":
        return Convolution(library, problem).run(call)
    with Operation.set_up(library, problem) as operation:
        RUNNERS[problem["primitive"]](operation)
    return 1


def tell_problem(
    library: Library, log: ErrorLog, index: int, problem: dict[str, Any],
    emit: Callable[[dict[str, Any]], None],
) -> None:  # fmt: skip
    """Run one problem in each of the ways asked for, telling of every start and end."""
    for call in problem["calls"]:
        emit({"event": "start", "problem": index, "call": call})
        library.mark(f"problem {index} {call}")
        done = {"event": "done", "problem": index, "call": call, "solutions": 0}
        started = time.monotonic()
        try:
            done["solutions"] = run_problem(library, problem, call)
        except AbsentError as error:
            done["error"], done["absent"] = str(error), error.name
        except CallError as error:
            done.update(error=str(error), status=error.status, log=log.take())
        else:
            log.take()
        emit({**done, "seconds": time.monotonic() - started})


def open_events() -> TextIO:
    """The original stdout, moved away so that no native library writes into the events."""
    events = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return events


def main() -> None:
    """Serve the request file named on the command line."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0)
    request = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    if os.getppid() != request["parent"]:
        return  # the parent died before the death signal was armed
    log = ErrorLog(Path(request["log"]))
    events = open_events()

    def emit(event: dict[str, Any]) -> None:
        events.write(json.dumps(event) + "\n")
        events.flush()

    library = Library(request["libmiopen"], request["libamdhip"], request["virtual"])
    if request["relax_databases"]:
        library.sqlite.relax()
    if request["one_handle"]:
        library.share_handle()
    if request["name_only"]:
        compile_anything(library)
    for index in range(request["first"], len(request["problems"])):
        tell_problem(library, log, index, request["problems"][index], emit)
        library.sqlite.hold_open(os.environ["MIOPEN_CUSTOM_CACHE_DIR"])
    emit({"event": "end", "hip_calls": library.hip_calls()})
    # Without the destructors of libMIOpen, which take apart a find-db of 50 MB, line by line.
    os._exit(0)
