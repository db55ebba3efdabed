"""Runs the command line in a process of its own, in places that are empty."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

__all__ = ["Command"]


class Command:
    """Runs `kdbforge` in a folder, with data, store and home in it."""

    def __init__(self, folder: Path):
        self._folder = folder

    def __call__(self, *args: str | Path) -> subprocess.CompletedProcess[str]:
        places = {"KDBFORGE_DATA": "data", "KDBFORGE_STORE": "store", "HOME": "home"}
        environment = {name: str(self._folder / folder) for name, folder in places.items()}
        return subprocess.run(
            [sys.executable, "-m", "kdbforge", *map(str, args)],
            env={**os.environ, **environment},
            cwd=self._folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
