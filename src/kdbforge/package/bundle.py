"""Bundles: the databases of one architecture with their manifests, ready to become a package.

Says what goes where and what the package's texts are; `deb` and `tar` write the formats.
"""

from __future__ import annotations

import gzip
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from kdbforge.errors import DatabaseError, InputError, ToolchainError
from kdbforge.files import host_errors, sync_folder
from kdbforge.model.plan import ToolchainId
from kdbforge.model.target import TargetId
from kdbforge.package.manifest import Manifest, check_files, read_manifest
from kdbforge.package.sign import signature_path
from kdbforge.toolchain.description import Description

__all__ = [
    "DEBIAN_FOLDER",
    "DEFAULT_EPOCH",
    "Bundle",
    "collect_bundles",
    "contents",
    "installed_folder",
    "publish",
    "readme",
    "source_date_epoch",
    "summary",
]

#: Where Debian's libMIOpen looks for system databases, whatever its own place is.
DEBIAN_FOLDER = PurePosixPath("/usr/share/miopen/db")
#: The date of everything in a package where SOURCE_DATE_EPOCH is not set: 2020-01-01 00:00:00 UTC.
DEFAULT_EPOCH = 1577836800
#: ustar and ar hold no later date.
_LAST_EPOCH = 8**11 - 1
_SUFFIX = ".manifest.json"


@dataclass(frozen=True, slots=True)
class Bundle:
    """What one package holds: databases for one architecture, made with one toolchain."""

    arch: str
    toolchain: ToolchainId
    manifests: tuple[Manifest, ...]
    environment: Mapping[str, str]

    @property
    def name(self) -> str:
        """Of the package, such as `miopen-kdb-gfx1030`."""
        return f"miopen-kdb-{self.arch}"

    @property
    def files(self) -> tuple[Path, ...]:
        """Databases, manifests and signatures, sorted by name."""
        found: list[Path] = []
        for manifest in self.manifests:
            found += [manifest.folder / entry.name for entry in manifest.files]
            signature = signature_path(manifest.path)
            found += [manifest.path, *([signature] if signature.is_file() else [])]
        return tuple(sorted(found, key=lambda path: path.name))


def collect_bundles(folder: Path, *, incomplete: bool = False) -> tuple[Bundle, ...]:
    """Find what was built into a folder: one bundle per architecture, sorted.

    Parameters
    ----------
    incomplete
        Accept databases that lack records or that failed their proof.

    Raises
    ------
    InputError
        If there is nothing, a database has no manifest, or two were made with different
        toolchains or for different environments.
    DatabaseError
        If a file is not what its manifest says, or is incomplete.
    """
    if not folder.is_dir():
        raise InputError(f"There is no folder `{folder}`")
    with host_errors(f"read `{folder}`"):
        manifests = [read_manifest(path) for path in sorted(folder.glob(f"*{_SUFFIX}"))]
    if not manifests:
        raise InputError(
            f"`{folder}` holds no manifest", hint="give the folder that `kdbforge build -o` wrote"
        )
    _check_named(folder, manifests)
    groups: dict[str, list[Manifest]] = {}
    for manifest in manifests:
        check_files(manifest)
        if not incomplete:
            _check_complete(manifest)
        groups.setdefault(_arch(manifest), []).append(manifest)
    return tuple(_bundle(arch, group) for arch, group in sorted(groups.items()))


def _check_named(folder: Path, manifests: Sequence[Manifest]) -> None:
    named = {entry.name for manifest in manifests for entry in manifest.files}
    stray = sorted(path.name for path in folder.glob("*.kdb") if path.name not in named)
    if stray:
        raise InputError(
            f"`{folder / stray[0]}` has no manifest",
            hint="take it out of the folder, or build it with kdbforge",
        )


def _check_complete(manifest: Manifest) -> None:
    hint = "run the build again until it exits with 0, or give `--incomplete`"
    if manifest.missing:
        raise DatabaseError(
            f"`{manifest.path}` says that {manifest.missing} records are missing", hint=hint
        )
    if manifest.proven is False:
        raise DatabaseError(f"`{manifest.path}` says that its proof failed", hint=hint)


def _arch(manifest: Manifest) -> str:
    archs = {TargetId.parse(gpu.target).arch for gpu in manifest.gpus}
    if len(archs) != 1:
        raise InputError(f"`{manifest.path}` names {len(archs)} architectures, not one")
    return archs.pop()


def _bundle(arch: str, manifests: Sequence[Manifest]) -> Bundle:
    first = manifests[0]
    if first.toolchain is None:
        raise InputError(
            f"It is not known for which libMIOpen `{first.path}` is",
            context=first.doubts,
            hint=f"`kdb {first.derived_by}` again with --manifest-from, if you know it",
        )
    for other in manifests[1:]:
        for what, one, two in (
            ("toolchain", first.toolchain, other.toolchain),
            ("environment", dict(first.environment), dict(other.environment)),
        ):
            if one != two:
                raise InputError(
                    f"Databases for {arch} were built with another {what} each",
                    context=(f"{first.path.name}: {one}", f"{other.path.name}: {two}"),
                    hint="build them anew, into a folder of their own",
                )
    return Bundle(arch, first.toolchain, tuple(manifests), first.environment)


def installed_folder(found: Description, bundles: Sequence[Bundle]) -> PurePosixPath:
    """Where the databases go on a system that has this toolchain installed.

    A fetched toolchain is a system's tree below a folder `root`: its paths are those of the tree.

    Raises
    ------
    ToolchainError
        If it has no folder for system databases, or is not the one of the bundles.
    """
    toolchain = found.toolchain
    for bundle in bundles:
        if bundle.toolchain.build_id != toolchain.build_id:
            raise ToolchainError(
                f"The databases for {bundle.arch} are not for toolchain `{toolchain.name}`",
                context=(
                    f"databases: libMIOpen {bundle.toolchain.build_id}",
                    f"toolchain: libMIOpen {toolchain.build_id}",
                ),
            )
    if toolchain.system_db is None:
        raise ToolchainError(
            f"Toolchain `{toolchain.name}` has no folder for system databases",
            hint="give it with `--folder`",
        )
    root = None if found.folder is None else found.folder / "root"
    if root is not None and toolchain.system_db.is_relative_to(root):
        return PurePosixPath("/", toolchain.system_db.relative_to(root))
    return PurePosixPath(toolchain.system_db)


def source_date_epoch(environment: Mapping[str, str] | None = None) -> int:
    """The date of the package: SOURCE_DATE_EPOCH, else `DEFAULT_EPOCH`.

    Raises
    ------
    InputError
        If the variable is no number of seconds.
    """
    text = (os.environ if environment is None else environment).get("SOURCE_DATE_EPOCH", "")
    if not text:
        return DEFAULT_EPOCH
    if not re.fullmatch(r"[0-9]{1,12}", text) or int(text) > _LAST_EPOCH:
        raise InputError(f"SOURCE_DATE_EPOCH is `{text}`, not a number of seconds since 1970")
    return int(text)


def contents(
    bundle: Bundle, folder: PurePosixPath, texts: Mapping[str, str]
) -> dict[PurePosixPath, Path | bytes]:
    """All files of a package by their absolute path, sorted: a file to copy, or the bytes.

    Parameters
    ----------
    folder
        Where the library looks; its `share` also takes the documents.
    texts
        Documents by name; those that end in `.gz` are compressed.

    Raises
    ------
    InputError
        If `folder` is not below a folder `share`.
    """
    plain = folder.is_absolute() and ".." not in folder.parts and not re.search(r"\s", str(folder))
    if not plain or "share" not in folder.parent.parts:
        raise InputError(
            f"`{folder}` cannot be the folder of system databases: it is not below `share`",
            hint=f"it is `{DEBIAN_FOLDER}` on Debian, `/opt/rocm/share/miopen/db` for AMD's ROCm",
        )
    share = next(path for path in folder.parents if path.name == "share")
    found: dict[PurePosixPath, Path | bytes] = {folder / path.name: path for path in bundle.files}
    for name, text in texts.items():
        data = text.encode()
        if name.endswith(".gz"):
            data = gzip.compress(data, 9, mtime=0)
        found[share / "doc" / bundle.name / name] = data
    return dict(sorted(found.items()))


def summary(bundle: Bundle) -> list[list[str]]:
    """What the package holds and what its user must do: paragraphs of lines."""
    toolchain = bundle.toolchain
    paragraphs = [
        [
            f"Compiled kernels for MIOpen on {bundle.arch}. With them, programs need not compile",
            "these kernels when they first use them.",
        ],
        [
            f"For libMIOpen {toolchain.miopen_version} of {toolchain.version} only, with build ID",
            f"{toolchain.build_id}.",
        ],
        ["Databases:", *(line for m in bundle.manifests for line in _database_lines(m))],
    ]
    if bundle.environment:
        values = [f"  {name}={value}" for name, value in sorted(bundle.environment.items())]
        paragraphs.append(
            ["They are found only by programs that run with this environment:", *values]
        )
    return paragraphs


def readme(bundle: Bundle) -> str:
    """The summary as a text file."""
    return "\n\n".join("\n".join(lines) for lines in summary(bundle)) + "\n"


def _database_lines(manifest: Manifest) -> Iterator[str]:
    counts = ", ".join(str(gpu.num_cu) for gpu in manifest.gpus)
    targets = ", ".join(sorted({gpu.target for gpu in manifest.gpus}))
    proof = {None: "not proven", True: "proven", False: "proof failed"}[manifest.proven]
    for entry in manifest.files:
        missing = f", {manifest.missing} missing" if manifest.missing else ""
        yield f"  {entry.name}: {entry.records} records{missing}, policy {manifest.policy},"
        yield f"    {manifest.problems} problems, {proof}"
        yield f"    GPUs: {targets} with {counts} CUs"


@contextmanager
def publish(output: Path, name: str) -> Iterator[Path]:
    """A private folder within `output`; the file `name` in it becomes `output/name` at the end.

    Raises
    ------
    HostError
        If the output cannot be written.
    """
    with host_errors(f"write `{output / name}`"):
        output.mkdir(parents=True, exist_ok=True)
        work = Path(tempfile.mkdtemp(prefix=".kdbforge-", dir=output))
        try:
            yield work
            with (work / name).open("rb") as file:
                os.fsync(file.fileno())
            (work / name).chmod(0o644)
            (work / name).replace(output / name)
            sync_folder(output)
        finally:
            shutil.rmtree(work, ignore_errors=True)
