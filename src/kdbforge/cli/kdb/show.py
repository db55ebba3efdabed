"""`kdbforge kdb show`: one record, decoded down to its instructions."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import click

from kdbforge import api
from kdbforge.cli.console import emit_json, print_table
from kdbforge.cli.kdb.records import kdb_argument, one_entry, printable
from kdbforge.cli.options import Settings, common_options
from kdbforge.codeobject.bundle import device_objects, is_bundle
from kdbforge.codeobject.checks import Finding, check_details
from kdbforge.codeobject.details import Details, Kernel, read_details
from kdbforge.codeobject.metadata import Argument
from kdbforge.compiler.disassemble import Disassembly, check_code, disassemble
from kdbforge.errors import UnknownNameError
from kdbforge.kdb.inspect import Entry, open_kdb, parse_options
from kdbforge.kdb.record import Record

__all__ = ["show"]

_KERNEL_COLUMNS = [
    "kernel", "wave", "VGPRs", "SGPRs", "AGPRs", "LDS", "scratch", "kernarg", "workgroup", "spills",
]  # fmt: skip


@click.command("show")
@kdb_argument
@click.argument("record")
@click.option("--arg", "args", multiple=True, metavar="TEXT", help="Text in its build options.")
@click.option(
    "--function", "names", multiple=True, metavar="NAME",
    help="Only this kernel (or function, for --isa). May be repeated.",
)  # fmt: skip
@click.option("--isa", is_flag=True, help="Disassemble with the toolchain's comgr.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@common_options
def show(
    settings: Settings,
    file: Path,
    record: str,
    args: tuple[str, ...],
    names: tuple[str, ...],
    isa: bool,
    as_json: bool,
) -> None:
    """Show one record: its options, its code object, and each kernel in it.

    RECORD is a number as `kdb ls` prints it, or a glob that fits one kernel file. VGPRs, SGPRs
    and AGPRs are what the code uses and, behind the slash, what each wave is given. Arguments
    are listed with --function, with -v, and where there is but one kernel.

    \b
    Example:
      kdbforge kdb show out/gfx1030_40.kdb 12
      kdbforge kdb show out/gfx1030_40.kdb 12 --isa --function naive_conv_ab_nonpacked_fwd_nchw
      kdbforge kdb show out/gfx1030_40.kdb MIOpenIm2d2Col.cl --arg=-DNUM_CH_PER_WG=1 --json
    """
    with open_kdb(file) as kdb:
        entry = one_entry(kdb, record, args)
        found = kdb.record(entry.id)
    stored = found.unpack()
    objects = device_objects(stored)
    parts = [_restricted(read_details(data), names, functions=isa) for data in objects]
    code: list[tuple[Disassembly, ...]] = []
    if isa:
        toolchain = api.find_toolchain(settings.toolchain)
        code = [disassemble(toolchain, data, names=names or None) for data in objects]
    if as_json:
        emit_json(_json(entry, found, parts, code))
        return
    _print_record(entry, found, bundle=is_bundle(stored), size=len(stored))
    for number, details in enumerate(parts):
        _print_object(details, arguments=bool(names) or settings.verbose)
        if isa:
            _print_code(code[number])


def _restricted(details: Details, names: tuple[str, ...], *, functions: bool) -> Details:
    """The same with the named kernels only; with `functions` a name may be another function's."""
    if not names:
        return details
    kernels = tuple(kernel for kernel in details.kernels if kernel.name in names)
    if not kernels and not functions:
        raise UnknownNameError("kernel", names[0], details.object.kernels)
    return dataclasses.replace(details, kernels=kernels)


def _print_record(entry: Entry, record: Record, *, bundle: bool, size: int) -> None:
    form = "bzip2" if record.uncompressed_size else "plain"
    lines = [
        ("record", str(entry.id)),
        ("kernel file", printable(record.kernel_name.removesuffix(".o"))),
        ("stored", f"{len(record.kernel_blob)} bytes, {form}"),
        ("unpacked", f"{size} bytes{', an offload bundle' if bundle else ''}"),
        ("MD5", record.kernel_hash),
    ]
    for label, value in lines:
        click.echo(f"{label:<13}{value}")
    click.echo()
    options = parse_options(record.kernel_args)
    rows = [[o.kind, printable(o.name), printable(o.value or "")] for o in options]
    print_table(["build option", "name", "value"], rows)


def _print_object(details: Details, *, arguments: bool) -> None:
    described = details.object
    click.echo()
    click.echo(f"code object  {described.target}, version {described.version}")
    for finding in check_details(details):
        click.echo(f"wrong        {printable(_finding(finding))}")
    click.echo()
    print_table(_KERNEL_COLUMNS, [_kernel_row(kernel) for kernel in details.kernels])
    for kernel in details.kernels:
        if kernel.metadata and (arguments or len(details.kernels) == 1):
            click.echo(f"\n{printable(kernel.name)}, arguments:\n")
            rows = [_argument_row(argument) for argument in kernel.metadata.arguments]
            print_table(["offset", "size", "kind", "type", "name"], rows)


def _finding(finding: Finding) -> str:
    return f"{finding.kernel}: {finding.message}" if finding.kernel else finding.message


def _kernel_row(kernel: Kernel) -> list[str]:
    known, given, descriptor = kernel.metadata, kernel.registers, kernel.descriptor
    workgroup = ""
    if known:
        workgroup = "x".join(map(str, known.required_workgroup)) or _text(known.max_workgroup)
    return [
        printable(kernel.name),
        str(kernel.wave_size),
        f"{_text(known and known.vgprs)}/{_text(given and given.vgprs)}",
        f"{_text(known and known.sgprs)}/{_text(given and given.sgprs, 'all')}",
        _text(known and known.agprs, "-"),
        str(descriptor.lds_bytes),
        f"{descriptor.scratch_bytes}{'+' if descriptor.dynamic_stack else ''}",
        str(descriptor.kernarg_bytes),
        workgroup,
        f"{_text(known and known.vgpr_spills)}+{_text(known and known.sgpr_spills)}",
    ]


def _text(number: object, unknown: str = "?") -> str:
    return unknown if number is None else str(number)


def _argument_row(argument: Argument) -> list[str]:
    kind = " ".join(filter(None, (argument.address_space, argument.access, argument.value_kind)))
    texts = map(printable, (kind, argument.type_name, argument.name))
    return [str(argument.offset), str(argument.size), *texts]


def _print_code(code: tuple[Disassembly, ...]) -> None:
    for finding in check_code(code):
        click.echo(f"wrong        {printable(_finding(finding))}")
    for function in code:
        click.echo(f"\n{printable(function.name)}:")
        for instruction in function.instructions:
            start = instruction.address - function.address
            words = _words(function.code[start : start + instruction.size])
            text = "(no instruction)" if instruction.text is None else instruction.text
            target = instruction.branch_target
            goes_to = f"  -> {target:x}" if target is not None else ""
            click.echo(f"  {instruction.address:6x}: {printable(text):<56} // {words}{goes_to}")


def _words(code: bytes) -> str:
    """Code as 32-bit words, as disassemblers of AMD's print it."""
    pieces = [code[at : at + 4] for at in range(0, len(code), 4)]
    return " ".join(f"{int.from_bytes(piece, 'little'):08X}" for piece in pieces)


def _json(
    entry: Entry, record: Record, parts: list[Details], code: list[tuple[Disassembly, ...]]
) -> dict[str, Any]:
    return {
        "id": entry.id,
        "kernel_name": record.kernel_name,
        "kernel_args": record.kernel_args,
        "kernel_hash": record.kernel_hash,
        "stored_size": len(record.kernel_blob),
        "uncompressed_size": record.uncompressed_size,
        "options": [dataclasses.asdict(option) for option in parse_options(record.kernel_args)],
        "code_objects": [
            {
                "target": str(details.object.target),
                "sramecc": details.object.sramecc.name.lower(),
                "xnack": details.object.xnack.name.lower(),
                "code_object_version": details.object.version,
                "kernels": [_kernel_json(kernel) for kernel in details.kernels],
                "findings": [
                    {**dataclasses.asdict(finding), "level": finding.level.name.lower()}
                    for finding in (
                        *check_details(details),
                        *check_code(code[number] if code else ()),
                    )
                ],
                **({"isa": [_code_json(part) for part in code[number]]} if code else {}),
            }
            for number, details in enumerate(parts)
        ],
    }


def _kernel_json(kernel: Kernel) -> dict[str, Any]:
    return {
        "name": kernel.name,
        "wave_size": kernel.wave_size,
        "entry": kernel.entry,
        "registers": dataclasses.asdict(kernel.registers) if kernel.registers else None,
        "descriptor": dataclasses.asdict(kernel.descriptor),
        "metadata": dataclasses.asdict(kernel.metadata) if kernel.metadata else None,
    }


def _code_json(code: Disassembly) -> dict[str, Any]:
    return {
        "name": code.name,
        "address": code.address,
        "instructions": [dataclasses.asdict(instruction) for instruction in code.instructions],
    }
