"""The values that the parts of a pool get from outside, as one object."""

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from cfetch.base.clock import RunClock
from cfetch.base.events import Listener
from cfetch.show.counts import LiveCounts

if TYPE_CHECKING:
    from cfetch.engine.placement.chooser import Earlier


class PoolInputs(NamedTuple):
    """The plan's instant, the clock, the source of random numbers, the listeners.

    ``jitter`` returns uniform numbers in [0, 1). ``counts`` is one of the listeners of ``emit``: the engine
    only reads it. ``confirm`` raises if the plan is not this run's any more. ``earlier``: what earlier runs
    have left on the volumes in use; None: only one was given. With several the run places batches and leaves
    their records, even if all volumes but one are out of use from the beginning.
    """

    instant: str
    clock: RunClock
    jitter: Callable[[], float]
    emit: Listener
    counts: LiveCounts
    confirm: Callable[[], None] = lambda: None
    earlier: "Earlier | None" = None
