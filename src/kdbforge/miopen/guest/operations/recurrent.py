"""Recurrent networks, dropout and CTC loss."""

from __future__ import annotations

from ctypes import byref, c_bool, c_float, c_int, c_size_t, c_ulonglong, c_void_p
from typing import Any

from ..library import ints
from ..tensors import DATA_TYPES, Operation, Tensor, pointers

MODES = {"relu": 0, "tanh": 1, "lstm": 2, "gru": 3}
PSEUDO_XORWOW = c_int(0)


def dropout_descriptor(op: Operation, rate: float, use_mask: bool) -> c_void_p:
    """A dropout descriptor with its random states, which a kernel sets up."""
    desc = op.descriptor("Dropout")
    states, size = op.workspace("DropoutGetStatesSize", op.handle)
    op.library.call(
        "SetDropoutDescriptor", desc, op.handle, c_float(rate), states, size, c_ulonglong(0),
        c_bool(use_mask), c_bool(False), PSEUDO_XORWOW,
    )  # fmt: skip
    return desc


def run_dropout(op: Operation) -> None:
    desc = dropout_descriptor(op, op.real("dropout"), op.number("use_mask") == 1)
    x, y = op.tensor(op.numbers("input_dim")), op.tensor(op.numbers("input_dim"))
    reserve = op.workspace("DropoutGetReserveSpaceSize", x.desc)
    name = "DropoutBackward" if op.backward else "DropoutForward"
    op.call(name, desc, x.desc, *x, *y, *reserve)


class _Network:
    """A recurrent network with the tensors of every step."""

    def __init__(self, op: Operation):
        self.op = op
        self.steps = op.number("seq_len")
        batches = op.numbers("batchsize")
        batches += [batches[-1]] * (self.steps - len(batches))
        self.desc = self._descriptor()
        directions = 2 if op.number("bidirection") else 1
        width = op.number("hid_h") * directions
        self.x, self.x_data = self._sequence(batches, op.number("in_h"))
        self.y, self.y_data = self._sequence(batches, width)
        hidden = [op.number("num_layer") * directions, batches[0], op.number("hid_h")]
        self.hidden, self.cell = op.tensor(hidden), op.tensor(hidden)
        self.weights = self._weights()
        self.space = self._space("GetRNNWorkspaceSize")
        self.reserve = self._space("GetRNNTrainingReserveSize")

    def _descriptor(self) -> c_void_p:
        op = self.op
        desc = op.descriptor("RNN")
        settings = (
            op.number("inputmode"), op.number("bidirection"), MODES[op.text("mode")],
            op.number("bias"), op.number("rnnalgo"), DATA_TYPES[op.dtype],
        )  # fmt: skip
        shape = (c_int(op.number("hid_h")), c_int(op.number("num_layer")))
        if op.number("use_dropout"):
            dropout = dropout_descriptor(op, op.real("dropout"), False)
            op.library.call("SetRNNDescriptor_V2", desc, *shape, dropout, *map(c_int, settings))
        else:
            op.library.call("SetRNNDescriptor", desc, *shape, *map(c_int, settings))
        op.library.call("SetRNNPaddingMode", desc, c_int(op.number("use_padding")))
        return desc

    def _sequence(self, batches: list[int], width: int) -> tuple[Any, c_void_p]:
        """An array with a tensor descriptor for each step, and memory for all of them."""
        descs = []
        for batch in batches:
            desc = self.op.descriptor("Tensor")
            kind, lengths = c_int(DATA_TYPES[self.op.dtype]), ints([batch, width])
            self.op.library.call("SetTensorDescriptor", desc, kind, c_int(2), lengths, None)
            descs.append(desc)
        return pointers(descs), self.op.tensor([max(batches) * len(batches), width]).data

    def _weights(self) -> Tensor:
        op, kind = self.op, c_int(DATA_TYPES[self.op.dtype])
        desc = op.descriptor("Tensor")
        first = c_void_p(self.x[0])
        op.library.call("GetRNNParamsDescriptor", op.handle, self.desc, first, desc, kind)
        size = c_size_t()
        op.library.call("GetRNNParamsSize", op.handle, self.desc, first, byref(size), kind)
        return Tensor(desc, op.buffer(size.value))

    def _space(self, name: str) -> tuple[c_void_p, c_size_t]:
        return self.op.workspace(name, self.op.handle, self.desc, c_int(self.steps), self.x)


def run_rnn(op: Operation) -> None:
    net = _Network(op)
    head = (net.desc, c_int(net.steps))
    hidden, cell = net.hidden, net.cell
    if op.number("forw") == 2:
        op.call(
            "RNNBackwardData", *head, net.y, net.y_data, net.y, net.y_data, *hidden, *cell,
            *net.weights, *hidden, *cell, net.x, net.x_data, *hidden, *cell, *net.space,
            *net.reserve,
        )  # fmt: skip
    elif op.number("forw") == 4:
        op.call(
            "RNNBackwardWeights", *head, net.x, net.x_data, *hidden, net.y, net.y_data,
            *net.weights, *net.space, *net.reserve,
        )  # fmt: skip
    else:
        forward = (*head, net.x, net.x_data, *hidden, *cell, *net.weights)
        results = (net.y, net.y_data, *hidden, *cell, *net.space)
        if op.number("fwdtype"):
            op.call("RNNForwardInference", *forward, *results)
        else:
            op.call("RNNForwardTraining", *forward, *results, *net.reserve)


def run_ctc(op: Operation) -> None:
    batch, classes = op.number("batchsize"), op.number("num_class") + 1
    inputs, labels = (_per_sample(op.numbers(name), batch) for name in ("input_len", "label_len"))
    desc, algorithm = op.descriptor("CTCLoss"), c_int(op.number("ctcalgo"))
    blank, softmax = op.number("blank_label_id"), op.number("apply_softmax_layer") == 1
    kind = c_int(DATA_TYPES[op.dtype])
    op.library.call("SetCTCLossDescriptor", desc, kind, c_int(blank), c_bool(softmax))
    shape = [max(inputs), batch, classes]
    probabilities, gradients = op.tensor(shape), op.tensor(shape)
    # Any label but the blank one: MIOpen looks at them on the host.
    label = 1 if blank != 1 else 2
    data = (ints([label] * sum(labels)), ints(labels), ints(inputs))
    space = op.workspace(
        "GetCTCLossWorkspaceSize", op.handle, probabilities.desc, gradients.desc, *data, algorithm,
        desc,
    )  # fmt: skip
    losses = op.tensor([batch])
    op.call("CTCLoss", *probabilities, *data, losses.data, *gradients, algorithm, desc, *space)


def _per_sample(lengths: list[int], batch: int) -> list[int]:
    """The lengths of a batch, of which the last one given holds for the rest."""
    return (lengths + [lengths[-1]] * batch)[:batch]


RUNNERS = {"rnn": run_rnn, "dropout": run_dropout, "ctc": run_ctc}
