"""Keys and signature files: what parses prints as it was, and no other manifest passes."""

from __future__ import annotations

import functools
import json

from fuzz.fields import Fields
from fuzz.scratch import empty_folder
from kdbforge.errors import DatabaseError, InputError
from kdbforge.package.sign import PublicKey, SecretKey, signature_path, verify_manifest

TOKENS = (b"key-1:", b"\n", b"=", b"==")
NAME = "key-1"
MANIFEST = json.dumps({
    "schema": 1, "policy": "default", "problems": {"count": 1}, "environment": {}, "files": [],
    "gpus": [], "missing": [], "proofs": [],
    "toolchain": {"name": "t", "version": "7", "miopen_version": "3", "build_id": "ab",
                  "fingerprint": "f"},
}).encode()  # fmt: skip


def target(data: bytes) -> None:
    for kind in (PublicKey, SecretKey):
        _round_trip(kind, data)
    fields = Fields(data)
    manifest, file = _manifest(fields), _signatures(fields)
    path = empty_folder() / "a.manifest.json"
    path.write_bytes(manifest)
    signature_path(path).write_bytes(file)
    try:
        signer = verify_manifest(path, [key().public])
    except (DatabaseError, InputError):
        return
    assert signer == key().public
    assert manifest == MANIFEST, "the signature of another manifest is accepted"
    assert line().strip()[:-4] in file, "a forged signature is accepted"


def _round_trip(kind: type[PublicKey | SecretKey], data: bytes) -> None:
    try:
        text = data.decode()
        parsed = kind.parse(text)
    except (InputError, UnicodeDecodeError):
        return
    shown = str(parsed) if isinstance(parsed, PublicKey) else parsed.text()
    # Not letter by letter: the last one of base64 may have bits that stand for nothing.
    assert kind.parse(shown) == parsed
    assert shown[:-4] == text.strip()[:-4]


def _manifest(fields: Fields) -> bytes:
    changed = bytearray(MANIFEST)
    if fields.byte() % 2:
        changed[int.from_bytes(fields.bytes(2), "little") % len(changed)] ^= fields.byte()
    return bytes(changed)


def _signatures(fields: Fields) -> bytes:
    """A signature file: the right line, a changed one, other lines, what the input holds."""
    changed = bytearray(line())
    changed[fields.byte() % len(changed)] = fields.byte()
    parts = (line(), bytes(changed), b"", b"\n", b"other:" + line()[6:], line()[:-5])
    file = b"".join(fields.choice(parts) for _ in range(fields.byte() % 4))
    return file + fields.bytes(fields.left)


@functools.cache
def key() -> SecretKey:
    return SecretKey.from_seed(NAME, bytes(range(32)))


@functools.cache
def line() -> bytes:
    import base64

    return f"{NAME}:".encode() + base64.b64encode(key().sign(MANIFEST)) + b"\n"
