"""Batch, local response, layer and group normalisation."""

from __future__ import annotations

from ctypes import byref, c_bool, c_double, c_float, c_int, c_int32, c_uint, c_uint64, c_void_p

from ..tensors import ONE, ZERO, Operation, Tensor
from .neuron import activation_descriptor

EPSILON = c_double(1e-5)
EXPONENTIAL_AVERAGE = c_double(1)
LRN_MODES = {"within": 0, "0": 0, "cross": 1, "1": 1}


class BatchNorm:
    """The tensors of a batch normalisation: data, and per-channel or per-activation parameters."""

    def __init__(self, op: Operation):
        self.op = op
        self.mode = c_int(op.number("mode"))
        lengths = op.image()
        layout = op.text("layout") or ("NCDHW" if len(lengths) == 5 else "NCHW")
        self.x, self.y, self.dx = (op.tensor(lengths, layout=layout) for _ in range(3))
        spread = 1 if op.number("mode") else 0
        shape = [1, *lengths[1:]] if not spread else [1, lengths[1], *[1] * (len(lengths) - 2)]
        self._shape, self._layout = shape, layout

    def parameter_tensor(self) -> Tensor:
        """Scale, bias, mean or variance: in fp32, whatever the data is in."""
        return self.op.tensor(self._shape, "fp32", layout=self._layout)

    @property
    def activation(self) -> list[c_void_p]:
        """The last argument of the fused calls; none for the plain ones."""
        op = self.op
        if op.number("activ_mode") == 0:
            return []
        alpha, beta = op.real("activ_alpha"), op.real("activ_beta")
        return [activation_descriptor(op, op.number("activ_mode"), alpha, beta, 0)]


def run_batchnorm(op: Operation) -> None:
    norm = BatchNorm(op)
    if op.number("back"):
        _batchnorm_backward(norm)
    elif op.number("forw") == 2:
        _batchnorm_inference(norm)
    else:
        _batchnorm_training(norm)


def _batchnorm_training(norm: BatchNorm) -> None:
    op = norm.op
    scale, bias, mean, variance = (norm.parameter_tensor() for _ in range(4))
    running = (mean.data, variance.data) if op.number("run") else (None, None)
    saved = (mean.data, variance.data) if op.number("save") else (None, None)
    fused = norm.activation
    name = "BatchNormForwardTrainingActivation" if fused else _training
    op.call(
        name, norm.mode, byref(ONE), byref(ZERO), *norm.x, *norm.y,
        scale.desc, bias.desc, mean.desc, variance.desc, scale.data, bias.data,
        EXPONENTIAL_AVERAGE, *running, EPSILON, *saved, *fused,
    )  # fmt: skip


def _batchnorm_inference(norm: BatchNorm) -> None:
    op = norm.op
    scale, bias, mean, variance = (norm.parameter_tensor() for _ in range(4))
    estimated = (mean.data, variance.data) if op.number("run") else (None, None)
    fused = norm.activation
    name = "BatchNormForwardInferenceActivation" if fused else _inference
    op.call(
        name, norm.mode, byref(ONE), byref(ZERO), *norm.x, *norm.y,
        scale.desc, bias.desc, mean.desc, variance.desc, scale.data, bias.data,
        *estimated, EPSILON, *fused,
    )  # fmt: skip


def _batchnorm_backward(norm: BatchNorm) -> None:
    op = norm.op
    scale, bias, mean, variance = (norm.parameter_tensor() for _ in range(4))
    saved = (mean.data, variance.data) if op.number("save") else (None, None)
    fused = norm.activation
    name = "BatchNormBackwardActivation" if fused else _backward
    # The fused call takes the bias, too.
    parameters = (scale.data, bias.data) if fused else (scale.data,)
    op.call(
        name, norm.mode, byref(ONE), byref(ZERO), byref(ONE), byref(ZERO),
        *norm.x, *norm.y, *norm.dx, scale.desc, bias.desc, mean.desc, variance.desc,
        *parameters, scale.data, bias.data, EPSILON, *saved, *fused,
    )  # fmt: skip


_training = "BatchNormalizationForwardTraining_V2"
_inference = "BatchNormalizationForwardInference_V2"
_backward = "BatchNormalizationBackward_V2"


def run_lrn(op: Operation) -> None:
    desc = op.descriptor("LRN")
    numbers = (c_double(op.real("alpha")), c_double(op.real("beta")), c_double(op.real("lrnK")))
    mode = c_int(LRN_MODES[op.text("mode")])
    op.library.call("SetLRNDescriptor", desc, mode, c_uint(op.number("lrnN")), *numbers)
    x, y = op.tensor(op.image()), op.tensor(op.image())
    space, _ = op.workspace("LRNGetWorkSpaceSize", y.desc)
    if not op.backward:
        op.call("LRNForward", desc, byref(ONE), *x, byref(ZERO), *y, c_bool(False), space)
        return
    # The backward pass reads what a forward pass for training has left in the workspace.
    op.call("LRNForward", desc, byref(ONE), *x, byref(ZERO), *y, c_bool(True), space)
    dx, dy = op.tensor(op.image()), op.tensor(op.image())
    op.call("LRNBackward", desc, byref(ONE), *y, *dy, *x, byref(ZERO), *dx, space)


def run_layernorm(op: Operation) -> None:
    lengths = op.image(batch="in_n", channels="in_c")
    layout = op.text("layout") or ("NCDHW" if len(lengths) == 5 else "NCHW")
    axis = op.number("normalized_dim")
    x, y = op.tensor(lengths, layout=layout), op.tensor(lengths, layout=layout)
    inner, outer = lengths[axis:] or [1], lengths[:axis] or [1]
    weight, bias = op.tensor(inner), op.tensor(inner)
    mean, rstd = op.tensor(outer), op.tensor(outer)
    mode, dim = c_int(op.number("mode")), c_int32(axis)
    if not op.backward:
        eps = c_float(op.real("eps"))
        op.call("LayerNormForward", mode, *x, *weight, *bias, eps, dim, *y, *mean, *rstd)
        return
    dx, dw, db = op.tensor(lengths, layout=layout), op.tensor(inner), op.tensor(inner)
    descs = [t.desc for t in (y, x, weight, mean, rstd)]
    space = op.workspace(
        "GetLayerNormBackwardWorkspaceSize", op.handle, mode, *descs, dim, dx.desc, dw.desc, db.desc
    )
    op.call("LayerNormBackward", mode, *space, *y, *x, *weight, *mean, *rstd, dim, *dx, *dw, *db)


def run_addlayernorm(op: Operation) -> None:
    lengths, axis = op.numbers("input"), op.number("normalized_dim")
    x, x2, y = (op.tensor(lengths) for _ in range(3))
    inner, outer = lengths[axis:] or [1], lengths[:axis] or [1]
    weight, bias = op.tensor(inner), op.tensor(inner)
    mean, rstd = op.tensor(outer), op.tensor(outer)
    op.call(
        "AddLayerNormForward", c_int(op.number("mode")), *x, *x2, *weight, *bias,
        c_float(op.real("eps")), c_int32(axis), *y, *mean, *rstd,
    )  # fmt: skip


def run_t5layernorm(op: Operation) -> None:
    lengths = op.numbers("input")
    x, y, dx = (op.tensor(lengths) for _ in range(3))
    weight, dw, rstd = op.tensor(lengths[-1:]), op.tensor(lengths[-1:]), op.tensor(lengths[:-1])
    mode = c_int(op.number("mode"))
    if not op.backward:
        op.call("T5LayerNormForward", mode, *x, *weight, c_float(op.real("eps")), *y, *rstd)
        return
    descs = [t.desc for t in (y, x, weight, rstd, dx, dw)]
    space = op.workspace("GetT5LayerNormBackwardWorkspaceSize", op.handle, mode, *descs)
    op.call("T5LayerNormBackward", mode, *space, *y, *x, *weight, *rstd, *dx, *dw)


def run_groupnorm(op: Operation) -> None:
    lengths, groups = op.image(), op.number("num_groups")
    x, y = op.tensor(lengths), op.tensor(lengths)
    weight, bias = op.tensor([lengths[1]]), op.tensor([lengths[1]])
    mean, rstd = op.tensor([lengths[0], groups]), op.tensor([lengths[0], groups])
    op.call(
        "GroupNormForward", c_int(op.number("mode")), *x, *weight, *bias, c_uint64(groups),
        c_float(op.real("eps")), *y, *mean, *rstd,
    )  # fmt: skip


RUNNERS = {
    "bnorm": run_batchnorm,
    "lrn": run_lrn,
    "layernorm": run_layernorm,
    "addlayernorm": run_addlayernorm,
    "t5layernorm": run_t5layernorm,
    "groupnorm": run_groupnorm,
}
