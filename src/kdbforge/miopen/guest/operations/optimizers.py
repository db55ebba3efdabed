"""The Adam family of optimizers."""

from __future__ import annotations

from ctypes import c_bool, c_float, c_uint

from ..tensors import NO_TENSOR, Operation, Tensor


class _Step:
    """The tensors of one step; `amp`: half gradients, and the scale and state on the device."""

    def __init__(self, op: Operation, amp: bool):
        lengths = op.numbers("dims")
        one = [1]
        self.parameter, self.out, self.average, self.square, self.unused = (
            op.tensor(lengths) for _ in range(5)
        )
        self.gradient = op.tensor(lengths, "fp16" if amp else "")
        self.maximum = op.tensor(lengths) if op.number("amsgrad") else NO_TENSOR
        state = [op.tensor(one, "int32") if amp else NO_TENSOR for _ in range(3)]
        self.step, self.scale, self.found = state
        names = ("lr", "beta1", "beta2", "weight_decay", "eps")
        self.numbers = tuple(c_float(op.real(name)) for name in names)


def _run_adam(op: Operation, *, amp: bool, weight_decay: bool) -> None:
    step = _Step(op, amp)
    state: tuple[Tensor, ...] = (step.step, step.step)
    flags = (c_bool(op.number("amsgrad") == 1), c_bool(op.number("maximize") == 1))
    op.call(
        "FusedAdamWithOutput", *step.parameter, *step.out, *NO_TENSOR, *step.gradient,
        *step.average, *step.unused, *step.square, *step.unused, *step.maximum, *step.unused,
        *state[0], *state[1], c_uint(1), *step.numbers, *flags, c_bool(weight_decay),
        *step.scale, *step.found,
    )  # fmt: skip


def _run_transformers(op: Operation, *, amp: bool) -> None:
    step = _Step(op, amp)
    # A step size below 0 has the library compute it (transformers_adam_w_driver.hpp).
    op.call(
        "TransformersAdamWWithOutput", *step.parameter, *step.out, *NO_TENSOR, *step.gradient,
        *step.average, *step.unused, *step.square, *step.unused, *step.step, *step.step,
        c_uint(1), *step.numbers, c_float(-1), c_bool(op.number("correct_bias") == 1),
        *step.scale, *step.found,
    )  # fmt: skip


RUNNERS = {
    "adam": lambda op: _run_adam(op, amp=False, weight_decay=False),
    "adamw": lambda op: _run_adam(op, amp=False, weight_decay=True),
    "ampadam": lambda op: _run_adam(op, amp=True, weight_decay=False),
    "ampadamw": lambda op: _run_adam(op, amp=True, weight_decay=True),
    "transformersadamw": lambda op: _run_transformers(op, amp=False),
    "transformersampadamw": lambda op: _run_transformers(op, amp=True),
}
