"""A task's connection to the hub: it sends a beat each second, and its pool follows the orders.

Nothing depends on it. While the hub cannot be reached, the task has its own fixed limit for each host, judges
by its own files, and keeps trying to connect.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from types import MappingProxyType

import msgspec

from cfetch.base.backoff import double
from cfetch.base.config.wire import ALL_HOSTS, NO_LIMITS, RateLimits
from cfetch.base.events import EntryFinished, Event, HostPaused, Progress, WidthChanged
from cfetch.base.records import NOT_DECODED
from cfetch.engine.pool import Pool
from cfetch.manifest.entry import Entry
from cfetch.manifest.urls import host_of
from cfetch.show.counts import Counts
from cfetch.show.live.files_under_way import by_risk
from cfetch.straggler.attempt_figures import MIN_ELAPSED_S
from cfetch.straggler.merged import SpeedSample
from cfetch.tasks.hub.connection import HubConnection, connect
from cfetch.tasks.hub.leases import Demand
from cfetch.tasks.hub.messages import (
    EVERY_S,
    MOST_DEMANDS,
    MOST_ORDERS_BYTES,
    MOST_SAMPLES,
    SILENT_S,
    HubAddress,
    Orders,
    TaskBeat,
)

FIRST_ANSWER_S = 2.0  # the most time that a task with leased hosts waits for a hub it cannot reach
ANSWER_S = 5.0  # after this the task makes another connection; a hub that was reached is waited for so long
TICK_S = 0.25  # of such a wait: a process that stands still loses one tick, as it could have heard nothing
LAPSE_S = SILENT_S - 2.0  # a task gives up its leases before the hub gives them to others
LONGEST_PAUSE_S = 15.0
ALL_BPS = 1 << 50  # wanted of a rate by a task that had to wait for it
ROOM = 2  # times the rate that a task uses is its lease: it may use more before it has asked for more
LEAST_PART = 16  # the inverse: of its fixed part an idle task keeps so much, to begin with
NO_DEMANDS: Mapping[str, Demand] = MappingProxyType({})
FAIR_BYTES = 64 << 10  # a shorter rest of a resumed file shows the server's latency, not its speed


class BeatMaker:
    """Listens to the pool of a task and makes its beats. ``shown``: how many attempts a beat shows.

    ``now_s``: the clock of the pool's events.
    """

    def __init__(self, who: TaskBeat, *, shown: int, now_s: Callable[[], float]) -> None:
        self._who = who
        self._shown = shown
        self._now_s = now_s
        self._progress: Progress | None = None
        self._counts = Counts()
        self._finished = 0  # files since the last beat that could be sampled
        self._samples: list[SpeedSample] = []
        self._pauses: dict[str, float] = {}  # when they end, by host
        self._resetting: set[str] = set()
        self._failing: set[str] = set()

    def __call__(self, event: Event) -> None:
        """A listener of the pool."""
        if isinstance(event, Progress):
            self._progress = event
        elif isinstance(event, EntryFinished):
            self._counts.add(event.record)
            if event.record.status == "done":
                self._add_sample(event)
        elif isinstance(event, HostPaused) and event.is_failing and len(self._failing) < MOST_DEMANDS:
            self._failing.add(event.host)
        elif isinstance(event, HostPaused) and event.is_certain and len(self._pauses) < MOST_DEMANDS:
            self._pauses[event.host] = event.t_s + event.pause_s
        elif isinstance(event, WidthChanged) and event.is_refused and len(self._resetting) < MOST_DEMANDS:
            self._resetting.add(event.host)

    def make_beat(
        self, demands: Mapping[str, Demand], rates: Mapping[str, Demand] = NO_DEMANDS, *, over: bool = False
    ) -> TaskBeat:
        """Make the next beat: it has the samples since the last one, and the present state."""
        now_s, counts = self._now_s(), self._counts
        progress = None if over else self._progress
        active = [] if progress is None else progress.active
        whole = held_bytes = 0
        if progress is not None:  # some of that may have ended since
            ended = counts.settled - progress.done - progress.skipped - progress.failed
            whole = max(0, progress.whole - ended)
            held_bytes = max(0, progress.bytes_active + progress.bytes_done - counts.in_place_bytes)
        beat = msgspec.structs.replace(
            self._who,
            active=by_risk(active)[: self._shown],
            under_way=len(active),
            active_bytes=held_bytes,
            whole=whole,
            files=counts.settled,
            in_place=counts.in_place,
            size_bytes=counts.done_bytes,
            demands={host: demand for host, demand in demands.items() if any(demand)},
            rates=dict(rates),
            pauses={host: max(0.0, until_s - now_s) for host, until_s in self._pauses.items()},
            resetting=sorted(self._resetting),
            failing=sorted(self._failing),
            samples=self._samples,
            finished=self._finished,
            over=over,
        )
        self._samples, self._finished, self._pauses = [], 0, {}
        self._resetting, self._failing = set(), set()
        return beat

    def _add_sample(self, event: EntryFinished) -> None:
        """Keep the newest samples, if many files end between two beats."""
        record = event.record
        last = record.attempts[-1] if record.attempts else None
        if last is None or not last.bytes or (last.from_byte and last.bytes < FAIR_BYTES):
            return
        rate_bps = last.bytes / max(last.end_s - last.start_s, MIN_ELAPSED_S)
        sample = SpeedSample(last.mirror or record.host, last.bytes, rate_bps)
        if len(self._samples) < MOST_SAMPLES:
            self._samples.append(sample)
        else:
            self._samples[self._finished % MOST_SAMPLES] = sample
        self._finished += 1


class LeasedPool:
    """A pool that follows the hub's orders, or its own limits.

    ``hosts``: the task tells the hub of its connections to these; ``own_limit``: connections to a host that
    the task may have without the hub; None: there is no stated limit, and only hosts that have throttled are
    leased. ``own_rates``: the same for rates.
    """

    def __init__(
        self,
        pool: Pool,
        hosts: Collection[str],
        own_limit: int | None,
        own_rates: RateLimits = NO_LIMITS,
    ) -> None:
        self._pool = pool
        self._own_rates = {} if own_rates.total_bps is None else {ALL_HOSTS: own_rates.total_bps}
        if own_rates.per_host_bps is not None:
            self._own_rates |= dict.fromkeys(hosts, own_rates.per_host_bps)
        self._hosts = hosts
        self._own_limit = own_limit
        self._leases: dict[str, int] = {}

    def obey(self, orders: Orders) -> None:
        """Follow the orders of the hub."""
        if orders.stop:
            self._pool.stop("the run is stopping")
        if orders.answers:
            self._pool.use_median(orders.median_bps)
            self._pool.lease_rates(orders.rates)
            for host, pause_s in orders.pauses.items():
                self._pool.pause_host(host, pause_s)
            self._pool.trust_hosts(orders.alive)
            self.set_leases({host: lease for host, lease in orders.leases.items() if host in self._hosts})

    def set_leases(self, leases: dict[str, int]) -> None:
        """Use these leases; with a stated limit, a host that is not among them has none."""
        if self._own_limit is not None:
            leases = dict.fromkeys(self._hosts, 0) | leases
        if leases or self._leases:
            self._leases = leases
            self._pool.lease(leases, self._own_limit)

    def wait_for_orders(self) -> None:
        """Begin with nothing of that which the hub leases."""
        self.set_leases({})
        self._pool.lease_rates(dict.fromkeys(self._own_rates, 0))

    def go_alone(self) -> None:
        """Use the task's own limits, as the hub is not there or has long been silent."""
        self._pool.use_median(None)
        self._pool.lease_rates(self._own_rates)
        self.set_leases({} if self._own_limit is None else dict.fromkeys(self._hosts, self._own_limit))

    def demands(self) -> dict[str, Demand]:
        """The connections that the pool has and can use at each of its hosts."""
        demands = self._pool.demands(self._hosts)
        return {host: Demand(has, self._leases.get(host, 0), wants) for host, (has, wants) in demands.items()}

    def rate_demands(self) -> dict[str, Demand]:
        """The rates that the pool has, and those that it can use."""
        demands = {}
        for name, use in self._pool.measure_rates().items():
            if (own_bps := self._own_rates.get(name)) is not None:
                wants = ALL_BPS if use.is_short else max(own_bps // LEAST_PART, int(ROOM * use.read_bps))
                demands[name] = Demand(0, int(use.limit_bps), wants)
        return demands


class HubLine:
    """The connection of a task to the hub at ``address``; None: there is no hub."""

    def __init__(self, address: HubAddress | None, beats: BeatMaker, pool: LeasedPool) -> None:
        self._address = address
        self._beats = beats
        self._pool = pool
        self._was_heard = False
        self._pause_s = EVERY_S  # before the next connection
        self._lapse: asyncio.TimerHandle | None = None

    def begin(self) -> None:
        """Prepare the pool before it runs: at leased hosts it waits briefly for the first answer."""
        if self._address is None:
            self._pool.go_alone()
            return
        self._pool.wait_for_orders()
        self._wait(FIRST_ANSWER_S)

    async def keep(self) -> None:
        """Talk to the hub until cancelled; then send a last beat, so that others get the leases."""
        try:
            while self._address is not None:
                try:
                    await self._talk(self._address)
                except TimeoutError:  # the timer decides: perhaps this process stood still
                    pass
                except (OSError, EOFError, *NOT_DECODED):
                    if not self._was_heard:
                        self._pool.go_alone()
                await asyncio.sleep(self._pause_s)
                self._pause_s = double(self._pause_s, LONGEST_PAUSE_S)
        finally:
            if self._lapse is not None:
                self._lapse.cancel()

    async def _talk(self, address: HubAddress) -> None:
        """Use one connection, until it fails."""
        async with connect(address, within_s=ANSWER_S, on_reached=self._note_reached) as hub:
            try:
                await self._exchange(hub)
            except asyncio.CancelledError:
                hub.write(self._beats.make_beat(self._pool.demands(), over=True))
                raise

    def _note_reached(self) -> None:
        """The hub is there: a fixed part would come on top of what it leases to others."""
        if not self._was_heard:
            self._wait(ANSWER_S)

    async def _exchange(self, hub: HubConnection) -> None:
        """Send a beat, read its answer, repeat after a second; a stop may come at any time between."""
        loop, decoder = asyncio.get_running_loop(), msgspec.msgpack.Decoder(Orders)
        sent_s, due_s, answered = 0.0, loop.time(), True
        reading = loop.create_task(hub.read(MOST_ORDERS_BYTES))
        try:
            while True:
                if answered and loop.time() >= due_s:
                    sent_s, answered = loop.time(), False
                    due_s = sent_s + ANSWER_S
                    hub.write(self._beats.make_beat(self._pool.demands(), self._pool.rate_demands()))
                if not (await asyncio.wait({reading}, timeout=max(0.0, due_s - loop.time())))[0]:
                    if not answered:
                        raise TimeoutError
                    continue
                orders = decoder.decode(reading.result())
                reading = loop.create_task(hub.read(MOST_ORDERS_BYTES))
                self._pool.obey(orders)
                if orders.answers:
                    answered, due_s = True, sent_s + EVERY_S
                    self._note_answer(sent_s + LAPSE_S)
        finally:
            reading.cancel()
            with suppress(OSError, EOFError, asyncio.CancelledError):
                await reading

    def _note_answer(self, lapses_s: float) -> None:
        assert self._lapse is not None
        self._was_heard, self._pause_s = True, EVERY_S
        self._lapse.cancel()
        self._lapse = asyncio.get_running_loop().call_at(lapses_s, self._end_leases, lapses_s)

    def _end_leases(self, due_s: float) -> None:
        """Go alone, or, if this process stood still and others may have its leases, wait for new ones."""
        if asyncio.get_running_loop().time() - due_s < TICK_S:
            self._pool.go_alone()
        else:
            self._pool.wait_for_orders()
            self._wait(FIRST_ANSWER_S)

    def _wait(self, left_s: float) -> None:
        """Go alone if the hub does not answer for ``left_s``, in which this process runs."""
        if self._lapse is not None:
            self._lapse.cancel()
        self._lapse = asyncio.get_running_loop().call_later(TICK_S, self._tick, left_s - TICK_S)

    def _tick(self, left_s: float) -> None:
        if left_s > 0:
            self._wait(left_s)
        else:
            self._pool.go_alone()


def choose_leased_hosts(entries: Iterable[Entry]) -> frozenset[str]:
    """The hosts for which a task asks leases: those of most entries, with mirrors counted too."""
    counted: Counter[str] = Counter()
    for entry in entries:
        counted[host_of(entry.url.value)] += 1
        counted.update(mirror.host() for mirror in entry.mirrors)
    return frozenset(host for host, _ in counted.most_common(MOST_DEMANDS))
