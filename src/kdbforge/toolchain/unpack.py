"""Unpack .deb files into a folder of their own, without installing them.

No maintainer script runs; what no process on a virtual GPU reads is left out.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from kdbforge.errors import HostError, KdbforgeError, ToolchainError
from kdbforge.model.toolchain import Toolchain
from kdbforge.toolchain.closure import resolve
from kdbforge.vgpu.launch import command

__all__ = ["compile_modules", "tidy", "tree_size", "unpack"]

# Never read by a compiler, libMIOpen or Python: manuals, translations, static libraries, tests.
_LEFT_OUT = (
    "./usr/share/man", "./usr/share/info", "./usr/share/locale", "./usr/share/lintian",
    "./usr/share/bug", "./usr/share/gdb", "./usr/share/doc-base", "./usr/share/pixmaps",
    "./usr/share/applications", "./usr/lib/*/gconv", "./usr/lib/*/cmake",
    "./usr/lib/valgrind", "*.a", "./usr/share/doc/*/changelog*", "./usr/share/doc/*/NEWS*",
)  # fmt: skip


def unpack(archive: Path, root: Path) -> None:
    """Unpack one .deb below `root`.

    Raises
    ------
    HostError
        If the disk is full or the folder cannot be written.
    ToolchainError
        If the archive is damaged.
    """
    root.mkdir(parents=True, exist_ok=True)
    excludes = [f"--exclude={pattern}" for pattern in _LEFT_OUT]
    # --no-same-owner: root must not make files of the numbers that the archive names.
    tar_command = ["tar", "-x", "--no-same-owner", "-C", str(root), *excludes]
    environment = dict(os.environ, LC_ALL="C.UTF-8")
    deb = subprocess.Popen(
        ["dpkg-deb", "--fsys-tarfile", str(archive)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
    )
    tar = subprocess.run(
        tar_command,
        stdin=deb.stdout,
        capture_output=True,
        env=environment,
        check=False,
    )
    assert deb.stdout is not None
    deb.stdout.close()
    errors = deb.communicate()[1] + tar.stderr
    if deb.returncode != 0 or tar.returncode != 0:
        raise _explain(archive, errors.decode(errors="replace"))


def _explain(archive: Path, text: str) -> KdbforgeError:
    context = text.splitlines()[-8:]
    if "No space left" in text or "Disk quota" in text:
        return HostError(f"No space left while unpacking `{archive.name}`", context=context)
    return ToolchainError(f"Cannot unpack `{archive.name}`", context=context)


def tidy(root: Path, *, replaced: tuple[str, ...]) -> None:
    """Make an unpacked tree stand on its own.

    Absolute links are turned to point into the tree. What goes: Python modules that need a
    library which is not in the tree, since the loader would take the host's, made for another
    C library; and the kernel headers of foreign machines, which linux-libc-dev brings for all.
    """
    for path in _links(root):
        target = str(path.readlink())
        if target.startswith("/"):
            inside = root / target.lstrip("/")
            path.unlink()
            if inside.exists():
                path.symlink_to(os.path.relpath(inside, path.parent))
    for folder in (root / "usr" / "include").glob("*-linux-gnu*"):
        if not (folder / "bits").is_dir():
            shutil.rmtree(folder)
    folders = [f for f in (root / "usr" / "lib").glob("*-linux-gnu*") if f.is_dir()]
    for module in sorted((root / "usr" / "lib").glob("python3.*/lib-dynload/*.so")):
        try:
            resolve([module], folders, skip=replaced, host=False)
        except ToolchainError:
            module.unlink()


#: Packages of the standard library that children of kdbforge import, beside its single modules.
_PACKAGES = ("collections", "ctypes", "encodings", "importlib", "json", "pathlib", "re")


def compile_modules(toolchain: Toolchain) -> None:
    """Compile the standard library's modules to bytecode, which a package does when installed.

    It makes each child start a tenth of a second earlier, and the folder may be read-only later.
    Nothing depends on it, so a failure is no error.
    """
    for library in sorted(toolchain.python.parent.parent.glob("lib/python3.*")):
        folders = [str(library), *(str(library / name) for name in _PACKAGES)]
        options = ["-q", "-l", "--invalidation-mode", "unchecked-hash"]
        argv, environment = command(toolchain, library / "compileall.py", [*options, *folders])
        with suppress(OSError):
            subprocess.run(argv, env=environment, capture_output=True, check=False)


def _links(root: Path) -> Iterator[Path]:
    for folder, folders, names in os.walk(root):
        for name in (*folders, *names):
            path = Path(folder, name)
            if path.is_symlink():
                yield path


def tree_size(root: Path) -> int:
    """Sum the sizes of the files below `root`."""
    total = 0
    for folder, _, names in os.walk(root):
        for name in names:
            total += Path(folder, name).lstat().st_size
    return total
