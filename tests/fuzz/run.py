"""Fuzzes one target with atheris: python tests/fuzz/run.py TARGET --seconds N

New inputs go to build/fuzz/TARGET, what fails to build/fuzz/found; the corpus is not changed.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import atheris

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path[:0] = [str(HERE.parent)]

with atheris.instrument_imports(include=["kdbforge"], enable_loader_override=False):
    from fuzz import targets

#: Where the readers' own temporary files go: they would keep a disk busy.
MEMORY = Path("/dev/shm")
#: Longest input that is tried, where not 4096 bytes: a database has pages, an object sections.
MAX_BYTES = {
    "kdb": 32768,
    **dict.fromkeys(("elf", "bundle", "plan", "profiles", "problems"), 16384),
    **dict.fromkeys(("notes", "journal", "manifest"), 8192),
}


def main() -> None:
    options = _options()
    if MEMORY.is_dir():
        tempfile.tempdir = str(MEMORY)
    with atheris.instrument_imports(include=["kdbforge"], enable_loader_override=False):
        module = targets.load(options.target)
    found = options.build / "found"
    corpus = options.build / options.target
    for folder in (found, corpus):
        folder.mkdir(parents=True, exist_ok=True)
    arguments = [
        sys.argv[0],
        f"-max_total_time={options.seconds}",
        f"-rss_limit_mb={options.rss_mb}",
        f"-timeout={options.timeout}",
        f"-max_len={MAX_BYTES.get(options.target, 4096)}",
        f"-artifact_prefix={found}/{options.target}-",
        *_dictionary(module, options.build / f"{options.target}.dict"),
        "-print_final_stats=1",
        "-len_control=20",
        *options.rest,
        str(corpus),
        *(str(path) for path in _seeds(options.target)),
    ]
    mutator = _mutator(module.mutate) if hasattr(module, "mutate") else None
    atheris.Setup(arguments, module.target, custom_mutator=mutator)
    atheris.Fuzz()


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Fuzz one target; 0 if nothing was found")
    parser.add_argument("target", choices=targets.NAMES)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--rss-mb", type=int, default=768, help="memory of the whole process")
    parser.add_argument("--timeout", type=int, default=10, help="seconds for one input")
    parser.add_argument("--build", type=Path, default=ROOT / "build" / "fuzz")
    parser.add_argument("rest", nargs="*", help="options of libFuzzer, behind `--`")
    return parser.parse_args()


def _seeds(target: str) -> list[Path]:
    folders = (HERE / "corpus" / target, HERE / "regressions" / target)
    return [folder for folder in folders if folder.is_dir()]


def _dictionary(module: ModuleType, path: Path) -> list[str]:
    if not hasattr(module, "TOKENS"):
        return []
    tokens = ("".join(f"\\x{byte:02x}" for byte in token) for token in module.TOKENS)
    path.write_text("".join(f'"{token}"\n' for token in tokens))
    return [f"-dict={path}"]


def _mutator(
    mutate: Callable[[bytes, random.Random], bytes],
) -> Callable[[bytes, int, int], bytes]:
    """Half of the time the target's own, half libFuzzer's, sometimes both."""

    def mutated(data: bytes, most: int, seed: int) -> bytes:
        rng = random.Random(seed)
        choice = rng.random()
        if choice < 0.55:
            try:
                data = mutate(bytes(data), rng)
            except Exception:  # noqa: BLE001 - too damaged to be changed in an orderly way
                choice = 1
        if choice > 0.45:
            data = atheris.Mutate(data, most)
        return bytes(data)[:most]

    return mutated


if __name__ == "__main__":
    main()
