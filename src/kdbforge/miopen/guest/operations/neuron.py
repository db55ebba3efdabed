"""Activations, softmax, gated linear units, PReLU and rotary embeddings."""

from __future__ import annotations

from ctypes import byref, c_double, c_float, c_int, c_void_p

from ..tensors import ONE, ZERO, Operation


def activation_descriptor(
    op: Operation, mode: int, alpha: float, beta: float, gamma: float
) -> c_void_p:
    """A set activation descriptor."""
    desc = op.descriptor("Activation")
    numbers = (c_double(alpha), c_double(beta), c_double(gamma))
    op.library.call("SetActivationDescriptor", desc, c_int(mode), *numbers)
    return desc


def run_activation(op: Operation) -> None:
    alpha, beta, gamma = op.real("alpha"), op.real("beta"), op.real("gamma")
    desc = activation_descriptor(op, op.number("mode"), alpha, beta, gamma)
    x, y = op.tensor(op.image()), op.tensor(op.image())
    if not op.backward:
        op.call("ActivationForward", desc, byref(ONE), *x, byref(ZERO), *y)
        return
    dx, dy = op.tensor(op.image()), op.tensor(op.image())
    op.call("ActivationBackward", desc, byref(ONE), *y, *dy, *x, byref(ZERO), *dx)


def run_softmax(op: Operation) -> None:
    alpha, beta = c_float(op.real("alpha")), c_float(op.real("beta"))
    how = (c_int(op.number("algorithm")), c_int(op.number("mode")))
    x, y = op.tensor(op.image()), op.tensor(op.image())
    if not op.backward:
        op.call("SoftmaxForward_V2", byref(alpha), *x, byref(beta), *y, *how)
        return
    dx, dy = op.tensor(op.image()), op.tensor(op.image())
    op.call("SoftmaxBackward_V2", byref(alpha), *y, *dy, byref(beta), *dx, *how)


def run_glu(op: Operation) -> None:
    lengths, axis = op.numbers("dim_lengths"), op.number("dim_to_split")
    half = [n // 2 if i == axis else n for i, n in enumerate(lengths)]
    x, y = op.tensor(lengths), op.tensor(half)
    if not op.backward:
        op.call("GLUForward", *x, *y, c_int(axis))
        return
    dx = op.tensor(lengths)
    op.call("GLUBackward", *x, *y, *dx, c_int(axis))


def run_prelu(op: Operation) -> None:
    lengths, count = op.numbers("input"), [op.number("NumParameters")]
    x, dx, dy = (op.tensor(lengths) for _ in range(3))
    weight, dweight = op.tensor(count), op.tensor(count)
    space = op.workspace("GetPReLUBackwardWorkspaceSize", op.handle, x.desc, weight.desc)
    op.call("PReLUBackward", *space, *x, *weight, *dy, *dx, *dweight)


def run_rope(op: Operation) -> None:
    lengths = op.numbers("input")
    # As the driver has it: sine and cosine are given for all but the batch (rope_driver.hpp).
    x, y = op.tensor(lengths), op.tensor(lengths)
    cos, sin = op.tensor(lengths[1:]), op.tensor(lengths[1:])
    op.call("RoPEBackward" if op.backward else "RoPEForward", *x, *cos, *sin, *y)


RUNNERS = {
    "activ": run_activation,
    "softmax": run_softmax,
    "glu": run_glu,
    "prelu": run_prelu,
    "rope": run_rope,
}
