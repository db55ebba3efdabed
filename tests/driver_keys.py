"""What the real MIOpenDriver asks for, beside what is planned for its command line."""

from __future__ import annotations

import shlex
from pathlib import Path

from kdbforge import Toolchain, find_gpu, plan
from kdbforge.model.plan import GpuPlan
from kdbforge.runner.run import RunOptions, run_program


def check_driver_keys(toolchain: Toolchain, gpu: str, command: str, folder: Path) -> None:
    """Run a command of MIOpenDriver, and check that all its kernels are planned as well.

    We plan the call for inference, too, where the driver makes just the one for training.
    """
    argv = ["MIOpenDriver", *shlex.split(command), "-V", "0"]
    options = RunOptions(capture=folder / "driver.kdbplan")
    report = run_program(toolchain, [find_gpu(gpu)], argv, options, folder / "run")
    assert report.exit_code == 0
    assert report.plan is not None
    asked = _keys(report.plan.gpus[0])
    assert asked
    source = folder / "problems.txt"
    source.write_text(f"MIOpenDriver {command}\n")
    (planned,) = plan([str(source)], [gpu], toolchain=toolchain).gpus
    assert not planned.unplanned
    assert asked <= _keys(planned)


def _keys(gpu: GpuPlan) -> set[tuple[str, str]]:
    return {(record.kernel_name, record.kernel_args) for record in gpu.records}
