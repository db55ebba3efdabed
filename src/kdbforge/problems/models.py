"""What is asked of network files, and what is told about them; no network file is read here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["CONSUMERS", "LeftOut", "ModelOptions", "ModelReport", "OperatorUse"]

#: Who runs the network, and so decides which of its nodes are calls of MIOpen. The first one is
#: the default: it is maintained, by itself and as ONNX Runtime's provider for AMD GPUs; the other
#: is ONNX Runtime's older ROCm provider.
CONSUMERS = ("migraphx", "onnxruntime")


@dataclass(frozen=True, slots=True)
class ModelOptions:
    """How to read network files; field comments name the command line's flag."""

    # --dim NAME=VALUE: sizes by the name of a dimension, or by `INPUT.AXIS`
    dims: Mapping[str, int] = field(default_factory=dict)
    consumer: str = CONSUMERS[0]  # --consumer


@dataclass(frozen=True, slots=True)
class OperatorUse:
    """How often an operator stands in a model, and where the consumer sends it."""

    operator: str  # with its domain, if it is not ONNX's own
    goes: str
    count: int


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A node that MIOpen would be called for, and for which no problem could be made."""

    node: str
    operator: str
    reason: str
    command: str = ""  # the MIOpenDriver command that stands for it, if that is what is missing


@dataclass(frozen=True, slots=True)
class ModelReport:
    """What became of the nodes of one network file."""

    path: str
    consumer: str
    opset: int
    nodes: int
    operators: tuple[OperatorUse, ...]  # by where they go, then by name
    left_out: tuple[LeftOut, ...]
