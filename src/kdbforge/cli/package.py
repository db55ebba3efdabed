"""`kdbforge package`, `sign`, `verify-signature`, `keygen`: databases for others."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

import click
from rich.markup import escape

from kdbforge.cli.console import console, print_error
from kdbforge.cli.options import Settings, common_options
from kdbforge.errors import DatabaseError, InputError
from kdbforge.package.bundle import DEBIAN_FOLDER, Bundle, collect_bundles, installed_folder
from kdbforge.package.deb import DebOptions, build_deb
from kdbforge.package.manifest import manifest_path
from kdbforge.package.sign import (
    generate_key,
    read_public_keys,
    read_secret_key,
    sign_manifest,
    verify_manifest,
    write_secret_key,
)
from kdbforge.package.tar import COMPRESSIONS, build_tar
from kdbforge.toolchain import describe

__all__ = ["keygen", "package", "sign", "verify_signature"]

_path = click.Path(path_type=Path)
_output_option = click.option(
    "-o", "--output", type=_path, default=Path(), show_default="here", help="Folder for packages."
)
_folder_option = click.option(
    "--folder", metavar="PATH",
    help="Where the library looks for system databases.  "
    f"[default: as --toolchain has it, else {DEBIAN_FOLDER}]",
)  # fmt: skip
_incomplete_option = click.option(
    "--incomplete", is_flag=True, help="Accept databases that lack records or failed their proof."
)


@click.group("package")
def package() -> None:
    """Packages of databases, one for each architecture, for others to install.

    Two runs give the same bytes. Everything in a package has the date SOURCE_DATE_EPOCH, or
    2020-01-01 where that is not set.
    """


@package.command("deb")
@click.argument("folder_of_databases", metavar="DIR", type=_path)
@_output_option
@click.option(
    "--maintainer", metavar="NAME <MAIL>",
    help="Who answers for the packages.  [default: $DEBFULLNAME <$DEBEMAIL>]",
)  # fmt: skip
@click.option(
    "--library", default="libmiopen1", show_default=True, metavar="PACKAGE",
    help="Debian package of the libMIOpen that they were built for.",
)  # fmt: skip
@click.option(
    "--library-version", metavar="VERSION",
    help="Its exact version.  [default: as the manifests have it]",
)  # fmt: skip
@click.option(
    "--revision", type=click.IntRange(1), default=1, show_default=True,
    help="Raise it for other databases for the same version of the library.",
)  # fmt: skip
@click.option("--architecture", metavar="ARCH", help="Debian architecture.  [default: this one's]")
@_folder_option
@_incomplete_option
@common_options
def package_deb(
    settings: Settings,
    folder_of_databases: Path,
    output: Path,
    maintainer: str | None,
    library: str,
    library_version: str | None,
    revision: int,
    architecture: str | None,
    folder: str | None,
    incomplete: bool,
) -> None:
    """Make Debian packages of the databases and manifests in DIR.

    They install beside the library, depend on its exact version, and say what their user must
    set. Needs dpkg-deb.

    \b
    Example:
      kdbforge package deb out -o packages --maintainer 'Jo Doe <jo@example.org>'
    """
    bundles = collect_bundles(folder_of_databases, incomplete=incomplete)
    options = DebOptions(
        maintainer=maintainer or _maintainer(),
        library=library,
        library_version=library_version,
        revision=revision,
        architecture=architecture,
        folder=_folder(settings, folder, bundles),
    )
    for bundle in bundles:
        click.echo(build_deb(bundle, output, options))


@package.command("tar")
@click.argument("folder_of_databases", metavar="DIR", type=_path)
@_output_option
@click.option(
    "--compression", type=click.Choice(COMPRESSIONS), default="gz", show_default=True,
    help="How to compress.",
)  # fmt: skip
@_folder_option
@_incomplete_option
@common_options
def package_tar(
    settings: Settings,
    folder_of_databases: Path,
    output: Path,
    compression: str,
    folder: str | None,
    incomplete: bool,
) -> None:
    """Make tarballs of the databases and manifests in DIR, to be unpacked at /.

    \b
    Example:
      kdbforge package tar out -o packages --folder /opt/rocm/share/miopen/db
    """
    bundles = collect_bundles(folder_of_databases, incomplete=incomplete)
    where = _folder(settings, folder, bundles)
    for bundle in bundles:
        click.echo(build_tar(bundle, output, folder=where, compression=compression))


@click.command()
@click.argument("name")
@click.option("-o", "--output", type=_path, required=True, help="New file for the secret key.")
def keygen(name: str, output: Path) -> None:
    """Make a key to sign with: the secret one into a file, the public one beside it.

    NAME tells keys apart, such as example.org-1. The public key, which is also printed, is what
    others need to check your signatures.

    \b
    Example:
      kdbforge keygen example.org-1 -o example.org-1.key
    """
    key = generate_key(name)
    write_secret_key(key, output)
    click.echo(key.public)


@click.command()
@click.argument("files", nargs=-1, required=True, metavar="FILE...", type=_path)
@click.option("--key", type=_path, required=True, help="File of the secret key.")
@common_options
def sign(_: Settings, files: tuple[Path, ...], key: Path) -> None:
    """Sign databases: each FILE is a database, its manifest, or a folder of them.

    The signature is of the manifest, which names the database by SHA-256, and is written beside
    it: gfx1030_40.manifest.json.sig. It is refused where they do not fit each other.

    \b
    Example:
      kdbforge sign out/gfx1030_40.kdb --key example.org-1.key
    """
    secret = read_secret_key(key)
    for manifest in _manifests(files):
        click.echo(sign_manifest(manifest, secret))


@click.command("verify-signature")
@click.argument("files", nargs=-1, required=True, metavar="FILE...", type=_path)
@click.option(
    "--key", "keys", multiple=True, required=True, metavar="NAME:BASE64|FILE",
    help="A public key that is trusted, or a file of such keys, one a line. May be repeated.",
)  # fmt: skip
@common_options
def verify_signature(_: Settings, files: tuple[Path, ...], keys: tuple[str, ...]) -> int:
    """Check who signed databases, and that they are what was signed.

    Each FILE is a database, its manifest, or a folder of them. Exit code 1 if one of them is not
    signed by a key that is given, or has changed.

    \b
    Example:
      kdbforge verify-signature out --key example.org-1.key.pub
    """
    known = [key for text in keys for key in read_public_keys(text)]
    failed = 0
    for manifest in _manifests(files):
        try:
            signer = verify_manifest(manifest, known)
        except DatabaseError as error:
            failed += 1
            print_error(error)
        else:
            console.print(f"{escape(str(manifest))}: [green]signed[/] by {escape(signer.name)}")
    return 1 if failed else 0


def _manifests(files: Sequence[Path]) -> list[Path]:
    """The manifests that are meant, each once."""
    found: dict[Path, None] = {}
    for path in files:
        if path.is_dir():
            inside = sorted(path.glob("*.manifest.json"))
            if not inside:
                raise InputError(f"`{path}` holds no manifest")
            found.update(dict.fromkeys(inside))
        elif path.suffix in (".kdb", ".ukdb"):
            found[manifest_path(path)] = None
        else:
            found[path] = None
    return list(found)


def _folder(settings: Settings, given: str | None, bundles: Sequence[Bundle]) -> PurePosixPath:
    if given is not None:
        return PurePosixPath(given)
    if settings.toolchain is not None:
        return installed_folder(describe(settings.toolchain), bundles)
    return DEBIAN_FOLDER


def _maintainer() -> str:
    mail = os.environ.get("DEBEMAIL", "")
    if "<" in mail:
        return mail
    name = os.environ.get("DEBFULLNAME", "")
    if not mail or not name:
        raise InputError(
            "Who maintains the packages is not known",
            hint="give `--maintainer 'Jo Doe <jo@example.org>'`, or set DEBFULLNAME and DEBEMAIL",
        )
    return f"{name} <{mail}>"
