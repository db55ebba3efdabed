"""What is known about a tensor of a graph: its type, its value if it is small, or why neither."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import onnx

__all__ = ["Shape", "Value", "external", "shape_of", "tensor_type"]

#: Lengths of the axes; None for one that is not known.
Shape = tuple[int | None, ...]


@dataclass(frozen=True, slots=True)
class Value:
    """One tensor; where its shape is not known, `why` says which node or tensor is to blame."""

    type: Any = None  # onnx.TypeProto
    constant: Any = None  # numpy.ndarray of at most MAX_ELEMENTS elements
    why: str = ""

    @property
    def shape(self) -> Shape | None:
        return None if self.type is None else shape_of(self.type)

    @property
    def known(self) -> bool:
        """Whether the shape is known in full."""
        shape = self.shape
        return shape is not None and None not in shape

    @property
    def dims(self) -> tuple[int, ...]:
        """The shape of a tensor whose shape is known in full."""
        return tuple(size for size in self.shape or () if size is not None)

    @property
    def element(self) -> int:
        """The element type, of onnx.TensorProto; 0 if not known."""
        return 0 if self.type is None else int(self.type.tensor_type.elem_type)


def shape_of(type_proto: Any, dims: Mapping[str, int] | None = None) -> Shape | None:
    """Shape of a tensor type, with its symbols replaced by `dims`; None if it has none."""
    if not type_proto.HasField("tensor_type") or not type_proto.tensor_type.HasField("shape"):
        return None
    sizes: list[int | None] = []
    for dim in type_proto.tensor_type.shape.dim:
        if dim.HasField("dim_value"):
            sizes.append(int(dim.dim_value) if dim.dim_value >= 0 else None)
        else:
            sizes.append((dims or {}).get(dim.dim_param))
    return tuple(sizes)


def tensor_type(element: int, shape: Iterable[int | None] | None) -> Any:
    """A tensor type of that element type and shape."""
    return onnx.helper.make_tensor_type_proto(element, None if shape is None else list(shape))


def external(tensor: Any) -> bool:
    """Whether a tensor's data is in another file; such files are never opened."""
    return bool(tensor.data_location == onnx.TensorProto.EXTERNAL)
