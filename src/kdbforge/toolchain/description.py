"""`toolchain.json`: what is known of one toolchain, kept beside it.

Relative paths in it are relative to its own folder, so that the folder can be moved.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from kdbforge.errors import ToolchainError
from kdbforge.files import write_whole
from kdbforge.model.toolchain import Toolchain

__all__ = ["FILE_NAME", "Description", "LibraryFile", "load", "save"]

FILE_NAME = "toolchain.json"
_FORMAT = 1
_PATHS = ("libmiopen", "loader", "python", "python_home", "system_db", "clang", "sysroot")
#: Fields that are younger than the format, with what they are where a file lacks them.
_YOUNGER = {"clang": None, "sysroot": None}
_PATH_LISTS = ("library_path", "include_path", "cxx_include_path")
_NAME_LISTS = ("sonames",)


@dataclass(frozen=True, slots=True)
class LibraryFile:
    """One library that must be there, as it was when the toolchain was probed."""

    soname: str
    path: Path
    size: int
    build_id: str
    sha256: str


@dataclass(frozen=True, slots=True)
class Description:
    """A toolchain with its libraries and, when it was fetched, where it came from."""

    toolchain: Toolchain
    libraries: tuple[LibraryFile, ...]
    source: Mapping[str, Any] = field(default_factory=dict)  # mirror, suites, packages
    folder: Path | None = None  # where its `toolchain.json` lies; None: probed just now


def save(description: Description, folder: Path) -> None:
    """Write `folder/toolchain.json` whole; paths below `folder` become relative.

    Raises
    ------
    HostError
        If the folder cannot be written.
    """
    base = folder.absolute()
    document = {
        "format": _FORMAT,
        "toolchain": _encode(description.toolchain, base),
        "libraries": [
            {
                "soname": lib.soname,
                "path": _relative(lib.path, base),
                "size": lib.size,
                "build_id": lib.build_id,
                "sha256": lib.sha256,
            }
            for lib in description.libraries
        ],
        "source": dict(description.source),
    }
    text = json.dumps(document, indent=1, sort_keys=True) + "\n"
    with write_whole(folder / FILE_NAME) as out:
        out.write(text.encode())


def load(folder: Path, *, name: str | None = None) -> Description:
    """Read `folder/toolchain.json`; nothing that it names is looked at.

    Raises
    ------
    ToolchainError
        If the file is missing, damaged, or of a newer format.
    """
    path = folder / FILE_NAME
    try:
        document = json.loads(path.read_bytes())
    except OSError as error:
        raise ToolchainError(f"Cannot read `{path}`: {error.strerror}") from error
    except ValueError as error:
        raise ToolchainError(f"`{path}` is damaged", context=[str(error)]) from error
    try:
        if document["format"] != _FORMAT:
            raise ToolchainError(f"`{path}` has format {document['format']}, not {_FORMAT}")
        toolchain = _decode(document["toolchain"], folder.absolute(), name)
        libraries = tuple(_decode_library(o, folder.absolute()) for o in document["libraries"])
        source = document["source"]
        if not isinstance(source, dict):
            raise TypeError("`source` is no object")
    except (KeyError, TypeError, AttributeError) as error:
        raise ToolchainError(f"`{path}` is damaged", context=[repr(error)]) from error
    return Description(toolchain, libraries, source, folder.absolute())


def _relative(path: Path, base: Path) -> str:
    return path.relative_to(base).as_posix() if path.is_relative_to(base) else str(path)


def _encode(toolchain: Toolchain, base: Path) -> dict[str, Any]:
    values: dict[str, Any] = {f.name: getattr(toolchain, f.name) for f in fields(Toolchain)}
    for key in _PATHS:
        values[key] = None if values[key] is None else _relative(values[key], base)
    for key in _PATH_LISTS:
        values[key] = [_relative(path, base) for path in values[key]]
    for key in _NAME_LISTS:
        values[key] = list(values[key])
    if toolchain.loader is None:
        values["python"] = None  # whichever Python runs kdbforge then
    return values


def _decode(values: Mapping[str, Any], base: Path, name: str | None) -> Toolchain:
    given = {**_YOUNGER, **values}
    if set(given) != {f.name for f in fields(Toolchain)}:
        raise KeyError(f"`toolchain` has other fields than expected: {sorted(given)}")
    join: Callable[[str], Path] = lambda text: base / text  # noqa: E731
    for key in _PATHS:
        given[key] = None if given[key] is None else join(given[key])
    for key in _PATH_LISTS:
        given[key] = tuple(join(text) for text in given[key])
    for key in _NAME_LISTS:
        given[key] = tuple(given[key])
    if given["python"] is None:
        given["python"] = Path(sys.executable)
    if name is not None:
        given["name"] = name
    return Toolchain(**given)


def _decode_library(values: Mapping[str, Any], base: Path) -> LibraryFile:
    return LibraryFile(
        str(values["soname"]),
        base / values["path"],
        int(values["size"]),
        str(values["build_id"]),
        str(values["sha256"]),
    )
