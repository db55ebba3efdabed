"""What the commands that make databases from databases have in common: manifests."""

from __future__ import annotations

from pathlib import Path

import click
from rich.markup import escape

from kdbforge.cli.console import console
from kdbforge.package.manifest import Manifest
from kdbforge.package.sign import signature_path

__all__ = ["manifest_option", "say_manifest"]

manifest_option = click.option(
    "--manifest-from", metavar="FILE", type=click.Path(path_type=Path),
    help="Inputs without a manifest are for the libMIOpen of this one, or of this database's.",
)  # fmt: skip


def say_manifest(manifest: Manifest | None) -> None:
    """Say what the manifest of a new database does not tell, and what does not fit it any more."""
    if manifest is None:
        return
    if manifest.toolchain is None:
        console.print("[bold yellow]warning:[/] " + escape(
            f"It is not known for which libMIOpen `{manifest.files[0].name}` is, and `kdbforge "
            "install` will want --force"
        ))  # fmt: skip
        for doubt in manifest.doubts:
            console.print(f"  {escape(doubt)}")
    signature = signature_path(manifest.path)
    if signature.exists():
        console.print("[bold yellow]warning:[/] " + escape(
            f"`{signature}` does not fit any more; sign it again"
        ))  # fmt: skip
