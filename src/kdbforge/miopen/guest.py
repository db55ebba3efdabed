"""The child that runs problems through libMIOpen's C API on the virtual GPU.

Stdlib only: it is run by the toolchain's own Python, which does not have kdbforge installed.
Usage: `guest.py REQUEST.json`; events go to the original stdout, one JSON object a line.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ctypes import byref, c_bool, c_float, c_int, c_size_t, c_uint64, c_void_p
from pathlib import Path
from typing import Any, TextIO

# Values of miopen.h and miopen_internal.h.
STATUS_SUCCESS = 0
DATA_TYPES = {"fp16": 0, "fp32": 1, "int8": 3, "bf16": 5}
DATA_TYPE_INT32 = 2
ELEMENT_BYTES = {0: 2, 1: 4, 2: 4, 3: 1, 5: 2}
LAYOUTS = {"NCHW": 0, "NHWC": 1, "NCDHW": 7, "NDHWC": 8}
MODE_CONVOLUTION, MODE_TRANSPOSE = 0, 1
FIND_MODES = {"find-fast": 2, "find-normal": 1}
#: Infix of the API names, by direction.
DIRECTIONS = {"fwd": "Forward", "bwd": "BackwardData", "wrw": "BackwardWeights"}
#: A find call returns at most one result per algorithm (convolutionocl.cpp).
MAX_ALGORITHMS = 8
PR_SET_PDEATHSIG, SIGKILL = 1, 9
SQLITE_OPEN_READWRITE = 2
#: int (*)(sqlite3 *, const char **, const sqlite3_api_routines *), see sqlite3_auto_extension.
SqliteEntryPoint = ctypes.CFUNCTYPE(c_int, c_void_p, c_void_p, c_void_p)


class ConvAlgoPerf(ctypes.Structure):
    """miopenConvAlgoPerf_t."""

    _fields_ = (("algorithm", c_int), ("time", c_float), ("workspace", c_size_t))


class ConvSolution(ctypes.Structure):
    """miopenConvSolution_t."""

    _fields_ = (
        ("time", c_float),
        ("workspace", c_size_t),
        ("solution_id", c_uint64),
        ("algorithm", c_int),
    )


class CallError(Exception):
    """A libMIOpen or HIP call returned an error status."""

    def __init__(self, call: str, status: int):
        super().__init__(f"{call} returned status {status}")
        self.call = call
        self.status = status


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
    """libMIOpen and the virtual GPU's HIP, with every status checked."""

    def __init__(self, libmiopen: str, libamdhip: str):
        self._hip = ctypes.CDLL(libamdhip)
        self._miopen = ctypes.CDLL(libmiopen)
        self._hip.kdbforge_vgpu_calls.restype = c_uint64
        self.sqlite = Sqlite(self._miopen)
        self._shared_handle = c_void_p()

    def call(self, name: str, *args: Any) -> None:
        """Call `miopen<name>`; pointers are passed as c_void_p, sizes as c_size_t.

        Raises
        ------
        CallError
            If the status is not success.
        """
        status = getattr(self._miopen, f"miopen{name}")(*args)
        if status != STATUS_SUCCESS:
            raise CallError(f"miopen{name}", status)

    def mark(self, text: str) -> None:
        """Write `text` into the capture journal: what follows belongs to it."""
        self._hip.kdbforge_vgpu_mark(text.encode())

    def hip_calls(self) -> int:
        """Number of HIP calls that the virtual GPU has answered."""
        return int(self._hip.kdbforge_vgpu_calls())

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


class Convolution:
    """One convolution problem, set up on a handle of its own unless one is shared.

    A new handle per problem means that each problem asks for all of its kernels again, so that
    the journal shows which problem needs which kernel.
    """

    def __init__(self, library: Library, problem: dict[str, Any]):
        self._library = library
        self._problem = problem
        self._infix = DIRECTIONS[problem["direction"]]

    def run(self, call: str) -> int:
        """Execute the problem in one of MIOpen's ways; return the number of kernels' solutions."""
        with self._set_up() as ready:
            if call == "immediate":
                return self._immediate(*ready, only_best=True)
            if call == "immediate-all":
                return self._immediate(*ready, only_best=False)
            return self._find(*ready, call=call)

    @contextmanager
    def _set_up(self) -> Iterator[tuple[Any, ...]]:
        """Yield handle, convolution descriptor, and (descriptor, buffer) of x, w and y."""
        library, problem = self._library, self._problem
        dtype = DATA_TYPES[problem["dtype"]]
        # MIOpenDriver's convint8 has an int32 output (driver/conv_driver.hpp).
        y_type = DATA_TYPE_INT32 if problem["dtype"] == "int8" else dtype
        tensor = ("CreateTensorDescriptor", "DestroyTensorDescriptor")
        with (
            library.handle() as handle,
            library.object(
                "CreateConvolutionDescriptor", "DestroyConvolutionDescriptor"
            ) as convolution,
            library.object(*tensor) as x_desc,
            library.object(*tensor) as w_desc,
            library.object(*tensor) as y_desc,
        ):
            x_dims, w_dims = self._input_dims(), self._filter_dims()
            self._set_tensor(x_desc, dtype, x_dims)
            self._set_tensor(w_desc, dtype, w_dims)
            self._set_convolution(convolution)
            y_dims = self._output_dims(convolution, x_desc, w_desc)
            self._set_tensor(y_desc, y_type, y_dims)
            sizes = [
                elements(dims) * ELEMENT_BYTES[kind]
                for dims, kind in ((x_dims, dtype), (w_dims, dtype), (y_dims, y_type))
            ]
            with (
                library.buffer(sizes[0]) as x,
                library.buffer(sizes[1]) as w,
                library.buffer(sizes[2]) as y,
            ):
                yield handle, convolution, (x_desc, x), (w_desc, w), (y_desc, y)

    def _input_dims(self) -> list[int]:
        problem = self._problem
        return [problem["batch"], problem["in_channels"], *problem["in_size"]]

    def _filter_dims(self) -> list[int]:
        """Filter lengths; a transposed convolution's filter leads with the input channels."""
        problem = self._problem
        first, second = problem["out_channels"], problem["in_channels"]
        if problem["transposed"]:
            first, second = second, first
        return [first, second // problem["groups"], *problem["filter_size"]]

    def _set_tensor(self, desc: c_void_p, dtype: int, dims: list[int]) -> None:
        self._library.call(
            "SetNdTensorDescriptorWithLayout",
            desc,
            c_int(dtype),
            c_int(LAYOUTS[self._problem["layout"]]),
            ints(dims),
            c_int(len(dims)),
        )

    def _set_convolution(self, convolution: c_void_p) -> None:
        problem, call = self._problem, self._library.call
        dims = c_int(len(problem["in_size"]))
        call(
            "InitConvolutionNdDescriptor",
            convolution,
            dims,
            ints(problem["pads"]),
            ints(problem["strides"]),
            ints(problem["dilations"]),
            c_int(MODE_TRANSPOSE if problem["transposed"] else MODE_CONVOLUTION),
        )
        call("SetConvolutionGroupCount", convolution, c_int(problem["groups"]))
        if problem["transposed"] and problem["output_pads"]:
            pads = ints(problem["output_pads"])
            call("SetTransposeConvNdOutputPadding", convolution, dims, pads)

    def _output_dims(self, convolution: c_void_p, x: c_void_p, w: c_void_p) -> list[int]:
        count = c_int(2 + len(self._problem["in_size"]))
        dims = (c_int * count.value)()
        self._library.call(
            "GetConvolutionNdForwardOutputDim", convolution, x, w, byref(count), dims
        )
        return list(dims)

    def _find(self, handle: Any, convolution: Any, x: Any, w: Any, y: Any, *, call: str) -> int:
        """Find, then execute what Find preferred: only an execution runs the invoker."""
        library = self._library
        if call in FIND_MODES:
            library.call("SetConvolutionFindMode", convolution, c_int(FIND_MODES[call]))
        order = self._by_role(x, w, y)
        size = c_size_t()
        library.call(
            f"Convolution{self._infix}GetWorkSpaceSize",
            handle, *self._find_descriptors(convolution, order), byref(size),
        )  # fmt: skip
        found, results = c_int(), (ConvAlgoPerf * MAX_ALGORITHMS)()
        (a, a_data), (b, b_data), (out, out_data) = order
        with library.buffer(size.value) as workspace:
            library.call(
                f"FindConvolution{self._infix}Algorithm",
                handle, a, a_data, b, b_data, convolution, out, out_data,
                c_int(MAX_ALGORITHMS), byref(found), results, workspace, size, c_bool(False),
            )  # fmt: skip
            self._execute(handle, convolution, order, results[0], workspace, size)
        return found.value

    def _execute(
        self, handle: Any, convolution: Any, order: Any, best: ConvAlgoPerf, workspace: Any,
        size: c_size_t,
    ) -> None:  # fmt: skip
        (a, a_data), (b, b_data), (out, out_data) = order
        one, zero = c_float(1), c_float(0)
        self._library.call(
            f"Convolution{self._infix}",
            handle, byref(one), a, a_data, b, b_data, convolution, c_int(best.algorithm),
            byref(zero), out, out_data, workspace, size,
        )  # fmt: skip

    def _immediate(
        self, handle: Any, convolution: Any, x: Any, w: Any, y: Any, *, only_best: bool
    ) -> int:
        library, prefix = self._library, f"Convolution{self._infix}"
        order = self._by_role(x, w, y)
        (a, a_data), (b, b_data), (out, out_data) = order
        if self._infix == "Forward":
            # The forward immediate calls take the filter before the input (miopen.h).
            (a, a_data), (b, b_data) = (b, b_data), (a, a_data)
        count = c_size_t()
        library.call(f"{prefix}GetSolutionCount", handle, a, b, convolution, out, byref(count))
        solutions = (ConvSolution * max(count.value, 1))()
        library.call(
            f"{prefix}GetSolution",
            handle, a, b, convolution, out, c_size_t(count.value), byref(count), solutions,
        )  # fmt: skip
        chosen = solutions[: min(count.value, 1) if only_best else count.value]
        for solution in chosen:
            solution_id = c_uint64(solution.solution_id)
            size = c_size_t()
            library.call(
                f"{prefix}GetSolutionWorkspaceSize",
                handle, a, b, convolution, out, solution_id, byref(size),
            )  # fmt: skip
            library.call(f"{prefix}CompileSolution", handle, a, b, convolution, out, solution_id)
            with library.buffer(size.value) as workspace:
                library.call(
                    f"{prefix}Immediate",
                    handle, a, a_data, b, b_data, convolution, out, out_data,
                    workspace, size, solution_id,
                )  # fmt: skip
        return len(chosen)

    def _by_role(self, x: Any, w: Any, y: Any) -> tuple[Any, Any, Any]:
        """First operand, second operand and result, in the order of the Find calls."""
        return {"Forward": (x, w, y), "BackwardData": (y, w, x), "BackwardWeights": (y, x, w)}[
            self._infix
        ]

    def _find_descriptors(self, convolution: Any, order: Any) -> tuple[Any, ...]:
        """Descriptors for GetWorkSpaceSize; forward takes the filter first (miopen.h)."""
        a, b, out = (desc for desc, _ in order)
        return (b, a, convolution, out) if self._infix == "Forward" else (a, b, convolution, out)


def elements(dims: list[int]) -> int:
    """Product of the lengths."""
    product = 1
    for length in dims:
        product *= length
    return product


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


def run_problem(
    library: Library, log: ErrorLog, index: int, problem: dict[str, Any], calls: list[str],
    emit: Callable[[dict[str, Any]], None],
) -> None:  # fmt: skip
    """Run one problem in each of the ways asked for, telling of every start and end."""
    for call in calls:
        emit({"event": "start", "problem": index, "call": call})
        library.mark(f"problem {index} {call}")
        done = {"event": "done", "problem": index, "call": call, "solutions": 0}
        started = time.monotonic()
        try:
            done["solutions"] = Convolution(library, problem).run(call)
        except CallError as error:
            done["error"], done["log"] = str(error), log.take()
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

    library = Library(request["libmiopen"], request["libamdhip"])
    if request["relax_databases"]:
        library.sqlite.relax()
    if request["one_handle"]:
        library.share_handle()
    if request["name_only"]:
        compile_anything(library)
    for index in range(request["first"], len(request["problems"])):
        run_problem(library, log, index, request["problems"][index], request["calls"], emit)
        library.sqlite.hold_open(os.environ["MIOPEN_CUSTOM_CACHE_DIR"])
    emit({"event": "end", "hip_calls": library.hip_calls()})
    # Without the destructors of libMIOpen, which take apart a find-db of 50 MB, line by line.
    os._exit(0)


if __name__ == "__main__":
    main()
