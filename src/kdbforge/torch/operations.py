"""Looks at each operation of a PyTorch program and notes those that MIOpen would be asked for."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch._prims_common import suggest_memory_format

from kdbforge.torch.convolution import Convolution, expanded
from kdbforge.torch.normalization import BatchNorm
from kdbforge.torch.recording import Call, Recording
from kdbforge.torch.recurrent import Recurrent, run

__all__ = ["Watcher"]

#: What MIOpen also has, and PyTorch does not ask it for (aten/src/ATen/native/cuda and /hip).
_NATIVE = {
    "pooling": ("max_pool", "avg_pool", "fractional_max_pool"),
    "activation": (
        "relu", "leaky_relu", "elu", "gelu", "silu", "hardtanh", "hardswish", "hardsigmoid",
        "softplus", "sigmoid", "tanh", "prelu", "glu",
    ),
    "softmax": ("_softmax", "_log_softmax"),
    "layer normalisation": ("native_layer_norm", "_fused_rms_norm"),
    "group normalisation": ("native_group_norm",),
    "dropout": ("native_dropout", "bernoulli"),
    "CTC loss": ("_ctc_loss",),
}  # fmt: skip
_OVER_STRIDES = (torch.channels_last, torch.channels_last_3d)


class Watcher:
    """Notes calls of MIOpen in a recording."""

    def __init__(self, recording: Recording, origin: Callable[[], str], nhwc: bool | None):
        self._recording = recording
        self._origin = origin
        self._nhwc = nhwc
        self._origins: dict[object, str] = {}  # of forward passes, for their backward passes
        self._handlers: Mapping[str, Callable[..., None]] = {
            "aten::convolution": self._convolution,
            "aten::convolution_backward": self._convolution_backward,
            "aten::native_batch_norm": self._batch_norm,
            "aten::_native_batch_norm_legit": self._batch_norm,
            "aten::_native_batch_norm_legit_no_training": self._batch_norm,
            "aten::native_batch_norm_backward": self._batch_norm_backward,
        }

    def see(self, func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """Note an operation if it is one of MIOpen's, or one that MIOpen might be asked for."""
        name = func._schema.name
        handler = self._handlers.get(name)
        if handler is not None:
            handler(**_named(func, args, kwargs))
            return
        plain = name.removeprefix("aten::").removesuffix("_")
        for kind, starts in _NATIVE.items():
            if plain.removesuffix("_backward").startswith(starts):
                self._recording.native[f"{kind} (`{plain}`)"] += 1
                return

    def _convolution(self, **arguments: Any) -> None:
        call = self._call(arguments)
        origin = self._origin()
        self._origins.setdefault(call, origin)
        if not self._refused(call, "convolution"):
            self._note([call.forward()], origin)

    def _convolution_backward(self, **arguments: Any) -> None:
        call = self._call(arguments)
        origin = self._origins.get(call) or self._origin()
        if not self._refused(call, "convolution"):
            wanted = arguments["output_mask"]
            self._note(call.backward(wanted[0], wanted[1]), origin)

    def recurrent(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Note a recurrent layer and stand in for it; NotImplemented if it is not MIOpen's."""
        call = Recurrent.of(name, args, kwargs)
        if call is None or self._refused(call, f"recurrent layer `{name}`"):
            return NotImplemented
        origin = self._origin()
        self._note([call.forward()], origin)
        return run(call, lambda: self._note(call.backward(), origin))

    def _batch_norm(self, **arguments: Any) -> None:
        call = self._norm(arguments, arguments.get("training", False))
        origin = self._origin()
        self._origins.setdefault(call, origin)
        if not self._refused(call, "batch normalisation"):
            self._note([call.forward()], origin)

    def _batch_norm_backward(self, **arguments: Any) -> None:
        call = self._norm(arguments, arguments["train"])
        origin = self._origins.get(call) or self._origin()
        if not call.training:
            self._recording.native["batch normalisation: backward without training"] += 1
        elif not self._refused(call, "batch normalisation"):
            self._note([call.backward()], origin)

    def _norm(self, arguments: Mapping[str, Any], training: bool) -> BatchNorm:
        tensor, scale = arguments["input"], arguments["weight"]
        return BatchNorm(
            dtype=str(tensor.dtype).removeprefix("torch."),
            scale_dtype=None if scale is None else str(scale.dtype).removeprefix("torch."),
            input=tuple(tensor.shape),
            training=training,
            running=arguments.get("running_mean") is not None,
            channels_last=_is_channels_last(tensor),
            nhwc=self._allows_nhwc("PYTORCH_MIOPEN_SUGGEST_NHWC_BATCHNORM"),
            enabled=torch.backends.cudnn.enabled,
        )

    def _refused(self, call: Convolution | BatchNorm | Recurrent, what: str) -> bool:
        reason = call.native_reason
        if reason is not None:
            self._recording.native[f"{what}: {reason}"] += 1
        return reason is not None

    def _call(self, arguments: Mapping[str, Any]) -> Convolution:
        tensor, weight = arguments["input"], arguments["weight"]
        dims = tensor.dim() - 2
        nhwc = self._allows_nhwc("PYTORCH_MIOPEN_SUGGEST_NHWC")
        return Convolution(
            dtype=str(tensor.dtype).removeprefix("torch."),
            input=tuple(tensor.shape),
            weight=tuple(weight.shape),
            stride=expanded(arguments["stride"], dims),
            padding=expanded(arguments["padding"], dims),
            dilation=expanded(arguments["dilation"], dims),
            transposed=arguments["transposed"],
            output_padding=expanded(arguments["output_padding"], dims),
            groups=arguments["groups"],
            channels_last=nhwc and (_is_channels_last(tensor) or _is_channels_last(weight)),
            enabled=torch.backends.cudnn.enabled,
        )

    def _allows_nhwc(self, variable: str) -> bool:
        return os.environ.get(variable) == "1" if self._nhwc is None else self._nhwc

    def _note(self, lines: list[str], origin: str) -> None:
        self._recording.benchmark |= torch.backends.cudnn.benchmark
        self._recording.calls += [Call(line, origin) for line in lines]


def _is_channels_last(tensor: Any) -> bool:
    return suggest_memory_format(tensor) in _OVER_STRIDES


def _named(func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Return all arguments by name, with their defaults."""
    arguments = func._schema.arguments
    named = {a.name: a.default_value for a in arguments if a.has_default_value()}
    named.update((a.name, value) for a, value in zip(arguments, args, strict=False))
    named.update(kwargs)
    return named
