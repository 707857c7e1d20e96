"""The values that the parts of a pool get from outside, as one object."""

from collections.abc import Callable
from typing import NamedTuple

from cfetch.base.clock import RunClock
from cfetch.base.events import Listener
from cfetch.show.counts import LiveCounts


class Surroundings(NamedTuple):
    """The plan's instant, the clock, the source of random numbers, the listeners.

    ``jitter`` returns uniform numbers in [0, 1). ``counts`` is one of the listeners of ``emit``: the engine
    only reads it. ``confirm`` raises if the plan is not this run's any more.
    """

    instant: str
    clock: RunClock
    jitter: Callable[[], float]
    emit: Listener
    counts: LiveCounts
    confirm: Callable[[], None] = lambda: None
