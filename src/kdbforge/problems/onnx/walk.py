"""Walks through all nodes of a model with their shapes: subgraphs, loops and functions, too."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import onnx

from kdbforge.errors import InputError
from kdbforge.problems.line import shown
from kdbforge.problems.onnx.dims import Inputs
from kdbforge.problems.onnx.fold import stored_value
from kdbforge.problems.onnx.infer import infer
from kdbforge.problems.onnx.load import MAX_DEPTH, MAX_NODES, opset_of
from kdbforge.problems.onnx.order import name_of, ordered
from kdbforge.problems.onnx.site import Scope, Site, label_of, scope_of
from kdbforge.problems.onnx.values import Value, external, shape_of, tensor_type

__all__ = ["walk"]

Visit = Callable[[Site], None]
Env = Mapping[str, Value]

_INTEGERS = (onnx.TensorProto.INT64, onnx.TensorProto.INT32)
#: How often a loop's body is walked until the shapes that it carries around stay as they are.
_LOOP_ROUNDS = 3


@dataclass(frozen=True, slots=True)
class _Frame:
    """What a body inherits from where it stands."""

    prefix: str
    opsets: Mapping[str, int]
    attributes: Mapping[str, Any]  # of the call, where this is the body of a function
    calls: tuple[str, ...]  # the functions that it is within
    quiet: bool = False  # a loop's trial round: nodes are not shown to the visitor

    def inside(self, name: str, *, quiet: bool = False) -> _Frame:
        return replace(self, prefix=f"{name}/", quiet=self.quiet or quiet)


def walk(model: Any, path: str, inputs: Inputs, visit: Visit) -> None:
    """Show every node to `visit`, each behind those whose outputs it reads.

    Both branches of an `If` are walked unless its condition is known. The body of a `Loop` or
    `Scan` is shown once, with shapes that hold in every round.

    Raises
    ------
    InputError
        If a graph cannot run: circles, missing tensors, functions that call themselves, or more
        nodes than `MAX_NODES` once functions are followed; with file and node.
    """
    _Walker(model, path, inputs, visit).run()


class _Walker:
    def __init__(self, model: Any, path: str, inputs: Inputs, visit: Visit):
        self._model = model
        self._path = path
        self._inputs = inputs
        self._visit = visit
        self._functions = {(f.domain, f.name, _overload(f)): f for f in model.functions}
        self._walked = 0

    def run(self) -> None:
        opsets = {_own(e.domain): int(e.version) for e in self._model.opset_import}
        opsets.setdefault("", opset_of(self._model.opset_import))
        self._graph(self._model.graph, self._inputs.values, {}, _Frame("", opsets, {}, ()))

    def _graph(self, graph: Any, given: Env, outer: Env, frame: _Frame) -> list[Value]:
        """Walk a graph; returns its outputs."""
        env: ChainMap[str, Value] = ChainMap({}, dict(outer) if outer else {})
        env.maps[0].update((t.name, _initialiser(t)) for t in graph.initializer)
        for sparse in graph.sparse_initializer:
            type_ = tensor_type(sparse.values.data_type, sparse.dims)
            env.maps[0][sparse.values.name] = Value(type_)
        stored = list(env.maps[0])
        env.maps[0].update(given)
        declared = {}
        if self._inputs.as_declared:
            declared = {entry.name: entry.type for entry in (*graph.value_info, *graph.output)}
        names = [entry.name for entry in graph.output]
        self._body(graph.node, names, stored, env, declared, frame)
        return [self._made(env, name, frame) for name in names]

    def _made(self, env: Env, name: str, frame: _Frame) -> Value:
        if name not in env:
            place = f"{self._path}:{frame.prefix}"
            raise InputError(f"Output `{shown(name)}` is made by no node", context=(place,))
        return env[name]

    def _body(
        self,
        body: Sequence[Any],
        outputs: list[str],
        stored: list[str],
        env: ChainMap[str, Value],
        declared: Mapping[str, Any],
        frame: _Frame,
    ) -> None:
        place = f"{self._path}:{frame.prefix}".rstrip(":")
        nodes = [_resolved(node, frame.attributes) for node in body]
        scope = scope_of(nodes, outputs, stored, env)
        for index, node in enumerate(ordered(nodes, env, place)):
            name = frame.prefix + name_of(node, index)
            self._count(name)
            inputs = tuple(env[read] if read else None for read in node.input)
            function = self._functions.get((node.domain, node.op_type, _overload(node)))
            if function is not None:
                made = self._call(function, node, name, inputs, frame)
            elif node.op_type in _CONTROL and node.domain in ("", "ai.onnx"):
                made = _CONTROL[node.op_type](self, node, name, inputs, env, frame)
            else:
                made = infer(node, name, inputs, frame.opsets, self._model.ir_version)
            made = [
                self._declared(value, declared.get(output))
                for output, value in zip(node.output, made, strict=False)
            ]
            env.maps[0].update(zip(node.output, made, strict=False))
            followed = function is not None or node.op_type in _CONTROL
            self._show(node, name, inputs, made, scope, frame, followed)

    def _show(
        self,
        node: Any,
        name: str,
        inputs: tuple[Value | None, ...],
        made: Sequence[Value],
        scope: Scope,
        frame: _Frame,
        followed: bool,
    ) -> None:
        if frame.quiet:
            return
        attributes = {a.name: a for a in node.attribute}
        opset = frame.opsets.get("", 1)
        self._visit(Site(name, node, opset, inputs, tuple(made), scope, followed, attributes))

    def _count(self, name: str) -> None:
        self._walked += 1
        if self._walked > MAX_NODES:
            raise InputError(
                f"More than {MAX_NODES:,} nodes, with functions and loops followed",
                context=(f"{self._path}:{shown(name)}",),
            )

    def _declared(self, value: Value, type_: Any) -> Value:
        """Take a shape from the file where no rule gives one."""
        if value.known or type_ is None:
            return value
        shape = shape_of(type_, self._inputs.symbols)
        if shape is None or None in shape:
            return value
        return Value(tensor_type(value.element or type_.tensor_type.elem_type, shape))

    def _call(
        self,
        function: Any,
        node: Any,
        name: str,
        inputs: tuple[Value | None, ...],
        frame: _Frame,
    ) -> list[Value]:
        label = label_of(node)
        if label in frame.calls or len(frame.calls) >= MAX_DEPTH:
            what = "calls itself" if label in frame.calls else f"is more than {MAX_DEPTH} deep"
            raise InputError(
                f"Function `{shown(label)}` {what}", context=(f"{self._path}:{shown(name)}",)
            )
        given = zip(function.input, inputs, strict=False)
        env = ChainMap({formal: value or Value() for formal, value in given})
        env.maps[0].update({f: Value() for f in function.input if f not in env})
        attributes = {a.name: a for a in function.attribute_proto}
        attributes.update((a.name, a) for a in node.attribute)
        opsets = {_own(e.domain): int(e.version) for e in function.opset_import}
        inner = _Frame(f"{name}/", opsets, attributes, (*frame.calls, label), frame.quiet)
        env[""] = Value()
        self._body(function.node, list(function.output), [], env, {}, inner)
        return [self._made(env, output, inner) for output in function.output]

    def _if(
        self,
        node: Any,
        name: str,
        inputs: tuple[Value | None, ...],
        env: Env,
        frame: _Frame,
    ) -> list[Value]:
        condition = inputs[0].constant if inputs and inputs[0] is not None else None
        branches = {a.name: a.g for a in node.attribute if a.HasField("g")}
        if condition is not None and np.size(condition) == 1:
            wanted = "then_branch" if bool(np.ravel(condition)[0]) else "else_branch"
            branches = {key: graph for key, graph in branches.items() if key == wanted}
        made = [
            self._graph(graph, {}, env, frame.inside(f"{name}/{key}"))
            for key, graph in sorted(branches.items())
        ]
        if not made:
            return [Value(why=f"`{shown(name)}` has no branch") for _ in node.output]
        why = f"the branches of `{shown(name)}` differ in what they make"
        first, *rest = made
        return [
            first[i] if not rest else _merged((first[i], rest[0][i]), why)
            for i in range(min(map(len, made)))
        ]

    def _loop(
        self,
        node: Any,
        name: str,
        inputs: tuple[Value | None, ...],
        env: Env,
        frame: _Frame,
    ) -> list[Value]:
        body = next((a.g for a in node.attribute if a.name == "body"), None)
        if body is None:
            return [Value(why=f"`{shown(name)}` has no body") for _ in node.output]
        carried = [replace(v or Value(), constant=None) for v in inputs[2:]]
        why = f"`{shown(name)}` carries a tensor whose shape changes from round to round"
        for _ in range(_LOOP_ROUNDS):
            made = self._graph(body, _round(body, carried), env, frame.inside(name, quiet=True))
            after = [_merged(pair, why) for pair in zip(carried, made[1:], strict=False)]
            if [v.shape for v in after] == [v.shape for v in carried]:
                break
            carried = after
        else:
            carried = [Value(tensor_type(v.element, None), why=why) for v in carried]
        made = self._graph(body, _round(body, carried), env, frame.inside(name))
        rounds = f"how often `{shown(name)}` goes around is not known"
        scans = [_stacked(value, None, 0, rounds) for value in made[1 + len(carried) :]]
        return [*carried, *scans]

    def _scan(
        self,
        node: Any,
        name: str,
        inputs: tuple[Value | None, ...],
        env: Env,
        frame: _Frame,
    ) -> list[Value]:
        attributes = {a.name: a for a in node.attribute}
        body = attributes["body"].g if "body" in attributes else None
        count = attributes["num_scan_inputs"].i if "num_scan_inputs" in attributes else 0
        if body is None or not 0 < count <= len(inputs) or frame.opsets.get("", 1) < 9:
            return [Value(why=f"`{shown(name)}` cannot be followed") for _ in node.output]
        states = [replace(v or Value(), constant=None) for v in inputs[:-count]]
        axes = _axes(attributes, "scan_input_axes", count)
        slices, length = [], None
        for value, axis in zip(inputs[-count:], axes, strict=False):
            slices.append(_slice(value or Value(), axis))
            length = length or _length(value or Value(), axis)
        given = dict(zip((e.name for e in body.input), (*states, *slices), strict=False))
        made = self._graph(body, given, env, frame.inside(name))
        outputs = made[len(states) :]
        out_axes = _axes(attributes, "scan_output_axes", len(outputs))
        why = f"the length of what `{shown(name)}` scans is not known"
        return [
            *made[: len(states)],
            *(_stacked(v, length, a, why) for v, a in zip(outputs, out_axes, strict=False)),
        ]


_CONTROL = {"If": _Walker._if, "Loop": _Walker._loop, "Scan": _Walker._scan}


def _own(domain: str) -> str:
    return "" if domain == "ai.onnx" else domain


def _overload(entry: Any) -> str:
    """The overload of a node or function; the field came with ONNX 1.16."""
    return str(getattr(entry, "overload", ""))


def _resolved(node: Any, attributes: Mapping[str, Any]) -> Any:
    """A node of a function with its attributes taken from the call."""
    if not any(attribute.ref_attr_name for attribute in node.attribute):
        return node
    copy = onnx.NodeProto()
    copy.CopyFrom(node)
    del copy.attribute[:]
    for attribute in node.attribute:
        source = attributes.get(attribute.ref_attr_name) if attribute.ref_attr_name else attribute
        if source is not None:
            added = copy.attribute.add()
            added.CopyFrom(source)
            added.name = attribute.name
    return copy


def _initialiser(tensor: Any) -> Value:
    type_ = tensor_type(tensor.data_type, tensor.dims)
    if external(tensor) and tensor.data_type in _INTEGERS:
        why = f"a shape is computed from `{shown(tensor.name)}`, which is stored in another file"
        return Value(type_, why=f"{why}, and such files are not read")
    return Value(type_, stored_value(tensor))


def _merged(pair: tuple[Value, Value], why: str) -> Value:
    """What holds for both of two values."""
    one, other = pair
    if one.shape is not None and one.shape == other.shape:
        return replace(one, constant=None)
    one_shape, other_shape = one.shape, other.shape
    if one_shape is None or other_shape is None or len(one_shape) != len(other_shape):
        return Value(tensor_type(one.element, None), why=one.why or other.why or why)
    shape = [a if a == b else None for a, b in zip(one_shape, other_shape, strict=True)]
    return Value(tensor_type(one.element, shape), why=one.why or other.why or why)


def _round(body: Any, carried: Sequence[Value]) -> dict[str, Value]:
    """The inputs of a loop's body: number of the round, condition, what is carried."""
    first = (
        Value(tensor_type(onnx.TensorProto.INT64, ())),
        Value(tensor_type(onnx.TensorProto.BOOL, ())),
    )
    return dict(zip((entry.name for entry in body.input), (*first, *carried), strict=False))


def _axes(attributes: Mapping[str, Any], name: str, count: int) -> list[int]:
    given = list(attributes[name].ints) if name in attributes else []
    return given if len(given) == count else [0] * count


def _length(value: Value, axis: int) -> int | None:
    shape = value.shape or ()
    return shape[axis] if -len(shape) <= axis < len(shape) else None


def _slice(value: Value, axis: int) -> Value:
    """A value without one axis."""
    shape = value.shape
    if shape is None or not -len(shape) <= axis < len(shape):
        return Value(tensor_type(value.element, None), why=value.why)
    kept = [size for i, size in enumerate(shape) if i != axis % len(shape)]
    return Value(tensor_type(value.element, kept), why=value.why)


def _stacked(value: Value, length: int | None, axis: int, why: str) -> Value:
    """A value with one axis more."""
    if value.shape is None:
        return value
    shape = list(value.shape)
    place = axis % (len(shape) + 1)
    shape.insert(place, length)
    unknown = length is None or not value.known
    return Value(tensor_type(value.element, shape), why=(value.why or why) if unknown else "")
