"""Compile jobs: comgr actions or one run of clang, with all their inputs, named by digest."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass

__all__ = ["Action", "ActionOutput", "Command", "FileInput", "Job", "digest_fields"]

#: Bump when the meaning of a field changes, so that old store entries are not found.
SCHEMA = 1


def digest_fields(label: str, fields: Iterator[tuple[str, str | bytes]]) -> str:
    """SHA-256 (hex) over labelled, length-prefixed fields: no two field lists collide.

    Text may hold bytes that are not UTF-8, as surrogate escapes (PEP 383).
    """
    digest = hashlib.sha256()
    for name, value in ((("schema"), f"{label} {SCHEMA}"), *fields):
        data = value.encode("utf-8", "surrogateescape") if isinstance(value, str) else value
        digest.update(f"{name} {len(data)}\n".encode())
        digest.update(data)
    return digest.hexdigest()


@dataclass(frozen=True, slots=True)
class FileInput:
    """A file that goes into an action: comgr data kind, name, SHA-256 of its bytes."""

    kind: int
    name: str
    digest: str


@dataclass(frozen=True, slots=True)
class ActionOutput:
    """What an earlier action of the same job put out."""

    action: int  # index into Job.actions
    kind: int  # comgr data kind
    index: int  # among the outputs of that kind
    name: str = ""  # set where the caller renamed it; empty: the name that comgr gave


@dataclass(frozen=True, slots=True)
class Action:
    """One `amd_comgr_do_action`; numbers are those of amd_comgr.h."""

    kind: int
    language: int
    isa: str  # "amdgcn-amd-amdhsa--gfx1030"; empty when not set
    options: tuple[str, ...]
    working_directory: str
    device_lib_linking: bool
    inputs: tuple[FileInput | ActionOutput, ...]


@dataclass(frozen=True, slots=True)
class Command:
    """One run of clang in a folder that holds the inputs, as a libMIOpen without COMGR has it.

    The input of kind source is compiled to one object: the only output, of kind 0.
    """

    program: str  # without its folder: "clang-21", "clang++-21"
    arguments: tuple[str, ...]  # without the source and `-o`
    inputs: tuple[FileInput, ...]

    def __post_init__(self) -> None:
        """Refuse what would reach beyond the folder, or load code into the compiler.

        Raises
        ------
        ValueError
            If a name or an argument does, or if there is not one source.
        """
        if not _PROGRAM.fullmatch(self.program):
            raise ValueError(f"`{self.program}` is not clang")
        for item in self.inputs:
            if "/" in item.name or item.name in ("", ".", ".."):
                raise ValueError(f"`{item.name}` is no name of a file in a folder")
        for argument in self.arguments:
            if "/" in argument or argument == "-o" or argument.startswith(_REACHING):
                raise ValueError(f"The argument `{argument}` is not for a compile job")
        if sum(item.kind == DATA_KIND_SOURCE for item in self.inputs) != 1:
            raise ValueError("A run of clang has one source")

    @property
    def source(self) -> str:
        """Name of the input that is compiled."""
        return next(item.name for item in self.inputs if item.kind == DATA_KIND_SOURCE)


@dataclass(frozen=True, slots=True)
class Job:
    """One code object to compile; `output` says which action output it is.

    Actions are those of a chain of comgr actions, or one command.
    """

    actions: tuple[Action | Command, ...]
    output: ActionOutput

    def key(self, fingerprint: str) -> str:
        """The job key (SHA-256, hex) under a toolchain with this fingerprint."""
        return digest_fields("job", self._fields(fingerprint))

    def _fields(self, fingerprint: str) -> Iterator[tuple[str, str]]:
        yield "toolchain", fingerprint
        for action in self.actions:
            yield from _own_fields(action)
            for item in action.inputs:
                if isinstance(item, FileInput):
                    yield "file", f"{item.kind} {item.digest}"
                    yield "name", item.name
                else:
                    yield from _output_fields(item)
        yield from _output_fields(self.output)

    @property
    def kernel_file(self) -> str:
        """Name of the source that the job starts from, e.g. `naive_conv.cpp`."""
        for item in self.actions[0].inputs:
            if isinstance(item, FileInput) and item.kind == DATA_KIND_SOURCE:
                return item.name
        return self.actions[0].inputs[0].name if self.actions[0].inputs else ""

    @property
    def is_hip(self) -> bool:
        """Whether it compiles HIP, which takes much longer than OpenCL of the same size."""
        first = self.actions[0]
        if isinstance(first, Command):
            return first.source.endswith(".cpp")
        return first.language == _LANGUAGE_HIP

    def digests(self) -> Iterator[str]:
        """Digests of all files that the job needs, in order, with repeats."""
        for action in self.actions:
            for item in action.inputs:
                if isinstance(item, FileInput):
                    yield item.digest


_PROGRAM = re.compile(r"clang(\+\+)?(-\d+)?")
#: Arguments that name programs, plug-ins or lists of arguments.
_REACHING = ("@", "-B", "-fplugin", "-fpass-plugin", "-load", "--load", "--config", "-specs")
#: AMD_COMGR_DATA_KIND_SOURCE and AMD_COMGR_LANGUAGE_HIP (amd_comgr.h).
DATA_KIND_SOURCE = 1
_LANGUAGE_HIP = 3


def _own_fields(action: Action | Command) -> Iterator[tuple[str, str]]:
    if isinstance(action, Command):
        yield "command", action.program
        for argument in action.arguments:
            yield "argument", argument
        return
    yield "action", f"{action.kind} {action.language} {action.device_lib_linking:d}"
    yield "isa", action.isa
    yield "directory", action.working_directory
    for option in action.options:
        yield "option", option


def _output_fields(output: ActionOutput) -> Iterator[tuple[str, str]]:
    yield "output", f"{output.action} {output.kind} {output.index}"
    yield "name", output.name
