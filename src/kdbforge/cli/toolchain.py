"""`kdbforge toolchain`: the MIOpens to build for, and where they come from."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, cast

import click
from rich.markup import escape

from kdbforge.cli.console import console, emit_json, print_table, progress_bar
from kdbforge.cli.options import Settings
from kdbforge.errors import KdbforgeError
from kdbforge.toolchain import (
    Description,
    FetchOptions,
    FetchResult,
    add,
    data_folder,
    describe,
    fetch,
    names,
    remove,
    verify,
)
from kdbforge.toolchain.fetch import SUITES, Bar
from kdbforge.toolchain.registry import check_description

__all__ = ["toolchain"]


@click.group("toolchain")
def toolchain() -> None:
    """The MIOpens to build for: fetched ones and installed ones.

    They are kept in $KDBFORGE_DATA, else $XDG_DATA_HOME/kdbforge, else ~/.local/share/kdbforge.
    """


@toolchain.command("fetch")
@click.option("--mirror", metavar="URL", help="Debian mirror.  [default: the host's own]")
@click.option(
    "--suite", "suites", multiple=True, metavar="SUITE",
    help=f"Where to look; may be repeated.  [default: {', '.join(SUITES)}]",
)  # fmt: skip
@click.option(
    "--keyring", "keyrings", multiple=True, type=click.Path(exists=True, path_type=Path),
    help="Keys that the suites are signed with; may be repeated.  [default: the host's]",
)  # fmt: skip
@click.option(
    "--miopen", metavar="VERSION",
    help="This release, also if it runs clang as a child process, such as 6.4.3.",
)  # fmt: skip
@click.option("--name", help="Name to keep it under.  [default: debian-VERSION]")
@click.option("--if-missing", is_flag=True, help="Do nothing when there is a sound fetched one.")
@click.option("--replace", is_flag=True, help="Replace one of the same name by newer packages.")
@click.option("--keep-packages", is_flag=True, help="Keep the .deb files.")
def fetch_toolchain(
    mirror: str | None,
    suites: tuple[str, ...],
    keyrings: tuple[Path, ...],
    miopen: str | None,
    name: str | None,
    if_missing: bool,
    replace: bool,
    keep_packages: bool,
) -> None:
    """Fetch the newest libMIOpen with COMGR and HIPRTC from Debian, with all that it needs.

    With `--miopen` another release, also one that runs clang as a child process.

    Nothing is installed and root is not needed: apt works with lists and folders of its own,
    checks the archive's signatures, and the packages are unpacked in the data folder. A fetch
    that was interrupted goes on where it stopped.

    \b
    Example:
      kdbforge toolchain fetch
      kdbforge toolchain fetch --miopen 6.4.3
    """
    options = FetchOptions(
        mirror=mirror,
        suites=suites or SUITES,
        keyrings=tuple(path.absolute() for path in keyrings),
        miopen=miopen,
        name=name,
        if_missing=if_missing,
        replace=replace,
        keep_packages=keep_packages,
    )
    result = fetch(
        data_folder(), options, bar=_bytes_bar, step=lambda text: console.print(escape(text))
    )
    _report(result)
    click.echo(result.toolchain.name)


def _bytes_bar(description: str, total: int) -> AbstractContextManager[Bar]:
    return cast("AbstractContextManager[Bar]", progress_bar(description, total, unit="bytes"))


def _report(result: FetchResult) -> None:
    name = escape(result.toolchain.name)
    if result.note:
        console.print(f"[bold]note:[/] {escape(result.note)}")
    if result.already_there:
        console.print(f"`{name}` is there and sound")
        return
    console.print(
        f"Fetched `{name}`: {result.packages} packages, {_size(result.download_bytes)} "
        f"({_size(result.fetched_bytes)} over the network), {_size(result.unpacked_bytes)} "
        f"unpacked, in {result.seconds:.0f} s"
    )


@toolchain.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_toolchains(as_json: bool) -> None:
    """List the toolchains in the data folder.

    \b
    Example:
      kdbforge toolchain list --json
    """
    data_dir = data_folder()
    found = [(name, *_state(name, data_dir)) for name in names(data_dir)]
    if as_json:
        emit_json([_brief(name, description, problem) for name, description, problem in found])
        return
    if not found:
        console.print(f"No toolchain in `{escape(str(data_dir))}`; `kdbforge toolchain fetch`")
    rows = [
        [name, d.toolchain.version, d.toolchain.miopen_version, d.toolchain.origin, p or "sound"]
        if d is not None
        else [name, "?", "?", "?", p or ""]
        for name, d, p in found
    ]
    if rows:
        print_table(["name", "version", "MIOpen", "origin", "state"], rows)


def _state(name: str, data_dir: Path) -> tuple[Description | None, str | None]:
    description = None
    try:
        description = describe(name, data_dir)
        check_description(description)
    except KdbforgeError as error:
        return description, error.message
    return description, None


@toolchain.command("show")
@click.argument("name", required=False)
@click.option("--verify", "check_digests", is_flag=True, help="Compute the libraries' digests too.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_obj
def show_toolchain(
    settings: Settings | None, name: str | None, check_digests: bool, as_json: bool
) -> None:
    """Show one toolchain, by name or by path, and check it.

    \b
    Example:
      kdbforge toolchain show debian-7.2.4 --verify
      kdbforge toolchain show /opt/rocm
    """
    description = describe(name or (settings.toolchain if settings else None))
    if check_digests:
        verify(description)
    else:
        check_description(description)
    if as_json:
        emit_json(_full(description))
        return
    width = max(len(label) for label, _ in _rows(description))
    for label, values in _rows(description):
        for number, value in enumerate(values):
            click.echo(f"{label if number == 0 else '':<{width}}  {value}")


@toolchain.command("add")
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--name", help="Name to keep it under.  [default: rocm-VERSION]")
@click.option("--replace", is_flag=True, help="Replace one of the same name.")
def add_toolchain(path: Path, name: str | None, replace: bool) -> None:
    """Register an installed MIOpen: a prefix, a wheel's folder, or a libMIOpen.

    Only a note of it is kept; the files stay where they are.

    \b
    Example:
      kdbforge toolchain add /opt/rocm
    """
    added = add(path, name, replace=replace)
    console.print(f"Added `{escape(added.name)}`: MIOpen {added.miopen_version}")
    click.echo(added.name)


@toolchain.command("remove")
@click.argument("name")
def remove_toolchain(name: str) -> None:
    """Forget a toolchain; the files of a fetched one are deleted.

    \b
    Example:
      kdbforge toolchain remove debian-7.2.4
    """
    remove(name)
    console.print(f"Removed `{escape(name)}`")


def _rows(description: Description) -> list[tuple[str, list[str]]]:
    known = description.toolchain
    kernels = "yes" if known.asm_kernels else "no"
    if not known.asm_kernels and known.clang is None:
        kernels += " (set MIOPEN_DEBUG_GCN_ASM_KERNELS=0 when using it)"
    compiler = str(known.clang) if known.clang else "in the process (libamd_comgr)"
    rows = [
        ("name", [known.name]),
        ("version", [known.version]),
        ("MIOpen", [known.miopen_version]),
        ("origin", [known.origin]),
        ("libMIOpen", [str(known.libmiopen)]),
        ("build ID", [known.build_id]),
        ("fingerprint", [known.fingerprint]),
        ("compiler", [compiler]),
        ("assembly kernels", [kernels]),
        ("libraries", [str(path) for path in known.library_path]),
        ("loader", [str(known.loader) if known.loader else "the host's"]),
        ("Python", [str(known.python)]),
        ("system db", [str(known.system_db) if known.system_db else "none"]),
        ("C headers", [str(path) for path in known.include_path] or ["none"]),
        ("C++ headers", [str(path) for path in known.cxx_include_path] or ["none"]),
        ("may be replaced", [", ".join(known.sonames)]),
    ]
    if description.source:
        packages = description.source["packages"]
        size = _size(sum(package["size"] for package in packages))
        suites = ", ".join(description.source["suites"])
        rows.append(("packages", [f"{len(packages)}, {size}, from {suites}"]))
    return rows


def _brief(name: str, description: Description | None, problem: str | None) -> dict[str, Any]:
    known = description.toolchain if description else None
    return {
        "name": name,
        "version": known.version if known else None,
        "miopen_version": known.miopen_version if known else None,
        "origin": known.origin if known else None,
        "build_id": known.build_id if known else None,
        "fingerprint": known.fingerprint if known else None,
        "problem": problem,
    }


def _full(description: Description) -> dict[str, Any]:
    known = description.toolchain
    return {
        "name": known.name,
        "origin": known.origin,
        "version": known.version,
        "miopen_version": known.miopen_version,
        "build_id": known.build_id,
        "fingerprint": known.fingerprint,
        "asm_kernels": known.asm_kernels,
        "clang": str(known.clang) if known.clang else None,
        "sysroot": str(known.sysroot) if known.sysroot else None,
        "libmiopen": str(known.libmiopen),
        "library_path": [str(path) for path in known.library_path],
        "loader": str(known.loader) if known.loader else None,
        "python": str(known.python),
        "python_home": str(known.python_home) if known.python_home else None,
        "system_db": str(known.system_db) if known.system_db else None,
        "include_path": [str(path) for path in known.include_path],
        "cxx_include_path": [str(path) for path in known.cxx_include_path],
        "sonames": list(known.sonames),
        "libraries": [
            {"soname": lib.soname, "path": str(lib.path), "size": lib.size, "sha256": lib.sha256}
            for lib in description.libraries
        ],
        "source": dict(description.source),
    }


def _size(size: int) -> str:
    return f"{size / 1e9:.2f} GB" if size >= 1e9 else f"{size / 1e6:.0f} MB"
