"""Values of the small tensors that shapes are computed from (Shape, Gather, Concat, Mul ...)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator

from kdbforge.problems.onnx.values import Value, external

__all__ = ["MAX_ELEMENTS", "fold", "stored_value"]

#: Larger tensors are weights or images, from which no shape is computed.
MAX_ELEMENTS = 1024

#: Operators that exporters compute shapes with. All are quick, and none makes more elements
#: than its inputs have, but for those of _GROWING.
_FOLDABLE = frozenset(
    [
        "Abs",
        "Add",
        "And",
        "Cast",
        "Ceil",
        "Concat",
        "Div",
        "Equal",
        "Expand",
        "Flatten",
        "Floor",
        "Gather",
        "Greater",
        "GreaterOrEqual",
        "Identity",
        "Less",
        "LessOrEqual",
        "Max",
        "Min",
        "Mod",
        "Mul",
        "Neg",
        "Not",
        "Or",
        "Range",
        "ReduceMax",
        "ReduceMin",
        "ReduceProd",
        "ReduceSum",
        "Reshape",
        "Round",
        "ScatterND",
        "Slice",
        "Split",
        "Sqrt",
        "Squeeze",
        "Sub",
        "Transpose",
        "Unsqueeze",
        "Where",
        "ConstantOfShape",
        "Tile",
    ]
)
_GROWING = frozenset(("Expand", "Range", "ConstantOfShape", "Tile", "Gather", "Concat"))


def stored_value(tensor: Any) -> Any:
    """The value of a small initialiser as an array; None if it is large or in another file."""
    if external(tensor) or math.prod(tensor.dims) > MAX_ELEMENTS or min(tensor.dims, default=1) < 0:
        return None
    if tensor.data_type in (onnx.TensorProto.STRING, onnx.TensorProto.UNDEFINED):
        return None
    try:
        return onnx.numpy_helper.to_array(tensor)
    except (ValueError, TypeError, KeyError):
        return None  # its data does not fit its shape; a node that needs it will say so


def fold(node: Any, inputs: list[Value | None], opset: int) -> dict[str, Any]:
    """Values of a node's outputs, by name; none if they cannot be known or are large.

    Never raises: what cannot be computed is not known.
    """
    if node.op_type == "Constant":
        return _constant(node)
    if node.op_type in ("Shape", "Size") and inputs and inputs[0] is not None and inputs[0].known:
        return {node.output[0]: _sizes(node, inputs[0].dims)}
    given = [value for value in inputs if value is not None]
    if node.op_type not in _FOLDABLE or any(value.constant is None for value in given):
        return {}
    arrays = {
        name: value.constant
        for name, value in zip(node.input, inputs, strict=True)
        if value is not None
    }
    if node.op_type in _GROWING and _grown(node, [v.constant for v in given]) > MAX_ELEMENTS:
        return {}
    return _evaluate(node, arrays, opset)


def _evaluate(node: Any, arrays: dict[str, Any], opset: int) -> dict[str, Any]:
    try:
        with np.errstate(all="ignore"):
            results = ReferenceEvaluator(node, opsets={"": opset}).run(None, arrays)
    except Exception:  # noqa: BLE001 - a foreign node may fail in any way, and is then not known
        return {}
    return {
        name: np.asarray(result)
        for name, result in zip(node.output, results, strict=False)
        if name and np.size(result) <= MAX_ELEMENTS
    }


def _constant(node: Any) -> dict[str, Any]:
    for attribute in node.attribute:
        if attribute.name == "value":
            value = stored_value(attribute.t)
        elif attribute.name in ("value_int", "value_ints"):
            value = np.array(onnx.helper.get_attribute_value(attribute), dtype=np.int64)
        elif attribute.name in ("value_float", "value_floats"):
            value = np.array(onnx.helper.get_attribute_value(attribute), dtype=np.float32)
        else:
            continue
        if value is not None and np.size(value) <= MAX_ELEMENTS:
            return {node.output[0]: value}
    return {}


def _sizes(node: Any, dims: tuple[int, ...]) -> Any:
    if node.op_type == "Size":
        return np.array(math.prod(dims), dtype=np.int64)
    given = {attribute.name: attribute.i for attribute in node.attribute}
    return np.array(dims[given.get("start", 0) : given.get("end", len(dims))], dtype=np.int64)


def _grown(node: Any, arrays: list[Any]) -> float:
    """How many elements a growing operator makes, before it makes them; inf if unclear."""
    count = _COUNTS.get(node.op_type, _together)
    try:
        with np.errstate(all="ignore"):
            return float(count(arrays))
    except (ValueError, TypeError, ZeroDivisionError, IndexError, OverflowError):
        return math.inf


def _product(values: Any) -> float:
    return float(np.prod(np.ravel(np.asarray(values)).astype(float)))


def _together(given: list[Any]) -> float:
    return sum(float(np.size(array)) for array in given)


_COUNTS: dict[str, Callable[[list[Any]], float]] = {
    "Range": lambda given: (float(given[1]) - float(given[0])) / float(given[2]),
    "ConstantOfShape": lambda given: _product(given[0]),
    "Expand": lambda given: _product(given[0].shape) * _product(given[1]),
    "Tile": lambda given: _product(given[0].shape) * _product(given[1]),
    "Gather": lambda given: _product(given[0].shape) * _product(given[1].shape),
}
