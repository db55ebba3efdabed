"""For which devices a database is looked up, by its name, and which code objects they load."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from kdbforge.codeobject.elf import Setting
from kdbforge.kdb.verify_report import Level
from kdbforge.model.target import TargetId

__all__ = ["Device", "device_of_name", "loading"]

# handle.hpp, GetDbBasename, and target_properties.cpp: DbId, then "_" and the CU count in decimal
# up to 64, or in hexadecimal and without "_" above.
_REST = re.compile(
    r"(?P<sramecc>_(?:no)?sramecc)?(?P<xnack>_xnack)?(?:_[1-9][0-9]?|[1-9a-f][0-9a-f]{1,2})?"
)


@dataclass(frozen=True, slots=True)
class Device:
    """The devices that look a database up.

    A file name tells of xnack whether it is on. Where `exact` is set, `target` is what one
    device reports, and a feature that it does not name fits neither setting.
    """

    target: TargetId
    exact: bool = False


def device_of_name(stem: str, archs: Iterable[str]) -> Device | None:
    """The devices that look for `stem` + `.kdb`; None where no known one does.

    `archs` are the architectures that are known.
    """
    for arch in sorted(archs, key=len, reverse=True):
        match = _REST.fullmatch(stem.removeprefix(arch)) if stem.startswith(arch) else None
        if match is not None:
            sramecc = {"_sramecc": True, "_nosramecc": False}.get(match["sramecc"] or "")
            return Device(TargetId(arch, sramecc, match["xnack"] is not None))
    return None


def loading(sramecc: Setting, xnack: Setting, device: Device) -> tuple[tuple[Level, str, str], ...]:
    """What keeps an object of these settings from loading: level, check, and in words."""
    found = []
    for name, setting, wanted in (
        ("sramecc", sramecc, device.target.sramecc),
        ("xnack", xnack, device.target.xnack),
    ):
        level = _level(setting, wanted, exact=device.exact)
        if level is not None:
            found.append((level, name, _words(name, setting, level, device)))
    return tuple(found)


def _level(setting: Setting, wanted: bool | None, *, exact: bool) -> Level | None:
    """How bad the setting is; None: it loads on all the devices."""
    if setting is Setting.ANY:
        return None
    if setting is Setting.UNSUPPORTED:
        # The name of a file says "xnack off" of processors without that feature, too.
        return Level.FATAL if wanted else None
    if (setting is Setting.ON) is wanted:
        # A device that names no feature looks for a file of the same name as one without it.
        return None if exact or wanted else Level.NOTE
    if wanted is None and not exact:
        return Level.SUSPICIOUS if setting is Setting.OFF else Level.NOTE
    return Level.FATAL


def _words(name: str, setting: Setting, level: Level, device: Device) -> str:
    is_set = f"{name} {setting.name.lower()}"
    if setting is Setting.UNSUPPORTED:
        return f"Its code object is for processors without {name}"
    if level is Level.FATAL:
        who = f"`{device.target}`" if device.exact else "a device that looks for this file"
        return f"Its code object needs {is_set}, and does not load on {who}"
    return f"Its code object needs {is_set}, which not every device that looks for this file has"
