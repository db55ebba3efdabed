"""What is no convolution: MIOpenDriver commands, by consumer, and nodes that never reach MIOpen."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("onnx", reason="the extra `onnx` is not installed")

from onnx import TensorProto, helper
from onnx_models import inputs, model, others_of, report_of, save, weights

from kdbforge.problems import parse


def one(
    op: str, shape: tuple[int, ...], element: int = TensorProto.FLOAT, **attributes: Any
) -> Any:
    node = helper.make_node(op, ["x"], ["y"], name="node", **attributes)
    return model([node], inputs({"x": shape}, element), ["y"], opset=13)


def goes(path: str, consumer: str) -> dict[str, str]:
    return {use.operator: use.goes for use in report_of(path, consumer).operators}


POOL = "MIOpenDriver pool -W 1x3x9x8,NCHW"


@pytest.mark.parametrize(
    ("op", "attributes", "migraphx", "onnxruntime"),
    [
        ("MaxPool", {"kernel_shape": [3, 2], "strides": [2, 1], "pads": [1, 0, 1, 0]},
         f"{POOL} -y 3 -x 2 -v 2 -u 1 -p 1 -q 0 -m max -F 1", "same"),
        ("AveragePool", {"kernel_shape": [2, 2]},
         f"{POOL} -y 2 -x 2 -v 1 -u 1 -p 0 -q 0 -m avg -F 1", "same"),
        ("AveragePool", {"kernel_shape": [2, 2], "count_include_pad": 1},
         "", f"{POOL} -y 2 -x 2 -v 1 -u 1 -p 0 -q 0 -m avg_in -F 1"),
        ("MaxPool", {"kernel_shape": [2, 2], "strides": [2, 2], "ceil_mode": 1},
         f"{POOL} -O 1x3x5x4,NCHW -y 2 -x 2 -v 2 -u 2 -p 0 -q 0 -m max -F 1", "same"),
        ("MaxPool", {"kernel_shape": [2, 2], "pads": [0, 0, 1, 1]},
         "", f"{POOL} -O 1x3x9x8,NCHW -y 2 -x 2 -v 1 -u 1 -p 0 -q 0 -m max -F 1"),
        ("MaxPool", {"kernel_shape": [2, 2], "dilations": [2, 2]}, "", ""),
        ("AveragePool", {"kernel_shape": [9, 8]},
         "", f"{POOL} -y 9 -x 8 -v 1 -u 1 -p 0 -q 0 -m avg -F 1"),
        ("GlobalAveragePool", {},
         "", "MIOpenDriver reduce -D 1,3,9,8 -R 2,3 -O 5 -C 1 -N 1 -I 1"),
        ("GlobalMaxPool", {}, "", "MIOpenDriver reduce -D 1,3,9,8 -R 2,3 -O 3 -C 1 -N 1 -I 1"),
    ],
)  # fmt: skip
def test_pooling(
    tmp_path: Path, op: str, attributes: dict[str, Any], migraphx: str, onnxruntime: str
) -> None:
    path = save(tmp_path, one(op, (1, 3, 9, 8), **attributes))
    expected = {"migraphx": migraphx, "onnxruntime": onnxruntime}
    if onnxruntime == "same":
        expected["onnxruntime"] = migraphx
    for consumer, line in expected.items():
        if line:
            assert others_of(path, consumer) == parse(line)
        else:
            assert goes(path, consumer) == {op: "own kernel of the consumer"}


def test_pooling_of_other_ranks(tmp_path: Path) -> None:
    path = save(tmp_path, one("MaxPool", (1, 3, 9), kernel_shape=[3], strides=[2]))
    line = "MIOpenDriver pool -W 1x3x1x9,NCHW -y 1 -x 3 -v 1 -u 2 -p 0 -q 0 -m max -F 1"
    assert others_of(path, "migraphx") == parse(line)
    line = "MIOpenDriver pool -W 1x3x9x1,NCHW -y 3 -x 1 -v 2 -u 1 -p 0 -q 0 -m max -F 1"
    assert others_of(path, "onnxruntime") == parse(line)
    path = save(tmp_path, one("MaxPool", (1, 3, 4, 9, 8), kernel_shape=[1, 2, 3]))
    line = (
        "MIOpenDriver pool -W 1x3x4x9x8,NCDHW -Z 1 -y 2 -x 3 -s 1 -v 1 -u 1 -o 0 -p 0 -q 0 -m max "
        "-F 1"
    )
    assert others_of(path, "migraphx") == parse(line)


def test_half_precision(tmp_path: Path) -> None:
    path = save(tmp_path, one("MaxPool", (1, 3, 9, 8), TensorProto.FLOAT16, kernel_shape=[3, 3]))
    assert others_of(path) == parse("MIOpenDriver poolfp16 -W 1x3x9x8 -y 3 -x 3 -F 1")


def test_lrn(tmp_path: Path) -> None:
    proto = one("LRN", (1, 8, 9, 9), size=5, alpha=0.0002, beta=0.5, bias=2.0)
    line = "MIOpenDriver lrn -n 1 -c 8 -H 9 -W 9 -N 5 -A 0.0002 -B 0.5 -K 2.0 -m cross -F 1"
    for consumer in ("migraphx", "onnxruntime"):
        assert others_of(save(tmp_path, proto), consumer) == parse(line)


def norm(shape: tuple[int, ...], *, behind: str = "", element: int = TensorProto.FLOAT) -> Any:
    names = ["scale", "bias", "mean", "var"]
    nodes = [helper.make_node("BatchNormalization", ["c", *names], ["y"], name="norm")]
    stored = [weights(name, (shape[1],), element) for name in names]
    if behind == "Conv":
        nodes.insert(0, helper.make_node("Conv", ["x", "w"], ["c"], name="conv"))
        stored.append(weights("w", (shape[1], shape[1], 1, 1), element))
    else:
        nodes.insert(0, helper.make_node("Relu", ["x"], ["c"], name="relu"))
    return model(nodes, inputs({"x": shape}, element), ["y"], stored, opset=15)


def test_batch_normalisation(tmp_path: Path) -> None:
    """Both fold it into a convolution; MIGraphX never calls MIOpen for it."""
    folded = save(tmp_path, norm((1, 8, 9, 9), behind="Conv"), "folded.onnx")
    alone = save(tmp_path, norm((1, 8, 9, 9)), "alone.onnx")
    for consumer in ("migraphx", "onnxruntime"):
        where = goes(folded, consumer)["BatchNormalization"]
        assert where == "fused into the convolution before it"
    assert goes(alone, "migraphx")["BatchNormalization"] == "own kernel of the consumer"
    line = "MIOpenDriver {} -n 1 -c 8 -H 9 -W 9 -m 1 -F 2 -r 1 -s 0 -b 0"
    assert others_of(alone, "onnxruntime") == parse(line.format("bnorm"))
    half = save(tmp_path, norm((1, 8, 9, 9), element=TensorProto.FLOAT16))
    assert others_of(half, "onnxruntime") == parse(line.format("bnormfp16"))
    deep = save(tmp_path, norm((1, 8, 3, 9, 9)))
    line = line.replace("-H", "-D 3 -H")
    assert others_of(deep, "onnxruntime") == parse(line.format("bnorm"))


@pytest.mark.parametrize(
    ("batch", "size"), [(1, "-n 1 -c 8 -H 9 -W 7"), (2, "-n 1 -c 16 -H 63 -W 1")]
)
def test_instance_normalisation(tmp_path: Path, batch: int, size: str) -> None:
    """ONNX Runtime makes batch normalisation in training of it: of one image, or of all at once."""
    node = helper.make_node("InstanceNormalization", ["x", "s", "b"], ["y"])
    stored = [weights("s", (8,)), weights("b", (8,))]
    path = save(tmp_path, model([node], inputs({"x": (batch, 8, 9, 7)}), ["y"], stored))
    line = f"MIOpenDriver bnorm {size} -m 1 -F 1 -r 0 -s 0 -b 0"
    assert others_of(path, "onnxruntime") == parse(line)


@pytest.mark.parametrize(
    ("op", "attributes", "words"),
    [
        ("ReduceMean", {"axes": [1]}, "-R 1 -O 5 -C 1 -N 1 -I 0"),
        ("ReduceMax", {"axes": [-1, -2]}, "-R 2,3 -O 3 -C 1 -N 1 -I 0"),
        ("ReduceMin", {}, "-R 0,1,2,3 -O 2 -C 1 -N 1 -I 0"),
        ("ReduceL2", {"axes": [3]}, "-R 3 -O 7 -C 1 -N 1 -I 0"),
        ("ReduceL1", {"axes": [3]}, "-R 3 -O 6 -C 1 -N 1 -I 0"),
        ("ReduceProd", {"axes": [0, 2]}, "-R 0,2 -O 1 -C 1 -N 1 -I 0"),
        ("ArgMax", {"axis": 1}, "-R 1 -O 3 -C 1 -N 1 -I 1"),
    ],
)
def test_reductions(tmp_path: Path, op: str, attributes: dict[str, Any], words: str) -> None:
    path = save(tmp_path, one(op, (2, 3, 9, 8), **attributes))
    assert others_of(path, "onnxruntime") == parse(f"MIOpenDriver reduce -D 2,3,9,8 {words}")
    assert goes(path, "migraphx") == {op: "own kernel of the consumer"}


@pytest.mark.parametrize("axes", [[2, 3], [0], [0, 1, 2, 3], [3]])
def test_matrices_are_summed_by_an_own_kernel(tmp_path: Path, axes: list[int]) -> None:
    path = save(tmp_path, one("ReduceMean", (2, 3, 9, 8), axes=axes))
    assert goes(path, "onnxruntime") == {"ReduceMean": "own kernel of the consumer"}


def test_a_reduction_with_two_calls(tmp_path: Path) -> None:
    path = save(tmp_path, one("ReduceLogSumExp", (9, 8), axes=[1]))
    assert others_of(path, "onnxruntime") == [
        *parse("MIOpenDriver reduce -D 9,8,1 -R 1 -O 3 -C 1 -N 1 -I 0"),
        *parse("MIOpenDriver reduce -D 9,8,1 -R 1 -O 0 -C 1 -N 1 -I 0"),
    ]


def test_what_never_reaches_miopen(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Relu", ["x"], ["a"]),
        helper.make_node("Softmax", ["a"], ["b"]),
        helper.make_node("Reshape", ["b", "shape"], ["c"]),
        helper.make_node("MatMul", ["c", "m"], ["d"]),
        helper.make_node("LayerNormalization", ["d", "s"], ["e"]),
        helper.make_node("LSTM", ["e", "w", "r"], ["y"], hidden_size=5),
    ]
    stored = [
        helper.make_tensor("shape", TensorProto.INT64, [3], [4, 2, 8]), weights("m", (8, 7)),
        weights("s", (7,)), weights("w", (1, 20, 7)), weights("r", (1, 20, 5)),
    ]  # fmt: skip
    path = save(tmp_path, model(nodes, inputs({"x": (2, 4, 8)}), ["y"], stored))
    where = goes(path, "migraphx")
    assert where["Relu"] == where["Softmax"] == where["LayerNormalization"]
    assert where["LayerNormalization"] == "own kernel of the consumer"
    assert where["Reshape"] == "no kernel: copies at most"
    assert where["MatMul"] == "rocBLAS, hipBLASLt or rocMLIR"
    assert where["LSTM"].endswith("after being rewritten into matrix products")
    assert goes(path, "onnxruntime")["LSTM"] == "CPU: no GPU kernel for it"
    report = report_of(path)
    assert report.left_out == ()
    assert sum(use.count for use in report.operators) == report.nodes == 6
