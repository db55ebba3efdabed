"""A network from its file to a proven database, for both of its consumers."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

pytest.importorskip("onnx", reason="the extra `onnx` is not installed")

import onnx
from onnx import TensorProto, helper

from kdbforge import POLICIES, BuildOptions, Toolchain, build, prove
from kdbforge.problems import ModelOptions, ProblemList, load


def network(path: Path) -> str:
    """A convolution of 1-D data, and its transposed counterpart."""
    shapes = {"w": (16, 8, 3), "v": (16, 8, 4)}
    stored = [
        helper.make_tensor(name, TensorProto.FLOAT, shape, bytes(4 * math.prod(shape)), raw=True)
        for name, shape in shapes.items()
    ]
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], name="down", strides=[2], pads=[1, 1]),
        helper.make_node("ConvTranspose", ["c", "v"], ["y"], name="up", strides=[2], pads=[1, 1]),
    ]
    given = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ("batch", 8, "length"))]
    made = [helper.make_value_info("y", onnx.TypeProto())]
    graph = helper.make_graph(nodes, "graph", given, made, stored)
    imports = [helper.make_opsetid("", 17)]
    model = helper.make_model(graph, opset_imports=imports, ir_version=8)
    path.write_bytes(model.SerializeToString())
    return str(path)


def asked(path: str, consumer: str) -> ProblemList:
    return load([path], batch=[1], models=ModelOptions({"length": 32}, consumer))


@pytest.mark.parametrize(
    ("consumer", "policy", "directions"),
    [("migraphx", "normal", ["fwd", "fwd"]), ("onnxruntime", "default", ["fwd", "bwd"])],
)
def test_build_and_proof(
    toolchain: Toolchain,
    tmp_path: Path,
    shared_store: Path,
    consumer: str,
    policy: str,
    directions: list[str],
) -> None:
    """Find as the consumer's own policy asks, with what the file gives, and miss nothing."""
    found = asked(network(tmp_path / "net.onnx"), consumer)
    assert found.complete
    assert [problem.direction for problem in found] == directions
    options = BuildOptions(POLICIES[policy], workers=2)
    report = build(
        found, ["gfx906_60"], tmp_path / "out", toolchain=toolchain, store=shared_store,
        options=options,
    )  # fmt: skip
    assert report.complete
    (proof,) = prove(
        [tmp_path / "out/gfx906_60.kdb"], found, ["gfx906_60"], toolchain=toolchain, policy=policy
    )
    assert proof.proven
    assert proof.hits > 0
