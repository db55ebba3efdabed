"""Which convolutions PyTorch's ROCm build gives to MIOpen, and as which problems.

As in PyTorch 2.13: aten/src/ATen/native/Convolution.cpp (use_miopen, _select_conv_backend),
native/ConvUtils.h (miopen_conv_suggest_memory_format) and native/miopen/Conv_miopen.cpp.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["COMMANDS", "Convolution", "expanded"]

#: MIOpenDriver's commands by PyTorch's data types; double and complex never reach MIOpen.
COMMANDS = {"float32": "conv", "float16": "convfp16", "bfloat16": "convbfp16"}
#: `MIOPEN_DIM_MAX`, batch and channels included.
_MAX_DIMS = 5
_INT_MAX = 2**31 - 1
#: Directions as MIOpenDriver's --forw has them.
_FWD, _BWD, _WRW = 1, 2, 4
_FLAGS = {  # by number of spatial dimensions
    2: (("-H", "-W"), ("-y", "-x"), ("-p", "-q"), ("-u", "-v"), ("-l", "-j")),
    3: (
        ("--in_d", "-H", "-W"),
        ("--fil_d", "-y", "-x"),
        ("--pad_d", "-p", "-q"),
        ("--conv_stride_d", "-u", "-v"),
        ("--dilation_d", "-l", "-j"),
    ),
}


@dataclass(frozen=True, slots=True)
class Convolution:
    """The arguments of one `aten::convolution`, by shape."""

    dtype: str  # PyTorch's name, `float32`
    input: tuple[int, ...]  # N, C, then the spatial lengths
    weight: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    transposed: bool
    output_padding: tuple[int, ...]
    groups: int
    channels_last: bool  # as input or filter suggest, where the build allows it
    enabled: bool = True  # torch.backends.cudnn.enabled

    @property
    def native_reason(self) -> str | None:
        """Why this never reaches MIOpen; None if it does."""
        sizes = math.prod(self.input), math.prod(self.output)
        reasons = (
            (not self.enabled, "torch.backends.cudnn.enabled is False"),
            (self.dtype not in COMMANDS, f"MIOpen is not asked for {self.dtype}"),
            (len(self.input) > _MAX_DIMS, f"more than {_MAX_DIMS - 2} spatial dimensions"),
            (self.groups > 1 and any(d != 1 for d in self.dilation), "groups with dilation"),
            (0 in sizes, "an empty tensor"),
            # PyTorch splits the batch then, by a rule that has changed between versions.
            (max(sizes) > _INT_MAX, "a tensor of 2^31 elements or more, which PyTorch splits"),
        )
        return next((reason for applies, reason in reasons if applies), None)

    @property
    def output(self) -> tuple[int, ...]:
        """Lengths of the output: N, C, then the spatial ones."""
        spatial = zip(
            self.input[2:], self.weight[2:], self.stride, self.padding, self.dilation, strict=True
        )
        if self.transposed:
            channels = self.weight[1] * self.groups
            lengths = [
                (size - 1) * step - 2 * pad + dil * (fil - 1) + 1 + extra
                for (size, fil, step, pad, dil), extra in zip(
                    spatial, self.output_padding, strict=True
                )
            ]
        else:
            channels = self.weight[0]
            lengths = [
                (size + 2 * pad - dil * (fil - 1) - 1) // step + 1
                for size, fil, step, pad, dil in spatial
            ]
        return (self.input[0], channels, *lengths)

    def forward(self) -> str:
        """Return the driver line of the forward pass."""
        return self._line(_BWD if self.transposed else _FWD)

    def backward(self, wants_input: bool, wants_weight: bool) -> list[str]:
        """Return the driver lines of the backward pass; the bias is summed outside MIOpen."""
        lines = []
        if wants_input:
            lines.append(self._line(_FWD if self.transposed else _BWD))
        if wants_weight:
            lines.append(self._line(_WRW))
        return lines

    def _line(self, direction: int) -> str:
        # MIOpen's transposed mode is never used: a transposed convolution is the backward data
        # pass of the convolution that it transposes (miopen_convolution_transpose_forward).
        x, y = (self.output, self.input) if self.transposed else (self.input, self.output)
        sizes = [x[2:], self.weight[2:], self.padding, self.stride, self.dilation]
        if len(x) == 3:  # a 1-D convolution is one of height 1 (view1d_as_2d)
            sizes = [
                (neutral, *values) for neutral, values in zip((1, 1, 0, 1, 1), sizes, strict=True)
            ]
        dims = len(sizes[0])
        words: list[object] = ["MIOpenDriver", COMMANDS[self.dtype]]
        words += ["-n", x[0], "-c", x[1], "-k", y[1]]
        for flags, values in zip(_FLAGS[dims], sizes, strict=True):
            for flag, value in zip(flags, values, strict=True):
                words += [flag, value]
        if dims == 3:
            words += ["--spatial_dim", 3]
        if self.channels_last and len(x) > 3:
            layout = "NHWC" if dims == 2 else "NDHWC"
            words += ["--in_layout", layout, "--fil_layout", layout, "--out_layout", layout]
        words += ["-m", "conv", "-g", self.groups, "-F", direction]
        return " ".join(str(word) for word in words)


def expanded(values: Sequence[int], dims: int) -> tuple[int, ...]:
    """Repeat a single value for all axes, as PyTorch does."""
    return tuple(values) * dims if len(values) == 1 else tuple(values)
