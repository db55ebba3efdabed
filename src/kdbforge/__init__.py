"""Builds and proves MIOpen kernel databases for AMD GPUs that are not in the machine."""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kdbforge.api import (
        build,
        compile_jobs_of,
        find_gpu,
        find_toolchain,
        open_store,
        plan,
        prove,
        rebuild,
    )
    from kdbforge.build import BuildOptions, BuildReport, Observer
    from kdbforge.errors import KdbforgeError
    from kdbforge.model.device import Gpu
    from kdbforge.model.plan import Plan
    from kdbforge.model.policy import POLICIES, Policy
    from kdbforge.model.problem import Convolution, Operation, Problem
    from kdbforge.model.proof import Miss, Proof
    from kdbforge.model.toolchain import Toolchain
    from kdbforge.rebuild import RebuildObserver, RebuildOptions, RebuildReport, Rebuilt, Verdict
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
    "RebuildObserver",
    "RebuildOptions",
    "RebuildReport",
    "Rebuilt",
    "Session",
    "Toolchain",
    "Verdict",
    "__version__",
    "build",
    "compile_jobs_of",
    "find_gpu",
    "find_toolchain",
    "open_store",
    "plan",
    "prove",
    "rebuild",
]

#: Where each name is; a module is imported when the first of its names is asked for.
_HOMES = {
    "kdbforge.api": (
        "build", "compile_jobs_of", "find_gpu", "find_toolchain", "open_store", "plan", "prove",
        "rebuild",
    ),
    "kdbforge.build": ("BuildOptions", "BuildReport", "Observer"),
    "kdbforge.errors": ("KdbforgeError",),
    "kdbforge.model.device": ("Gpu",),
    "kdbforge.model.plan": ("Plan",),
    "kdbforge.model.policy": ("POLICIES", "Policy"),
    "kdbforge.model.problem": ("Convolution", "Operation", "Problem"),
    "kdbforge.model.proof": ("Miss", "Proof"),
    "kdbforge.model.toolchain": ("Toolchain",),
    "kdbforge.rebuild": (
        "RebuildObserver", "RebuildOptions", "RebuildReport", "Rebuilt", "Verdict",
    ),
    "kdbforge.session": ("Session",),
}  # fmt: skip


def __getattr__(name: str) -> Any:
    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(home), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


class _Package(ModuleType):
    """Keeps `build` and `rebuild` the functions, also once modules of these names are imported.

    Python sets a submodule as attribute of its package; here nothing comes of that.
    """

    @property
    def build(self) -> Any:
        return __getattr__("build")

    @build.setter
    def build(self, _: ModuleType) -> None:
        pass

    @property
    def rebuild(self) -> Any:
        return __getattr__("rebuild")

    @rebuild.setter
    def rebuild(self, _: ModuleType) -> None:
        pass


sys.modules[__name__].__class__ = _Package
