"""Decides what a worker does next: a new entry, a segment of an entry under way, or the end of its work.

An entry may start when its volume and one of its hosts bear one more. A worker for which nothing may start is
idle, and is woken when a slot becomes free. Idle workers help the entries under way.
"""

from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING

from cfetch.base.clock import RunClock
from cfetch.engine.fetcher import Fetcher
from cfetch.engine.hosts import Hosts
from cfetch.engine.idle_workers import IdleWorkers
from cfetch.engine.schedule import NEVER
from cfetch.engine.segments import Helper, Segments
from cfetch.engine.transfer import Transfer

if TYPE_CHECKING:
    from cfetch.engine.commitment import Commitment

SHORTEST_WAIT_S = 0.001  # the loop may wake slightly before the time that was asked for


class Dispatch:
    """Hands out transfers and helpers to workers, and takes them back."""

    def __init__(
        self,
        commitment: "Commitment",
        hosts: Hosts,
        fetcher: Fetcher,
        segments: Segments,
        idle: IdleWorkers,
        clock: RunClock,
        *,
        has_mirrors: bool,
    ) -> None:
        """``has_mirrors``: whether any entry may have mirrors."""
        self._commitment = commitment
        self._schedule = commitment.schedule
        self._judges_volumes = commitment.judges_volumes
        self._hosts = hosts
        self._fetcher = fetcher
        self._segments = segments
        self._idle = idle
        self._clock = clock
        self._helpers: deque[Helper] = deque()  # helpers that wait for a worker
        self._in_hand = 0  # entries that workers have in hand
        self._has_mirrors = has_mirrors

    @property
    def spare(self) -> int:
        """Idle workers that no helper waits for."""
        return self._idle.count - len(self._helpers)

    async def next(self) -> Transfer | Helper | None:
        """The next transfer or helper, with a slot at its host unless it has to fail; None at the end."""
        while True:
            if self._helpers:
                return self._helpers.popleft()
            now_s = self._clock.now()
            waiting = self._schedule.take(now_s, self._opens_s)
            if waiting is not None:
                transfer = self._take(waiting, now_s)
                if transfer is not None:
                    self._wake_for_more(now_s)
                    return transfer
                continue
            if self._is_over:
                self._idle.wake_one()  # each worker wakes the next one when the run is over
                return None
            wait_s = self._schedule.next_s() - now_s
            await self._idle.wait(None if wait_s == NEVER else max(wait_s, SHORTEST_WAIT_S))

    def leave(self, transfer: Transfer) -> None:
        """Note that a worker is done with the entry, for now or for good: its host has a free slot again.

        The worker then asks ``next`` for more work, and wakes another worker if more may start.
        """
        self._in_hand -= 1
        self._fetcher.leave(transfer, self._clock.now())
        self._commitment.leave(transfer)
        self._reopen(shut=self._has_mirrors)
        if transfer.moved:  # this worker may be about to end
            self._idle.wake_one()

    def leave_helper(self) -> None:
        """Note that a worker is done with a helper: the host has a free slot again."""
        self._reopen(shut=True)

    def _reopen(self, *, shut: bool) -> None:
        """Look at queues again, as a slot became free; ``shut``: entries of any queue may take it."""
        if self._hosts.opens_early:
            self._hosts.opens_early = False
            self._schedule.reopen_all()  # queues of that host wait for the stated time
        elif shut:
            self._schedule.reopen_shut()

    def _wake_for_more(self, now_s: float) -> None:
        """Wake a worker if more may start now, or if one has to wait until a later entry is due."""
        schedule = self._schedule
        if self._idle.count and (schedule.may_start(now_s, self._opens_s) or schedule.next_s() < NEVER):
            self._idle.wake_one()

    def put_helpers(self, helpers: Sequence[Helper]) -> None:
        """Let idle workers bring segments of entries that are under way."""
        self._helpers.extend(helpers)
        for _ in range(len(self._helpers)):
            self._idle.wake_one()

    def wake(self) -> None:
        """Wake all idle workers, as entries may start now or the run is over."""
        self._schedule.reopen_all()
        self._idle.wake_all()

    def _take(self, waiting: int | Transfer, now_s: float) -> Transfer | None:
        if isinstance(waiting, Transfer):
            transfer = waiting
            transfer.take_again(now_s)
            self._commitment.take(transfer)
        else:
            new = self._commitment.hand_out(waiting, now_s)
            if new is None:
                return None
            transfer = new
        self._in_hand += 1
        self._fetcher.take_slot(transfer, now_s)
        return transfer

    @property
    def _is_over(self) -> bool:
        """Whether no entry is left to start, and no attempt that an idle worker could help."""
        if self._segments.is_on and self._in_hand:
            return False
        return self._commitment.is_over

    def _opens_s(self, queue: int, waiting: int | Transfer, now_s: float) -> float:
        """When an entry may start at one of its sources, or must fail because all of them are given up."""
        if self._judges_volumes:
            volume_s = self._commitment.opens_s(queue, waiting, now_s)
            if volume_s > now_s:
                return volume_s
        if isinstance(waiting, Transfer):
            transfer = waiting
        else:
            host = self._commitment.host_of(queue)
            own_s = self._hosts.opens_s(host, now_s)
            if own_s <= now_s:
                return own_s
            if not self._has_mirrors:
                return own_s if self._hosts.given_up(host, now_s) is None else now_s
            transfer = self._commitment.transfer(waiting, now_s)
        opens_s = self._fetcher.opens_s(transfer, now_s)
        return now_s if opens_s > now_s and self._fetcher.given_up(transfer, now_s) is not None else opens_s
