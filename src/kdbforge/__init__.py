"""Builds and proves MIOpen kernel databases for AMD GPUs that are not in the machine."""

from kdbforge.api import (
    build,
    compile_jobs_of,
    find_gpu,
    find_toolchain,
    open_store,
    plan,
    prove,
)
from kdbforge.build import BuildOptions, BuildReport, Observer
from kdbforge.errors import KdbforgeError
from kdbforge.model.device import Gpu
from kdbforge.model.plan import Plan
from kdbforge.model.policy import POLICIES, Policy
from kdbforge.model.problem import Convolution, Operation, Problem
from kdbforge.model.proof import Miss, Proof
from kdbforge.model.toolchain import Toolchain
from kdbforge.session import Session

__version__ = "0.1.0"

__all__ = [
    "POLICIES",
    "BuildOptions",
    "BuildReport",
    "Convolution",
    "Gpu",
    "KdbforgeError",
    "Miss",
    "Observer",
    "Operation",
    "Plan",
    "Policy",
    "Problem",
    "Proof",
    "Session",
    "Toolchain",
    "__version__",
    "build",
    "compile_jobs_of",
    "find_gpu",
    "find_toolchain",
    "open_store",
    "plan",
    "prove",
]
