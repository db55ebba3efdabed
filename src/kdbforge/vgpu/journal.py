"""The capture journal that the virtual GPU's libraries write.

Not a parser of MIOpen data: it turns bytes into events, and captured actions into compile jobs.
"""

from __future__ import annotations

import hashlib
import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from kdbforge.errors import VirtualGpuError
from kdbforge.model.job import Action, ActionOutput, Command, FileInput, Job

__all__ = ["MARKER_PREFIX", "Capture", "Forbidden", "Load", "read_journal"]

# An entry of the journal, little endian; a cut-off or damaged tail is legal and ends the reading:
#   u32 magic "KFJ1" | u32 type | u64 payload length | u32 CRC-32 of payload | u32 zero | payload
# The payload is a list of fields, each u64 length | bytes.
_HEADER = struct.Struct("<IIQII")
_MAGIC = 0x314A464B
_LENGTH = struct.Struct("<Q")
#: A journal holds sources of at most a few MB per process; an entry beyond this is damage.
_MAX_PAYLOAD = 256 << 20

PROCESS, BLOB, ACTION, MARK, LOAD, FORBIDDEN, UNSUPPORTED, COMMAND = range(1, 9)

#: Longest chain of actions that build on each other; a compilation takes about five.
_MAX_CHAIN = 100

#: How the bytes start that stand for a code object not compiled yet.
MARKER_PREFIX = b"kdbforge-capture:"


@dataclass(frozen=True, slots=True)
class Load:
    """A code object that was loaded; `marker` is empty where it was a real one."""

    mark: str  # the mark that was current, e.g. "problem 3 immediate"
    marker: str


@dataclass(frozen=True, slots=True)
class Forbidden:
    """A compilation that was refused."""

    mark: str
    kernel_file: str
    isa: str
    options: tuple[str, ...]


@dataclass(slots=True)
class Capture:
    """All that one or more journals tell."""

    blobs: dict[str, bytes] = field(default_factory=dict)  # by SHA-256
    loads: list[Load] = field(default_factory=list)
    forbidden: list[Forbidden] = field(default_factory=list)
    unsupported: dict[str, int] = field(default_factory=dict)  # calls, by function
    processes: int = 0
    _actions: dict[tuple[str, int], _RawAction | Command] = field(default_factory=dict)
    _jobs: dict[str, Job] = field(default_factory=dict)  # by marker

    def job(self, marker: str) -> Job:
        """The compile job whose result a marker stands for.

        Raises
        ------
        VirtualGpuError
            If the marker is malformed, its actions are not in the journal, or more than 100 of
            them build on each other (or on themselves).
        """
        marker = marker.strip()
        if marker not in self._jobs:
            nonce, action, kind, index = _split_marker(marker)
            order: dict[int, int] = {}
            actions: list[Action | Command] = []
            self._collect(nonce, action, order, actions)
            output = ActionOutput(order[action], kind, index)
            self._jobs[marker] = Job(tuple(actions), output)
        return self._jobs[marker]

    def _collect(
        self,
        nonce: str,
        wanted: int,
        order: dict[int, int],
        actions: list[Action | Command],
        depth: int = 0,
    ) -> None:
        """Append the action and those that it builds on, inputs first, each once."""
        if wanted in order:
            return
        raw = self._actions.get((nonce, wanted))
        if raw is None:
            raise VirtualGpuError(f"The capture journal has no action {nonce}:{wanted}")
        if depth > _MAX_CHAIN:
            raise VirtualGpuError(f"The chain of actions below {nonce}:{wanted} has no end")
        if isinstance(raw, Command):
            order[wanted] = len(actions)
            actions.append(raw)
            return
        inputs: list[FileInput | ActionOutput] = []
        for item in raw.inputs:
            if isinstance(item, ActionOutput):
                self._collect(nonce, item.action, order, actions, depth + 1)
                item = ActionOutput(order[item.action], item.kind, item.index, item.name)  # noqa: PLW2901
            inputs.append(item)
        order[wanted] = len(actions)
        actions.append(raw.action(tuple(inputs)))


@dataclass(frozen=True, slots=True)
class _RawAction:
    """An action as journalled: outputs of others still named by their number in the journal."""

    kind: int
    language: int
    isa: str
    directory: str
    device_lib_linking: bool
    options: tuple[str, ...]
    inputs: tuple[FileInput | ActionOutput, ...]

    def action(self, inputs: tuple[FileInput | ActionOutput, ...]) -> Action:
        return Action(
            self.kind, self.language, self.isa, self.options, self.directory,
            self.device_lib_linking, inputs,
        )  # fmt: skip


def read_journal(paths: Sequence[Path]) -> Capture:
    """Read the journals of a run, in order; a missing file is an empty one."""
    capture = Capture()
    for path in paths:
        if path.exists():
            _Reader(capture).feed(path.read_bytes())
    return capture


class _Reader:
    """Turns the entries of one journal into the fields of a Capture."""

    def __init__(self, capture: Capture):
        self._capture = capture
        self._mark = ""
        self._digests: dict[tuple[str, str], str] = {}

    def feed(self, data: bytes) -> None:
        """Take in every whole entry."""
        for kind, fields in _entries(data):
            try:
                self._entry(kind, [f.decode() for f in fields] if kind != BLOB else [], fields)
            except (ValueError, IndexError, KeyError) as error:
                raise VirtualGpuError(f"Malformed capture journal entry of type {kind}") from error

    def _entry(self, kind: int, text: list[str], fields: list[bytes]) -> None:
        capture = self._capture
        if kind == PROCESS:
            capture.processes += 1
        elif kind == BLOB:
            digest = hashlib.sha256(fields[2]).hexdigest()
            self._digests[fields[0].decode(), fields[1].decode()] = digest
            capture.blobs[digest] = fields[2]
        elif kind == ACTION:
            self._action(text)
        elif kind == MARK:
            self._mark = text[1]
        elif kind == LOAD:
            marker = text[2].strip() if text[1] == "capture" else ""
            capture.loads.append(Load(self._mark, marker))
        elif kind == FORBIDDEN:
            options = tuple(text[6 : 6 + int(text[5])])
            capture.forbidden.append(Forbidden(self._mark, text[4], text[3], options))
        elif kind == UNSUPPORTED:
            # Told at the first call, and with the number of calls by a process that ends well.
            more = int(text[2]) - 1 if len(text) > 2 else 1
            capture.unsupported[text[1]] = capture.unsupported.get(text[1], 0) + more
        elif kind == COMMAND:
            self._command(text)
        else:
            raise ValueError(kind)

    def _action(self, text: list[str]) -> None:
        nonce, number, kind, language, isa, directory, _logging, linking = text[:8]
        count = int(text[8])
        options, rest = tuple(text[9 : 9 + count]), text[9 + count :]
        inputs = []
        for i in range(int(rest[0])):
            data_kind, name, ref = rest[1 + 3 * i : 4 + 3 * i]
            inputs.append(self._input(nonce, int(data_kind), name, ref))
        self._capture._actions[nonce, int(number)] = _RawAction(
            int(kind), int(language), isa, directory, linking == "1", options, tuple(inputs)
        )

    def _command(self, text: list[str]) -> None:
        nonce, number, program, count = text[:4]
        arguments, rest = tuple(text[4 : 4 + int(count)]), text[4 + int(count) :]
        files = []
        for i in range(int(rest[0])):
            kind, name, ref = rest[1 + 3 * i : 4 + 3 * i]
            what, _, blob = ref.partition(":")
            if what != "blob":
                raise ValueError(ref)
            files.append(FileInput(int(kind), name, self._digests[nonce, blob]))
        self._capture._actions[nonce, int(number)] = Command(program, arguments, tuple(files))

    def _input(self, nonce: str, kind: int, name: str, ref: str) -> FileInput | ActionOutput:
        what, _, rest = ref.partition(":")
        if what == "blob":
            return FileInput(kind, name, self._digests[nonce, rest])
        if what == "action":
            action, output_kind, index = map(int, rest.split(":"))
            return ActionOutput(action, output_kind, index, name)
        raise ValueError(ref)


def _entries(data: bytes) -> Iterator[tuple[int, list[bytes]]]:
    """Whole, undamaged entries up to the first that is not."""
    offset = 0
    while offset + _HEADER.size <= len(data):
        magic, kind, length, crc, zero = _HEADER.unpack_from(data, offset)
        offset += _HEADER.size
        payload = data[offset : offset + length]
        if (
            magic != _MAGIC
            or zero
            or length > _MAX_PAYLOAD
            or len(payload) < length
            or zlib.crc32(payload) != crc
        ):
            return
        offset += length
        fields = _fields(payload)
        if fields is None:
            return
        yield kind, fields


def _fields(payload: bytes) -> list[bytes] | None:
    fields, offset = [], 0
    while offset < len(payload):
        if offset + _LENGTH.size > len(payload):
            return None
        (length,) = _LENGTH.unpack_from(payload, offset)
        offset += _LENGTH.size
        if length > len(payload) - offset:
            return None
        fields.append(payload[offset : offset + length])
        offset += length
    return fields


def _split_marker(marker: str) -> tuple[str, int, int, int]:
    parts = marker.removeprefix(MARKER_PREFIX.decode()).split(":")
    try:
        nonce, action, kind, index = parts
        return nonce, int(action), int(kind), int(index)
    except ValueError as error:
        raise VirtualGpuError(f"Malformed capture marker `{marker}`") from error
