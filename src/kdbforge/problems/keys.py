"""The keys that MIOpen gives convolutions, as it prints them into logs: text to problem and back.

Which lines hold keys, and what to do with one that is none, is said elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from kdbforge.errors import InputError, UnsupportedError
from kdbforge.model.problem import LAYOUTS, Convolution
from kdbforge.problems.layouts import agreed_layout
from kdbforge.problems.limits import check
from kdbforge.problems.transposed import untransposed

__all__ = ["find_db_key", "read_key"]

# Both keys are of MIOpen 3.3 to 3.5 (src/conv/problem_description.cpp). "In" is the tensor that
# the direction reads: x forwards, dy backwards and for the weights; "out" is the other one.
#
# | find-db key: Serialize()                | network config: MakeNetworkConfig()         |
# |-----------------------------------------|---------------------------------------------|
# | in channels-[D-]H-W                     | in channels x [D x] H x W                   |
# | filter [Z x] Y x X                      | filter [Z x] Y x X                          |
# | out channels-[D-]H-W                    | out channels x [D x] H x W                  |
# | batch                                   | batch                                       |
# | pads, strides, dilations; bias          | layout, or in x filter x out                |
# | layout, or in-filter-out                | types; ciT, cwT, coT where tensors are cast |
# | types: one, or in, filter, out in a row | pads, strides, dilations                    |
# | F, B or W                               | groups                                      |
# | _gN where groups are not 1              | F, B or W                                   |
# | _ciT, _cwT, _coT where tensors are cast | Default, Scale or Bilinear (alpha, beta)    |
#
# 64-56-56-3x3-64-56-56-1-1x1-1x1-1x1-0-NCHW-FP32-F
# 64x56x56x3x3x64x56x56x1xNCHWxFP32x1x1x1x1x1x1x1xFxDefault

_N = r"(?:0|[1-9]\d{0,9})"  # as C++ prints integers
_LAYOUT = "[A-Z]+c?"
_TYPES = "[A-Z][A-Z0-9]*"


def _find_db_pattern(dims: int) -> re.Pattern[str]:
    size, axes = "-".join([_N] * dims), "x".join([_N] * dims)
    return re.compile(
        f"(?P<in_channels>{_N})-(?P<in_size>{size})-(?P<filter_size>{axes})"
        f"-(?P<out_channels>{_N})-(?P<out_size>{size})-(?P<batch>{_N})"
        f"-(?P<pads>{axes})-(?P<strides>{axes})-(?P<dilations>{axes})-(?P<bias>{_N})"
        f"-(?P<layouts>{_LAYOUT}(?:-{_LAYOUT}-{_LAYOUT})?)-(?P<types>{_TYPES})"
        f"-(?P<direction>[FBW])(?:_g(?!1\\b)(?P<groups>{_N}))?(?P<casts>(?:_c[iwo]{_TYPES})*)",
        re.ASCII,
    )


def _config_pattern(dims: int) -> re.Pattern[str]:
    axes = "x".join([_N] * dims)
    return re.compile(
        f"(?P<in_channels>{_N})x(?P<in_size>{axes})x(?P<filter_size>{axes})"
        f"x(?P<out_channels>{_N})x(?P<out_size>{axes})x(?P<batch>{_N})"
        f"x(?P<layouts>{_LAYOUT}(?:x{_LAYOUT}x{_LAYOUT})?)x(?P<types>{_TYPES})"
        f"(?:x(?P<casts>(?:c[iwo]{_TYPES})+))?"
        f"x(?P<pads>{axes})x(?P<strides>{axes})x(?P<dilations>{axes})x(?P<groups>{_N})"
        f"x(?P<direction>[FBW])(?:x(?P<scaling>Default|Scale|Bilinear))?",
        re.ASCII,
    )


#: Two spatial dimensions, then three: filter and layout make each key fit only one of them.
_PATTERNS = tuple(make(dims) for dims in LAYOUTS for make in (_find_db_pattern, _config_pattern))
_BEGINS_FIND_DB_KEY = re.compile(rf"(?:{_N}-){{3,4}}{_N}x{_N}", re.ASCII)
#: Int8 convolutions have an int32 output (IsInt8); GetDataTypeName has the other names.
_DTYPES = {"FP32": "fp32", "FP16": "fp16", "BF16": "bf16", "INT8INT8INT32": "int8"}
_DIRECTIONS = {"F": "fwd", "B": "bwd", "W": "wrw"}


def read_key(text: str) -> Convolution | None:
    """Read a find-db key or a network config; None if it is not the key of a convolution.

    MIOpen's key of a transposed convolution is that of the convolution whose backward pass it
    is, and it runs the same kernels, so that one is returned. Output pads show only in the sizes.
    Alpha and beta are in network configs alone. A key tells nothing of attributes (deterministic,
    FP16-alt), of strides of tensors that are not packed, and not whether a fusion asked for it.
    Where lengths of 1 leave a choice, MIOpen may have guessed its names of layouts from strides;
    the problem then has the first layout that all three names can stand for.

    Raises
    ------
    UnsupportedError
        If it is a convolution's key and kdbforge has no such problem: other data types, casts,
        vectorised or mixed layouts, bias, alpha and beta, a filter larger than its input.
    InputError
        If it begins as a find-db key and goes on otherwise, or its sizes contradict each other.
    """
    for pattern in _PATTERNS:
        match = pattern.fullmatch(text)
        if match is not None:
            return _problem(match.groupdict())
    if _BEGINS_FIND_DB_KEY.match(text):
        raise InputError(f"`{text[:160]}` is not a find-db key")
    return None


def _problem(fields: dict[str, str | None]) -> Convolution:
    dtype, direction = _kind(fields)
    read, written = "in", "out"  # by MIOpen; x and y of the forward pass are:
    x, y = (read, written) if direction == "fwd" else (written, read)
    problem = Convolution(
        dtype=dtype,
        direction=direction,
        layout="",
        batch=int(fields["batch"] or 0),
        in_channels=int(fields[f"{x}_channels"] or 0),
        out_channels=int(fields[f"{y}_channels"] or 0),
        in_size=_axes(fields[f"{x}_size"]),
        filter_size=_axes(fields["filter_size"]),
        pads=_axes(fields["pads"]),
        strides=_axes(fields["strides"]),
        dilations=_axes(fields["dilations"]),
        groups=int(fields["groups"] or 1),
    )
    problem = replace(problem, layout=_layout(problem, fields["layouts"] or "", x, y))
    try:
        check(problem)
    except InputError as error:  # MIOpen raises an output size below 1 to 1, and goes on
        raise UnsupportedError(error.message) from None
    if problem.out_size != _axes(fields[f"{y}_size"]):
        raise InputError(f"The sizes in a key contradict each other: `{fields[f'{y}_size']}`")
    return problem


def _kind(fields: dict[str, str | None]) -> tuple[str, str]:
    """Data type and direction, if what else makes the kind of a convolution is as usual."""
    types, direction = fields["types"] or "", _DIRECTIONS[fields["direction"] or ""]
    if fields["casts"]:
        raise UnsupportedError(f"The casts `{fields['casts']}` in a key are not supported")
    if types not in _DTYPES or (_DTYPES[types] == "int8" and direction != "fwd"):
        raise UnsupportedError(f"Data types `{types}` in a key, {direction}, are not supported")
    if int(fields.get("bias") or 0):
        raise UnsupportedError("A key with a bias is not supported")
    if fields.get("scaling") not in (None, "Default"):
        raise UnsupportedError(f"`{fields['scaling']}` of alpha and beta is not supported")
    return _DTYPES[types], direction


def _layout(problem: Convolution, text: str, x: str, y: str) -> str:
    names = re.split("[-x]", text)
    read, weights, written = names if len(names) == 3 else names * 3
    by_role = {"in": read, "out": written}
    if any(len(name) != problem.spatial_dims + 2 for name in (read, weights, written)):
        raise UnsupportedError(f"Layout `{text}` in a key is not supported")
    layout = agreed_layout(problem, {"in": by_role[x], "fil": weights, "out": by_role[y]})
    if layout is None:
        raise UnsupportedError(f"Layout `{text}` in a key is not supported")
    return layout


def _axes(text: str | None) -> tuple[int, ...]:
    return tuple(int(number) for number in re.split("[-x]", text or ""))


def find_db_key(problem: Convolution) -> str:
    """Return the find-db key that MIOpen has for a problem.

    As 3.5.1 has it for packed tensors that were given their layout. Where lengths of 1 leave a
    choice, a layout guessed from strides may have another name (HeuristicUpdateLayouts).
    """
    problem = untransposed(problem)
    x = (problem.in_channels, problem.in_size)
    y = (problem.out_channels, problem.out_size)
    read, written = (x, y) if problem.direction == "fwd" else (y, x)
    default = problem.layout == LAYOUTS[problem.spatial_dims][0]
    layouts = (problem.layout,) * (1 if default else 3)
    types = {dtype: name for name, dtype in _DTYPES.items()}
    letters = {direction: letter for letter, direction in _DIRECTIONS.items()}
    words = (
        *(read[0], *read[1], _crossed(problem.filter_size), written[0], *written[1]),
        *(problem.batch, _crossed(problem.pads), _crossed(problem.strides)),
        *(_crossed(problem.dilations), 0, *layouts),
        *(types[problem.dtype], letters[problem.direction]),
    )
    groups = f"_g{problem.groups}" if problem.groups != 1 else ""
    return "-".join(str(word) for word in words) + groups


def _crossed(values: Sequence[int]) -> str:
    return "x".join(str(value) for value in values)
