"""Caps on the sizes of operations, so that no typing mistake asks for a tensor of petabytes."""

from __future__ import annotations

import math

from kdbforge.errors import InputError
from kdbforge.model.problem import Operation
from kdbforge.problems.flags import MAX_AXES, Take
from kdbforge.problems.limits import MAX_TENSOR_BYTES
from kdbforge.problems.primitives.table import Primitive

__all__ = ["check_sizes"]

#: Flags whose product is the size of a tensor.
_LENGTHS = (
    *("batchsize", "batch_size", "in_n", "in_channels", "in_c", "in_d", "in_h", "in_w"),
    *("seq_len", "hid_h", "in_vec"),
)


def check_sizes(problem: Operation, primitive: Primitive) -> None:
    """Refuse an operation with a tensor that fits no GPU.

    Raises
    ------
    InputError
        Names the tensor and its number of elements.
    """
    arguments = dict(problem.arguments)
    single = math.prod(max(_numbers(arguments.get(name, "1"))) or 1 for name in _LENGTHS)
    counts = [("Input", single)]
    for long, value in problem.arguments:
        flag = primitive.flags[long]
        if flag.take is Take.TENSOR:
            counts.append((f"`{long}`", math.prod(_numbers(value.partition(",")[0]))))
        elif flag.take is Take.SIZES and flag.most == MAX_AXES:
            counts.append((f"`{long}`", math.prod(_numbers(value))))
    for name, count in counts:
        if count * 4 > MAX_TENSOR_BYTES:
            raise InputError(f"{name} tensor of {count:,} elements is larger than any GPU's memory")


def _numbers(text: str) -> list[int]:
    return [int(word) for word in text.replace(",", "x").split("x")]
