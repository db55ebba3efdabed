"""The child process that runs a user's script and reports what was recorded: FILE CALLABLE.

The report is one JSON object on standard output; what the script prints goes to standard error.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kdbforge.errors import InputError, KdbforgeError
from kdbforge.torch import Recording, record

__all__ = ["main", "report_of"]


def main(arguments: list[str]) -> int:
    """Record what a callable of a script does; returns the exit code."""
    report = os.dup(1)
    os.dup2(2, 1)
    result = report_of(Path(arguments[0]), arguments[1])
    with os.fdopen(report, "w", encoding="utf-8") as out:
        json.dump(result, out)
    return 0


def report_of(path: Path, name: str) -> dict[str, Any]:
    """Return what was recorded of the callable, or what went wrong, as JSON can hold it."""
    try:
        return _report(_run(path, name))
    except KdbforgeError as error:
        return {"error": error.message, "context": error.context, "hint": error.hint}
    except (Exception, SystemExit) as error:  # noqa: BLE001  the script can raise anything
        return {"error": _told(error), "context": _places(error, path), "hint": None}


def _run(path: Path, name: str) -> Recording:
    sys.argv = [str(path)]
    sys.path.insert(0, str(path.resolve().parent))
    with record() as recording:
        function = _function(_module(path), path, name)
        recording.calls.clear()  # of what the script does when it is imported
        recording.native.clear()
        step = function()
        if callable(step):
            _refuse_module(step, name)
            step()
    return recording


def _module(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise InputError(f"`{path}` is not a Python script")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def _function(module: Any, path: Path, name: str) -> Callable[[], Any]:
    value = module
    for part in name.split("."):
        value = getattr(value, part, None)
    if not callable(value):
        what = "has no" if value is None else "cannot call"
        functions = sorted(n for n, v in vars(module).items() if _is_function_of(v, module))
        known = ", ".join(f"`{n}`" for n in functions[:8])
        raise InputError(f"`{path}` {what} `{name}`", hint=f"it has {known}" if known else None)
    _refuse_module(value, name)
    return value  # type: ignore[no-any-return]


def _is_function_of(value: Any, module: Any) -> bool:
    return callable(value) and getattr(value, "__module__", None) == module.__name__


def _refuse_module(value: Any, name: str) -> None:
    import torch  # noqa: PLC0415

    if isinstance(value, torch.nn.Module):
        raise InputError(
            f"`{name}` gives a module, whose inputs are not known",
            hint=f"let `{name}` return a function without arguments that calls the module",
        )


def _report(recording: Recording) -> dict[str, Any]:
    counts = Counter(call.line for call in recording.calls)
    origins = {call.line: call.origin for call in reversed(recording.calls)}
    return {
        "calls": [[line, origins[line], counts[line]] for line in recording.lines],
        "native": dict(recording.native),
        "benchmark": recording.benchmark,
    }


def _told(error: BaseException) -> str:
    if isinstance(error, SystemExit):
        return f"The script ended itself with {error.code!r}"
    first = str(error).strip().splitlines()[:1]
    return f"The script raised {type(error).__name__}" + (f": {first[0]}" if first else "")


def _places(error: BaseException, path: Path) -> list[str]:
    """Return where in the script, and where outside of it, the error came up."""
    if isinstance(error, SyntaxError) and error.filename:
        return [f"{error.filename}:{error.lineno}"]
    frames = traceback.extract_tb(error.__traceback__)
    script = [f for f in frames if Path(f.filename).resolve() == path.resolve()]
    places = [f"{path}:{f.lineno}: {f.line}" for f in script[-1:]]
    if frames and (not script or frames[-1] is not script[-1]):
        places.append(f"{frames[-1].filename}:{frames[-1].lineno}")
    return places


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
