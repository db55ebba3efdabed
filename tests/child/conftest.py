"""A real libMIOpen that runs clang as a child process; `make test-child` has fetched it."""

from __future__ import annotations

import os

import pytest

from kdbforge import Toolchain, find_toolchain

#: Three problems that between them use HIP and OpenCL kernels and GEMM helpers.
PROBLEMS = """\
MIOpenDriver conv -n 1 -c 16 -H 14 -W 14 -k 16 -y 3 -x 3 -p 1 -q 1 -F 1
MIOpenDriver conv -n 1 -c 16 -H 14 -W 14 -k 16 -y 3 -x 3 -p 1 -q 1 -u 2 -v 2 -F 2
MIOpenDriver conv -n 1 -c 16 -H 14 -W 14 -k 16 -y 3 -x 3 -p 1 -q 1 -F 4
"""


@pytest.fixture(scope="session")
def toolchain() -> Toolchain:
    if "KDBFORGE_DATA" not in os.environ:
        pytest.fail("KDBFORGE_DATA is not set: run these tests by `make test-child`")
    found = find_toolchain()
    assert found.clang is not None, "not a toolchain that runs its compiler as a child process"
    return found


@pytest.fixture(scope="session")
def problem_text() -> str:
    return PROBLEMS
