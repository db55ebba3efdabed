"""Commands that reduce tensors along axes."""

from __future__ import annotations

from collections.abc import Sequence

from kdbforge.errors import InputError
from kdbforge.problems.flags import Values
from kdbforge.problems.primitives.table import (
    FLOATS,
    Primitive,
    axes,
    choice,
    driver_flags,
    forward_only,
    ignored,
    number,
    real,
    sizes,
    tensor,
)

__all__ = ["PRIMITIVES"]


def _split_reduce(values: Values) -> Sequence[Values]:
    dims = len(values.lengths("DimLengths"))
    reduced = values.lengths("DimsToReduce")
    if len({*reduced}) != len(reduced) or max(reduced) >= dims:
        raise InputError(
            f"`{values.text('DimsToReduce')}` of flag `{values.flags['DimsToReduce']}` are no "
            f"different axes of a tensor with {dims}"
        )
    return forward_only(values.replaced(DimsToReduce=",".join(map(str, sorted(reduced)))))


def _split_one_axis(values: Values) -> Sequence[Values]:
    dims, axis = len(values.lengths("input")), values.number("DimToReduce")
    if not 0 <= axis < dims:
        raise InputError(
            f"`{axis}` of flag `{values.flags['DimToReduce']}` is no axis of a tensor with {dims}"
        )
    return forward_only(values)


REDUCE = Primitive(
    "reduce",
    "reduction along axes",
    driver_flags(
        sizes("D", "DimLengths", "100,60,16,240"),
        axes("R", "DimsToReduce", "0,2"),
        choice("O", "ReduceOp", 0, *range(8)),
        choice("C", "CompType", 1, 0, 1, 5, 6),
        choice("N", "NanPropagation", 0, 0, 1),
        choice("I", "IndicesUsed", 0, 0, 1),
        # kdbforge's own; MIOpenDriver always takes 32-bit indices.
        choice("T", "IndicesType", 0, 0, 1, 2, 3),
        real("A", "alpha", 1),
        real("B", "beta", 0),
        number("F", "forw", 1),
        ignored("d", "in_data"),
        ignored("o", "dump_output"),
    ),
    split=_split_reduce,
    # libMIOpen writes `reducefp` for float and `reduceint8`.
    suffixes={**FLOATS, "fp64": "fp64", "int8": "int8", "fp": "fp32"},
)

REDUCE_EXTREME = Primitive(
    "reduceextreme",
    "minimum, maximum and their indices along an axis",
    driver_flags(
        tensor("X", "input", "21x500x375"),
        number("R", "DimToReduce", 0),
        choice("O", "ReduceExtremeOp", 1, 1, 2, 3, 4),
        number("F", "forw", 1),
    ),
    split=_split_one_axis,
)

REDUCE_CALCULATION = Primitive(
    "reducecalculation",
    "sum and product along an axis",
    driver_flags(
        tensor("X", "input", "256x4x8732"),
        number("R", "DimToReduce", 1),
        choice("O", "ReduceCalculationOp", 2, 1, 2),
        choice("N", "NanPropagation", 0, 0, 1),
        number("F", "forw", 1),
    ),
    split=_split_one_axis,
)

#: Of MIOpen 3.4 and before; the same library call.
SUM = Primitive(
    "sum",
    "sum along an axis",
    driver_flags(
        tensor("X", "input", "256x4x8732"),
        number("R", "DimToReduce", 0),
        choice("N", "NanPropagation", 0, 0, 1),
        number("F", "forw", 1),
    ),
    split=_split_one_axis,
)

PRIMITIVES = (REDUCE, REDUCE_EXTREME, REDUCE_CALCULATION, SUM)
