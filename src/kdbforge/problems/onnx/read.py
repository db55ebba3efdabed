"""A network file to problems: for every batch and data type, and what became of all nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from kdbforge.errors import InputError, UnknownNameError, UnsupportedError
from kdbforge.model.problem import Problem
from kdbforge.problems.driver import parse
from kdbforge.problems.line import shown
from kdbforge.problems.models import LeftOut, ModelOptions, ModelReport, OperatorUse
from kdbforge.problems.onnx.dims import bind_inputs
from kdbforge.problems.onnx.load import load_model, opset_of
from kdbforge.problems.onnx.mapping import Wish, map_node
from kdbforge.problems.onnx.site import Site
from kdbforge.problems.onnx.walk import walk

__all__ = ["Model", "check_dims"]

_LEFT_OUT = "left out"


class Model:
    """One network file; its report is complete once its problems have been read."""

    def __init__(self, path: str, options: ModelOptions):
        """Open the file.

        Raises
        ------
        InputError
            As `load_model`.
        """
        self.path = path
        self.used: set[str] = set()  # the names in `--dim` that it has
        self.known: set[str] = set()  # the names that it would have
        self._options = options
        self._model = load_model(path)
        self._uses: Counter[tuple[str, str]] = Counter()
        self._left_out: dict[LeftOut, None] = {}

    def problems(
        self, batch: Sequence[int] | None, dtypes: Sequence[str] | None
    ) -> Iterator[tuple[Problem, str]]:
        """Yield problems and the nodes that they come from, for all batches and data types.

        None means the sizes, and the floating-point types, that the file has.

        Raises
        ------
        InputError
            If a dimension has no size, or the graph cannot run; the file is in the context.
        """
        if self._options.consumer == "onnxruntime" and "int8" in (dtypes or ()):
            raise InputError(
                "ONNX Runtime's ROCm provider has no int8 convolutions",
                hint="use `--consumer migraphx`, or another `--dtype`",
            )
        for size in batch or (None,):
            wishes = [Wish(self._options.consumer, dtype) for dtype in dtypes or (None,)]
            yield from self._walked(size, wishes)

    def report(self) -> ModelReport:
        """What became of the nodes, in the first batch and data type."""
        uses = sorted(self._uses.items(), key=lambda item: (item[0][1], item[0][0]))
        return ModelReport(
            self.path,
            self._options.consumer,
            opset_of(self._model.opset_import),
            sum(self._uses.values()),
            tuple(OperatorUse(operator, goes, count) for (operator, goes), count in uses),
            tuple(self._left_out),
        )

    def _walked(self, batch: int | None, wishes: list[Wish]) -> list[tuple[Problem, str]]:
        try:
            inputs = bind_inputs(self._model.graph, batch, self._options.dims)
        except InputError as error:
            error.context = (self.path, *error.context)
            raise
        self.used |= inputs.used
        self.known |= inputs.known
        found: list[tuple[Problem, str]] = []
        counting = not self._uses

        def visit(site: Site) -> None:
            for wish in wishes:
                goes = self._map(site, wish, found)
                if counting and wish is wishes[0]:
                    self._uses[site.operator, goes] += 1

        walk(self._model, self.path, inputs, visit)
        return found

    def _map(self, site: Site, wish: Wish, found: list[tuple[Problem, str]]) -> str:
        """Add a node's problems; returns where it goes."""
        origin = f"{self.path}:{site.name}"
        try:
            outcome = map_node(site, wish)
        except InputError as error:
            self._leave_out(site, error.message)
            return _LEFT_OUT
        problems = dict.fromkeys(outcome.problems)
        for line in outcome.commands:
            problems.update(dict.fromkeys(self._parsed(site, line)))
        found.extend((problem, origin) for problem in problems)
        return outcome.goes

    def _parsed(self, site: Site, line: str) -> list[Problem]:
        try:
            return parse(line)
        except UnsupportedError:
            self._leave_out(site, "not supported yet", line)
        except InputError as error:
            self._leave_out(site, error.message, line)
        return []

    def _leave_out(self, site: Site, reason: str, command: str = "") -> None:
        self._left_out[LeftOut(shown(site.name), shown(site.operator), reason, command)] = None


def check_dims(models: list[Model], options: ModelOptions) -> None:
    """Refuse a `--dim` that names nothing in any of the models.

    Raises
    ------
    UnknownNameError
        Names it, and the nearest that there are.
    """
    used = {name for model in models for name in model.used}
    known = sorted({name for model in models for name in model.known})
    for name in options.dims:
        if name not in used:
            listed = ", ".join(f"`{shown(k)}`" for k in known[:10])
            hint = f"the inputs have {listed}" if known else None
            raise UnknownNameError("dimension", shown(name), known, hint=hint)
