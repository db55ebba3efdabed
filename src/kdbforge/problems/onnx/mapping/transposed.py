"""ConvTranspose: a transposed convolution in MIGraphX, backward data of a plain one in the other.

MIGraphX: src/onnx/parse_conv_transpose.cpp, make_convolution_backwards in gpu/miopen.hpp. ONNX
Runtime's ROCm provider: core/providers/rocm/nn/conv_transpose.cc.
"""

from __future__ import annotations

from kdbforge.errors import InputError, UnsupportedError
from kdbforge.model.problem import LAYOUTS, Convolution
from kdbforge.problems.limits import check
from kdbforge.problems.onnx.geometry import Window, integer, text, window_of
from kdbforge.problems.onnx.mapping.conv import widened
from kdbforge.problems.onnx.mapping.outcome import (
    MIGRAPHX,
    Outcome,
    Wish,
    bias_command,
    dtype_of,
    need,
)
from kdbforge.problems.onnx.site import Site

__all__ = ["conv_transpose"]


def conv_transpose(site: Site, wish: Wish) -> Outcome:
    """Map a transposed convolution."""
    x, w = need(site, 0).dims, need(site, 1).dims
    dtype = dtype_of(need(site, 0), wish)
    if dtype is None or dtype == "fp64":
        raise UnsupportedError(f"MIOpen has no {dtype or 'integer'} transposed convolutions")
    if len(x) != len(w) or len(x) < 3 or x[1] != w[0]:
        raise InputError("input and filter do not fit each other")
    window = window_of(site, w[2:], x[2:])
    if wish.consumer == MIGRAPHX:
        return _for_migraphx(site, dtype, x, w, window)
    if dtype not in ("fp32", "fp16"):
        return Outcome(f"CPU: the provider has no {dtype} transposed convolution")
    return _for_onnxruntime(site, dtype, x, w, window)


def _for_migraphx(
    site: Site, dtype: str, x: tuple[int, ...], w: tuple[int, ...], window: Window
) -> Outcome:
    """Pads that differ are sliced off behind a convolution without pads, output pads are added."""
    pads = window.begins if window.symmetric else (0,) * len(window.begins)
    mode = text(site, "auto_pad", "NOTSET")
    if mode.startswith("SAME"):
        axes = zip(window.spans, window.strides, strict=True)
        totals = [max(span - step, 0) for span, step in axes]
        even = all(total % 2 == 0 for total in totals)
        pads = tuple(total // 2 if even else 0 for total in totals)
    groups = integer(site, "group", 1)
    problem = _problem(
        dtype, "fwd", x[0], x[1], w[1] * groups, x[2:], w, window, pads, groups, True
    )
    return Outcome("MIOpen: transposed convolution", (problem,))


def _for_onnxruntime(
    site: Site, dtype: str, x: tuple[int, ...], w: tuple[int, ...], window: Window
) -> Outcome:
    """The node's output is the input of the convolution whose backward data this is."""
    if not site.outputs or not site.outputs[0].known:
        raise InputError("the shape that it makes is not known")
    y = site.outputs[0].dims
    groups = integer(site, "group", 1)
    pads = _onnxruntime_pads(site, x, y, window)
    problem = _problem(dtype, "bwd", x[0], y[1], x[1], y[2:], w, window, pads, groups, False)
    if problem.out_size != widened(x[2:], 1, front=True):
        raise UnsupportedError(
            "the provider hands MIOpen pads that differ at both ends, which no convolution has"
        )
    bias = len(site.node.input) > 2 and bool(site.node.input[2])
    commands = (bias_command(problem),) if bias else ()
    return Outcome("MIOpen: backward data of a convolution", (problem,), commands)


def _onnxruntime_pads(
    site: Site, x: tuple[int, ...], y: tuple[int, ...], window: Window
) -> tuple[int, ...]:
    if text(site, "auto_pad", "NOTSET") in ("NOTSET", "") and "output_shape" not in site.attributes:
        return window.begins
    axes = zip(x[2:], y[2:], window.strides, window.spans, strict=True)
    return tuple(max(step * (i - 1) + span - o, 0) // 2 for i, o, step, span in axes)


def _problem(
    dtype: str,
    direction: str,
    batch: int,
    in_channels: int,
    out_channels: int,
    in_size: tuple[int, ...],
    w: tuple[int, ...],
    window: Window,
    pads: tuple[int, ...],
    groups: int,
    transposed: bool,
) -> Convolution:
    dims = max(len(in_size), 2)
    problem = Convolution(
        dtype=dtype,
        direction=direction,
        layout=LAYOUTS[dims][0],
        batch=batch,
        in_channels=in_channels,
        out_channels=out_channels,
        in_size=widened(in_size, 1, front=True),
        filter_size=widened(w[2:], 1, front=True),
        pads=widened(pads, 0, front=True),
        strides=widened(window.strides, 1, front=True),
        dilations=widened(window.dilations, 1, front=True),
        groups=groups,
        transposed=transposed,
    )
    check(problem)
    return problem
