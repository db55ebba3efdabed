"""Pooling. MIGraphX calls MIOpen for what is no whole image, ONNX Runtime reduces whole images.

MIGraphX: use_miopen_pooling in src/targets/gpu/lowering.cpp (releases whose default is MIOpen;
later ones ask for MIGRAPHX_ENABLE_MIOPEN_POOLING=1), rewrite_pooling.cpp. ONNX Runtime's ROCm
provider: core/providers/rocm/nn/pool.cc.
"""

from __future__ import annotations

from kdbforge.errors import InputError, UnsupportedError
from kdbforge.problems.onnx.geometry import Window, integer, window_of
from kdbforge.problems.onnx.mapping.conv import widened
from kdbforge.problems.onnx.mapping.outcome import (
    CPU,
    MIGRAPHX,
    OWN_KERNEL,
    Outcome,
    Wish,
    command,
    dtype_of,
    need,
)
from kdbforge.problems.onnx.mapping.reduce import reduction
from kdbforge.problems.onnx.site import Site

__all__ = ["global_pool", "pool"]

_GOES = "MIOpen: pooling"


def pool(site: Site, wish: Wish) -> Outcome:
    """Map MaxPool and AveragePool."""
    x = need(site, 0)
    dtype = dtype_of(x, wish)
    if dtype is None and wish.consumer == MIGRAPHX:
        return Outcome(OWN_KERNEL)
    dtype = dtype or "fp32"  # ONNX Runtime converts int8 to fp32 and back
    kernel = tuple(site.attributes["kernel_shape"].ints) if _has_kernel(site) else ()
    if len(kernel) != len(x.dims) - 2:
        raise InputError(f"`kernel_shape` has {len(kernel)} numbers for {len(x.dims)} axes")
    window = window_of(site, kernel, x.dims[2:])
    average = site.node.op_type == "AveragePool"
    inclusive = average and integer(site, "count_include_pad", 0) == 1
    if dtype not in ("fp32", "fp16"):
        return Outcome(OWN_KERNEL if wish.consumer == MIGRAPHX else CPU)
    if wish.consumer == MIGRAPHX:
        whole = kernel == x.dims[2:] and not any((*window.begins, *window.ends))
        own = inclusive or not window.symmetric or max(window.dilations) > 1 or whole
    else:
        own = max(window.dilations) > 1 or _with_indices(site)
    if own:
        return Outcome(OWN_KERNEL)
    mode = "max" if not average else "avg_in" if inclusive else "avg"
    return Outcome(_GOES, commands=(_command(site, wish, dtype, mode, window),))


def _has_kernel(site: Site) -> bool:
    return "kernel_shape" in site.attributes


def _with_indices(site: Site) -> bool:
    return len(site.node.output) > 1 and bool(site.node.output[1])


def _command(site: Site, wish: Wish, dtype: str, mode: str, window: Window) -> str:
    """MIOpenDriver's pool (driver/pool_driver.hpp): -v, -u and -s are strides, -p, -q, -o pads."""
    front = wish.consumer == MIGRAPHX
    x = need(site, 0).dims
    size = widened(x[2:], 1, front=front)
    kernel = widened(window.size, 1, front=front)
    strides = widened(window.strides, 1, front=front)
    pads = widened(window.begins, 0, front=front)
    layout = "NCHW" if len(size) == 2 else "NCDHW"
    words: list[object] = ["-W", "x".join(map(str, (*x[:2], *size))) + f",{layout}"]
    words += _output(site, (*x[:2], *size), kernel, strides, pads, front=front)
    for flags, values in (("Zyx", kernel), ("svu", strides), ("opq", pads)):
        for flag, value in zip(flags[-len(values) :], values, strict=True):
            words += [f"-{flag}", value]
    return command("pool", dtype, *words, "-m", mode, "-F", 1)


def _output(
    site: Site,
    x: tuple[int, ...],
    kernel: tuple[int, ...],
    strides: tuple[int, ...],
    pads: tuple[int, ...],
    *,
    front: bool,
) -> list[object]:
    """The output's size, where it is not what MIOpen computes (`ceil_mode`, pads that differ)."""
    if not site.outputs or not site.outputs[0].known:
        return []
    made = site.outputs[0].dims
    size = widened(made[2:], 1, front=front)
    axes = zip(x[2:], kernel, strides, pads, strict=True)
    plain = tuple((length + 2 * pad - k) // step + 1 for length, k, step, pad in axes)
    if size == plain:
        return []
    if min(size) < 1:
        raise UnsupportedError("its output is empty")
    layout = "NCHW" if len(size) == 2 else "NCDHW"
    return ["-O", "x".join(map(str, (*made[:2], *size))) + f",{layout}"]


def global_pool(site: Site, wish: Wish) -> Outcome:
    """Map pooling over the whole image, which both consumers make a reduction of."""
    x = need(site, 0)
    dtype = dtype_of(x, wish)
    if wish.consumer == MIGRAPHX:
        return Outcome(OWN_KERNEL)
    if dtype is None:
        return Outcome(CPU)
    if len(x.dims) < 3:
        raise InputError(f"its input has {len(x.dims)} axes")
    axes = tuple(range(2, len(x.dims)))
    operation = "AVG" if site.node.op_type == "GlobalAveragePool" else "MAX"
    return reduction(x.dims, axes, operation, dtype, indices=True)
