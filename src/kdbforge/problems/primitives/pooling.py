"""The pooling commands, in the spelling of MIOpenDriver since 3.3 and in the one before it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from kdbforge.errors import InputError
from kdbforge.problems.flags import Values
from kdbforge.problems.primitives.table import (
    Primitive,
    choice,
    driver_flags,
    ignored,
    number,
    pad,
    size,
    split_by_forw,
    tensor,
)

__all__ = ["PRIMITIVES"]

_INDEX_TYPES = ("miopenIndexUint8", "miopenIndexUint16", "miopenIndexUint32", "miopenIndexUint64")
_WINDOW = (
    size("Z", "win_d", 3),
    size("y", "win_h", 3),
    size("x", "win_w", 3),
    size("s", "pool_stride_d", 1),
    size("v", "pool_stride_h", 1),
    size("u", "pool_stride_w", 1),
    pad("o", "pad_d"),
    pad("p", "pad_h"),
    pad("q", "pad_w"),
    choice("m", "mode", "max", "max", "avg", "avg_in"),
    choice("z", "pad_mode", "default", "default", "same", "valid"),
    choice("I", "index_type", "miopenIndexUint8", *_INDEX_TYPES),
    choice("M", "index_position", 0, 0, 1),
    number("F", "forw", 0),
    ignored("r", "pad_val"),
    ignored("P", "print"),
    ignored("l", "dump_root"),
)


def _split(values: Values) -> Sequence[Values]:
    dims = len(values.lengths("input"))
    if dims not in (4, 5):
        raise InputError(f"A tensor of {dims} axes cannot be pooled: MIOpen takes 4 or 5")
    return split_by_forw(1, 2)(values)


def _split_old(values: Values) -> Sequence[Values]:
    """Turn the older spelling, with a flag for each length, into today's."""
    depth = ["in_d"] if values.number("spatial_dim") == 3 else []
    names = ["batchsize", "in_channels", *depth, "in_h", "in_w"]
    lengths = "x".join(values.text(name) for name in names)
    kept = {long: value for long, value in values.given.items() if long in POOL.flags}
    return _split(Values(POOL.flags, {**kept, "input": lengths}))


POOL = Primitive(
    "pool",
    "pooling",
    driver_flags(
        tensor("W", "input", "100x3x32x32"),
        *_WINDOW,
        ignored("O", "output"),
        ignored("D", "dinput"),
        ignored("H", "doutput"),
        ignored("j", "in_data"),
        ignored("k", "out_data"),
    ),
    split=_split,
)

#: The command before MIOpen 3.3 (driver/pool_driver.hpp): `-n -c -H -W`, and `-D` in 3-D.
OLD_POOL = replace(
    POOL,
    flags=driver_flags(
        size("n", "batchsize", 100),
        size("c", "in_channels", 3),
        size("D", "in_d", 32),
        size("H", "in_h", 32),
        size("W", "in_w", 32),
        choice("_", "spatial_dim", 2, 2, 3),
        *_WINDOW,
    ),
    split=_split_old,
)

PRIMITIVES = (POOL,)
