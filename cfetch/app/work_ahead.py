"""Several threads work on the items of a row; the results come in the order of the items."""

import os
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

AHEAD_PER_THREAD = 4

Item = TypeVar("Item")
Result = TypeVar("Result")


def work_ahead(
    work: Callable[[Item], Result], items: Iterable[Item], stop: threading.Event
) -> Generator[Result, None, None]:
    """Yield the result of ``work`` for each item; the threads are at most a few items ahead.

    At the end, or when the generator is closed, ``stop`` is set: work that takes long should look at it.
    """
    threads = min(32, (os.cpu_count() or 1) + 4)  # as many as Python's own default: disks like a queue
    waiting: deque[Future[Result]] = deque()
    executor = ThreadPoolExecutor(threads)
    try:
        for item in items:
            if len(waiting) >= threads * AHEAD_PER_THREAD:
                yield waiting.popleft().result()
            waiting.append(executor.submit(work, item))
        while waiting:
            yield waiting.popleft().result()
    finally:
        stop.set()
        executor.shutdown(cancel_futures=True)
