"""Child process that runs compile jobs on the real compiler, one after another.

Standard library only: the toolchain's own Python runs this file. It knows nothing of kdbforge.

    guest.py LIBAMD_COMGR BLOB_DIR PARENT_PID MEMORY_BYTES
    guest.py CLANG_GUEST  BLOB_DIR PARENT_PID MEMORY_BYTES SETTINGS

CLANG_GUEST is the path of `clang_guest.py`, which has the meaning of SETTINGS.

Frames, little endian. To the guest on stdin: u32 length, JSON. From the guest on stdout:
u32 header length, u64 payload length, JSON header, payload. One request is answered by `done`
(payload: the packed object), `error` (payload: the compiler's log) or `skipped`; a request with
`ask` first gets `content`, and waits for `{"compile": true|false}`.
"""

from __future__ import annotations

import bz2
import ctypes
import hashlib
import importlib.util
import json
import os
import re
import resource
import shutil
import signal
import struct
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO, Protocol

# Numbers of amd_comgr.h.
KIND_SOURCE = 1
KIND_LOG = 5
ACTION_SOURCE_TO_PREPROCESSOR = 0
STATUS_ERROR, STATUS_OUT_OF_RESOURCES = 1, 3

PR_SET_PDEATHSIG = 1  # linux/prctl.h
#: comgr's scratch folder, unlike in every run, stands in the line markers of preprocessed text.
SCRATCH = re.compile(rb'^(# \d+ ")[^"\n]*/comgr-\d+-\d+-[0-9a-f]+/', re.MULTILINE)
#: The same in diagnostics, where the name of the file is all that helps.
SCRATCH_IN_LOG = re.compile(rb"[^\s\"']*/comgr-\d+-\d+-[0-9a-f]+/(?:input/|include/)?")


class Handle(ctypes.Structure):
    """Every comgr handle: one 64-bit number in a struct, passed by value."""

    _fields_ = [("handle", ctypes.c_uint64)]


class CompilerError(Exception):
    """An action failed; the status is comgr's."""

    def __init__(self, action: int, status: int, text: str, log: bytes):
        super().__init__(text)
        self.action = action
        self.status = status
        self.text = text
        self.log = log


class Comgr:
    """The functions of libamd_comgr that a job needs; any failure raises `CompilerError`."""

    def __init__(self, path: str):
        self._lib = ctypes.CDLL(path)

    def __call__(self, function: str, *arguments: Any) -> None:
        status = getattr(self._lib, f"amd_comgr_{function}")(*arguments)
        if status:
            raise CompilerError(-1, status, f"amd_comgr_{function}: {self.status(status)}", b"")

    def status(self, status: int) -> str:
        text = ctypes.c_char_p()
        if self._lib.amd_comgr_status_string(status, ctypes.byref(text)) or text.value is None:
            return f"status {status}"
        return text.value.decode("utf-8", "replace")

    def do_action(self, kind: int, info: Handle, inputs: Handle, result: Handle) -> int:
        return int(self._lib.amd_comgr_do_action(kind, info, inputs, result))

    def create(self, what: str, *arguments: Any) -> Handle:
        handle = Handle()
        self(f"create_{what}", *arguments, ctypes.byref(handle))
        return handle

    def data_of(self, data_set: Handle, kind: int) -> list[Handle]:
        """All data of a kind in a set; the caller releases each."""
        count = ctypes.c_size_t()
        self("action_data_count", data_set, kind, ctypes.byref(count))
        found = []
        for index in range(count.value):
            handle = Handle()
            self(
                "action_data_get_data", data_set, kind, ctypes.c_size_t(index), ctypes.byref(handle)
            )
            found.append(handle)
        return found

    def bytes_of(self, data: Handle) -> bytes:
        size = ctypes.c_size_t()
        self("get_data", data, ctypes.byref(size), None)
        buffer = ctypes.create_string_buffer(size.value)
        self("get_data", data, ctypes.byref(size), buffer)
        return buffer.raw


class Chain:
    """One run of a job's actions; `close` gives all handles back to the library."""

    def __init__(self, comgr: Comgr, blob: Callable[[str], bytes]):
        self._comgr = comgr
        self._blob = blob
        self._results: list[Handle] = []
        self._sets: list[Handle] = []
        self._data: list[Handle] = []
        self.log = b""

    def close(self) -> None:
        for data in self._data:
            self._comgr("release_data", data)
        for data_set in self._sets:
            self._comgr("destroy_data_set", data_set)

    def run(self, action: dict[str, Any]) -> None:
        """Execute one action; its outputs can be named by those that follow."""
        comgr = self._comgr
        inputs = self._new_set()
        for item in action["inputs"]:
            comgr("data_set_add", inputs, self._input(item))
        result = self._new_set()
        info = comgr.create("action_info")
        try:
            self._configure(info, action)
            status = comgr.do_action(action["kind"], info, inputs, result)
        finally:
            comgr("destroy_action_info", info)
        for data in comgr.data_of(result, KIND_LOG):
            self._data.append(data)
            self.log += SCRATCH_IN_LOG.sub(b"", comgr.bytes_of(data))
        if status:
            number = len(self._results)
            text = f"action {number} of the chain: {comgr.status(status)}"
            raise CompilerError(number, status, text, self.log)
        self._results.append(result)

    def output(self, item: dict[str, Any]) -> bytes:
        return self._comgr.bytes_of(self._output(item))

    def _configure(self, info: Handle, action: dict[str, Any]) -> None:
        comgr = self._comgr
        comgr("action_info_set_language", info, action["language"])
        if action["isa"]:
            comgr("action_info_set_isa_name", info, encode(action["isa"]))
        if action["working_directory"]:
            path = encode(action["working_directory"])
            comgr("action_info_set_working_directory_path", info, path)
        if action["device_lib_linking"]:
            comgr("action_info_set_device_lib_linking", info, ctypes.c_bool(True))
        options = [encode(option) for option in action["options"]]
        array = (ctypes.c_char_p * len(options))(*options)
        comgr("action_info_set_option_list", info, array, ctypes.c_size_t(len(options)))
        comgr("action_info_set_logging", info, ctypes.c_bool(True))

    def _input(self, item: dict[str, Any]) -> Handle:
        if "digest" in item:
            return self._new_data(item["kind"], item["name"], self._blob(item["digest"]))
        data = self._output(item)
        if item["name"]:  # the caller had renamed it, which is done on a copy
            return self._new_data(item["kind"], item["name"], self._comgr.bytes_of(data))
        return data

    def _output(self, item: dict[str, Any]) -> Handle:
        found = self._comgr.data_of(self._results[item["action"]], item["kind"])
        self._data.extend(found)
        if item["index"] >= len(found):
            text = (
                f"action {item['action']} has {len(found)} outputs of kind {item['kind']}, "
                f"number {item['index']} is wanted"
            )
            raise CompilerError(item["action"], 1, text, self.log)
        return found[int(item["index"])]

    def _new_set(self) -> Handle:
        handle = self._comgr.create("data_set")
        self._sets.append(handle)
        return handle

    def _new_data(self, kind: int, name: str, content: bytes) -> Handle:
        handle = self._comgr.create("data", kind)
        self._data.append(handle)
        if content:  # comgr refuses to set nothing; new data is empty as it is
            self._comgr("set_data", handle, ctypes.c_size_t(len(content)), content)
        self._comgr("set_data_name", handle, encode(name))
        return handle


def encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


# What may stand in a `#pragma` line without a macro's value deciding what it means: clang prints
# these lines unexpanded when it preprocesses, and expands them when it compiles.
PLAIN_PRAGMA = re.compile(
    rb"(?:no)?unroll(?:\s*\(?\s*\d+[uUlL]*\s*\)?)?"
    rb"|OPENCL\s+EXTENSION\s+\w+\s*:\s*\w+|OPENCL\s+FP_CONTRACT\s+\w+|OPENCL_EXTENSION\b.*"
    rb"|(?:clang|GCC)\s+(?:diagnostic|system_header)\b.*|once"
    rb'|(?:push|pop)_macro\s*\(\s*"\w+"\s*\)'
    rb"|clang\s+force_cuda_host_device\s+(?:begin|end)"
    rb"|GCC\s+visibility\s+(?:pop|push\s*\(\s*(?:default|hidden)\s*\))"
    rb"|clang\s+fp\s+contract\s*\(\s*(?:on|off|fast)\s*\)"
)
PRAGMA = re.compile(rb"#[ \t]*pragma\b[ \t]*([^\n]*)|__pragma|_Pragma")


def content_digest(text: bytes) -> str:
    """Digest of preprocessed text, line markers included; "" where the text does not say it all."""
    for match in PRAGMA.finditer(text):
        words = (match[1] or b"?").split(b"//")[0].strip()
        if not PLAIN_PRAGMA.fullmatch(words):
            return ""
    return hashlib.sha256(SCRATCH.sub(rb"\1", text)).hexdigest()


class Compiler(Protocol):
    """What turns jobs into code objects; `CompilerError` where it cannot."""

    def compile(self, job: dict[str, Any]) -> tuple[bytes, bytes]:
        """The code object and the log."""

    def content(self, job: dict[str, Any]) -> str:
        """Digest of the preprocessed source; "" where that does not say it all."""


class ComgrCompiler:
    """Jobs that are chains of comgr actions."""

    def __init__(self, comgr: Comgr, blob: Callable[[str], bytes]):
        self._comgr = comgr
        self._blob = blob

    def compile(self, job: dict[str, Any]) -> tuple[bytes, bytes]:
        chain = Chain(self._comgr, self._blob)
        try:
            for action in job["actions"]:
                chain.run(action)
            return chain.output(job["output"]), chain.log
        finally:
            chain.close()

    def content(self, job: dict[str, Any]) -> str:
        action = job["actions"][0]
        chain = Chain(self._comgr, self._blob)
        try:
            chain.run({**action, "kind": ACTION_SOURCE_TO_PREPROCESSOR})
            sources = sum(item["kind"] == KIND_SOURCE for item in action["inputs"])
            output = {"action": 0, "kind": KIND_SOURCE}
            texts = [chain.output({**output, "index": index}) for index in range(sources)]
        except CompilerError:
            return ""  # compiling it gives the right message
        finally:
            chain.close()
        digests = [content_digest(text) for text in texts]
        return "" if "" in digests else hashlib.sha256("".join(digests).encode()).hexdigest()


class ClangCompiler:
    """Jobs that are one run of clang, each in a folder of its own."""

    def __init__(self, module: Any, settings: str, blob: Callable[[str], bytes]):
        self._module = module
        self._clang = module.Clang(json.loads(settings))
        self._blob = blob

    def compile(self, job: dict[str, Any]) -> tuple[bytes, bytes]:
        (action,) = job["actions"]
        (source,) = [item["name"] for item in action["inputs"] if item["kind"] == KIND_SOURCE]
        folder = Path(tempfile.mkdtemp(prefix="job-"))
        try:
            for item in action["inputs"]:
                (folder / item["name"]).write_bytes(self._blob(item["digest"]))
            log = self._clang.compile(folder, source, action["program"], action["arguments"])
            return (folder / f"{source}.o").read_bytes(), log
        except self._module.CommandError as error:
            full = any(words in error.log for words in NO_MEMORY)
            status = STATUS_OUT_OF_RESOURCES if full else STATUS_ERROR
            raise CompilerError(0, status, error.text, error.log) from error
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def content(self, _job: dict[str, Any]) -> str:
        return ""


#: How libc, libstdc++ and LLVM put it when they get no more memory.
NO_MEMORY = (b"out of memory", b"bad_alloc", b"Cannot allocate memory", b"failed to map segment")


def load_compiler(path: str, blobs: Path, settings: str | None) -> Compiler:
    """The compiler at a path: libamd_comgr, or clang run by the script that is given."""

    def blob(digest: str) -> bytes:
        return (blobs / digest).read_bytes()

    if settings is None:
        return ComgrCompiler(Comgr(path), blob)
    spec = importlib.util.spec_from_file_location("clang_guest", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return ClangCompiler(module, settings, blob)


def cpu_seconds() -> float:
    """CPU time of this process and of the children that it has waited for."""
    own, children = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime


class Guest:
    """Serves requests until the parent closes its end."""

    def __init__(self, compiler: Compiler, requests: BinaryIO, replies: BinaryIO):
        self._compiler = compiler
        self._requests = requests
        self._replies = replies

    def serve(self) -> None:
        self._reply({"type": "ready"})
        while (request := self._request()) is not None:
            started = cpu_seconds()
            try:
                self._job(request, started)
            except CompilerError as error:
                header = {"type": "error", "status": error.status, "text": error.text}
                self._reply(header, error.log)

    def _job(self, job: dict[str, Any], started: float) -> None:
        if job["ask"]:
            self._reply({"type": "content", "digest": self._compiler.content(job)})
            answer = self._request()
            if answer is None or not answer["compile"]:
                self._reply({"type": "skipped"})
                return
        code_object, log = self._compiler.compile(job)
        if not code_object:
            raise CompilerError(len(job["actions"]), 1, "the chain gave an empty object", log)
        # As MIOpen packs it (bz2.cpp), and with the libbz2 that it uses.
        blob, size = bz2.compress(code_object, 9), len(code_object)
        if len(blob) > size:
            blob, size = code_object, 0
        digest = hashlib.md5(code_object, usedforsecurity=False).hexdigest()
        header = {
            "type": "done",
            "kernel_hash": digest,
            "uncompressed_size": size,
            "seconds": cpu_seconds() - started,
            "log": log.decode("utf-8", "replace"),
        }
        self._reply(header, blob)

    def _request(self) -> dict[str, Any] | None:
        prefix = self._requests.read(4)
        if len(prefix) < 4:
            return None
        (length,) = struct.unpack("<I", prefix)
        text = self._requests.read(length)
        return dict(json.loads(text)) if len(text) == length else None

    def _reply(self, header: dict[str, Any], payload: bytes = b"") -> None:
        header["cpu"] = cpu_seconds()
        text = json.dumps(header).encode("ascii")
        self._replies.write(struct.pack("<IQ", len(text), len(payload)) + text + payload)
        self._replies.flush()


def die_with(parent: int) -> None:
    """Let the kernel end this process when its parent ends, however that happens."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # it ended before the call
        os._exit(1)


def limit(memory_bytes: int) -> None:
    """Bound what this process can allocate; not its mappings of libraries. 0: no bound."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if memory_bytes:
        resource.setrlimit(resource.RLIMIT_DATA, (memory_bytes, memory_bytes))


def main() -> None:
    compiler, blobs, parent, memory_bytes, *settings = sys.argv[1:]
    die_with(int(parent))
    # The library may write to the standard streams: keep the protocol out of its reach.
    requests = os.fdopen(os.dup(0), "rb")
    replies = os.fdopen(os.dup(1), "wb")
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(2, 1)
    limit(int(memory_bytes))
    loaded = load_compiler(compiler, Path(blobs), settings[0] if settings else None)
    Guest(loaded, requests, replies).serve()
    # Past the library's destructors, which only cost time.
    os._exit(0)


if __name__ == "__main__":
    main()
