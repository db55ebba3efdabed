"""Builds that are killed, interrupted, or met by another: nothing lost, nothing half-written."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path

from processes import guests, processes_that_mention, started, wait_until
from small import Run

from kdbforge import Observer, Toolchain, build, open_store
from kdbforge.compiler.report import Progress

GPU = ("--gpu", "gfx906_60", "--policy", "normal")
FILES = ["gfx906_60.kdb", "gfx906_60.manifest.json"]


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def stored(store: Path) -> int:
    return open_store(store).stats().entries


def test_killed_ten_times_and_finished_gives_the_same_bytes(
    kdbforge: Run, tmp_path: Path, small: Path
) -> None:
    started_at = time.monotonic()
    done = kdbforge("build", small, *GPU, "-o", tmp_path / "quiet", "--store", tmp_path / "quiet-s")
    seconds = time.monotonic() - started_at
    assert done.returncode == 0, done.stderr
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    store, output = tmp_path / "store", tmp_path / "out"
    entries = 0
    for _ in range(10):
        with started("build", small, *GPU, "-o", output, store=store) as process:
            with suppress(subprocess.TimeoutExpired):
                process.wait(chance.uniform(0, seconds))
            process.kill()
        assert entries <= stored(store)  # nothing that was finished is lost
        entries = stored(store)
        wait_until(lambda: not processes_that_mention(tmp_path))
    done = kdbforge("build", small, *GPU, "-o", output, "--json", "--store", store)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["compile"]["found"] == entries
    assert contents(output) == contents(tmp_path / "quiet")
    assert sorted(contents(output)) == FILES


def test_ctrl_c_while_compiling_keeps_what_is_finished(
    kdbforge: Run, tmp_path: Path, small: Path
) -> None:
    store, output = tmp_path / "store", tmp_path / "out"
    with started("build", small, *GPU, "-o", output, "-j1", store=store) as process:
        wait_until(lambda: stored(store) >= 2, process)
        os.killpg(process.pid, signal.SIGINT)
        _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert said.endswith("interrupted; finished work is kept\n")
    assert "Traceback" not in said
    assert os.listdir(output) == []
    assert processes_that_mention(tmp_path) == []
    entries = stored(store)
    assert 2 <= entries < 7
    done = kdbforge("build", small, *GPU, "-o", output, "--json", "--store", store)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)["compile"]
    assert (found["found"], found["compiled"]) == (entries, 7 - entries)


def test_ctrl_c_while_planning_ends_at_once(tmp_path: Path) -> None:
    output = tmp_path / "out"
    gpus = [word for n in range(40, 60) for word in ("--gpu", f"gfx906_{n}")]
    command = ("build", "suite:resnet50", *gpus, "-o", output, "-j2")
    with started(*command, store=tmp_path / "store") as process:
        wait_until(
            lambda: list(output.glob(".kdbforge-*/.kdbforge-*/plan-0-0/vgpu/journal")), process
        )
        os.killpg(process.pid, signal.SIGINT)
        # The runs that had begun are stopped, those of the other GPUs do not begin.
        _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in said
    assert os.listdir(output) == []
    assert processes_that_mention(tmp_path) == []


def test_ctrl_c_while_proving_publishes_nothing(
    kdbforge: Run, tmp_path: Path, small: Path, shared_store: Path
) -> None:
    output = tmp_path / "out"
    ready = kdbforge("build", small, *GPU, "-o", tmp_path / "warm-up", "--store", shared_store)
    assert ready.returncode == 0, ready.stderr
    with started("build", small, *GPU, "-o", output, store=shared_store) as process:
        wait_until(
            lambda: list(output.glob(".kdbforge-*/.kdbforge-*/prove-*/run/vgpu/journal")), process
        )
        os.killpg(process.pid, signal.SIGINT)
        process.communicate(timeout=60)
    assert process.returncode == 130
    assert os.listdir(output) == []


def test_of_two_builds_into_one_folder_one_is_refused(
    kdbforge: Run, tmp_path: Path, small: Path
) -> None:
    store, output = tmp_path / "store", tmp_path / "out"
    with started("build", small, *GPU, "-o", output, store=store) as process:
        wait_until(lambda: list(output.glob(".kdbforge-*")), process)
        second = kdbforge("build", small, *GPU, "-o", output)
        assert process.wait() == 0
    assert second.returncode == 2
    assert second.stderr.endswith(
        f"error: Another kdbforge process is writing into `{output}`\n\n"
        "hint: wait for it, or give another folder\n"
    )
    assert sorted(os.listdir(output)) == FILES


def test_two_builds_may_share_a_store(kdbforge: Run, tmp_path: Path, small: Path) -> None:
    store = tmp_path / "store"
    with started("build", small, *GPU, "-o", tmp_path / "one", store=store) as process:
        second = kdbforge("build", small, *GPU, "-o", tmp_path / "two", "--store", store)
        assert second.returncode == 0, second.stderr
        assert process.wait() == 0
    assert contents(tmp_path / "one") == contents(tmp_path / "two")


class Killer(Observer):
    """Kills a compile worker in the middle of a job, once for each of the signals."""

    def __init__(self, *signals: int):
        self._signals = list(signals)
        self._known: set[int] = set()

    def planned(self, plan: object) -> None:
        self._known = set(guests())

    def compiling(self, progress: Progress) -> None:
        workers = set(guests()) - self._known
        if progress.running and workers and self._signals:
            self._known |= workers
            for worker in workers:
                os.kill(worker, self._signals[0])
            self._signals.pop(0)

    @property
    def done(self) -> bool:
        return not self._signals


def test_a_killed_worker_costs_nothing_but_a_retry(
    toolchain: Toolchain, tmp_path: Path, small: Path, shared_store: Path
) -> None:
    quiet = build(
        [str(small)], ["gfx906_60"], tmp_path / "quiet", toolchain=toolchain, store=shared_store
    )
    killer = Killer(signal.SIGSEGV)
    report = build(
        [str(small)],
        ["gfx906_60"],
        tmp_path / "out",
        toolchain=toolchain,
        store=tmp_path / "store",
        observer=killer,
    )
    assert killer.done
    assert report.complete
    assert report.compile.failures == ()
    assert report.compile.compiled + report.compile.deduplicated == len(report.plan.jobs)
    assert contents(tmp_path / "out") == contents(quiet.databases[0].path.parent)


def test_flipped_bits_in_the_store_are_misses(kdbforge: Run, tmp_path: Path, small: Path) -> None:
    store = tmp_path / "store"
    build_it = ("build", small, "--gpu", "gfx906_60", "--store", store, "--json")
    assert kdbforge(*build_it, "-o", tmp_path / "a").returncode == 0
    entries = [path for path in (store / "entries").rglob("*") if path.is_file()]
    for number, path in enumerate(entries):
        data = bytearray(path.read_bytes())
        data[number * len(data) // len(entries)] ^= 1 << number
        path.write_bytes(data)
    done = kdbforge(*build_it, "-o", tmp_path / "b")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)["compile"]
    assert (report["found"], report["compiled"]) == (0, len(entries))
    assert contents(tmp_path / "a") == contents(tmp_path / "b")
