"""Operators by name: who maps them, and where those go that never reach MIOpen."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import onnx

from kdbforge.problems.onnx.mapping.conv import conv, conv_integer, qlinear_conv
from kdbforge.problems.onnx.mapping.norm import batch_norm, instance_norm, lrn
from kdbforge.problems.onnx.mapping.outcome import CPU, MIGRAPHX, OWN_KERNEL, Outcome, Wish
from kdbforge.problems.onnx.mapping.pool import global_pool, pool
from kdbforge.problems.onnx.mapping.reduce import reduce
from kdbforge.problems.onnx.mapping.transposed import conv_transpose
from kdbforge.problems.onnx.site import Site

__all__ = ["MAPPED", "map_node"]

_Map = Callable[[Site, Wish], Outcome]

#: Operators that can become calls of MIOpen.
MAPPED: Mapping[str, _Map] = {
    "Conv": conv,
    "com.microsoft.FusedConv": conv,
    "ConvInteger": conv_integer,
    "QLinearConv": qlinear_conv,
    "ConvTranspose": conv_transpose,
    "MaxPool": pool,
    "AveragePool": pool,
    "GlobalMaxPool": global_pool,
    "GlobalAveragePool": global_pool,
    "BatchNormalization": batch_norm,
    "InstanceNormalization": instance_norm,
    "LRN": lrn,
    **dict.fromkeys(
        (
            "ReduceSum", "ReduceSumSquare", "ReduceLogSum", "ReduceLogSumExp", "ReduceMean",
            "ReduceProd", "ReduceMin", "ReduceMax", "ReduceL1", "ReduceL2", "ArgMax", "ArgMin",
        ),
        reduce,
    ),
}  # fmt: skip

_FOLLOWED = "its own nodes, which are listed too"
_NONE = "no kernel: copies at most"
_UNKNOWN = "unknown operator"
_PRODUCTS = {"migraphx": "rocBLAS, hipBLASLt or rocMLIR", "onnxruntime": "rocBLAS or hipBLASLt"}
#: What MIGraphX writes out as matrix products, and ONNX Runtime has no GPU kernel for.
_RECURRENT = frozenset(("RNN", "LSTM", "GRU"))
_MATRIX = frozenset(
    [
        "MatMul",
        "Gemm",
        "MatMulInteger",
        "QLinearMatMul",
        "Einsum",
        "Attention",
        "com.microsoft.FusedMatMul",
        "com.microsoft.FusedGemm",
        "com.microsoft.Attention",
        "com.microsoft.MultiHeadAttention",
    ]
)
_VIEWS = frozenset(
    [
        "Constant",
        "Identity",
        "Reshape",
        "Flatten",
        "Squeeze",
        "Unsqueeze",
        "Shape",
        "Size",
        "Dropout",
        "Optional",
        "OptionalGetElement",
        "SequenceAt",
        "SequenceConstruct",
    ]
)


def map_node(site: Site, wish: Wish) -> Outcome:
    """Say where a node goes, and as which problems.

    Raises
    ------
    InputError
        If it goes to MIOpen, and its sizes are not known or not acceptable.
    """
    label = site.operator
    if site.followed:
        return Outcome(_FOLLOWED)
    if site.constant:
        return Outcome("no kernel: a constant")
    if label in MAPPED:
        return MAPPED[label](site, wish)
    return Outcome(_elsewhere(site, label, wish))


def _elsewhere(site: Site, label: str, wish: Wish) -> str:
    """Where an operator goes that nobody calls MIOpen for."""
    if label in _RECURRENT:
        products = f"{_PRODUCTS[MIGRAPHX]}, after being rewritten into matrix products"
        return products if wish.consumer == MIGRAPHX else CPU
    if label in _MATRIX:
        return _PRODUCTS[wish.consumer]
    if label in _VIEWS:
        return _NONE
    return OWN_KERNEL if _known(site) else _UNKNOWN


def _known(site: Site) -> bool:
    if site.node.domain == "com.microsoft":
        return True  # ONNX Runtime's own
    domain = "" if site.node.domain == "ai.onnx" else site.node.domain
    return bool(onnx.defs.has(site.node.op_type, domain))
