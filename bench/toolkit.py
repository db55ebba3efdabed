"""The figures of `kdbforge kdb` on a large database: CPU time, wall time and memory."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

from figure import Figure, at_most
from kdbforge.kdb.record import Record
from lab import Lab
from large import Cost, bunzip2_and_md5, kdbforge, records_of, repeated

__all__ = ["toolkit"]

MEGABYTE = 10**6
#: Forms of each object in the large databases.
VARIANTS = 8
#: Rounds of a database in which no object is there twice.
DIFFERENT = 40
RUNS = 3


def toolkit(lab: Lab) -> Iterator[Figure]:
    """verify and merge against bunzip2 + MD5 of the same blobs; info and ls; memory at two sizes"""
    small, large = (Databases(lab, size * MEGABYTE) for size in (100, 520))
    output = lab.fresh().with_suffix(".kdb")
    for databases in (small, large):
        runs = RUNS if databases is large else 1
        plain, verify, merge = [], [], []
        for _ in range(runs):  # in turn, since the machine may be busy with something else
            plain.append(bunzip2_and_md5(databases.whole))
            verify.append(kdbforge("kdb", "verify", databases.whole))
            merge.append(kdbforge("kdb", "merge", output, *databases.parts, "--force"))
        found = {"verify": verify, "merge": merge}
        for name in ("info", "ls"):
            found[name] = [kdbforge("kdb", name, databases.whole) for _ in range(3)]
        if databases is large:
            yield from times(plain, found)
        for name, costs in found.items():
            peak = max(cost.peak_bytes for cost in costs) / MEGABYTE
            yield at_most(f"peak memory of kdb {name}, {databases.words}", peak, 300, "MB")
    yield from all_different(lab, output)


def times(plain: list[Cost], found: dict[str, list[Cost]]) -> Iterator[Figure]:
    for name in ("verify", "merge"):
        yield at_most(
            f"kdb {name} / bunzip2 and MD5 of the same blobs, CPU time",
            least_cpu(found[name]) / least_cpu(plain),
            1.3,
        )
    for name in ("info", "ls"):
        seconds = min(cost.wall_seconds for cost in found[name])
        yield at_most(f"kdb {name}, wall time", seconds, 1, "s")


def all_different(lab: Lab, output: Path) -> Iterator[Figure]:
    """The same where no object is there twice, so that each is unpacked and examined."""
    path = cached(lab, "different")
    if not path.exists():
        records = base(lab)
        repeated(path, records, range(DIFFERENT), DIFFERENT)
    plain, verify, merge = [], [], []
    for _ in range(RUNS):
        plain.append(bunzip2_and_md5(path))
        verify.append(kdbforge("kdb", "verify", path))
        merge.append(kdbforge("kdb", "merge", output, path, "--force"))
    for name, costs in (("verify", verify), ("merge", merge)):
        ratio = least_cpu(costs) / least_cpu(plain)
        yield Figure(f"kdb {name}, the same, no object twice", ratio, "")


def least_cpu(costs: list[Cost]) -> float:
    return min(cost.cpu_seconds for cost in costs)


class Databases:
    """A database of at least `size` bytes, and two that have its records between them."""

    def __init__(self, lab: Lab, size: int):
        name = f"{size // MEGABYTE}MB"
        self.whole, *self.parts = (cached(lab, name + part) for part in ("", "-a", "-b"))
        records = base(lab)
        rounds = -(-size // cached(lab, "base").stat().st_size)
        for path, chosen in (
            (self.whole, range(rounds)),
            (self.parts[0], range(0, rounds, 2)),
            (self.parts[1], range(1, rounds, 2)),
        ):
            if not path.exists():
                repeated(path, records, chosen, VARIANTS)

    @property
    def words(self) -> str:
        return f"{self.whole.stat().st_size / MEGABYTE:.0f} MB"


def base(lab: Lab) -> list[Record]:
    """The records of a real database."""
    path = cached(lab, "base")
    if not path.exists():
        built = lab.timed_build().report.databases
        found = next(database.path for database in built if database.path.stem == "gfx1030_40")
        path.write_bytes(found.read_bytes())
    return records_of(path)


def cached(lab: Lab, name: str) -> Path:
    """A database that is kept from run to run, for each toolchain and suite."""
    made_from = f"{lab.toolchain.fingerprint} {lab.suite}".encode()
    digest = hashlib.sha256(made_from).hexdigest()[:16]
    folder = lab.folder.parent / f"large-{digest}" / name
    folder.mkdir(parents=True, exist_ok=True)
    return folder / "gfx1030_40.kdb"
