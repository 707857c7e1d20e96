"""Learns from pauses how many connections a host bears from all tasks together. Pure.

A host asks for a pause (429, 503) when all tasks together ask too much of it. Each task then halves its own
window, but it keeps one connection at least, and a thousand tasks with one connection each may still be too
many. So the run has a window too: it is halved once for each pause, and grows evenly when the pause is over
(additive increase, multiplicative decrease: Chiu and Jain, 1989). After a long calm there is no window.
"""

from typing import NamedTuple

DOUBLED_S = 10.0  # after so long without a pause the window is twice as large as after the last cut
ROUND_S = (
    2.0  # tasks hear of a pause within a second, and may have asked in that second: it is the same pause
)
CALM_S = 60.0  # without a pause: the window, by then seven times as large, stands in nobody's way


class _Window(NamedTuple):
    places: int  # after the last cut
    since_s: float  # the end of the pause, from which on it grows


class LearnedLimits:
    """The windows of hosts that have asked for a pause. Times are seconds on one monotonic clock."""

    def __init__(self) -> None:
        self._windows: dict[str, _Window] = {}

    def note_pause(self, host: str, connections: int, pause_s: float, now_s: float) -> None:
        """Note that a task was asked for a pause; ``connections``: of all tasks to that host now."""
        before = self._windows.get(host)
        if before is not None and now_s < before.since_s + ROUND_S:
            return
        limit = self.find_limit(host, now_s)
        most = connections if limit is None else min(connections, limit)
        self._windows[host] = _Window(max(1, most // 2), now_s + pause_s)

    def find_limit(self, host: str, now_s: float) -> int | None:
        """The connections that all tasks together may have to the host now; None: no limit is known."""
        window = self._windows.get(host)
        if window is None:
            return None
        calm_s = max(0.0, now_s - window.since_s)
        if calm_s > CALM_S:
            del self._windows[host]
            return None
        return int(window.places * (1 + calm_s / DOUBLED_S))
