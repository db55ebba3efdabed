"""Writes docs/coverage.md: what of each libMIOpen kdbforge can be asked for, and what compiles.

Everything in it comes from runs of the real libraries and the real compiler; only the reasons why
a kernel file is out of reach are known from MIOpen's sources.
"""

from __future__ import annotations

import argparse
import dataclasses
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from kdbforge import (
    BuildOptions,
    Plan,
    Toolchain,
    compile_jobs_of,
    find_toolchain,
    open_store,
    plan,
)
from kdbforge.files import write_whole
from kdbforge.model.policy import Policy, find_policy
from kdbforge.model.problem import Convolution, Problem
from kdbforge.problems.primitives import PRIMITIVES

GPUS = ("gfx906_60", "gfx90a_104", "gfx1030_36", "gfx1100_48", "gfx1201_32")
#: NORMAL without the find-db, and every solution of immediate mode.
POLICY = find_policy("all")
_EMBEDDED = re.compile(rb"(?<=\0)[A-Za-z0-9_]+\.(?:cl|cpp)(?=\0)")
_NO_CALLER = "nothing in MIOpen names it"
_TESTS = "only in MIOpen's own tests"
_NO_SUCH_REDUCTION = "MIOpen never pairs these two (reducetensor.cpp, ReductionKernelConfigurator)"
_REDUCTION = "gridwise_generic_reduction_"
#: Why no problem asks for a kernel file: by the start of its name, from MIOpen's sources.
REASONS = (
    ("MIOpenBatchNormActivInferHIP", _TESTS),
    ("MIOpenConvBwdWrW_LxG_5x5", _NO_CALLER),
    ("MIOpenUtilKernels5", _TESTS),
    ("MIOpenVecAdd", _TESTS),
    ("fp8_naive_conv", "MIOpen loads it for kernels under names that it does not have"),
    ("general_tensor_reorder", "only in MIOpen's tests and with removed assembly kernels"),
    ("batched_transpose", "only with removed assembly kernels and absent CK ones"),
    ("wrw_reduction_hip", "only with removed assembly kernels"),
    ("convolution_forward_implicit_gemm_v4r4_", _NO_CALLER),
    (f"{_REDUCTION}first_call_threadwise_reduce_all_dims", _NO_SUCH_REDUCTION),
    (f"{_REDUCTION}first_call_warpwise_reduce_all_dims", _NO_SUCH_REDUCTION),
    (f"{_REDUCTION}second_call_blockwise_reduce_partial_dims", _NO_SUCH_REDUCTION),
    (f"static_kernel_{_REDUCTION[:-1]}", _NO_CALLER),
)
_BWD = "MIOPEN_DEBUG_CONV_IMPLICIT_GEMM_HIP_BWD_"
#: Variables of MIOpen without which some kernels are asked for by nobody: solvers that it has
#: switched off, another way to reduce, a check of its own results.
VARIABLES = {
    "MIOPEN_DEBUG_CONV_CK_IGEMM_FWD_V6R1_DLOPS_NCHW": "1",
    f"{_BWD}V1R1_XDLOPS": "1",
    f"{_BWD}V4R1": "1",
    f"{_BWD}V4R1_XDLOPS": "1",
    "MIOPEN_DEBUG_DYNAMIC_REDUCTION": "0",
    "MIOPEN_CHECK_NUMERICS": "1",
}


def main() -> int:
    """Plan and compile, and write the document."""
    options = _parse()
    toolchains = [find_toolchain(name) for name in options.toolchain or [None]]
    sections = [_header()]
    plans = [_planned(toolchain, options.problems, POLICY) for toolchain in toolchains]
    sections.append(_primitives(toolchains, plans))
    for toolchain, made in zip(toolchains, plans, strict=True):
        with_variables = POLICY.with_variables(_variables(toolchain))
        more = _planned(toolchain, options.problems, with_variables)
        sections.append(_kernels(toolchain, made, more, options.store))
    with write_whole(options.output) as file:
        file.write("\n".join(sections).encode())
    return 0


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    here = Path(__file__).parent
    parser.add_argument("--toolchain", action="append", help="may be repeated")
    parser.add_argument("--problems", type=Path, default=here / "kernels.txt")
    parser.add_argument("--store", type=Path, default=Path("build/store"))
    parser.add_argument("--output", type=Path, default=here.parent / "docs" / "coverage.md")
    return parser.parse_args()


def _header() -> str:
    return (
        "# What can be planned and compiled\n\n"
        "Written by `bench/coverage.py` from runs of the real libraries on virtual GPUs, policy\n"
        f"`{POLICY.name}`, with the problems in `bench/kernels.txt`.\n"
    )


def _variables(toolchain: Toolchain) -> dict[str, str]:
    """Those of the variables that this library knows."""
    known = toolchain.libmiopen.read_bytes()
    return {name: value for name, value in VARIABLES.items() if name.encode() in known}


def _planned(toolchain: Toolchain, problems: Path, policy: Policy) -> Plan:
    return plan([str(problems)], GPUS, toolchain=toolchain, policy=policy)


def _name(problem: Problem) -> str:
    return "conv" if isinstance(problem, Convolution) else problem.primitive


def _primitives(toolchains: Sequence[Toolchain], plans: Sequence[Plan]) -> str:
    """A row for each primitive, a column for each library: problems planned, of those tried."""
    heads = [f"MIOpen {toolchain.miopen_version}" for toolchain in toolchains]
    rows = [f"| command | primitive | {' | '.join(heads)} |", "|---" * (2 + len(heads)) + "|"]
    columns = [_outcomes(made) for made in plans]
    for name in ("conv", *sorted(PRIMITIVES)):
        title = "convolution" if name == "conv" else PRIMITIVES[name].title
        rows.append(f"| `{name}` | {title} | {' | '.join(c[name] for c in columns)} |")
    return (
        "\n## Primitives\n\nProblems that were planned, of those tried on "
        f"{len(GPUS)} GPUs, and MIOpen's word on the others.\n\n" + "\n".join(rows) + "\n"
    )


def _outcomes(made: Plan) -> dict[str, str]:
    tried = Counter(_name(problem) for problem in made.problems)
    failed: dict[str, Counter[str]] = defaultdict(Counter)
    for gpu in made.gpus:
        for problem, why in sorted(
            {(u.problem, _why(u.absent, u.log, u.reason)) for u in gpu.unplanned}
        ):
            failed[_name(made.problems[problem])][why] += 1
    return {
        name: _cell(tried[name] * len(made.gpus), failed[name]) for name in ("conv", *PRIMITIVES)
    }


def _why(absent: str, log: str, reason: str) -> str:
    if absent:
        return f"no `{absent}`"
    last = log.strip().splitlines()[-1:] or [reason]
    return re.sub(r"^.*\.[ch]pp:\d+: ", "", last[0]).strip()


def _cell(tried: int, failed: Counter[str]) -> str:
    if not tried:
        return "not tried"
    text = f"{tried - sum(failed.values())} of {tried}"
    return "; ".join((text, *(f"{count} x {why}" for why, count in failed.most_common(2))))


def _kernels(toolchain: Toolchain, made: Plan, more: Plan, store: Path) -> str:
    """A row for each kernel file in the library, a column for each GPU."""
    embedded = sorted(
        {name.decode() for name in _EMBEDDED.findall(toolchain.libmiopen.read_bytes())}
    )
    compiled, errors = _compiled(toolchain, made, embedded, store)
    rows, missing = _table(compiled, embedded)
    compiled, more_errors = _compiled(toolchain, more, missing, store)
    more_rows, missing = _table(compiled, missing)
    variables = (
        f"`--env {name}={value}`"
        for name, value in more.environment.items()
        if name not in made.environment
    )
    return (
        f"\n## Kernel files of MIOpen {toolchain.miopen_version}\n\n"
        f"{len(embedded) - len(missing)} of the {len(embedded)} kernel files in the library are "
        "asked for. In the\n"
        "tables: `yes` it compiled, `-` no problem asked for it on this GPU, `unstable key` its\n"
        "options have uninitialised memory in them, so that it is compiled anew each time.\n\n"
        + _with_head(rows)
        + "\n"
        + "Only with "
        + ",\n".join(variables)
        + ":\n\n"
        + _with_head(more_rows)
        + "\n"
        + _errors({**errors, **more_errors})
        + "\n".join(_reasons(missing))
        + "\n"
    )


def _table(
    compiled: Mapping[str, Mapping[str, str]], files: Sequence[str]
) -> tuple[list[str], list[str]]:
    """A row for each file that a problem asks for, and the other files."""
    rows, missing = [], []
    for file in files:
        cells = [of_gpu.get(file, "") for of_gpu in compiled.values()]
        if any(cells):
            rows.append(f"| `{file}` | {' | '.join(cell or '-' for cell in cells)} |")
        else:
            missing.append(file)
    return rows, missing


def _with_head(rows: Sequence[str]) -> str:
    head = (f"| kernel file | {' | '.join(GPUS)} |", "|---" * (1 + len(GPUS)) + "|")
    return "".join(f"{row}\n" for row in (*head, *rows))


def _errors(errors: Mapping[str, str]) -> str:
    """What the compiler says first of each file that it refuses."""
    lines = [f"- `{file}`: {message}" for file, message in sorted(errors.items())]
    return "The compiler's errors:\n\n" + "\n".join(lines) + "\n\n" if lines else ""


def _reasons(missing: Sequence[str]) -> Iterator[str]:
    groups: dict[str, list[str]] = defaultdict(list)
    for file in missing:
        known = (why for start, why in REASONS if file.startswith(start))
        groups[next(known, "no problem was found that asks for it")].append(file)
    yield f"The other {len(missing)}:\n"
    for why, files in sorted(groups.items()):
        yield f"- {why}: " + ", ".join(f"`{file}`" for file in files)


def _compiled(
    toolchain: Toolchain, made: Plan, files: Sequence[str], store: Path
) -> tuple[dict[str, dict[str, str]], dict[str, str]]:
    """Compile one job of each of these kernel files for each GPU.

    Returns what came of it by GPU and file, and the first error by file.
    """
    chosen: dict[tuple[str, str], str] = {}
    table: dict[str, dict[str, str]] = {gpu.requested: {} for gpu in made.gpus}
    for gpu in made.gpus:
        for unstable in gpu.unstable:
            table[gpu.requested][unstable.kernel_name.removesuffix(".o")] = "unstable key"
        for record in gpu.records:
            file = record.kernel_name.removesuffix(".o")
            if file in files:
                chosen.setdefault((gpu.requested, file), record.job)
    jobs = {key: made.jobs[key] for key in chosen.values()}
    some = dataclasses.replace(made, jobs=jobs)
    report = compile_jobs_of(some, toolchain=toolchain, store=store, options=BuildOptions(POLICY))
    failures = {failure.key: failure.reason for failure in report.failures}
    logs = open_store(store)
    errors: dict[str, str] = {}
    for (gpu_name, file), key in chosen.items():
        table[gpu_name][file] = failures.get(key, "yes")
        if key in failures:
            errors.setdefault(file, _first_error(logs.log(key) or failures[key]))
    return table, errors


def _first_error(log: str) -> str:
    lines = log.splitlines()
    found = [line.partition("error: ")[2] for line in lines if "error: " in line]
    return (found or lines)[0]


if __name__ == "__main__":
    sys.exit(main())
