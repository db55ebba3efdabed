"""Finds the compile jobs of keys that somebody else's database has.

A job comes from a plan, from asking libMIOpen about problems until the key appears, or by
analogy: from a job of the same kernel file, with the build options replaced by those of the key.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

from kdbforge.errors import InputError
from kdbforge.model.device import Gpu
from kdbforge.model.job import Action, Command, Job
from kdbforge.model.plan import Plan
from kdbforge.model.target import TargetId
from kdbforge.model.toolchain import Toolchain
from kdbforge.planner.counts import distinct_cu_counts
from kdbforge.vgpu.profiles import load_profiles, resolve

__all__ = ["Derivation", "Derived", "Key", "Way", "fitting_gpus", "job_target"]

#: kernel_name and kernel_args.
Key = tuple[str, str]
_TRIPLE = "amdgcn-amd-amdhsa--"
_MCPU = "-mcpu="


class Way(Enum):
    """How a job was found."""

    PLAN = "plan"
    LIBRARY = "library"  # libMIOpen asked for the key
    ANALOGY = "analogy"  # it did not; only an equal result shows that the job is the right one


@dataclass(frozen=True, slots=True)
class Derived:
    """The job of a key."""

    key: str  # of the job
    job: Job
    way: Way


class Derivation:
    """The keys of one target, and what is known of their jobs so far.

    A state machine: plans go in, jobs come out; it runs nothing.
    """

    def __init__(self, target: TargetId, keys: Iterable[Key], fingerprint: str):
        self.target = target
        self.open = set(keys)  # keys without a job
        self.found: dict[Key, Derived] = {}
        self.blobs: dict[str, bytes] = {}  # inputs of all jobs that are handed out
        self._fingerprint = fingerprint
        self._known: dict[str, tuple[str, Job]] = {}  # by kernel_name: args and job
        self._offered: set[Key] = set()

    def take(self, plan: Plan, way: Way) -> None:
        """Take the jobs of open keys from a plan of this toolchain; others only as models."""
        for record in (record for gpu in plan.gpus for record in gpu.records):
            job = plan.jobs[record.job]
            if job_target(job) != self.target:
                continue
            key = (record.kernel_name, record.kernel_args)
            is_new = record.kernel_name not in self._known
            if is_new:
                self._known[record.kernel_name] = (record.kernel_args, job)
            if key in self.open:
                self.open.remove(key)
                self.found[key] = Derived(record.job, job, way)
            elif not is_new:
                continue
            self.blobs.update((digest, plan.blobs[digest]) for digest in job.digests())

    def by_analogy(self) -> dict[Key, Derived]:
        """Jobs for open keys whose kernel file is known from another key, each offered once.

        The keys stay open.
        """
        found = {}
        for key in sorted(self.open - self._offered):
            kernel_name, kernel_args = key
            if kernel_name in self._known:
                self._offered.add(key)
                job = _with_options(*self._known[kernel_name], kernel_args)
                if job is not None:
                    found[key] = Derived(job.key(self._fingerprint), job, Way.ANALOGY)
        return found

    def settle(self, key: Key, derived: Derived) -> None:
        """The job of an open key has turned out to be right."""
        self.open.remove(key)
        self.found[key] = derived


def job_target(job: Job) -> TargetId | None:
    """The target ID that a job compiles for; None if it names none."""
    for action in reversed(job.actions):
        if isinstance(action, Command):
            return _command_target(action)
        if action.isa:
            known = action.isa.startswith(_TRIPLE)
            return TargetId.parse(action.isa.removeprefix(_TRIPLE)) if known else None
    return None


def _command_target(command: Command) -> TargetId | None:
    """The target of a run of clang: of HIP or of OpenCL (src/hip/hip_build_utils.cpp)."""
    for word in command.arguments:
        for option in ("--offload-arch=", "--cuda-gpu-arch=", _MCPU):
            if word.startswith(option):
                return TargetId.parse(word.removeprefix(option))
    return None


def _with_options(known_args: str, job: Job, wanted_args: str) -> Job | None:
    """The job with other build options; None where that cannot be done, or is not safe.

    libMIOpen puts a key's options, word by word, between options of its own. The wanted ones are
    a stranger's: they may define macros, and repeat what libMIOpen itself has asked for. Anything
    else could read files, or load code into the compiler.
    """
    known, wanted = _words(known_args), _words(wanted_args)
    if known is None or wanted is None or not known[0] or known[1] != wanted[1]:
        return None
    if any(not word.startswith(("-D", "-U")) and word not in known[0] for word in wanted[0]):
        return None
    if any(word in ("-D", "-U") for word in wanted[0]):
        return None
    if any(isinstance(action, Command) for action in job.actions):
        return None
    actions = tuple(
        _replaced(action, known[0], wanted[0])
        for action in job.actions
        if isinstance(action, Action)
    )
    if actions[0] is job.actions[0]:
        return None
    return dataclasses.replace(job, actions=actions)


def _words(kernel_args: str) -> tuple[list[str], str] | None:
    """Build options and the processor, which handlehip.cpp (LoadProgram) puts behind them."""
    *options, processor = kernel_args.split() or [""]
    if not processor.startswith(_MCPU) or any(char in kernel_args for char in "\"'\\`$"):
        return None
    return options, processor


def _replaced(action: Action, known: Sequence[str], wanted: Sequence[str]) -> Action:
    """The action with `wanted` in place of `known`; itself where that is not among its options."""
    options, size = action.options, len(known)
    for start in range(len(options) - size + 1):
        if list(options[start : start + size]) == list(known):
            joined = (*options[:start], *wanted, *options[start + size :])
            return dataclasses.replace(action, options=joined)
    return action


def fitting_gpus(
    toolchain: Toolchain, target: TargetId, basename: str, gpu: Gpu | None
) -> tuple[Gpu, ...]:
    """The GPUs that may have asked for the records of a file, for one target of its objects.

    They are `gpu` or, without it, that of the file's name; where that has no CU count, those CU
    counts of the architecture that make a difference to the library.

    Raises
    ------
    InputError
        If there is no device profile, or the processor has no such feature.
    """
    if target.arch not in load_profiles():
        raise InputError(f"There is no device profile for `{target.arch}`")
    named = gpu or _named(basename)
    if named is not None and named.target.arch == target.arch:
        return (resolve(f"{target}/{named.num_cu}"),)
    first = resolve(f"{target}/{load_profiles()[target.arch].num_cus[0]}")
    return tuple(distinct_cu_counts(toolchain, first))


def _named(basename: str) -> Gpu | None:
    """The GPU of a db basename; None where it names none, or no CU count."""
    if basename in load_profiles():
        return None
    try:
        return resolve(basename)
    except InputError:
        return None
