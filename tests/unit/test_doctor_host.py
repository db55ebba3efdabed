"""What the doctor sees of a machine: devices, settings, folders, and the GPU itself."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kdbforge.package.host import (
    Finding,
    Host,
    effective_gpu,
    folder_findings,
    host_findings,
    may_use,
    override_arch,
    real_gpus,
)
from kdbforge.vgpu.profiles import expected_basename, resolve

USER = 4242  # nobody's
GROUP = 4343


@pytest.fixture
def host(tmp_path: Path) -> Host:
    """An ordinary user on a machine with one GPU."""
    for folder in ("dev/dri", "home/.cache", "home/.config/miopen", "tmp"):
        (tmp_path / folder).mkdir(parents=True)
    for node in ("dev/kfd", "dev/dri/renderD128"):
        (tmp_path / node).touch()
        (tmp_path / node).chmod(0o666)
    for folder in ("home/.cache", "home/.config/miopen", "tmp", "home"):
        (tmp_path / folder).chmod(0o777)
    (tmp_path / "mountinfo").write_text("1 0 0:1 / / rw - ext4 /dev/a rw\n")
    return Host(
        environment={"HOME": str(tmp_path / "home")},
        uid=USER,
        gids=frozenset({GROUP}),
        dev=tmp_path / "dev",
        topology=tmp_path / "nodes",
        mountinfo=tmp_path / "mountinfo",
        cwd=tmp_path,
        tmp=tmp_path / "tmp",
    )


def but(host: Host, **environment: str) -> Host:
    """The same host with more in its environment."""
    values = {name: getattr(host, name) for name in host.__slots__}
    return Host(**{**values, "environment": {**host.environment, **environment}})


def only(findings: list[Finding]) -> Finding:
    assert len(findings) == 1, findings
    assert findings[0].what
    assert findings[0].why
    return findings[0]


def test_a_sound_machine(host: Host) -> None:
    assert host_findings(host) == []


# -- devices --------------------------------------------------------------------------------------


def test_no_driver(host: Host) -> None:
    (host.dev / "kfd").unlink()
    found = only(host_findings(host))
    assert (found.level, found.what) == ("warning", f"There is no `{host.dev / 'kfd'}`")
    assert "--device /dev/kfd" in found.hint
    assert only(host_findings(host, gpu_is_here=False)).level == "note"


@pytest.mark.parametrize("node", ["kfd", "dri/renderD128"])
def test_no_permission_as_in_containers(host: Host, node: str) -> None:
    path = host.dev / node
    path.chmod(0o660)
    found = only(host_findings(host))
    assert (found.level, found.what) == ("error", f"No permission on `{path}`")
    assert f"--group-add {path.stat().st_gid}" in found.hint
    os.chown(path, -1, GROUP) if os.getuid() == 0 else path.chmod(0o666)
    assert host_findings(host) == []


def test_a_container_without_render_nodes(host: Host) -> None:
    (host.dev / "dri/renderD128").unlink()
    assert "no render node" in only(host_findings(host)).what


@pytest.mark.parametrize(
    ("mode", "uid", "gid", "wanted"),
    [
        (0o600, 1, 1, False), (0o602, 1, 1, False), (0o606, 1, 1, True),
        (0o060, 1, os.getgid(), True), (0o606, 1, os.getgid(), False),
        (0o600, os.getuid(), 1, True), (0o066, os.getuid(), 1, os.getuid() == 0),
        (0o000, 0, 0, True),
    ],
)  # fmt: skip
def test_permissions(tmp_path: Path, mode: int, uid: int, gid: int, wanted: bool) -> None:
    path = tmp_path / "file"
    path.touch()
    path.chmod(mode)
    assert may_use(path, Host(uid=uid, gids=frozenset({gid}))) is wanted


def test_what_is_not_there_cannot_be_used(tmp_path: Path) -> None:
    assert not may_use(tmp_path / "none", Host())


# -- settings -------------------------------------------------------------------------------------


@pytest.mark.parametrize("word", ["1", "on", "YES", "enabled", "true"])
def test_the_cache_is_switched_off(host: Host, word: str) -> None:
    found = only(host_findings(but(host, MIOPEN_DISABLE_CACHE=word)))
    assert (found.level, found.hint) == ("error", "unset MIOPEN_DISABLE_CACHE")


@pytest.mark.parametrize("word", ["0", "off", ""])
def test_the_cache_is_not_switched_off(host: Host, word: str) -> None:
    assert host_findings(but(host, MIOPEN_DISABLE_CACHE=word)) == []


def test_the_system_folder_is_set(host: Host) -> None:
    found = only(host_findings(but(host, MIOPEN_SYSTEM_DB_PATH="/srv/db")))
    assert (found.level, "/srv/db" in found.what) == ("note", True)


def test_the_device_is_pretended(host: Host) -> None:
    assert "MIOPEN_DEVICE_CU=36" in only(host_findings(but(host, MIOPEN_DEVICE_CU="36"))).what


def test_no_home(host: Host) -> None:
    assert "HOME is not set" in only(host_findings(but(host, HOME=""))).what


# -- folders --------------------------------------------------------------------------------------


def test_lock_files_of_root(host: Host) -> None:
    """Db lock has failed to lock (#124)."""
    (host.tmp / "miopen-lockfiles").mkdir(mode=0o755)
    found = only(host_findings(host))
    assert found.level == "error"
    assert "Db lock has failed to lock" in found.why
    assert "TMPDIR" in found.hint


def test_the_users_folder_is_not_his(host: Host, tmp_path: Path) -> None:
    """boost::filesystem permission errors on $HOME/.config/miopen (#1427, ROCm/ROCm#1677)."""
    (tmp_path / "home/.config/miopen").chmod(0o755)
    found = only(host_findings(host))
    assert found.level == "error"
    assert str(tmp_path / "home/.config/miopen") in found.what
    assert "MIOPEN_USER_DB_PATH" in found.hint


def cache_of(host: Host, folder: Path) -> list[Finding]:
    return list(folder_findings(folder, host, "user databases", "MIOPEN_CUSTOM_CACHE_DIR"))


def test_a_folder_that_cannot_be_made(host: Host, tmp_path: Path) -> None:
    """disk I/O error in a read-only image (ROCm/tensorflow-upstream#1419)."""
    (tmp_path / "home/.cache").chmod(0o555)
    found = only(cache_of(host, tmp_path / "home/.cache/miopen/3.5.1."))
    assert f"may not make it in `{tmp_path / 'home/.cache'}`" in found.what
    assert "disk I/O error" in found.why


def test_a_cache_that_users_share(host: Host) -> None:
    """The cache in /tmp belongs to whoever came first (Lumi-AI-Guide#81)."""
    shared = host.tmp / "miopen-cache"
    shared.mkdir()
    shared.chmod(0o777)
    found = only(cache_of(host, shared))
    assert "belongs to another user" in found.what
    assert "MIOPEN_CUSTOM_CACHE_DIR" in found.hint


def test_a_home_on_the_network(host: Host, tmp_path: Path) -> None:
    host.mountinfo.write_text(
        "1 0 0:1 / / rw - ext4 /dev/a rw\n"
        f"2 1 0:2 / {tmp_path / 'home'} rw,relatime shared:1 - nfs4 server:/home rw\n"
    )
    folder = tmp_path / "home/.cache/miopen"
    assert "network file system (nfs4)" in only(cache_of(host, folder)).what
    assert cache_of(but(host, MIOPEN_CUSTOM_CACHE_DIR=str(folder)), folder) == []


# -- the GPU --------------------------------------------------------------------------------------


def node(host: Host, number: int, **properties: int) -> None:
    folder = host.topology / str(number)
    folder.mkdir(parents=True)
    text = "".join(f"{name} {value}\n" for name, value in properties.items())
    (folder / "properties").write_text(text)


def test_the_gpus_of_this_machine(host: Host) -> None:
    """The name and CU count are those that MIOpen will use (#1995, #2123)."""
    node(host, 0, cpu_cores_count=8, simd_count=0, gfx_target_version=0)
    node(host, 1, simd_count=160, simd_per_cu=2, gfx_target_version=100300)
    node(host, 2, simd_count=416, simd_per_cu=4, gfx_target_version=90010)
    node(host, 3, simd_count=8, simd_per_cu=2, gfx_target_version=990000)
    assert [expected_basename(gpu) for gpu in real_gpus(host)] == ["gfx1030_40", "gfx90a68"]


def test_no_gpu(host: Host) -> None:
    assert real_gpus(host) == ()


def test_detection_uses_the_overridden_name(host: Host) -> None:
    """MIOpen uses it as well (#3096)."""
    node(host, 1, simd_count=64, simd_per_cu=2, gfx_target_version=100302)
    (gpu,) = real_gpus(but(host, HSA_OVERRIDE_GFX_VERSION="10.3.0"))
    assert expected_basename(gpu) == "gfx1030_16"


@pytest.mark.parametrize(
    ("text", "arch"),
    [("10.3.0", "gfx1030"), ("9.0.10", "gfx90a"), ("11.0.0", "gfx1100"), ("x", None), ("", None)],
)
def test_versions(host: Host, text: str, arch: str | None) -> None:
    assert override_arch(but(host, HSA_OVERRIDE_GFX_VERSION=text)) == arch


def test_an_override_is_stated(host: Host) -> None:
    """An RX 5700 that runs as gfx1030 wants gfx1030 files with its own CU count (#1996)."""
    gpu, findings = effective_gpu(
        resolve("gfx1010_18"), but(host, HSA_OVERRIDE_GFX_VERSION="10.3.0")
    )
    assert expected_basename(gpu) == "gfx1030_18"
    found = only(findings)
    assert found.level == "warning"
    assert "MIOpen sees gfx1030 in place of gfx1010" in found.what
    assert "--gpu gfx1030_18" in found.hint


@pytest.mark.parametrize(
    ("text", "level"), [("10.3.0", "note"), ("ten", "error"), ("99.0.0", "error")]
)
def test_overrides_that_change_nothing(host: Host, text: str, level: str) -> None:
    wanted = resolve("gfx1030_40")
    gpu, findings = effective_gpu(wanted, but(host, HSA_OVERRIDE_GFX_VERSION=text))
    assert gpu == wanted
    assert only(findings).level == level


def test_no_override(host: Host) -> None:
    assert effective_gpu(resolve("gfx1030_40"), host)[1] == []
