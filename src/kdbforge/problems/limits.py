"""What a problem's sizes must keep to, so that MIOpen can be asked for it at all."""

from __future__ import annotations

import math

from kdbforge.errors import InputError
from kdbforge.model.problem import DIRECTIONS, DTYPES, LAYOUTS, Convolution

__all__ = ["MAX_SIZE", "MAX_TENSOR_BYTES", "check"]

#: MIOpen's C API takes sizes as C int.
MAX_SIZE = 2**31 - 1
#: No GPU that MIOpen knows has 300 GB of memory; a tensor of over 1 TiB is a typing mistake.
MAX_TENSOR_BYTES = 2**40

_ELEMENT_BYTES = {"fp32": 4, "fp16": 2, "bf16": 2, "int8": 1}


def check(problem: Convolution) -> None:
    """Refuse a problem that no GPU can run or that MIOpen does not define.

    Raises
    ------
    InputError
        Names the value: unknown dtype, direction or layout, a size out of range, groups that do
        not divide the channels, a filter that does not fit, int8 backwards, a tensor over 1 TiB.
    """
    _check_names(problem)
    _check_ranges(problem)
    _check_groups(problem)
    _check_output(problem)
    _check_tensors(problem)


def _check_names(problem: Convolution) -> None:
    layouts = LAYOUTS.get(problem.spatial_dims, ())
    for what, value, allowed in (
        ("dtype", problem.dtype, DTYPES),
        ("direction", problem.direction, DIRECTIONS),
        (f"layout for {problem.spatial_dims} spatial dimensions", problem.layout, layouts),
    ):
        if value not in allowed:
            raise InputError(f"`{value}` is not a {what}, which {_are(allowed)}")
    if problem.dtype == "int8" and problem.direction != "fwd":
        # driver/conv_driver.hpp, RunBackwardGPU: int8 runs forwards only.
        raise InputError(f"MIOpen has no int8 convolution in direction `{problem.direction}`")


def _are(allowed: tuple[str, ...]) -> str:
    return "can be " + ", ".join(f"`{a}`" for a in allowed) if allowed else "do not exist"


def _check_ranges(problem: Convolution) -> None:
    dims = problem.spatial_dims
    fields = (
        ("batch", (problem.batch,), 1, 1),
        ("input channels", (problem.in_channels,), 1, 1),
        ("output channels", (problem.out_channels,), 1, 1),
        ("groups", (problem.groups,), 1, 1),
        ("input size", problem.in_size, 1, dims),
        ("filter size", problem.filter_size, 1, dims),
        ("pads", problem.pads, 0, dims),
        ("strides", problem.strides, 1, dims),
        ("dilations", problem.dilations, 1, dims),
        ("output pads", problem.output_pads, 0, dims if problem.output_pads else 0),
    )
    for name, values, least, count in fields:
        if len(values) != count:
            raise InputError(f"{name.capitalize()} {_shape(values)} must have {count} values")
        for value in values:
            if not least <= value <= MAX_SIZE:
                raise InputError(f"`{value}` in {name} is not between {least} and {MAX_SIZE}")


def _check_groups(problem: Convolution) -> None:
    for name, channels in (("input", problem.in_channels), ("output", problem.out_channels)):
        if channels % problem.groups:
            raise InputError(
                f"{problem.groups} groups do not divide the {channels} {name} channels"
            )


def _check_output(problem: Convolution) -> None:
    out = problem.out_size
    if min(out) < 1:
        # MIOpen raises such a size to 1 and goes on; no framework means that.
        raise InputError(
            f"Filter {_shape(problem.filter_size)} does not fit the input "
            f"{_shape(problem.in_size)} with pads {_shape(problem.pads)} and dilations "
            f"{_shape(problem.dilations)}: the output would be {_shape(out)}"
        )
    if max(out) > MAX_SIZE:
        raise InputError(f"Output size {_shape(out)} is larger than {MAX_SIZE}")
    if not problem.output_pads:
        return
    if not problem.transposed:
        raise InputError("Output pads are for transposed convolutions only")
    for pad, stride in zip(problem.output_pads, problem.strides, strict=True):
        if pad >= stride:
            raise InputError(f"Output pad `{pad}` is not below its stride `{stride}`")


def _check_tensors(problem: Convolution) -> None:
    channels = problem.in_channels // problem.groups * problem.out_channels
    for name, count in (
        ("Input", problem.batch * problem.in_channels * math.prod(problem.in_size)),
        ("Filter", channels * math.prod(problem.filter_size)),
        ("Output", problem.batch * problem.out_channels * math.prod(problem.out_size)),
    ):
        if count * _ELEMENT_BYTES[problem.dtype] > MAX_TENSOR_BYTES:
            raise InputError(f"{name} tensor of {count:,} elements is larger than any GPU's memory")


def _shape(values: tuple[int, ...]) -> str:
    return "x".join(str(v) for v in values)
