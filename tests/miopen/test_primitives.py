"""All primitives through the real library: planned, built and proven."""

from __future__ import annotations

from pathlib import Path

import pytest

from kdbforge import BuildOptions, Plan, Toolchain, build, plan
from kdbforge.model.policy import find_policy
from kdbforge.problems.primitives import PRIMITIVES

GPU = "gfx1030_40"

#: A problem of every primitive for which MIOpen has a solver, and kernel files that it must load.
LINES = {
    "activ -n 1 -c 8 -H 8 -W 8": ("MIOpenNeuron.cl",),
    "softmaxfp16 -n 2 -c 8 -H 8 -W 8 -a 2 -m 0": ("MIOpenSoftmax.cl",),
    "glu -D 4x8x6 -R 0": ("MIOpenGLU.cpp",),
    "prelu -D 4x8x6": ("MIOpenPReLU.cpp", "MIOpenReduceSum.cpp"),
    "rope -X 4x8x8x16": ("MIOpenRoPE.cpp",),
    "bnorm -n 4 -c 8 -H 8 -W 8 -m 0": ("MIOpenBatchNormFwdTrainPerAct.cl",),
    "bnorm -n 4 -c 8 -H 8 -W 8 -m 1 -F 2 -r 1 -f 3": ("MIOpenBatchNormFwdInferSpatial.cl",),
    "lrn -n 1 -c 8 -H 8 -W 8": ("MIOpenLRNBwd.cl", "MIOpenLRNFwd.cl"),
    "layernorm -N 4 -C 8 -H 8 -W 8": ("MIOpenLayerNorm.cpp",),
    "addlayernorm -X 4x8x8x8": ("MIOpenAddLayerNorm.cpp",),
    "t5layernorm -X 4x8x8x8": ("MIOpenT5LayerNorm.cpp",),
    "pool -W 1x8x16x16": ("MIOpenPooling.cpp", "MIOpenPoolingBwd.cpp"),
    "rnn -n 4,3 -k 2 -m lstm -b 1": ("MIOpenRNNHiddenStateUpdate.cl", "MIOpenTensorKernels.cl"),
    "rnn_seq -n 3 -k 4 -K 2,4,3 -I 3 -m lstm": ("MIOpenSubTensorOpWithScalarKernel.cl",),
    "rnn_seq -n 3 -k 4 -c 1 -m gru": ("MIOpenSubTensorOpWithSubTensorKernel.cl",),
    "dropout -d 4,8,8": ("MIOpenDropoutHIP.cpp",),
    "ctc": ("MIOpenCTCLoss.cl",),
    "reduce -D 4,8,8 -R 1": ("gridwise_generic_reduction_first_call",),
    "reduceextreme -X 4x8x8 -R 1": ("MIOpenReduceExtreme.cpp",),
    "reducecalculation -X 4x8x8": ("MIOpenReduceCalculation.cpp",),
    "sum -X 4x8x8": ("MIOpenReduceCalculation.cpp",),
    "tensorop -n 2 -c 3 -H 4 -W 4 -o 2": ("MIOpenTensorKernels.cl",),
    "optensor": ("MIOpenTensorKernels.cl",),
    "transform": ("MIOpenSubTensorOpWithTransformKernel.cl",),
    "convbias -F 2": ("MIOpenConvBwdBias.cl",),
    "getitem": ("MIOpenGetitem.cpp",),
    "kthvalue -D 16x300 -k 2 -d 1": ("MIOpenKthvalue.cpp",),
    "softmarginloss": ("MIOpenSoftMarginLoss.cpp",),
    "multimarginloss": ("MIOpenMultiMarginLoss.cpp",),
    "adam": ("MIOpenAdam.cpp",),
    "adamw": ("MIOpenAdam.cpp",),
    "ampadam": ("MIOpenAdam.cpp",),
    "ampadamw": ("MIOpenAdam.cpp",),
    "transformersadamw": ("MIOpenAdam.cpp",),
    "transformersampadamw": ("MIOpenAdam.cpp",),
    "CBAInfer -c 8 -k 8 -n 1 -J 4": ("MIOpenConvDirBatchNormActiv.cl",),
    "CAInfer -c 8 -k 8 -n 1 -J 5": ("MIOpenConvDirBatchNormActiv.cl",),
    "bnormactiv": ("MIOpenBatchNormActivFwdTrainSpatial.cl",),
    "mha": ("MIOpenSoftmaxAttn.cpp",),
}
#: Primitives whose solvers want shapes so large or special that none is in the list above.
WITHOUT = {"groupnorm", "cat"}


def written(folder: Path, lines: object) -> str:
    path = folder / "problems.txt"
    path.write_text("".join(f"MIOpenDriver {line}\n" for line in lines))  # type: ignore[attr-defined]
    return str(path)


def test_every_primitive_is_in_the_list() -> None:
    assert {line.split()[0].removesuffix("fp16") for line in LINES} | WITHOUT == set(PRIMITIVES)


@pytest.fixture(scope="module")
def planned(toolchain: Toolchain, tmp_path_factory: pytest.TempPathFactory) -> Plan:
    source = written(tmp_path_factory.mktemp("plan"), LINES)
    return plan([source], [GPU], toolchain=toolchain)


def test_every_primitive_asks_for_its_kernels(planned: Plan) -> None:
    (gpu,) = planned.gpus
    assert not gpu.unplanned
    loaded = {record.kernel_name.removesuffix(".o") for record in gpu.records}
    wanted = {name for names in LINES.values() for name in names}
    missing = {name for name in wanted if not any(file.startswith(name) for file in loaded)}
    assert not missing, sorted(loaded)


def test_a_problem_loads_kernels_of_its_own(planned: Plan) -> None:
    """The journal shows which problem needs which kernel, whatever ran before."""
    (gpu,) = planned.gpus
    names = {record.job: record.kernel_name for record in gpu.records}
    first = [names[job] for job in gpu.needs[0]]
    assert first == ["MIOpenNeuron.cl.o"]


def test_all_that_a_primitive_asks_for_is_in_its_database(
    toolchain: Toolchain, shared_store: Path, tmp_path: Path
) -> None:
    chosen = [line for line in LINES if line.split()[0] in ("pool", "rnn", "rnn_seq", "reduce")]
    report = build(
        [written(tmp_path, chosen)], [GPU], tmp_path / "out", toolchain=toolchain,
        store=shared_store, options=BuildOptions(find_policy("default")),
    )  # fmt: skip
    assert report.complete
    (proof,) = report.proofs
    assert proof.hits > len(chosen)
    assert not proof.misses
    assert not proof.unstable


def test_a_key_from_uninitialised_memory_is_named_and_left_out(
    toolchain: Toolchain, shared_store: Path, tmp_path: Path
) -> None:
    """Spatial batch normalisation in training, variant 0, of MIOpen 3.5."""
    source = written(tmp_path, ["bnorm -n 4 -c 8 -H 8 -W 8 -m 1 -s 1 -r 1", "activ -F 1"])
    report = build(
        [source], [GPU], tmp_path / "out", toolchain=toolchain, store=shared_store,
        options=BuildOptions(find_policy("default")),
    )  # fmt: skip
    (gpu,), (proof,) = report.plan.gpus, report.proofs
    assert {key.kernel_name for key in gpu.unstable} == {"MIOpenBatchNormFwdTrainSpatial.cl.o"}
    assert [record.kernel_name for record in gpu.records] == ["MIOpenNeuron.cl.o"]
    assert proof.proven
    assert {miss.kernel_file for miss in proof.unstable} == {"MIOpenBatchNormFwdTrainSpatial.cl"}
    assert report.complete
