"""Shapes of one node's outputs: by ONNX's own rules, and by a few for ONNX Runtime's operators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import shape_inference

from kdbforge.problems.line import shown
from kdbforge.problems.onnx.fold import fold
from kdbforge.problems.onnx.site import label_of
from kdbforge.problems.onnx.values import Value, tensor_type

__all__ = ["infer"]

_MICROSOFT = "com.microsoft"
_NO_TYPE = onnx.TypeProto()
_INTEGERS = (onnx.TensorProto.INT64, onnx.TensorProto.INT32)
#: ONNX Runtime's operators that give what their first input is in type and shape.
_LIKE_FIRST = frozenset(
    [
        "BiasGelu",
        "FastGelu",
        "Gelu",
        "QuickGelu",
        "QLinearLeakyRelu",
        "QLinearSigmoid",
        "SkipLayerNormalization",
        "SimplifiedLayerNormalization",
        "SkipSimplifiedLayerNormalization",
        "QLinearSoftmax",
    ]
)
_CONV_ATTRIBUTES = frozenset(["auto_pad", "dilations", "group", "kernel_shape", "pads", "strides"])


def infer(
    node: Any, name: str, inputs: Sequence[Value | None], opsets: Mapping[str, int], ir: int
) -> list[Value]:
    """Types, and where they are small and computable values, of all outputs of a node.

    Never raises for what is wrong with the node: what is not known says why.
    """
    domain = "" if node.domain == "ai.onnx" else node.domain
    if domain == _MICROSOFT:
        types, why = _microsoft(node, name, inputs, ir)
    else:
        types, why = _by_rule(node, name, inputs, domain, opsets, ir)
    values = fold(node, list(inputs), opsets.get("", 1)) if domain == "" else {}
    return [
        _output(types.get(output), values.get(output), why or _blame(node, name, inputs), inputs)
        for output in node.output
    ]


def _output(type_: Any, constant: Any, why: str, inputs: Sequence[Value | None]) -> Value:
    if constant is not None:
        element = onnx.helper.np_dtype_to_tensor_dtype(np.asarray(constant).dtype)
        return Value(tensor_type(element, np.shape(constant)), constant)
    value = Value(type_)
    if value.known:
        unread = next((v.why for v in inputs if v is not None and v.known and v.why), "")
        return Value(type_, why=unread if value.element in _INTEGERS else "")
    return Value(type_, why=why)


def _blame(node: Any, name: str, inputs: Sequence[Value | None]) -> str:
    """Why the shape of an output is not known although there is a rule for it."""
    given = [value for value in inputs if value is not None]
    for value in (*(v for v in given if not v.known), *given):
        if value.why:
            return value.why
    return f"the shape that `{shown(name)}` ({label_of(node)}) makes depends on data"


def _by_rule(
    node: Any,
    name: str,
    inputs: Sequence[Value | None],
    domain: str,
    opsets: Mapping[str, int],
    ir: int,
) -> tuple[Mapping[str, Any], str]:
    """Types of outputs by the operator's own rule, or why there are none."""
    label = label_of(node)
    if domain not in opsets:
        return {}, f"the domain of operator `{shown(label)}` is not imported"
    try:
        schema = onnx.defs.get_schema(node.op_type, opsets[domain], domain)
    except onnx.defs.SchemaError:
        return {}, f"operator `{shown(label)}` of node `{shown(name)}` is not known"
    types, data = {}, {}
    for tensor, value in zip(node.input, inputs, strict=True):
        if value is not None:
            types[tensor] = value.type or _NO_TYPE
            if value.constant is not None:
                data[tensor] = onnx.numpy_helper.from_array(np.asarray(value.constant), tensor)
    imports = [onnx.helper.make_opsetid(d, v) for d, v in opsets.items()]
    try:
        found = shape_inference.infer_node_outputs(
            schema, node, types, data, opset_imports=imports, ir_version=ir
        )
    except Exception as error:  # noqa: BLE001 - of any type, from C++: the node is wrong
        return {}, f"node `{shown(name)}` ({label}) is wrong: {_said(error)}"
    return found, ""


def _said(error: Exception) -> str:
    text = str(error).strip() or type(error).__name__
    return shown(text.splitlines()[0].removeprefix("[ShapeInferenceError] "))


def _microsoft(
    node: Any, name: str, inputs: Sequence[Value | None], ir: int
) -> tuple[Mapping[str, Any], str]:
    first = inputs[0] if inputs else None
    if first is None or first.type is None or not node.output:
        return {}, ""
    if node.op_type == "FusedConv" and len(inputs) > 1:
        plain = onnx.NodeProto(op_type="Conv", input=node.input[:2], output=node.output[:1])
        plain.attribute.extend(a for a in node.attribute if a.name in _CONV_ATTRIBUTES)
        return _by_rule(plain, name, inputs[:2], "", {"": 11}, ir)
    if node.op_type in _LIKE_FIRST:
        return {node.output[0]: first.type}, ""
    if node.op_type in ("QLinearAdd", "QLinearMul") and len(inputs) > 3 and inputs[3] is not None:
        return _broadcast(node, first, inputs[3]), ""
    if node.op_type == "QLinearGlobalAveragePool" and first.known and len(first.dims) > 2:
        shape = (*first.dims[:2], *(1 for _ in first.dims[2:]))
        return {node.output[0]: tensor_type(first.element, shape)}, ""
    return {}, f"operator `{shown(label_of(node))}` of node `{shown(name)}` is not known"


def _broadcast(node: Any, one: Value, other: Value) -> Mapping[str, Any]:
    try:
        shape = np.broadcast_shapes(one.dims, other.dims) if one.known and other.known else None
    except ValueError:
        shape = None
    return {node.output[0]: tensor_type(one.element, shape)}
