"""What a suite is made of, and a tape on which a network's definition writes its layers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from kdbforge.model.problem import Convolution

__all__ = ["Layer", "Suite", "Tape"]


@dataclass(frozen=True, slots=True)
class Layer:
    """One square 2-D convolution of a network, for one image."""

    name: str
    in_channels: int
    out_channels: int
    in_size: int
    filter_size: int
    stride: int
    pad: int
    groups: int

    def problem(self, *, dtype: str, direction: str, batch: int) -> Convolution:
        """Return the layer's problem in NCHW."""
        return Convolution(
            dtype=dtype,
            direction=direction,
            layout="NCHW",
            batch=batch,
            in_channels=self.in_channels,
            out_channels=self.out_channels,
            in_size=(self.in_size,) * 2,
            filter_size=(self.filter_size,) * 2,
            pads=(self.pad,) * 2,
            strides=(self.stride,) * 2,
            dilations=(1, 1),
            groups=self.groups,
        )

    @property
    def out_size(self) -> int:
        return self.problem(dtype="fp32", direction="fwd", batch=1).out_size[0]

    @property
    def weights(self) -> int:
        """Number of weights, without bias."""
        return self.in_channels // self.groups * self.out_channels * self.filter_size**2

    @property
    def multiply_adds(self) -> int:
        """Multiply-adds of the forward pass of one image."""
        return self.weights * self.out_size**2


@dataclass(frozen=True, slots=True)
class Suite:
    """The convolutions of one network, in the order of its forward pass, with repeats."""

    name: str
    title: str
    source: str  # where the network is defined
    layers: tuple[Layer, ...]
    batch: tuple[int, ...] = (1,)
    dtypes: tuple[str, ...] = ("fp32", "fp16")

    @property
    def weights(self) -> int:
        return sum(layer.weights for layer in self.layers)

    @property
    def multiply_adds(self) -> int:
        return sum(layer.multiply_adds for layer in self.layers)


class Tape:
    """The tensor that runs through a network, and the convolutions that it has met."""

    def __init__(self, channels: int, size: int):
        self.channels = channels
        self.size = size
        self.layers: list[Layer] = []
        self._scope: list[str] = []

    @contextmanager
    def scope(self, name: str | int) -> Iterator[None]:
        """Put a name in front of those of the layers inside."""
        self._scope.append(str(name))
        yield
        self._scope.pop()

    def conv(
        self, name: str, out_channels: int, filter_size: int, *, stride: int = 1, groups: int = 1
    ) -> None:
        """Convolve the tensor, padded by half the (odd) filter as all these networks do."""
        layer = Layer(
            name=self._full_name(name),
            in_channels=self.channels,
            out_channels=out_channels,
            in_size=self.size,
            filter_size=filter_size,
            stride=stride,
            pad=filter_size // 2,
            groups=groups,
        )
        self.layers.append(layer)
        self.channels, self.size = out_channels, layer.out_size

    def side(
        self, name: str, in_channels: int, out_channels: int, *, in_size: int, stride: int = 1
    ) -> None:
        """Note a 1x1 convolution on a branch beside the main path."""
        self.layers.append(
            Layer(
                name=self._full_name(name),
                in_channels=in_channels,
                out_channels=out_channels,
                in_size=in_size,
                filter_size=1,
                stride=stride,
                pad=0,
                groups=1,
            )
        )

    def pool(self, window: int, *, stride: int = 2, pad: int = 0) -> None:
        self.size = (self.size + 2 * pad - window) // stride + 1

    def upsample(self) -> None:
        self.size *= 2

    def _full_name(self, name: str) -> str:
        return ".".join((*self._scope, name))
