"""Changes JSON-like values: another value somewhere, one less, one twice."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Any

__all__ = ["VALUES", "change", "nodes"]

VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 64, 1 << 63, 10**400, 0.5, float("inf"), float("nan")),
    *("", "x", "../x", "/etc/x", "\0", "\x1b[31m", "\ud800", "9" * 30, "é"),
    *([], {}, [[]], [""], [0], {"": 0}, {"name": "x"}),
)


def nodes(value: Any) -> Iterator[list[Any] | dict[Any, Any]]:
    """All lists and maps that are not empty, from the outside in."""
    if isinstance(value, (list, dict)) and value:
        yield value
        for item in list(value.values() if isinstance(value, dict) else value):
            yield from nodes(item)


def change(root: Any, rng: random.Random, values: Sequence[Any] = VALUES) -> None:
    """Change something within a list or map, in place."""
    found = list(nodes(root))
    if not found:
        return
    node = rng.choice(found)
    key: Any = rng.randrange(len(node)) if isinstance(node, list) else rng.choice(list(node))
    what = rng.randrange(5)
    if what == 0:
        del node[key]
    elif what == 1 and isinstance(node, list):
        node.append(node[key])
    elif what == 2:
        other = rng.choice(found)
        copied = rng.choice(list(other.values() if isinstance(other, dict) else other))
        # Never a container into itself: that would have no end.
        if not isinstance(copied, (list, dict)):
            node[key] = copied
    else:
        node[key] = rng.choice(values)
