"""Normalisation: BatchNormalization, InstanceNormalization and LRN.

MIGraphX: src/onnx/parse_batchnorm.cpp, src/targets/gpu/lrn.cpp. ONNX Runtime's ROCm provider is
made from core/providers/cuda/nn/{batch_norm,instance_norm,lrn}.cc by hipify.
"""

from __future__ import annotations

import math

import numpy as np

from kdbforge.errors import InputError, UnsupportedError
from kdbforge.problems.onnx.geometry import integer, number
from kdbforge.problems.onnx.mapping.outcome import (
    CPU,
    FUSED,
    MIGRAPHX,
    OWN_KERNEL,
    Outcome,
    Wish,
    command,
    dtype_of,
    need,
)
from kdbforge.problems.onnx.site import Site

__all__ = ["batch_norm", "instance_norm", "lrn"]

_BATCH_NORM = "MIOpen: batch normalisation"


def batch_norm(site: Site, wish: Wish) -> Outcome:
    """Map batch normalisation of inference."""
    maker = site.maker(0)
    folded = maker is not None and maker.op_type == "Conv" and site.is_only_reader(0)
    if folded and all(site.stored(index) for index in range(1, 5)):
        return Outcome(FUSED)
    if wish.consumer == MIGRAPHX:
        return Outcome(OWN_KERNEL)
    x = need(site, 0)
    dtype = dtype_of(x, wish)
    if dtype not in ("fp32", "fp16"):
        return Outcome(CPU)
    training = integer(site, "training_mode", 0) == 1
    spatial = integer(site, "spatial", 1)
    return Outcome(_BATCH_NORM, commands=(_bnorm(_dims(x.dims), dtype, training, spatial),))


def instance_norm(site: Site, wish: Wish) -> Outcome:
    """Map instance normalisation, which ONNX Runtime makes batch normalisation of training of."""
    if wish.consumer == MIGRAPHX:
        return Outcome(OWN_KERNEL)
    x = need(site, 0)
    dtype = dtype_of(x, wish)
    if dtype not in ("fp32", "fp16"):
        return Outcome(CPU)
    dims = _dims(x.dims)
    if dims[0] > 1:
        dims = (1, x.dims[0] * x.dims[1], math.prod(x.dims[2:]), 1)
    return Outcome(_BATCH_NORM, commands=(_bnorm(dims, dtype, True, 1),))


def _dims(dims: tuple[int, ...]) -> tuple[int, ...]:
    """N, C and two or three sizes (cpu/nn/batch_norm_helper.h)."""
    if len(dims) in (4, 5):
        return dims
    if not 2 <= len(dims) <= 3:
        raise InputError(f"its input has {len(dims)} axes")
    return (*dims, *(1 for _ in range(4 - len(dims))))


def _bnorm(dims: tuple[int, ...], dtype: str, training: bool, spatial: int) -> str:
    depth = ("-D", dims[2]) if len(dims) == 5 else ()
    size = ("-n", dims[0], "-c", dims[1], *depth, "-H", dims[-2], "-W", dims[-1])
    run = ("-F", 1, "-r", 0) if training else ("-F", 2, "-r", 1)
    return command("bnorm", dtype, *size, "-m", spatial, *run, "-s", 0, "-b", 0)


def lrn(site: Site, wish: Wish) -> Outcome:
    """Map local response normalisation across channels."""
    x = need(site, 0)
    dtype = dtype_of(x, wish)
    if dtype not in ("fp32", "fp16"):
        return Outcome(CPU if dtype is None or wish.consumer != MIGRAPHX else OWN_KERNEL)
    if len(x.dims) != 4:
        raise UnsupportedError(f"MIOpen normalises 4 axes across channels, not {len(x.dims)}")
    size = ("-n", x.dims[0], "-c", x.dims[1], "-H", x.dims[2], "-W", x.dims[3])
    alpha, beta = number(site, "alpha", 1e-4), number(site, "beta", 0.75)
    bias = number(site, "bias", 1.0)
    # Attributes are of single precision: `0.0001`, not `9.99999975e-05`.
    values = ("-A", np.float32(alpha), "-B", np.float32(beta), "-K", np.float32(bias))
    width = ("-N", integer(site, "size", 1))
    line = command("lrn", dtype, *size, *width, *values, "-m", "cross", "-F", 1)
    return Outcome("MIOpen: LRN", commands=(line,))
