"""The figures of one attempt: how much it has to fetch, when it started, when it ended.

Every attempt has its own clock: the time of earlier attempts and the back-off between them never count, so a
rescued file is a sample of the good attempt's speed.
"""

import msgspec

MIN_ELAPSED_S = 0.001  # the resolution of timers; less would make throughputs that no link has
WATCHED_S = 0.2  # younger attempts are not looked at: most small files end earlier, and cost nothing
MAX_DOUBLINGS = 60  # limits the exponent, so that the power stays finite


def patience(mitigations: int) -> float:
    """The factor by which an entry's bar has risen: each earlier rescue doubles it."""
    return 2.0 ** min(mitigations, MAX_DOUBLINGS)


class AttemptMetrics(msgspec.Struct, frozen=True, gc=False):
    """One attempt at one entry; times are seconds on the monotonic clock.

    ``size_bytes``: the bytes that this attempt has to fetch: the declared size, less the bytes of a resumed
    part. None or 0 is allowed: such an attempt is no sample and has no limit. ``immune``: it must not be
    flagged, as no further attempt is permitted. ``mitigations``: how often this entry was rescued before.
    ``straggler``: it was flagged.
    """

    id: int
    size_bytes: int | None
    start_s: float
    immune: bool = False
    mitigations: int = 0
    straggler: bool = False
    end_s: float | None = None

    @property
    def rate_bps(self) -> float | None:
        """Size over duration (at least ``MIN_ELAPSED_S``); None while it runs, or without a size."""
        if self.end_s is None or self.size_bytes is None or self.size_bytes <= 0:
            return None
        return self.size_bytes / max(self.end_s - self.start_s, MIN_ELAPSED_S)

    def finish(self, end_s: float, size_bytes: int | None) -> "AttemptMetrics":
        """The attempt as completed, with the size that is known by then. A second end is ignored."""
        if self.end_s is not None:
            return self
        return msgspec.structs.replace(self, size_bytes=size_bytes, end_s=end_s)

    def flag(self) -> "AttemptMetrics":
        """The attempt, marked as a straggler."""
        return msgspec.structs.replace(self, straggler=True)

    def forgive(self, from_s: float, to_s: float) -> "AttemptMetrics":
        """Return the attempt with its start moved by the time that it lived between these two moments."""
        return msgspec.structs.replace(self, start_s=self.start_s + to_s - max(self.start_s, from_s))
