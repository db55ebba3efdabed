"""A real toolchain for the tests that need one; `make test` has fetched it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from kdbforge import Toolchain, find_toolchain

#: Three problems that between them use HIP kernels, OpenCL kernels and GEMM helpers. On gfx906
#: they compile within seconds: 7 jobs under policy `normal`, 3 of these under `default`.
SMALL = """\
MIOpenDriver conv -n 1 -c 16 -H 14 -W 14 -k 16 -y 3 -x 3 -p 1 -q 1 -F 1
MIOpenDriver convfp16 -n 1 -c 16 -H 14 -W 14 -k 16 -y 3 -x 3 -p 1 -q 1 -u 2 -v 2 -F 2
MIOpenDriver conv -n 1 -c 16 -H 14 -W 14 -k 16 -y 3 -x 3 -p 1 -q 1 -F 4
"""

Run = Callable[..., "subprocess.CompletedProcess[str]"]


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
