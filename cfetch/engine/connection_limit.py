"""Learns how many attempts at once a host bears that resets all further connections of one client. Pure.

A refusal is a failure without a byte and without a status, while the host serves attempts that began before
it. One alone says nothing: networks lose connections. So refusals are weighed against files that came, as
``wire/retry.py`` weighs 503s; once they prevail, the limit is what was under way beside the refused. Later
one more is tried now and then, and if that is refused, the limit is as before, and the next try is later.
Where a hub leases the host to several processes, the lease says how many more are tried, and when.
"""

from math import inf

from cfetch.base.backoff import double

PREVAILS = 5  # refusals, each file that comes taking off SERVED_WORTH
SERVED_WORTH = 0.365  # as in wire/retry.py
FIRST_S = 5.0  # until more are tried; doubled when that was refused
LONGEST_S = 60.0


class ConnectionLimit:
    """The limit of one host; ``slots`` is infinite until there is one.

    ``is_in_use``: whether there was a refusal; until then the other methods change nothing.
    """

    __slots__ = (
        "_low",
        "_pause_s",
        "_pending",
        "_proven",
        "_refused_s",
        "_score",
        "_step",
        "_tries_s",
        "change",
        "is_in_use",
        "slots",
    )

    def __init__(self) -> None:
        self.slots = inf
        self.is_in_use = False
        self.change: tuple[float, int] | None = None  # the last one that is no trial; who uses it clears it
        self._proven = inf
        self._score = 0.0
        self._low = inf
        self._pending = 0
        self._refused_s = inf  # when the first of the pending refusals came
        self._tries_s = inf
        self._pause_s = FIRST_S
        self._step = 1

    def note_refusal(self, now_s: float, others: int, being_served: int) -> None:
        """Note a refusal, with ``others`` under way; ``being_served``: of these, those that bring bytes."""
        if not (others or being_served):
            return  # nothing was served beside it
        self.is_in_use = True
        self._low = min(self._low, max(1, others, being_served))
        self._refused_s = min(self._refused_s, now_s)
        self._pending += 1
        if being_served:
            self._confirm(now_s)

    def note_file(self, now_s: float, started_s: float) -> None:
        """Note that a whole file has come; refusals since it was begun were no outage."""
        if self._pending and started_s <= self._refused_s:
            self._confirm(now_s)
        self._forget_pending()
        self._score = max(0.0, self._score - SERVED_WORTH)
        if not self._score:
            self._low = inf

    def set(self, slots: int, now_s: float) -> None:
        """Set the limit to what the host has just served while all others failed."""
        self.is_in_use = True
        before, self.slots = self.slots, max(1, min(self.slots, slots))
        self._proven = self.slots
        if self.slots < before:
            self.change = before, int(self.slots)
        self._tries_s, self._step = now_s + self._pause_s, 1
        self._score, self._low = 0.0, inf
        self._forget_pending()

    def raise_if_due(self, now_s: float, *, is_leased: bool = False) -> None:
        """Try more when it is time: one, then two, four more while none is refused.

        ``is_leased``: the host's slots for all processes are counted elsewhere, and the lease is the limit.
        """
        if now_s >= self._tries_s:
            if self.slots > self._proven:
                self.change = self._proven, int(self.slots)
            self._proven = self.slots
            if is_leased:
                self.slots = self._proven = self._tries_s = inf
                return
            self.slots += self._step
            self._step *= 2
            self._tries_s = now_s + self._pause_s

    def _confirm(self, now_s: float) -> None:
        self._score += self._pending
        if self.slots > self._proven:
            self._pause_s = double(self._pause_s, LONGEST_S)
            self.set(int(self._proven), now_s)
        elif self._score >= PREVAILS:
            self.set(int(self._low), now_s)
        self._forget_pending()

    def _forget_pending(self) -> None:
        self._pending, self._refused_s = 0, inf
