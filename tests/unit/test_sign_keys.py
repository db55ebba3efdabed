"""Signatures: keys as Nix writes them, one answer for every kind of tampering."""

from __future__ import annotations

import base64
import json
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from packages import built

from kdbforge.cli.package import keygen, sign, verify_signature
from kdbforge.errors import DatabaseError, HostError, InputError
from kdbforge.package.manifest import manifest_path, read_manifest
from kdbforge.package.sign import (
    PublicKey,
    SecretKey,
    generate_key,
    read_public_keys,
    read_secret_key,
    sign_manifest,
    signature_path,
    verify_manifest,
    write_secret_key,
)

#: RFC 8032, section 7.1, test 2.
SEED = bytes.fromhex("4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb")
PUBLIC = bytes.fromhex("3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c")
SIGNATURE = bytes.fromhex(
    "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da"
    "085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00"
)
KEY = SecretKey.from_seed("example.org-1", SEED)
NAMES = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._+@-]{0,9}", fullmatch=True)


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def test_keys_are_ed25519() -> None:
    assert KEY.public.data == PUBLIC
    assert KEY.sign(b"\x72") == SIGNATURE
    assert str(KEY.public) == f"example.org-1:{b64(PUBLIC)}"
    assert KEY.text() == f"example.org-1:{b64(SEED + PUBLIC)}"


@given(st.binary(min_size=32, max_size=32), NAMES)
def test_round_trip(seed: bytes, name: str) -> None:
    key = SecretKey.from_seed(name, seed)
    assert SecretKey.parse(key.text()) == key
    assert PublicKey.parse(f" {key.public}\n") == key.public


def test_a_key_does_not_show_its_secret() -> None:
    assert b64(SEED)[:20] not in f"{KEY!r} {KEY}"
    assert repr(SEED) not in repr(KEY)
    assert generate_key("a") != generate_key("a")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("example", "Malformed public key: it has no `:`"),
        (":" + b64(PUBLIC), "`` cannot be the name of a public key"),
        ("a b:" + b64(PUBLIC), "`a b` cannot be the name of a public key"),
        ("a:???", "Malformed public key `a`: what follows the `:` is not base64"),
        ("a:" + b64(PUBLIC)[:-4], "Malformed public key `a`: it has 30 bytes, not 32"),
        ("a:" + b64(SEED + PUBLIC), "`a:...` is a secret key (or a signature), not a public key"),
    ],
)
def test_malformed_public_keys(text: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        PublicKey.parse(text)
    assert caught.value.message == message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (str(KEY.public), "Key `example.org-1` is a public key, and signing needs the secret one"),
        ("a:" + b64(SEED + SEED), "Secret key `a` is damaged: its halves do not belong together"),
        ("a:" + b64(SEED * 3), "Malformed secret key `a`: it has 96 bytes, not 64"),
    ],
)
def test_malformed_secret_keys(text: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        SecretKey.parse(text)
    assert caught.value.message == message


def test_key_files(tmp_path: Path) -> None:
    path = tmp_path / "a.key"
    public = write_secret_key(KEY, path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert read_secret_key(path) == KEY
    assert read_public_keys(str(public)) == (KEY.public,)
    for taken in (path, public):
        with pytest.raises(InputError, match="are not overwritten"):
            write_secret_key(KEY, path)
        taken.unlink()
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match="not ASCII"):
        read_secret_key(path)
    with pytest.raises(HostError, match="Cannot read"):
        read_secret_key(tmp_path / "none")


def test_signed_and_verified(tmp_path: Path) -> None:
    manifest = built(tmp_path)
    path = sign_manifest(manifest, KEY)
    assert path == signature_path(manifest) == tmp_path / "gfx1030_40.manifest.json.sig"
    assert path.read_text() == f"example.org-1:{b64(KEY.sign(manifest.read_bytes()))}\n"
    other = generate_key("other")
    assert verify_manifest(manifest, [other.public, KEY.public]) == KEY.public
    sign_manifest(manifest, other)
    assert len(path.read_text().splitlines()) == 2
    for key in (KEY, other):
        assert verify_manifest(manifest, [key.public]) == key.public


def test_tampering_is_found(tmp_path: Path) -> None:
    manifest = built(tmp_path)
    sign_manifest(manifest, KEY)
    kdb, good = tmp_path / "gfx1030_40.kdb", manifest.read_bytes()
    data = bytearray(kdb.read_bytes())

    def refused() -> str:
        with pytest.raises(DatabaseError) as caught:
            verify_manifest(manifest, [KEY.public])
        return caught.value.message

    data[-1] ^= 1
    kdb.write_bytes(data)
    assert refused() == f"`{kdb}` has changed since its manifest was written"
    with pytest.raises(DatabaseError):
        sign_manifest(manifest, KEY)
    # Who changes the manifest to fit needs the key.
    values = json.loads(good)
    built(tmp_path, environment={"A": "1"})
    assert manifest.read_bytes() != good
    assert refused() == f"The signature of `{manifest}` is wrong"
    manifest.write_bytes(good)
    kdb.unlink()
    assert refused() == f"`{kdb}` is missing, and its manifest names it"
    values["files"][0]["name"] = "../gfx1030_40.kdb"
    manifest.write_text(json.dumps(values))
    with pytest.raises(InputError, match="is not a manifest"):
        read_manifest(manifest)


def test_strangers_keys(tmp_path: Path) -> None:
    manifest = built(tmp_path)
    with pytest.raises(DatabaseError, match="is not signed: there is no"):
        verify_manifest(manifest, [KEY.public])
    sign_manifest(manifest, KEY)
    other = generate_key("other").public
    with pytest.raises(DatabaseError) as caught:
        verify_manifest(manifest, [other])
    assert caught.value.message == f"`{manifest}` is signed by unknown key `example.org-1`"
    assert caught.value.context == ("known: `other`",)
    # A name proves nothing.
    with pytest.raises(DatabaseError, match="is wrong"):
        verify_manifest(manifest, [PublicKey("example.org-1", other.data)])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "holds no signature"),
        ("a:AAAA\n", "Malformed signature `a`: it has 3 bytes, not 64"),
        (f"a:{b64(SIGNATURE)}\n" * 2, "holds two signatures of key `a`"),
    ],
)
def test_malformed_signatures(tmp_path: Path, text: str, message: str) -> None:
    manifest = built(tmp_path)
    signature_path(manifest).write_text(text)
    with pytest.raises(InputError) as caught:
        verify_manifest(manifest, [KEY.public])
    assert message in caught.value.message


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"schema": 2}', "[" * 100_000, "\x00"])
def test_what_is_no_manifest(tmp_path: Path, text: str) -> None:
    path = tmp_path / "a.manifest.json"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        read_manifest(path)
    assert caught.value.message == f"`{path}` is not a manifest of kdbforge"
    assert caught.value.context


def test_without_the_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.asymmetric", None)
    with pytest.raises(HostError) as caught:
        generate_key("a")
    assert caught.value.hint is not None
    assert "pip install 'kdbforge[sign]'" in caught.value.hint


def test_commands(tmp_path: Path) -> None:
    run = CliRunner(catch_exceptions=False).invoke
    key, out = tmp_path / "a.key", tmp_path / "out"
    public = run(keygen, ["a", "-o", str(key)]).stdout.strip()
    assert public.startswith("a:")
    manifests = [built(out), built(out, num_cu=36)]
    done = run(sign, [str(out / "gfx1030_40.kdb"), "--key", str(key)])
    assert done.stdout == f"{manifests[0]}.sig\n"
    trusted = ["--key", public]
    assert (
        run(verify_signature, [str(manifests[0]), *trusted], standalone_mode=False).return_value
        == 0
    )
    done = run(verify_signature, [str(out), *trusted], standalone_mode=False)
    assert done.return_value == 1  # the other one is not signed
    run(sign, [str(out), "--key", str(key)])
    for trust in (public, f"{key}.pub"):
        done = run(verify_signature, [str(out), "--key", trust], standalone_mode=False)
        assert done.return_value == 0
    assert manifest_path(out / "gfx1030_40.kdb") == manifests[0]
