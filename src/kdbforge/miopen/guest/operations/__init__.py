"""How each primitive other than convolution is run, by MIOpenDriver's or kdbforge's command."""

from __future__ import annotations

from collections.abc import Callable

from ..tensors import Operation
from . import (
    attention,
    fusion,
    neuron,
    normalization,
    optimizers,
    pooling,
    recurrent,
    reduction,
    selection,
    tensor_ops,
)

RUNNERS: dict[str, Callable[[Operation], None]] = {
    name: runner
    for module in (
        attention,
        fusion,
        neuron,
        normalization,
        optimizers,
        pooling,
        recurrent,
        reduction,
        selection,
        tensor_ops,
    )
    for name, runner in module.RUNNERS.items()
}
