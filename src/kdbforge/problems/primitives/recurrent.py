"""Commands of primitives over sequences: recurrent networks, CTC loss; and dropout."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from kdbforge.errors import InputError
from kdbforge.problems.flags import Values
from kdbforge.problems.primitives.table import (
    Primitive,
    choice,
    driver_flags,
    forward_only,
    ignored,
    number,
    pad,
    real,
    sequence,
    size,
    sizes,
    split_by_forw,
)

__all__ = ["PRIMITIVES"]


def _split_rnn(values: Values) -> Sequence[Values]:
    """One problem for each of forward, backward data and backward weights.

    The batch of each step is written out only where it changes: it may only fall, and the last
    one given holds for the rest (rnn_driver.hpp, GetInputTensorLengthsFromCmdLine).
    """
    batches = list(values.lengths("batchsize"))[: values.number("seq_len")]
    if _rises(batches):
        raise InputError(f"The batches of flag `{values.flags['batchsize']}` may only fall")
    values = values.replaced(batchsize=_without_repeats(batches))
    return _split_network(values, values.number("in_h"))


def _split_rnn_seq(values: Values) -> Sequence[Values]:
    """The same, of samples that are described by their lengths.

    The last length given holds for the rest of the samples, and if there is none, all have
    `seq_len` (rnn_seq_driver.hpp, GetSeqLengthsFromCmdLine).
    """
    flag, longest = values.flags["seq_len_array"], values.number("seq_len")
    lengths = list(values.lengths("seq_len_array")) or [longest]
    if len(lengths) > values.number("batch_size"):
        raise InputError(f"Flag `{flag}` has more lengths than the batch has samples")
    if max(lengths) > longest:
        raise InputError(f"A length of flag `{flag}` is over `{longest}`, the longest sequence")
    if values.text("io_layout") == "1" and _rises(lengths):
        raise InputError(f"The lengths of flag `{flag}` may only fall where nothing is padded")
    values = values.replaced(seq_len_array=_without_repeats(lengths))
    return _split_network(values, values.number("in_vec"))


def _rises(numbers: Sequence[int]) -> bool:
    return any(later > earlier for earlier, later in pairwise(numbers))


def _without_repeats(numbers: list[int]) -> str:
    while len(numbers) > 1 and numbers[-1] == numbers[-2]:
        numbers.pop()
    return ",".join(map(str, numbers))


def _split_network(values: Values, width: int) -> Sequence[Values]:
    if values.number("inputmode") and width != values.number("hid_h"):
        raise InputError("With skipped input (`-p 1`), input and hidden length must be equal")
    if values.number("use_dropout") == 0:
        values = values.replaced(dropout="0.0")
    parts = split_by_forw(1, 2, 4)(values)
    # Inference has no backward pass.
    return [part for part in parts if part.text("forw") == "1" or part.text("fwdtype") == "0"]


def _split_dropout(values: Values) -> Sequence[Values]:
    if len(values.lengths("input_dim")) > 5:
        raise InputError(
            f"`{values.text('input_dim')}` has more than the 5 axes that dropout takes"
        )
    return split_by_forw(1, 2)(values)


def _split_ctc(values: Values) -> Sequence[Values]:
    if max(values.lengths("label_len")) > max(values.lengths("input_len")):
        raise InputError("A label is longer than the input")
    return forward_only(values)


_CELLS = (
    size("H", "hid_h", 32),
    size("l", "num_layer", 1),
    choice("m", "mode", "tanh", "relu", "tanh", "lstm", "gru"),
    choice("b", "bias", 0, 0, 1),
    choice("p", "inputmode", 0, 0, 1),
)
_NETWORK = (
    choice("r", "bidirection", 0, 0, 1),
    choice("a", "rnnalgo", 0, 0, 1, 2),
    choice("c", "fwdtype", 0, 0, 1),
    choice("U", "use_dropout", 0, 0, 1),
    real("P", "dropout", 0),
    number("F", "forw", 0),
    ignored("L", "seed_low"),
    ignored("M", "seed_high"),
    ignored("f", "datatype"),
    ignored("o", "dump_output"),
)

RNN = Primitive(
    "rnn",
    "RNN, LSTM and GRU",
    driver_flags(
        sequence("n", "batchsize", "4"),
        size("k", "seq_len", 1),
        size("W", "in_h", 32),
        *_CELLS,
        choice("q", "use_padding", 0, 0, 1),
        *_NETWORK,
    ),
    split=_split_rnn,
)

RNN_SEQ = Primitive(
    "rnn_seq",
    "RNN, LSTM and GRU of samples with lengths of their own",
    driver_flags(
        size("n", "batch_size", 4),
        size("k", "seq_len", 10),
        sequence("K", "seq_len_array", ""),
        size("W", "in_vec", 32),
        *_CELLS,
        choice("I", "io_layout", 1, 1, 2, 3),
        *_NETWORK,
    ),
    split=_split_rnn_seq,
)

DROPOUT = Primitive(
    "dropout",
    "dropout",
    driver_flags(
        sizes("d", "input_dim", "4"),
        real("p", "dropout", 0.5),
        choice("e", "use_mask", 0, 0, 1),
        number("F", "forw", 0),
        ignored("f", "gen_file"),
        ignored("l", "seed_low"),
        ignored("m", "seed_high"),
        ignored("u", "mt"),
        ignored("o", "dump_output"),
    ),
    split=_split_dropout,
)

CTC = Primitive(
    "ctc",
    "CTC loss",
    driver_flags(
        size("n", "batchsize", 4),
        size("c", "num_class", 9),
        sequence("k", "input_len", "20"),
        sequence("l", "label_len", "5"),
        pad("b", "blank_label_id"),
        choice("m", "apply_softmax_layer", 1, 0, 1),
        choice("a", "ctcalgo", 0, 0),
        number("F", "forw", 1),
        ignored("v", "verify_path"),
        ignored("o", "dump_output"),
    ),
    split=_split_ctc,
    suffixes={"": "fp32"},  # all that the library's CTC loss takes (ctc_api.cpp)
)

PRIMITIVES = (RNN, RNN_SEQ, DROPOUT, CTC)
