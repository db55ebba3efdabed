"""Small models for the tests, made with the package `onnx`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import onnx
from onnx import TensorProto, helper

from kdbforge.model.problem import Convolution, Problem
from kdbforge.problems import ModelOptions, ModelReport, ProblemList, load

__all__ = ["FLOAT", "inputs", "model", "others_of", "problems_of", "report_of", "save", "weights"]

FLOAT = TensorProto.FLOAT
Shape = Sequence[int | str | None]


def inputs(shapes: dict[str, Shape], element: int = FLOAT) -> list[Any]:
    return [helper.make_tensor_value_info(name, element, shape) for name, shape in shapes.items()]


def weights(name: str, shape: Sequence[int], element: int = FLOAT) -> Any:
    """An initialiser of zeros."""
    count = 1
    for size in shape:
        count *= size
    size = helper.tensor_dtype_to_np_dtype(element).itemsize
    return helper.make_tensor(name, element, shape, bytes(count * size), raw=True)


def model(
    nodes: Sequence[Any],
    given: Sequence[Any],
    outputs: Sequence[str],
    stored: Sequence[Any] = (),
    *,
    opset: int = 17,
    functions: Sequence[Any] = (),
    domains: Sequence[str] = (),
) -> Any:
    """A model; the types of its outputs are not declared."""
    made = [helper.make_value_info(name, onnx.TypeProto()) for name in outputs]
    graph = helper.make_graph(list(nodes), "graph", list(given), made, list(stored))
    imports = [helper.make_opsetid("", opset), *(helper.make_opsetid(d, 1) for d in domains)]
    return helper.make_model(graph, opset_imports=imports, functions=list(functions), ir_version=8)


def save(tmp_path: Path, proto: Any, name: str = "model.onnx") -> str:
    path = tmp_path / name
    path.write_bytes(proto.SerializeToString())
    return str(path)


def problems_of(
    path: str,
    consumer: str = "migraphx",
    dims: dict[str, int] | None = None,
    *,
    batch: list[int] | None = None,
    dtypes: list[str] | None = None,
) -> ProblemList:
    return load([path], batch=batch, dtypes=dtypes, models=ModelOptions(dims or {}, consumer))


def report_of(path: str, consumer: str = "migraphx", **options: Any) -> ModelReport:
    (report,) = problems_of(path, consumer, **options).models
    return report


def others_of(path: str, consumer: str = "migraphx") -> list[Problem]:
    """The problems that a model comes to and that are no convolutions."""
    found = problems_of(path, consumer)
    assert not found.models[0].left_out
    return [problem for problem in found if not isinstance(problem, Convolution)]
