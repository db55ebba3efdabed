"""Fusion plans: convolution, bias, batch normalisation and activation as one kernel."""

from __future__ import annotations

from ctypes import byref, c_bool, c_double, c_int, c_void_p

from ..library import ints
from ..tensors import ONE, ZERO, Operation, Tensor

VERTICAL = c_int(0)
#: What is fused, by number: c convolution, b bias, n batch normalisation, a activation.
FUSIONS = ("cbna", "cna", "na", "cn", "cba", "ca", "cb")
EPSILON = c_double(1e-5)


class _Plan:
    """A fusion plan and its arguments, to which operators are added in order."""

    def __init__(self, op: Operation):
        self.op = op
        self.x = op.tensor(op.image(), layout=op.text("in_layout"))
        self.out = [
            op.number("batchsize"),
            op.number("in_channels"),
            op.number("in_h"),
            op.number("in_w"),
        ]
        self.plan = op.created("CreateFusionPlan", "DestroyFusionPlan", VERTICAL, self.x.desc)
        self.args = op.created("CreateOperatorArgs", "DestroyOperatorArgs")

    def _operator(self, kind: str, *args: object) -> c_void_p:
        operator = c_void_p()
        self.op.library.call(f"CreateOp{kind}", self.plan, byref(operator), *args)
        return operator

    def _set(self, kind: str, operator: c_void_p, *args: object) -> None:
        self.op.library.call(
            f"SetOpArgs{kind}", self.args, operator, byref(ONE), byref(ZERO), *args
        )

    def convolution(self) -> None:
        op, call = self.op, self.op.library.call
        desc = op.descriptor("Convolution")
        settings = [
            ints([op.number(f"{name}_{axis}") for axis in "hw"])
            for name in ("pad", "conv_stride", "dilation")
        ]
        call("InitConvolutionNdDescriptor", desc, c_int(2), *settings, c_int(0))
        groups = op.number("group_count")
        call("SetConvolutionGroupCount", desc, c_int(groups))
        shape = [op.number("out_channels"), op.number("in_channels") // groups, op.number("fil_h")]
        weight = op.tensor([*shape, op.number("fil_w")], layout=op.text("in_layout"))
        count, dims = c_int(4), ints([0] * 4)
        call("GetConvolutionNdForwardOutputDim", desc, self.x.desc, weight.desc, byref(count), dims)
        self.out = list(dims)
        operator = self._operator("ConvForward", desc, weight.desc)
        self._set("ConvForward", operator, weight.data)

    def bias(self) -> None:
        bias = self.op.tensor([1, self.out[1], 1, 1])
        operator = self._operator("BiasForward", bias.desc)
        self._set("BiasForward", operator, bias.data)

    def normalization(self) -> None:
        spatial = self.op.number("bnMode") == 1
        shape = [1, self.out[1], 1, 1] if spatial else [1, *self.out[1:]]
        # MIOpen derives the parameters' type: float for half data (DeriveBNTensorDescriptor).
        parameters = [self.op.tensor(shape, "fp32") for _ in range(4)]
        mode = c_int(self.op.number("bnMode"))
        operator = self._operator("BatchNormInference", mode, parameters[0].desc)
        self._set("BatchNormInference", operator, *(p.data for p in parameters), EPSILON)

    def activation(self) -> None:
        op = self.op
        operator = self._operator("ActivationForward", c_int(op.number("activMode")))
        numbers = [c_double(op.real(name)) for name in ("alpha", "beta", "gamma")]
        self._set("ActivForward", operator, *numbers)

    def run(self) -> None:
        op = self.op
        y: Tensor = op.tensor(self.out, layout=op.text("in_layout"))
        op.call("CompileFusionPlan", self.plan)
        op.call("ExecuteFusionPlan", self.plan, *self.x, *y, self.args)


def run_fusion(op: Operation) -> None:
    plan = _Plan(op)
    steps = {
        "c": plan.convolution,
        "b": plan.bias,
        "n": plan.normalization,
        "a": plan.activation,
    }
    for letter in FUSIONS[op.number("fusion_mode")]:
        steps[letter]()
    plan.run()


class _TrainingPlan(_Plan):
    """Batch normalisation in training with an activation, and the backward pass of both."""

    def _parameters(self, count: int) -> list[c_void_p]:
        spatial = self.op.number("bnMode") == 1
        shape = [1, self.out[1], 1, 1] if spatial else [1, *self.out[1:]]
        return [self.op.tensor(shape, "fp32").data for _ in range(count)]

    def training(self) -> None:
        operator = self._operator("BatchNormForward", c_int(self.op.number("bnMode")), c_bool(True))
        average = c_double(1)
        self._set("BatchNormForward", operator, *self._parameters(6), average, EPSILON)

    def backward(self) -> None:
        op = self.op
        operator = self._operator("BatchNormBackward", c_int(op.number("bnMode")))
        x, y = op.tensor(self.out), op.tensor(self.out)
        self._set("BatchNormBackward", operator, x.data, *self._parameters(6))
        activation = self._operator("ActivationBackward", c_int(op.number("activMode")))
        numbers = [c_double(op.real(name)) for name in ("alpha", "beta", "gamma")]
        self._set("ActivBackward", activation, y.data, c_void_p(), *numbers)


def run_training_fusion(op: Operation) -> None:
    plan = _TrainingPlan(op)
    if op.backward:
        plan.backward()
    else:
        plan.training()
        plan.activation()
    plan.run()


RUNNERS = {
    "CBAInfer": run_fusion,
    "CAInfer": run_fusion,
    "bnormactiv": run_training_fusion,
}
