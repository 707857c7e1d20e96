"""A cluster of a thousand executors in virtual time: the model behind ``scale_simulation.py``.

Real are the cut (``shares``, ``sharers``), each task's schedule, limits for hosts and straggler detector,
and the registry of the hub with its leases and its merged baseline. Modelled are the wire, the executors, and
Spark: who gets a slot when, what is begun again, and when a copy is made
(``TaskSetManager.checkSpeculatableTasks``). One seed, one story.

The wire: of the connections of a task each has a weight, and gets the lesser of its share of ``task_bps``
by weight and weight x ``connection_bps``. So V, the bytes that a connection of weight 1 has brought since
the task began, tells when each of them is through: when V has grown by its bytes over its weight. A slow
connection is one of small weight; at a slow executor all is slower.
"""

import random
import time
from array import array
from collections import deque
from heapq import heappop, heappush
from math import ceil, inf

import numpy as np
from scale_world import Flow, Job, Result, Rules, World, most_at_once

from cfetch.base.config.straggler import StragglerConfig
from cfetch.base.events import ActiveAttempt
from cfetch.engine.hosts import Hosts
from cfetch.engine.schedule import Schedule
from cfetch.plugins.spark.job import SETTINGS
from cfetch.straggler.baseline import RunningQuantile
from cfetch.straggler.detector import MAX_MITIGATIONS, Detector
from cfetch.straggler.merged import SpeedSample
from cfetch.tasks.hub.leases import Demand
from cfetch.tasks.hub.messages import EVERY_S, MOST_SAMPLES, TaskBeat
from cfetch.tasks.hub.registry import TaskRegistry
from cfetch.tasks.shares.task import LOOK_S, MOST_SHOWN, SHOWN
from cfetch.wire.retry import Limits

__all__ = ["Cluster"]

CHECK_S = 0.5
SKIP_S = 0.0003  # a look at a file that stands: open, fstat, two extended attributes
TASK_S = 0.05  # of a Python worker for each task: benchmarks/README.md, shares.SHORTEST_S
BACK_S = 60.0  # until another executor stands in the place of a lost one
QUANTILE = float(SETTINGS["spark.speculation.quantile"])
MULTIPLIER = float(SETTINGS["spark.speculation.multiplier"])
YOUNGEST_S = float(SETTINGS["spark.speculation.minTaskRuntime"].removesuffix("s"))


class Batch:
    """Its entries, and what stands of them: the moment of each by place, infinity for none."""

    def __init__(self, cluster: "Cluster", number: int) -> None:
        job = cluster.job
        self.number = number
        self.entries = job.order[job.starts[number] : job.starts[number + 1]]
        self.sizes: list[int] = job.sizes[self.entries].tolist()
        self.hosts: list[int] = job.host_of[self.entries].tolist()
        self.weights: list[float] = cluster.first_weight[self.entries].tolist()
        self.stands_s = [inf] * len(self.entries)
        self.fetched = [0] * len(self.entries)
        self.copies: list[Copy] = []
        self.attempts = 0
        self.doubled = False
        self.over = False


class Copy:
    """A task: one attempt at a batch, on an executor. Runs from beat to beat."""

    def __init__(self, cluster: "Cluster", batch: Batch, executor: int, now_s: float) -> None:
        self.cluster = cluster
        self.batch = batch
        self.number = cluster.counter
        self.executor = executor
        self.began_s = now_s
        self.now_s = now_s + TASK_S
        self.end_s = inf
        self.gone = False
        self.first = batch.attempts == 0
        world = cluster.world
        self.by = world.slow_executor_by if executor in cluster.slow else 1.0
        self.dice = random.Random(f"{world.seed} {batch.number} {batch.attempts}")
        self.ended = 0
        self.at_once = 0
        self.active: dict[int, Flow] = {}
        self.flows: list[tuple[float, int, Flow]] = []
        self.waits: list[tuple[float, int, Flow]] = []  # for the first byte, or for a look at what stands
        self.counter = 0
        self.v = 0.0
        self.weight = 0.0
        self.speed = world.connection_bps / self.by
        self.samples: list[SpeedSample] = []
        self.finished = 0
        rules = cluster.rules
        self.config = StragglerConfig(enabled=rules.mitigation)
        self.detector = Detector(self.config)
        self.check_s = self.now_s + CHECK_S if rules.mitigation else inf
        self._plan(backwards=batch.attempts > 0)
        batch.attempts += 1
        batch.copies.append(self)
        self._fill()

    def _plan(self, *, backwards: bool) -> None:
        """The order of the work, as ``work.Listed`` makes it."""
        batch, world = self.batch, self.cluster.world
        self.places = list(range(len(batch.sizes)))
        numbers: dict[int, int] = {}
        self.queue_of = [numbers.setdefault(batch.hosts[place], len(numbers)) for place in self.places]
        self.queues = [str(host) for host in numbers]
        self.share = self.cluster.share(batch.number)
        self.hosts = None
        if self.share is not None:
            self.hosts = Hosts(min(world.concurrency, world.per_host or world.concurrency), Limits(5, 900.0))
            self.leases = dict.fromkeys(self.queues, 0 if self.cluster.rules.hub else self.share)
            self.hosts.lease(self.leases, self.share)
        self.schedule: Schedule[int] = Schedule(
            batch.sizes, self.queue_of, len(numbers), most_put_back=world.concurrency, backwards=backwards
        )

    def _opens_s(self, queue: int, _: int, now_s: float) -> float:
        return now_s if self.hosts is None else self.hosts.opens_s(self.queues[queue], now_s)

    def run(self, until_s: float) -> bool:
        """Go on until then, or to the end; whether that was it."""
        total, flows, waits = len(self.places), self.flows, self.waits
        while self.ended < total:
            while flows and flows[0][2].over:
                heappop(flows)
            at_s = self.check_s
            if waits and waits[0][0] < at_s:
                at_s = waits[0][0]
            through_s = self.now_s + (flows[0][0] - self.v) / self.speed if flows else inf
            if min(at_s, through_s) > until_s:
                self._pass(until_s)
                return False
            if through_s <= at_s:
                self.v, self.now_s = flows[0][0], max(self.now_s, through_s)
                self._through(heappop(flows)[2])
            else:
                self._pass(at_s)
                if at_s == self.check_s:
                    self._check()
                else:
                    self._reply(heappop(waits)[2])
        self.end_s = self.now_s
        return True

    def _pass(self, to_s: float) -> None:
        if to_s > self.now_s:
            self.v += self.speed * (to_s - self.now_s)
            self.now_s = to_s

    def _weigh(self, more: float) -> None:
        """One connection more or less."""
        self.weight += more
        world = self.cluster.world
        most = world.connection_bps
        if self.weight * most > world.task_bps:
            most = world.task_bps / self.weight
        self.speed = most / self.by

    def _fill(self) -> None:
        """Begin what may begin."""
        world, batch = self.cluster.world, self.batch
        while self.at_once < world.concurrency:
            index = self.schedule.take(self.now_s, self._opens_s)
            if index is None:
                return
            place = self.places[index]
            self.at_once += 1
            if self.hosts is not None:
                self.hosts.take_slot(self.queues[self.queue_of[index]])
            flow = Flow(index, batch.sizes[place], 0.0, 0, self.now_s)
            if batch.stands_s[place] <= self.now_s:
                flow.over = True
                self._wait(flow, SKIP_S * world.concurrency * self.by)
            else:
                flow.weight = batch.weights[place] if self.first else self.cluster.weight(self.dice)
                self._begin(flow)

    def _begin(self, flow: Flow) -> None:
        immune = flow.mitigations >= MAX_MITIGATIONS
        size = int(flow.left)
        self.detector.note_start(flow.place, size, self.now_s, immune=immune, mitigations=flow.mitigations)
        self.active[flow.place] = flow
        self._wait(flow, self.cluster.world.latency_s * self.by)

    def _wait(self, flow: Flow, seconds: float) -> None:
        self.counter += 1
        heappush(self.waits, (self.now_s + seconds, self.counter, flow))

    def _reply(self, flow: Flow) -> None:
        if self.active.get(flow.place) is flow:
            self.counter += 1
            flow.v_end = self.v + flow.left / flow.weight
            heappush(self.flows, (flow.v_end, self.counter, flow))
            self._weigh(flow.weight)
        elif flow.place not in self.active:  # it stood there
            self.cluster.skipped += 1
            self._leave(flow)

    def _through(self, flow: Flow) -> None:
        """The last byte."""
        self._weigh(-flow.weight)
        del self.active[flow.place]
        self.detector.note_finish(flow.place, int(flow.left), self.now_s)
        place = self.places[flow.place]
        self.finished += 1
        if self.cluster.rules.hub and len(self.samples) < MOST_SAMPLES:
            rate_bps = flow.left / (self.now_s - flow.start_s)
            self.samples.append(SpeedSample(str(self.batch.hosts[place]), int(flow.left), rate_bps))
        self.batch.fetched[place] += 1
        if self.batch.stands_s[place] == inf:
            self.batch.stands_s[place] = self.now_s
        self.cluster.watch(self.batch.hosts[place], flow.start_s, self.now_s)
        self._leave(flow)

    def _leave(self, flow: Flow) -> None:
        queue = self.queue_of[flow.place]
        if self.hosts is not None:
            self.hosts.free_slot(self.queues[queue], self.now_s)
        self.ended += 1
        self.at_once -= 1
        self.schedule.reopen(queue)
        self._fill()

    def _check(self) -> None:
        """Judge; then again when somebody may be too late. In between a check could find nobody."""
        for flagged in self.detector.check(self.now_s).stragglers:
            self._rescue(self.active[flagged.id])
        first_s = min((flow.start_s for flow in self.active.values()), default=self.now_s)
        late_s = first_s + self.config.padding_s - self.now_s
        self.check_s = self.now_s + CHECK_S * min(max(1, ceil(late_s / CHECK_S)), 9)

    def talk(self, registry: TaskRegistry, shown: int, *, over: bool = False) -> None:
        """A beat, and its orders, as ``hub.client.HubLine`` does it."""
        demands = {}
        if self.hosts is not None and not over:
            for queue, host in enumerate(self.queues):
                has, wants = self.hosts.demand(host, self.schedule.count_left(queue))
                if has or wants or self.leases[host]:
                    demands[host] = Demand(has, self.leases[host], wants)
        beat = TaskBeat(
            task=self.number,
            executor=str(self.executor),
            active=[] if over else [self._shown(flow) for flow in list(self.active.values())[:shown]],
            under_way=0 if over else len(self.active),
            demands=demands,
            samples=self.samples,
            finished=self.finished,
            over=over,
        )
        self.samples, self.finished = [], 0
        orders = registry.answer(beat, self.now_s)
        if over:
            return
        self.detector.use_median(orders.median_bps)
        if self.hosts is not None:
            self.leases = dict.fromkeys(self.queues, 0) | orders.leases
            self.hosts.lease(self.leases, self.share)
            self.schedule.reopen_shut()
            self._fill()

    def _shown(self, flow: Flow) -> ActiveAttempt:
        is_moving = flow.v_end < inf
        return ActiveAttempt(
            id=flow.place,
            path="",
            host=str(self.batch.hosts[self.places[flow.place]]),
            size_bytes=int(flow.left),
            bytes=int(flow.left - (flow.v_end - self.v) * flow.weight) if is_moving else 0,
            rate_bps=flow.weight * self.speed if is_moving else 0.0,
            elapsed_s=self.now_s - flow.start_s,
            expected_s=None,
            n=1 + flow.mitigations,
            state="ok",
        )

    def _rescue(self, flow: Flow) -> None:
        """On a new connection, from the byte reached."""
        left = flow.left
        if flow.v_end < inf:
            self._weigh(-flow.weight)
            left = min(left, max(0.0, (flow.v_end - self.v) * flow.weight))
        flow.over = True
        self.cluster.rescues += 1
        self.cluster.needless += flow.weight > 2 / self.cluster.world.slow_connection_by
        self.cluster.watch(self.batch.hosts[self.places[flow.place]], flow.start_s, self.now_s)
        weight = self.cluster.weight(self.dice)
        self._begin(Flow(flow.place, max(left, 1.0), weight, flow.mitigations + 1, self.now_s))


class Cluster:
    """A run: the driver, and what becomes of its tasks."""

    def __init__(self, world: World, rules: Rules, job: Job, *, watched: bool = False) -> None:
        self.world, self.rules, self.job = world, rules, job
        dice = np.random.default_rng([world.seed, 2])
        weights = np.exp(dice.normal(-(world.spread**2) / 2, world.spread, world.files))
        slow = dice.random(world.files) < world.slow_connections
        self.first_weight = np.where(slow, 1 / world.slow_connection_by, weights).astype(np.float32)
        many = round(world.executors * world.slow_executors)
        self.slow = set(dice.choice(world.executors, many, replace=False).tolist())
        self.rescues = self.needless = self.skipped = self.copies = self.lost = 0
        self.registry = TaskRegistry(StragglerConfig(), world.per_host) if rules.hub else None
        self.shown = min(MOST_SHOWN, max(2, SHOWN // world.tasks))
        self.beats, self.hub_s = 0, 0.0
        self.watched = watched
        self.intervals = (array("i"), array("d"), array("d"))
        self.end_s = np.full(world.files, inf)
        self.fetched = np.zeros(world.files, np.int8)
        self.task_s: dict[bool, list[float]] = {False: [], True: []}
        self.durations = RunningQuantile()
        self.finished = 0
        self.batches = len(job.cut.cost_s)
        self.pending: deque[int | Batch] = deque(range(self.batches))
        self.doubles: deque[Batch] = deque()
        self.free = deque(e for _ in range(world.slots) for e in range(world.executors))
        self.running: dict[Copy, None] = {}
        self.events: list[tuple[float, int, str, object]] = []
        self.counter = 0
        self.launched_s = -inf
        self.launching = False
        self.down: set[int] = set()
        hours = 1.5 * job.ideal_s / 3600
        many = dice.poisson(world.lost_an_hour * world.executors * hours)
        times = sorted(dice.uniform(0, 1.5 * job.ideal_s, many).tolist())
        for at_s in times:
            self._at(at_s, "lose", int(dice.integers(world.executors)))

    def weight(self, dice: random.Random) -> float:
        """Of a new connection."""
        world = self.world
        if dice.random() < world.slow_connections:
            return 1 / world.slow_connection_by
        return dice.lognormvariate(-(world.spread**2) / 2, world.spread)

    def share(self, batch: int) -> int | None:
        """What a task may have at a host without a hub, as ``work`` shares it out."""
        per_host = self.world.per_host
        return per_host and max(1, per_host // self.job.sharers[batch])

    def watch(self, host: int, from_s: float, to_s: float) -> None:
        """A connection, for who counts them."""
        if self.watched:
            for column, value in zip(self.intervals, (host, from_s, to_s), strict=True):
                column.append(value)  # type: ignore[attr-defined]

    def run(self) -> Result:
        """Until every batch has its receipt."""
        self._launch_soon(0.0)
        if self.rules.speculation:
            self._at(1.0, "speculate", None)
        makespan_s = 0.0
        while self.finished < self.batches:
            now_s, _, kind, what = heappop(self.events)
            match kind, what:
                case "launch", _:
                    self._launch(now_s)
                case "beat", Copy() as copy:
                    self._beat(copy, now_s)
                case "end", Copy() as copy if not copy.gone:
                    makespan_s = now_s
                    self._end(copy, now_s)
                case "free", int() as executor:
                    self._free(executor, now_s)
                case "speculate", _:
                    self._speculate(now_s)
                case "lose", int() as executor:
                    self._lose(executor, now_s)
                case "back", int() as executor:
                    self.down.discard(executor)
                    for _ in range(self.world.slots):
                        self._free(executor, now_s)
        return Result(
            makespan_s, self.job.ideal_s, self.end_s, self.fetched, self.rescues, self.needless, self.copies,
            self.lost, self.skipped, self.task_s, most_at_once(self.intervals), self.beats, self.hub_s,
        )  # fmt: skip

    def _at(self, at_s: float, kind: str, what: object) -> None:
        self.counter += 1
        heappush(self.events, (at_s, self.counter, kind, what))

    def _launch_soon(self, now_s: float) -> None:
        if not self.launching and self.free and (self.pending or self.doubles):
            self.launching = True
            self._at(max(now_s, self.launched_s + 1 / self.world.launches_a_s), "launch", None)

    def _launch(self, now_s: float) -> None:
        """One task to one slot; copies of running tasks come after all others, as in Spark."""
        self.launching = False
        if not self.free:
            return
        executor, batch = self.free.popleft(), None
        if self.pending:
            first = self.pending.popleft()
            batch = first if isinstance(first, Batch) else Batch(self, first)
        else:
            while self.doubles and (self.doubles[0].over or not self.doubles[0].copies):
                self.doubles.popleft()
            if self.doubles and self.doubles[0].copies[0].executor != executor:
                batch = self.doubles.popleft()
                self.copies += 1
        if batch is None:
            self.free.append(executor)
            if self.doubles:
                self.launched_s = now_s
                self._launch_soon(now_s)
            return
        self.launched_s = now_s
        copy = Copy(self, batch, executor, now_s)
        self.running[copy] = None
        self._at(now_s + EVERY_S, "beat", copy)
        self._launch_soon(now_s)

    def _beat(self, copy: Copy, now_s: float) -> None:
        if copy.gone:
            return
        is_through = copy.run(now_s)
        if self.registry is not None:
            began_s = time.process_time()
            copy.talk(self.registry, self.shown, over=is_through)
            self.hub_s += time.process_time() - began_s
            self.beats += 1
        if is_through:
            self._at(max(copy.end_s, now_s - EVERY_S), "end", copy)
        else:
            self._at(now_s + EVERY_S, "beat", copy)

    def _end(self, copy: Copy, now_s: float) -> None:
        """The batch has its receipt; its other copies see it."""
        batch = copy.batch
        batch.over = True
        self.finished += 1
        self.durations.add(now_s - copy.began_s)
        self.task_s[copy.executor in self.slow].append(now_s - copy.began_s)
        self.end_s[batch.entries] = batch.stands_s
        self.fetched[batch.entries] = batch.fetched
        for one in batch.copies:
            one.gone = True
            self.running.pop(one, None)
            self._at(now_s if one is copy else now_s + LOOK_S, "free", one.executor)
        batch.copies = []

    def _free(self, executor: int, now_s: float) -> None:
        if executor not in self.down:
            self.free.append(executor)
            self._launch_soon(now_s)

    def _speculate(self, now_s: float) -> None:
        self._at(now_s + 1.0, "speculate", None)
        median_s = self.durations.value
        if median_s is None or self.finished < max(int(QUANTILE * self.batches), 1):
            return
        limit = max(MULTIPLIER * median_s, YOUNGEST_S)
        for copy in self.running:
            batch = copy.batch
            if now_s - copy.began_s > limit and not batch.doubled and len(batch.copies) == 1:
                batch.doubled = True
                self.doubles.append(batch)
        self._launch_soon(now_s)

    def _lose(self, executor: int, now_s: float) -> None:
        """Its tasks are begun again, before all others; what stands not yet is not there."""
        if executor in self.down:
            return
        self.lost += 1
        self.down.add(executor)
        self.free = deque(one for one in self.free if one != executor)
        self._at(now_s + BACK_S, "back", executor)
        for copy in [one for one in self.running if one.executor == executor]:
            batch = copy.batch
            copy.gone = True
            del self.running[copy]
            batch.copies.remove(copy)
            for place, stands_s in enumerate(batch.stands_s):
                if now_s < stands_s < inf:
                    batch.stands_s[place] = inf
                    batch.fetched[place] -= 1
            if not batch.copies:
                batch.doubled = False
                self.pending.appendleft(batch)
        self._launch_soon(now_s)
