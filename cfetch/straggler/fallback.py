"""The formula's fallback: after too many stragglers the source counts as slow, and entries start one by one.

Only new starts wait: attempts under way continue, and so does detection. A run that fell back stays
sequential to its end; the next run starts parallel again.
"""

from enum import Enum

from cfetch.config.straggler import StragglerConfig


class Mode(Enum):
    """How new entries are started."""

    PARALLEL = "parallel"
    SEQUENTIAL = "sequential"


class Count(Enum):
    """The run's number of stragglers, compared with the option's."""

    BELOW = "below"
    REACHED = "reached"


TRANSITIONS = {
    (Mode.PARALLEL, Count.BELOW): Mode.PARALLEL,
    (Mode.PARALLEL, Count.REACHED): Mode.SEQUENTIAL,
    (Mode.SEQUENTIAL, Count.BELOW): Mode.SEQUENTIAL,
    (Mode.SEQUENTIAL, Count.REACHED): Mode.SEQUENTIAL,
}


class Fallback:
    """The mode of one run. Without ``sequential_fallback`` (or with mitigation off) it stays parallel."""

    def __init__(self, config: StragglerConfig) -> None:
        permitted = config.enabled and config.sequential_fallback
        self._threshold = config.max_stragglers_before_fallback if permitted else None
        self.mode = Mode.PARALLEL
        self.observe(0)

    def observe(self, stragglers: int) -> bool:
        """Note the run's number of stragglers. Returns whether this number ended parallel downloads."""
        reached = self._threshold is not None and stragglers >= self._threshold
        before, self.mode = self.mode, TRANSITIONS[self.mode, Count.REACHED if reached else Count.BELOW]
        return before is not self.mode
