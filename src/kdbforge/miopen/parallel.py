"""Runs replays side by side; when one fails or the user interrupts, none of them goes on."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from threading import Event
from typing import TypeVar

__all__ = ["side_by_side"]

T = TypeVar("T")


def side_by_side(tasks: Iterable[Callable[[Event], T]], workers: int) -> list[T]:
    """Run tasks in threads, at most `workers` at once; their results in the tasks' order.

    Each task is given an event that is set when it must end at once, because another one failed
    or the calling thread was interrupted. Nothing runs any more when this function is left.

    Raises
    ------
    BaseException
        What the first of the failed tasks raised, in the tasks' order, or KeyboardInterrupt.
    """
    stop = Event()
    with ThreadPoolExecutor(workers) as pool:
        futures = [pool.submit(task, stop) for task in tasks]
        try:
            ended, _ = wait(futures, return_when=FIRST_EXCEPTION)
            for future in futures:
                if future in ended:
                    future.result()
            return [future.result() for future in futures]
        except BaseException:
            stop.set()
            pool.shutdown(wait=False, cancel_futures=True)
            raise
