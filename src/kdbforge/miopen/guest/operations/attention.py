"""Multi-head attention, through the Find 2.0 calls: MIOpen has no other for it."""

from __future__ import annotations

import ctypes
from ctypes import byref, c_float, c_int, c_int64, c_size_t, c_uint, c_void_p

from ..library import STATUS_NOT_IMPLEMENTED, CallError
from ..tensors import Operation, Tensor

MAX_SOLUTIONS = 16
#: miopenTensorArgumentId_t of both directions and of each; all scales are single numbers.
SCALES = {"DescaleK": 7, "DescaleQ": 8, "DescaleV": 9, "DescaleS": 10, "ScaleS": 11}
DROPOUT = {"Probability": 13, "Seed": 14, "Offset": 15}
FORWARD = {"ScaleO": 12, "AmaxO": 17, "AmaxS": 18}
BACKWARD_SCALES = (22, 23, 24, 25, 26, 27, 28, 32, 33, 34, 35)
K, Q, V, OUT, M, Z_INV, D_OUT, D_Q, D_K, D_V = 4, 5, 6, 16, 19, 20, 21, 29, 30, 31
MASK = (1 << 31) | 1


class TensorArgument(ctypes.Structure):
    """miopenTensorArgument_t."""

    _fields_ = (("id", c_uint), ("descriptor", c_void_p), ("buffer", c_void_p))


def run_mha(op: Operation) -> None:
    mask = c_int64(op.number("mask"))
    tensors = _tensors(op)
    desc = op.created("CreateMhaDescriptor", "")  # the library has no call to destroy it
    op.library.call("SetMhaDescriptor", desc, c_float(1))
    problem = op.created("CreateMhaProblem", "DestroyProblem", desc, c_int(1 if op.backward else 0))
    for name, tensor in tensors.items():
        op.library.call("SetProblemTensorDescriptor", problem, c_uint(name), tensor.desc)
    solutions, found = (c_void_p * MAX_SOLUTIONS)(), c_size_t()
    op.call("FindSolutions", problem, None, solutions, byref(found), c_size_t(MAX_SOLUTIONS))
    if not found.value:
        # Find 2.0 has no status for what the older calls say with this one.
        raise CallError("miopenFindSolutions", STATUS_NOT_IMPLEMENTED, "found no solution")
    held = [c_void_p(tensor.desc.value) for tensor in tensors.values()]
    arguments = (TensorArgument * (len(tensors) + 1))(
        *(
            TensorArgument(name, ctypes.cast(byref(desc), c_void_p), tensor.data)
            for (name, tensor), desc in zip(tensors.items(), held, strict=True)
        ),
        TensorArgument(MASK, None, ctypes.cast(byref(mask), c_void_p)),
    )
    for solution in map(c_void_p, solutions[: found.value]):
        space = op.workspace("GetSolutionWorkspaceSize", solution)
        op.call("RunSolution", solution, c_size_t(len(arguments)), arguments, *space)
        op.library.call("DestroySolution", solution)


def _tensors(op: Operation) -> dict[int, Tensor]:
    """All tensors of the direction, by argument number; shapes as miopen.h states them."""
    batch, heads, sequence = op.number("batchsize"), op.number("heads"), op.number("sequence")
    full, row, one = (
        [batch, heads, sequence, op.number("head_dim")],
        [batch, heads, sequence, 1],
        [1] * 4,
    )
    names = [K, Q, V, OUT, *((D_OUT, D_Q, D_K, D_V) if op.backward else ())]
    # The gradient of 8-bit floats has the wider range (mha_solver_backward.cpp, IsApplicable).
    gradient = "bf8" if op.dtype == "fp8" else op.dtype
    tensors = {name: op.tensor(full, gradient if name == D_OUT else op.dtype) for name in names}
    tensors |= {name: op.tensor(row, "fp32") for name in (M, Z_INV)}
    single = [*SCALES.values(), *(BACKWARD_SCALES if op.backward else FORWARD.values())]
    tensors |= {name: op.tensor(one, "fp32") for name in (*single, DROPOUT["Probability"])}
    return tensors | {DROPOUT[name]: op.tensor(one, "int64") for name in ("Seed", "Offset")}


RUNNERS = {"mha": run_mha}
