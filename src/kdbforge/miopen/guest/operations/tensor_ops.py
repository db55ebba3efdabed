"""Arithmetic on whole tensors, filling, layout changes, concatenation, bias."""

from __future__ import annotations

from ctypes import byref, c_double, c_float, c_int, c_int32
from typing import Any

from ..tensors import ONE, ZERO, Operation, pointers

SET, SCALE, FIRST_BINARY = 0, 1, 2  # `tensor_op` of MIOpenDriver


def _scalar(op: Operation, name: str) -> Any:
    """A scalar of the C type that the library reads for the operation's data type."""
    if op.dtype in ("int8", "int32"):
        return c_int32(int(op.real(name)))
    return (c_double if op.dtype == "fp64" else c_float)(op.real(name))


def run_tensorop(op: Operation) -> None:
    operation, a = op.number("tensor_op"), op.tensor(op.image())
    if operation in (SET, SCALE):
        value = _scalar(op, "tensor_val")
        op.call("SetTensor" if operation == SET else "ScaleTensor", *a, byref(value))
        return
    b, c = op.tensor(op.image()), op.tensor(op.image())
    _op_tensor(op, operation - FIRST_BINARY, a, b, c)


def run_optensor(op: Operation) -> None:
    _op_tensor(op, op.number("op"), op.tensor_of("a"), op.tensor_of("b"), op.tensor_of("a"))


def _op_tensor(op: Operation, operation: int, a: Any, b: Any, c: Any) -> None:
    alpha1, alpha2, beta = (_scalar(op, name) for name in ("alpha1", "alpha2", "beta"))
    op.call("OpTensor", c_int(operation), byref(alpha1), *a, byref(alpha2), *b, byref(beta), *c)


def run_transform(op: Operation) -> None:
    alpha, beta = c_float(op.real("alpha")), c_float(op.real("beta"))
    x, y = op.tensor_of("x"), op.tensor_of("y")
    op.call("TransformTensor", byref(alpha), *x, byref(beta), *y)


def run_convolution_bias(op: Operation) -> None:
    depth = [op.number("out_d")] if op.number("out_d") else []
    spatial = [*depth, op.number("out_h"), op.number("out_w")]
    y = op.tensor([op.number("batchsize"), op.number("out_channels"), *spatial])
    bias = op.tensor([1, op.number("out_channels"), *[1] * len(spatial)])
    first, second = (y, bias) if op.backward else (bias, y)
    name = "ConvolutionBackwardBias" if op.backward else "ConvolutionForwardBias"
    op.call(name, byref(ONE), *first, byref(ZERO), *second)


def run_cat(op: Operation) -> None:
    shapes = [op.numbers(f"input{i}") for i in range(1, 9) if op.text(f"input{i}")]
    axis = op.number("dim")
    inputs = [op.tensor(shape) for shape in shapes]
    total = sum(shape[axis] for shape in shapes)
    y = op.tensor([total if i == axis else n for i, n in enumerate(shapes[0])])
    descs, datas = pointers([x.desc for x in inputs]), pointers([x.data for x in inputs])
    op.call("CatForward", c_int32(len(inputs)), descs, datas, *y, c_int32(axis))


RUNNERS = {
    "tensorop": run_tensorop,
    "optensor": run_optensor,
    "transform": run_transform,
    "convbias": run_convolution_bias,
    "cat": run_cat,
}
