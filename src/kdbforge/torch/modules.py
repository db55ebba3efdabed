"""The name of the module that is running, for the origins of problems."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import torch
from torch.nn.modules.module import (
    register_module_forward_hook,
    register_module_forward_pre_hook,
)

__all__ = ["ModuleNames"]


class ModuleNames:
    """Follows the modules whose forward pass runs, while it is entered."""

    def __init__(self, place: Callable[[], str]):
        self._place = place
        self._running: list[torch.nn.Module] = []
        self._names: dict[torch.nn.Module, str] = {}
        self._hooks: list[Any] = []

    def __enter__(self) -> Self:
        self._hooks = [
            register_module_forward_pre_hook(self._enter),
            register_module_forward_hook(self._leave, always_call=True),
        ]
        return self

    def __exit__(self, *_: object) -> None:
        for hook in self._hooks:
            hook.remove()

    def current(self) -> str:
        """Return `ResNet.layer1.0.conv1`, or `file:line` of what no module calls."""
        return self._names[self._running[-1]] if self._running else self._place()

    def _enter(self, module: torch.nn.Module, _inputs: Any) -> None:
        if not self._running:
            root = type(module).__name__
            for name, child in module.named_modules():
                self._names[child] = f"{root}.{name}" if name else root
        self._running.append(module)
        self._names.setdefault(module, type(module).__name__)

    def _leave(self, module: torch.nn.Module, _inputs: Any, _output: Any) -> None:
        if self._running and self._running[-1] is module:
            self._running.pop()
