"""Puts kernel databases where a libMIOpen looks for them, and takes them away again.

What was there before is kept as a backup, and a record says what was written.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from kdbforge.errors import HostError, InputError, KdbforgeError, UnknownNameError
from kdbforge.files import host_errors, lock_folder, write_whole
from kdbforge.kdb.reader import read_kdb
from kdbforge.package.checked import CheckedKdb, check_kdb
from kdbforge.package.libraries import Library
from kdbforge.package.lookup import ask, system_folder
from kdbforge.package.manifest import manifest_path
from kdbforge.package.receipt import Layer, Receipt, digest, read_receipt, write_receipt
from kdbforge.package.sign import PublicKey
from kdbforge.vgpu.profiles import expected_files

__all__ = [
    "BACKUP",
    "InstallOptions",
    "Installed",
    "Placed",
    "install",
    "target_folder",
    "uninstall",
]

BACKUP = "kdbforge-backup"


@dataclass(frozen=True, slots=True)
class InstallOptions:
    """Where to and how; `root` and `to` exclude each other."""

    root: Path | None = None  # a package's tree: paths are below it, and nothing is recorded
    to: Path | None = None  # a folder for MIOPEN_SYSTEM_DB_PATH
    force: bool = False  # install without a manifest that fits
    keys: tuple[PublicKey, ...] = ()  # one of them must have signed each manifest
    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))


@dataclass(frozen=True, slots=True)
class Placed:
    """One file and what became of it."""

    path: Path
    state: str  # "installed", "unchanged", "removed" or "restored"
    backup: Path | None = None


@dataclass(frozen=True, slots=True)
class Installed:
    """What an install did."""

    folder: Path
    files: tuple[Placed, ...]
    environment: Mapping[str, str]  # what the user's programs must set
    warnings: tuple[str, ...]
    confirmed: bool  # the library itself was seen to open the databases


def target_folder(library: Library, options: InstallOptions) -> Path:
    """The folder that system databases go to.

    Raises
    ------
    InputError
        If it is not known, or no program would look there.
    """
    if options.root is not None and options.to is not None:
        raise InputError("--root and --to exclude each other")
    if options.to is not None:
        return options.to.absolute()
    if options.root is not None:
        if library.system_folder is None:
            raise InputError(f"`{library.path}` does not say where it looks", hint="give --to DIR")
        return options.root.absolute() / library.system_folder.relative_to("/")
    if library.fetched:
        raise InputError(
            f"`{library.path}` was fetched to build for, and no program uses it",
            hint="choose the libMIOpen of this machine by --toolchain, or give --root DIR",
        )
    folder = system_folder(library, options.environment)
    if folder is None:
        raise InputError(f"`{library.path}` does not say where it looks", hint="give --to DIR")
    return folder


def install(kdbs: Sequence[Path], library: Library, options: InstallOptions) -> Installed:
    """Install databases and their manifests for a library.

    All are checked before the first is written. Each file appears whole; a different one of the
    same name is kept as `NAME.kdbforge-backup-N`.

    Raises
    ------
    InputError, DatabaseError
        If a database must not be installed for the library; see `check_kdb`.
    BusyError, HostError
        If the folder cannot be written.
    """
    folder = target_folder(library, options)
    checked = [check_kdb(path, library, force=options.force, keys=options.keys) for path in kdbs]
    with lock_folder(folder):
        files = [file for kdb in checked for file in _place(kdb, folder, library, options)]
        warnings = [*(text for kdb in checked for text in kdb.warnings), *_hiding(checked, folder)]
    confirmed, doubts = _confirm(checked, folder, library, options)
    environment = {name: value for kdb in checked for name, value in kdb.environment.items()}
    if options.to is not None:
        environment["MIOPEN_SYSTEM_DB_PATH"] = str(folder)
        if _holds_find_db(library) and not any(folder.glob("*.fdb.txt")):
            warnings.append(
                f"With MIOPEN_SYSTEM_DB_PATH={folder} MIOpen no longer sees the find-db and "
                f"perf-db in `{library.system_folder}`; link those files into the folder as well"
            )
    return Installed(folder, tuple(files), environment, (*warnings, *doubts), confirmed)


def _holds_find_db(library: Library) -> bool:
    folder = library.system_folder
    return folder is not None and any(folder.glob("*.fdb.txt"))


def _place(
    kdb: CheckedKdb, folder: Path, library: Library, options: InstallOptions
) -> Iterator[Placed]:
    for suffix in ("-wal", "-journal"):
        side = folder / f"{kdb.path.name}{suffix}"
        if side.exists() and side.stat().st_size:
            raise HostError(
                f"`{side}` lies there: SQLite would apply it to the new database and damage it",
                hint="end the program that uses it, or delete that file",
            )
    sources = [(kdb.path, kdb.sha256)]
    if kdb.manifest is not None and kdb.manifest_sha256 is not None:
        sources.append((kdb.manifest, kdb.manifest_sha256))
    for source, sha256 in sources:
        target = folder / source.name
        if options.root is not None:
            yield _place_packaged(source, target, sha256)
        else:
            yield _place_recorded(source, target, sha256, library.build_id)
    if kdb.manifest is None and options.root is None:
        yield from _retire_manifest(folder, kdb.path)


def _retire_manifest(folder: Path, kdb: Path) -> Iterator[Placed]:
    """Move a manifest of ours aside that describes the database which was there before."""
    name = manifest_path(folder / kdb.name).name
    receipt = read_receipt(folder)
    if name in receipt and (folder / name).exists():
        yield _take_away(folder, name, receipt)


def _place_packaged(source: Path, target: Path, sha256: str) -> Placed:
    """Copy into a package's tree, which must not get backups and records."""
    if os.path.lexists(target):
        if digest(target) == sha256:
            return Placed(target, "unchanged")
        raise InputError(
            f"`{target}` exists and is another file", hint="start with an empty package tree"
        )
    _copy(source, target, sha256)
    return Placed(target, "installed")


def _place_recorded(source: Path, target: Path, sha256: str, build_id: str) -> Placed:
    folder, name = target.parent, target.name
    receipt = read_receipt(folder)
    layers = receipt.get(name, [])
    present = digest(target) if os.path.lexists(target) else None
    if present == sha256:
        return Placed(target, "unchanged")
    if layers and layers[-1].sha256 != present and layers[-1].backup_sha256 == present:
        # An install was killed before the file was replaced: its backup still serves.
        last = layers.pop()
        backup = folder / last.backup if last.backup else None
    else:
        backup = _back_up(target) if present else None
    layer = Layer(sha256, build_id, backup.name if backup else None, present if backup else None)
    # The record comes first: whatever is there later can then be told from what is ours.
    write_receipt(folder, {**receipt, name: [*layers, layer]})
    try:
        _copy(source, target, sha256)
    except BaseException:
        with suppress(KdbforgeError):
            write_receipt(folder, {**receipt, name: layers})
            if backup:
                backup.unlink()
        raise
    return Placed(target, "installed", backup)


def _back_up(target: Path) -> Path:
    """Give the file a second name, so that it is never gone."""
    with host_errors(f"keep `{target}` as a backup"):
        for number in range(1, 10_000):
            backup = target.with_name(f"{target.name}.{BACKUP}-{number}")
            if os.path.lexists(backup):
                continue
            try:
                os.link(target, backup, follow_symlinks=False)
            except FileExistsError:
                continue
            except OSError:  # a file system without links
                _copy(target, backup, digest(target))
            return backup
    raise HostError(f"`{target.parent}` holds too many backups of `{target.name}`")


def _copy(source: Path, target: Path, sha256: str) -> None:
    """Copy whole, and only what was checked."""
    sha = hashlib.sha256()
    with write_whole(target) as out, source.open("rb") as file:
        while chunk := file.read(1 << 20):
            sha.update(chunk)
            out.write(chunk)
        if sha.hexdigest() != sha256:
            raise InputError(f"`{source}` changed while it was installed")


def _hiding(checked: Sequence[CheckedKdb], folder: Path) -> Iterator[str]:
    """Say which database hides which: MIOpen reads the exact one alone, if there is one."""
    for kdb in checked:
        generic = expected_files(kdb.gpus[0])[1]
        if not kdb.generic:
            yield from _hidden(folder / kdb.path.name, folder / generic)
            continue
        stem = re.escape(generic.removesuffix(".kdb"))
        for path in sorted(folder.iterdir()):
            if re.fullmatch(rf"{stem}(_\d+|[0-9a-f]{{2,3}})\.kdb", path.name):
                yield from _hidden(path, folder / generic)


def _hidden(exact: Path, generic: Path) -> Iterator[str]:
    if not exact.is_file() or not generic.is_file():
        return
    text = f"`{exact.name}` hides `{generic.name}`: MIOpen reads the exact one alone"
    try:
        lost = {r.key for r in read_kdb(generic)} - {r.key for r in read_kdb(exact)}
    except KdbforgeError as error:
        yield f"{text} ({error.message})"
        return
    yield f"{text}, and {len(lost)} records of `{generic.name}` are not found there"


def _confirm(
    checked: Sequence[CheckedKdb], folder: Path, library: Library, options: InstallOptions
) -> tuple[bool, list[str]]:
    """Let the library itself show that it opens what was installed."""
    if options.root is not None:
        return False, []
    if library.toolchain is None:
        return False, [f"Not confirmed: the library cannot be run here: {library.reason}"]
    doubts = []
    for kdb in checked:
        for gpu in kdb.gpus:
            found = ask(library, gpu, options.environment, folder=folder)
            if found.system is None or found.system != folder / kdb.path.name:
                instead = f"`{found.system}`" if found.system else "no system database"
                doubts.append(f"On {gpu} MIOpen opens {instead}, not `{kdb.path.name}`")
            elif found.error:
                doubts.append(f"On {gpu} MIOpen fails with it: {found.error}")
    return not doubts, doubts


# Taking away


def uninstall(names: Sequence[str], folder: Path, *, everything: bool = False) -> list[Placed]:
    """Remove databases that `install` put into a folder, and restore what was there before.

    A file that is no longer what was written is left alone. All names are looked at first.

    Raises
    ------
    UnknownNameError
        If a database was not installed by kdbforge.
    InputError
        If a file has changed since.
    BusyError, HostError
        If the folder cannot be written.
    """
    if not folder.is_dir():
        raise InputError(f"There is no folder `{folder}`, so nothing is installed there")
    with lock_folder(folder):
        receipt = read_receipt(folder)
        known = [name for name in receipt if name.endswith(".kdb")]
        wanted = known if everything else list(dict.fromkeys(names))
        for name in wanted:
            if name not in known:
                raise UnknownNameError("database installed by kdbforge", name, known)
        files = [
            file
            for name in wanted
            for file in (name, manifest_path(folder / name).name)
            if file in receipt
        ]
        for name in files:
            _check_ours(folder, name, receipt)
        return [_take_away(folder, name, receipt) for name in files]


def _check_ours(folder: Path, name: str, receipt: Receipt) -> None:
    layer, path = receipt[name][-1], folder / name
    present = digest(path) if os.path.lexists(path) else None
    if present not in (None, layer.sha256, layer.backup_sha256):
        raise InputError(
            f"`{path}` is not what was installed: it has changed since, and is left alone",
            hint="remove it yourself if you do not need it",
        )
    if layer.backup is None:
        return
    backup = folder / layer.backup
    if not re.fullmatch(rf"{re.escape(name)}\.{BACKUP}-\d+", layer.backup):
        raise InputError(f"The record in `{folder}` names a strange backup: `{layer.backup}`")
    if present == layer.backup_sha256:
        return  # an install or an uninstall was killed: what the backup holds is in place
    if not backup.is_file() or digest(backup) != layer.backup_sha256:
        raise InputError(f"The backup `{backup}` is gone or has changed; nothing was removed")


def _take_away(folder: Path, name: str, receipt: Receipt) -> Placed:
    """Remove the newest layer of a file; the record is changed last, so it can be repeated."""
    _check_ours(folder, name, receipt)
    layer, path = receipt[name][-1], folder / name
    with host_errors(f"remove `{path}`"):
        if layer.backup is None:
            path.unlink(missing_ok=True)
        elif path.exists() and digest(path) == layer.backup_sha256:
            (folder / layer.backup).unlink(missing_ok=True)
        else:
            (folder / layer.backup).replace(path)
    receipt[name] = receipt[name][:-1]
    write_receipt(folder, receipt)
    return Placed(path, "removed" if layer.backup is None else "restored")
