"""`kdbforge install` and `kdbforge uninstall`: databases into the folder where MIOpen looks."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click
from rich.markup import escape

from kdbforge.cli.console import console, emit_json
from kdbforge.cli.options import Settings, common_options
from kdbforge.errors import InputError
from kdbforge.model.device import Gpu
from kdbforge.package.install import (
    Installed,
    InstallOptions,
    Placed,
    install,
    target_folder,
    uninstall,
)
from kdbforge.package.libraries import choose_library, host_places
from kdbforge.package.lookup import ask
from kdbforge.package.sign import read_public_keys
from kdbforge.package.userdb import install_for_user, uninstall_for_user
from kdbforge.vgpu.profiles import resolve

__all__ = ["install_", "uninstall_"]

_folder = click.Path(path_type=Path)
_to = click.option(
    "--to", type=_folder, metavar="DIR",
    help="A folder of your own, for MIOPEN_SYSTEM_DB_PATH.",
)  # fmt: skip
_user = click.option("--user", is_flag=True, help="Only for you: into your user database.")
_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@click.command("install")
@click.argument("kdbs", nargs=-1, required=True, type=_folder, metavar="KDB...")
@click.option(
    "--root", type=_folder, metavar="DIR",
    help="Install below DIR, the tree of a package; nothing is recorded there.",
)  # fmt: skip
@_to
@_user
@click.option("--force", is_flag=True, help="Install without a manifest for this very library.")
@click.option(
    "--require-signature", "signers", metavar="KEY",
    help="Refuse what none of these keys has signed: NAME:BASE64, or a file of public keys.",
)  # fmt: skip
@_json
@common_options
def install_(
    settings: Settings,
    kdbs: tuple[Path, ...],
    root: Path | None,
    to: Path | None,
    user: bool,
    force: bool,
    signers: str | None,
    as_json: bool,
) -> None:
    """Put kernel databases, with their manifests, where libMIOpen looks for them.

    The library is that of --toolchain, or the only one on this machine. A database is refused
    unless its manifest names this very library. A file that was there before is kept as
    `NAME.kdbforge-backup-N`, and `kdbforge uninstall` restores it.

    \b
    Example:
      kdbforge install out/gfx1030_40.kdb
      kdbforge install out/gfx1030.kdb --toolchain /opt/rocm --to /srv/miopen-db
      kdbforge install out/gfx1030.kdb --toolchain debian-7.2.4 --root debian/tmp
    """
    if user and (root or to):
        raise InputError("--user excludes --root and --to")
    library = choose_library(settings.toolchain, host_places())
    options = InstallOptions(root, to, force, read_public_keys(signers) if signers else ())
    run = install_for_user if user else install
    report = run(kdbs, library, options)
    if as_json:
        emit_json(_report_json(report))
    else:
        _print_placed(report.files)
    for text in report.warnings:
        console.print(f"[bold yellow]warning:[/] {escape(text)}")
    for name, value in report.environment.items():
        console.print(escape(f"The programs that use it must have {name}={value}"))
    if report.confirmed and not user:
        console.print(escape(f"`{library.path}` opens what was installed"))


@click.command("uninstall")
@click.argument("names", nargs=-1, metavar="NAME...")
@click.option("--all", "everything", is_flag=True, help="All that kdbforge installed there.")
@_to
@_user
@_json
@common_options
def uninstall_(
    settings: Settings,
    names: tuple[str, ...],
    everything: bool,
    to: Path | None,
    user: bool,
    as_json: bool,
) -> None:
    """Remove databases that `kdbforge install` wrote, and restore what was there before.

    NAME is a database such as gfx1030_40.kdb, with --user a GPU. A file that is not what was
    installed is left alone.

    \b
    Example:
      kdbforge uninstall gfx1030_40.kdb
      kdbforge uninstall --all --to /srv/miopen-db
    """
    if bool(names) == everything:
        raise InputError("Give the names of databases, or --all")
    if user and (everything or to):
        raise InputError("--user takes the names of GPUs, without --all and --to")
    if user:
        placed = _uninstall_user(settings, names)
    elif to is not None:
        placed = uninstall(names, to.absolute(), everything=everything)
    else:
        library = choose_library(settings.toolchain, host_places())
        folder = target_folder(library, InstallOptions())
        placed = uninstall(names, folder, everything=everything)
    if as_json:
        emit_json([_placed_json(file) for file in placed])
    else:
        _print_placed(placed)


def _uninstall_user(settings: Settings, names: tuple[str, ...]) -> list[Placed]:
    library = choose_library(settings.toolchain, host_places())
    placed = []
    for name in names:
        target = ask(library, _gpu_of(name), os.environ).user
        if target is None:
            raise InputError(f"`{library.path}` has no user database for `{name}`")
        placed += uninstall_for_user([target.name], target.parent)
    return placed


def _gpu_of(name: str) -> Gpu:
    """A GPU by its name, or by that of one of its databases."""
    return resolve(name.removesuffix(".ukdb").removesuffix(".kdb"))


def _print_placed(files: tuple[Placed, ...] | list[Placed]) -> None:
    for file in files:
        kept = f" (before: {file.backup.name})" if file.backup else ""
        click.echo(f"{file.state}: {file.path}{kept}")


def _placed_json(file: Placed) -> dict[str, Any]:
    return {
        "path": str(file.path),
        "state": file.state,
        "backup": None if file.backup is None else str(file.backup),
    }


def _report_json(report: Installed) -> dict[str, Any]:
    return {
        "folder": str(report.folder),
        "files": [_placed_json(file) for file in report.files],
        "environment": dict(report.environment),
        "warnings": list(report.warnings),
        "confirmed": report.confirmed,
    }
