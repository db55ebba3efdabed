"""How shapes are found: symbols, batch, computed shapes, subgraphs, loops, functions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("onnx", reason="the extra `onnx` is not installed")

import numpy as np
from onnx import TensorProto, helper, numpy_helper
from onnx_models import FLOAT, inputs, model, problems_of, report_of, save, weights

from kdbforge.errors import InputError, UnknownNameError
from kdbforge.problems import ModelOptions, ProblemList, load

CONV = helper.make_node("Conv", ["x", "w"], ["y"], name="conv")
WEIGHTS = weights("w", (4, 3, 3, 3))
SYMBOLS: tuple[Any, ...] = ("batch", 3, "height", "width")


def constant(name: str, values: Any, dtype: type = np.int64) -> Any:
    return numpy_helper.from_array(np.array(values, dtype=dtype), name)


def sizes(found: ProblemList) -> list[tuple[int, ...]]:
    return [(problem.batch, problem.in_channels, *problem.in_size) for problem in found]


# Inputs.


def test_symbols_and_batches(tmp_path: Path) -> None:
    path = save(tmp_path, model([CONV], inputs({"x": SYMBOLS}), ["y"], [WEIGHTS]))
    found = problems_of(path, dims={"height": 8, "width": 9}, batch=[1, 8])
    assert sizes(found) == [(1, 3, 8, 9), (8, 3, 8, 9)]
    assert found.origins == (f"{path}:conv", f"{path}:conv")
    assert sizes(problems_of(path, dims={"batch": 2, "height": 8, "width": 9})) == [(2, 3, 8, 9)]


@pytest.mark.parametrize(
    ("shape", "dims", "batch", "message", "hint"),
    [
        (SYMBOLS, {"height": 8, "width": 8}, None,
         "Dimension `batch` (axis 0 of input `x`) has no size",
         "give it a size: `--batch N`, or `--dim batch=N`"),
        (SYMBOLS, {"height": 8}, [1],
         "Dimension `width` (axis 3 of input `x`) has no size",
         "give it a size: `--dim width=N`"),
        ((1, 3, None, 8), {}, None,
         "Axis 2 of input `x` has neither a size nor a name", "give it a size: `--dim x.2=N`"),
        ((1, 3, 0, 8), {}, None,
         "Axis 2 of input `x` is 0, which is no size", "give it a size: `--dim x.2=N`"),
        ((1, 3, -1, 8), {}, None,
         "Axis 2 of input `x` is -1, which is no size", "give it a size: `--dim x.2=N`"),
        ((1, 3, 2**31, 8), {}, None,
         "Axis 2 of input `x` is 2147483648, over 2147483647", None),
    ],
)  # fmt: skip
def test_sizes_that_are_missing(
    tmp_path: Path, shape: Any, dims: dict[str, int], batch: Any, message: str, hint: str | None
) -> None:
    path = save(tmp_path, model([CONV], inputs({"x": shape}), ["y"], [WEIGHTS]))
    with pytest.raises(InputError) as caught:
        problems_of(path, dims=dims, batch=batch)
    assert caught.value.message == message
    assert caught.value.hint == hint
    assert caught.value.context == (path,)


def test_an_axis_by_its_place(tmp_path: Path) -> None:
    path = save(tmp_path, model([CONV], inputs({"x": (1, 3, None, -1)}), ["y"], [WEIGHTS]))
    assert sizes(problems_of(path, dims={"x.2": 8, "x.3": 9})) == [(1, 3, 8, 9)]
    path = save(tmp_path, model([CONV], inputs({"x": (1, 3, 5, 5)}), ["y"], [WEIGHTS]))
    assert sizes(problems_of(path, dims={"x.2": 8})) == [(1, 3, 8, 5)]


def test_names_that_no_input_has(tmp_path: Path) -> None:
    path = save(tmp_path, model([CONV], inputs({"x": SYMBOLS}), ["y"], [WEIGHTS]))
    dims = {"height": 8, "width": 9, "heigth": 8}
    with pytest.raises(UnknownNameError, match="Unknown dimension `heigth`") as caught:
        problems_of(path, dims=dims, batch=[1])
    assert "`height`" in str(caught.value.hint)


def test_a_dimension_may_be_of_another_model(tmp_path: Path) -> None:
    one = save(tmp_path, model([CONV], inputs({"x": (1, 3, "h", 8)}), ["y"], [WEIGHTS]), "1.onnx")
    two = save(tmp_path, model([CONV], inputs({"x": (1, 3, 8, "v")}), ["y"], [WEIGHTS]), "2.onnx")
    found = load([one, two], models=ModelOptions({"h": 7, "v": 6}))
    assert sizes(found) == [(1, 3, 7, 8), (1, 3, 8, 6)]


def test_a_fixed_batch_is_set_anew(tmp_path: Path) -> None:
    """All inputs that agree in their first axis are of the batch, if they have a second one."""
    nodes = [
        CONV,
        helper.make_node("Conv", ["z", "w"], ["v"]),
        helper.make_node("Mul", ["r", "one"], ["q"]),
    ]
    given = inputs({"x": (1, 3, 8, 8), "z": (1, 3, 9, 9), "r": (1,)})
    stored = [WEIGHTS, constant("one", [1], np.float32)]
    path = save(tmp_path, model(nodes, given, ["y", "v", "q"], stored))
    assert sizes(problems_of(path, batch=[4])) == [(4, 3, 8, 8), (4, 3, 9, 9)]


def test_only_symbols_are_bound_where_there_are_any(tmp_path: Path) -> None:
    nodes = [CONV, helper.make_node("Conv", ["z", "w"], ["v"])]
    given = inputs({"x": ("n", 3, 8, 8), "z": (2, 3, "n", 9)})
    path = save(tmp_path, model(nodes, given, ["y", "v"], [WEIGHTS]))
    assert sizes(problems_of(path, batch=[4])) == [(4, 3, 8, 8), (2, 3, 4, 9)]


def test_batch_and_dimension_contradict(tmp_path: Path) -> None:
    path = save(tmp_path, model([CONV], inputs({"x": ("n", 3, 8, 8)}), ["y"], [WEIGHTS]))
    with pytest.raises(InputError, match="`--dim n=2` and `--batch 4` bind the same dimension"):
        problems_of(path, dims={"n": 2}, batch=[4])


def test_initialisers_are_no_inputs(tmp_path: Path) -> None:
    """Before IR version 4, initialisers were listed as inputs, too."""
    given = inputs({"x": (1, 3, 8, 8), "w": ("what", 3, 3, 3)})
    assert len(problems_of(save(tmp_path, model([CONV], given, ["y"], [WEIGHTS])))) == 1


# Shapes that are computed.


def test_a_shape_from_shapes(tmp_path: Path) -> None:
    """What exporters write for `x.view(x.shape[0], 3, -1, 8)`, and for an upsampling by 2."""
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Gather", ["s", "zero"], ["n"], axis=0),
        helper.make_node("Unsqueeze", ["n", "axes"], ["n1"]),
        helper.make_node("Concat", ["n1", "rest"], ["target"], axis=0),
        helper.make_node("Reshape", ["x", "target"], ["r"]),
        helper.make_node("Shape", ["r"], ["t"], start=2),
        helper.make_node("Mul", ["t", "two"], ["hw"]),
        helper.make_node("Shape", ["r"], ["nc"], end=2),
        helper.make_node("Concat", ["nc", "hw"], ["size"], axis=0),
        helper.make_node("Resize", ["r", "", "", "size"], ["up"]),
        helper.make_node("Conv", ["up", "w"], ["y"]),
    ]
    stored = [
        WEIGHTS, constant("zero", 0), constant("axes", [0]), constant("rest", [3, -1, 8]),
        constant("two", [2]),
    ]  # fmt: skip
    path = save(tmp_path, model(nodes, inputs({"x": ("n", 6, 16)}), ["y"], stored))
    assert sizes(problems_of(path, batch=[1, 2])) == [(1, 3, 8, 16), (2, 3, 8, 16)]


def test_a_shape_that_depends_on_data(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("NonZero", ["x"], ["i"], name="search"),
        helper.make_node("Cast", ["i"], ["f"], to=FLOAT),
        helper.make_node("Unsqueeze", ["f", "axes"], ["u"]),
        helper.make_node("Conv", ["u", "w"], ["y"], name="conv"),
    ]
    stored = [weights("w", (4, 2, 3)), constant("axes", [0])]
    path = save(tmp_path, model(nodes, inputs({"x": (8, 8)}), ["y"], stored))
    (entry,) = report_of(path).left_out
    assert entry.node == "conv"
    assert entry.reason == (
        "its shapes are not known: the shape that `search` (NonZero) makes depends on data"
    )


def test_a_shape_from_a_file_that_is_not_read(tmp_path: Path) -> None:
    """External data is never opened, whatever the model says where it is."""
    target = helper.make_tensor("target", TensorProto.INT64, [4], bytes(32), raw=True)
    target.ClearField("raw_data")
    target.data_location = TensorProto.EXTERNAL
    target.external_data.add(key="location", value="../../../etc/passwd")
    nodes = [helper.make_node("Reshape", ["x", "target"], ["r"]), CONV]
    nodes[1] = helper.make_node("Conv", ["r", "w"], ["y"], name="conv")
    outside = weights("w", (4, 3, 3, 3))
    outside.ClearField("raw_data")
    outside.data_location = TensorProto.EXTERNAL
    outside.external_data.add(key="location", value="model.onnx")  # itself
    path = save(tmp_path, model(nodes, inputs({"x": (1, 192)}), ["y"], [target, outside]))
    (entry,) = report_of(path).left_out
    assert entry.reason == (
        "its shapes are not known: a shape is computed from `target`, which is stored in another "
        "file, and such files are not read"
    )


def test_weights_in_a_file_that_is_missing(tmp_path: Path) -> None:
    outside = weights("w", (4, 3, 3, 3))
    outside.ClearField("raw_data")
    outside.data_location = TensorProto.EXTERNAL
    outside.external_data.add(key="location", value="missing.bin")
    path = save(tmp_path, model([CONV], inputs({"x": (1, 3, 8, 8)}), ["y"], [outside]))
    assert sizes(problems_of(path)) == [(1, 3, 8, 8)]


def test_unknown_operators(tmp_path: Path) -> None:
    """They are listed; what follows them needs a shape in the file."""
    nodes = [
        helper.make_node("Strange", ["x"], ["s"], domain="com.example", name="strange"),
        helper.make_node("Conv", ["s", "w"], ["y"], name="conv"),
        helper.make_node("Conv", ["x", "w"], ["z"], name="other"),
    ]
    given = inputs({"x": ("n", 3, 8, 8)})
    proto = model(nodes, given, ["y", "z"], [WEIGHTS], domains=["com.example"])
    report = report_of(save(tmp_path, proto), batch=[2])
    assert [(e.node, e.reason) for e in report.left_out] == [
        ("conv", "its shapes are not known: operator `com.example.Strange` of node `strange` is "
         "not known")
    ]  # fmt: skip
    assert [(u.operator, u.goes) for u in report.operators if "." in u.operator] == [
        ("com.example.Strange", "unknown operator")
    ]
    proto.graph.value_info.add().CopyFrom(helper.make_tensor_value_info("s", FLOAT, ("n", 3, 7, 7)))
    path = save(tmp_path, proto)
    assert sizes(problems_of(path, batch=[2])) == [(2, 3, 7, 7), (2, 3, 8, 8)]


def test_a_node_that_is_wrong_costs_only_itself(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], name="bad", strides=[0, 1]),
        helper.make_node("Conv", ["x", "w"], ["b"], name="worse", pads=[1]),
        helper.make_node("Conv", ["x", "w"], ["c"], name="worst", group=5),
        helper.make_node("Conv", ["x", "w"], ["d"], name="odd", auto_pad="MAYBE"),
        CONV,
    ]
    path = save(tmp_path, model(nodes, inputs({"x": (1, 3, 8, 8)}), ["y"], [WEIGHTS]))
    found = problems_of(path)
    assert len(found) == 1
    assert [(e.node, e.reason) for e in found.models[0].left_out] == [
        ("bad", "a stride, dilation or window is below 1"),
        ("worse", "`pads` has 1 numbers, not 4"),
        ("worst", "3 input channels are not those of 5 groups of 3 in the filter"),
        ("odd", "`MAYBE` of `auto_pad` is not one of NOTSET, VALID, SAME_UPPER, SAME_LOWER"),
    ]


# Graphs in graphs.


def graph(nodes: list[Any], given: list[Any], outputs: list[str], stored: list[Any]) -> Any:
    import onnx

    made = [helper.make_value_info(name, onnx.TypeProto()) for name in outputs]
    return helper.make_graph(nodes, "body", given, made, stored)


def test_branches(tmp_path: Path) -> None:
    """Both are used; one alone where the condition is known; inner names may hide none."""
    then = graph(
        [helper.make_node("Conv", ["x", "u"], ["t"], name="then")], [], ["t"],
        [weights("u", (5, 3, 3, 3))],
    )  # fmt: skip
    other = graph([helper.make_node("Conv", ["x", "w"], ["e"], name="else")], [], ["e"], [])
    branch = helper.make_node("If", ["c"], ["y"], name="if", then_branch=then, else_branch=other)
    after = helper.make_node("Conv", ["y", "v"], ["z"], name="after")
    given = [*inputs({"x": (1, 3, 8, 8)}), *inputs({"c": ()}, TensorProto.BOOL)]
    stored = [WEIGHTS, weights("v", (2, 4, 1, 1))]
    path = save(tmp_path, model([branch, after], given, ["z"], stored))
    found = problems_of(path)
    assert [origin.removeprefix(f"{path}:") for origin in found.origins] == [
        "if/else_branch/else", "if/then_branch/then",
    ]  # fmt: skip
    assert [e.reason for e in found.models[0].left_out] == [
        "its shapes are not known: the branches of `if` differ in what they make"
    ]
    known = model([branch, after], given[:1], ["z"], [*stored, constant("c", False, np.bool_)])
    found = problems_of(save(tmp_path, known))
    assert [problem.out_channels for problem in found] == [4, 2]


def loop(body: Any, given: list[Any], stored: list[Any], outputs: int = 2) -> Any:
    names = ["last", "all"][:outputs]
    node = helper.make_node("Loop", ["count", "", "x"], names, name="loop", body=body)
    after = helper.make_node("Conv", ["last", "v"], ["z"], name="after")
    return model([node, after], given, ["z"], stored)


def body_of(nodes: list[Any], outputs: list[str]) -> Any:
    given = [
        *inputs({"i": ()}, TensorProto.INT64), *inputs({"go": ()}, TensorProto.BOOL),
        helper.make_tensor_value_info("state", FLOAT, None),
    ]  # fmt: skip
    return graph(nodes, given, ["go", *outputs], [])


def test_a_loop(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Conv", ["state", "w"], ["next"], name="in", pads=[1, 1, 1, 1]),
        helper.make_node("ReduceSum", ["next"], ["sum"], keepdims=0),
    ]
    stored = [weights("w", (3, 3, 3, 3)), weights("v", (5, 3, 1, 1)), constant("count", 4)]
    proto = loop(body_of(nodes, ["next", "sum"]), inputs({"x": (1, 3, 8, 8)}), stored)
    path = save(tmp_path, proto)
    found = problems_of(path)
    assert [o.removeprefix(f"{path}:") for o in found.origins] == ["loop/in", "after"]
    assert sizes(found) == [(1, 3, 8, 8), (1, 3, 8, 8)]


def test_a_loop_that_changes_shapes(tmp_path: Path) -> None:
    nodes = [helper.make_node("Conv", ["state", "w"], ["next"], name="in")]
    stored = [weights("w", (3, 3, 3, 3)), weights("v", (5, 3, 1, 1)), constant("count", 2)]
    proto = loop(body_of(nodes, ["next"]), inputs({"x": (1, 3, 8, 8)}), stored, outputs=1)
    report = report_of(save(tmp_path, proto))
    assert [entry.node for entry in report.left_out] == ["loop/in", "after"]
    assert report.left_out[0].reason.endswith(
        "`loop` carries a tensor whose shape changes from round to round"
    )


def test_a_scan(tmp_path: Path) -> None:
    body = graph(
        [
            helper.make_node("Conv", ["slice", "w"], ["one"], name="in"),
            helper.make_node("Identity", ["state"], ["state_out"]),
        ],
        [helper.make_tensor_value_info(n, FLOAT, None) for n in ("state", "slice")],
        ["state_out", "one"],
        [],
    )
    node = helper.make_node(
        "Scan", ["s", "x"], ["last", "all"], name="scan", body=body, num_scan_inputs=1,
        scan_input_axes=[1], scan_output_axes=[2],
    )  # fmt: skip
    after = helper.make_node("Conv", ["all", "v"], ["z"], name="after")
    given = inputs({"x": (1, 7, 3, 8, 8), "s": (2,)})
    stored = [WEIGHTS, weights("v", (2, 4, 1, 1, 1))]
    path = save(tmp_path, model([node, after], given, ["z"], stored))
    assert sizes(problems_of(path)) == [(1, 3, 8, 8), (1, 4, 7, 6, 6)]


def function(name: str, nodes: list[Any], **options: Any) -> Any:
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("local", 1)]
    return helper.make_function("local", name, ["a", "k"], ["b"], nodes, imports, **options)


def test_functions(tmp_path: Path) -> None:
    """Their attributes come from the call; they may call each other."""
    conv = helper.make_node("Conv", ["a", "k"], ["b"], name="conv")
    strides = conv.attribute.add(name="strides", ref_attr_name="step")
    strides.type = 7  # INTS
    inner = function("Inner", [conv], attributes=["step"])
    call = helper.make_node("Inner", ["a", "k"], ["b"], domain="local", name="call")
    call.attribute.add(name="step", ref_attr_name="pace").type = 7
    outer = function("Outer", [call], attributes=["pace"])
    nodes = [
        helper.make_node("Outer", ["x", "w"], ["y"], domain="local", name="one", pace=[2, 2]),
        helper.make_node("Inner", ["x", "w"], ["z"], domain="local", name="two"),
    ]
    proto = model(
        nodes, inputs({"x": (1, 3, 8, 8)}), ["y", "z"], [WEIGHTS], functions=[inner, outer],
        domains=["local"],
    )  # fmt: skip
    path = save(tmp_path, proto)
    found = problems_of(path)
    assert [
        (origin.removeprefix(f"{path}:"), problem.strides)
        for origin, problem in zip(found.origins, found, strict=True)
    ] == [("one/call/conv", (2, 2)), ("two/conv", (1, 1))]


def test_functions_that_call_themselves(tmp_path: Path) -> None:
    calls = [
        function(one, [helper.make_node(other, ["a", "k"], ["b"], domain="local", name="call")])
        for one, other in (("Ping", "Pong"), ("Pong", "Ping"))
    ]
    node = helper.make_node("Ping", ["x", "w"], ["y"], domain="local", name="node")
    proto = model(
        [node], inputs({"x": (1, 3, 8, 8)}), ["y"], [WEIGHTS], functions=calls, domains=["local"]
    )
    path = save(tmp_path, proto)
    with pytest.raises(InputError, match=r"Function `local\.Ping` calls itself") as caught:
        problems_of(path)
    assert caught.value.context == (f"{path}:node/call/call",)


def test_functions_that_explode(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten calls of ten calls of ... are millions of nodes in a small file."""
    monkeypatch.setattr("kdbforge.problems.onnx.walk.MAX_NODES", 300)
    leaf = function("F0", [helper.make_node("Identity", ["a"], ["b"])])
    functions = [leaf]
    for depth in range(1, 8):
        nodes = [
            helper.make_node(
                f"F{depth - 1}", ["a", "k"], ["b" if i == 9 else f"t{i}"], domain="local"
            )
            for i in range(10)
        ]
        functions.append(function(f"F{depth}", nodes))
    node = helper.make_node("F7", ["x", "w"], ["y"], domain="local")
    proto = model(
        [node], inputs({"x": (1, 3, 8, 8)}), ["y"], [WEIGHTS], functions=functions,
        domains=["local"],
    )  # fmt: skip
    with pytest.raises(InputError, match="More than 300 nodes, with functions and loops"):
        problems_of(save(tmp_path, proto))
