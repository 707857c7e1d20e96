"""How many attempts one host gets at a time: fewer while many are stragglers, more where that is faster.

Each change is an experiment, and it is taken back where it does not help. Pure.

Fewer (``Narrowing``): where so many of a host's attempts are stragglers that the host may be overloaded, it
gets half its places. That stands if the share of stragglers falls; then each healthy round adds one place,
until the host has all of them again or becomes slower.

More (``Search``, only where a maximum above the start is given): one step up is kept if the host's bytes a
second grow. Now and then one step down is tried, and kept if nothing is lost, because a network that became
faster by itself looks like a step up that helped. While the host is in trouble there is no search.
"""

import math
from collections import deque
from typing import NamedTuple

from cfetch.straggler.metrics import MIN_ELAPSED_S

ENTER = 0.3  # share of stragglers: so many connections may be slow by their nature, at any width
SIGMAS = 3.0  # of the binomial distribution above that share: 5 of 5, 8 of 10, 13 of 20; less is chance
LEAST_STRAGGLERS = 5  # fewer say nothing about a share
LEAVE = 0.2  # well below ``ENTER``, else the width would swing
HELPED = 0.5  # the share must fall to half, or half of the places were given up for nothing
LEAST_WINDOW = 20  # ended attempts; fewer say nothing about a share
SLOWER = 0.7  # of the files and of the bytes a second that came with fewer; sizes and chance alone do less
ROUNDS = 2  # ends for each place in a window: one of those that were under way, one under the new width
FLOOR = 2  # an attempt alone has no witness: it may be slow, or the network
FIRST_REST = 4  # windows without a further attempt at narrowing after one that did not help; doubles

STEP = 1.25  # a quarter more at most loses a period of a quarter's unfairness to others
WORTH = 0.2  # of what was added must show in the rate: 5 % for a full step; less is noise
PERIOD_S = 3.0  # a dozen reports; a connection's own swings even out over that
SETTLE_S = 1.0  # new connections shake hands and get to speed
ENDS_A_PLACE = 4  # a period has so many ends or
BYTES_A_PLACE = 4 << 20  # so many bytes for each place: fewer tell the latency, or luck
LONGEST_PERIOD_S = 60.0  # then it is taken as it is: the host is slow, and patience would end with the run
FIRST_HOLD_S, LONGEST_HOLD_S = 10.0, 300.0  # between trials that fail: 13 in the first hour


class Change(NamedTuple):
    """A new number of ``places`` in place of ``before``; ``reason`` is a clause for a person."""

    before: int
    places: int
    reason: str


class _Window(NamedTuple):
    """Attempts that ended under one width: how fast that went."""

    began_s: float
    bytes_before: int
    ends: deque[bool]

    def rates(self, now_s: float, received: int) -> tuple[float, float]:
        """Bytes and ends a second."""
        elapsed_s = max(now_s - self.began_s, MIN_ELAPSED_S)
        return (received - self.bytes_before) / elapsed_s, len(self.ends) / elapsed_s


class Narrowing:
    """The host's reduced number of places: ``limit``; None while there is no reason for one."""

    def __init__(self) -> None:
        self.limit: int | None = None
        self._window = _Window(0.0, 0, deque(maxlen=LEAST_WINDOW))
        self._before = 1.0  # the share of stragglers when the places were halved
        self._is_new = False  # the first window since then is not full
        self._rest = 0  # windows
        self._next_rest = FIRST_REST
        self._best: tuple[int, tuple[float, float]] | None = None  # places, and how fast that was
        self._hold_until_s = 0.0
        self._hold_s = FIRST_HOLD_S

    def note_end(self, straggler: bool, now_s: float, received: int, places: int, full: int) -> Change | None:
        """An attempt came to its end, under a width of ``places``; ``full``: without a limit."""
        ends = self._window.ends
        ends.append(straggler)
        window, stragglers = len(ends), sum(ends)
        bar = max(LEAST_STRAGGLERS - 1, ENTER * window + SIGMAS * math.sqrt(ENTER * (1 - ENTER) * window))
        if stragglers > bar and places > FLOOR and not self._rest and not self._is_new:
            self._before, self._is_new, self._best = stragglers / window, True, None
            reason = f"{stragglers} of the last {window} attempts were stragglers"
            return self._set(max(FLOOR, places // 2), places, full, reason, now_s, received)
        if window < (ends.maxlen or 0):
            return self.look(now_s, received, places)
        self._is_new = False
        if self.limit is not None:
            return self._judge(stragglers / window, now_s, received, places, full)
        if self._rest:
            self._rest -= 1
            self._begin(places, now_s, received)
        return None

    def look(self, now_s: float, received: int, places: int) -> Change | None:
        """Give places back with which it has become slower, without waiting for the window's end."""
        if self._best is None or places <= self._best[0]:
            return None
        elapsed_s = now_s - self._window.began_s
        due = SLOWER * elapsed_s * self._best[1][1]  # ends by now, if it were just not slower
        if due < len(self._window.ends) or due < 0.5 * LEAST_WINDOW or elapsed_s < PERIOD_S:
            return None
        if self._window.rates(now_s, received)[0] >= SLOWER * self._best[1][0]:
            return None
        self._hold_until_s = now_s + self._hold_s
        self._hold_s = min(2 * self._hold_s, LONGEST_HOLD_S)
        best, self._best = self._best[0], None
        self.limit = best
        self._begin(best, now_s, received)
        return Change(places, best, f"with {places} at a time it is slower")

    def disturb(self, now_s: float, received: int, places: int) -> None:
        """All attempts are slow just now: this window counts for nothing."""
        if self.limit is not None:
            self._begin(places, now_s, received)

    def _judge(self, share: float, now_s: float, received: int, places: int, full: int) -> Change | None:
        if share > HELPED * self._before:
            self._rest, self._next_rest = self._next_rest, 2 * self._next_rest
            reason = f"with fewer at a time {100 * share:.0f} % of the attempts were stragglers still"
            return self._set(None, places, full, reason, now_s, received)
        if share >= LEAVE or now_s < self._hold_until_s:
            self._begin(places, now_s, received)
            return None
        if self._best is None:
            self._best = places, self._window.rates(now_s, received)
        if places + 1 < full:
            self.limit = places + 1
            self._begin(self.limit, now_s, received)
            return None
        self._next_rest, self._hold_s = FIRST_REST, FIRST_HOLD_S
        return self._set(None, places, full, "hardly any attempt is a straggler any more", now_s, received)

    def _set(
        self, limit: int | None, places: int, full: int, reason: str, now_s: float, received: int
    ) -> Change:
        self.limit = limit
        if limit is None:
            self._best = None
        after = full if limit is None else min(limit, full)
        self._begin(after, now_s, received)
        return Change(places, after, reason)

    def _begin(self, places: int, now_s: float, received: int) -> None:
        ends: deque[bool] = deque(maxlen=max(LEAST_WINDOW, ROUNDS * places))
        self._window = _Window(now_s, received, ends)


class _Trial(NamedTuple):
    level: int
    rate_bps: float
    began_s: float


class Search:
    """The number of places that proved worth it or is on trial: ``level``, from ``start`` to ``most``."""

    def __init__(self, start: int, most: int) -> None:
        self.level = start
        self._start = start
        self._most = most
        self._trial: _Trial | None = None  # what it was before
        self._goes_down = False
        self._quiet_until_s = 0.0
        self._hold_s = FIRST_HOLD_S
        self._since: tuple[float, int] | None = None  # when the period began, and the bytes by then
        self._ends = 0

    def note_end(self) -> None:
        """An attempt completed."""
        self._ends += 1

    def disturb(self) -> None:
        """Forget the period so far: there was a straggler, or not all places were used."""
        self._since = None

    def give_up(self, now_s: float) -> None:
        """The trial is over without a result."""
        if self._trial is not None:
            self._end(now_s, self._trial.level, next_down=False)

    def look(self, now_s: float, received: int, running: int) -> Change | None:
        """``received`` bytes have come from the host since the run's start; ``running`` attempts now."""
        if running < 0.9 * self.level:  # a file ends just now, and the next has not begun
            self.disturb()
            if self._trial is not None and now_s - self._trial.began_s > LONGEST_PERIOD_S / 2:
                self.give_up(now_s)  # there is no more to fetch there
            return None
        if self._since is None:
            if now_s >= self._quiet_until_s:
                self._since, self._ends = (now_s, received), 0
            return None
        began_s, before = self._since
        elapsed_s, came = now_s - began_s, received - before
        enough = self._ends >= ENDS_A_PLACE * self.level or came >= BYTES_A_PLACE * self.level
        if elapsed_s < PERIOD_S or not (enough or elapsed_s > LONGEST_PERIOD_S):
            return None
        self._since = None
        return self._judge_rate(now_s, came / elapsed_s)

    def _judge_rate(self, now_s: float, rate_bps: float) -> Change | None:
        if self._trial is None:
            self._try(now_s, rate_bps)
            return None
        before, level = self._trial, self.level
        gain = rate_bps / before.rate_bps - 1 if before.rate_bps > 0 else 0.0
        if level > before.level:
            if gain < WORTH * (level / before.level - 1):
                self._end(now_s, before.level, next_down=True)
                return None
            reason = f"{100 * gain:.0f} % more bytes a second with {level} than with {before.level} at a time"
        else:
            if gain < -WORTH * (before.level / level - 1):
                self._end(now_s, before.level, next_down=False)
                return None
            reason = f"it is as fast with {level} as with {before.level} at a time"
        self._trial = None
        self._hold_s = FIRST_HOLD_S
        self._try(now_s, rate_bps)  # on in the same direction, from what was just measured
        return Change(before.level, level, reason)

    def _try(self, now_s: float, rate_bps: float) -> None:
        up = min(self._most, max(self.level + 1, int(self.level * STEP)))
        down = max(self._start, min(self.level - 1, int(self.level / STEP)))
        if self._goes_down or up == self.level:
            self._goes_down = down < self.level
        level = down if self._goes_down else up
        if level == self.level:
            return
        self._trial = _Trial(self.level, rate_bps, now_s)
        self.level = level
        self._quiet_until_s = now_s + SETTLE_S

    def _end(self, now_s: float, level: int, *, next_down: bool) -> None:
        self._trial, self._since = None, None
        self._goes_down = next_down
        self.level = level
        self._quiet_until_s = now_s + self._hold_s
        self._hold_s = min(2 * self._hold_s, LONGEST_HOLD_S)


class Width:
    """The places of one host: from ``start`` up to ``most``, or down to very few."""

    def __init__(self, start: int, most: int) -> None:
        self._start = start
        self._received = 0  # bytes when the host was last looked at
        self._narrowing = Narrowing()
        self._search = Search(start, most) if most > start else None

    @property
    def places(self) -> int:
        """Attempts that may be under way."""
        full, limit = self._full, self._narrowing.limit
        return full if limit is None else min(limit, full)

    @property
    def _full(self) -> int:
        return self._start if self._search is None else self._search.level

    def note_end(self, now_s: float, *, straggler: bool) -> Change | None:
        """Note an attempt that completed or was a straggler; other ends say nothing about the width."""
        if self._search is not None:
            if straggler:
                self._search.disturb()
            else:
                self._search.note_end()
        return self._narrowing.note_end(straggler, now_s, self._received, self.places, self._full)

    def look(self, now_s: float, received: int, running: int, *, calm: bool) -> Change | None:
        """Look at the host a few times a second. Not ``calm``: the host throttles, or all attempts are slow.

        ``received``: bytes that have come from the host since the run's start.
        """
        self._received = received
        narrowing, search = self._narrowing, self._search
        if not calm:
            narrowing.disturb(now_s, received, self.places)
        if search is not None and (not calm or narrowing.limit is not None):
            search.disturb()
            search.give_up(now_s)
        elif search is not None:
            return search.look(now_s, received, running)
        return narrowing.look(now_s, received, self.places) if calm else None
