"""Commands of batch, layer, group and local response normalisation."""

from __future__ import annotations

from collections.abc import Sequence

from kdbforge.errors import InputError
from kdbforge.problems.flags import Values
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
    split_by_forw,
    tensor,
)

__all__ = ["PRIMITIVES"]

#: Scale, bias, mean and variance are in fp32 with each of them: MIOpenDriver of 3.4 and 3.5 has it
#: so, and their libraries have no solver for anything else. 3.3 wrote it out.
_BNORM_SUFFIXES = {**FLOATS, "fp16fp32": "fp16", "bfp16fp32": "bf16"}


def _split_bnorm(values: Values) -> Sequence[Values]:
    """Forward where it is asked for, or else backward, or else training (bn_driver.hpp)."""
    forw, back = values.number("forw"), values.number("back")
    if forw == 0 and back == 0:
        forw = 1
    values = _with_short_layout(values)
    return (values.replaced(forw=str(forw), back="0" if forw else "1"),)


def _with_short_layout(values: Values) -> Values:
    """Leave out a layout that is the default one."""
    default = "NCDHW" if values.number("in_d") else "NCHW"
    if values.text("layout") and len(values.text("layout")) != len(default):
        raise InputError(f"Layout `{values.text('layout')}` does not fit the tensor")
    return values.replaced(layout="") if values.text("layout") == default else values


def _logged_bnorm(values: Values) -> Sequence[Values]:
    """Say by the direction which of `-s` and `-r` is meant where there is one of them.

    Libraries exchange them, each in other directions (src/driver_arguments.cpp, BnDriverInfo: 3.4
    in training and backward, 3.5 in inference). Inference reads running statistics only, the
    backward pass saved ones only. Training may keep either, so that both are meant.
    """
    saved, running = values.replaced(save="1", run="0"), values.replaced(save="0", run="1")
    if values.text("save") == values.text("run"):
        return (values,)
    if values.text("forw") == "2":
        return (running,)
    return (saved,) if values.text("back") == "1" else (saved, running)


def _split_layernorm(values: Values) -> Sequence[Values]:
    _check_normalized_dim(values, 5 if values.number("in_d") else 4)
    return split_by_forw(1, 2)(_with_short_layout(values))


def _check_normalized_dim(values: Values, dims: int) -> None:
    if not 0 <= values.number("normalized_dim") < dims:
        raise InputError(
            f"`{values.text('normalized_dim')}` of flag `{values.flags['normalized_dim']}` is no "
            f"axis of a tensor with {dims}"
        )


def _split_addlayernorm(values: Values) -> Sequence[Values]:
    _check_normalized_dim(values, len(values.lengths("input")))
    return forward_only(values)


BNORM = Primitive(
    "bnorm",
    "batch normalisation",
    driver_flags(
        size("n", "batchsize", 32),
        size("c", "in_channels", 3),
        pad("D", "in_d"),
        size("H", "in_h", 32),
        size("W", "in_w", 32),
        choice("L", "layout", "", "", "NCHW", "NHWC", "NCDHW", "NDHWC"),
        choice("m", "mode", 0, 0, 1),
        choice("F", "forw", 1, 0, 1, 2),
        choice("b", "back", 0, 0, 1),
        choice("s", "save", 0, 0, 1),
        choice("r", "run", 0, 0, 1),
        choice("f", "activ_mode", 0, *range(10)),
        real("x", "activ_alpha", 1),
        real("y", "activ_beta", 1),
        ignored("z", "activ_gamma"),  # in libMIOpen's logs only
        ignored("A", "alpha"),
        ignored("B", "beta"),
        ignored("P", "printconv"),
        ignored("&", "tuning_policy"),
        ignored("~", "gpubuffer_check"),
    ),
    split=_split_bnorm,
    suffixes=_BNORM_SUFFIXES,
    logged=_logged_bnorm,
)

LRN = Primitive(
    "lrn",
    "local response normalisation",
    driver_flags(
        size("n", "batchsize", 100),
        size("c", "in_channels", 3),
        size("H", "in_h", 32),
        size("W", "in_w", 32),
        size("N", "lrnN", 5),
        real("A", "alpha", 0.001),
        real("B", "beta", 0.75),
        real("K", "lrnK", 1),
        # libMIOpen's logs write the number of the mode.
        choice("m", "mode", "within", "within", "cross", "0", "1"),
        number("F", "forw", 0),
        ignored("P", "printconv"),
    ),
    split=split_by_forw(1, 2),
)

LAYERNORM = Primitive(
    "layernorm",
    "layer normalisation",
    driver_flags(
        size("N", "in_n", 100),
        size("C", "in_c", 3),
        pad("D", "in_d"),
        size("H", "in_h", 32),
        size("W", "in_w", 32),
        choice("L", "layout", "", "", "NCHW", "NHWC", "NCDHW", "NDHWC"),
        number("o", "normalized_dim", 3),
        choice("m", "mode", 0, 0, 1),
        real("e", "eps", 0.00001),
        number("F", "forw", 0),
    ),
    split=_split_layernorm,
)

GROUPNORM = Primitive(
    "groupnorm",
    "group normalisation",
    driver_flags(
        size("n", "batchsize", 100),
        size("c", "in_channels", 6),
        pad("D", "in_d"),
        size("H", "in_h", 32),
        size("W", "in_w", 32),
        size("g", "num_groups", 3),
        choice("m", "mode", 0, 0, 1),
        real("e", "eps", 0.00001),
        number("F", "forw", 1),
    ),
    split=forward_only,
)

ADDLAYERNORM = Primitive(
    "addlayernorm",
    "layer normalisation of a sum",
    driver_flags(
        tensor("X", "input", "100x3x32x32"),
        number("o", "normalized_dim", 3),
        choice("m", "mode", 2, 2, 3),
        real("e", "eps", 0.00001),
        number("F", "forw", 1),
    ),
    split=_split_addlayernorm,
)

T5LAYERNORM = Primitive(
    "t5layernorm",
    "T5 layer normalisation",
    driver_flags(
        tensor("X", "input", "100x3x32x32"),
        choice("m", "mode", 5, 4, 5, 6),
        real("e", "eps", 0.00001),
        number("F", "forw", 1),
    ),
    split=split_by_forw(1, 2),
)

PRIMITIVES = (BNORM, LRN, LAYERNORM, GROUPNORM, ADDLAYERNORM, T5LAYERNORM)
