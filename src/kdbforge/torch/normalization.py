"""Which batch normalisations PyTorch's ROCm build gives to MIOpen, and as which problems.

As in aten/src/ATen/native/Normalization.cpp (_select_batch_norm_backend) and
native/miopen/BatchNorm_miopen.cpp, with MIOpen 3.4 or newer. Flags: driver/bn_driver.hpp.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["BatchNorm"]

#: MIOpenDriver's commands by the types of the tensor and of scale, bias, mean and variance.
_COMMANDS = {
    ("float32", "float32"): "bnorm",
    ("float16", "float32"): "bnormfp16",
    ("bfloat16", "float32"): "bnormbfp16",
}


@dataclass(frozen=True, slots=True)
class BatchNorm:
    """The arguments of one batch normalisation, by shape."""

    dtype: str  # PyTorch's name
    scale_dtype: str | None  # None: without scale or bias
    input: tuple[int, ...]
    training: bool
    running: bool  # running mean and variance are there
    channels_last: bool
    nhwc: bool  # whether the build hands such tensors to MIOpen
    enabled: bool  # torch.backends.cudnn.enabled

    @property
    def native_reason(self) -> str | None:
        """Why this never reaches MIOpen; None if it does."""
        reasons = (
            (not self.enabled, "torch.backends.cudnn.enabled is False"),
            (self.scale_dtype is None, "no scale and bias"),
            (
                (self.dtype, self.scale_dtype) not in _COMMANDS,
                f"{self.dtype} with parameters of {self.scale_dtype}",
            ),
            (not 3 <= len(self.input) <= 5, f"{len(self.input)} dimensions"),
            (not self.running and not self.training, "no running statistics"),
            (self.channels_last and not self.nhwc, "channels_last"),
            (0 in self.input, "an empty tensor"),
        )
        return next((reason for applies, reason in reasons if applies), None)

    def forward(self) -> str:
        """Return the driver line of the forward pass."""
        if not self.training:
            return self._line("--forw 2 -b 0 -r 1")
        return self._line("--forw 1 -b 0 -s 1" + (" -r 1" if self.running else ""))

    def backward(self) -> str:
        """Return the driver line of the backward pass of training."""
        return self._line("--forw 0 -b 1 -s 1")

    def _line(self, flags: str) -> str:
        sizes = self.input[2:]
        if len(sizes) == 1:
            sizes = (*sizes, 1)  # the descriptor has four lengths at least, filled up at the end
        names = ("-D", "-H", "-W")[-len(sizes) :]
        words = [f"{name} {size}" for name, size in zip(names, sizes, strict=True)]
        layout = {2: "NHWC", 3: "NDHWC"}[len(sizes)] if self.channels_last else ""
        return " ".join(
            [
                f"MIOpenDriver {_COMMANDS[self.dtype, self.scale_dtype or '']}",
                f"-n {self.input[0]} -c {self.input[1]}",
                *words,
                f"-m 1 {flags}",
                *([f"--layout {layout}"] if layout else []),
            ]
        )
