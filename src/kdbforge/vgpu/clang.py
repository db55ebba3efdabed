"""How the clang that libMIOpen runs as a child process is started on any host.

Pure but for the script that `write_script` writes; what is run is `clang_guest.py`.
"""

from __future__ import annotations

import json
import shlex
from pathlib import Path

from kdbforge.errors import ToolchainError
from kdbforge.model.toolchain import Toolchain
from kdbforge.vgpu.launch import command

__all__ = ["GUEST", "clang_settings", "write_script"]

#: Run by the toolchain's Python, or loaded by a script that it runs.
GUEST = Path(__file__).with_name("clang_guest.py")


def clang_settings(toolchain: Toolchain) -> str:
    """Settings for `clang_guest.py`, a JSON object.

    Raises
    ------
    ToolchainError
        If the toolchain's libMIOpen compiles in the process.
    """
    if toolchain.clang is None:
        raise ToolchainError(f"Toolchain `{toolchain.name}` compiles without a child process")
    argv, environment = command(toolchain, GUEST, [])
    # Where clang looks for headers is the sysroot's business: the order of its folders counts.
    kept = {key: environment[key] for key in ("LC_ALL", "LD_LIBRARY_PATH") if key in environment}
    settings = {
        "launcher": argv[: argv.index(str(toolchain.python))],
        "clang": str(toolchain.clang),
        "options": [] if toolchain.sysroot is None else [f"--sysroot={toolchain.sysroot}"],
        "environment": kept,
    }
    return json.dumps(settings, sort_keys=True)


def write_script(toolchain: Toolchain, path: Path) -> None:
    """Write the program that compiles in place of what libMIOpen would run.

    Its arguments are FOLDER SOURCE PROGRAM ARGUMENT... (exec/modes.h).
    """
    argv, environment = command(toolchain, GUEST, [clang_settings(toolchain)])
    variables = [f"{key}={value}" for key, value in sorted(environment.items())]
    words = shlex.join(["env", "-i", *variables, *argv])
    # The temporary folder is the caller's.
    words = words.replace("env -i ", 'env -i TMPDIR="${TMPDIR:-/tmp}" ', 1)
    path.write_text(f'#!/bin/sh\nexec {words} "$@"\n', encoding="utf-8")
    path.chmod(0o755)
