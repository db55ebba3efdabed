"""The suites by name, from the data files beside this module.

A data file holds `# key: value` lines (title, source, parameters) and then a MIOpenDriver line
for each convolution, with its name behind a `#`; or, with `includes`, names of other suites.
"""

from __future__ import annotations

import importlib.resources
from collections.abc import Iterator, Mapping
from functools import cache, partial
from importlib.resources.abc import Traversable

from kdbforge.errors import InputError, UnknownNameError
from kdbforge.model.problem import Convolution
from kdbforge.problems.driver import parse
from kdbforge.problems.suites.layers import Layer, Suite

__all__ = ["PREFIX", "SUITES", "find_suite"]

#: What a source that is a suite begins with.
PREFIX = "suite:"
_SUFFIX = ".txt"
_DATA = importlib.resources.files("kdbforge.problems.suites") / "data"


def find_suite(name: str) -> Suite:
    """Return the suite of that name.

    Raises
    ------
    UnknownNameError
        If there is none; the nearest are in the hint.
    """
    suite = SUITES.get(name)
    if suite is not None:
        return suite
    known = "`kdbforge problems suite:` lists the suites"
    if not name:
        raise InputError("`suite:` names no suite", hint=known)
    error = UnknownNameError("suite", name, SUITES)
    if error.hint is None:
        error.hint = known
    raise error


def _suites() -> Iterator[Suite]:
    for file in sorted(_DATA.iterdir(), key=lambda file: file.name):
        if file.name.endswith(_SUFFIX):
            yield _suite(file.name.removesuffix(_SUFFIX), file)


def _suite(name: str, file: Traversable) -> Suite:
    with file.open(encoding="utf-8") as lines:
        keys: dict[str, str] = {}
        for line in lines:
            if not line.startswith("#"):
                break
            key, _, value = line.removeprefix("#").partition(":")
            keys[key.strip()] = value.strip()
    includes = tuple(keys.get("includes", "").split())
    return Suite(
        name=name,
        title=keys["title"],
        source=keys["source"],
        parameters=int(keys["parameters"]) if "parameters" in keys else None,
        includes=includes,
        read_layers=partial(_layers_of, includes) if includes else partial(_layers_in, name),
    )


def _layers_of(names: tuple[str, ...]) -> tuple[Layer, ...]:
    return tuple(
        Layer(f"{name}:{layer.name}", layer.base)
        for name in names
        for layer in find_suite(name).layers
    )


@cache
def _layers_in(name: str) -> tuple[Layer, ...]:
    layers = []
    for line in (_DATA / f"{name}{_SUFFIX}").read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            (base,) = parse(line)
            assert isinstance(base, Convolution)
            layers.append(Layer(line.partition(" # ")[2], base))
    return tuple(layers)


SUITES: Mapping[str, Suite] = {suite.name: suite for suite in _suites()}
