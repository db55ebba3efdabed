"""Tarballs of databases, to be unpacked at `/`: the same bytes on every run."""

from __future__ import annotations

import gzip
import io
import lzma
import tarfile
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import IO, cast

from kdbforge.package.bundle import (
    DEBIAN_FOLDER,
    Bundle,
    contents,
    publish,
    readme,
    source_date_epoch,
)
from kdbforge.package.licence import copyright_text

__all__ = ["COMPRESSIONS", "build_tar"]

#: Suffixes of the formats.
COMPRESSIONS = ("gz", "xz")
#: Databases are compressed already, so that more effort gains next to nothing.
_GZIP_LEVEL = 6
_XZ_PRESET = 1


def build_tar(
    bundle: Bundle,
    output: Path,
    *,
    folder: PurePosixPath = DEBIAN_FOLDER,
    compression: str = "gz",
) -> Path:
    """Write `NAME_VERSION.tar.gz` or `.tar.xz` into `output`.

    Its entries are sorted, have relative names, belong to root, and are as old as
    SOURCE_DATE_EPOCH says. Equal input gives equal bytes with the same zlib or liblzma.

    Raises
    ------
    InputError
        If the folder or SOURCE_DATE_EPOCH cannot be used.
    HostError
        If the file cannot be written.
    """
    epoch = source_date_epoch()
    library = f"libMIOpen {bundle.toolchain.miopen_version} of {bundle.toolchain.version}"
    texts = {"README": readme(bundle), "copyright": copyright_text(bundle, library, folder)}
    files = contents(bundle, folder, texts)
    version = "".join(c if c.isalnum() or c in ".+~-" else "-" for c in bundle.toolchain.version)
    name = f"{bundle.name}_{version}.tar.{compression}"
    with (
        publish(output, name) as work,
        (work / name).open("wb") as file,
        _compressor(file, compression) as stream,
    ):
        _write(stream, files, epoch)
    return output / name


def _write(stream: IO[bytes], files: Mapping[PurePosixPath, Path | bytes], epoch: int) -> None:
    # PAX is ustar as long as names and sizes fit into it, and files beyond 8 GiB are possible.
    with tarfile.open(fileobj=stream, mode="w|", format=tarfile.PAX_FORMAT) as archive:
        folders = {folder for name in files for folder in name.parents} - {PurePosixPath("/")}
        for path in sorted({*folders, *files}):
            entry = tarfile.TarInfo(str(path.relative_to("/")))
            entry.mtime = epoch
            entry.uname = entry.gname = "root"
            if path not in files:
                entry.type, entry.mode = tarfile.DIRTYPE, 0o755
                archive.addfile(entry)
                continue
            with _open(files[path]) as data:
                entry.mode = 0o644
                entry.size = data.seek(0, io.SEEK_END)
                data.seek(0)
                archive.addfile(entry, data)


def _open(content: Path | bytes) -> IO[bytes]:
    return io.BytesIO(content) if isinstance(content, bytes) else content.open("rb")


def _compressor(file: IO[bytes], compression: str) -> IO[bytes]:
    if compression == "xz":
        return cast(IO[bytes], lzma.LZMAFile(file, "wb", preset=_XZ_PRESET))
    return cast(IO[bytes], gzip.GzipFile("", "wb", _GZIP_LEVEL, file, mtime=0))
