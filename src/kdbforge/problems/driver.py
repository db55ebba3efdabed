"""MIOpenDriver convolution command lines: text to problems, and a problem to its one line."""

from __future__ import annotations

from dataclasses import replace

from kdbforge.errors import InputError, UnknownNameError, UnsupportedError
from kdbforge.model.problem import DIRECTIONS, LAYOUTS, Problem
from kdbforge.problems.commands import (
    CONV_DTYPES,
    OTHER_COMMANDS,
    Kind,
    Line,
    not_a_command,
    read_line,
    shown,
)
from kdbforge.problems.flags import FLAGS, Values, read_flags
from kdbforge.problems.layouts import agreed_layout
from kdbforge.problems.limits import check

__all__ = ["driver_line", "parse", "problems_of"]

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


def parse(line: str) -> list[Problem]:
    """Read one command line: one problem per direction that it asks for.

    A blank line or a comment gives none. What the line does not say is what MIOpenDriver takes
    by default. Flags that ask for no other convolution (`-t`, `-V`, `-b`, `-S` ...) are ignored.

    Raises
    ------
    InputError
        If the line is no driver command, or MIOpenDriver would not run it, or would take it for
        something that it does not say; the line is in the context.
    UnsupportedError
        If the command or one of its flags is MIOpenDriver's but not (yet) kdbforge's.
    """
    try:
        read = read_line(line)
        if read.kind is Kind.TEXT:
            raise not_a_command(line)
        return problems_of(read) if read.kind is Kind.COMMAND else []
    except InputError as error:
        error.context = (shown(line), *error.context)
        raise


def problems_of(line: Line) -> list[Problem]:
    """Read a line that is a command; as `parse`, but without context."""
    command, *flags = line.words
    if command in OTHER_COMMANDS:
        raise UnsupportedError(
            f"The MIOpenDriver command `{command}` is not supported yet",
            hint="kdbforge builds for " + ", ".join(f"`{c}`" for c in CONV_DTYPES),
        )
    if command not in CONV_DTYPES:
        raise UnknownNameError("MIOpenDriver command", shown(command), CONV_DTYPES)
    values = read_flags(flags)
    _refuse_unsupported(values)
    problems = [
        _problem(values, CONV_DTYPES[command], direction, logged=line.logged)
        for direction in _directions(values, CONV_DTYPES[command])
    ]
    for problem in problems:
        check(problem)
    return problems


def _problem(values: Values, dtype: str, direction: str, *, logged: bool) -> Problem:
    dims = _spatial_dims(values)
    axes = {name: values.numbers(flags[-dims:]) for name, flags in _AXES.items()}
    transposed = _choice(values, "mode", ("conv", "trans")) == "trans"
    groups = max(values.number("group_count"), 1)
    output_pads = axes.pop("output_pads")
    axes["pads"] = _pads(values, axes, transposed)
    problem = Problem(
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


def _layout(values: Values, problem: Problem) -> str:
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
    mode = _choice(values, "pad_mode", ("default", "same", "valid"))
    plain = all(d == 1 for d in axes["dilations"]) or all(f == 1 for f in axes["filter_size"])
    if mode == "default" or transposed or not plain:
        return axes["pads"]
    if mode == "valid":
        return tuple(0 for _ in axes["pads"])
    sizes = zip(axes["in_size"], axes["filter_size"], axes["strides"], strict=True)
    return tuple(max(fil - (size % step or step), 0) // 2 for size, fil, step in sizes)


def _choice(values: Values, name: str, allowed: tuple[str, ...]) -> str:
    value = values.text(name)
    if value not in allowed:
        listed = ", ".join(f"`{a}`" for a in allowed)
        raise InputError(f"`{shown(value)}` of flag `{FLAGS[name]}` is not one of {listed}")
    return value


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
        if _choice(values, name, ("-1", *_CAST_TYPES)) != "-1":
            raise UnsupportedError(
                f"The cast `{values.text(name)}` of flag `{FLAGS[name]}` is not supported"
            )


def driver_line(problem: Problem) -> str:
    """Return the one line for a problem: `parse` gives just this problem back.

    Flags and their order are those that MIOpen logs (src/driver_arguments.cpp).
    """
    axes = {name: getattr(problem, name) for name in _AXES}
    axes["output_pads"] = problem.output_pads or (0,) * problem.spatial_dims
    command = {dtype: name for name, dtype in CONV_DTYPES.items()}[problem.dtype]
    words = ["MIOpenDriver", command, "-n", problem.batch, "-c", problem.in_channels]
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
    return " ".join(str(word) for word in words)


def _axis_words(axes: dict[str, tuple[int, ...]], name: str) -> list[str | int]:
    """Return flags and values of all axes; depth by long name, since its short ones need quotes."""
    words: list[str | int] = []
    values = axes[name]
    for long, value in zip(_AXES[name][-len(values) :], values, strict=True):
        words += [f"--{long}" if long.endswith("_d") else f"-{FLAGS[long].short}", value]
    return words
