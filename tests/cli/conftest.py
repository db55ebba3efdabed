"""The command line as a fixture."""

from __future__ import annotations

from pathlib import Path

import pytest
from running import Command


@pytest.fixture
def run(tmp_path: Path) -> Command:
    return Command(tmp_path)
