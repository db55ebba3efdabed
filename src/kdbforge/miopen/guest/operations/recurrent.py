"""Recurrent networks, dropout and CTC loss."""

from __future__ import annotations

from ctypes import byref, c_bool, c_double, c_float, c_int, c_size_t, c_ulonglong, c_void_p
from typing import Any

from ..library import ints
from ..tensors import DATA_TYPES, Operation, Tensor, pointers

MODES = {"relu": 0, "tanh": 1, "lstm": 2, "gru": 3}
PSEUDO_XORWOW = c_int(0)
# miopenRNNFWDMode_t and miopenRNNBaseLayout_t.
TRAINING, SEQ_MAJOR_NOT_PADDED = c_int(0), 1
#: What fills the padding of results, of any type; as MIOpenDriver, we have it filled.
PADDING = c_double(0)


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
    """A recurrent network: its descriptor, its hidden states and its weights."""

    def __init__(self, op: Operation, batch: int, width: int, *, padded: bool):
        self.op = op
        directions = 2 if op.number("bidirection") else 1
        self.width = directions * op.number("hid_h")  # of the output
        self.desc = self._descriptor(padded)
        hidden = [op.number("num_layer") * directions, batch, op.number("hid_h")]
        self.hidden, self.cell = op.tensor(hidden), op.tensor(hidden)
        self.weights, self.weights_size = self._weights(self.step(batch, width))

    def _descriptor(self, padded: bool) -> c_void_p:
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
        op.library.call("SetRNNPaddingMode", desc, c_int(padded))
        return desc

    def step(self, batch: int, width: int) -> c_void_p:
        """A descriptor of what one step reads or writes."""
        desc = self.op.descriptor("Tensor")
        kind, lengths = c_int(DATA_TYPES[self.op.dtype]), ints([batch, width])
        self.op.library.call("SetTensorDescriptor", desc, kind, c_int(2), lengths, None)
        return desc

    def _weights(self, step: c_void_p) -> tuple[Tensor, c_size_t]:
        op, kind = self.op, c_int(DATA_TYPES[self.op.dtype])
        desc, size = op.descriptor("Tensor"), c_size_t()
        op.library.call("GetRNNParamsDescriptor", op.handle, self.desc, step, desc, kind)
        op.library.call("GetRNNParamsSize", op.handle, self.desc, step, byref(size), kind)
        return Tensor(desc, op.buffer(size.value)), size


def run_rnn(op: Operation) -> None:
    """A network whose input has a tensor for each step."""
    steps, width = op.number("seq_len"), op.number("in_h")
    batches = _filled(op.numbers("batchsize"), steps)
    net = _Network(op, batches[0], width, padded=op.number("use_padding") == 1)
    x, y = _by_step(net, batches, width), _by_step(net, batches, net.width)
    head, hidden, cell = (net.desc, c_int(steps)), net.hidden, net.cell
    space = op.workspace("GetRNNWorkspaceSize", op.handle, *head, x[0])
    reserve = op.workspace("GetRNNTrainingReserveSize", op.handle, *head, x[0])
    if op.number("forw") == 2:
        op.call(
            "RNNBackwardData", *head, *y, *y, *hidden, *cell, *net.weights, *hidden, *cell, *x,
            *hidden, *cell, *space, *reserve,
        )  # fmt: skip
    elif op.number("forw") == 4:
        op.call("RNNBackwardWeights", *head, *x, *hidden, *y, *net.weights, *space, *reserve)
    else:
        forward = (*head, *x, *hidden, *cell, *net.weights, *y, *hidden, *cell, *space)
        if op.number("fwdtype"):
            op.call("RNNForwardInference", *forward)
        else:
            op.call("RNNForwardTraining", *forward, *reserve)


def _by_step(net: _Network, batches: list[int], width: int) -> tuple[Any, c_void_p]:
    """A descriptor for each step, and memory for all of them."""
    descs = pointers([net.step(batch, width) for batch in batches])
    return descs, net.op.tensor([max(batches) * len(batches), width]).data


def run_rnn_seq(op: Operation) -> None:
    """A network whose input is one tensor of all samples, with a length for each of them."""
    width, padded = op.number("in_vec"), op.number("io_layout") != SEQ_MAJOR_NOT_PADDED
    net = _Network(op, op.number("batch_size"), width, padded=padded)
    x, y = _by_sample(op, width), _by_sample(op, net.width)
    weights, spaces = (net.weights.data, net.weights_size), _spaces(net, x)
    hidden, cell = net.hidden, net.cell
    # Of the gradients, each has the place of what it is the gradient of.
    if op.number("forw") == 2:
        states = (hidden.desc, *[hidden.data] * 3, cell.desc, *[cell.data] * 3)
        op.call("RNNBackwardSeqData", net.desc, *y, y.data, *states, *x, *weights, *spaces)
    elif op.number("forw") == 4:
        op.call("RNNBackwardWeightsSeqTensor", net.desc, *x, *hidden, *y, *weights, *spaces)
    else:
        states = (*hidden, hidden.data, *cell, cell.data)
        mode = c_int(op.number("fwdtype"))
        op.call("RNNForward", net.desc, mode, *x, *states, *y, *weights, *spaces)


def _by_sample(op: Operation, width: int) -> Tensor:
    """A descriptor of all samples, and memory for them, with the padding if there is any."""
    batch, longest, layout = (op.number(name) for name in ("batch_size", "seq_len", "io_layout"))
    lengths = _filled(op.numbers("seq_len_array"), batch)
    desc = op.descriptor("SeqTensor")
    op.library.call(
        "SetRNNDataSeqTensorDescriptor", desc, c_int(DATA_TYPES[op.dtype]), c_int(layout),
        c_int(longest), c_int(batch), c_int(width), ints(lengths), byref(PADDING),
    )  # fmt: skip
    vectors = sum(lengths) if layout == SEQ_MAJOR_NOT_PADDED else batch * longest
    return Tensor(desc, op.tensor([vectors, width]).data)


def _spaces(net: _Network, x: Tensor) -> tuple[Any, ...]:
    """Workspace and reserve space, each with its size.

    MIOpen wants the reserve space for inference, too, but tells its size for training only
    (rnn.cpp, RNNForward and rnn_api.cpp, miopenGetRNNTempSpaceSizes).
    """
    work, reserve = c_size_t(), c_size_t()
    net.op.call("GetRNNTempSpaceSizes", net.desc, x.desc, TRAINING, byref(work), byref(reserve))
    return net.op.buffer(work.value), work, net.op.buffer(reserve.value), reserve


def run_ctc(op: Operation) -> None:
    batch, classes = op.number("batchsize"), op.number("num_class") + 1
    inputs, labels = (_filled(op.numbers(name), batch) for name in ("input_len", "label_len"))
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


def _filled(numbers: list[int], count: int) -> list[int]:
    """`count` numbers, of which the last one given holds for the rest."""
    return (numbers + [numbers[-1]] * count)[:count]


RUNNERS = {"rnn": run_rnn, "rnn_seq": run_rnn_seq, "dropout": run_dropout, "ctc": run_ctc}
