"""Detached Ed25519 signatures over manifests, with keys and signatures in Nix's form.

A manifest names its files by SHA-256, so that its signature covers them as well.
"""

# Form of all three, as in `nix-store --generate-binary-cache-key`:
#
#   secret key  name ":" base64(seed, 32 bytes; public key, 32 bytes)
#   public key  name ":" base64(public key, 32 bytes)
#   signature   name ":" base64(signature of the manifest's bytes, 64 bytes), one a line
#
# The name tells keys apart; what it says is not proven by anything.

from __future__ import annotations

import base64
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from kdbforge.errors import DatabaseError, HostError, InputError
from kdbforge.files import host_errors, sync_folder, write_whole
from kdbforge.package.manifest import check_files, parse_manifest

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

__all__ = [
    "PublicKey",
    "SecretKey",
    "generate_key",
    "read_public_keys",
    "read_secret_key",
    "sign_manifest",
    "signature_path",
    "verify_manifest",
    "write_secret_key",
]

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+@-]{0,99}")
_PUBLIC_BYTES = 32
_SECRET_BYTES = 64
_SIGNATURE_BYTES = 64
#: Larger files of keys or signatures are something else.
_LARGEST = 1 << 20


@dataclass(frozen=True, slots=True)
class PublicKey:
    """What signatures are checked with."""

    name: str
    data: bytes

    @classmethod
    def parse(cls, text: str) -> PublicKey:
        """Read `name:base64`.

        Raises
        ------
        InputError
            If it is malformed, or a secret key.
        """
        name, data = _split(text, "public key")
        if len(data) == _SECRET_BYTES:
            raise InputError(
                f"`{name}:...` is a secret key (or a signature), not a public key",
                hint="give the public one, which `kdbforge keygen` wrote beside it",
            )
        _check_length(name, data, _PUBLIC_BYTES, "public key")
        return cls(name, data)

    def __str__(self) -> str:
        return _join(self.name, self.data)


@dataclass(frozen=True, slots=True)
class SecretKey:
    """What manifests are signed with; its `repr` does not show it."""

    name: str
    seed: bytes = field(repr=False)
    public: PublicKey

    @classmethod
    def parse(cls, text: str) -> SecretKey:
        """Read `name:base64`; messages do not repeat it.

        Raises
        ------
        InputError
            If it is malformed, a public key, or its two halves do not belong together.
        """
        name, data = _split(text, "secret key")
        if len(data) == _PUBLIC_BYTES:
            raise InputError(f"Key `{name}` is a public key, and signing needs the secret one")
        _check_length(name, data, _SECRET_BYTES, "secret key")
        key = cls.from_seed(name, data[:_PUBLIC_BYTES])
        if key.public.data != data[_PUBLIC_BYTES:]:
            raise InputError(f"Secret key `{name}` is damaged: its halves do not belong together")
        return key

    @classmethod
    def from_seed(cls, name: str, seed: bytes) -> SecretKey:
        """Make the key pair that the 32 bytes `seed` stand for."""
        public = _private(seed).public_key().public_bytes_raw()
        return cls(name, seed, PublicKey(name, public))

    def text(self) -> str:
        """The secret as `name:base64`: for the key's file, and for nothing else."""
        return _join(self.name, self.seed + self.public.data)

    def sign(self, data: bytes) -> bytes:
        """The signature of some bytes."""
        return _private(self.seed).sign(data)


def generate_key(name: str) -> SecretKey:
    """Make a new key from the system's random numbers.

    Raises
    ------
    InputError
        If the name cannot be one of a key.
    HostError
        If the library for signatures is not installed.
    """
    _check_name(name, "key")
    return SecretKey.from_seed(name, os.urandom(_PUBLIC_BYTES))


def write_secret_key(key: SecretKey, path: Path) -> Path:
    """Write a new file that only its owner can read, and the public key to `path` + `.pub`.

    Raises
    ------
    InputError
        If one of the files exists: a lost key cannot be made again.
    HostError
        If they cannot be written.
    """
    public = path.with_name(path.name + ".pub")
    for taken in (path, public):
        if taken.exists():
            raise InputError(f"`{taken}` exists, and keys are not overwritten")
    # Not `write_whole`: the file must never be readable by others, not even at first.
    with host_errors(f"write `{path}`"):
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        with os.fdopen(os.open(path, flags, 0o600), "wb") as file:
            file.write(f"{key.text()}\n".encode())
            file.flush()
            os.fsync(file.fileno())
        sync_folder(path.parent)
    with write_whole(public) as file:
        file.write(f"{key.public}\n".encode())
    return public


def read_secret_key(path: Path) -> SecretKey:
    """Read the file of a secret key.

    Raises
    ------
    InputError, HostError
        If it holds no secret key, or cannot be read.
    """
    lines = _lines(path)
    if len(lines) != 1:
        raise InputError(f"`{path}` holds {len(lines)} lines, and a secret key is one")
    return SecretKey.parse(lines[0])


def read_public_keys(text: str) -> tuple[PublicKey, ...]:
    """Take a public key as it is (`name:base64`), or read those in a file, one a line.

    Raises
    ------
    InputError, HostError
        If it is neither, or the file cannot be read.
    """
    path = Path(text)
    if ":" in text and not path.is_file():
        return (PublicKey.parse(text),)
    keys = tuple(PublicKey.parse(line) for line in _lines(path))
    if not keys:
        raise InputError(f"`{path}` holds no public key")
    return keys


def signature_path(manifest: Path) -> Path:
    """Where the signature of a manifest is: `gfx1030_40.manifest.json.sig`."""
    return manifest.with_name(manifest.name + ".sig")


def sign_manifest(manifest: Path, key: SecretKey) -> Path:
    """Sign a manifest whose files are what it says; signatures by other keys are kept.

    Raises
    ------
    DatabaseError
        If a file is missing or has changed.
    InputError, HostError
        If the manifest is none, or something cannot be read or written.
    """
    data = _bytes(manifest)
    check_files(parse_manifest(manifest, data))
    path = signature_path(manifest)
    signatures = _read_signatures(path) if path.exists() else {}
    signatures[key.name] = key.sign(data)
    with write_whole(path) as file:
        for name, signature in sorted(signatures.items()):
            file.write(f"{_join(name, signature)}\n".encode())
    return path


def verify_manifest(manifest: Path, keys: Sequence[PublicKey]) -> PublicKey:
    """Check that one of the keys signed the manifest, and that its files are what it says.

    Returns the key. A signature by a key that is not given counts for nothing.

    Raises
    ------
    DatabaseError
        If there is no such signature, it is of other bytes, or a file is missing or changed.
    InputError, HostError
        If the manifest or the signature file is malformed or cannot be read.
    """
    data = _bytes(manifest)  # once: what is parsed must be what was signed
    key = _signer(manifest, data, keys)
    check_files(parse_manifest(manifest, data))
    return key


def _signer(manifest: Path, data: bytes, keys: Sequence[PublicKey]) -> PublicKey:
    path = signature_path(manifest)
    if not path.exists():
        raise DatabaseError(f"`{manifest}` is not signed: there is no `{path}`")
    signatures = _read_signatures(path)
    known = [key for key in keys if key.name in signatures]
    for key in known:
        if _is_valid(key, signatures[key.name], data):
            return key
    if known:
        raise DatabaseError(
            f"The signature of `{manifest}` is wrong",
            context=(
                f"key: `{known[0].name}`",
                "the manifest has changed since it was signed, or another key of that name did it",
            ),
        )
    raise DatabaseError(
        f"`{manifest}` is signed by unknown key {_quoted(signatures)}",
        context=(f"known: {_quoted(key.name for key in keys)}",),
        hint="give the signer's public key, if you trust it",
    )


def _quoted(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in sorted(names))


def _is_valid(key: PublicKey, signature: bytes, data: bytes) -> bool:
    ed25519, invalid = _library()
    try:
        ed25519.Ed25519PublicKey.from_public_bytes(key.data).verify(signature, data)
    except (invalid, ValueError):  # ValueError: the key is no point of the curve
        return False
    return True


def _private(seed: bytes) -> Ed25519PrivateKey:
    ed25519, _ = _library()
    key: Ed25519PrivateKey = ed25519.Ed25519PrivateKey.from_private_bytes(seed)
    return key


def _library() -> tuple[ModuleType, type[Exception]]:
    """Imported when needed: who neither signs nor verifies needs no library for it."""
    try:
        from cryptography.exceptions import InvalidSignature  # noqa: PLC0415
        from cryptography.hazmat.primitives.asymmetric import ed25519  # noqa: PLC0415
    except ImportError as error:
        raise HostError(
            "Signatures need the Python package `cryptography`, which is not installed",
            hint="pip install 'kdbforge[sign]' (Debian: apt install python3-cryptography)",
        ) from error
    return ed25519, InvalidSignature


def _read_signatures(path: Path) -> dict[str, bytes]:
    signatures: dict[str, bytes] = {}
    for line in _lines(path):
        name, data = _split(line, "signature")
        _check_length(name, data, _SIGNATURE_BYTES, "signature")
        if name in signatures:
            raise InputError(f"`{path}` holds two signatures of key `{name}`")
        signatures[name] = data
    if not signatures:
        raise InputError(f"`{path}` holds no signature")
    return signatures


def _lines(path: Path) -> list[str]:
    data = _bytes(path)
    if len(data) > _LARGEST:
        raise InputError(f"`{path}` holds no keys: it is larger than {_LARGEST >> 20} MiB")
    try:
        return [line.strip() for line in data.decode("ascii").splitlines() if line.strip()]
    except UnicodeDecodeError as error:
        raise InputError(f"`{path}` holds no keys or signatures: it is not ASCII text") from error


def _bytes(path: Path) -> bytes:
    with host_errors(f"read `{path}`"):
        return path.read_bytes()


def _split(text: str, what: str) -> tuple[str, bytes]:
    name, colon, code = text.strip().partition(":")
    if not colon:
        raise InputError(f"Malformed {what}: it has no `:`", hint=_FORM)
    _check_name(name, what)
    try:
        return name, base64.b64decode(code, validate=True)
    except ValueError as error:  # binascii.Error, or that the text is not ASCII
        raise InputError(
            f"Malformed {what} `{name}`: what follows the `:` is not base64", hint=_FORM
        ) from error


_FORM = "keys and signatures are written `name:base64`"


def _check_name(name: str, what: str) -> None:
    if not _NAME.fullmatch(name):
        raise InputError(
            f"`{name}` cannot be the name of a {what}",
            hint="use letters, digits and `.`, `_`, `+`, `@`, `-`, such as `example.org-1`",
        )


def _check_length(name: str, data: bytes, length: int, what: str) -> None:
    if len(data) != length:
        raise InputError(f"Malformed {what} `{name}`: it has {len(data)} bytes, not {length}")


def _join(name: str, data: bytes) -> str:
    return f"{name}:{base64.b64encode(data).decode()}"
