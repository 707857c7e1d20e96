"""The rule of ``--min-rate``: an attempt below a stated rate is cancelled, and the file is asked for again.

The rule needs no baseline, so it helps a single file and works beside either policy. It must end when the
whole link is slower than the stated rate: after ``FRESH`` fresh connections a file is no longer cancelled.
After ``MOST_IN_VAIN`` fresh connections in a row that were no faster, no file of that host is, until a
connection is fast enough.
"""

from collections import deque
from collections.abc import Collection
from typing import NamedTuple

WINDOW_S = 5.0  # TCP's slow start is over by then, and one lost packet does not decide
LOOK_S = 0.5  # ten looks a window; more would cost time, and find nothing sooner
FRESH = 3  # with one slow connection in three, a file in eighty gets no good one
MOST_IN_VAIN = 8  # with one slow connection in two, one host in 250 looks slow as a whole


class Measured(NamedTuple):
    """An attempt whose server has answered. ``start_s`` distinguishes the attempts of one ``key``.

    ``busy_s``: its age without the time in which our own side kept it from reading; ``left_bytes`` None: its
    size is unknown. ``may_end``: its cancellation cannot make the file fail.
    """

    key: int
    entry_id: int
    host: str
    start_s: float
    busy_s: float
    received: int
    left_bytes: int | None
    may_end: bool


class TooSlow(NamedTuple):
    """An attempt to be cancelled, with its rate over the window."""

    key: int
    rate_bps: float


class Waived(NamedTuple):
    """Slow attempts of one entry are no longer cancelled; ``key`` None: those of a whole host."""

    key: int | None
    host: str
    connections: int


class RateRuling(NamedTuple):
    """The result of one look."""

    too_slow: list[TooSlow]
    waived: list[Waived]


class _Track:
    """The bytes that one attempt has brought over its last ``WINDOW_S`` seconds."""

    def __init__(self, attempt: Measured) -> None:
        self.start_s = attempt.start_s
        self.entry_id = attempt.entry_id
        self.host = attempt.host
        self.is_slow = False
        self._points: deque[tuple[float, int]] = deque()

    def measure(self, attempt: Measured) -> float | None:
        """Bytes per second over the window; None while the attempt is younger."""
        points = self._points
        points.append((attempt.busy_s, attempt.received))
        since_s = attempt.busy_s - WINDOW_S
        while len(points) > 1 and points[1][0] <= since_s:
            points.popleft()
        then_s, then_bytes = points[0]
        return (attempt.received - then_bytes) / (attempt.busy_s - then_s) if then_s <= since_s else None


class MinRate:
    """Holds attempts to ``min_bps`` bytes per second."""

    def __init__(self, min_bps: float) -> None:
        self._min_bps = min_bps
        self._tracks: dict[int, _Track] = {}
        self._cuts: dict[int, int] = {}  # entry id -> attempts cancelled here, plus one once it is waived
        self._in_vain: dict[str, int] = {}  # host -> fresh connections in a row that were no faster
        self._slow_hosts: set[str] = set()

    def judge(self, attempts: Collection[Measured]) -> RateRuling:
        """Judge all attempts whose servers have answered; call it every ``LOOK_S`` seconds."""
        self._drop_ended({attempt.key: attempt for attempt in attempts})
        ruling = RateRuling([], [])
        for attempt in attempts:
            track = self._tracks.get(attempt.key)
            if track is None:
                track = self._tracks[attempt.key] = _Track(attempt)
            rate_bps = track.measure(attempt)
            track.is_slow = rate_bps is not None and rate_bps < self._min_bps
            if rate_bps is None:
                continue
            if not track.is_slow:
                self._clear(attempt.host)
            elif attempt.may_end and _is_worth_a_request(attempt, rate_bps):
                self._judge(attempt, rate_bps, ruling)
        return ruling

    def forgive(self) -> None:
        """Begin all windows anew, as our own process stood still."""
        self._tracks.clear()

    def _judge(self, attempt: Measured, rate_bps: float, ruling: RateRuling) -> None:
        entry_id, host = attempt.entry_id, attempt.host
        cuts = self._cuts.get(entry_id, 0)
        if cuts > FRESH or host in self._slow_hosts:
            return
        in_vain = self._in_vain[host] = self._in_vain.get(host, 0) + (cuts > 0)
        self._cuts[entry_id] = cuts + 1
        if in_vain >= MOST_IN_VAIN:
            self._slow_hosts.add(host)
            ruling.waived.append(Waived(None, host, in_vain))
        elif cuts == FRESH:
            ruling.waived.append(Waived(attempt.key, host, FRESH))
        else:
            del self._tracks[attempt.key]
            ruling.too_slow.append(TooSlow(attempt.key, rate_bps))

    def _drop_ended(self, attempts: dict[int, Measured]) -> None:
        """Forget attempts that are over. One on a fresh connection that was not cancelled was fast enough."""
        for key, track in list(self._tracks.items()):
            attempt = attempts.get(key)
            if attempt is not None and attempt.start_s == track.start_s:
                continue
            del self._tracks[key]
            if track.entry_id in self._cuts and not track.is_slow:
                self._clear(track.host)

    def _clear(self, host: str) -> None:
        """Note that the host has given a connection that is fast enough."""
        self._in_vain.pop(host, None)
        self._slow_hosts.discard(host)


def _is_worth_a_request(attempt: Measured, rate_bps: float) -> bool:
    """Whether the rest takes longer than the window in which a fresh attempt would be measured."""
    return attempt.left_bytes is None or attempt.left_bytes > rate_bps * WINDOW_S
