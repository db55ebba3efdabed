"""Selecting elements of tensors, and losses."""

from __future__ import annotations

from ctypes import c_bool, c_float, c_int, c_int32, c_long, c_size_t, c_uint32, c_void_p

from ..library import ints
from ..tensors import Operation, Tensor, pointers

REDUCTIONS = {"none": 0, "sum": 1, "mean": 2}  # miopenLossReductionMode_t


def run_getitem(op: Operation) -> None:
    dy, dx = op.tensor(op.numbers("doutput")), op.tensor(op.numbers("dinput"))
    index, error = op.tensor(op.numbers("indexs"), "int32"), op.tensor([1], "int32")
    dims = op.numbers("dims")
    count, descs = c_uint32(1), pointers([index.desc])
    space = op.workspace("GetGetitemWorkspaceSize", op.handle, count, descs)
    op.call(
        "GetitemBackward", *space, *dy, count, descs, pointers([index.data]), *dx, *error,
        c_uint32(len(dims)), ints(dims), c_uint32(0), c_void_p(), c_uint32(op.number("offset")),
    )  # fmt: skip


def run_kthvalue(op: Operation) -> None:
    lengths, axis, keep = op.numbers("dim-lengths"), op.number("dim"), op.number("keep-dim")
    out = [1 if i == axis else n for i, n in enumerate(lengths)]
    if not keep:
        out = [n for i, n in enumerate(lengths) if i != axis] or [1]
    x = _input(op, lengths, op.number("is-contiguous") == 1)
    y, indices = op.tensor(out), op.tensor(out, "int64")
    op.call(
        "KthvalueForward", *x, *y, *indices, c_size_t(op.number("k")), c_int32(axis),
        c_bool(keep == 1),
    )  # fmt: skip


def run_soft_margin_loss(op: Operation) -> None:
    lengths, mode = op.numbers("dim"), c_int(REDUCTIONS[op.text("reduce")])
    x = _input(op, lengths, op.number("contiguous") == 1)
    target = op.tensor(lengths)
    if op.backward:
        dy, dx = op.tensor(lengths), op.tensor(lengths)
        op.call("SoftMarginLossBackward", *x, *target, *dy, *dx, mode)
        return
    y = op.tensor(lengths if op.text("reduce") == "none" else [1])
    space = op.workspace(
        "GetSoftMarginLossForwardWorkspaceSize", op.handle, x.desc, target.desc, y.desc, mode
    )
    op.call("SoftMarginLossForward", *x, *target, *y, mode, *space)


def run_multi_margin_loss(op: Operation) -> None:
    (samples, classes), mode = op.numbers("dim"), c_int(REDUCTIONS[op.text("reduce")])
    x = _input(op, [samples, classes], op.number("contiguous") == 1)
    target, weight = op.tensor([samples], "int64"), op.tensor([classes])
    y = op.tensor([samples] if op.text("reduce") == "none" else [1])
    how = (c_long(op.number("p")), c_float(op.real("margin")), mode)
    descs = [t.desc for t in (x, target, weight, y)]
    space = op.workspace("GetMultiMarginLossForwardWorkspaceSize", op.handle, *descs, *how)
    op.call("MultiMarginLossForward", *x, *target, *weight, *y, *how, *space)


def _input(op: Operation, lengths: list[int], contiguous: bool) -> Tensor:
    """A tensor, with a gap behind each element of its first axis if it is not contiguous."""
    if contiguous:
        return op.tensor(lengths)
    strides: list[int] = []
    step = 1
    for length in reversed(lengths):
        strides.insert(0, step)
        step *= length
    return op.tensor(lengths, strides=[strides[0] * 2, *strides[1:]])


RUNNERS = {
    "getitem": run_getitem,
    "kthvalue": run_kthvalue,
    "softmarginloss": run_soft_margin_loss,
    "multimarginloss": run_multi_margin_loss,
}
