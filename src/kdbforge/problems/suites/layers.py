"""What a suite is made of."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from kdbforge.model.problem import Convolution

__all__ = ["Layer", "Suite"]


@dataclass(frozen=True, slots=True)
class Layer:
    """One convolution of a network; `base` is its forward pass in fp32 for one image.

    The forward pass of a transposed convolution is MIOpen's direction `bwd`, since that is what
    PyTorch calls. `base.batch` is above 1 where one image makes several inputs (Mask R-CNN).
    """

    name: str
    base: Convolution

    def problem(self, *, dtype: str, direction: str, batch: int) -> Convolution:
        """Return the problem of one of the network's passes."""
        if self.base.direction == "bwd":
            direction = {"fwd": "bwd", "bwd": "fwd", "wrw": "wrw"}[direction]
        return replace(self.base, dtype=dtype, direction=direction, batch=batch * self.base.batch)

    @property
    def weights(self) -> int:
        """Number of weights, without bias."""
        base = self.base
        channels = base.in_channels // base.groups * base.out_channels
        return channels * math.prod(base.filter_size)

    @property
    def multiply_adds(self) -> int:
        """Multiply-adds of the forward pass of one image."""
        return self.base.batch * self.weights * math.prod(self.base.out_size)


@dataclass(frozen=True, slots=True)
class Suite:
    """The convolutions of one network or several, in the order of the forward pass."""

    name: str
    title: str
    source: str  # where the network is defined
    parameters: int | None  # of the whole network, as published
    includes: tuple[str, ...]  # names of the suites that it is made of, if it is
    read_layers: Callable[[], tuple[Layer, ...]] = field(repr=False, compare=False)
    batch: tuple[int, ...] = (1,)
    dtypes: tuple[str, ...] = ("fp32", "fp16")

    @property
    def layers(self) -> tuple[Layer, ...]:
        """All calls, also of a convolution that is called more than once."""
        return self.read_layers()

    @property
    def weights(self) -> int:
        """Number of weights; a convolution that is called more than once counts once."""
        return sum({layer.name: layer.weights for layer in self.layers}.values())

    @property
    def multiply_adds(self) -> int:
        return sum(layer.multiply_adds for layer in self.layers)
