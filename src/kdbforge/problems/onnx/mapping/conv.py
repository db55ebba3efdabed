"""Convolutions: Conv, FusedConv, ConvInteger and QLinearConv.

MIGraphX: src/targets/gpu/include/migraphx/gpu/{convolution,miopen}.hpp, insert_pad.cpp,
simplify_algebra.cpp (find_conv_dot_horiz_fusion), fuse_ops.cpp. ONNX Runtime's ROCm provider:
core/providers/rocm/nn/conv.cc, contrib_ops/rocm/fused_conv.cc, core/providers/cpu/nn/
conv_attributes.h.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from kdbforge.errors import InputError, UnsupportedError
from kdbforge.model.problem import LAYOUTS, Convolution
from kdbforge.problems.limits import check
from kdbforge.problems.onnx.geometry import Window, integer, window_of
from kdbforge.problems.onnx.mapping.outcome import (
    CPU,
    MIGRAPHX,
    Outcome,
    Wish,
    bias_command,
    command,
    dtype_of,
    need,
)
from kdbforge.problems.onnx.site import Site

__all__ = ["conv", "conv_integer", "qlinear_conv", "widened"]

_CONV = "MIOpen: convolution"
#: What MIGraphX's fuse_ops.cpp asks of a convolution that is fused with bias and ReLU.
_FUSED_CHANNELS = 512
_FUSED_PADS = ((0, 0), (1, 1), (2, 2))
#: Among how many readers of a tensor alike convolutions are looked for; each is held against all.
_MOST_READERS = 100


def conv(site: Site, wish: Wish) -> Outcome:
    """Map a convolution of floating-point numbers."""
    dtype = dtype_of(need(site, 0), wish)
    if dtype is None:
        raise InputError("its input is not of a floating-point type")
    if wish.consumer != MIGRAPHX:
        return _for_onnxruntime(site, dtype)
    if wish.dtype == "int8" or _dequantised(site):
        return _for_migraphx(site, "int8", 1)
    return _for_migraphx(site, dtype, 1)


def conv_integer(site: Site, wish: Wish) -> Outcome:
    """Map ConvInteger; MIGraphX shifts unsigned inputs to int8."""
    return _for_migraphx(site, "int8", 1) if wish.consumer == MIGRAPHX else Outcome(CPU)


def qlinear_conv(site: Site, wish: Wish) -> Outcome:
    """Map QLinearConv: its input and its filter are inputs 0 and 3."""
    return _for_migraphx(site, "int8", 3) if wish.consumer == MIGRAPHX else Outcome(CPU)


def _dequantised(site: Site) -> bool:
    """Whether input and filter come from 8-bit numbers (MIGraphX's simplify_qdq.cpp)."""
    makers = (site.maker(0), site.maker(1))
    return all(maker is not None and maker.op_type == "DequantizeLinear" for maker in makers)


def _for_migraphx(site: Site, dtype: str, filter_input: int) -> Outcome:
    x, w, window = _parts(site, filter_input)
    if not window.symmetric:  # MIGraphX pads in a kernel of its own, and convolves without pads
        pads = zip(x[2:], window.begins, window.ends, strict=True)
        x = (*x[:2], *(size + begin + end for size, begin, end in pads))
        zeros = (0,) * len(window.begins)
        window = replace(window, begins=zeros, ends=zeros)
    problem = _problem(site, dtype, x, w, window, front=True)
    merged = _merged(site, problem, filter_input)
    commands = _migraphx_fusion(site, problem) if dtype == "fp32" else ()
    return Outcome(_CONV, (problem, *merged), commands)


def _for_onnxruntime(site: Site, dtype: str) -> Outcome:
    if dtype not in ("fp32", "fp16"):
        return Outcome(f"CPU: the provider has no {dtype} convolution")
    x, w, window = _parts(site, 1)
    begins = tuple(
        _overpadded(begin, end, step)
        for begin, end, step in zip(window.begins, window.ends, window.strides, strict=True)
    )
    window = replace(window, begins=begins, ends=begins)
    problem = _problem(site, dtype, x, w, window, front=False)
    bias = len(site.node.input) > 2 and bool(site.node.input[2])
    commands = [bias_command(problem)] if bias else []
    if _with_relu(site) and problem.spatial_dims == 2:
        commands += [_fused(problem, "4" if bias else "5"), _relu(problem)]
    return Outcome(_CONV, (problem,), tuple(commands))


def _overpadded(begin: int, end: int, stride: int) -> int:
    """Pad both ends alike, and enough; what is too much is sliced off (conv_attributes.h)."""
    while begin < end:
        begin += stride
    return begin


def _parts(site: Site, filter_input: int) -> tuple[tuple[int, ...], tuple[int, ...], Window]:
    x, w = need(site, 0).dims, need(site, filter_input).dims
    if len(x) != len(w) or len(x) < 3:
        raise InputError(f"input and filter have {len(x)} and {len(w)} axes")
    groups = integer(site, "group", 1)
    if groups < 1 or x[1] != w[1] * groups:
        raise InputError(
            f"{x[1]} input channels are not those of {groups} groups of {w[1]} in the filter"
        )
    window = window_of(site, w[2:], x[2:])
    axes = zip(x[2:], window.begins, window.ends, window.spans, strict=True)
    if any(size + begin + end < span for size, begin, end, span in axes):
        sizes = ("x".join(map(str, values)) for values in (w[2:], x[2:]))
        raise InputError("its filter of {} does not fit its input of {}".format(*sizes))
    return x, w, window


def _problem(
    site: Site,
    dtype: str,
    x: tuple[int, ...],
    w: tuple[int, ...],
    window: Window,
    *,
    front: bool,
) -> Convolution:
    if dtype == "fp64":
        raise UnsupportedError("MIOpen has no fp64 convolutions")
    dims = max(len(x) - 2, 2)
    problem = Convolution(
        dtype=dtype,
        direction="fwd",
        layout=LAYOUTS[dims][0],
        batch=x[0],
        in_channels=x[1],
        out_channels=w[0],
        in_size=widened(x[2:], 1, front=front),
        filter_size=widened(w[2:], 1, front=front),
        pads=widened(window.begins, 0, front=front),
        strides=widened(window.strides, 1, front=front),
        dilations=widened(window.dilations, 1, front=front),
        groups=integer(site, "group", 1),
    )
    check(problem)
    return problem


def widened(values: tuple[int, ...], fill: int, *, front: bool) -> tuple[int, ...]:
    """Make a 1-D size a 2-D one; MIGraphX adds the height, ONNX Runtime's Conv the width."""
    if len(values) > 1:
        return values
    return (fill, *values) if front else (*values, fill)


def _merged(site: Site, problem: Convolution, filter_input: int) -> tuple[Convolution, ...]:
    """The one convolution that MIGraphX makes of several alike ones of the same input."""
    if problem.groups != 1 or not site.stored(filter_input) or site.node.op_type != "Conv":
        return ()
    readers = site.scope.readers.get(site.node.input[0], ())
    if len(readers) > _MOST_READERS:
        return ()
    alike = [node for node in readers if _signature(node, site) == _signature(site.node, site)]
    if len(alike) < 2 or alike[0] is not site.node:
        return ()
    merged = replace(problem, out_channels=problem.out_channels * len(alike))
    check(merged)
    return (merged,)


def _signature(node: Any, site: Site) -> object:
    """What must be equal in convolutions that are merged; None for what cannot be merged."""
    if node.op_type != "Conv" or len(node.input) < 2 or node.input[1] not in site.scope.stored:
        return None
    w = site.scope.values.get(node.input[1])
    attributes = sorted(
        (a.name, a.SerializeToString()) for a in node.attribute if a.name != "kernel_shape"
    )
    return (node.input[0], None if w is None else w.shape, attributes)


def _with_relu(site: Site) -> bool:
    if site.node.op_type == "FusedConv":
        return True
    reader = site.only_reader()
    return reader is not None and reader.op_type == "Relu"


def _migraphx_fusion(site: Site, problem: Convolution) -> tuple[str, ...]:
    """The fusion of convolution, bias and ReLU that MIGraphX tries on gfx900 to gfx1030."""
    bias = len(site.node.input) > 2 and bool(site.node.input[2])
    square = len(set(problem.in_size)) == 1 and len(set(problem.filter_size)) == 1
    plain = {*problem.strides, *problem.dilations, problem.groups} == {1}
    if not (
        bias
        and square
        and plain
        and problem.spatial_dims == 2
        and problem.pads in _FUSED_PADS
        and problem.in_channels <= _FUSED_CHANNELS
    ):
        return ()
    return (_fused(problem, "4" if _with_relu(site) else "6"),)


def _fused(problem: Convolution, mode: str) -> str:
    """MIOpenDriver's CBAInfer; modes: 4 with bias and activation, 5 activation, 6 bias."""
    words: list[object] = ["-n", problem.batch, "-c", problem.in_channels]
    for flags, values in (
        ("HW", problem.in_size),
        ("k", (problem.out_channels,)),
        ("yx", problem.filter_size),
        ("pq", problem.pads),
        ("uv", problem.strides),
        ("lj", problem.dilations),
    ):
        for flag, value in zip(flags, values, strict=True):
            words += [f"-{flag}", value]
    return command("CBAInfer", problem.dtype, *words, "-g", problem.groups, "-m", 3, "-J", mode)


def _relu(problem: Convolution) -> str:
    """The ReLU that ONNX Runtime calls where the library does not fuse it."""
    height, width = problem.out_size
    size = ("-n", problem.batch, "-c", problem.out_channels, "-H", height, "-W", width)
    return command("activ", problem.dtype, *size, "-m", 3, "-A", 0, "-B", 0, "-G", 0, "-F", 1)
