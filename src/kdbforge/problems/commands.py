"""Which lines of a text are MIOpenDriver commands, and their words. Flags are read elsewhere."""

from __future__ import annotations

import re

from kdbforge.errors import InputError, KdbforgeError, UnknownNameError
from kdbforge.problems.line import Kind, Line, shown
from kdbforge.problems.primitives import COMMANDS

__all__ = ["CONV_DTYPES", "NAMES", "REFUSED", "not_a_command", "read_line"]

#: MIOpenDriver's convolution commands and their dtypes (driver/dm_conv*.cpp).
CONV_DTYPES = {"conv": "fp32", "convfp16": "fp16", "convbfp16": "bf16", "convint8": "int8"}

_NO_8_BIT_CONV = "MIOpen cannot run it, since `fp8_naive_conv.cpp` lacks the kernels that it loads"
_ROCBLAS = "rocBLAS runs it, with kernels of its own"
#: Those that kdbforge does not take, and why.
REFUSED = {
    # MIOpenDriver of 3.4 and 3.5 refuses it as well. Casts of `conv` come to the same kernels
    # (conv_direct_naive_conv.cpp asks for naive_conv_ab_nonpacked_*, the file has others).
    "convfp8": _NO_8_BIT_CONV,
    "convbfp8": _NO_8_BIT_CONV,
    "gemm": _ROCBLAS,
    "gemmfp16": _ROCBLAS,
}
#: All names that can stand behind `MIOpenDriver`.
NAMES = frozenset((*CONV_DTYPES, *COMMANDS, *REFUSED))

_PROGRAM = re.compile(r"""(?:^|(?<=[\s/\\"']))MIOpenDriver(?:\.exe)?["']?(?=\s|$)""")
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")
#: A line that begins with a name and a flag: after variable assignments, `conv -n`.
_BARE = re.compile(
    r"""(?:[A-Za-z_][A-Za-z0-9_]*=\S*\s+)*(?P<name>[A-Za-z]\w*)\s+["'\\]?-\S""", re.A
)
#: What may stand in front of a command that a person wrote: shell prompts and launchers.
_LAUNCHERS = frozenset(("$", "+", "env", "exec", "nohup", "sudo", "time"))
#: How MIOpen logs a command (src/include/miopen/logger.hpp, MIOPEN_LOG_DRIVER_COMMAND).
_LOGGED = re.compile(r"\bCommand \[[^][]*\] \S*$")
#: MIOpen's log prefix (src/logger.cpp, LoggingPrefix), and what MIOpenDriver says of a run.
_LOG = re.compile(r"\bMIOpen\((?:HIP|OpenCL)\)|^MIOpen (?:Forward|Backward) ")
_BLANKS = " \t\r\n\v\f"


def read_line(text: str) -> Line:
    """Say what a line is.

    A line is a driver command if `MIOpenDriver` stands in it as a word, with or without a folder,

    - behind MIOpen's own words for a logged command, or
    - at its start (but for variable assignments, a prompt or a launcher such as `time`), before
      the name of one of its commands or any name and a flag, or
    - anywhere else outside a comment, before a name and a flag;

    or if it begins with the name of one of MIOpenDriver's commands and a flag.

    Raises
    ------
    InputError
        If a quote is not closed in a command, or a log was cut off before its name.
    """
    text = text.strip(_BLANKS)
    if not text or text.startswith("#"):
        return Line(Kind.BLANK)
    program = _PROGRAM.search(text)
    if program is not None:
        return _program_line(text[: program.start()], text[program.end() :])
    log = _LOG.search(text) is not None
    bare = _BARE.match(text)
    if bare is None or not _is_command(bare["name"]):
        return Line(Kind.TEXT, log=log)
    return Line(Kind.COMMAND, split_words(text[bare.start("name") :]))


def _program_line(before: str, after: str) -> Line:
    logged = _LOGGED.search(before) is not None
    log = logged or _LOG.search(before) is not None
    after = after.strip(_BLANKS)
    named = _BARE.match(after) is not None
    if logged or (_begins_command(before) and (named or _is_command(after))):
        words = split_words(after)
        if not words:
            raise InputError("The command in the log has no name")
        return Line(Kind.COMMAND, words, log, logged)
    if named and not _begins_command(before) and not re.search(r"(?:^|\s)#", before):
        return Line(Kind.COMMAND, split_words(after), log=True)
    return Line(Kind.TEXT, log=log)


def _is_command(text: str) -> bool:
    name = text.split(maxsplit=1)[:1]
    return bool(name) and name[0] in NAMES


def _begins_command(before: str) -> bool:
    """Tell whether what stands before the program is its folder, assignments and launchers."""
    words = before.split()
    if words and not before.endswith(tuple(_BLANKS)):
        words.pop()  # the folder
    return all(word in _LAUNCHERS or _ASSIGNMENT.match(word) for word in words)


def split_words(text: str) -> tuple[str, ...]:
    """Split as a shell does: quotes, backslashes, and `#` at the start of a word.

    The standard shlex is no help here: it takes the `#` of the flag `-#` for a comment.

    Raises
    ------
    InputError
        If a quote is not closed.
    """
    words: list[str] = []
    word: list[str] | None = None
    quote = ""
    chars = iter(text)
    for char in chars:
        if quote:
            if char == quote:
                quote = ""
            elif word is not None:
                word.append(char)
        elif char in _BLANKS:
            if word is not None:
                words.append("".join(word))
            word = None
        elif char == "#" and word is None:
            break
        else:
            word = [] if word is None else word
            if char in "'\"":
                quote = char
            else:
                word.append(next(chars, "") if char == "\\" else char)
    if quote:
        raise InputError(f"The quote {quote} is not closed")
    return (*words, "".join(word)) if word is not None else tuple(words)


def not_a_command(text: str) -> KdbforgeError:
    """Return the error for a line of a problem list that is no driver command."""
    program = _PROGRAM.search(text)
    rest = text[program.end() :].split() if program is not None else []
    bare = _BARE.match(text.strip(_BLANKS))
    name = rest[0] if rest else bare["name"] if bare is not None else ""
    if name and not _is_command(name):
        return UnknownNameError("MIOpenDriver command", shown(name), sorted(NAMES))
    return InputError(
        f"`{shown(text)}` is not a MIOpenDriver command line",
        hint="start lines that are no commands with `#`; only a MIOpen log may hold other text",
    )
