"""Tensors, and one operation with the descriptors and buffers that live as long as it does."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from ctypes import byref, c_float, c_int, c_size_t, c_void_p
from typing import Any, NamedTuple

from .library import Library, ints

# Values of miopen.h; its 8-bit floats are called fnuz from 3.5 on.
DATA_TYPES = {
    "fp16": 0, "fp32": 1, "int32": 2, "int8": 3, "bf16": 5,
    "fp64": 6, "fp8": 7, "bf8": 8, "int64": 9,
}  # fmt: skip
ELEMENT_BYTES = {0: 2, 1: 4, 2: 4, 3: 1, 5: 2, 6: 8, 7: 1, 8: 1, 9: 8}
LAYOUTS = {"NCHW": 0, "NHWC": 1, "NCDHW": 7, "NDHWC": 8}
#: The order in which a tensor's lengths are given, by their number.
AXES = {2: "NC", 3: "NCW", 4: "NCHW", 5: "NCDHW"}

ONE, ZERO = c_float(1), c_float(0)


def elements(dims: Sequence[int]) -> int:
    """Product of the lengths."""
    product = 1
    for length in dims:
        product *= length
    return product


def packed_strides(lengths: Sequence[int], layout: str) -> list[int]:
    """Strides of a tensor without gaps whose axes lie in memory as `layout` names them."""
    axes = AXES[len(lengths)]
    strides, step = dict.fromkeys(axes, 1), 1
    for axis in reversed(layout):
        strides[axis] = step
        step *= lengths[axes.index(axis)]
    return [strides[axis] for axis in axes]


class Tensor(NamedTuple):
    """A tensor descriptor and device memory for it: the pair that most calls take."""

    desc: c_void_p
    data: c_void_p


#: What takes the place of a tensor that a call can do without.
NO_TENSOR = Tensor(c_void_p(), c_void_p())


class Operation:
    """One operation on a handle: its arguments, and what it allocates until its end."""

    def __init__(self, library: Library, problem: dict[str, Any], stack: ExitStack):
        self.library = library
        self.dtype: str = problem["dtype"]
        self._arguments: dict[str, str] = problem["arguments"]
        self._stack = stack
        self.handle = stack.enter_context(library.handle())

    @classmethod
    @contextmanager
    def set_up(cls, library: Library, problem: dict[str, Any]) -> Iterator[Operation]:
        with ExitStack() as stack:
            yield cls(library, problem, stack)

    def text(self, name: str) -> str:
        """An argument; empty if the line does not give it and it has no default."""
        return self._arguments.get(name, "")

    def number(self, name: str) -> int:
        return int(self.text(name) or 0)

    def real(self, name: str) -> float:
        return float(self.text(name) or 0)

    def numbers(self, name: str) -> list[int]:
        """The numbers of a list, or the lengths of a tensor without its layout or strides."""
        text = self.text(name)
        if "x" in text:
            text = text.partition(",")[0].replace("x", ",")
        return [int(word) for word in text.split(",")] if text else []

    @property
    def backward(self) -> bool:
        return self.number("forw") == 2

    def call(self, name: str, *args: Any) -> None:
        """Call a function of the library whose first argument is the handle."""
        self.library.call(name, self.handle, *args)

    def descriptor(self, kind: str, destroy: str = "") -> c_void_p:
        """A new descriptor, for example of `Pooling`."""
        names = (f"Create{kind}Descriptor", destroy or f"Destroy{kind}Descriptor")
        return self._stack.enter_context(self.library.object(*names))

    def created(self, create: str, destroy: str, *args: Any) -> c_void_p:
        """What a function puts into its first argument; destroyed at the end if it can be."""
        made = c_void_p()
        self.library.call(create, byref(made), *args)
        if destroy:
            self._stack.callback(self.library.call, destroy, made)
        return made

    def buffer(self, size: int) -> c_void_p:
        """Device memory of `size` bytes."""
        return self._stack.enter_context(self.library.buffer(size))

    def size_of(self, name: str, *args: Any) -> int:
        """What a function that answers with a size says; `args` are all but the last."""
        size = c_size_t()
        self.library.call(name, *args, byref(size))
        return size.value

    def workspace(self, name: str, *args: Any) -> tuple[c_void_p, c_size_t]:
        """Device memory of the size that a function asks for, and that size."""
        size = self.size_of(name, *args)
        return self.buffer(size), c_size_t(size)

    def tensor(
        self,
        lengths: Sequence[int],
        dtype: str = "",
        *,
        layout: str = "",
        strides: Sequence[int] = (),
    ) -> Tensor:
        """A tensor of the operation's or another data type, packed unless strides are given."""
        kind = DATA_TYPES[dtype or self.dtype]
        if layout and not strides:
            strides = packed_strides(lengths, layout)
        desc = self.descriptor("Tensor")
        steps = ints(list(strides)) if strides else None
        self.library.call(
            "SetTensorDescriptor",
            desc,
            c_int(kind),
            c_int(len(lengths)),
            ints(list(lengths)),
            steps,
        )
        span = elements(lengths)
        if strides:
            span = 1 + sum((n - 1) * step for n, step in zip(lengths, strides, strict=True))
        return Tensor(desc, self.buffer(span * ELEMENT_BYTES[kind]))

    def tensor_of(self, name: str, dtype: str = "") -> Tensor:
        """The tensor that an argument describes: lengths, with a layout or strides."""
        rest = self.text(name).partition(",")[2]
        if rest[:1].isdigit():
            return self.tensor(self.numbers(name), dtype, strides=[int(s) for s in rest.split("x")])
        return self.tensor(self.numbers(name), dtype, layout=rest)

    def image(self, *, batch: str = "batchsize", channels: str = "in_channels") -> list[int]:
        """Lengths of the image that the usual flags describe; with a depth if there is one."""
        names = [batch, channels, *(["in_d"] if self.number("in_d") else []), "in_h", "in_w"]
        return [self.number(name) for name in names]


def pointers(values: Sequence[c_void_p]) -> ctypes.Array[c_void_p]:
    """A C array of pointers."""
    return (c_void_p * max(len(values), 1))(*values)
