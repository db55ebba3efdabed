"""The flow as functions that take names as well as objects; what `import kdbforge` offers.

from kdbforge import build
report = build(["suite:resnet50"], ["gfx1030_40"], "out", toolchain="debian-7.2.4")
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

from kdbforge.build import (
    BuildOptions,
    BuildReport,
    Observer,
    build_databases,
    compile_plan,
    work_folder,
)
from kdbforge.compiler.pool import CompileReport
from kdbforge.errors import HostError, InputError, ToolchainError
from kdbforge.model.device import Gpu
from kdbforge.model.plan import Plan
from kdbforge.model.policy import Policy, find_policy
from kdbforge.model.proof import Proof
from kdbforge.model.toolchain import Toolchain
from kdbforge.planner.plan import make_plan
from kdbforge.problems import SUITES, ProblemList, load
from kdbforge.problems.suites import PREFIX
from kdbforge.prover.prove import prove_kdbs
from kdbforge.rebuild import RebuildObserver, RebuildOptions, RebuildReport, rebuild_database
from kdbforge.store.store import Store
from kdbforge.toolchain import registry
from kdbforge.vgpu.profiles import resolve

__all__ = [
    "build",
    "compile_jobs_of",
    "find_gpu",
    "find_gpus",
    "find_toolchain",
    "open_store",
    "plan",
    "prove",
    "rebuild",
]


def find_toolchain(name: str | Path | None = None, *, data_dir: Path | None = None) -> Toolchain:
    """A toolchain by name, or by the path of a fetched folder or an installed prefix.

    None means the only one that is registered.

    Raises
    ------
    ToolchainError
        If there is none of that name, or it is damaged.
    """
    return registry.find(None if name is None else str(name), data_dir)


def find_gpu(name: str) -> Gpu:
    """A GPU by db basename, product name, or target ID with a CU count.

    Raises
    ------
    UnknownNameError
        If no GPU is known by that name.
    """
    return resolve(name)


def find_gpus(names: Sequence[str | Gpu]) -> tuple[Gpu, ...]:
    """GPUs by name, each once.

    Raises
    ------
    InputError
        If there is none, or a name is not known.
    """
    gpus = [name if isinstance(name, Gpu) else resolve(name) for name in names]
    if not gpus:
        raise InputError("No GPU was named", hint="`kdbforge gpu list` shows the known ones")
    return tuple({str(gpu): gpu for gpu in reversed(gpus)}.values())[::-1]


def open_store(path: Path | str | None = None, *, max_gb: float | None = None) -> Store:
    """The store in that folder; None: $KDBFORGE_STORE, or a folder in the user's cache.

    Beyond `max_gb` gigabytes, what was not used for longest goes; None: no limit.

    Raises
    ------
    HostError
        If no folder is given and none follows from the environment.
    """
    if path is None:
        path = os.environ.get("KDBFORGE_STORE")
    if path is None and (cache := os.environ.get("XDG_CACHE_HOME")):
        path = Path(cache) / "kdbforge"
    if path is None and (home := os.environ.get("HOME")):
        path = Path(home) / ".cache" / "kdbforge"
    if path is None:
        raise HostError(
            "There is no folder for the store: neither KDBFORGE_STORE nor HOME is set",
            hint="give one with `--store DIR`",
        )
    return Store(Path(path), None if max_gb is None else int(max_gb * 1e9))


def plan(
    sources: Sequence[str] | ProblemList,
    gpus: Sequence[str | Gpu],
    *,
    toolchain: Toolchain | str | Path | None = None,
    policy: str | Policy = "default",
    workers: int | None = None,
    work_dir: Path | str | None = None,
    observer: Observer | None = None,
) -> Plan:
    """Find out what MIOpen would compile; nothing is compiled.

    Parameters
    ----------
    sources
        Files of MIOpenDriver lines or MIOpen logs, `suite:NAME`, or problems already loaded.
    policy
        Its name, or e.g. `POLICIES["normal"].with_variables({"MIOPEN_DEBUG_CONV_FFT": "0"})`.
    work_dir
        Where temporary files go, removed again; None: TMPDIR, else /tmp.

    Raises
    ------
    KdbforgeError
        If a source, GPU or toolchain cannot be used.
    """
    problems, used = _load(sources), _policy(policy)
    with work_folder(_temporary(work_dir)) as work:
        return make_plan(
            _toolchain(toolchain),
            find_gpus(gpus),
            problems.problems,
            used,
            work,
            workers=workers or BuildOptions(used).workers,
            progress=(observer or Observer()).planning,
        )


def compile_jobs_of(
    plan: Plan,
    *,
    toolchain: Toolchain | str | Path | None = None,
    store: Store | str | Path | None = None,
    options: BuildOptions | None = None,
    observer: Observer | None = None,
) -> CompileReport:
    """Compile what the store lacks of a plan's jobs.

    Raises
    ------
    ToolchainError
        If the plan was made with another toolchain.
    KdbforgeError
        If the store or the work folder cannot be used.
    """
    used = _toolchain(toolchain)
    _check_plan(plan, used)
    options = options or BuildOptions(find_policy(plan.policy))
    with work_folder(_temporary(options.work_dir)) as work:
        return compile_plan(used, plan, _store(store), work, options, observer or Observer())


def build(
    sources: Sequence[str] | ProblemList,
    gpus: Sequence[str | Gpu],
    output: Path | str,
    *,
    toolchain: Toolchain | str | Path | None = None,
    store: Store | str | Path | None = None,
    options: BuildOptions | None = None,
    observer: Observer | None = None,
) -> BuildReport:
    """Plan, compile, assemble and prove databases for every GPU into the folder `output`.

    Raises
    ------
    KdbforgeError
        If an input, the toolchain or a folder cannot be used; nothing is half-written.
    """
    return build_databases(
        _toolchain(toolchain),
        find_gpus(gpus),
        _load(sources),
        _store(store),
        Path(output),
        options or BuildOptions(find_policy("default")),
        observer,
    )


def prove(
    kdbs: Sequence[Path | str],
    sources: Sequence[str] | ProblemList,
    gpus: Sequence[str | Gpu],
    *,
    toolchain: Toolchain | str | Path | None = None,
    policy: str | Policy = "default",
    work_dir: Path | str | None = None,
) -> tuple[Proof, ...]:
    """Replay the problems on each GPU with these databases installed and no compiler.

    Raises
    ------
    KdbforgeError
        If a database, source, GPU or toolchain cannot be used.
    """
    problems = _load(sources)
    with work_folder(_temporary(work_dir)) as work:
        return tuple(
            prove_kdbs(
                _toolchain(toolchain), gpu, [Path(kdb) for kdb in kdbs], problems.problems,
                _policy(policy), work,
            )
            for gpu in find_gpus(gpus)
        )  # fmt: skip


def rebuild(
    kdb: Path | str,
    sources: Sequence[str] | ProblemList | None = None,
    *,
    plans: Sequence[Plan] = (),
    toolchain: Toolchain | str | Path | None = None,
    store: Store | str | Path | None = None,
    options: RebuildOptions | None = None,
    work_dir: Path | str | None = None,
    observer: RebuildObserver | None = None,
) -> RebuildReport:
    """Compile the key of every record of a database again, and compare what comes out.

    Parameters
    ----------
    sources
        Problems that may ask for the keys, as for `plan`; None: all suites.
    plans
        Plans of your own with the same toolchain; their jobs are used first, and believed.

    Raises
    ------
    ToolchainError
        If a plan was made with another toolchain.
    KdbforgeError
        If the database, a source or the toolchain cannot be used.
    """
    used = _toolchain(toolchain)
    for plan in plans:
        _check_plan(plan, used)
    problems = _load([f"{PREFIX}{name}" for name in SUITES] if sources is None else sources)
    with work_folder(_temporary(work_dir)) as work:
        return rebuild_database(
            used, Path(kdb), problems.problems, plans, _store(store), work,
            options or RebuildOptions(), observer,
        )  # fmt: skip


def _check_plan(plan: Plan, used: Toolchain) -> None:
    if used.fingerprint != plan.toolchain.fingerprint:
        raise ToolchainError(
            f"The plan was made with another toolchain: `{plan.toolchain.name}`",
            context=(
                f"plan:      {plan.toolchain.fingerprint}",
                f"toolchain: {used.fingerprint} (`{used.name}`)",
            ),
            hint="compile with the same toolchain, or plan again",
        )


def _load(sources: Sequence[str] | ProblemList) -> ProblemList:
    return sources if isinstance(sources, ProblemList) else load(sources)


def _toolchain(toolchain: Toolchain | str | Path | None) -> Toolchain:
    return toolchain if isinstance(toolchain, Toolchain) else find_toolchain(toolchain)


def _policy(policy: str | Policy) -> Policy:
    return policy if isinstance(policy, Policy) else find_policy(policy)


def _store(store: Store | str | Path | None) -> Store:
    return store if isinstance(store, Store) else open_store(store)


def _temporary(work_dir: Path | str | None) -> Path:
    return Path(tempfile.gettempdir() if work_dir is None else work_dir)
