"""Commands that select elements of a tensor, and losses."""

from __future__ import annotations

from collections.abc import Sequence

from kdbforge.errors import InputError
from kdbforge.problems.flags import Values
from kdbforge.problems.primitives.table import (
    Primitive,
    axes,
    choice,
    driver_flags,
    ignored,
    number,
    pad,
    real,
    size,
    split_by_forw,
    tensor,
    text,
)

__all__ = ["PRIMITIVES"]

_REDUCE = choice("R", "reduce", "none", "none", "mean", "sum")


def _split_kthvalue(values: Values) -> Sequence[Values]:
    lengths, axis = values.lengths("dim-lengths"), values.number("dim")
    if not -len(lengths) <= axis < len(lengths):
        raise InputError(f"`{axis}` is no axis of a tensor with {len(lengths)}")
    if values.number("k") > lengths[axis]:
        raise InputError(f"Axis {axis} of length {lengths[axis]} has no value {values.text('k')}")
    return (values.replaced(forw="1", dim=str(axis % len(lengths))),)


def _split_getitem(values: Values) -> Sequence[Values]:
    if values.number("dimcount") != len(values.lengths("dims")):
        raise InputError("`--dimcount` is not the number of `--dims`")
    if max(values.lengths("dims"), default=0) >= len(values.lengths("dinput")):
        raise InputError("`--dims` names an axis that `--dinput` does not have")
    if values.number("indexcount") != 1 or values.number("slicecount"):
        raise InputError("Only getitem with one index tensor and no slices can be asked for")
    return (values.replaced(forw="2"),)


def _split_multimargin(values: Values) -> Sequence[Values]:
    if len(values.lengths("dim")) != 2:
        raise InputError("`-D` of a multi-margin loss has two lengths: samples and classes")
    if values.number("forw") not in (0, 1):
        raise InputError("MIOpen has the forward direction of this loss only")
    return (values.replaced(forw="1"),)


GETITEM = Primitive(
    "getitem",
    "indexing, backward",
    driver_flags(
        tensor("O", "doutput", "128x128"),
        tensor("D", "indexs", "128"),
        tensor("N", "dinput", "128x128"),
        number("1", "indexcount", 1),
        number("2", "dimcount", 1),
        axes("3", "dims", "0"),
        number("4", "slicecount", 0),
        text("5", "slices"),
        pad("6", "offset"),
        number("F", "forw", 0),
    ),
    split=_split_getitem,
)

KTHVALUE = Primitive(
    "kthvalue",
    "k-th smallest value along an axis",
    driver_flags(
        tensor("D", "dim-lengths", "256x4x2"),
        size("k", "k", 1),
        number("d", "dim", -1),
        choice("K", "keep-dim", 0, 0, 1),
        choice("c", "is-contiguous", 1, 0, 1),
        number("F", "forw", 1),
    ),
    split=_split_kthvalue,
)

SOFT_MARGIN_LOSS = Primitive(
    "softmarginloss",
    "soft-margin loss",
    driver_flags(
        tensor("D", "dim", "4x25x4x25"),
        choice("C", "contiguous", 1, 0, 1),
        _REDUCE,
        number("F", "forw", 1),
        ignored("S", "stride"),
    ),
    split=split_by_forw(1, 2),
)

MULTI_MARGIN_LOSS = Primitive(
    "multimarginloss",
    "multi-margin loss, forward",
    driver_flags(
        tensor("D", "dim", "41x4"),
        choice("C", "contiguous", 1, 0, 1),
        _REDUCE,
        # kdbforge's own; MIOpenDriver draws them.
        choice("p", "p", 1, 1, 2),
        real("m", "margin", 1),
        number("F", "forw", 1),
    ),
    split=_split_multimargin,
)

PRIMITIVES = (GETITEM, KTHVALUE, SOFT_MARGIN_LOSS, MULTI_MARGIN_LOSS)
