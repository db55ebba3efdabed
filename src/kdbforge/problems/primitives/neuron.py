"""Commands of element-wise primitives: activations, softmax, gated linear units, rotations."""

from __future__ import annotations

from collections.abc import Sequence

from kdbforge.errors import InputError
from kdbforge.problems.flags import Values
from kdbforge.problems.primitives.table import (
    Primitive,
    choice,
    driver_flags,
    number,
    real,
    size,
    split_by_forw,
    tensor,
)

__all__ = ["PRIMITIVES"]

_IMAGE = (
    size("n", "batchsize", 100),
    size("c", "in_channels", 3),
    size("H", "in_h", 32),
    size("W", "in_w", 32),
)


def _split_glu(values: Values) -> Sequence[Values]:
    lengths, axis = values.lengths("dim_lengths"), values.number("dim_to_split")
    if not 0 <= axis < len(lengths):
        raise InputError(f"`{axis}` of flag `{values.flags['dim_to_split']}` is no axis")
    if lengths[axis] % 2:
        raise InputError(f"Axis {axis} of length {lengths[axis]} cannot be split in half")
    return split_by_forw(1, 2)(values)


def _backward(values: Values) -> Sequence[Values]:
    """Take a line of a primitive of which MIOpen has the backward direction only."""
    return (values.replaced(forw="2"),)


ACTIV = Primitive(
    "activ",
    "activation",
    driver_flags(
        *_IMAGE,
        choice("m", "mode", 3, *range(10)),
        real("A", "alpha", 1),
        real("B", "beta", 1),
        real("G", "gamma", 1),
        number("F", "forw", 0),
    ),
    split=split_by_forw(1, 2),
)

SOFTMAX = Primitive(
    "softmax",
    "softmax and log-softmax",
    driver_flags(
        *_IMAGE,
        choice("a", "algorithm", 1, 0, 1, 2),
        choice("m", "mode", 1, 0, 1),
        real("A", "alpha", 1),
        real("B", "beta", 0),
        number("F", "forw", 0),
    ),
    split=split_by_forw(1, 2),
)

GLU = Primitive(
    "glu",
    "gated linear unit",
    driver_flags(
        tensor("D", "dim_lengths", "2x3x4"),
        number("R", "dim_to_split", 0),
        number("F", "forw", 1),
    ),
    split=_split_glu,
)

PRELU = Primitive(
    "prelu",
    "PReLU, backward",
    driver_flags(
        tensor("D", "input", "256x4x256"), size("P", "NumParameters", 1), number("F", "forw", 0)
    ),
    split=_backward,
)

ROPE = Primitive(
    "rope",
    "rotary position embedding",
    driver_flags(tensor("X", "input", "4x16x32x64"), number("F", "forw", 1)),
    split=split_by_forw(1, 2),
)

PRIMITIVES = (ACTIV, SOFTMAX, GLU, PRELU, ROPE)
