"""Problems of PyTorch programs: `script.py:callable`, recorded in a child process.

Nothing here imports PyTorch. The child is `python -m kdbforge.torch`.
"""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kdbforge.errors import HostError, InputError, UnsupportedError, WorkerError
from kdbforge.model.problem import Problem
from kdbforge.problems.driver import parse
from kdbforge.problems.line import shown

__all__ = ["is_script", "script_problems"]

_SOURCE = re.compile(r"(?P<path>.+\.py)(?::(?P<name>[^:]*))?", re.S)
#: How much of what the script wrote is looked at when it dies.
_TAIL_BYTES = 4096


def is_script(source: str) -> bool:
    """Tell whether a source names a Python script."""
    return _SOURCE.fullmatch(source) is not None


def script_problems(source: str, remarks: list[str]) -> Iterator[tuple[Problem, int, str]]:
    """Run the callable and yield its problems, how often they come, and the module that makes them.

    `remarks` gets a sentence on each kind of work that gives no problem.

    Raises
    ------
    HostError
        If PyTorch is not installed.
    InputError
        If there is no such script or callable, it raises (with `file:line`), or it makes no
        problem.
    WorkerError
        If the child dies.
    """
    match = _SOURCE.fullmatch(source)
    path, name = (match["path"], match["name"]) if match is not None else (source, None)
    if not Path(path).is_file():
        raise InputError(f"Cannot read `{shown(path)}`: there is no such file")
    if not name:
        raise InputError(
            f"`{shown(source)}` names no callable to record",
            hint=f"write `{shown(path)}:FUNCTION`, a function without arguments",
        )
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:  # none, or a folder that happens to have the name
        raise HostError(
            f"`{shown(source)}` needs PyTorch, which is not installed",
            hint="pip install 'kdbforge[torch]'",
        )
    report = _report(source, path, name)
    remarks += _remarks(source, report)
    unsupported: Counter[str] = Counter()
    found = False
    for line, origin, count in report["calls"]:
        try:
            problems = parse(line)
        except UnsupportedError:
            unsupported[line.split()[1]] += count
            continue
        for problem in problems:
            found = True
            yield problem, count, f"{source}:{origin}"
    remarks += [
        f"{source}: {count} calls of `{command}` are not supported yet"
        for command, count in sorted(unsupported.items())
    ]
    if not found:
        raise InputError(f"`{shown(source)}` makes no problem for MIOpen", context=tuple(remarks))


def _report(source: str, path: str, name: str) -> dict[str, Any]:
    # -P: what lies in the working folder must not stand in for a library. -u: what the script
    # printed is not lost if it dies.
    command = [sys.executable, "-P", "-u", "-m", "kdbforge.torch", path, name]
    with tempfile.TemporaryFile() as errors:
        child = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, check=False
        )
        try:
            report = json.loads(child.stdout)
        except ValueError:
            raise WorkerError(
                f"The child that ran `{shown(source)}` died with code {child.returncode}",
                context=_tail(errors),
            ) from None
        if "error" in report:
            raise InputError(
                report["error"], context=(source, *report["context"]), hint=report["hint"]
            )
    return dict(report)


def _tail(file: Any) -> tuple[str, ...]:
    end = file.seek(0, 2)
    file.seek(max(end - _TAIL_BYTES, 0))
    return tuple(shown(line) for line in file.read().decode(errors="replace").splitlines()[-20:])


def _remarks(source: str, report: dict[str, Any]) -> list[str]:
    remarks = [
        f"{source}: {count} x {what} by PyTorch itself"
        for what, count in sorted(report["native"].items())
    ]
    if report["benchmark"]:
        remarks.append(
            f"{source}: it sets torch.backends.cudnn.benchmark, which `--policy normal` covers"
        )
    return remarks
