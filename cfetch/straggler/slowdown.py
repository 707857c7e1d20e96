"""Decides when it is reported that all downloads are slow, and when that this is over. Pure.

A policy that spares attempts because all are slow at once may cancel some of them a second later: then they
were to blame after all. So the slowdown is reported only once most have been slow for ``SURE_S`` and none has
been cancelled; its end is reported only after ``EPISODE_S`` in which none was slow.
"""

from typing import NamedTuple

SURE_S = 3.0  # longer than an attempt must stay too slow before it is cancelled
EPISODE_S = 10.0  # attempts that are slow again within this time belong to the same slowdown


class Begin(NamedTuple):
    """All are slow; ``reason`` says why."""

    reason: str


class End(NamedTuple):
    """None is slow any more; ``lasted_s``: since the first was slow."""

    lasted_s: float


class Slowdown:
    """The slowdown of a run, if there is one. ``look`` at every check.

    ``until_s``: at least until then the network or a host counts as slow.
    """

    def __init__(self) -> None:
        self.until_s = 0.0
        self._began_s: float | None = None
        self._sure_s = 0.0
        self._is_reported = False

    def note_check(self, now_s: float, reason: str | None, *, is_clear: bool) -> Begin | End | None:
        """Look at the result of a check. Returns the news to report, if any.

        ``reason``: why attempts that are too slow were spared at this check; None: there were none.
        ``is_clear``: most are slow, and none was cancelled at this check except as a probe.
        """
        if reason is None:
            return self._end(now_s) if now_s >= self.until_s else None
        if self._began_s is None:
            self._began_s, self._sure_s = now_s, now_s + SURE_S
        self.until_s = now_s + EPISODE_S
        if not is_clear:
            self._sure_s = now_s + SURE_S
        if self._is_reported or now_s < self._sure_s:
            return None
        self._is_reported = True
        return Begin(reason)

    def _end(self, now_s: float) -> End | None:
        began_s, was_reported = self._began_s, self._is_reported
        self._began_s, self._is_reported = None, False
        return End(now_s - began_s) if began_s is not None and was_reported else None
