"""Sessions: MIOpen's workflow step by step on a virtual GPU."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import pytest

from kdbforge import Session, Toolchain, find_gpu
from kdbforge.errors import InputError, SessionError, UnknownNameError
from kdbforge.vgpu.process import CompileMode, VirtualGpu

CONV = "MIOpenDriver conv -n 1 -c 16 -H 14 -W 14 -k 16 -y 3 -x 3 -p 1 -q 1 -F 1"


@pytest.fixture(scope="module")
def session(toolchain: Toolchain, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    with Session("gfx906_60", toolchain, work_dir=tmp_path_factory.mktemp("session")) as opened:
        yield opened


def test_find_is_what_a_program_gets(session: Session) -> None:
    found = session.find(CONV)
    assert found.chosen == "GemmFwdRest"
    assert [kernel.file for kernel in found.kernels] == ["MIOpenIm2d2Col.cpp"]


def test_all_solutions_are_walked_to_the_launch(session: Session) -> None:
    solutions = session.solutions(CONV)
    by_solver = {solution.solver: solution for solution in solutions}
    assert by_solver.keys() == {"ConvOclDirectFwd", "GemmFwdRest"}
    assert by_solver["GemmFwdRest"].dynamic
    assert by_solver["GemmFwdRest"].workspace == 16 * 9 * 14 * 14 * 4
    direct = by_solver["ConvOclDirectFwd"]
    assert not direct.dynamic
    assert direct.algorithm == "miopenConvolutionFwdAlgoDirect"
    assert [kernel.language for kernel in direct.kernels] == ["OpenCL"]
    assert {entry.reason for entry in solutions.rejected} == {"Not applicable"}
    with pytest.raises(SessionError, match=r"`MIOpenConvDirUni\.cl` is not compiled"):
        direct.run()
    (compiled,) = direct.compile()
    assert [kernel.name for kernel in compiled.details.kernels] == ["MIOpenConvUni"]
    run = direct.run()
    assert not run.executed
    assert [launch.kernel for launch in run.launches] == ["MIOpenConvUni"]


def test_another_primitive_has_one_solution(session: Session) -> None:
    (softmax,) = session.solutions("MIOpenDriver softmax -n 2 -c 10 -H 1 -W 1 -F 1")
    assert softmax.solver == "Softmax"
    assert [kernel.file for kernel in softmax.kernels] == ["MIOpenSoftmax.cl"]


def test_solvers_are_chosen_by_arguments(toolchain: Toolchain, tmp_path: Path) -> None:
    with Session("gfx906_60", toolchain, solvers=["GemmFwdRest"], work_dir=tmp_path) as session:
        assert [solution.solver for solution in session.solutions(CONV)] == ["GemmFwdRest"]
    with Session("gfx906_60", toolchain, opencl=False, work_dir=tmp_path) as session:
        assert [solution.solver for solution in session.solutions(CONV)] == ["GemmFwdRest"]
    assert not list(tmp_path.iterdir())


def test_what_cannot_be_asked(session: Session, toolchain: Toolchain) -> None:
    with pytest.raises(InputError, match="asks for 3 problems"):
        session.find(CONV.replace("-F 1", "-F 0"))
    with pytest.raises(SessionError, match="miopenGLUForward returned status 6") as caught:
        session.find("MIOpenDriver glu -D 4x8x6 -R 1 -F 1")
    assert any("No solver found" in line for line in caught.value.context)
    with pytest.raises(UnknownNameError):
        Session("gfx9999_1", toolchain)


def test_a_gpu_in_the_machine_is_used_as_it_is(toolchain: Toolchain, tmp_path: Path) -> None:
    """With the virtual GPU's libraries installed as a machine has its own: no preloading."""
    gpu = VirtualGpu.set_up(toolchain, find_gpu("gfx906_60"), CompileMode.PASS, tmp_path / "gpu")
    installed = dataclasses.replace(
        toolchain, library_path=(tmp_path / "gpu" / "lib", *toolchain.library_path)
    )
    with Session(None, installed, environment=gpu.environment, work_dir=tmp_path) as session:
        (softmax,) = session.solutions("MIOpenDriver softmax -n 2 -c 10 -H 1 -W 1 -F 1")
        (compiled,) = softmax.compile()
        assert compiled.key.file == "MIOpenSoftmax.cl"
        assert softmax.run().executed
