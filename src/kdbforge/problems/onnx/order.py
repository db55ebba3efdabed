"""The order in which the nodes of a graph can run; refuses graphs that have none."""

from __future__ import annotations

import heapq
from collections.abc import Container, Sequence
from typing import Any

from kdbforge.errors import InputError
from kdbforge.problems.line import shown
from kdbforge.problems.onnx.site import reads_of

__all__ = ["name_of", "ordered"]


def ordered(nodes: Sequence[Any], available: Container[str], place: str) -> list[Any]:
    """Sort nodes so that each comes behind those whose outputs it reads.

    Nodes that are in order already, as ONNX wants them, stay as they are.

    Raises
    ------
    InputError
        If tensors are made twice, made by nothing, or from each other in a circle.
    """
    maker: dict[str, int] = {}
    for index, node in enumerate(nodes):
        for name in filter(None, node.output):
            if name in maker or name in available:
                raise InputError(f"`{shown(name)}` is made twice", context=(place,))
            maker[name] = index
    waits: list[int] = [0] * len(nodes)
    readers: list[list[int]] = [[] for _ in nodes]
    for index, node in enumerate(nodes):
        for name in set(reads_of(node)):
            if name in maker:
                waits[index] += 1
                readers[maker[name]].append(index)
            elif name not in available:
                raise InputError(
                    f"Node `{shown(name_of(node, index))}` reads `{shown(name)}`, which nothing "
                    "makes",
                    context=(place,),
                )
    order = _released(waits, readers)
    if len(order) < len(nodes):
        stuck = [name_of(node, i) for i, node in enumerate(nodes) if waits[i] > 0]
        listed = ", ".join(f"`{shown(name)}`" for name in stuck[:5])
        raise InputError(f"Nodes wait for each other in a circle: {listed}", context=(place,))
    return [nodes[index] for index in order]


def _released(waits: list[int], readers: list[list[int]]) -> list[int]:
    """Indices in an order in which no one waits; `waits` keeps those that are never released."""
    ready = [index for index, count in enumerate(waits) if count == 0]  # sorted: a heap
    order: list[int] = []
    while ready:
        index = heapq.heappop(ready)
        order.append(index)
        for reader in readers[index]:
            waits[reader] -= 1
            if waits[reader] == 0:
                heapq.heappush(ready, reader)
    return order


def name_of(node: Any, index: int) -> str:
    """What to call a node: its name, else the tensor that it makes, else its place."""
    made = next(filter(None, node.output), "")
    return node.name or made or f"{node.op_type} number {index}"
