"""The Debian recipe as a packager runs it, and the package as the real libMIOpen finds it."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from namespaces import isolated

import kdbforge as kf
from kdbforge import Toolchain, find_toolchain
from kdbforge.kdb.reader import read_kdb

RECIPE = Path(__file__).parents[2] / "docs" / "packaging" / "debian.md"
GPU = "gfx1030_40"
PROBLEMS = """\
MIOpenDriver conv -n 1 -c 16 -H 14 -W 14 -k 16 -y 3 -x 3 -p 1 -q 1 -F 1
MIOpenDriver convfp16 -n 1 -c 16 -H 14 -W 14 -k 16 -y 1 -x 1 -p 0 -q 0 -F 1
"""

#: Debian's libMIOpen has the folder's path in itself: the tree's becomes that of the system.
IN_THE_TREE = """
tree=$1; shift
mount -t tmpfs none /usr/share
mkdir -p /usr/share/miopen/db
mount --bind "$tree/usr/share/miopen/db" /usr/share/miopen/db
exec "$@"
"""

#: Replays the problems with the compiler forbidden and no word on where databases are.
REPLAY = """
import json, sys
from pathlib import Path
from kdbforge import find_gpu, find_toolchain
from kdbforge.miopen.replay import ReplayOptions, replay
from kdbforge.model.policy import find_policy
from kdbforge.problems import load
from kdbforge.vgpu.process import CompileMode

toolchain = find_toolchain(sys.argv[1])
policy = find_policy("default")
options = ReplayOptions(CompileMode.FORBID, policy.calls, None, policy.environment)
done = replay(
    toolchain, find_gpu(sys.argv[3]), load([sys.argv[2]]).problems, options, Path(sys.argv[4])
)
print(json.dumps({
    "misses": [refused.kernel_file for refused in done.capture.forbidden],
    "loads": len(done.capture.loads),
    "errors": [outcome.error for outcome in done.outcomes if outcome.error],
}))
"""


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source package of the recipe, with problems that compile within seconds."""
    folder = tmp_path_factory.mktemp("deb") / "miopen-kdb"
    (folder / "debian").mkdir(parents=True)
    text = RECIPE.read_text()
    (rules,) = re.findall(r"^```make\n(.*?)^```$", text, re.M | re.S)
    (control,) = re.findall(r"^```\n(Source: .*?)^```$", text, re.M | re.S)
    (folder / "debian" / "rules").write_text(rules)
    (folder / "debian" / "control").write_text(control)
    (folder / "debian" / "problems.txt").write_text(PROBLEMS)
    return folder


@pytest.fixture(scope="module")
def deb(toolchain: Toolchain, shared_store: Path, source: Path) -> Path:
    """What `debian/rules binary` makes, with the fetched library for the system's."""
    program = source.parent / "bin" / "kdbforge"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m kdbforge "$@"\n')
    program.chmod(0o755)
    (source / "build").mkdir()
    (source / "build" / "store").symlink_to(shared_store)
    shared_store.mkdir(exist_ok=True)
    variables = {"TOOLCHAIN": toolchain.name, "LIBRARY_VERSION": toolchain.version}
    done = subprocess.run(
        ["make", "-f", "debian/rules", "binary", *(f"{k}={v}" for k, v in variables.items())],
        cwd=source,
        env={
            **os.environ,
            "PATH": f"{program.parent}:{os.environ['PATH']}",
            "DEB_BUILD_OPTIONS": "nocheck parallel=2",
            "SOURCE_DATE_EPOCH": "1700000000",
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (path,) = source.parent.glob("*.deb")
    return path


def test_the_recipe_makes_a_package(deb: Path, source: Path, toolchain: Toolchain) -> None:
    done = subprocess.run(["dpkg-deb", "--field", deb], capture_output=True, text=True, check=True)
    fields = dict(re.findall(r"^([A-Z][\w-]*): (.*)$", done.stdout, re.M))
    assert fields["Package"] == "miopen-kdb-gfx1030"
    assert fields["Version"] == f"{toolchain.version}+kdb1"
    assert fields["Depends"] == f"libmiopen1 (= {toolchain.version})"
    assert fields["Maintainer"] == "Jo Doe <jo@example.org>"
    assert f"   {GPU}.kdb: " in done.stdout
    for name in kf.plan(
        [str(source / "debian/problems.txt")], [GPU], toolchain=toolchain
    ).environment:
        assert f"   {name}=0\n" in done.stdout
    assert (source / "debian" / "files").read_text() == f"{deb.name} libs optional\n"
    listed = subprocess.run(["dpkg-deb", "-c", deb], capture_output=True, text=True, check=True)
    names = [line.split()[5] for line in listed.stdout.splitlines()]
    assert {f"./usr/share/miopen/db/{GPU}{s}" for s in (".kdb", ".manifest.json")} < set(names)
    assert {line.split()[3] for line in listed.stdout.splitlines()} == {"2023-11-14"}


def test_the_real_library_finds_everything_in_the_installed_package(
    deb: Path, source: Path, toolchain: Toolchain, tmp_path: Path
) -> None:
    original = toolchain.libmiopen
    while original.name != "root":
        original = original.parent
    copy = tmp_path / "system"
    shutil.copytree(original.parent, copy, symlinks=True, copy_function=link_or_copy)
    python = [sys.executable, "-c", REPLAY, copy, str(source / "debian/problems.txt"), GPU]

    def replayed(name: str) -> dict[str, Any]:
        done = isolated(IN_THE_TREE, copy / "root", *python, tmp_path / name)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    before = replayed("before")
    assert before["misses"]
    subprocess.run(["dpkg", "-x", deb, copy / "root"], check=True)
    system_db = find_toolchain(copy).system_db
    assert system_db is not None
    records = len(list(read_kdb(system_db / f"{GPU}.kdb")))
    after = replayed("after")
    assert (after["misses"], after["errors"]) == ([], [])
    assert after["loads"] >= records > 0


def link_or_copy(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:  # another file system
        shutil.copy2(source, target)
