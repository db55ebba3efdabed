"""One convolution problem in each of MIOpen's ways of running it."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from ctypes import byref, c_bool, c_float, c_int, c_size_t, c_uint64, c_void_p
from typing import Any

from .library import Library, ints
from .tensors import DATA_TYPES, ELEMENT_BYTES, LAYOUTS, elements

DATA_TYPE_INT32 = DATA_TYPES["int32"]
MODE_CONVOLUTION, MODE_TRANSPOSE = 0, 1  # miopen.h
FIND_MODES = {"find-fast": 2, "find-normal": 1}  # miopen_internal.h
#: Infix of the API names, by direction.
DIRECTIONS = {"fwd": "Forward", "bwd": "BackwardData", "wrw": "BackwardWeights"}
#: A find call returns at most one result per algorithm (convolutionocl.cpp).
MAX_ALGORITHMS = 8


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
