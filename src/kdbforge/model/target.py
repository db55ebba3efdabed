"""Target IDs: the name of an AMD GPU architecture with its feature settings."""

from __future__ import annotations

import re
from dataclasses import dataclass

from kdbforge.errors import InputError

__all__ = ["TargetId"]

_TARGET = re.compile(r"(?P<arch>gfx[0-9a-f]{3,5})(?P<features>(?::[a-z]+[+-])*)")


@dataclass(frozen=True, slots=True, order=True)
class TargetId:
    """An LLVM target ID such as `gfx90a:sramecc+:xnack-` (LLVM AMDGPU usage guide).

    A feature that is None is not named: code for it loads under either setting.
    """

    arch: str
    sramecc: bool | None = None
    xnack: bool | None = None

    @classmethod
    def parse(cls, text: str) -> TargetId:
        """Read a target ID; features may stand in any order.

        Raises
        ------
        InputError
            If the text is no target ID, or names a feature twice or one that is not known.
        """
        match = _TARGET.fullmatch(text)
        if match is None:
            raise InputError(
                f"`{text}` is not a target ID", hint="write it like `gfx90a:sramecc+:xnack-`"
            )
        features: dict[str, bool] = {}
        for word in match["features"].split(":")[1:]:
            name, setting = word[:-1], word[-1] == "+"
            if name not in ("sramecc", "xnack") or name in features:
                raise InputError(f"Unknown or repeated feature `{word}` in target ID `{text}`")
            features[name] = setting
        return cls(match["arch"], features.get("sramecc"), features.get("xnack"))

    def __str__(self) -> str:
        parts = [self.arch]
        for name, setting in (("sramecc", self.sramecc), ("xnack", self.xnack)):
            if setting is not None:
                parts.append(f"{name}{'+' if setting else '-'}")
        return ":".join(parts)
