"""What a node comes to, and the helpers that all families of operators share."""

from __future__ import annotations

from dataclasses import dataclass

import onnx

from kdbforge.errors import InputError
from kdbforge.model.problem import Convolution, Problem
from kdbforge.problems.onnx.site import Site
from kdbforge.problems.onnx.values import Value

__all__ = [
    "CPU",
    "FUSED",
    "MIGRAPHX",
    "ONNXRUNTIME",
    "OWN_KERNEL",
    "Outcome",
    "Wish",
    "command",
    "dtype_of",
    "need",
]

MIGRAPHX = "migraphx"
ONNXRUNTIME = "onnxruntime"

#: Where nodes go that never reach MIOpen.
OWN_KERNEL = "own kernel of the consumer"
CPU = "CPU: no GPU kernel for it"
FUSED = "fused into the convolution before it"

_FLOATS = {
    onnx.TensorProto.FLOAT: "fp32",
    onnx.TensorProto.FLOAT16: "fp16",
    onnx.TensorProto.BFLOAT16: "bf16",
    onnx.TensorProto.DOUBLE: "fp64",
}
#: How MIOpenDriver spells a dtype behind a command's name.
_SUFFIX = {"fp32": "", "fp16": "fp16", "bf16": "bfp16", "fp64": "fp64"}


@dataclass(frozen=True, slots=True)
class Wish:
    """For whom, and in which data type, nodes are mapped."""

    consumer: str
    dtype: str | None = None  # instead of the file's floating-point types


@dataclass(frozen=True, slots=True)
class Outcome:
    """Where a node goes; `commands` are MIOpenDriver lines for what is no plain convolution."""

    goes: str
    problems: tuple[Problem, ...] = ()
    commands: tuple[str, ...] = ()


def need(site: Site, index: int) -> Value:
    """An input whose shape is known in full.

    Raises
    ------
    InputError
        If there is none; the reason is that of the first tensor on the way whose shape is not
        known.
    """
    value = site.input(index)
    if value is None:
        raise InputError(f"input {index} is missing")
    if not value.known:
        raise InputError(f"its shapes are not known: {value.why or 'no reason is known'}")
    if 0 in value.dims:
        raise InputError(f"input {index} is empty: {'x'.join(map(str, value.dims))}")
    return value


def dtype_of(value: Value, wish: Wish) -> str | None:
    """The floating-point type that a tensor is computed in; None if it is of another kind."""
    own = _FLOATS.get(value.element)
    wished = wish.dtype if wish.dtype != "int8" else None
    return (wished or own) if own is not None or value.element == 0 else None


def bias_command(problem: Convolution) -> str:
    """The call that adds a bias to what a convolution, or backward data of one, has made."""
    backward = problem.direction == "bwd"
    channels = problem.in_channels if backward else problem.out_channels
    size = problem.in_size if backward else problem.out_size
    flags = ("--out_d", "-H", "-W")[-len(size) :]
    words = [word for pair in zip(flags, size, strict=True) for word in pair]
    return command("convbias", problem.dtype, "-n", problem.batch, "-k", channels, *words, "-F", 1)


def command(name: str, dtype: str, *words: object) -> str:
    """A MIOpenDriver command line."""
    return " ".join(map(str, ("MIOpenDriver", name + _SUFFIX[dtype], *words)))
