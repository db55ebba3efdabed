"""Reductions: ONNX Runtime calls MIOpen for those that are no plain matrix; MIGraphX never does.

ONNX Runtime's ROCm provider: core/providers/rocm/reduction/reduction_ops.cc.
"""

from __future__ import annotations

import numpy as np

from kdbforge.errors import InputError
from kdbforge.problems.onnx.geometry import integer
from kdbforge.problems.onnx.mapping.outcome import (
    CPU,
    MIGRAPHX,
    OWN_KERNEL,
    Outcome,
    Wish,
    command,
    dtype_of,
    need,
)
from kdbforge.problems.onnx.site import Site

__all__ = ["reduce", "reduction"]

#: miopenReduceTensorOp_t (include/miopen/miopen.h).
_OPERATIONS = {"ADD": 0, "MUL": 1, "MIN": 2, "MAX": 3, "AVG": 5, "NORM1": 6, "NORM2": 7}
_ONNX = {
    "ReduceSum": ("ADD",),
    "ReduceSumSquare": ("ADD",),
    "ReduceLogSum": ("ADD",),
    "ReduceLogSumExp": ("MAX", "ADD"),
    "ReduceMean": ("AVG",),
    "ReduceProd": ("MUL",),
    "ReduceMin": ("MIN",),
    "ReduceMax": ("MAX",),
    "ReduceL1": ("NORM1",),
    "ReduceL2": ("NORM2",),
    "ArgMax": ("MAX",),
    "ArgMin": ("MIN",),
}
#: Sums over leading or trailing axes are sums over the rows or columns of a matrix.
_MATRIX = frozenset(("ReduceSum", "ReduceSumSquare", "ReduceLogSum", "ReduceMean"))
#: MIOpen's miopenFloat, in which ONNX Runtime lets it compute.
_COMPUTE_FLOAT = 1
_LEAST_AXES = 3


def reduce(site: Site, wish: Wish) -> Outcome:
    """Map a reduction."""
    if wish.consumer == MIGRAPHX:
        return Outcome(OWN_KERNEL)
    x = need(site, 0)
    dtype = dtype_of(x, wish)
    if dtype not in ("fp32", "fp16"):
        return Outcome(OWN_KERNEL if dtype else CPU)
    kind = site.node.op_type
    axes = _axes(site, len(x.dims))
    if axes is None:
        return Outcome("no kernel: copies at most")
    if kind in _MATRIX and _is_matrix(axes, len(x.dims)):
        return Outcome(OWN_KERNEL)
    if all(x.dims[axis] == 1 for axis in axes):
        return Outcome("no kernel: copies at most")
    indices = kind in ("ArgMax", "ArgMin")
    dtype = "fp32" if indices else dtype
    lines = [
        reduction(x.dims, axes, operation, dtype, indices=indices).commands[0]
        for operation in _ONNX[kind]
    ]
    return Outcome("MIOpen: reduction", commands=tuple(lines))


def _axes(site: Site, rank: int) -> tuple[int, ...] | None:
    """The axes to reduce, sorted; None if there are none."""
    if site.node.op_type in ("ArgMax", "ArgMin"):
        given = [integer(site, "axis", 0)]
    elif "axes" in site.attributes:
        given = list(site.attributes["axes"].ints)
    elif site.input(1) is not None:
        constant = need(site, 1).constant
        if constant is None:
            raise InputError("the axes that it reduces are not known")
        given = [int(axis) for axis in np.ravel(constant)]
    else:
        given = []
    if not given and integer(site, "noop_with_empty_axes", 0):
        return None
    if any(not -rank <= axis < rank for axis in given):
        raise InputError(f"an axis of {given} is none of its {rank}")
    return tuple(sorted({axis % rank for axis in given})) or tuple(range(rank))


def _is_matrix(axes: tuple[int, ...], rank: int) -> bool:
    together = axes == tuple(range(axes[0], axes[-1] + 1))
    return together and (axes[0] == 0 or axes[-1] == rank - 1)


def reduction(
    dims: tuple[int, ...], axes: tuple[int, ...], operation: str, dtype: str, *, indices: bool
) -> Outcome:
    """MIOpenDriver's reduce (driver/reduce_driver.hpp) for one call of miopenReduceTensor."""
    lengths = (*dims, *(1 for _ in range(_LEAST_AXES - len(dims))))
    line = command(
        "reduce",
        dtype,
        *("-D", ",".join(map(str, lengths))),
        *("-R", ",".join(map(str, axes))),
        *("-O", _OPERATIONS[operation], "-C", _COMPUTE_FLOAT, "-N", 1, "-I", int(indices)),
    )
    return Outcome("MIOpen: reduction", commands=(line,))
