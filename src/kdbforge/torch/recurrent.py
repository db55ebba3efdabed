"""Recurrent layers as PyTorch's ROCm build gives them to MIOpen.

As in aten/src/ATen/native/RNN.cpp (use_miopen) and native/miopen/RNN_miopen.cpp; the driver lines
as MIOpen logs them (src/rnn_api.cpp, LogCmdRNN).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from kdbforge.torch.packing import known_values

__all__ = ["MODES", "Recurrent", "run"]

#: MIOpenDriver's modes by PyTorch's functions.
MODES = {"lstm": "lstm", "gru": "gru", "rnn_tanh": "tanh", "rnn_relu": "relu"}
_COMMANDS = {"float32": "rnn", "float16": "rnnfp16"}


@dataclass(frozen=True, slots=True)
class Recurrent:
    """The arguments of one call of a recurrent layer."""

    mode: str  # of MODES
    data: Any  # the input
    hidden: tuple[Any, ...]  # hx, and cx of an LSTM
    params: tuple[Any, ...]
    batches: tuple[int, ...]  # of each step; one value if it does not change
    steps: int
    bias: bool
    layers: int
    dropout: float
    train: bool
    bidirectional: bool
    enabled: bool  # torch.backends.cudnn.enabled

    @classmethod
    def of(cls, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Recurrent | None:
        """Read the arguments of `torch.lstm` and its siblings; None if they are not understood."""
        if kwargs or len(args) != 9:
            return None
        packed = isinstance(args[1], torch.Tensor) and isinstance(args[3], (list, tuple))
        if packed:
            data, sizes, hidden, params, bias, layers, dropout, train, both = args
            values = known_values(sizes)
            if values is None:
                return None
            batches, steps = values, len(values)
            batches = batches if len(set(batches)) > 1 else batches[:1]
        else:
            data, hidden, params, bias, layers, dropout, train, both, batch_first = args
            steps, batch = data.shape[:2][:: -1 if batch_first else 1]
            batches = (batch,)
        return cls(
            mode=MODES[name],
            data=data,
            hidden=tuple(hidden) if isinstance(hidden, (list, tuple)) else (hidden,),
            params=tuple(params),
            batches=batches,
            steps=steps,
            bias=bias,
            layers=layers,
            dropout=dropout,
            train=train,
            bidirectional=both,
            enabled=torch.backends.cudnn.enabled,
        )

    @property
    def native_reason(self) -> str | None:
        """Why this never reaches MIOpen; None if it does."""
        dtype = _name(self.data)
        kinds = {_name(t) for t in (*self.hidden, *self.params)}
        per_layer = (4 if self.bias else 2) * self.layers * (2 if self.bidirectional else 1)
        reasons = (
            (not self.enabled, "torch.backends.cudnn.enabled is False"),
            (dtype not in _COMMANDS, f"MIOpen is not asked for {dtype}"),
            (kinds != {dtype}, f"{dtype} with parameters of {', '.join(sorted(kinds))}"),
            (len(self.params) != per_layer, "projections"),
            (self.data.numel() == 0, "an empty tensor"),
        )
        return next((reason for applies, reason in reasons if applies), None)

    def forward(self) -> str:
        """Return the driver line of the forward pass."""
        return self._line(f"-c {0 if self.train else 1} -F 1")

    def backward(self) -> list[str]:
        """Return the driver lines of the backward pass: always that of the data comes first."""
        weights = any(param.requires_grad for param in self.params)
        return [self._line("-F 2"), *([self._line("-F 4")] if weights else [])]

    def _line(self, flags: str) -> str:
        dropout = f" -U 1 -P {self.dropout}" if self.dropout else ""
        return (
            f"MIOpenDriver {_COMMANDS[_name(self.data)]} -n {','.join(map(str, self.batches))} "
            f"-W {self.data.shape[-1]} -H {self.hidden[0].shape[-1]} -l {self.layers} "
            f"-b {int(self.bias)} -m {self.mode} -p 0 -r {int(self.bidirectional)} -q 0 "
            f"-k {self.steps} {flags}{dropout}"
        )


def run(call: Recurrent, backward: Callable[[], None]) -> tuple[Any, ...]:
    """Return tensors as the layer does, and call `backward` when they are differentiated."""
    width = call.hidden[0].shape[-1] * (2 if call.bidirectional else 1)
    shape = (*call.data.shape[:-1], width)
    outputs: tuple[Any, ...] = _Layer.apply(
        backward, shape, len(call.hidden), call.data, *call.hidden, *call.params
    )
    return outputs


class _Layer(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, backward: Any, shape: Any, states: int, *tensors: Any) -> Any:
        ctx.backward_pass = backward
        ctx.save_for_backward(*tensors)
        return (
            tensors[0].new_empty(shape),
            *(torch.empty_like(hidden) for hidden in tensors[1 : 1 + states]),
        )

    @staticmethod
    def backward(ctx: Any, *_gradients: Any) -> Any:
        ctx.backward_pass()
        gradients = [
            torch.empty_like(tensor) if wanted else None
            for tensor, wanted in zip(ctx.saved_tensors, ctx.needs_input_grad[3:], strict=True)
        ]
        return (None, None, None, *gradients)


def _name(tensor: Any) -> str:
    return str(tensor.dtype).removeprefix("torch.")
