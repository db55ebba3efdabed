"""Pooling in two and three dimensions."""

from __future__ import annotations

from ctypes import byref, c_bool, c_int, c_void_p

from ..library import ints
from ..tensors import ONE, ZERO, Operation

MODES = {"max": 0, "avg": 1, "avg_in": 2}
INDEX_TYPES = ("miopenIndexUint8", "miopenIndexUint16", "miopenIndexUint32", "miopenIndexUint64")


def run_pooling(op: Operation) -> None:
    desc = _descriptor(op)
    x = op.tensor_of("input")
    lengths = op.numbers("input")
    out = ints([0] * len(lengths))
    op.library.call("GetPoolingNdForwardOutputDim", desc, x.desc, c_int(len(lengths)), out)
    layout = op.text("input").partition(",")[2]
    layout = layout if layout.isalpha() else ""
    y = op.tensor(list(out), layout=layout)
    space, size = op.workspace("PoolingGetWorkSpaceSizeV2", desc, y.desc)
    forward = ("PoolingForward", desc, byref(ONE), *x, byref(ZERO), *y)
    if not op.backward:
        op.call(*forward, c_bool(False), space, size)
        return
    # The backward pass reads the indices that a forward pass for training has left.
    op.call(*forward, c_bool(True), space, size)
    dy, dx = op.tensor(list(out), layout=layout), op.tensor_of("input")
    op.call("PoolingBackward", desc, byref(ONE), *y, *dy, *x, byref(ZERO), *dx, space)


def _descriptor(op: Operation) -> c_void_p:
    axes = "dhw" if len(op.numbers("input")) == 5 else "hw"
    window = [op.number(f"win_{axis}") for axis in axes]
    strides = [op.number(f"pool_stride_{axis}") for axis in axes]
    pads = [op.number(f"pad_{axis}") for axis in axes]
    desc, call = op.descriptor("Pooling"), op.library.call
    mode = c_int(MODES[op.text("mode")])
    call(
        "SetNdPoolingDescriptor", desc, mode, c_int(len(axes)), ints(window), ints(pads),
        ints(strides),
    )  # fmt: skip
    call("SetPoolingIndexType", desc, c_int(INDEX_TYPES.index(op.text("index_type"))))
    # In three dimensions MIOpen knows image indices only.
    position = 1 if len(axes) == 3 else op.number("index_position")
    call("SetPoolingWorkSpaceIndexMode", desc, c_int(position))
    return desc


RUNNERS = {"pool": run_pooling}
