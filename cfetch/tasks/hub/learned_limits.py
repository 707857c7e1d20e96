"""Learns from pauses how many connections a host bears from all tasks together. Pure.

A host asks for a pause (429, 503) when all tasks together ask too much of it. Each task then halves its own
window, but it keeps one connection at least, and a thousand tasks with one connection each may still be too
many. So the run has a limit for such a host, too.

A moment after a refusal, the connections that are left are those that the host serves: so many it bears. If
hardly any is left, the host counts requests and not connections, and the limit is a quarter of what was too
much. From there it doubles every few seconds up to half of what was too much, and then grows slowly until the
next refusal. A host that refuses all requests for a while says nothing about their number, and is asked as
before once it has recovered.

A host that resets further connections keeps those that it has: so many it bears, and perhaps twice as many,
as some may be idle. If it resets more under the limit, the limit is less.
"""

from math import log2
from typing import NamedTuple

HEARD_S = 1.2  # after so long every task has told how many connections are left: it beats once a second
ROUND_S = 2.0  # tasks may have asked until they heard of a pause: refusals until then belong to it
DOUBLED_S = 3.0
SLOWLY = 0.02  # of the ceiling a second: another refusal comes only every few seconds
HARDLY_ANY = 32  # of the connections that were too many, one
FORGOTTEN = 4  # times the ceiling: a limit that large has met no refusal for minutes


class _Limit(NamedTuple):
    """``served``: connections that the last refusal has left; None: not all tasks have told yet.

    ``ceiling``: the limit grows slowly from here on. ``pause_s`` and ``since_s``: when the pause began and
    ended.
    """

    served: int | None
    ceiling: int
    pause_s: float
    since_s: float


class LearnedLimits:
    """The limits of hosts that have refused something. Times are seconds on one monotonic clock.

    ``resetting``: the connections that hosts bore when they last reset further ones.
    """

    def __init__(self) -> None:
        self._limits: dict[str, _Limit] = {}
        self.resetting: dict[str, int] = {}

    def note_pause(self, host: str, connections: int, pause_s: float, now_s: float) -> None:
        """Note that a task was asked for a pause; ``connections``: of all tasks to that host now."""
        before = self._limits.get(host)
        if before is not None and now_s < max(before.since_s, before.pause_s) + ROUND_S:
            return
        too_many = self.find_limit(host, connections, now_s) or connections
        ceiling = max(1, too_many // 2)
        if before is not None and too_many <= 1:  # a host that refuses a lone connection refuses every one
            ceiling = before.ceiling
        self._limits[host] = _Limit(None, ceiling, now_s, now_s + pause_s)

    def note_reset(self, host: str, connections: int, now_s: float) -> None:
        """Note that a host has reset further connections than those that all tasks have to it now."""
        before = self._limits.get(host)
        if before is not None and now_s < before.since_s + ROUND_S:
            return
        served, ceiling = max(1, connections), 2 * max(1, connections)
        if (too_many := self.find_limit(host, connections, now_s)) is not None:
            served = max(1, min(too_many - 1, max(served, too_many // 2)))
            ceiling = max(served, min(too_many - 1, (served + too_many) // 2))
        self.resetting[host] = served
        self._limits[host] = _Limit(served, ceiling, now_s, now_s)

    def find_limit(self, host: str, connections: int, now_s: float) -> int | None:
        """The connections that all tasks together may have to the host now; None: no limit is known.

        ``connections``: as for ``note_pause``.
        """
        limit = self._limits.get(host)
        if limit is None:
            return None
        if limit.served is None:
            least = max(1, limit.ceiling // 2)
            if now_s < limit.pause_s + HEARD_S:
                return max(connections, least)  # a task that has no lease would have to wait for its beat
            served = connections if HARDLY_ANY * connections > 2 * limit.ceiling else least
            limit = self._limits[host] = limit._replace(served=served, ceiling=max(limit.ceiling, served))
        assert limit.served is not None
        grown_s = DOUBLED_S * log2(limit.ceiling / limit.served)
        since_s = max(limit.since_s, limit.pause_s + HEARD_S)
        late_s = now_s - since_s - grown_s
        if late_s <= 0:
            return int(limit.served * 2 ** (max(0.0, now_s - since_s) / DOUBLED_S))
        slots = int(limit.ceiling * (1 + SLOWLY * late_s))
        if slots > FORGOTTEN * limit.ceiling:
            del self._limits[host]
            self.resetting.pop(host, None)
            return None
        return slots
