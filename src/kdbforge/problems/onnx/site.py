"""A node in its place: what it reads and makes, and which nodes stand before and behind it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kdbforge.problems.onnx.load import subgraphs
from kdbforge.problems.onnx.values import Value

__all__ = ["Scope", "Site", "label_of", "reads_of", "scope_of"]


@dataclass(frozen=True, slots=True)
class Scope:
    """The graph or function body that a node stands in."""

    makers: Mapping[str, Any]  # the node that makes a tensor
    readers: Mapping[str, tuple[Any, ...]]  # the nodes that read a tensor, in order
    outputs: frozenset[str]
    stored: frozenset[str]  # initialisers and constants: known when the model is compiled
    values: Mapping[str, Value]  # of all tensors up to the node that is visited


@dataclass(frozen=True, slots=True)
class Site:
    """A node with all that is known about its tensors."""

    name: str  # its path in the file, for people
    node: Any  # onnx.NodeProto
    opset: int  # of ONNX's own operators
    inputs: tuple[Value | None, ...]
    outputs: tuple[Value, ...]
    scope: Scope
    followed: bool = False  # whether the nodes of its graphs or function are visited, too
    attributes: Mapping[str, Any] = field(default_factory=dict)

    @property
    def operator(self) -> str:
        return label_of(self.node)

    @property
    def constant(self) -> bool:
        """Whether all that it makes is known when the model is compiled."""
        made = [name for name in self.node.output if name]
        return bool(made) and all(name in self.scope.stored for name in made)

    def input(self, index: int) -> Value | None:
        """An input, or None where it is left out."""
        return self.inputs[index] if index < len(self.inputs) else None

    def stored(self, index: int) -> bool:
        """Whether an input is an initialiser or a constant."""
        return index < len(self.node.input) and self.node.input[index] in self.scope.stored

    def only_reader(self) -> Any:
        """The one node that reads the one output that this node makes, or None."""
        return _only_reader(self.node, self.scope)

    def maker(self, index: int) -> Any:
        """The node that makes an input, or None."""
        name = self.node.input[index] if index < len(self.node.input) else ""
        return self.scope.makers.get(name)

    def is_only_reader(self, index: int) -> bool:
        """Whether nothing but this node reads what the maker of an input makes."""
        maker = self.maker(index)
        return maker is not None and _only_reader(maker, self.scope) is self.node


def _only_reader(node: Any, scope: Scope) -> Any:
    name = node.output[0] if node.output else ""
    readers = scope.readers.get(name, ())
    return readers[0] if len(readers) == 1 and name not in scope.outputs else None


def label_of(node: Any) -> str:
    """An operator's name with its domain, if that is not ONNX's own."""
    own = node.domain in ("", "ai.onnx")
    return str(node.op_type) if own else f"{node.domain}.{node.op_type}"


def reads_of(node: Any) -> list[str]:
    """All tensors that a node reads, those that its graphs take from outside included."""
    names = [name for name in node.input if name]
    for _, graph in subgraphs(node):
        own = {entry.name for entry in (*graph.input, *graph.initializer)}
        own |= {name for inner in graph.node for name in inner.output}
        inner_reads = [name for inner in graph.node for name in reads_of(inner)]
        names += [n for n in (*inner_reads, *(o.name for o in graph.output)) if n not in own]
    return names


def scope_of(
    nodes: Iterable[Any], outputs: Iterable[str], stored: Iterable[str], values: Mapping[str, Value]
) -> Scope:
    """The scope of a list of nodes."""
    makers: dict[str, Any] = {}
    readers: dict[str, list[Any]] = {}
    constants = set(stored)
    for node in nodes:
        makers.update((name, node) for name in node.output if name)
        reads = dict.fromkeys(reads_of(node))
        for name in reads:
            readers.setdefault(name, []).append(node)
        if constants.issuperset(reads) and not node.op_type.startswith("Random"):
            constants.update(node.output)  # known when the model is compiled
    frozen = {name: tuple(found) for name, found in readers.items()}
    return Scope(makers, frozen, frozenset(outputs), frozenset(constants), values)
