"""How a program is started on a toolchain's libraries: arguments and environment.

Pure: nothing is started here, and nothing of the caller's environment gets in.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from kdbforge.errors import HostError
from kdbforge.model.toolchain import Toolchain

__all__ = ["command", "compiler_environment", "program_command"]


def command(
    toolchain: Toolchain,
    script: Path,
    args: Sequence[str],
    *,
    preload: Sequence[Path] = (),
    extra_library_path: Sequence[Path] = (),
) -> tuple[list[str], dict[str, str]]:
    """Argument list and whole environment that run `script` under the toolchain's Python.

    Parameters
    ----------
    preload
        Libraries that are loaded before all others.
    extra_library_path
        Folders that are searched before the toolchain's own.

    Raises
    ------
    HostError
        If a folder's name has a character that the dynamic loader takes for a separator.
    """
    # -s, -P, -B: no packages of the user, none beside the script, and no .pyc written there.
    python = [str(toolchain.python), "-s", "-P", "-B", str(script), *args]
    argv, environment = program_command(
        toolchain, python, preload=preload, extra_library_path=extra_library_path
    )
    return argv, {**_environment(toolchain), **environment}


def program_command(
    toolchain: Toolchain,
    argv: Sequence[str],
    *,
    preload: Sequence[Path] = (),
    extra_library_path: Sequence[Path] = (),
    by_host: bool = False,
) -> tuple[list[str], dict[str, str]]:
    """Argument list that runs any program on the toolchain's libraries, and what it must see.

    Parameters
    ----------
    by_host
        The host's loader starts the program, although the toolchain has one of its own; then
        none of the toolchain's libraries, made for another C library, may be in its way.

    Raises
    ------
    HostError
        As `command`.
    """
    own = () if by_host and toolchain.loader is not None else toolchain.library_path
    library_path = _join((*extra_library_path, *own), ":;")
    preloaded = _join(preload, ": ")
    if by_host or toolchain.loader is None:
        environment = {}
        if library_path:
            environment["LD_LIBRARY_PATH"] = library_path
        if preloaded:
            environment["LD_PRELOAD"] = preloaded
        return list(argv), environment
    # The host's /etc/ld.so.cache names libraries of another libc.
    loader = [str(toolchain.loader), "--inhibit-cache", "--library-path", library_path]
    if preloaded:
        loader += ["--preload", preloaded]
    return [*loader, *argv], {}


def compiler_environment(toolchain: Toolchain) -> dict[str, str]:
    """Where the compiler finds the headers that kernels include."""
    environment = {}
    if toolchain.include_path:
        environment["CPATH"] = _join(toolchain.include_path, ":")
    if toolchain.cxx_include_path:
        # The C headers stand behind the C++ ones as well: libstdc++'s <cmath> and its like
        # reach for them by #include_next, and clang keeps the later of two equal folders.
        folders = (*toolchain.cxx_include_path, *toolchain.include_path)
        environment["CPLUS_INCLUDE_PATH"] = _join(folders, ":")
    return environment


def _environment(toolchain: Toolchain) -> dict[str, str]:
    environment = {"LC_ALL": "C"}
    if toolchain.python_home is not None:
        environment["PYTHONHOME"] = str(toolchain.python_home)
    return {**environment, **compiler_environment(toolchain)}


def _join(paths: Sequence[Path], forbidden: str) -> str:
    for path in paths:
        if any(character in str(path) for character in forbidden):
            raise HostError(
                f"The dynamic loader and the compiler cannot use the path `{path}`",
                hint="use folders whose names have no space, colon or semicolon",
            )
    return ":".join(str(path) for path in paths)
