"""Decides whether a kernel database may be installed for a library, before anything is written."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kdbforge.errors import DatabaseError, InputError, KdbforgeError
from kdbforge.kdb.reader import read_kdb
from kdbforge.model.device import Gpu
from kdbforge.package.libraries import Library
from kdbforge.package.manifest import Manifest, manifest_path, read_manifest
from kdbforge.package.receipt import digest
from kdbforge.package.sign import PublicKey, verify_manifest
from kdbforge.vgpu.profiles import expected_files, load_profiles, resolve

__all__ = ["CheckedKdb", "check_kdb"]


@dataclass(frozen=True, slots=True)
class CheckedKdb:
    """A database that may be installed."""

    path: Path
    sha256: str
    records: int
    gpus: tuple[Gpu, ...]  # those that it was built for; else one that looks for it
    generic: bool  # for every CU count of its architecture
    manifest: Path | None
    manifest_sha256: str | None
    environment: Mapping[str, str]  # what its user must set
    warnings: tuple[str, ...]


def check_kdb(
    path: Path, library: Library, *, force: bool = False, keys: Sequence[PublicKey] = ()
) -> CheckedKdb:
    """Check a database and its manifest against the library that is to read it.

    `force` turns a wrong or missing manifest into a warning. A damaged database, one that holds
    nothing for the GPU of its name, and a library that reads no files are refused all the same.
    So is, where `keys` are given, a database whose manifest none of them has signed.

    Raises
    ------
    InputError
        If it is not for this library, or its name or content cannot be right.
    DatabaseError
        If it is something else, damaged, in WAL mode, or not signed.
    HostError
        If it cannot be read.
    """
    if library.embedded:
        raise InputError(
            f"`{library.path}` has its databases built in and reads no files, so it cannot use "
            f"`{path.name}`",
            hint="use a libMIOpen that was built without MIOPEN_EMBED_DB",
        )
    manifest = manifest_path(path) if manifest_path(path).is_file() else None
    if keys:
        _check_signature(path, manifest, keys)
    says = read_manifest(manifest) if manifest else None
    gpus, generic = _gpus_of(path, says)
    records = _count(path, gpus[0].target.arch)
    sha256 = digest(path)
    doubts = list(_doubts(path, sha256, says, library))
    if doubts and not force:
        hint = "build it for this library, or give --force if you know better"
        if says is not None and says.toolchain is None:
            hint = (
                f"if you know that all of it is for this library, `kdb {says.derived_by}` again "
                "with --manifest-from, or give --force"
            )
        raise InputError(doubts[0], context=doubts[1:], hint=hint)
    return CheckedKdb(
        path, sha256, records, gpus, generic, manifest,
        digest(manifest) if manifest else None,
        says.environment if says else {},
        tuple(f"FORCED: {doubt}" for doubt in doubts),
    )  # fmt: skip


def _check_signature(path: Path, manifest: Path | None, keys: Sequence[PublicKey]) -> None:
    """Check that a key has signed the manifest, and that the manifest speaks of this database."""
    if manifest is None:
        raise DatabaseError(f"`{path}` has no manifest beside it, so it cannot be signed")
    verify_manifest(manifest, keys)
    if digest(path) not in [file.sha256 for file in read_manifest(manifest).files]:
        raise DatabaseError(f"`{manifest}` is signed, but it does not speak of `{path.name}`")


def _doubts(path: Path, sha256: str, manifest: Manifest | None, library: Library) -> list[str]:
    """Everything that speaks against the database being right for the library."""
    if manifest is None:
        return [
            f"`{path}` has no manifest beside it (`{manifest_path(path).name}`), so nobody knows "
            "for which libMIOpen it was made; a wrong one fails or computes wrong results"
        ]
    doubts = []
    if manifest.toolchain is None:
        doubts.append(
            f"`{path}` was made by `kdb {manifest.derived_by}`, and it is not known for which "
            f"libMIOpen: {'; '.join(manifest.doubts)}"
        )
    elif manifest.toolchain.build_id != library.build_id:
        doubts.append(
            f"`{path}` was built for the libMIOpen with build ID {manifest.toolchain.build_id}, "
            f"and `{library.path}` has {library.build_id or 'none'}"
        )
    if sha256 not in [file.sha256 for file in manifest.files]:
        doubts.append(
            f"`{path}` is not the file that `{manifest.path.name}` describes: SHA-256 differs"
        )
    return doubts


def _gpus_of(path: Path, manifest: Manifest | None) -> tuple[tuple[Gpu, ...], bool]:
    """The GPUs that look for a file of this name, and whether it is for every CU count."""
    name = path.name.removesuffix(".kdb")
    if name == path.name:
        raise InputError(
            f"`{path}` is not named like a system database: MIOpen looks for `.kdb`",
            hint="a `.ukdb` is a user's own, in a form that MIOpen cannot share"
            if path.suffix == ".ukdb"
            else None,
        )
    listed = manifest.gpus if manifest else ()
    gpus = tuple(resolve(f"{gpu.target}/{gpu.num_cu}") for gpu in listed)
    for gpu, entry in zip(gpus, listed, strict=True):
        if entry.basename == name:
            return (gpu,), False
    if gpus and path.name == expected_files(gpus[0])[1]:
        return gpus, True
    return _by_name(path, name)


def _by_name(path: Path, name: str) -> tuple[tuple[Gpu, ...], bool]:
    arch, xnack = name.removesuffix("_xnack"), name.endswith("_xnack")
    profile = load_profiles().get(arch)
    if profile is not None:
        return (resolve(f"{arch}{':xnack+' if xnack else ''}/{profile.num_cus[0]}"),), True
    gpu = resolve(name)
    if path.name != expected_files(gpu)[0]:
        raise InputError(
            f"MIOpen never looks for `{path.name}`; on this GPU it looks for "
            + " and then ".join(f"`{file}`" for file in expected_files(gpu))
        )
    return (gpu,), False


def _count(path: Path, arch: str) -> int:
    """Number of records, once one of them is for the architecture."""
    try:
        found = Counter(_mcpu(record.kernel_args) for record in read_kdb(path))
    except KdbforgeError as error:
        error.hint = error.hint or "get the file again from where it came from"
        raise
    others = sorted(name for name in found if name not in ("", arch))
    if not found:
        raise DatabaseError(f"`{path}` has no records, and would hide every other database")
    if not found[arch] and others:
        raise InputError(
            f"`{path.name}` is named for {arch}, but its kernels are for {', '.join(others)}: "
            "renaming a database does not make MIOpen find anything in it",
            hint=f"build one: kdbforge build ... --gpu {path.stem}",
        )
    return found.total()


def _mcpu(args: str) -> str:
    # handlehip.cpp, LoadProgram: it is the last option of the key, save for .mlir kernels.
    return args.rpartition("-mcpu=")[2].split(" ")[0] if "-mcpu=" in args else ""
