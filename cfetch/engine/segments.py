"""Further streams of entries that are on their way: idle workers bring a part of what another has left.

The worker that has an entry in hand is its owner: it alone retries, verifies and publishes, and takes what is
missing until the file is whole. A further stream tries once. Whatever ends it, what it has not brought is
missing again. So an entry never fails by being helped, and while no slot is idle nothing of this happens.
"""

import asyncio
import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

from cfetch.clock import Clock
from cfetch.config.settings import Settings
from cfetch.engine.attempt import BreakOff, Running
from cfetch.engine.hosts import Hosts
from cfetch.engine.monitor import Monitor
from cfetch.engine.segment_split import Help, Stream, choose
from cfetch.engine.transfer import Job
from cfetch.errors import LocalFault
from cfetch.storage.held_ranges import Ranges, Stretch
from cfetch.straggler.policy import Policy

__all__ = ["Extra", "Streams"]

MOST_FAILURES = 3  # of further streams of one entry: then its server wants one at a time
BEGUN_BYTES = 64 << 10  # a server that sends crumbs of a range must not take the rest from one that sends all
YOUNG_S = 1.0  # an attempt that has brought nothing may still be connecting


class Extra(NamedTuple):
    """A further stream of ``job`` for the bytes of ``stretch``. It has a place at ``host``."""

    key: int
    job: Job
    stretch: Stretch
    host: str
    place_bytes: int
    is_hedge: bool


class Streams:
    """Who helps whom. ``total_bytes``: of the plan, for the budget of hedges."""

    def __init__(
        self,
        settings: Settings,
        policy: Policy,
        hosts: Hosts,
        monitor: Monitor,
        *,
        total_bytes: int,
        clock: Clock,
        origin_s: float,
        on_end: Callable[[Running, Job], None],
    ) -> None:
        """``on_end`` is told of an attempt that is ended here, at once: its task may end after its entry."""
        self._policy = policy
        self._hosts = hosts
        self._monitor = monitor
        self._clock = clock
        self._origin_s = origin_s
        self._on_end = on_end
        self._most = settings.segments
        self._hedge_bytes = int(settings.hedge_budget * total_bytes) if settings.hedge else 0
        is_limited = settings.limit_rate is not None or settings.limit_rate_per_host is not None
        self.is_on = (
            settings.is_adaptive
            and not is_limited  # then one stream is as fast as many
            and (self._most > 1 or self._hedge_bytes > 0)
        )
        self._leads: dict[int, tuple[Running, Job]] = {}
        self._extras: dict[int, Extra] = {}
        self._hedged: set[Stretch] = set()
        self._keys = 0

    def began(self, run: Running, job: Job) -> None:
        """An attempt is under way that may be helped."""
        if self.is_on:
            self._leads[run.key] = run, job

    def ended(self, run: Running) -> None:
        """It is over."""
        self._leads.pop(run.key, None)

    @property
    def helps_any(self) -> bool:
        """Whether there is anyone whom an idle worker may have to help soon."""
        return bool(self._leads)

    def assign(self, idle: int) -> list[Extra]:
        """What so many idle workers are to do; less than that, where it would not help."""
        now_s = self._now()
        found = (self._stream(run, job, now_s) for run, job in self._leads.values())
        streams = [
            one._replace(streams=max(one.streams, self._most - self._free(one.host))) for one in found if one
        ]
        if not streams:
            return []
        helps = choose(
            streams,
            idle=idle,
            fresh_s=self._policy.fresh_s,
            most_streams=self._most,
            hedge_bytes=self._hedge_bytes,
        )
        return [extra for help_ in helps for extra in self._carry_out(help_)]

    async def more(self, job: Job) -> bool:
        """Take what is missing of a file in ranges, for its owner; wait for the others where nothing is.

        False: every byte is here. Raises LocalFault: a further stream has met it.
        """
        ranges = job.part.ranges
        assert ranges is not None
        self._monitor.opened[job.entry.id] = ranges
        while not ranges.is_whole:
            if job.fault is not None:
                raise job.fault
            job.part.stretch = ranges.take_first()
            if job.part.stretch is not None:
                return True
            job.changed = asyncio.get_running_loop().create_future()
            await job.changed
        return False

    def over(self, extra: Extra, fault: LocalFault | None = None, *, failed: bool = False) -> None:
        """A further stream has ended: its owner may take what it has left."""
        job = extra.job
        self._extras.pop(extra.key, None)
        job.extras -= {extra.key}
        job.fault = job.fault or fault
        job.failed_extras += failed
        self._hosts.left(extra.host, self._now(), extra.place_bytes)
        if job.part.ranges is not None:
            job.part.ranges.give_back(extra.stretch)
        if job.changed is not None and not job.changed.done():
            job.changed.set_result(None)

    def dismiss(self, job: Job) -> None:
        """The owner leaves the entry, for now or for good: the further streams end and write no more."""
        self._monitor.opened.pop(job.entry.id, None)
        for key in job.extras:
            extra = self._extras[key]
            if job.part.ranges is not None:
                job.part.ranges.give_back(extra.stretch)
            if key in self._leads:
                self._end(*self._leads[key], BreakOff.DISMISSED)

    def _end(self, run: Running, job: Job, reason: BreakOff) -> None:
        run.break_off(reason)
        self._on_end(run, job)

    def _free(self, host: str) -> int:
        """Places at ``host`` that no entry is waiting for after a failed try."""
        return max(0, self._hosts.free(host) - self._monitor.put_back)

    def _stream(self, run: Running, job: Job, now_s: float) -> Stream | None:
        """The attempt as the choice sees it; None if it cannot be helped just now."""
        part, size_bytes = job.part, run.size_bytes
        if run.reason is not None or run.is_held or not run.resumable or size_bytes is None or job.moved:
            return None
        if job.failed_extras >= MOST_FAILURES or self._hosts.opens_s(job.host, now_s) > now_s:
            return None
        if part.ranges is None and not part.can_open_up(size_bytes):
            return None
        remaining_s = self._policy.remaining_s(run.key)
        if remaining_s is None:
            return None
        if math.isinf(remaining_s) and now_s - run.start_s < YOUNG_S:
            return None
        stretch = self._stretch_of(run, job)
        if stretch is None:
            left_bytes = planned_bytes = size_bytes - part.position
        else:
            left_bytes, planned_bytes = stretch.left_bytes, self._planned_end(stretch, job) - stretch.position
        if left_bytes <= 0:
            return None
        return Stream(
            key=run.key,
            host=job.host,
            left_bytes=planned_bytes,
            remaining_s=remaining_s * planned_bytes / left_bytes,
            streams=1 + len(job.extras),
            is_hedged=stretch in self._hedged,
        )

    def _stretch_of(self, run: Running, job: Job) -> Stretch | None:
        extra = self._extras.get(run.key)
        return job.part.stretch if extra is None else extra.stretch

    def _planned_end(self, stretch: Stretch, job: Job) -> int:
        """Where ``stretch`` will end when all who were sent for a part of it have begun."""
        starts = (self._extras[key].stretch.start for key in job.extras if not self._extras[key].is_hedge)
        return min((at for at in starts if stretch.position < at < stretch.end), default=stretch.end)

    def _carry_out(self, help_: Help) -> Iterator[Extra]:
        run, job = self._leads[help_.key]
        free = self._free(job.host)
        if not free:  # those that were helped before it took them
            return
        assert run.size_bytes is not None
        ranges = job.part.ranges or self._open(job, run.size_bytes)
        stretch = self._stretch_of(run, job)
        assert stretch is not None
        if help_.is_hedge:
            found = ranges.overlap(stretch)
            self._hedge_bytes -= found.left_bytes
            self._hedged |= {stretch, found}
            run.hedged = True
            yield self._extra(job, found, is_hedge=True)
            return
        at, end = stretch.position + help_.keeps_bytes, self._planned_end(stretch, job)
        if at >= end:  # another of its entry's streams was helped by that already
            return
        piece = -(-(end - at) // min(help_.fresh_streams, free))
        for cut in range(at, end, piece):
            yield self._extra(job, ranges.join(cut, min(cut + piece, end)), is_hedge=False)

    def _open(self, job: Job, size_bytes: int) -> Ranges:
        ranges = job.part.open_up(size_bytes)
        ranges.on_over = self._is_over
        ranges.on_cut = self._is_cut
        ranges.begun_bytes = BEGUN_BYTES
        self._monitor.opened[job.entry.id] = ranges
        return ranges

    def _is_over(self, stretch: Stretch) -> None:
        """Another stream has brought all that this one was to bring."""
        if (lead := self._lead_of(stretch)) is not None:
            self._end(*lead, BreakOff.OVERTAKEN)

    def _is_cut(self, stretch: Stretch) -> None:
        """Others have begun to bring what comes after its end."""
        if (lead := self._lead_of(stretch)) is not None:
            run, _ = lead
            run.to_byte = stretch.end
            self._policy.sized(run.key, stretch.end - run.from_byte)

    def _lead_of(self, stretch: Stretch) -> tuple[Running, Job] | None:
        return next((lead for lead in self._leads.values() if self._stretch_of(*lead) is stretch), None)

    def _extra(self, job: Job, stretch: Stretch, *, is_hedge: bool) -> Extra:
        self._keys -= 1
        extra = Extra(self._keys, job, stretch, job.host, stretch.left_bytes, is_hedge)
        self._extras[extra.key] = extra
        job.extras |= {extra.key}
        self._hosts.started(extra.host, extra.place_bytes)
        return extra

    def _now(self) -> float:
        return self._clock.monotonic() - self._origin_s
