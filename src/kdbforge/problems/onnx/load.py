"""Opens network files: how large, how deep and of which opset they may be. Data files stay shut."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import onnx
from google.protobuf.message import DecodeError, Message

from kdbforge.errors import HostError, InputError, UnsupportedError
from kdbforge.problems.line import shown

__all__ = [
    "MAX_BYTES",
    "MAX_DEPTH",
    "MAX_NODES",
    "MIN_OPSET",
    "load_model",
    "opset_of",
    "subgraphs",
]

#: Protobuf's own limit for one message; larger networks keep their weights in other files.
MAX_BYTES = 2**31 - 1
#: Nodes in a file, and nodes walked through when functions and loops are followed.
MAX_NODES = 100_000
#: How deep graphs may stand within graphs and functions call functions.
MAX_DEPTH = 32
#: Older ones are of 2017, and lack rules that shapes are found with. ONNX Runtime wants 7.
MIN_OPSET = 6

#: In older versions, ONNX's rules read beyond their tables on models that are wrong (a Conv of two
#: axes, for one), and the whole process dies of it.
_LEAST_PACKAGE = (1, 22)
_STANDARD = ("", "ai.onnx")
_GIT_LFS = b"version https://git-lfs"


def load_model(path: str) -> Any:
    """Read a network file without the data files that it may name.

    Raises
    ------
    InputError
        If it cannot be read, is larger than 2 GiB, is no ONNX model, or its graph is too deep.
    UnsupportedError
        If its opset is older than 6 or newer than the installed package `onnx` knows.
    HostError
        If that package is older than 1.22.
    """
    _check_package(onnx.__version__)
    model = onnx.ModelProto()
    data = _read(path)
    try:
        model.ParseFromString(data)
    except DecodeError as error:
        raise _no_model(path, data) from error
    if not model.graph.node and not model.opset_import:
        raise _no_model(path, data)
    if not _is_text(model):
        raise InputError(f"`{shown(path)}` holds names that are not UTF-8 text")
    count = _count(model.graph, path, 0)
    for function in model.functions:
        count += _count(function, path, 0)
    if count > MAX_NODES:
        raise InputError(f"`{shown(path)}` has {count:,} nodes, more than {MAX_NODES:,}")
    _check_opset(path, opset_of(model.opset_import))
    return model


def _check_package(version: str) -> None:
    """Refuse a package that dies of models that are wrong."""
    numbers = tuple(int(number) for number in re.findall(r"[0-9]+", version)[:2])
    if numbers < _LEAST_PACKAGE:
        least = ".".join(map(str, _LEAST_PACKAGE))
        raise HostError(
            f"The Python package `onnx` {version} is too old, {least} is needed",
            hint="`pip install -U 'kdbforge[onnx]'`",
        )


def _read(path: str) -> bytes:
    try:
        size = Path(path).stat().st_size
        if size > MAX_BYTES:
            raise InputError(
                f"`{shown(path)}` has {size:,} bytes, more than an ONNX file can have",
                hint="large weights belong into external data files, which are not read",
            )
        with Path(path).open("rb") as file:
            data = file.read(MAX_BYTES + 1)  # what is no regular file has no size
    except OSError as error:
        raise InputError(f"Cannot read `{shown(path)}`: {error.strerror}") from error
    except ValueError as error:  # a zero byte in the name
        raise InputError(f"Cannot read `{shown(path)}`: {error}") from error
    if len(data) > MAX_BYTES:
        raise InputError(f"`{shown(path)}` is larger than 2 GiB")
    if not data:
        raise InputError(f"`{shown(path)}` is empty")
    return data


def _no_model(path: str, data: bytes) -> InputError:
    if data.startswith(_GIT_LFS):
        return InputError(f"`{shown(path)}` is a Git LFS pointer", hint="fetch it: `git lfs pull`")
    return InputError(f"`{shown(path)}` is no ONNX model, or is cut off or damaged")


def _is_text(message: Any) -> bool:
    """Whether all strings in a message are text; protobuf gives others as bytes."""
    for field, value in message.ListFields():
        if field.type == field.TYPE_STRING:
            values = [value] if isinstance(value, str | bytes) else value
            if not all(isinstance(text, str) for text in values):
                return False
        elif field.type == field.TYPE_MESSAGE:
            inner = [value] if isinstance(value, Message) else value
            if not all(map(_is_text, inner)):
                return False
    return True


def opset_of(imports: Any) -> int:
    """The version of ONNX's own operators; 1 if none is named."""
    versions = [int(entry.version) for entry in imports if entry.domain in _STANDARD]
    return max(versions, default=1)


def _check_opset(path: str, opset: int) -> None:
    newest = onnx.defs.onnx_opset_version()
    if MIN_OPSET <= opset <= newest:
        return
    raise UnsupportedError(
        f"Opset {opset} of `{shown(path)}` is not supported, which are {MIN_OPSET} to {newest}",
        hint="convert the model with `onnx.version_converter`"
        if opset < MIN_OPSET
        else f"install a newer package `onnx`; the one here is {onnx.__version__}",
    )


def _count(graph: Any, path: str, depth: int) -> int:
    """Number of nodes of a graph or function and all graphs within.

    The graph within a graph within ... is bounded by protobuf's own limit of nesting.
    """
    if depth > MAX_DEPTH:
        raise InputError(f"Graphs of `{shown(path)}` stand more than {MAX_DEPTH} deep in graphs")
    inner = (sub for node in graph.node for _, sub in subgraphs(node))
    return len(graph.node) + sum(_count(sub, path, depth + 1) for sub in inner)


def subgraphs(node: Any) -> Iterator[tuple[str, Any]]:
    """Names and graphs of a node's attributes."""
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.name, attribute.g
        for graph in attribute.graphs:
            yield attribute.name, graph
