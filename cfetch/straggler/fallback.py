"""The formula's fallback: after too many stragglers the source counts as slow, and entries start one by one.

Only new starts wait: attempts under way continue, and so does detection. A run that fell back stays
sequential to its end; the next run starts parallel again.
"""

from cfetch.base.config.straggler import StragglerConfig


class SequentialFallback:
    """Whether one run is ``sequential``: never with mitigation off or without ``sequential_fallback``."""

    def __init__(self, config: StragglerConfig) -> None:
        permitted = config.enabled and config.sequential_fallback
        self._threshold = config.max_stragglers_before_fallback if permitted else None
        self.sequential = False
        self.observe(0)

    def observe(self, stragglers: int) -> bool:
        """Note the run's number of stragglers. Returns whether this number ended parallel downloads."""
        if self.sequential or self._threshold is None or stragglers < self._threshold:
            return False
        self.sequential = True
        return True
