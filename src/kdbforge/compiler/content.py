"""When two jobs compile the same thing: keys over preprocessed source in place of macros.

The source is preprocessed by the guest; this module says what else decides the result.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from kdbforge.model.job import DATA_KIND_SOURCE, Action, Command, FileInput, Job, digest_fields

__all__ = ["content_base", "content_key"]

# Numbers of amd_comgr.h.
_COMPILES = {
    0x2,  # COMPILE_SOURCE_TO_BC
    0xC,  # COMPILE_SOURCE_WITH_DEVICE_LIBS_TO_BC
    0xD,  # COMPILE_SOURCE_TO_RELOCATABLE
    0xE,  # COMPILE_SOURCE_TO_EXECUTABLE
}
_SOURCE_KINDS = {DATA_KIND_SOURCE, 0x2, 0x5}  # INCLUDE, and LOG, which MIOpen puts in

#: Options that carry macros, lines or the command line itself into the output.
_TELLTALE = ("-g", "-frecord", "-fembed", "-fdebug", "-fcoverage", "-fprofile", "-save-temps",
             "--save-temps", "-fmodules", "-M", "-E", "-d", "@", "--config")  # fmt: skip
#: Options whose argument comes next and belongs to another tool or stage.
_FORWARDS = ("-X", "-mllvm")
#: Macros that count after preprocessing: the compiler asks for those of OpenCL's extensions, and
#: expands the words of `#pragma clang fp`.
_ASKED = ("_", "cl_", "contract", "fast", "off", "on")


def content_base(job: Job, fingerprint: str) -> str | None:
    """Digest of all that decides the result except macros of the command line and what they do.

    None where equal preprocessed source is not known to give equal objects. The digests of all
    inputs stay in: clang writes a symbol made from them (`__hip_cuid_*`) into HIP objects.
    """
    first = job.actions[0]
    if isinstance(first, Command):
        return None  # no job of a compiler that runs as a child process is preprocessed first
    sources = [item for item in first.inputs if isinstance(item, FileInput)]
    if first.kind not in _COMPILES or len(sources) != len(first.inputs):
        return None
    if any(item.kind not in _SOURCE_KINDS for item in sources):
        return None
    if any(option.startswith(_TELLTALE) for option in first.options):
        return None
    rest = replace(first, options=tuple(_without_macros(first)))
    return replace(job, actions=(rest, *job.actions[1:])).key(fingerprint)


def content_key(base: str, text_digest: str) -> str:
    """Key of a content: equal for jobs that must give the same code object."""
    return digest_fields("content", iter((("base", base), ("text", text_digest))))


def _without_macros(action: Action) -> Iterator[str]:
    options = iter(action.options)
    for option in options:
        if option.startswith(_FORWARDS):
            yield option
            yield from (following for following in (next(options, None),) if following is not None)
        elif option in ("-D", "-U"):
            name = next(options, "")
            if name.startswith(_ASKED):
                yield from (option, name)
        elif not option.startswith(("-D", "-U")) or option[2:].startswith(_ASKED):
            yield option
