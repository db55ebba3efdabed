"""Files that are broken, huge, or wrong: an error with file and node, never a crash."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("onnx", reason="the extra `onnx` is not installed")

import onnx
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper
from onnx_models import inputs, model, problems_of, save, weights

from kdbforge.errors import InputError, KdbforgeError, UnsupportedError
from kdbforge.problems.onnx.load import MAX_BYTES

CONV = helper.make_node("Conv", ["x", "w"], ["y"], name="conv")
WEIGHTS = weights("w", (4, 3, 3, 3))


def small(**options: Any) -> Any:
    return model([CONV], inputs({"x": (1, 3, 8, 8)}), ["y"], [WEIGHTS], **options)


def failure(path: str) -> InputError:
    with pytest.raises(InputError) as caught:
        problems_of(path)
    assert caught.value.exit_code == 2
    return caught.value


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "`{}` is empty"),
        (b"hello world\n", "`{}` is no ONNX model, or is cut off or damaged"),
        (b"\x08\x08", "`{}` is no ONNX model, or is cut off or damaged"),
        (b"<!DOCTYPE html><html></html>", "`{}` is no ONNX model, or is cut off or damaged"),
        (b"version https://git-lfs.github.com/spec/v1\noid x\n", "`{}` is a Git LFS pointer"),
        (b"\x3a\x80\x80\x80\x80\x08" + b"\x0a\x00" * 8, "`{}` is no ONNX model, or is cut off or "
         "damaged"),
    ],
)  # fmt: skip
def test_files_that_are_no_models(tmp_path: Path, data: bytes, message: str) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(data)
    assert failure(str(path)).message == message.format(path)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "folder.onnx").mkdir()
    for name, reason in (("none.onnx", "No such file"), ("folder.onnx", "Is a directory")):
        assert f"`: {reason}" in failure(str(tmp_path / name)).message
    assert failure("a\0b.onnx").message.startswith("Cannot read `")


def test_a_huge_file_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "huge.onnx"
    with path.open("wb") as file:
        file.truncate(MAX_BYTES + 1)  # sparse
    message = failure(str(path)).message
    assert message == f"`{path}` has 2,147,483,648 bytes, more than an ONNX file can have"


def test_a_model_that_is_cut_off(tmp_path: Path) -> None:
    data = small().SerializeToString()
    path = tmp_path / "model.onnx"
    for length in range(1, len(data), 3):
        path.write_bytes(data[:length])
        assert failure(str(path)).message


def test_opsets(tmp_path: Path) -> None:
    newest = onnx.defs.onnx_opset_version()
    for opset in (6, newest):
        assert len(problems_of(save(tmp_path, small(opset=opset)))) == 1
    old = failure(save(tmp_path, small(opset=5)))
    assert isinstance(old, UnsupportedError)
    assert old.message.startswith("Opset 5 of `")
    assert old.message.endswith(f"is not supported, which are 6 to {newest}")
    new = failure(save(tmp_path, small(opset=newest + 1)))
    assert new.message.startswith(f"Opset {newest + 1} of `")
    assert new.hint is not None
    assert onnx.__version__ in new.hint


def test_an_old_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its rules crash on models that are wrong."""
    monkeypatch.setattr(onnx, "__version__", "1.21.0")
    with pytest.raises(KdbforgeError) as caught:
        problems_of(save(tmp_path, small()))
    assert caught.value.message == "The Python package `onnx` 1.21.0 is too old, 1.22 is needed"
    monkeypatch.setattr(onnx, "__version__", "2.0.1rc1")
    assert len(problems_of(save(tmp_path, small()))) == 1


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ([("Relu", "b", "a"), ("Relu", "a", "b")],
         "Nodes wait for each other in a circle: `one`, `two`"),
        ([("Relu", "a", "a")], "Nodes wait for each other in a circle: `one`"),
        ([("Relu", "x", "a"), ("Tanh", "x", "a")], "`a` is made twice"),
        ([("Relu", "x", "x")], "`x` is made twice"),
        ([("Relu", "what", "a")], "Node `one` reads `what`, which nothing makes"),
    ],
)  # fmt: skip
def test_graphs_that_cannot_run(
    tmp_path: Path, nodes: list[tuple[str, str, str]], message: str
) -> None:
    made = [
        helper.make_node(op, [source], [target], name=name)
        for (op, source, target), name in zip(nodes, ("one", "two"), strict=False)
    ]
    path = save(tmp_path, model([*made, CONV], inputs({"x": (1, 3, 8, 8)}), ["y"], [WEIGHTS]))
    error = failure(path)
    assert error.message == message
    assert error.context == (path,)


def test_an_output_that_nothing_makes(tmp_path: Path) -> None:
    path = save(tmp_path, model([CONV], inputs({"x": (1, 3, 8, 8)}), ["y", "q"], [WEIGHTS]))
    assert failure(path).message == "Output `q` is made by no node"


def test_nodes_may_be_out_of_order(tmp_path: Path) -> None:
    """ONNX does not allow it, and runtimes take it."""
    nodes = [
        helper.make_node("Conv", ["a", "v"], ["y"], name="second"),
        helper.make_node("Conv", ["x", "w"], ["a"], name="first"),
    ]
    stored = [WEIGHTS, weights("v", (2, 4, 1, 1))]
    path = save(tmp_path, model(nodes, inputs({"x": (1, 3, 8, 8)}), ["y"], stored))
    origins = problems_of(path).origins
    assert [origin.removeprefix(f"{path}:") for origin in origins] == ["first", "second"]


def field(number: int, payload: bytes) -> bytes:
    """A field of a protobuf message, as bytes."""
    length, size = b"", len(payload)
    while size > 127:
        length += bytes([size % 128 + 128])
        size //= 128
    return bytes([number * 8 + 2]) + length + bytes([size]) + payload


@pytest.mark.parametrize("depth", [28, 40, 5000])
def test_graphs_that_are_deep(tmp_path: Path, depth: int) -> None:
    """Protobuf, or we, refuse what Python has no stack for."""
    graph = b""
    for _ in range(depth):  # GraphProto.node, NodeProto.attribute, AttributeProto.g
        graph = field(1, field(5, field(6, graph)))
    path = tmp_path / "model.onnx"
    path.write_bytes(field(8, b"\x10\x11") + field(7, graph))
    if depth < 30:
        assert problems_of(str(path)).models[0].nodes == 1
    else:
        assert failure(str(path)).message


@pytest.mark.parametrize(
    "values",
    [[2**62, 2**62], [-5, -7], [10**12], [0, 10**15]],
)
@pytest.mark.parametrize("op", ["ConstantOfShape", "Expand", "Tile", "Reshape"])
def test_shapes_that_are_bombs(tmp_path: Path, op: str, values: list[int]) -> None:
    """What a model says to be huge is not made."""
    target = helper.make_tensor("t", TensorProto.INT64, [len(values)], values)
    seed = helper.make_tensor("seed", TensorProto.INT64, [1, 1], [1])
    names = ["t"] if op == "ConstantOfShape" else ["seed", "t"]
    nodes = [helper.make_node(op, names, ["big"], name="bomb"), CONV]
    path = save(tmp_path, model(nodes, inputs({"x": (1, 3, 8, 8)}), ["y"], [WEIGHTS, target, seed]))
    assert len(problems_of(path)) == 1


def test_a_range_that_is_a_bomb(tmp_path: Path) -> None:
    stored = [
        helper.make_tensor(name, TensorProto.FLOAT, [], [value])
        for name, value in (("a", 0.0), ("b", 1e30), ("c", 1e-30))
    ]
    nodes = [helper.make_node("Range", ["a", "b", "c"], ["r"]), CONV]
    path = save(tmp_path, model(nodes, inputs({"x": (1, 3, 8, 8)}), ["y"], [WEIGHTS, *stored]))
    assert len(problems_of(path)) == 1


def test_tensors_whose_data_does_not_fit(tmp_path: Path) -> None:
    short = helper.make_tensor("t", TensorProto.INT64, [2], [1, 3])
    short.ClearField("int64_data")
    nodes = [helper.make_node("Reshape", ["x", "t"], ["r"], name="reshape")]
    nodes.append(helper.make_node("Conv", ["r", "w"], ["y"], name="conv"))
    path = save(tmp_path, model(nodes, inputs({"x": (1, 3, 8, 8)}), ["y"], [WEIGHTS, short]))
    (entry,) = problems_of(path).models[0].left_out
    assert entry.node == "conv"


def test_names_with_control_characters(tmp_path: Path) -> None:
    node = helper.make_node("Conv", ["x", "w"], ["y"], name="\x1b[31mred\n", strides=[0, 0])
    path = save(tmp_path, model([node], inputs({"x": (1, 3, 8, 8)}), ["y"], [WEIGHTS]))
    (entry,) = problems_of(path).models[0].left_out
    assert entry.node.isprintable()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("broken")


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 6))
def test_damaged_bytes_raise_nothing_else(folder: Path, seed: int, count: int) -> None:
    """A model with changed bytes gives problems, or an error of ours."""
    chance = random.Random(seed)
    data = bytearray(DAMAGED)
    for _ in range(count):
        data[chance.randrange(len(data))] = chance.randrange(256)
    path = folder / "model.onnx"
    path.write_bytes(data)
    error, total = None, 0
    try:
        total = problems_of(str(path), batch=[1]).total
    except KdbforgeError as caught:
        error = caught
    assert total >= 0 if error is None else error.message


def _damaged() -> bytes:
    """A model with most of what the reader follows."""
    then = helper.make_graph([CONV], "then", [], [helper.make_value_info("y", onnx.TypeProto())])
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Slice", ["s", "a", "b"], ["n"]),
        helper.make_node("Concat", ["n", "t"], ["u"], axis=0),
        helper.make_node("Reshape", ["x", "u"], ["r"]),
        helper.make_node("Conv", ["r", "w"], ["c"], pads=[1, 1, 1, 1], strides=[2, 2]),
        helper.make_node("MaxPool", ["c"], ["p"], kernel_shape=[2, 2]),
        helper.make_node("ReduceMean", ["p"], ["m"], axes=[1, 2]),
        helper.make_node("If", ["c0"], ["y1"], then_branch=then, else_branch=then),
        helper.make_node("F", ["x", "w"], ["z"], domain="local"),
    ]
    stored = [
        WEIGHTS,
        *(
            helper.make_tensor(name, TensorProto.INT64, [len(values)], values)
            for name, values in (("a", [0]), ("b", [2]), ("t", [-1, 8]))
        ),
    ]
    function = helper.make_function(
        "local", "F", ["a", "b"], ["c"], [helper.make_node("Conv", ["a", "b"], ["c"])],
        [helper.make_opsetid("", 17)],
    )  # fmt: skip
    given_ = [*inputs({"x": ("n", 3, 8, 8)}), *inputs({"c0": ()}, TensorProto.BOOL)]
    proto = model(nodes, given_, ["m", "y1"], stored, functions=[function], domains=["local"])
    return bytes(proto.SerializeToString())


DAMAGED = _damaged()


def test_the_model_that_is_damaged_is_good(folder: Path) -> None:
    path = folder / "good.onnx"
    path.write_bytes(DAMAGED)
    found = problems_of(str(path), batch=[1])
    assert {getattr(problem, "primitive", "conv") for problem in found} == {"conv", "pool"}
    assert not found.models[0].left_out
