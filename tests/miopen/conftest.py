"""A real toolchain for the tests that need one; `make test` has fetched it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from small import SMALL, Run

from kdbforge import Toolchain, find_toolchain


@pytest.fixture(scope="session")
def toolchain() -> Toolchain:
    if "KDBFORGE_DATA" not in os.environ:
        pytest.fail("KDBFORGE_DATA is not set: run these tests by `make test`")
    return find_toolchain()


@pytest.fixture(scope="session")
def shared_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One store for all tests to which it does not matter who has compiled a job."""
    folder = tmp_path_factory.getbasetemp()
    # A worker of pytest-xdist has a folder of its own within that of the session.
    return (folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder) / "shared-store"


@pytest.fixture
def small(tmp_path: Path) -> Path:
    path = tmp_path / "small.txt"
    path.write_text(SMALL)
    return path


@pytest.fixture
def kdbforge(tmp_path: Path) -> Run:
    """Run the command line in a process of its own, with a store of its own."""

    def run(*args: str | Path, **options: object) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "KDBFORGE_STORE": str(tmp_path / "store")}
        return subprocess.run(
            [sys.executable, "-m", "kdbforge", *map(str, args)],
            check=False,
            **{  # type: ignore[call-overload]
                "env": environment, "capture_output": True, "text": True,
                "stdin": subprocess.DEVNULL, **options,
            },
        )  # fmt: skip

    return run
