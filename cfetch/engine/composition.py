"""Makes the parts of a pool and connects them; no other module knows how they depend on each other."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from cfetch.config.settings import Settings
from cfetch.engine.commitment import Commitment
from cfetch.engine.committing import make_commitment
from cfetch.engine.courier import Courier
from cfetch.engine.dispatch import Dispatch
from cfetch.engine.fetcher import Fetcher
from cfetch.engine.flights import Flights
from cfetch.engine.hosts import Hosts
from cfetch.engine.idle_workers import IdleWorkers
from cfetch.engine.ledger import Ledger
from cfetch.engine.monitor import Monitor
from cfetch.engine.segments import Segments
from cfetch.engine.stop_switch import StopSwitch
from cfetch.engine.surroundings import Surroundings
from cfetch.engine.widths import make_hosts
from cfetch.manifest.entries import Entries
from cfetch.storage.volume import Volume
from cfetch.straggler.knowledge import Knowledge
from cfetch.straggler.policy import Policy
from cfetch.wire.rate import make_limiter
from cfetch.wire.refresh import UrlRefresher
from cfetch.wire.retry import Limits
from cfetch.wire.transport import Transport


class Parts(NamedTuple):
    """The parts of one pool."""

    hosts: Hosts
    flights: Flights
    switch: StopSwitch
    commitment: Commitment
    segments: Segments
    fetcher: Fetcher
    dispatch: Dispatch
    courier: Courier
    monitor: Monitor


class Reactions(NamedTuple):
    """The pool's callbacks.

    ``on_stop``: the run is stopping. ``on_life``: a host has begun to bring bytes. ``on_check``: the monitor
    has looked at all attempts.
    """

    on_stop: Callable[[], None]
    on_life: Callable[[str], None]
    on_check: Callable[[], None]


def compose(
    entries: Entries,
    settings: Settings,
    volumes: Sequence[Volume],
    transport: Transport,
    policy: Policy,
    outside: Surroundings,
    reactions: Reactions,
    *,
    refresher: UrlRefresher | None,
    backwards: bool,
    known: Knowledge,
) -> Parts:
    """Make the parts of a pool.

    ``backwards``: the other end of the plan comes first. ``known``: what earlier runs know of hosts.
    """
    clock, emit = outside.clock, outside.emit
    limits = Limits(settings.max_attempts, settings.retry_budget)
    hosts = make_hosts(settings.widths, limits, known, splits=settings.most_segments > 1)
    idle = IdleWorkers()
    flights = Flights(policy, hosts, emit, jitter=outside.jitter)
    switch = StopSwitch(clock, emit, reactions.on_stop)
    ledger = Ledger(policy, flights, outside, stall_timeout_s=settings.stall_timeout)
    commitment = make_commitment(
        entries,
        settings,
        volumes,
        ledger,
        switch,
        idle,
        flights,
        outside,
        backwards=backwards,
    )
    limiter = make_limiter(settings.rates, clock)
    segments = Segments(
        policy, hosts, flights, commitment.schedule, clock, most=settings.most_segments, limiter=limiter
    )
    fetcher = Fetcher(
        settings,
        limits,
        hosts,
        policy,
        flights,
        segments,
        transport,
        outside,
        headers=entries.headers,
        refresher=refresher,
        limiter=limiter,
    )
    monitor = Monitor(
        policy,
        flights,
        outside.counts,
        commitment.schedule,
        settings,
        clock,
        emit,
        reactions.on_life,
        on_check=reactions.on_check,
        on_slow=commitment.note_straggler if commitment.judges_volumes else None,
        views=commitment.views,
    )
    dispatch = Dispatch(commitment, hosts, fetcher, segments, idle, clock, has_mirrors=entries.names_mirrors)
    courier = Courier(commitment, fetcher, policy, outside.counts, clock)
    return Parts(hosts, flights, switch, commitment, segments, fetcher, dispatch, courier, monitor)
