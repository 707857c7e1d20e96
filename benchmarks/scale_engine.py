"""A Spark job on up to a thousand executors in virtual time, with the real engine in each task.

    python benchmarks/scale_engine.py [--files 100000] [--executors 50] [--seed 0] [--json FILE]
    python benchmarks/scale_engine.py --files 1000000 --executors 1000    (hours of processor time, 10 GB)

``scale_simulation.py`` models the attempts of a task; here they are those of ``cfetch download``: pool,
default policy with its help by ranges, back-off, host limits, hub and leases. Modelled are the network,
Spark, and the common directory:

- each executor has one network card, shared by its tasks; a slow executor has a tenth of it, and ten times
  the latency;
- a host answers 429 (Retry-After: 1) to requests beyond the number that it bears at a time;
- Spark launches so many tasks a second, copies tasks (``spark.speculation.*``), and begins those of a lost
  executor again; files with their final name stay.

Not modelled: processor time, flushes, loss of packets, the network between executors and directory. All
figures are against the ideal: every connection, or every card, busy until all is there. Equal seeds give
equal results.
"""

import argparse
import asyncio
import gc
import json
import multiprocessing
import random
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import partial
from math import inf
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scale_model import BACK_S, MULTIPLIER, QUANTILE, TASK_S, YOUNGEST_S
from scale_world import Job, World, clean, ideal_s, job_of

from cfetch.base.clock import RunClock
from cfetch.base.config.settings import Settings
from cfetch.base.config.straggler import StragglerConfig
from cfetch.base.events import EntryFinished, Event, StragglerCancelled
from cfetch.base.secret import SecretUrl
from cfetch.base.virtual_clock import VirtualClock, run_virtual
from cfetch.engine.pool import Pool
from cfetch.engine.pool_inputs import PoolInputs
from cfetch.manifest.entry import Entry, SafePath
from cfetch.manifest.fields import Headers
from cfetch.plugins.lab.bench.faults import Fault
from cfetch.plugins.lab.bench.network import HostShare, NetworkChange, NetworkModel, Slow
from cfetch.plugins.lab.bench.simulation import exchange
from cfetch.plugins.lab.bench.simulation.connections import SimConnection
from cfetch.plugins.lab.bench.simulation.exchange import SimExchange
from cfetch.plugins.lab.bench.simulation.transport import SimTransport
from cfetch.plugins.lab.bench.simulation.volume import SimVolume
from cfetch.show.counts import LiveCounts
from cfetch.storage.volume_values import Standing
from cfetch.straggler.baseline import RunningQuantile
from cfetch.tasks.hub.client import BeatMaker, LeasedPool
from cfetch.tasks.hub.messages import EVERY_S, TaskBeat
from cfetch.tasks.hub.registry import TaskRegistry
from cfetch.tasks.shares.task import LOOK_S, MOST_SHOWN, SHOWN

HOSTS = 200
QUANTUM_S = 0.25  # between two reads of a reply; the finer pieces of other simulations would take days here
REFUSED = Fault(kind="status", status=429, retry_after_s=1, first=0)
COLUMNS = {
    "cancelled": "cancelled",
    "refused": "429s",
    "at_host": "most at a host",
    "copies": "copies",
    "lost": "lost executors",
    "twice": "fetched twice",
    "failed": "failed",
}


class Rules(NamedTuple):
    """The measures that are taken: ``policy``: the default one of cfetch; without it nothing is cancelled."""

    policy: bool = True
    speculation: bool = True
    hub: bool = True


ROWS: dict[str, tuple[bool, Rules]] = {  # whether the world is clean
    "a clean world": (True, Rules()),
    "none": (False, Rules(policy=False, speculation=False, hub=False)),
    "policy": (False, Rules(speculation=False, hub=False)),
    "policy and speculation": (False, Rules(hub=False)),
    "policy, speculation, hub": (False, Rules()),
}


class ShareEntries:
    """The ``Entries`` of one share: places in the job's arrays, entries made on demand."""

    headers: Headers = ()
    batch_of = None
    names_mirrors = False

    def __init__(self, job: Job, share: int) -> None:
        self._indexes = job.order[job.starts[share] : job.starts[share + 1]].tolist()
        hosts = job.host_of[self._indexes].tolist()
        numbers: dict[int, int] = {}
        self.host_of: Sequence[int] = [numbers.setdefault(host, len(numbers)) for host in hosts]
        self.hosts = tuple(map(str, numbers))
        self.sizes: Sequence[int] = job.sizes[self._indexes].tolist()

    def __len__(self) -> int:
        return len(self._indexes)

    def block(self, first: int, end: int) -> list[Entry]:
        """Make some entries of the share."""
        return [self.entry(index) for index in range(first, min(end, len(self)))]

    def entry(self, index: int) -> Entry:
        """Make the entry at a place in the share."""
        number = self._indexes[index]
        url = SecretUrl(f"http://{self.hosts[self.host_of[index]]}/{number}")
        return Entry(id=number, url=url, path=SafePath(f"f{number}"), size_bytes=self.sizes[index])


class Crowds:
    """The requests that each host serves at a time. ``bears``: so many; more get 429."""

    def __init__(self, hosts: int, bears: float) -> None:
        self.bears = bears
        self.served = [0] * hosts
        self.most = self.refused = 0


class CardTransport(SimTransport):
    """The connections of one executor, which share its network card, to hosts that all executors share."""

    def __init__(self, crowds: Crowds, network: NetworkModel, seed: int, sizes: Any, clock: RunClock) -> None:  # noqa: ANN401
        super().__init__(network, seed, sizes, clock=clock)
        self._crowds = crowds
        self._served: set[SimConnection] = set()

    async def ask(self, connection: SimConnection, index: int, headers: Mapping[str, str]) -> SimExchange:
        """Ask the host, which may refuse."""
        crowds, host = self._crowds, connection.host
        if crowds.served[host] >= crowds.bears:
            crowds.refused += 1
            self._faults = {index: REFUSED}
        else:
            self._faults = {}
            crowds.served[host] += 1
            crowds.most = max(crowds.most, crowds.served[host])
            self._served.add(connection)
        try:
            return await super().ask(connection, index, headers)
        finally:
            self.forget(asyncio.current_task())  # its traits are asked for by no one here

    def over(self, connection: SimConnection) -> None:
        """Note the end of a reply."""
        self._leave(connection)
        super().over(connection)

    def close_connection(self, connection: SimConnection) -> None:
        """Note the end of a connection."""
        self._leave(connection)
        super().close_connection(connection)

    def _leave(self, connection: SimConnection) -> None:
        if connection in self._served:
            self._served.discard(connection)
            self._crowds.served[connection.host] -= 1


class SharedVolume(SimVolume):
    """The directory that all executors share: files that stand are not fetched again."""

    def __init__(self, stands: bytearray) -> None:
        super().__init__("shared")
        self._stands = stands

    def has_nothing_of(self, entry: Entry) -> bool:
        """Whether no task has brought the file."""
        return not self._stands[entry.id]

    async def verify_existing(self, entry: Entry) -> Standing | None:
        """The file, if it is there."""
        return Standing("size") if self._stands[entry.id] else None


class Copy:
    """One attempt at a share: a task of Spark, on an executor."""

    def __init__(self, cluster: "Cluster", share: int, executor: int) -> None:
        self.cluster, self.share, self.executor = cluster, share, executor
        self.number = cluster.launched
        self.began_s = cluster.clock.now()
        self.counts = LiveCounts()
        self.pool: Pool | None = None
        self.task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        cluster, world, rules = self.cluster, self.cluster.world, self.cluster.rules
        await asyncio.sleep(TASK_S)
        entries = ShareEntries(cluster.job, self.share)
        who = TaskBeat(task=self.number, executor=str(self.executor))
        shown = min(MOST_SHOWN, max(2, SHOWN // world.tasks))
        beats = BeatMaker(who, shown=shown, now_s=cluster.clock.now)
        dice = random.Random(f"{world.seed} {self.number}")

        def emit(event: Event) -> None:
            beats(event)
            self.counts(event)
            cluster.note(event)

        attempt = cluster.attempts[self.share]
        cluster.attempts[self.share] += 1
        self.pool = Pool(
            entries,
            Settings(
                concurrency=world.concurrency, max_concurrency=world.concurrency, mitigation=rules.policy
            ),
            [SharedVolume(cluster.stands)],
            cluster.transports[self.executor],
            PoolInputs(
                instant="simulated",
                clock=cluster.clock,
                jitter=dice.random,
                emit=emit,
                counts=self.counts,
            ),
            backwards=attempt > 0,
        )
        talking = asyncio.create_task(self._talk(beats, LeasedPool(self.pool, entries.hosts, None)))
        try:
            await self.pool.run()
        finally:
            talking.cancel()
            if cluster.rules.hub:
                cluster.registry.answer(beats.make_beat({}, over=True), cluster.clock.now())
        if self.counts.ended.settled == len(entries):
            cluster.end_share(self)

    async def _talk(self, beats: BeatMaker, pool: LeasedPool) -> None:
        """Beat once a second, as ``HubLine`` does."""
        while self.cluster.rules.hub:
            pool.obey(self.cluster.registry.answer(beats.make_beat(pool.demands()), self.cluster.clock.now()))
            await asyncio.sleep(EVERY_S)


class Cluster:
    """One run: the driver and its executors. Make it inside the virtual loop."""

    def __init__(self, world: World, rules: Rules, job: Job, bears: float) -> None:
        self.world, self.rules, self.job = world, rules, job
        self.clock = RunClock(VirtualClock())
        self.registry = TaskRegistry(StragglerConfig(), None)
        self.crowds = Crowds(world.hosts, bears)
        self.stands = bytearray(world.files)
        self.end_s = np.full(world.files, inf)
        self.fetched = np.zeros(world.files, np.int8)
        self.cancelled = self.failed = self.copies = self.lost = self.launched = 0
        dice = np.random.default_rng([world.seed, 2])
        many = round(world.executors * world.slow_executors)
        slow = set(dice.choice(world.executors, many, replace=False).tolist())
        self.transports = [
            CardTransport(
                self.crowds,
                self._network(executor in slow),
                world.seed * 10_000 + executor,
                job.sizes,
                self.clock,
            )
            for executor in range(world.executors)
        ]
        shares = len(job.cut.cost_s)
        self.attempts = [0] * shares
        self._left = shares
        self._pending: deque[int] = deque(range(shares))
        self._doubles: deque[int] = deque()
        self._doubled = bytearray(shares)
        self._over = bytearray(shares)
        self._running: dict[int, list[Copy]] = {}
        self._free = deque(e for _ in range(world.slots) for e in range(world.executors))
        self._down: set[int] = set()
        self._durations = RunningQuantile()
        self._finished = asyncio.Event()
        self._wake = asyncio.Event()
        lost = dice.poisson(world.lost_an_hour * world.executors * 1.5 * job.ideal_s / 3600)
        for at_s in dice.uniform(0, 1.5 * job.ideal_s, lost).tolist():
            executor = int(dice.integers(world.executors))
            asyncio.get_running_loop().call_later(at_s, self._lose, executor)

    def _network(self, is_slow: bool) -> NetworkModel:
        world = self.world
        slow = Slow(fraction=world.slow_connections, rate_bps=world.connection_bps / world.slow_connection_by)
        return NetworkModel(
            latency_s=world.latency_s,
            rate_bps=world.connection_bps,
            rate_sigma=world.spread,
            link_bps=world.task_bps * world.slots,
            hosts=tuple(HostShare() for _ in range(world.hosts)),
            slow=slow if world.slow_connections else None,
            changes=(NetworkChange(at_s=0.0, factor=world.slow_executor_by),) if is_slow else (),
        )

    async def run(self) -> dict[str, Any]:
        """Run until every share has its receipt."""
        beside = [asyncio.create_task(self._launch_all())]
        if self.rules.speculation:
            beside.append(asyncio.create_task(self._speculate()))
        await self._finished.wait()
        makespan_s, ideal = self.clock.now(), self.job.ideal_s
        copies = [copy.task for running in self._running.values() for copy in running]
        for task in (*beside, *copies):
            task.cancel()
        await asyncio.gather(*beside, *copies, return_exceptions=True)
        return {
            "makespan": round(makespan_s / ideal, 3),
            "half": round(float(np.quantile(self.end_s, 0.5)) / ideal, 3),
            "most": round(float(np.quantile(self.end_s, 0.99)) / ideal, 3),
            "cancelled": self.cancelled,
            "refused": self.crowds.refused,
            "at_host": self.crowds.most,
            "copies": self.copies,
            "lost": self.lost,
            "twice": int((self.fetched > 1).sum()),
            "failed": self.failed,
        }

    def note(self, event: Event) -> None:
        """Note what a task reports."""
        if isinstance(event, StragglerCancelled):
            self.cancelled += 1
        elif isinstance(event, EntryFinished) and event.record.status == "done":
            number = event.record.id
            self.fetched[number] += 1
            if not self.stands[number]:
                self.stands[number], self.end_s[number] = 1, self.clock.now()
        elif isinstance(event, EntryFinished) and event.record.status == "failed":
            self.failed += 1

    def end_share(self, copy: Copy) -> None:
        """Note that a share has its receipt: its other copies see it a moment later."""
        if self._over[copy.share]:
            return
        self._over[copy.share] = 1
        self._durations.add(self.clock.now() - copy.began_s)
        for other in self._running[copy.share]:
            if other is not copy and other.pool is not None:
                asyncio.get_running_loop().call_later(LOOK_S, other.pool.stop, "another copy has brought it")
        self._left -= 1
        if not self._left:
            self._finished.set()

    async def _launch_all(self) -> None:
        """One task at a time to a free slot; copies come after all others, as in Spark."""
        while True:
            share = self._pending.popleft() if self._free and self._pending else None
            if share is None and self._free and not self._pending:
                share = self._next_double()
            if share is None:
                self._wake.clear()
                await self._wake.wait()
                continue
            executor = self._free.popleft()
            self.launched += 1
            copy = Copy(self, share, executor)
            self._running.setdefault(share, []).append(copy)
            copy.task.add_done_callback(partial(self._end, copy))
            await asyncio.sleep(1 / self.world.launches_a_s)

    def _next_double(self) -> int | None:
        while self._doubles:
            share = self._doubles.popleft()
            running = self._running.get(share, ())
            if not self._over[share] and running:
                if running[0].executor == self._free[0]:
                    self._free.rotate(-1)
                self.copies += 1
                return share
        return None

    def _end(self, copy: Copy, _: asyncio.Task[None]) -> None:
        running = self._running[copy.share]
        running.remove(copy)
        if not running:
            del self._running[copy.share]
            if not self._over[copy.share]:  # it was lost, or a copy that saw an end
                self._doubled[copy.share] = 0
                self._pending.appendleft(copy.share)
        if not copy.task.cancelled() and (error := copy.task.exception()):
            raise error
        if copy.executor not in self._down:
            self._free.append(copy.executor)
        self._wake.set()

    async def _speculate(self) -> None:
        while True:
            await asyncio.sleep(1.0)
            median_s, shares = self._durations.value, len(self.attempts)
            if median_s is None or shares - self._left < max(int(QUANTILE * shares), 1):
                continue
            limit_s = max(MULTIPLIER * median_s, YOUNGEST_S)
            for share, running in self._running.items():
                old = self.clock.now() - running[0].began_s > limit_s
                if old and len(running) == 1 and not self._doubled[share]:
                    self._doubled[share] = 1
                    self._doubles.append(share)
            self._wake.set()

    def _lose(self, executor: int) -> None:
        """An executor dies; another stands in its place a minute later."""
        if executor in self._down:
            return
        self.lost += 1
        self._down.add(executor)
        self._free = deque(one for one in self._free if one != executor)
        for running in list(self._running.values()):
            for copy in running:
                if copy.executor == executor:
                    copy.task.cancel()
        asyncio.get_running_loop().call_later(BACK_S, self._return, executor)

    def _return(self, executor: int) -> None:
        self._down.discard(executor)
        self._free.extend([executor] * self.world.slots)
        self._wake.set()


def find_ideal_s(world: World, job: Job, bears: float) -> float:
    """The least time: all connections or all cards are busy, or the busiest host serves all that it bears."""
    files = np.bincount(job.host_of, minlength=world.hosts)
    received = np.bincount(job.host_of, weights=job.sizes, minlength=world.hosts)
    hosts_s = (files * world.latency_s + received / world.connection_bps) / bears
    return max(ideal_s(world, job.sizes), float(hosts_s.max()))


@contextmanager
def _coarse_time() -> Iterator[None]:
    """Read replies, and collect garbage, more seldom; other simulations of this process are left alone."""
    quantum_s, threshold = exchange.QUANTUM_S, gc.get_threshold()
    exchange.QUANTUM_S = QUANTUM_S
    gc.set_threshold(200_000, 20, 100)
    try:
        yield
    finally:
        exchange.QUANTUM_S = quantum_s
        gc.set_threshold(*threshold)


def play(name: str, world: World, bears: float) -> dict[str, Any]:
    """One row of the table."""
    is_clean, rules = ROWS[name]
    world = clean(world) if is_clean else world
    job = job_of(world)
    began_s = time.process_time()

    async def run() -> dict[str, Any]:
        return await Cluster(world, rules, job._replace(ideal_s=find_ideal_s(world, job, bears)), bears).run()

    with _coarse_time():
        played = run_virtual(run())
    return {"name": name, **played, "cpu_s": round(time.process_time() - began_s)}


def main() -> None:
    """Play all rows, on as many processors as are stated, and print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--files", type=int, default=100_000)
    parser.add_argument("--executors", type=int, default=50)
    parser.add_argument("--bears", type=float, default=None, help="requests that a host serves at a time")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rows", nargs="*", default=list(ROWS), choices=list(ROWS))
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--json", type=Path, default=None)
    args = parser.parse_args()
    world = World(files=args.files, executors=args.executors, seed=args.seed, hosts=HOSTS)
    bears = args.bears or 4 * args.executors
    job = job_of(world)
    ideal = find_ideal_s(world, job, bears)
    print(
        f"{world.files:,} files, {job.sizes.sum() / 1e12:.2f} TB, on {world.executors:,} executors,"
        f" {len(job.cut.cost_s):,} shares; each of {HOSTS} hosts bears {bears:g} requests at a time;"
        f" the ideal is {ideal:.0f} s\n"
    )
    titles = ["rules", "makespan / ideal", "half", "99 %", *COLUMNS.values()]
    print(f"| {' | '.join(titles)} |\n|{'---|' * len(titles)}", flush=True)
    rows = []
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(args.workers, context) as pool:
        for row in pool.map(play, args.rows, [world] * len(args.rows), [bears] * len(args.rows)):
            rows.append(row)
            cells = [f"{row[key]:.2f}" for key in ("makespan", "half", "most")]
            cells += [f"{row[key]:,}" for key in COLUMNS]
            print(f"| {row['name']} | {' | '.join(cells)} |", flush=True)
    if args.json is not None:
        figures = {"world": world._asdict(), "bears": bears, "ideal_s": ideal, "rows": rows}
        args.json.write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
