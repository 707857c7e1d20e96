"""The worker pool: a fixed number of workers take entries in turn and bring each to its end.

A worker holds one entry at a time: ``dispatch.py`` hands it out, ``bring_entry.py`` brings it, the commitment
publishes it or ends it, ``entry_records.py`` writes its record; then the worker takes the next. An entry
whose next try has to wait goes back to the schedule, its file closed. So memory and descriptors are bounded
by ``--concurrency``. All workers, the monitor and the ticker live in one task group, so none of them is left
when ``run`` returns; ``side_tasks`` ends the run in good order if one of them fails.
"""

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from cfetch.base.config.settings import Settings
from cfetch.base.errors import LocalFault
from cfetch.engine.attempts_under_way import AttemptsUnderWay
from cfetch.engine.bring_entry import EntryBringer
from cfetch.engine.committing import make_commitment
from cfetch.engine.dispatch import Dispatch
from cfetch.engine.entry_records import EntryRecords
from cfetch.engine.fetcher import Fetcher
from cfetch.engine.hosts import Hosts
from cfetch.engine.idle_workers import IdleWorkers
from cfetch.engine.links import Links
from cfetch.engine.monitor import Monitor
from cfetch.engine.policies import guard_policy, make_policy
from cfetch.engine.pool_inputs import PoolInputs
from cfetch.engine.segments import Helper, Segments
from cfetch.engine.side_tasks import SideTasks
from cfetch.engine.stop_switch import StopSwitch
from cfetch.engine.widths import adjust_widths, estimate_left, make_hosts
from cfetch.straggler.knowledge import NOTHING, Knowledge, add_served, age_knowledge
from cfetch.wire.fresh_link import UrlRefresher
from cfetch.wire.retry import Limits
from cfetch.wire.transport import Transport

if TYPE_CHECKING:
    from cfetch.engine.commitment import Commitment
    from cfetch.manifest.entries import Entries
    from cfetch.storage.volume import Volume
    from cfetch.straggler.policy import Policy
    from cfetch.wire.rate import Use

PAUSE_SPREAD = 0.25  # share of a pause by which it is prolonged at most, so that pools do not ask all at once


class _Parts(NamedTuple):
    hosts: Hosts
    in_flight: AttemptsUnderWay
    switch: StopSwitch
    commitment: "Commitment"
    segments: Segments
    fetcher: Fetcher
    dispatch: Dispatch
    bringer: EntryBringer
    monitor: Monitor


class Pool:
    """The workers of one run of a plan.

    ``knowledge`` is what earlier runs have learned of hosts. ``policy`` None: the policy that the settings
    name. ``backwards``: the other end of the plan comes first. ``commit_by`` makes the commitment.
    """

    def __init__(
        self,
        entries: "Entries",
        settings: Settings,
        volumes: "Sequence[Volume]",
        transport: Transport,
        outside: PoolInputs,
        *,
        refresher: UrlRefresher | None = None,
        knowledge: Knowledge = NOTHING,
        policy: "Policy | None" = None,
        backwards: bool = False,
        commit_by: "Callable[..., Commitment]" = make_commitment,
    ) -> None:
        self._hosts_named = entries.hosts
        self._total_bytes = sum(entries.sizes)  # an unknown size is -1, which hardly changes the sum
        self._outside = outside
        self._transport = transport
        wall_s = outside.clock.wall()
        self._known = age_knowledge(knowledge, wall_s)
        made = policy or make_policy(settings, knowledge, wall_s)
        self._policy = guard_policy(made, settings.policy, outside.emit)
        self._commit_by = commit_by
        links = Links(refresher, entries.headers, outside.clock, outside.emit)
        self._parts = self._make_parts(entries, settings, volumes, links, backwards=backwards)
        most = settings.widths.most
        self._count = most if self._parts.segments.is_on else min(most, len(entries))
        self._workers: list[asyncio.Task[None]] = []

    def _make_parts(
        self,
        entries: "Entries",
        settings: Settings,
        volumes: "Sequence[Volume]",
        links: Links,
        *,
        backwards: bool,
    ) -> _Parts:
        """Make the parts and connect them; no other module knows how they depend on each other."""
        policy, outside, clock, emit = self._policy, self._outside, self._outside.clock, self._outside.emit
        limits = Limits(settings.max_attempts, settings.retry_budget)
        hosts = make_hosts(settings.widths, limits, self._known, splits=settings.most_segments > 1)
        idle = IdleWorkers()
        in_flight = AttemptsUnderWay(policy, hosts, emit, jitter=outside.jitter)
        switch = StopSwitch(clock, emit, self._break_off)
        entry_records = EntryRecords(policy, in_flight, outside)
        commitment = self._commit_by(
            entries,
            settings.placing,
            volumes,
            entry_records,
            switch,
            idle,
            in_flight,
            outside,
            backwards=backwards,
            bears=hosts.bears,
        )
        limiter = None
        if settings.rates.exist:
            from cfetch.wire.rate import make_limiter  # a run without limits has no limiter

            limiter = make_limiter(settings.rates, clock)
        segments = Segments(
            policy, hosts, in_flight, commitment.schedule, clock, most=settings.most_segments, limiter=limiter
        )
        fetcher = Fetcher(
            settings, hosts, policy, in_flight, segments, links, self._transport, outside, limiter
        )
        has_mirrors = entries.names_mirrors
        dispatch = Dispatch(commitment, hosts, fetcher, segments, idle, clock, has_mirrors=has_mirrors)
        bringer = EntryBringer(commitment, fetcher, policy, outside.counts, clock)
        monitor = Monitor(
            policy,
            in_flight,
            commitment,
            settings,
            outside,
            on_life=self._note_life,
            on_check=self._adjust_and_help,
        )
        return _Parts(hosts, in_flight, switch, commitment, segments, fetcher, dispatch, bringer, monitor)

    @property
    def fault(self) -> LocalFault | None:
        """The local fault with which the run ends: the first, if there are several."""
        return self._parts.switch.fault

    async def run(self) -> None:
        """Work until every entry has ended, or until ``stop``. A local fault is left in ``fault``.

        An error that nobody has foreseen stops the pool, whichever task it was in, and is raised at the end.
        """
        commitment, monitor, switch = self._parts.commitment, self._parts.monitor, self._parts.switch
        async with asyncio.TaskGroup() as group:
            tasks = SideTasks(group, switch)
            await commitment.open(tasks)
            watching = [tasks.create_task(monitor.tick())]
            await commitment.end_standing()
            self._workers = [tasks.create_task(self._work(), name=f"worker {n}") for n in range(self._count)]
            watching.append(tasks.create_task(monitor.watch()))
            if self._workers:
                await asyncio.wait(self._workers)
            await commitment.close()
            for task in watching:
                task.cancel()
        for step in (commitment.end, monitor.report, self._parts.fetcher.report):
            try:
                step()
            except Exception as bug:  # noqa: BLE001 - the first one is raised
                switch.break_down(bug)
        if switch.bug is not None:
            raise switch.bug

    def stop(self, reason: str, *, again: bool = False) -> None:
        """Start nothing new and close all that is under way; ``run`` returns soon after.

        ``again``: emit the reason even if the run is stopping for another one, as this is the true one.
        """
        self._parts.switch.stop(reason, again=again)

    def fail(self, fault: LocalFault) -> None:
        """End the run because the machine cannot go on."""
        self._parts.switch.fail(fault)

    def lease(self, leases: Mapping[str, int], others: int | None) -> None:
        """Call ``Hosts.lease``, for a pool that is one of several on the same hosts."""
        self._parts.hosts.lease(leases, others)
        self._transport.keep_at_most(leases)
        self._parts.dispatch.wake()

    def begin_with(self, slots: int) -> None:
        """Call ``Hosts.begin_with``, for a pool that is one of several on the same hosts."""
        self._parts.hosts.begin_with(slots)

    def demands(self, hosts: Collection[str]) -> dict[str, tuple[int, int]]:
        """Call ``Hosts.demand``, for a pool that shares its hosts with others."""
        count = self._parts.commitment.count_left
        left = {host: count(n) for n, host in enumerate(self._hosts_named) if host in hosts}
        return {host: self._parts.hosts.demand(host, left.get(host, 0)) for host in hosts}

    def lease_rates(self, rates_bps: Mapping[str, int]) -> None:
        """Call ``Limiter.lease``, for a pool that is one of several under the same limits."""
        if self._parts.fetcher.limiter is not None and rates_bps:
            self._parts.fetcher.limiter.lease(rates_bps)

    def measure_rates(self) -> "dict[str, Use]":
        """Call ``Limiter.measure``; nothing without limits."""
        limiter = self._parts.fetcher.limiter
        return {} if limiter is None else limiter.measure()

    def pause_host(self, host: str, pause_s: float) -> None:
        """Pause a host that has asked another pool of the run for this pause."""
        if host in self._hosts_named:
            spread_s = pause_s * PAUSE_SPREAD * self._outside.jitter()
            self._parts.hosts.join_pause(host, pause_s, self._outside.clock.now(), spread_s=spread_s)

    def trust_hosts(self, hosts: Collection[str]) -> None:
        """Do not give up these hosts, as they serve other pools of the run."""
        self._parts.hosts.trusted = hosts

    def use_median(self, median_bps: float | None) -> None:
        """Call ``Policy.use_median``."""
        self._policy.use_median(median_bps)

    def collect_knowledge(self) -> Knowledge:
        """Collect what this run has learned about its hosts, for the next run."""
        wall_s = self._outside.clock.wall()
        learned = self._policy.collect_knowledge(wall_s)
        return add_served(learned, self._parts.hosts.served, self._known, wall_s)

    async def _work(self) -> None:
        own_task = asyncio.current_task()
        while not self._parts.switch.is_stopping and (work := await self._parts.dispatch.next()) is not None:
            if isinstance(work, Helper):
                await self._parts.fetcher.help(work)
                self._parts.dispatch.leave_helper()
                continue
            work.task = own_task
            try:
                await self._parts.bringer.bring(work)
            except LocalFault as fault:
                self._parts.switch.fail(fault)
            finally:
                self._parts.dispatch.leave(work)
                work.task = None
            if work.moved:
                from cfetch.engine.cancellation import let_pass  # only batches on several volumes move

                await let_pass()

    def _adjust_and_help(self) -> None:
        """Adjust the widths of hosts, and let idle workers help attempts that have much left."""
        clock, emit = self._outside.clock, self._outside.emit
        is_calm = clock.now() >= self._parts.monitor.slow_until_s
        hosts, in_flight = self._parts.hosts, self._parts.in_flight
        waiting = self._parts.commitment.schedule.waiting
        left_bytes = estimate_left(self._total_bytes, self._outside.counts.ended, in_flight, waiting)
        if adjust_widths(
            hosts, in_flight, emit, clock, is_calm=is_calm, left_bytes=left_bytes, is_ending=not waiting
        ):
            self._parts.dispatch.wake()
        spare, segments = self._parts.dispatch.spare, self._parts.segments
        segments.end_trials()
        if spare > 0 and segments.helps_any and not self._parts.switch.is_stopping:
            try:
                self._parts.dispatch.put_helpers(segments.assign(spare))
            except LocalFault as fault:  # a part could not be opened up
                self._parts.switch.fail(fault)

    def _note_life(self, host: str) -> None:
        """Note that a host brings bytes: if it was in trouble, more attempts may start there at once."""
        if self._parts.hosts.note_life(host):
            self._parts.dispatch.wake()

    def _break_off(self) -> None:
        """Begin nothing new and cancel what is under way, as the run is stopping."""
        self._parts.commitment.stop()
        for worker in self._workers:
            worker.cancel()
