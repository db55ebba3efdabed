"""A root file system that is the toolchain's, for a process that knows nothing of kdbforge."""

from __future__ import annotations

import dataclasses
import os
import shlex
from collections.abc import Callable
from pathlib import Path

from kdbforge import Toolchain
from kdbforge.vgpu.process import VirtualGpu

__all__ = ["in_a_root_of_its_own"]

Command = Callable[[VirtualGpu, Path, list[str]], tuple[list[str], dict[str, str]]]
ROOT = Path(__file__).parent.parent.parent

#: What Debian's dash does with the one form of command that libMIOpen has.
SHELL = """\
#!/usr/bin/{python}
import os, sys
folder, command = sys.argv[-1].removeprefix("cd ").split("; ", 1)
os.chdir(folder)
os.execv(command.split()[0], command.split())
"""
#: clang-offload-bundler wants to see one (of the package llvm-N), and does not run it.
OBJCOPY = "#!/bin/false\n"
#: HIP_OC_COMPILER of Debian's library: a folder of the machine that built it.
BUILD_FOLDER = "build/reproducible-path/miopen-6.4.3+dfsg/build"


def in_a_root_of_its_own(toolchain: Toolchain, folder: Path) -> Command:
    """A `VirtualGpu.command` whose process has the toolchain's /usr, and libc's own popen."""
    original = VirtualGpu.command
    make_root(toolchain, folder)
    below = [ROOT, toolchain.libmiopen.parents[3], folder.parent, *libraries()]

    def command(
        self: VirtualGpu, script: Path, args: list[str]
    ) -> tuple[list[str], dict[str, str]]:
        plain = tuple(path for path in self.libraries if "popen" not in path.name)
        argv, environment = original(dataclasses.replace(self, libraries=plain), script, args)
        lines = [f"mount --bind {toolchain.libmiopen.parents[2]} {folder}/usr"]
        lines += [f"mount --rbind /{name} {folder}/{name}" for name in ("dev", "proc")]
        for path in dict.fromkeys(map(str, below)):
            lines += [f"mkdir -p {folder}{path}", f"mount --bind {path} {folder}{path}"]
        lines += [f'exec chroot {folder} "$@"']
        flags = "-mn" if os.getuid() == 0 else "-rmn"
        kept = {k: v for k, v in environment.items() if k not in ("CPATH", "CPLUS_INCLUDE_PATH")}
        # libMIOpen passes `-isystem /usr/include` first, which hides the C library's headers from
        # libstdc++: with nothing but the packages its HIP kernels do not compile at all.
        kept |= {"PATH": f"/bin:{os.environ['PATH']}", "CCC_OVERRIDE_OPTIONS": "X-isystem"}
        return ["unshare", flags, "sh", "-euc", "\n".join(lines), "sh", *argv], kept

    return command


def libraries() -> list[Path]:
    """The folder of the virtual GPU's libraries, which a checkout may link to."""
    import kdbforge.vgpu

    package = Path(kdbforge.vgpu.__file__).parent
    return [package, (package / "lib").resolve()]


def make_root(toolchain: Toolchain, folder: Path) -> None:
    for name in ("usr", "bin", "dev", "proc", "tmp", BUILD_FOLDER):
        (folder / name).mkdir(parents=True)
    for name in ("lib", "lib64"):
        (folder / name).symlink_to(f"usr/{name}")
    assert toolchain.clang is not None
    compiler = next(iter(sorted(toolchain.libmiopen.parents[2].glob("bin/clang-[0-9]*"))))
    (folder / BUILD_FOLDER / compiler.name).symlink_to(f"/usr/bin/{compiler.name}")
    shell = SHELL.format(python=shlex.quote(toolchain.python.name))
    for name, text in (("sh", shell), ("llvm-objcopy", OBJCOPY)):
        (folder / "bin" / name).write_text(text)
        (folder / "bin" / name).chmod(0o755)
