"""MIOpenDriver's convolution commands: words to problems, and a problem to its words."""

from __future__ import annotations

from dataclasses import replace

from kdbforge.errors import InputError, UnsupportedError
from kdbforge.model.problem import DIRECTIONS, LAYOUTS, Convolution
from kdbforge.problems.commands import CONV_DTYPES
from kdbforge.problems.flags import Flag, FlagTable, Take, Values
from kdbforge.problems.layouts import agreed_layout
from kdbforge.problems.limits import check
from kdbforge.problems.line import Line, shown

__all__ = ["convolutions_of", "words_of"]

#: All flags of `conv` (driver/conv_driver.hpp, AddCmdLineArgs; `&`, `N`, `~` came with MIOpen 3.5).
FLAGS = FlagTable(
    Flag("I", "in_layout", Take.TEXT, "", upper=True),
    Flag("O", "out_layout", Take.TEXT, "", upper=True),
    Flag("f", "fil_layout", Take.TEXT, "", upper=True),
    Flag("_", "spatial_dim", Take.NUMBER, "2"),
    Flag("F", "forw", Take.NUMBER, "0"),
    Flag("n", "batchsize", Take.SIZE, "100"),
    Flag("c", "in_channels", Take.SIZE, "3"),
    Flag("!", "in_d", Take.SIZE, "32"),
    Flag("H", "in_h", Take.SIZE, "32"),
    Flag("W", "in_w", Take.SIZE, "32"),
    Flag("k", "out_channels", Take.SIZE, "32"),
    Flag("@", "fil_d", Take.SIZE, "3"),
    Flag("y", "fil_h", Take.SIZE, "3"),
    Flag("x", "fil_w", Take.SIZE, "3"),
    Flag("#", "conv_stride_d", Take.SIZE, "1"),
    Flag("u", "conv_stride_h", Take.SIZE, "1"),
    Flag("v", "conv_stride_w", Take.SIZE, "1"),
    Flag("$", "pad_d", Take.PAD, "0"),
    Flag("p", "pad_h", Take.PAD, "0"),
    Flag("q", "pad_w", Take.PAD, "0"),
    Flag("r", "pad_val", Take.NUMBER, "0"),
    Flag("%", "trans_output_pad_d", Take.PAD, "0"),
    Flag("Y", "trans_output_pad_h", Take.PAD, "0"),
    Flag("X", "trans_output_pad_w", Take.PAD, "0"),
    Flag("i", "iter", Take.SIZE, "10"),
    Flag("V", "verify", Take.NUMBER, "1"),
    Flag("C", "verification_cache", Take.TEXT, ""),
    Flag("t", "time", Take.NUMBER, "0"),
    Flag("w", "wall", Take.NUMBER, "0"),
    Flag("s", "search", Take.NUMBER, "0"),
    Flag("P", "printconv", Take.NUMBER, "1"),
    Flag("o", "dump_output", Take.NUMBER, "0"),
    Flag("d", "in_data", Take.TEXT, ""),
    Flag("e", "weights", Take.TEXT, ""),
    Flag("b", "bias", Take.NUMBER, "0"),
    Flag("m", "mode", Take.TEXT, "conv"),
    Flag("z", "pad_mode", Take.TEXT, "default"),
    Flag("Z", "tensor_vect", Take.NUMBER, "0"),
    Flag("L", "vector_length", Take.NUMBER, "1"),
    Flag("^", "dilation_d", Take.SIZE, "1"),
    Flag("l", "dilation_h", Take.SIZE, "1"),
    Flag("j", "dilation_w", Take.SIZE, "1"),
    Flag("a", "in_bias", Take.TEXT, ""),
    Flag("g", "group_count", Take.PAD, "1"),  # 0 means 1 (GetWeightTensorLengthsFromCmdLine)
    Flag("D", "dout_data", Take.TEXT, ""),
    Flag("S", "solution", Take.TEXT, "-1"),
    Flag("G", "gpualloc", Take.NUMBER, "0"),
    Flag("U", "in_cast_type", Take.TEXT, "-1"),
    Flag("T", "out_cast_type", Take.TEXT, "-1"),
    Flag("R", "wei_cast_type", Take.TEXT, "-1"),
    Flag("&", "tuning_policy", Take.NUMBER, "0"),
    Flag("N", "init_output_nan", Take.NUMBER, "0"),
    Flag("~", "gpubuffer_check", Take.NUMBER, "0"),
)
#: Bits of --forw (driver/conv_driver.hpp, AddCmdLineArgs); 0 stands for all.
_DIRECTION_BITS = {"fwd": 1, "bwd": 2, "wrw": 4}
#: Long names of the per-axis flags: depth, height, width.
_AXES = {
    "in_size": ("in_d", "in_h", "in_w"),
    "filter_size": ("fil_d", "fil_h", "fil_w"),
    "pads": ("pad_d", "pad_h", "pad_w"),
    "strides": ("conv_stride_d", "conv_stride_h", "conv_stride_w"),
    "dilations": ("dilation_d", "dilation_h", "dilation_w"),
    "output_pads": ("trans_output_pad_d", "trans_output_pad_h", "trans_output_pad_w"),
}
_LAYOUT_FLAGS = {"in": "in_layout", "fil": "fil_layout", "out": "out_layout"}
_CAST_FLAGS = ("in_cast_type", "wei_cast_type", "out_cast_type")
_CAST_TYPES = ("fp32", "fp16", "bf16", "fp8", "bf8")


def convolutions_of(line: Line) -> list[Convolution]:
    """Read a line that is a convolution command: one problem per direction that it asks for.

    Raises
    ------
    InputError
        If MIOpenDriver would not run it, or would take it for something that it does not say.
    UnsupportedError
        If one of its flags is MIOpenDriver's but not kdbforge's.
    """
    command, *words = line.words
    values = FLAGS.read(words)
    _refuse_unsupported(values)
    problems = [
        _problem(values, CONV_DTYPES[command], direction, logged=line.logged)
        for direction in _directions(values, CONV_DTYPES[command])
    ]
    for problem in problems:
        check(problem)
    return problems


def _problem(values: Values, dtype: str, direction: str, *, logged: bool) -> Convolution:
    dims = _spatial_dims(values)
    axes = {name: values.numbers(flags[-dims:]) for name, flags in _AXES.items()}
    transposed = values.choice("mode", ("conv", "trans")) == "trans"
    groups = max(values.number("group_count"), 1)
    output_pads = axes.pop("output_pads")
    axes["pads"] = _pads(values, axes, transposed)
    problem = Convolution(
        dtype=dtype,
        direction=direction,
        layout=LAYOUTS[dims][0],
        batch=values.number("batchsize"),
        in_channels=values.number("in_channels"),
        # libMIOpen (not MIOpenDriver) writes a transposed filter's length, which is of one group
        # (src/driver_arguments.cpp, ConvArgsForMIOpenDriver; seen in 3.5.1).
        out_channels=values.number("out_channels") * (groups if transposed and logged else 1),
        groups=groups,
        transposed=transposed,
        output_pads=output_pads if transposed and any(output_pads) else (),
        **axes,
    )
    return replace(problem, layout=_layout(values, problem))


def _spatial_dims(values: Values) -> int:
    dims = values.number("spatial_dim")
    if dims not in LAYOUTS:
        raise InputError(f"`{dims}` of flag `{FLAGS['spatial_dim']}` is neither 2 nor 3")
    return dims


def _directions(values: Values, dtype: str) -> list[str]:
    mask = values.number("forw")
    if not 0 <= mask <= 7:
        raise InputError(f"`{mask}` of flag `{FLAGS['forw']}` is not between 0 and 7")
    if dtype == "int8" and mask == 0:
        return ["fwd"]  # all that the driver runs then (conv_driver.hpp, RunBackwardGPU)
    return [d for d in DIRECTIONS if mask == 0 or mask & _DIRECTION_BITS[d]]


def _layout(values: Values, problem: Convolution) -> str:
    allowed = LAYOUTS[problem.spatial_dims]
    given = {flag: values.text(flag) or allowed[0] for flag in _LAYOUT_FLAGS.values()}
    if "CHWN" in given.values():
        raise UnsupportedError("Layout `CHWN` is not supported")
    layout = agreed_layout(problem, {t: given[flag] for t, flag in _LAYOUT_FLAGS.items()})
    if layout is not None:
        return layout
    for flag, name in given.items():
        if name not in allowed:
            raise InputError(
                f"Layout `{shown(name)}` of flag `{FLAGS[flag]}` is not one for "
                f"{problem.spatial_dims} spatial dimensions, `{allowed[0]}` or `{allowed[1]}`"
            )
    mixed = ", ".join(f"`{name}` of `{FLAGS[flag]}`" for flag, name in given.items())
    raise InputError(f"Mixed layouts: {mixed}", hint="give the same layout to all three flags")


def _pads(values: Values, axes: dict[str, tuple[int, ...]], transposed: bool) -> tuple[int, ...]:
    """Resolve the pad mode as conv_driver.hpp does (SetConvDescriptorFromCmdLineArgs)."""
    mode = values.choice("pad_mode", ("default", "same", "valid"))
    plain = all(d == 1 for d in axes["dilations"]) or all(f == 1 for f in axes["filter_size"])
    if mode == "default" or transposed or not plain:
        return axes["pads"]
    if mode == "valid":
        return tuple(0 for _ in axes["pads"])
    sizes = zip(axes["in_size"], axes["filter_size"], axes["strides"], strict=True)
    return tuple(max(fil - (size % step or step), 0) // 2 for size, fil, step in sizes)


def _refuse_unsupported(values: Values) -> None:
    """Refuse flags that make another problem of it: vectorised tensors and casts."""
    vector, length = values.number("tensor_vect"), values.number("vector_length")
    if (vector, length) in ((1, 4), (1, 8)):
        raise UnsupportedError(
            f"Vectorised tensors (`{FLAGS['tensor_vect']}` 1, `{FLAGS['vector_length']}` {length})"
            " are not supported"
        )
    if (vector, length) != (0, 1):  # conv_driver.hpp, ValidateVectorizedParameters
        raise InputError(
            f"`{vector}` of flag `{FLAGS['tensor_vect']}` and `{length}` of flag "
            f"`{FLAGS['vector_length']}` do not go together"
        )
    for name in _CAST_FLAGS:
        if values.choice(name, ("-1", *_CAST_TYPES)) != "-1":
            raise UnsupportedError(
                f"The cast `{values.text(name)}` of flag `{FLAGS[name]}` is not supported"
            )


def words_of(problem: Convolution) -> list[str]:
    """Return command, flags and values in the order in which MIOpen logs them.

    See src/driver_arguments.cpp.
    """
    axes = {name: getattr(problem, name) for name in _AXES}
    axes["output_pads"] = problem.output_pads or (0,) * problem.spatial_dims
    command = {dtype: name for name, dtype in CONV_DTYPES.items()}[problem.dtype]
    words = [command, "-n", problem.batch, "-c", problem.in_channels]
    words += _axis_words(axes, "in_size")
    words += ["-k", problem.out_channels]
    for name in ("filter_size", "pads", "strides", "dilations"):
        words += _axis_words(axes, name)
    if problem.spatial_dims == 3:
        words += ["--spatial_dim", 3]
    if problem.layout != LAYOUTS[problem.spatial_dims][0]:
        for flag in _LAYOUT_FLAGS.values():
            words += [f"--{flag}", problem.layout]
    words += ["-m", "trans" if problem.transposed else "conv", "-g", problem.groups]
    if problem.output_pads:
        words += _axis_words(axes, "output_pads")
    words += ["-F", _DIRECTION_BITS[problem.direction]]
    return [str(word) for word in words]


def _axis_words(axes: dict[str, tuple[int, ...]], name: str) -> list[str | int]:
    """Return flags and values of all axes; depth by long name, since its short ones need quotes."""
    words: list[str | int] = []
    values = axes[name]
    for long, value in zip(_AXES[name][-len(values) :], values, strict=True):
        words += [f"--{long}" if long.endswith("_d") else f"-{FLAGS[long].short}", value]
    return words
