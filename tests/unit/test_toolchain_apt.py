"""What is read of apt's answers, of the host's apt, and of apt's complaints."""

from __future__ import annotations

from pathlib import Path

import pytest

from kdbforge.errors import HostError, ToolchainError
from kdbforge.toolchain.apt import (
    Apt,
    Package,
    _explain,
    host_keyrings,
    host_mirror,
    parse_stanzas,
    parse_uris,
)
from kdbforge.toolchain.fetch import compiles_in_process, is_skipped, upstream_version

URIS = """\
'http://d/p/libc6_2.44-3_amd64.deb' libc6_2.44-3_amd64.deb 1897964 MD5Sum:685569
'http://d/p/x_22.1.8-3_amd64.deb' libllvm22_1%3a22.1.8-3_amd64.deb 29441420 SHA256:aa
'http://d/p/r_7.2.4-1%7eexp1_all.deb' libroctx64-4_7.2.4-1~exp1_all.deb 5628
Reading package lists...
"""


def test_uris_give_name_version_and_size() -> None:
    assert [(p.name, p.version, p.file_name, p.size) for p in parse_uris(URIS)] == [
        ("libc6", "2.44-3", "libc6_2.44-3_amd64.deb", 1897964),
        ("libllvm22", "1:22.1.8-3", "libllvm22_1%3a22.1.8-3_amd64.deb", 29441420),
        ("libroctx64-4", "7.2.4-1~exp1", "libroctx64-4_7.2.4-1~exp1_all.deb", 5628),
    ]


def test_an_uri_line_of_another_form_is_refused() -> None:
    with pytest.raises(ToolchainError, match="Cannot read apt's answer"):
        parse_uris("'http://d/p/libc6.deb' libc6.deb many\n")


def test_stanzas_with_continuation_lines() -> None:
    text = "Package: a\nDepends: b,\n c\nVersion: 1:2\n\n\nPackage: d\n"
    assert list(parse_stanzas(text)) == [
        {"Package": "a", "Depends": "b,\nc", "Version": "1:2"},
        {"Package": "d"},
    ]


@pytest.mark.parametrize(
    ("depends", "answer"),
    [
        ("libc6 (>= 2.38), libamd-comgr3 (>= 5.0.0), libhiprtc7 (>= 6.1.5)", True),
        ("libamdhip64-6, libhiprtc-builtins6, libclang-common-21-dev", False),
        ("libamd-comgr3, libhiprtc-builtins7", False),
        ("libhiprtc7:amd64", False),
        ("", False),
    ],
)
def test_the_compiler_is_told_from_depends(depends: str, answer: bool) -> None:
    assert compiles_in_process(depends) is answer


def test_upstream_version() -> None:
    assert upstream_version("7.2.4+dfsg-1") == "7.2.4"
    assert upstream_version("1:22.1.8-3") == "22.1.8"
    assert upstream_version("strange") == "strange"


def test_what_is_left_out() -> None:
    names = ["librocblas5", "librocrand1", "libamdhip64-7", "tzdata", "libasan8", "libgcc-16-dev"]
    assert all(is_skipped(name) for name in names)
    kept = ["libamdhip64-dev", "librocrand-dev", "libc6", "libgcc-s1", "libstdc++6", "libedit2"]
    assert not any(is_skipped(name) for name in [*kept, "libpython3.14-stdlib", "libtinfo6"])


DEB822 = """\
Types: deb
# http://snapshot.debian.org/archive/debian/20250520T000000Z
URIs: http://security.debian.org/debian-security
Suites: bookworm-security

Types: deb-src
URIs: http://sources.example/debian

Types: deb
Enabled: no
URIs: http://off.example/debian

Types: deb
URIs: http://mirror.example/debian/
Suites: bookworm bookworm-updates
"""


def test_the_mirror_of_deb822_sources(tmp_path: Path) -> None:
    (tmp_path / "sources.list.d").mkdir()
    (tmp_path / "sources.list.d" / "debian.sources").write_text(DEB822)
    assert host_mirror(tmp_path) == "http://mirror.example/debian"


def test_the_mirror_of_one_line_sources(tmp_path: Path) -> None:
    (tmp_path / "sources.list").write_text(
        "# deb http://commented.example/debian sid main\n"
        "deb [arch=amd64] https://packages.example/apt stable main\n"
        "deb [signed-by=/k.gpg arch=amd64] http://ftp.example/debian bookworm main\n"
    )
    assert host_mirror(tmp_path) == "http://ftp.example/debian"


def test_no_mirror(tmp_path: Path) -> None:
    assert host_mirror(tmp_path) is None


def test_keyrings_without_retired_keys(tmp_path: Path) -> None:
    for name in (
        "debian-archive-keyring.pgp",
        "debian-archive-removed-keys.gpg",
        "debian-archive-trixie-stable.gpg",
        "other.gpg",
    ):
        (tmp_path / name).touch()
    (tmp_path / "debian-archive-keyring.gpg").symlink_to("debian-archive-keyring.pgp")
    assert [p.name for p in host_keyrings(tmp_path)] == [
        "debian-archive-keyring.gpg",
        "debian-archive-trixie-stable.gpg",
    ]


@pytest.mark.parametrize(
    ("text", "error", "words"),
    [
        ("E: Write error - write (28: No space left on device)", HostError, "no space left"),
        ("W: GPG error: x: NO_PUBKEY 1\nE: Failed to fetch x", ToolchainError, "cannot trust"),
        ("E: Failed to fetch x  Hash Sum mismatch", ToolchainError, "cannot trust"),
        ("E: Failed to fetch x  Temporary failure resolving 'd'", HostError, "cannot reach"),
        (
            "E: Failed to fetch http://d/dists/s/InRelease  404  Not Found\nE: s is not signed.",
            ToolchainError,
            "no such suite",
        ),
        ("E: Unable to locate package x", ToolchainError, "failed"),
    ],
)
def test_complaints_of_apt(text: str, error: type[Exception], words: str) -> None:
    found = _explain("apt-get update", f"Reading package lists...\n{text}\n")
    assert type(found) is error
    assert words in found.message
    assert found.context == tuple(text.splitlines())


def test_a_host_without_apt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(HostError, match="no `apt-get`") as caught:
        Apt(tmp_path / "state", mirror="http://d/debian", suites=("sid",), keyrings=())
    assert caught.value.hint is not None
    assert "toolchain add" in caught.value.hint
    assert not (tmp_path / "state").exists()


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A PATH on which apt's programs exist; only `apt-config dump` is ever run here."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("apt-get", "apt-cache", "dpkg", "dpkg-deb"):
        (folder / name).write_text("#!/bin/sh\nexit 1\n")
        (folder / name).chmod(0o755)
    (folder / "apt-config").write_text(
        "#!/bin/sh\n/bin/cat << 'END'\n"
        'APT::Update::Post-Invoke:: "rm -rf /";\n'
        'Acquire::http::Proxy "http://proxy:3128";\n'
        'Acquire::https::Verify-Peer "false";\n'
        'Acquire::AllowInsecureRepositories "1";\n'
        "END\n"
    )
    (folder / "apt-config").chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))
    return folder


def test_only_the_hosts_network_options_are_taken_over(tools: Path, tmp_path: Path) -> None:
    key = tmp_path / "key.gpg"
    apt = Apt(tmp_path / "s", mirror="http://d/debian", suites=("sid", "exp"), keyrings=(key,))
    text = (tmp_path / "s" / "apt.conf").read_text()
    assert 'Acquire::http::Proxy "http://proxy:3128";' in text
    for word in ("Post-Invoke", "Verify-Peer", 'AllowInsecureRepositories "1"'):
        assert word not in text
    assert 'Dir::Etc::main "/dev/null";' in text
    assert (tmp_path / "s" / "etc" / "sources.list").read_text() == (
        f"deb [signed-by={key}] http://d/debian sid main\n"
        f"deb [signed-by={key}] http://d/debian exp main\n"
    )
    assert apt.archives.is_dir()


def test_no_keyring(tools: Path, tmp_path: Path) -> None:
    with pytest.raises(HostError, match="signatures cannot be checked"):
        Apt(tmp_path / "s", mirror="http://d/debian", suites=("sid",), keyrings=())


def test_a_download_counts_only_with_its_digest(tools: Path, tmp_path: Path) -> None:
    key = tmp_path / "key.gpg"
    apt = Apt(tmp_path / "s", mirror="http://d/debian", suites=("sid",), keyrings=(key,))
    digest = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"  # of "abc"
    package = Package("a", "1", "http://d/a.deb", "a_1_all.deb", 3, digest)
    assert not apt.have(package)
    for content, answer in ((b"abc", True), (b"abd", False), (b"ab", False)):
        (apt.archives / "a_1_all.deb").write_bytes(content)
        assert apt.have(package) is answer
