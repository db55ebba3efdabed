"""Manifests: refused, or of the right types with every file beside the manifest."""

from __future__ import annotations

import json
import random

from fuzz.scratch import empty_folder
from fuzz.trees import change
from kdbforge.errors import DatabaseError, InputError
from kdbforge.package.manifest import Manifest, check_files, parse_manifest

TOKENS = (
    *(b'"schema": 1', b'"toolchain"', b'"files"', b'"gpus"', b'"proofs"', b'"missing"', b"1e999"),
    *(b'"name"', b'"sha256"', b'"size"', b'"records"', b"Infinity", b"NaN", b"\\ud800", b"\\u001b"),
)


def target(data: bytes) -> None:
    folder = empty_folder()
    try:
        manifest = parse_manifest(folder / "a.manifest.json", data)
    except InputError:
        return
    for entry in manifest.files:
        assert (folder / entry.name).parent == folder
        assert type(entry.size) is type(entry.records) is int
        assert entry.size >= 0 <= entry.records
        if len(entry.name.encode()) < 200:
            (folder / entry.name).write_bytes(b"not that")
    assert manifest.problems >= 0
    assert all(gpu.num_cu >= 0 for gpu in manifest.gpus)
    for text in (manifest.policy, *manifest.environment, *manifest.environment.values()):
        assert text.isprintable()
    if manifest.files:
        _check_files_refuses(manifest)


def _check_files_refuses(manifest: Manifest) -> None:
    try:
        check_files(manifest)
    except DatabaseError:
        return
    raise AssertionError("files of other content are taken for those of the manifest")


def mutate(data: bytes, rng: random.Random) -> bytes:
    content = json.loads(data)
    for _ in range(rng.randint(1, 2)):
        change(content, rng)
    return json.dumps(content, ensure_ascii=rng.random() < 0.5).encode()
