"""The scheduler alone: no processes, every decision an assertion."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kdbforge.compiler.schedule import Loss, Schedule, Verdict, Work


def schedule(**seconds: float) -> Schedule:
    return Schedule(Work(key, expected) for key, expected in seconds.items())


def start(jobs: Schedule) -> str | None:
    work = jobs.start()
    return None if work is None else work.key


def test_the_longest_starts_first_and_ties_go_by_key() -> None:
    jobs = schedule(b=1, a=1, long=9, short=0.5)
    assert [start(jobs) for _ in range(5)] == ["long", "a", "b", "short", None]
    assert jobs.running == ("a", "b", "long", "short")


def test_a_finished_run_has_nothing_unfinished() -> None:
    jobs = schedule(a=1)
    assert jobs.unfinished
    start(jobs)
    assert jobs.unfinished
    assert jobs.finished("a", 1.0) == ()
    assert not jobs.unfinished
    assert jobs.compiled == {"a"}


def test_a_lost_job_is_tried_once_more() -> None:
    jobs = schedule(a=1)
    start(jobs)
    assert jobs.lost("a") is Loss.RETRY
    assert start(jobs) == "a"
    assert jobs.lost("a") is Loss.FAILED
    assert (start(jobs), jobs.failed, jobs.unfinished) == (None, {"a"}, False)


def test_a_lost_job_may_succeed_the_second_time() -> None:
    jobs = schedule(a=1)
    start(jobs)
    jobs.lost("a")
    start(jobs)
    jobs.finished("a", 1.0)
    assert (jobs.compiled, jobs.failed) == ({"a"}, set())


def test_what_the_compiler_refuses_is_not_tried_again() -> None:
    jobs = schedule(a=1)
    start(jobs)
    jobs.rejected("a")
    assert (start(jobs), jobs.failed) == (None, {"a"})


def test_twins_wait_for_the_one_that_compiles() -> None:
    jobs = schedule(a=3, b=2, c=1)
    for _ in "abc":
        start(jobs)
    assert jobs.content("a", "same") is Verdict.COMPILE
    assert jobs.content("b", "same") is Verdict.WAIT
    assert jobs.content("c", "other") is Verdict.COMPILE
    assert jobs.running == ("a", "c")
    assert jobs.finished("a", 1.0) == ("b",)
    assert jobs.finished("c", 1.0) == ()
    assert (jobs.compiled, jobs.deduplicated) == ({"a", "c"}, {"b"})
    assert not jobs.unfinished


def test_twins_of_a_failed_job_are_tried_by_themselves() -> None:
    jobs = schedule(a=3, b=2)
    start(jobs)
    start(jobs)
    jobs.content("a", "same")
    jobs.content("b", "same")
    assert start(jobs) is None
    jobs.rejected("a")
    assert start(jobs) == "b"
    assert jobs.content("b", "same") is Verdict.COMPILE
    jobs.finished("b", 1.0)
    assert (jobs.compiled, jobs.failed) == ({"b"}, {"a"})


def test_twins_of_a_lost_job_go_back_with_it() -> None:
    jobs = schedule(a=3, b=2)
    start(jobs)
    start(jobs)
    jobs.content("a", "same")
    jobs.content("b", "same")
    assert jobs.lost("a") is Loss.RETRY
    assert [start(jobs), start(jobs), start(jobs)] == ["a", "b", None]


def test_looking_for_twins_ends_where_there_are_none() -> None:
    keys = "abcdefgh"
    jobs = Schedule([Work(key, 1, "f") for key in keys] + [Work("z", 0.5)])
    asked = []
    for key in keys:
        assert start(jobs) == key
        asked.append(jobs.worth_asking(key))
        if asked[-1]:
            jobs.content(key, None if key == "a" else key)
    assert asked == [True] * 3 + [False] * 5
    assert start(jobs) == "z"
    assert not jobs.worth_asking("z")


def test_looking_for_twins_goes_on_where_one_was_found() -> None:
    keys = "abcdefgh"
    jobs = Schedule(Work(key, 1, "f") for key in keys)
    for key, content in zip(keys, "xxyzuvw", strict=False):
        start(jobs)
        assert jobs.worth_asking(key)
        jobs.content(key, content)


def test_a_job_served_from_the_store_counts_as_deduplicated() -> None:
    jobs = schedule(a=1)
    start(jobs)
    jobs.served("a")
    assert (jobs.deduplicated, jobs.compiled, jobs.unfinished) == ({"a"}, set(), False)


def test_the_eta_follows_this_machine() -> None:
    jobs = schedule(a=10, b=10, c=10, d=10)
    assert jobs.eta_seconds(2) == 20
    start(jobs)
    jobs.finished("a", 20.0)  # half as fast as expected
    assert jobs.eta_seconds(2) == 30
    for key in "bcd":
        start(jobs)
        jobs.finished(key, 20.0)
    assert jobs.eta_seconds(2) == 0


@given(data=st.data(), count=st.integers(1, 12), workers=st.integers(1, 4))
def test_every_job_ends_once_whatever_happens(
    data: st.DataObject, count: int, workers: int
) -> None:
    keys = [f"k{number}" for number in range(count)]
    jobs = Schedule(Work(key, data.draw(st.floats(0, 9))) for key in keys)
    content = {key: f"c{data.draw(st.integers(0, 3))}" for key in keys}
    running: list[str] = []
    runs = dict.fromkeys(keys, 0)
    for _ in range(20 * count):
        while len(running) < workers and (key := start(jobs)) is not None:
            runs[key] += 1
            if jobs.content(key, content[key]) is Verdict.COMPILE:
                running.append(key)
        if not running:
            break
        key = running.pop(data.draw(st.integers(0, len(running) - 1)))
        event = data.draw(st.sampled_from(["finished", "rejected", "lost"]))
        if event == "finished":
            twins = jobs.finished(key, 1.0)
            assert {content[twin] for twin in twins} <= {content[key]}
        else:
            getattr(jobs, event)(key)
    assert not jobs.unfinished
    ends = (jobs.compiled, jobs.deduplicated, jobs.failed)
    assert set().union(*ends) == set(keys)
    assert sum(map(len, ends)) == count
