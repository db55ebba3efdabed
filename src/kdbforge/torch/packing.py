"""Packed sequences whose lengths are known, which PyTorch's fake tensors alone cannot make."""

from __future__ import annotations

from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import _disable_current_modes

__all__ = ["FUNCTIONS", "known_values", "pack", "unpack"]

#: PyTorch's names of what `pack` and `unpack` stand in for.
FUNCTIONS = ("_pack_padded_sequence", "_pad_packed_sequence")


def known_values(tensor: torch.Tensor) -> tuple[int, ...] | None:
    """Return the values of a tensor that the program made of a list; None if they are unknown."""
    constant = tensor.constant if isinstance(tensor, FakeTensor) else tensor
    if constant is None:
        return None
    with _disable_current_modes():
        return tuple(constant.tolist())


def pack(padded: torch.Tensor, lengths: torch.Tensor, batch_first: bool) -> Any:
    """Return data and batch of each step, as `torch._pack_padded_sequence` does."""
    values = known_values(lengths)
    if values is None or padded.dim() < 2:
        return NotImplemented
    batches = [sum(length > step for length in values) for step in range(max(values))]
    rows = padded.transpose(0, 1) if batch_first else padded
    return rows.flatten(0, 1)[: sum(values)], torch.tensor(batches)


def unpack(
    data: torch.Tensor,
    batch_sizes: torch.Tensor,
    batch_first: bool,
    _padding_value: float,
    total_length: int,
) -> Any:
    """Return the padded sequence and the lengths, as `torch._pad_packed_sequence` does."""
    batches = known_values(batch_sizes)
    if batches is None:
        return NotImplemented
    steps, batch = max(len(batches), total_length), batches[0]
    missing = data.new_empty((steps * batch - sum(batches), *data.shape[1:]))
    padded = torch.cat([data, missing]).unflatten(0, (steps, batch))
    lengths = [sum(size > index for size in batches) for index in range(batch)]
    return padded.transpose(0, 1) if batch_first else padded, torch.tensor(lengths)
