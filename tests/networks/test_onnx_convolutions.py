"""Convolutions of networks: what each consumer asks MIOpen for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("onnx", reason="the extra `onnx` is not installed")

from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper
from onnx_models import FLOAT, inputs, model, others_of, problems_of, report_of, save, weights

from kdbforge.errors import InputError
from kdbforge.model.problem import Convolution
from kdbforge.problems import driver_line, parse


def one_node(
    op: str, x: tuple[int, ...], w: tuple[int, ...], *, bias: bool = False, **attributes: Any
) -> Any:
    names = ["x", "w", "b"] if bias else ["x", "w"]
    stored = [weights("w", w)]
    if bias:
        stored.append(weights("b", (w[0] if op == "Conv" else w[1],)))
    node = helper.make_node(op, names, ["y"], name="node", **attributes)
    return model([node], inputs({"x": x}), ["y"], stored)


def lines(path: str, consumer: str, **options: Any) -> list[str]:
    return [driver_line(problem) for problem in problems_of(path, consumer, **options)]


CONV = "MIOpenDriver conv -n 2 -c 3"
SAME = "-l 1 -j 1 -m conv -g 1 -F 1"


@pytest.mark.parametrize(
    ("attributes", "migraphx", "onnxruntime"),
    [
        ({}, "-H 9 -W 8 -k 4 -y 3 -x 3 -p 0 -q 0 -u 1 -v 1", None),
        (
            {"pads": [1, 2, 1, 2], "strides": [2, 1]},
            "-H 9 -W 8 -k 4 -y 3 -x 3 -p 1 -q 2 -u 2 -v 1",
            None,
        ),
        # 9 = (5-1)*2+3-2: two pads of height; 8: (4-1)*2+3-8 = 1, above or below.
        (
            {"auto_pad": "SAME_UPPER", "strides": [2, 2]},
            "-H 11 -W 9 -k 4 -y 3 -x 3 -p 0 -q 0 -u 2 -v 2",
            "-H 9 -W 8 -k 4 -y 3 -x 3 -p 1 -q 2 -u 2 -v 2",
        ),
        (
            {"auto_pad": "SAME_LOWER", "strides": [2, 2]},
            "-H 11 -W 9 -k 4 -y 3 -x 3 -p 0 -q 0 -u 2 -v 2",
            "-H 9 -W 8 -k 4 -y 3 -x 3 -p 1 -q 1 -u 2 -v 2",
        ),
        ({"auto_pad": "SAME_UPPER"}, "-H 9 -W 8 -k 4 -y 3 -x 3 -p 1 -q 1 -u 1 -v 1", None),
        ({"auto_pad": "VALID"}, "-H 9 -W 8 -k 4 -y 3 -x 3 -p 0 -q 0 -u 1 -v 1", None),
        (
            {"pads": [0, 0, 1, 2]},
            "-H 10 -W 10 -k 4 -y 3 -x 3 -p 0 -q 0 -u 1 -v 1",
            "-H 9 -W 8 -k 4 -y 3 -x 3 -p 1 -q 2 -u 1 -v 1",
        ),
        (
            {"pads": [2, 0, 1, 0]},
            "-H 12 -W 8 -k 4 -y 3 -x 3 -p 0 -q 0 -u 1 -v 1",
            "-H 9 -W 8 -k 4 -y 3 -x 3 -p 2 -q 0 -u 1 -v 1",
        ),
    ],
)
def test_pads(
    tmp_path: Path, attributes: dict[str, Any], migraphx: str, onnxruntime: str | None
) -> None:
    path = save(tmp_path, one_node("Conv", (2, 3, 9, 8), (4, 3, 3, 3), **attributes))
    assert lines(path, "migraphx") == [f"{CONV} {migraphx} {SAME}"]
    assert lines(path, "onnxruntime") == [f"{CONV} {onnxruntime or migraphx} {SAME}"]


def test_groups_and_dilations(tmp_path: Path) -> None:
    proto = one_node("Conv", (1, 8, 9, 9), (16, 1, 3, 3), group=8, dilations=[2, 1])
    (problem,) = problems_of(save(tmp_path, proto)).problems
    assert (problem.groups, problem.dilations, problem.in_channels) == (8, (2, 1), 8)


def test_one_spatial_axis_becomes_two(tmp_path: Path) -> None:
    """MIGraphX adds a height of 1, ONNX Runtime a width of 1."""
    proto = one_node("Conv", (1, 3, 20), (4, 3, 5), pads=[2, 2], strides=[3], dilations=[2])
    path = save(tmp_path, proto)
    (problem,) = problems_of(path).problems
    assert (problem.in_size, problem.filter_size, problem.pads) == ((1, 20), (1, 5), (0, 2))
    assert (problem.strides, problem.dilations) == ((1, 3), (1, 2))
    (other,) = problems_of(path, "onnxruntime").problems
    assert (other.in_size, other.filter_size, other.pads) == ((20, 1), (5, 1), (2, 0))
    assert (other.strides, other.dilations) == ((3, 1), (2, 1))


def test_three_spatial_axes(tmp_path: Path) -> None:
    path = save(tmp_path, one_node("Conv", (1, 3, 4, 5, 6), (4, 3, 1, 2, 3)))
    for consumer in ("migraphx", "onnxruntime"):
        (problem,) = problems_of(path, consumer).problems
        assert (problem.layout, problem.in_size, problem.filter_size) == (
            "NCDHW",
            (4, 5, 6),
            (1, 2, 3),
        )


def test_dtypes(tmp_path: Path) -> None:
    path = save(tmp_path, one_node("Conv", (1, 3, 9, 9), (4, 3, 3, 3)))
    for dtype in ("fp32", "fp16", "bf16", "int8"):
        assert [p.dtype for p in problems_of(path, dtypes=[dtype])] == [dtype]
    both = problems_of(path, "onnxruntime", dtypes=["fp16", "fp32"])
    assert [p.dtype for p in both] == ["fp16", "fp32"]
    # ONNX Runtime's provider has kernels for two types only.
    assert len(problems_of(path, "onnxruntime", dtypes=["bf16"])) == 0
    with pytest.raises(InputError, match="has no int8 convolutions"):
        problems_of(path, "onnxruntime", dtypes=["int8"])


@pytest.mark.parametrize(
    ("element", "dtype"), [(TensorProto.FLOAT16, "fp16"), (TensorProto.BFLOAT16, "bf16")]
)
def test_the_dtype_of_the_file(tmp_path: Path, element: int, dtype: str) -> None:
    node = helper.make_node("Conv", ["x", "w"], ["y"])
    given_ = inputs({"x": (1, 3, 9, 9), "w": (4, 3, 3, 3)}, element)
    path = save(tmp_path, model([node], given_, ["y"]))
    assert [p.dtype for p in problems_of(path)] == [dtype]
    assert [p.dtype for p in problems_of(path, dtypes=["fp32"])] == ["fp32"]


def test_double_precision_is_left_out(tmp_path: Path) -> None:
    node = helper.make_node("Conv", ["x", "w"], ["y"], name="conv")
    given_ = inputs({"x": (1, 3, 9, 9), "w": (4, 3, 3, 3)}, TensorProto.DOUBLE)
    path = save(tmp_path, model([node], given_, ["y"]))
    found = problems_of(path)
    assert not found.complete
    assert [(e.node, e.reason) for e in found.models[0].left_out] == [
        ("conv", "MIOpen has no fp64 convolutions")
    ]


def test_bias_and_relu_in_onnxruntime(tmp_path: Path) -> None:
    """The bias is a call of its own; convolution, bias and ReLU are tried as one first."""
    stored = [weights("w", (4, 3, 3, 3)), weights("b", (4,))]
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["c"], name="conv", strides=[2, 2]),
        helper.make_node("Relu", ["c"], ["y"]),
    ]
    path = save(tmp_path, model(nodes, inputs({"x": (1, 3, 9, 9)}), ["y"], stored))
    found = problems_of(path, "onnxruntime")
    assert len(found) == 4
    assert others_of(path, "onnxruntime") == [
        *parse("MIOpenDriver convbias -n 1 -k 4 -H 4 -W 4 -F 1"),
        *parse("MIOpenDriver CBAInfer -n 1 -c 3 -H 9 -W 9 -k 4 -u 2 -v 2 -J 4"),
        *parse("MIOpenDriver activ -n 1 -c 4 -H 4 -W 4 -m 3 -A 0 -B 0 -G 0 -F 1"),
    ]
    assert others_of(path) == []  # MIGraphX fuses at stride 1 only


def test_fused_conv_of_onnxruntime(tmp_path: Path) -> None:
    """The operator is not ONNX's, and what follows it has a shape all the same."""
    nodes = [
        helper.make_node("FusedConv", ["x", "w"], ["c"], domain="com.microsoft", activation="Relu"),
        helper.make_node("Conv", ["c", "v"], ["y"]),
    ]
    stored = [weights("w", (4, 3, 3, 3)), weights("v", (5, 4, 1, 1))]
    proto = model(nodes, inputs({"x": (1, 3, 9, 9)}), ["y"], stored, domains=["com.microsoft"])
    found = problems_of(save(tmp_path, proto), "onnxruntime")
    convolutions = [p for p in found if isinstance(p, Convolution)]
    assert [(p.in_size, p.out_channels) for p in convolutions] == [((9, 9), 4), ((7, 7), 5)]


def test_what_migraphx_fuses(tmp_path: Path) -> None:
    proto = one_node("Conv", (1, 64, 8, 8), (64, 64, 3, 3), bias=True, pads=[1, 1, 1, 1])
    assert others_of(save(tmp_path, proto)) == parse(
        "MIOpenDriver CBAInfer -n 1 -c 64 -H 8 -W 8 -k 64 -p 1 -q 1 -J 6"
    )


def test_what_migraphx_merges(tmp_path: Path) -> None:
    """Convolutions of one input that agree in all but their weights become one."""
    nodes = [
        helper.make_node("Conv", ["x", "u"], ["a"]),
        helper.make_node("Conv", ["x", "v"], ["b"]),
        helper.make_node("Conv", ["x", "w"], ["c"]),
    ]
    stored = [weights("u", (4, 3, 1, 1)), weights("v", (4, 3, 1, 1)), weights("w", (5, 3, 1, 1))]
    path = save(tmp_path, model(nodes, inputs({"x": (1, 3, 9, 9)}), ["a", "b", "c"], stored))
    assert [p.out_channels for p in problems_of(path)] == [4, 8, 5]
    assert [p.out_channels for p in problems_of(path, "onnxruntime")] == [4, 5]


def test_transposed(tmp_path: Path) -> None:
    """A transposed convolution in MIGraphX, backward data of a plain one in ONNX Runtime."""
    proto = one_node(
        "ConvTranspose", (1, 8, 5, 6), (8, 4, 3, 3), strides=[2, 2], pads=[1, 1, 1, 1],
        output_padding=[1, 1],
    )  # fmt: skip
    path = save(tmp_path, proto)
    (problem,) = problems_of(path).problems
    assert driver_line(problem) == (
        "MIOpenDriver conv -n 1 -c 8 -H 5 -W 6 -k 4 -y 3 -x 3 -p 1 -q 1 -u 2 -v 2 -l 1 -j 1 "
        "-m trans -g 1 -F 1"
    )
    (other,) = problems_of(path, "onnxruntime").problems
    assert driver_line(other) == (
        "MIOpenDriver conv -n 1 -c 4 -H 10 -W 12 -k 8 -y 3 -x 3 -p 1 -q 1 -u 2 -v 2 -l 1 -j 1 "
        "-m conv -g 1 -F 2"
    )


def test_transposed_with_groups(tmp_path: Path) -> None:
    proto = one_node("ConvTranspose", (1, 8, 5, 5), (8, 3, 2, 2), strides=[2, 2], group=4)
    path = save(tmp_path, proto)
    (problem,) = problems_of(path).problems
    assert (problem.transposed, problem.groups, problem.out_channels) == (True, 4, 12)
    (other,) = problems_of(path, "onnxruntime").problems
    assert (other.direction, other.groups, other.in_channels) == ("bwd", 4, 12)


@pytest.mark.parametrize("op", ["ConvInteger", "QLinearConv"])
def test_integers(tmp_path: Path, op: str) -> None:
    scale, zero = weights("s", ()), weights("z", (), TensorProto.INT8)
    names = ["x", "s", "z", "w", "s", "z", "s", "z"] if op == "QLinearConv" else ["x", "w"]
    node = helper.make_node(op, names, ["y"])
    stored = [weights("w", (4, 3, 3, 3), TensorProto.INT8), scale, zero]
    path = save(
        tmp_path, model([node], inputs({"x": (1, 3, 9, 9)}, TensorProto.INT8), ["y"], stored)
    )
    assert [p.dtype for p in problems_of(path)] == ["int8"]
    assert [p.dtype for p in problems_of(path, dtypes=["fp16"])] == ["int8"]
    assert len(problems_of(path, "onnxruntime")) == 0


def test_dequantised_inputs(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("DequantizeLinear", ["x", "s"], ["xf"]),
        helper.make_node("DequantizeLinear", ["w", "s"], ["wf"]),
        helper.make_node("Conv", ["xf", "wf"], ["y"]),
    ]
    stored = [weights("w", (4, 3, 3, 3), TensorProto.INT8), weights("s", ())]
    path = save(
        tmp_path, model(nodes, inputs({"x": (1, 3, 9, 9)}, TensorProto.INT8), ["y"], stored)
    )
    assert [p.dtype for p in problems_of(path)] == ["int8"]
    assert [p.dtype for p in problems_of(path, "onnxruntime")] == ["fp32"]


axis = st.tuples(
    st.integers(1, 20), st.integers(1, 4), st.integers(1, 3), st.integers(1, 2),
    st.integers(0, 3), st.integers(0, 3),
)  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One folder for all examples."""
    return tmp_path_factory.mktemp("examples")


def convolved(proto: Any, spans: list[int], padded: list[int]) -> tuple[int, ...] | None:
    """The output's spatial size by ONNX's own rule; None if the filter does not fit.

    ONNX's rule rounds towards zero, so that a filter that is too large by less than its stride
    seems to fit.
    """
    import onnx

    if any(span > size for span, size in zip(spans, padded, strict=True)):
        return None
    try:
        made = onnx.shape_inference.infer_shapes(proto, strict_mode=True)
    except onnx.shape_inference.InferenceError:
        return None
    dims = made.graph.output[0].type.tensor_type.shape.dim[2:]
    sizes = tuple(dim.dim_value for dim in dims)
    return sizes if min(sizes) > 0 else None


@settings(max_examples=60, deadline=None)
@given(st.lists(axis, min_size=1, max_size=3), st.sampled_from(["migraphx", "onnxruntime"]))
def test_sizes_agree_with_onnx(folder: Path, axes: list[tuple[int, ...]], consumer: str) -> None:
    size, kernel, strides, dilations, begins, ends = map(list, zip(*axes, strict=True))
    proto = one_node(
        "Conv", (1, 2, *size), (3, 2, *kernel), strides=strides, dilations=dilations,
        pads=[*begins, *ends],
    )  # fmt: skip
    spans = [d * (k - 1) + 1 for d, k in zip(dilations, kernel, strict=True)]
    padded = [sum(parts) for parts in zip(size, begins, ends, strict=True)]
    expected = convolved(proto, spans, padded)
    found = problems_of(save(folder, proto), consumer)
    if expected is None:
        assert not found.complete
        return
    ((problem,), pads_agree) = (found.problems, begins == ends)
    made = spatial(problem, len(size), consumer)
    if consumer == "migraphx" or pads_agree:
        assert made == expected
    else:  # over-padded; what is too much is sliced off
        assert all(one >= other for one, other in zip(made, expected, strict=True))


def spatial(problem: Convolution, axes: int, consumer: str) -> tuple[int, ...]:
    """The output's size without the axis that was added."""
    if axes > 1:
        return problem.out_size
    return problem.out_size[1:] if consumer == "migraphx" else problem.out_size[:1]


@settings(max_examples=40, deadline=None)
@given(st.lists(axis, min_size=1, max_size=3))
def test_transposed_sizes_agree(folder: Path, axes: list[tuple[int, ...]]) -> None:
    """Backward data gives an input back: the forward output of its problem is the node's input."""
    size, kernel, strides, dilations, pads, _ = map(list, zip(*axes, strict=True))
    proto = one_node(
        "ConvTranspose", (1, 2, *size), (2, 3, *kernel), strides=strides, dilations=dilations,
        pads=[*pads, *pads],
    )  # fmt: skip
    expected = convolved(proto, [], [])
    path = save(folder, proto)
    found = problems_of(path)
    if expected is None:
        assert not found.complete
        return
    (problem,) = found.problems
    assert spatial(problem, len(size), "migraphx") == expected
    (other,) = problems_of(path, "onnxruntime").problems
    assert (other.in_size, other.out_size) == (problem.out_size, problem.in_size)
    assert replace(other, transposed=True).spatial_dims == problem.spatial_dims


def test_element_type_is_needed(tmp_path: Path) -> None:
    node = helper.make_node("Conv", ["x", "w"], ["y"])
    given_ = inputs({"x": (1, 3, 9, 9), "w": (4, 3, 3, 3)}, TensorProto.INT32)
    (entry,) = report_of(save(tmp_path, model([node], given_, ["y"]))).left_out
    assert entry.reason == "its input is not of a floating-point type"
    assert FLOAT == 1
