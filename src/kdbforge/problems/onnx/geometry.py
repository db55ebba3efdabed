"""Windows, strides and pads of convolutions and pooling, as a node's attributes give them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kdbforge.errors import InputError, UnsupportedError
from kdbforge.problems.onnx.site import Site

__all__ = ["Window", "integer", "number", "text", "total_pads", "window_of"]

_AUTO = ("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER")


@dataclass(frozen=True, slots=True)
class Window:
    """How a filter slides, by spatial axis."""

    size: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    begins: tuple[int, ...]  # pads before and behind
    ends: tuple[int, ...]

    @property
    def symmetric(self) -> bool:
        return self.begins == self.ends

    @property
    def spans(self) -> tuple[int, ...]:
        """What the filter covers of the input."""
        return tuple(d * (f - 1) + 1 for d, f in zip(self.dilations, self.size, strict=True))


def window_of(site: Site, size: Sequence[int], in_size: Sequence[int]) -> Window:
    """Read strides, dilations and pads; `auto_pad` is resolved for this input.

    Raises
    ------
    InputError
        If there are not as many numbers as axes, or they are out of range.
    UnsupportedError
        If there are more than three spatial axes.
    """
    axes = len(in_size)
    if not 1 <= axes <= 3:
        raise UnsupportedError(f"MIOpen has no windows over {axes} spatial axes")
    strides = _integers(site, "strides", [1] * axes)
    dilations = _integers(site, "dilations", [1] * axes)
    if min(*strides, *dilations, *size) < 1:
        raise InputError("a stride, dilation or window is below 1")
    mode = text(site, "auto_pad", "NOTSET") or "NOTSET"
    if mode not in _AUTO:
        raise InputError(f"`{mode}` of `auto_pad` is not one of {', '.join(_AUTO)}")
    if mode == "NOTSET":
        pads = _integers(site, "pads", [0] * (2 * axes))
        if min(pads) < 0:
            raise UnsupportedError("MIOpen has no negative pads")
        return Window(tuple(size), strides, dilations, pads[:axes], pads[axes:])
    plain = Window(tuple(size), strides, dilations, (0,) * axes, (0,) * axes)
    if mode == "VALID":
        return plain
    totals = total_pads(plain, in_size)
    small = tuple(total // 2 for total in totals)
    large = tuple(total - total // 2 for total in totals)
    begins, ends = (small, large) if mode == "SAME_UPPER" else (large, small)
    return Window(plain.size, strides, dilations, begins, ends)


def total_pads(window: Window, in_size: Sequence[int]) -> tuple[int, ...]:
    """Pads in all that make the output `in_size / stride`, rounded up (`auto_pad` SAME)."""
    axes = zip(in_size, window.strides, window.spans, strict=True)
    return tuple(max((-(-size // step) - 1) * step + span - size, 0) for size, step, span in axes)


def _integers(site: Site, name: str, default: list[int]) -> tuple[int, ...]:
    given = list(site.attributes[name].ints) if name in site.attributes else []
    values = tuple(given or default)
    if len(values) != len(default):
        raise InputError(f"`{name}` has {len(values)} numbers, not {len(default)}")
    return values


def integer(site: Site, name: str, default: int) -> int:
    return int(_given(site, name, "i", default))


def number(site: Site, name: str, default: float) -> float:
    return float(_given(site, name, "f", default))


def text(site: Site, name: str, default: str) -> str:
    if name not in site.attributes:
        return default
    return bytes(site.attributes[name].s).decode(errors="replace")


def _given(site: Site, name: str, field: str, default: Any) -> Any:
    attribute = site.attributes.get(name)
    return getattr(attribute, field) if attribute is not None else default
