"""Commands on whole tensors: arithmetic, filling, layout changes, concatenation, bias."""

from __future__ import annotations

from collections.abc import Sequence

from kdbforge.errors import InputError
from kdbforge.problems.flags import FlagTable, Values
from kdbforge.problems.primitives.table import (
    FLOATS,
    Primitive,
    choice,
    driver_flags,
    forward_only,
    ignored,
    number,
    pad,
    real,
    size,
    tensor,
)

__all__ = ["PRIMITIVES"]

_WITH_INTEGERS = {**FLOATS, "int8": "int8", "int32": "int32", "fp64": "fp64"}


def _split_cat(values: Values) -> Sequence[Values]:
    shapes = [values.lengths(f"input{i}") for i in range(1, 9) if values.text(f"input{i}")]
    axis = values.number("dim")
    rest = {(*shape[:axis], *shape[axis + 1 :]) for shape in shapes if 0 <= axis < len(shape)}
    if len(rest) != 1 or any(len(shape) != len(shapes[0]) for shape in shapes):
        raise InputError(f"The inputs cannot be concatenated along axis {axis}")
    return forward_only(values)


def _split_optensor(values: Values) -> Sequence[Values]:
    a, b = values.lengths("a"), values.lengths("b")
    if len(a) != len(b) or any(y not in (1, x) for x, y in zip(a, b, strict=True)):
        raise InputError("The lengths of `-b` must be those of `-a`, or 1")
    return (values,)


def _split_transform(values: Values) -> Sequence[Values]:
    if len(values.lengths("x")) != len(values.lengths("y")):
        raise InputError("The tensors `-x` and `-y` must have as many axes")
    return (values,)


TENSOROP = Primitive(
    "tensorop",
    "filling, scaling, and arithmetic of two tensors",
    driver_flags(
        size("n", "batchsize", 64),
        size("c", "in_channels", 3),
        size("H", "in_h", 32),
        size("W", "in_w", 32),
        choice("o", "tensor_op", 0, *range(6)),
        real("A", "alpha1", 1),
        real("B", "alpha2", 1),
        real("G", "beta", 0),
        real("v", "tensor_val", 1),
        ignored("F", "forw"),
    ),
    suffixes=_WITH_INTEGERS,
)

OPTENSOR = Primitive(
    "optensor",
    "arithmetic of a tensor and a smaller one",
    FlagTable(
        tensor("a", "a", "16x32x8x8"),
        tensor("b", "b", "1x32x1x1"),
        choice("o", "op", 0, 0, 1, 2, 3),
        real("A", "alpha1", 1),
        real("B", "alpha2", 1),
        real("G", "beta", 0),
    ),
    split=_split_optensor,
    suffixes=_WITH_INTEGERS,
    own=True,
)

TRANSFORM = Primitive(
    "transform",
    "copy into another layout, with scaling",
    FlagTable(
        tensor("x", "x", "16x32x8x8"),
        tensor("y", "y", "16x32x8x8,NHWC"),
        real("A", "alpha", 1),
        real("B", "beta", 0),
    ),
    split=_split_transform,
    suffixes=_WITH_INTEGERS,
    own=True,
)

CONV_BIAS = Primitive(
    "convbias",
    "bias of a convolution, forward and backward",
    FlagTable(
        size("n", "batchsize", 16),
        size("k", "out_channels", 32),
        pad("D", "out_d"),
        size("H", "out_h", 8),
        size("W", "out_w", 8),
        choice("F", "forw", 1, 1, 2),
    ),
    own=True,
)

CAT = Primitive(
    "cat",
    "concatenation",
    driver_flags(
        tensor("1", "input1", "2x32x128x128x128"),
        tensor("2", "input2", "2x32x128x128x128"),
        *(tensor(str(i), f"input{i}") for i in range(3, 9)),
        number("d", "dim", 0),
        number("F", "forw", 1),
    ),
    split=_split_cat,
)

PRIMITIVES = (TENSOROP, OPTENSOR, TRANSFORM, CONV_BIAS, CAT)
