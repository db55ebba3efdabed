"""Which layout a command line or key means, given the names that MIOpen itself writes in logs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kdbforge.model.problem import LAYOUTS, Convolution

__all__ = ["agreed_layout", "tensor_lengths", "written_layout"]

_AXES = {2: "NCHW", 3: "NCDHW"}


def agreed_layout(problem: Convolution, given: Mapping[str, str]) -> str | None:
    """Return the layout that all of the given names can stand for; None if there is none.

    MIOpen tells a tensor's layout from its strides, which do not say it where lengths are 1: the
    1x1 filter of one channel of an NHWC convolution is logged as NCHW. So `given`, by tensor
    (`in`, `fil`, `out`), may hold either the layout itself or what MIOpen would write for it.
    """
    lengths = tensor_lengths(problem)
    for layout in LAYOUTS[problem.spatial_dims]:
        if all(
            name in (layout, written_layout(layout, lengths[tensor]))
            for tensor, name in given.items()
        ):
            return layout
    return None


def tensor_lengths(problem: Convolution) -> dict[str, tuple[int, ...]]:
    """Lengths of input, filter and output as MIOpen orders them: N, C, then the spatial ones."""
    filters, channels = problem.out_channels, problem.in_channels
    if problem.transposed:
        filters, channels = channels, filters
    return {
        "in": (problem.batch, problem.in_channels, *problem.in_size),
        "fil": (filters, channels // problem.groups, *problem.filter_size),
        "out": (problem.batch, problem.out_channels, *problem.out_size),
    }


def written_layout(layout: str, lengths: Sequence[int]) -> str:
    """Name a packed tensor's layout as MIOpen does (src/tensor.cpp, find_permutation).

    It sorts the axes by stride, then length, both falling; equal ones stay in NC(D)HW order.
    """
    axes = _AXES[len(lengths) - 2]
    length = dict(zip(axes, lengths, strict=True))
    stride, step = {}, 1
    for axis in reversed(layout):
        stride[axis] = step
        step *= length[axis]
    return "".join(sorted(axes, key=lambda axis: (-stride[axis], -length[axis])))
