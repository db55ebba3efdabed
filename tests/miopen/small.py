"""What the tests on the real library build: problems that compile within seconds."""

from __future__ import annotations

import subprocess
from collections.abc import Callable

__all__ = ["SMALL", "Run"]

#: Three problems that between them use HIP kernels, OpenCL kernels and GEMM helpers. On gfx906
#: they compile within seconds: 7 jobs under policy `normal`, 3 of these under `default`.
SMALL = """\
MIOpenDriver conv -n 1 -c 16 -H 14 -W 14 -k 16 -y 3 -x 3 -p 1 -q 1 -F 1
MIOpenDriver convfp16 -n 1 -c 16 -H 14 -W 14 -k 16 -y 3 -x 3 -p 1 -q 1 -u 2 -v 2 -F 2
MIOpenDriver conv -n 1 -c 16 -H 14 -W 14 -k 16 -y 3 -x 3 -p 1 -q 1 -F 4
"""

#: Type of the fixture `kdbforge`.
Run = Callable[..., "subprocess.CompletedProcess[str]"]
