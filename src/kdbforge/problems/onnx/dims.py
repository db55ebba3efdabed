"""Sizes of the inputs of a network: symbols bound by `--dim`, the batch bound by `--batch`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kdbforge.errors import InputError
from kdbforge.problems.limits import MAX_SIZE
from kdbforge.problems.line import shown
from kdbforge.problems.onnx.values import Value, tensor_type

__all__ = ["Inputs", "bind_inputs"]


@dataclass(frozen=True, slots=True)
class Inputs:
    """The bound inputs of a graph."""

    values: Mapping[str, Value]
    symbols: Mapping[str, int]  # what every symbol stands for
    used: frozenset[str]  # the names in `--dim` that this model has
    known: frozenset[str]  # the names that it would have
    as_declared: bool  # whether no size that the file fixes was changed


def bind_inputs(graph: Any, batch: int | None, dims: Mapping[str, int]) -> Inputs:
    """Give every axis of every input a size.

    `batch` is the first axis of the inputs. If the first axis of any input is a symbol, it is
    these symbols that are bound; else a size that the file fixes is changed, in all inputs that
    agree with the first one in it. What has less than two axes holds no batch.

    Raises
    ------
    InputError
        If an axis has no size above 0, naming the axis and the option that gives one.
    """
    stored = {tensor.name for tensor in graph.initializer}
    stored |= {tensor.values.name for tensor in graph.sparse_initializer}
    inputs = [entry for entry in graph.input if entry.name not in stored]
    symbols, positions = _bind_batch(inputs, batch, dims)
    binding = _Binding(dims, symbols, positions)
    values = {entry.name: binding.value(entry) for entry in inputs}
    return Inputs(
        values,
        {**symbols, **dims},
        frozenset(binding.used),
        frozenset(binding.known),
        not binding.changed,
    )


def _bind_batch(
    inputs: list[Any], batch: int | None, dims: Mapping[str, int]
) -> tuple[dict[str, int], dict[str, int]]:
    """Symbols that stand for the batch, and first axes (`INPUT.0`) that are it."""
    if batch is None:
        return {}, {}
    first = {entry.name: _dims(entry)[0] for entry in inputs if len(_dims(entry)) > 1}
    symbols = {dim.dim_param for dim in first.values() if dim.dim_param}
    unnamed = {f"{n}.0": batch for n, dim in first.items() if not _named(dim) or _negative(dim)}
    free = symbols - set(dims)
    if symbols and not free and not unnamed:
        name = min(symbols)
        raise InputError(
            f"`--dim {shown(name)}={dims[name]}` and `--batch {batch}` bind the same dimension"
        )
    if symbols or unnamed:
        return dict.fromkeys(free, batch), unnamed
    sizes = [dim.dim_value for dim in first.values()]
    return {}, {f"{n}.0": batch for n, dim in first.items() if dim.dim_value == sizes[0]}


def _negative(dim: Any) -> bool:
    """Whether the file writes 0 or -1 for a size that is not known, as some exporters do."""
    return bool(dim.HasField("dim_value") and dim.dim_value <= 0)


def _named(dim: Any) -> bool:
    return bool(dim.dim_param or dim.HasField("dim_value"))


def _dims(entry: Any) -> Any:
    return entry.type.tensor_type.shape.dim


class _Binding:
    def __init__(
        self, dims: Mapping[str, int], symbols: Mapping[str, int], positions: Mapping[str, int]
    ):
        self._dims = dims
        self._sizes = {**positions, **symbols, **dims}
        self.used: set[str] = set()
        self.known: set[str] = set()
        self.changed = False

    def value(self, entry: Any) -> Value:
        kind = entry.type.WhichOneof("value")
        if kind != "tensor_type":
            return Value(entry.type, why=f"input `{entry.name}` is no tensor but a {kind}")
        if not entry.type.tensor_type.HasField("shape"):
            return Value(entry.type, why=f"input `{entry.name}` has no shape in the file")
        sizes = [self._size(entry.name, axis, dim) for axis, dim in enumerate(_dims(entry))]
        return Value(tensor_type(entry.type.tensor_type.elem_type, sizes))

    def _size(self, name: str, axis: int, dim: Any) -> int:
        place = f"{name}.{axis}"
        names = [n for n in (place, dim.dim_param) if n]
        self.known.update(names)
        self.used.update(n for n in names if n in self._dims)
        given = next((self._sizes[n] for n in names if n in self._sizes), None)
        if given is not None:
            self.changed = self.changed or (dim.dim_value > 0 and given != dim.dim_value)
            return given
        if dim.dim_value > MAX_SIZE:
            raise InputError(f"Axis {axis} of input `{name}` is {dim.dim_value}, over {MAX_SIZE}")
        if dim.dim_value > 0:
            return int(dim.dim_value)
        raise _unbound(name, axis, dim)


def _unbound(name: str, axis: int, dim: Any) -> InputError:
    label = dim.dim_param or f"{name}.{axis}"
    batch = "`--batch N`, or " if axis == 0 else ""
    hint = f"give it a size: {batch}`--dim {shown(label)}=N`"
    if dim.dim_param:
        what = f"Dimension `{shown(dim.dim_param)}` (axis {axis} of input `{shown(name)}`)"
        return InputError(f"{what} has no size", hint=hint)
    what = f"Axis {axis} of input `{shown(name)}`"
    if dim.HasField("dim_value"):
        return InputError(f"{what} is {dim.dim_value}, which is no size", hint=hint)
    return InputError(f"{what} has neither a size nor a name", hint=hint)
