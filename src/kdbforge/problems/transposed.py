"""Transposed convolutions: MIOpen runs, and keeps in its databases, another one for each."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace

from kdbforge.model.problem import Convolution

__all__ = ["as_logged", "untransposed"]

#: src/convolution_api.cpp: miopenTranspose.
_DIRECTIONS = {"fwd": "bwd", "bwd": "fwd", "wrw": "wrw"}


def untransposed(problem: Convolution) -> Convolution:
    """Return the convolution that MIOpen runs for a problem: itself unless it is transposed."""
    if not problem.transposed:
        return problem
    return replace(
        problem,
        direction=_DIRECTIONS[problem.direction],
        in_channels=problem.out_channels,
        out_channels=problem.in_channels,
        in_size=problem.out_size,
        transposed=False,
        output_pads=(),
    )


def as_logged(
    commanded: Iterable[Convolution], keyed: Collection[Convolution]
) -> dict[Convolution, Convolution]:
    """Return what the problems of a log's keys and commands are, where they are not what they say.

    A key tells not that the problem was transposed, and a command not its output pads, which
    libMIOpen does not log (src/driver_arguments.cpp, ConvArgsForMIOpenDriver; seen in 3.5.1).
    Of a command without output pads whose own key is not there but another with pads, that
    one is meant.
    """
    commands = {problem: None for problem in commanded if problem.transposed}  # in order
    plain = {_base(problem): problem for problem in commands if not problem.output_pads}
    meant = {untransposed(problem): problem for problem in commands}
    for key in keyed:
        problem = plain.get(replace(key, in_size=()))
        if problem is not None and key not in meant:
            pads = tuple(
                wide - narrow for wide, narrow in zip(key.in_size, problem.out_size, strict=True)
            )
            if all(0 <= pad < step for pad, step in zip(pads, problem.strides, strict=True)):
                meant[key] = replace(problem, output_pads=pads)
                if untransposed(problem) not in keyed:
                    meant.setdefault(problem, meant[key])
    return {said: problem for said, problem in meant.items() if said in keyed or said in commands}


def _base(problem: Convolution) -> Convolution:
    """What problems have in common that differ in output pads only."""
    return replace(untransposed(problem), in_size=())
