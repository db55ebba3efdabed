"""Commands of fused primitives, and of attention, which MIOpen solves as one graph."""

from __future__ import annotations

from collections.abc import Sequence

from kdbforge.errors import InputError
from kdbforge.problems.flags import FlagTable, Values
from kdbforge.problems.primitives.table import (
    Primitive,
    choice,
    driver_flags,
    ignored,
    pad,
    real,
    size,
)

__all__ = ["PRIMITIVES"]


def _split_fusion(values: Values) -> Sequence[Values]:
    for name in ("in_channels", "out_channels"):
        if values.number(name) % values.number("group_count"):
            raise InputError(f"The groups do not divide the {values.text(name)} of `--{name}`")
    return (values,)


def _logged_fusion(values: Values) -> Sequence[Values]:
    """libMIOpen writes the fusion's number behind `-F` (src/fusion.cpp, LogCmdFusion)."""
    if not values.text("fusion_number"):
        return (values,)
    number = values.choice("fusion_number", values.flags["fusion_mode"].choices)
    return (values.replaced(fusion_mode=number),)


_FUSED = driver_flags(
    size("n", "batchsize", 32),
    size("c", "in_channels", 3),
    size("H", "in_h", 32),
    size("W", "in_w", 32),
    size("k", "out_channels", 32),
    size("y", "fil_h", 3),
    size("x", "fil_w", 3),
    pad("p", "pad_h"),
    pad("q", "pad_w"),
    size("u", "conv_stride_h", 1),
    size("v", "conv_stride_w", 1),
    size("l", "dilation_h", 1),
    size("j", "dilation_w", 1),
    size("g", "group_count", 1),
    choice("I", "in_layout", "", "", "NCHW", "NHWC"),
    # c convolution, b bias, n batch normalisation, a activation: cbna 0, cna 1, na 2, cn 3,
    # cba 4, ca 5, cb 6 (driver/CBAInferFusion_driver.hpp).
    choice("J", "fusion_mode", 0, *range(7)),
    choice("m", "activMode", 3, *range(10)),
    choice("M", "bnMode", 0, 0, 1),
    real("A", "alpha", 1),
    real("B", "beta", 0),
    real("G", "gamma", 1),
    ignored("f", "fil_layout"),
    ignored("O", "out_layout"),
    ignored("D", "dot_graph"),
    ignored("z", "pad_mode"),
    ignored("r", "pad_val"),
    ignored("_", "spatial_dim"),
    ignored("F", "fusion_number"),
)

CBA = Primitive(
    "CBAInfer",
    "fused convolution, bias, normalisation and activation",
    _FUSED,
    split=_split_fusion,
    suffixes={"": "fp32", "fp16": "fp16", "bfp16": "bf16"},
    logged=_logged_fusion,
)

CA = Primitive(
    "CAInfer",
    "fused convolution and activation",
    _FUSED,
    split=_split_fusion,
    suffixes={"": "fp32", "fp16": "fp16", "bfp16": "bf16"},
    logged=_logged_fusion,
)

BNORM_ACTIV = Primitive(
    "bnormactiv",
    "fused batch normalisation in training and activation",
    FlagTable(
        size("n", "batchsize", 32),
        size("c", "in_channels", 3),
        size("H", "in_h", 32),
        size("W", "in_w", 32),
        choice("M", "bnMode", 1, 0, 1),
        choice("m", "activMode", 3, *range(10)),
        choice("F", "forw", 1, 1, 2),
        real("A", "alpha", 1),
        real("B", "beta", 0),
        real("G", "gamma", 1),
    ),
    suffixes={"": "fp32", "fp16": "fp16"},
    own=True,
)

MHA = Primitive(
    "mha",
    "multi-head attention",
    FlagTable(
        size("n", "batchsize", 2),
        size("H", "heads", 4),
        size("s", "sequence", 64),
        size("d", "head_dim", 32),
        choice("M", "mask", 0, 0, 1),
        choice("F", "forw", 1, 1, 2),
    ),
    suffixes={"": "fp32", "fp16": "fp16", "bfp16": "bf16", "fp8": "fp8"},
    own=True,
)

PRIMITIVES = (CBA, CA, BNORM_ACTIV, MHA)
