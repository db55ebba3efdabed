"""The modes under which a PyTorch program is recorded: nothing computes, every operation is seen.

All tensors are PyTorch's fake tensors on the CPU, since a build without CUDA cannot differentiate
fake ones on a GPU; devices and autocast that name a GPU are led there. Below autograd, the
operations are the same on both.
"""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import torch
from torch._subclasses import fake_tensor
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.overrides import TorchFunctionMode
from torch.utils._device import _device_constructors
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only

from kdbforge.errors import UnsupportedError
from kdbforge.torch.modules import ModuleNames
from kdbforge.torch.operations import Watcher
from kdbforge.torch.packing import FUNCTIONS, pack, unpack
from kdbforge.torch.recording import Recording
from kdbforge.torch.recurrent import MODES

__all__ = ["recording"]

_GPU = re.compile(r"(cuda|hip)(:\d+)?")
_VALUE_NEEDED = (
    fake_tensor.DataDependentOutputException,
    fake_tensor.DynamicOutputShapeException,
)
#: Operations that make a tensor of a value in the program, which is known.
_LIFTS = (
    torch.ops.aten.lift.default,
    torch.ops.aten.lift_fresh.default,
    torch.ops.aten.lift_fresh_copy.default,
)
_OWN_FOLDERS = (str(Path(torch.__file__).parent), str(Path(__file__).parent))


@contextmanager
def recording(nhwc: bool | None) -> Iterator[Recording]:
    """Record inside; see `kdbforge.torch.record`."""
    result = Recording()
    fake = FakeTensorMode(allow_non_fake_inputs=True)
    with ExitStack() as stack:
        stack.enter_context(_patched(torch.utils, "swap_tensors", _forgetting(fake)))
        stack.enter_context(_patched(torch.autocast, "__init__", _autocast_on_cpu()))
        stack.enter_context(_patched(torch.nn.init, "_no_grad_trunc_normal_", _untouched))
        # Values that stand in the program, such as lengths of sequences, are known; not only one.
        stack.enter_context(_patched(fake_tensor, "CONSTANT_NUMEL_LIMIT", lambda _: 4096))
        names = stack.enter_context(ModuleNames(_place))
        watcher = Watcher(result, names.current, nhwc)
        stack.enter_context(fake)
        stack.enter_context(_Operations(watcher, fake))
        stack.enter_context(_OnCpu(watcher))
        try:
            yield result
        except _VALUE_NEEDED as error:
            raise UnsupportedError(
                f"The program reads a value, and nothing is computed: `{error.func}`",
                context=(_place(),) if error.__traceback__ is None else _places(error),
                hint="record a step without `.item()`, printing, or choices that depend on values",
            ) from error


class _Operations(TorchDispatchMode):  # type: ignore[misc, unused-ignore]
    """Shows each operation below autograd to the watcher."""

    def __init__(self, watcher: Watcher, fake: FakeTensorMode):
        super().__init__()
        self._watcher = watcher
        self._fake = fake

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if func.namespace == "aten" and func._can_decompose():
            # In inference mode, operations made of others come here whole.
            with self:
                result = func.decompose(*args, **kwargs)
            if result is not NotImplemented:
                return result
        self._watcher.see(func, args, kwargs)
        if func not in _LIFTS:
            # PyTorch would compute what has real tensors only, such as a batch norm's counter.
            args, kwargs = tree_map_only(torch.Tensor, self._without_data, (args, kwargs))
        return func(*args, **kwargs)

    def _without_data(self, tensor: torch.Tensor) -> torch.Tensor:
        return tensor if isinstance(tensor, FakeTensor) else self._fake.from_tensor(tensor)


class _OnCpu(TorchFunctionMode):  # type: ignore[misc, unused-ignore]
    """Leads tensors that ask for a GPU to the CPU, and shows recurrent layers to the watcher."""

    def __init__(self, watcher: Watcher):
        super().__init__()
        self._watcher = watcher
        self._constructors = _device_constructors()

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = {name: _on_cpu(value) for name, value in (kwargs or {}).items()}
        if func is torch.Tensor.cuda:
            return args[0]
        if func in self._constructors and kwargs.get("device") is None:
            kwargs["device"] = torch.device("cpu")  # before a default device can put in a GPU
        args = tuple(_on_cpu(value) for value in args)
        result = self._replaced(getattr(func, "__name__", ""), args, kwargs)
        return func(*args, **kwargs) if result is NotImplemented else result

    def _replaced(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return what stands in for a function, or NotImplemented."""
        if name in MODES:
            return self._watcher.recurrent(name, args, kwargs)
        if name in FUNCTIONS and not kwargs:
            return (pack if name == FUNCTIONS[0] else unpack)(*args)
        return NotImplemented


def _on_cpu(value: Any) -> Any:
    if isinstance(value, torch.device) and _GPU.fullmatch(value.type):
        return torch.device("cpu")
    if isinstance(value, str) and _GPU.fullmatch(value):
        return "cpu"
    return value


@contextmanager
def _patched(owner: Any, name: str, make: Callable[[Any], Any]) -> Iterator[None]:
    original = getattr(owner, name)
    setattr(owner, name, make(original))
    try:
        yield
    finally:
        setattr(owner, name, original)


def _untouched(_original: Any) -> Any:
    """Skip an initialisation that draws again until the values suit it."""
    return lambda tensor, *_args, **_options: tensor


def _forgetting(fake: FakeTensorMode) -> Callable[[Any], Any]:
    """Let `Module.to` swap fake parameters, which it refuses while the mode remembers them."""

    def make(original: Any) -> Any:
        def swap_tensors(first: Any, second: Any) -> None:
            fake.fake_tensor_converter.meta_converter.tensor_memo.clear()
            original(first, second)

        return swap_tensors

    return make


def _autocast_on_cpu() -> Callable[[Any], Any]:
    """Let autocast for a GPU, which a build without CUDA turns off, act on the tensors here.

    Convolutions, matrix products and recurrent layers are cast on both devices alike.
    """

    def make(original: Any) -> Any:
        def init(
            self: Any,
            device_type: str,
            dtype: Any = None,
            enabled: bool = True,
            cache_enabled: bool | None = None,
        ) -> None:
            if device_type == "cuda":
                dtype = torch.get_autocast_dtype("cuda") if dtype is None else dtype
                device_type = "cpu"
            original(self, device_type, dtype, enabled, cache_enabled)

        return init

    return make


def _place() -> str:
    """Return `file:line` of the user's innermost frame."""
    for frame, line in traceback.walk_stack(None):
        if not frame.f_code.co_filename.startswith((*_OWN_FOLDERS, "<")):
            return f"{frame.f_code.co_filename}:{line}"
    return "?"


def _places(error: BaseException) -> tuple[str, ...]:
    frames = traceback.extract_tb(error.__traceback__)
    own = [f for f in frames if not f.filename.startswith((*_OWN_FOLDERS, "<"))]
    return tuple(f"{frame.filename}:{frame.lineno}" for frame in own[-1:])
