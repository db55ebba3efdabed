"""Commands of the Adam family of optimizers."""

from __future__ import annotations

from kdbforge.problems.flags import Flag
from kdbforge.problems.primitives.table import (
    Primitive,
    choice,
    driver_flags,
    ignored,
    pad,
    real,
    tensor,
)

__all__ = ["PRIMITIVES"]

#: What MIOpenDriver has for `amp`: float parameters with half gradients.
_AMP = {"": "fp32"}
_PLAIN = {"": "fp32", "fp16": "fp16", "bfp16": "bf16"}


def _flags(*more: Flag) -> tuple[Flag, ...]:
    return (
        tensor("d", "dims", "64x32x128"),
        real("l", "lr", 0.001),
        real("1", "beta1", 0.9),
        real("2", "beta2", 0.999),
        real("e", "eps", 0.00000001),
        real("W", "weight_decay", 0),
        *more,
        ignored("F", "forw"),
    )


_ADAM = _flags(choice("a", "amsgrad", 0, 0, 1), choice("m", "maximize", 0, 0, 1))
_TRANSFORMERS = _flags(choice("c", "correct_bias", 1, 0, 1))
_SCALED = (pad("s", "scale", 65536), choice("f", "found_inf", 0, 0, 1))

PRIMITIVES = (
    Primitive("adam", "Adam", driver_flags(*_ADAM), suffixes=_PLAIN),
    Primitive("adamw", "AdamW", driver_flags(*_ADAM), suffixes=_PLAIN),
    Primitive("ampadam", "Adam, mixed precision", driver_flags(*_ADAM, *_SCALED), suffixes=_AMP),
    Primitive("ampadamw", "AdamW, mixed precision", driver_flags(*_ADAM, *_SCALED), suffixes=_AMP),
    Primitive(
        "transformersadamw", "AdamW of transformers", driver_flags(*_TRANSFORMERS), suffixes=_PLAIN
    ),
    Primitive(
        "transformersampadamw",
        "AdamW of transformers, mixed precision",
        driver_flags(*_TRANSFORMERS, *_SCALED),
        suffixes=_AMP,
    ),
)
