"""What is fuzzed: one module each.

A target is a function that takes any bytes and returns, or raises what is a bug: it catches
`KdbforgeError` where its subject may refuse the input, and nowhere else. A module may also have
`mutate(data, rng)`, which changes an input so that more than its outermost checks are reached, and
`TOKENS`, words that the fuzzer tries.
"""

from __future__ import annotations

import importlib
from types import ModuleType

__all__ = ["NAMES", "load"]

NAMES = (
    "kdb",
    "kdb_rows",
    "elf",
    "notes",
    "bundle",
    "journal",
    "plan",
    "manifest",
    "signature",
    "profiles",
    "problems",
)


def load(name: str) -> ModuleType:
    return importlib.import_module(f"{__name__}.{name}")
