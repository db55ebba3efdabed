"""The command line in a process of its own, with a toolchain's folder and a store that are empty."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Run `kdbforge` in `tmp_path`."""

    def run(*args: str | Path, **options: object) -> subprocess.CompletedProcess[str]:
        places = {"KDBFORGE_DATA": "data", "KDBFORGE_STORE": "store", "HOME": "home"}
        environment = {name: str(tmp_path / folder) for name, folder in places.items()}
        return subprocess.run(
            [sys.executable, "-m", "kdbforge", *map(str, args)],
            **{  # type: ignore[call-overload]
                "env": {**os.environ, **environment}, "cwd": tmp_path, "capture_output": True,
                "text": True, "check": False, "stdin": subprocess.DEVNULL, **options,
            },
        )  # fmt: skip

    return run
