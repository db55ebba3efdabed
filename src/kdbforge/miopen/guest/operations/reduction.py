"""Reductions along axes."""

from __future__ import annotations

from ctypes import byref, c_double, c_float, c_int, c_int32

from ..tensors import DATA_TYPES, NO_TENSOR, Operation

REDUCE_SUM = 2  # miopenReduceCalculationOp_t
ARG_MIN, ARG_MAX = 1, 2  # miopenReduceExtremeOp_t


def run_reduce(op: Operation) -> None:
    lengths, axes = op.numbers("DimLengths"), op.numbers("DimsToReduce")
    desc = op.descriptor("ReduceTensor")
    kind = DATA_TYPES["fp64"] if op.dtype == "fp64" else op.number("CompType")
    settings = (op.number("NanPropagation"), op.number("IndicesUsed"), op.number("IndicesType"))
    op.library.call(
        "SetReduceTensorDescriptor", desc, c_int(op.number("ReduceOp")), c_int(kind),
        *map(c_int, settings),
    )  # fmt: skip
    a = op.tensor(lengths)
    c = op.tensor([1 if i in axes else n for i, n in enumerate(lengths)])
    shapes = (op.handle, desc, a.desc, c.desc)
    indices = op.workspace("GetReductionIndicesSize", *shapes)
    space = op.workspace("GetReductionWorkspaceSize", *shapes)
    scalar = c_double if op.dtype == "fp64" else c_float
    alpha, beta = scalar(op.real("alpha")), scalar(op.real("beta"))
    op.call("ReduceTensor", desc, *indices, *space, byref(alpha), *a, byref(beta), *c)


def _without_axis(op: Operation) -> list[int]:
    lengths = op.numbers("input")
    return [n for i, n in enumerate(lengths) if i != op.number("DimToReduce")] or [1]


def run_reduce_extreme(op: Operation) -> None:
    operation = op.number("ReduceExtremeOp")
    x, indices = op.tensor(op.numbers("input")), op.tensor(_without_axis(op), "int32")
    y = NO_TENSOR if operation in (ARG_MIN, ARG_MAX) else op.tensor(_without_axis(op))
    axis = c_int32(op.number("DimToReduce"))
    op.call("ReduceExtremeForward", *x, axis, c_int(operation), *y, *indices)


def run_reduce_calculation(op: Operation) -> None:
    operation = c_int(op.number("ReduceCalculationOp") or REDUCE_SUM)
    x, y = op.tensor(op.numbers("input")), op.tensor(_without_axis(op))
    axis = c_int32(op.number("DimToReduce"))
    space = op.workspace(
        "GetReduceCalculationWorkspaceSize", op.handle, x.desc, axis, operation, y.desc
    )
    nan = c_int(op.number("NanPropagation"))
    op.call("ReduceCalculationForward", nan, *space, *x, axis, operation, *y)


RUNNERS = {
    "reduce": run_reduce,
    "reduceextreme": run_reduce_extreme,
    "reducecalculation": run_reduce_calculation,
    "sum": run_reduce_calculation,
}
