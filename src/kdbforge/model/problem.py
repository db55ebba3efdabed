"""Problems: one direction of one convolution, or one operation of another primitive."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["DIRECTIONS", "DTYPES", "LAYOUTS", "Convolution", "Operation", "Problem"]

DTYPES = ("fp32", "fp16", "bf16", "int8")
DIRECTIONS = ("fwd", "bwd", "wrw")
#: Tensor layouts by number of spatial dimensions.
LAYOUTS = {2: ("NCHW", "NHWC"), 3: ("NCDHW", "NDHWC")}


@dataclass(frozen=True, slots=True, order=True)
class Convolution:
    """A convolution problem; sizes are (height, width) or (depth, height, width).

    `in_channels` and `in_size` describe the input of the forward pass, whatever the direction.
    The output size is not stored: MIOpen computes it.
    """

    dtype: str  # of DTYPES
    direction: str  # of DIRECTIONS
    layout: str  # of LAYOUTS
    batch: int
    in_channels: int
    out_channels: int
    in_size: tuple[int, ...]
    filter_size: tuple[int, ...]
    pads: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    groups: int = 1
    transposed: bool = False
    output_pads: tuple[int, ...] = ()  # of a transposed convolution; empty: all zero

    @property
    def spatial_dims(self) -> int:
        return len(self.in_size)

    @property
    def out_size(self) -> tuple[int, ...]:
        """Size of the forward pass's output; an axis below 1 means that the filter does not fit.

        As MIOpen computes it (src/convolution.cpp, GetForwardOutputTensorWithLayout), but for
        its habit of raising such an axis to 1.
        """
        spans = [1 + d * (f - 1) for d, f in zip(self.dilations, self.filter_size, strict=True)]
        axes = zip(self.in_size, spans, self.pads, self.strides, strict=True)
        if not self.transposed:
            return tuple((size + 2 * pad - span) // step + 1 for size, span, pad, step in axes)
        extra = self.output_pads or (0,) * self.spatial_dims
        return tuple(
            step * (size - 1) + span - 2 * pad + more
            for (size, span, pad, step), more in zip(axes, extra, strict=True)
        )


@dataclass(frozen=True, slots=True, order=True)
class Operation:
    """A problem of any other primitive, in the words of a MIOpenDriver command.

    It has one direction where the primitive has several: the flag `forw` (of `bnorm` also
    `back`) is among the arguments and names just one.
    """

    primitive: str  # MIOpenDriver's command without the suffix of its dtype
    dtype: str  # of DTYPES, `fp64` or `fp8`
    arguments: tuple[
        tuple[str, str], ...
    ]  # long flag and value, for each that tells problems apart


Problem = Convolution | Operation
