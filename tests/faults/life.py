"""One seed's life: runs that die, are stopped or end, then runs without faults until all is quiet."""

import asyncio
import os
import random
import signal
import tempfile
from collections import Counter
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cfetch.base.clock import RunClock
from cfetch.base.errors import CfetchError, Interrupted, LocalFault
from cfetch.base.events import EntryFinished, Progress, RunStarted, tell_each
from cfetch.base.records import FileRecord, Summary
from cfetch.base.virtual_clock import VirtualClock, run_virtual
from cfetch.engine.pool import Pool
from cfetch.engine.pool_inputs import PoolInputs
from cfetch.show.summary import Tally
from cfetch.storage.directory import Directory
from cfetch.storage.directory_volume import DirectoryVolume
from cfetch.storage.files import STATE_NAME
from cfetch.storage.resume import PROVED_BY_SIZE, useful_parts
from cfetch.timeline.attempts import ATTEMPTS, Attempts
from cfetch.timeline.files import LocalFiles
from cfetch.timeline.table import on_this_machine
from tests.engine.drive import ListPlan
from tests.faults.disk import Disk
from tests.faults.invariants import Breach, Checks
from tests.faults.servers import Network, Signer
from tests.faults.world import Ending, World, draw_world

__all__ = ["Run", "Story", "simulate"]

RUN_LIMIT_S = 4 * 3600.0  # far beyond what retries, slow bodies and waits of one world can add up to
QUIET_LIMIT_S = 600.0  # without faults; most worlds need a second
MAX_QUIET_RUNS = 3  # with one try per file, what a part of a fault's time spoils costs a run
SPIN_LIMIT = 20_000  # looks at the clock in one instant; honest worlds have some hundred
QUIET = Ending()
INSTANT = "i"  # one plan for all runs of a world; the epoch tells them apart


@dataclass
class Run:
    """How a run ended: ``summary`` None if it died."""

    number: int
    faulty: bool
    records: list[FileRecord] = field(default_factory=list)
    summary: Summary | None = None
    stopped: bool = False
    fault: CfetchError | None = None
    hung: bool = False
    error: BaseException | None = None
    unused: list[str] = field(default_factory=list)  # what the engine left of dead runs, all being in place

    @property
    def epoch(self) -> int:
        return self.number + 1


@dataclass
class Story:
    """What one seed came to. ``violations`` is empty where the engine kept all its promises."""

    seed: int
    violations: list[Breach] = field(default_factory=list)
    trace: list[str] = field(default_factory=list)
    faults: Counter[str] = field(default_factory=Counter)
    endings: Counter[str] = field(default_factory=Counter)
    statuses: Counter[str] = field(default_factory=Counter)
    drawn: Counter[str] = field(default_factory=Counter)  # what the runs had, by name
    runs: int = 0
    entries: int = 0
    requests: int = 0
    virtual_s: float = 0.0


def simulate(seed: int, *, world: World | None = None) -> Story:
    """Live through the world of ``seed``, or ``world``: deterministic, on virtual time, in memory."""
    story = Story(seed)
    base = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="simulation-", dir=base) as folder:
        life = _Life(world or draw_world(seed), Path(folder).resolve(), story)
        with life.disk.installed():
            run_virtual(life.live())
    return story


class _Life:
    def __init__(self, world, folder, story):
        self.world = world
        self.story = story
        self.rng = random.Random(f"life {world.seed}")
        self.disk = Disk(
            folder,
            random.Random(f"disk {world.seed}"),
            models_power=world.settings.durability == "power",
            on_change=self._changed,
        )
        self.network = Network(world, on_step=self._step, log=self.log)
        self.checks = Checks(world, folder, story.violations)
        self._steps = 0
        self._gone_epoch: int | None = None
        self._stop_at: int | None = None
        self._stop: Any = lambda: None

    def log(self, text):
        if not self.disk.dead:
            text = text.replace(f"{self.disk.folder}/", "")  # its name is no part of the story
            self.story.trace.append(f"{asyncio.get_running_loop().time():.6f} {text}")

    async def live(self):
        loop = asyncio.get_running_loop()
        loop.set_default_executor(_NoThreads(self.rng))
        self.checks.prepare(self.disk.root)
        self.disk.load()
        number = 0
        for ending in self.world.endings:
            await self._run(number, ending)
            number += 1
        self.network.faulty = False
        await asyncio.sleep(max(change[0] for one in self.world.objects.values() for change in one.changes))
        for _ in range(MAX_QUIET_RUNS):
            await self._run(number, QUIET)
            number += 1
            if not self.checks.missing(self.disk.root, loop.time()):
                break
        self.checks.is_quiet(self.disk.root, loop.time())
        in_place = self.checks.in_place()
        run = await self._run(number, QUIET)
        self.checks.asks_for_nothing_twice(run, in_place, self.network.requests)
        if self.world.settings.durability == "power":
            self.disk.cut_power()
            self.log("power cut at the end")
            self.checks.tree(self.disk.root)
        self.story.virtual_s = loop.time()
        self.story.requests = self.network.total
        self.story.entries = len(self.world.entries)
        self.story.faults = self.network.faults

    async def _run(self, number, ending):
        """One process's life."""
        run = Run(number, self.network.faulty)
        self.story.runs += 1
        self.story.drawn.update(
            {
                "rate limits": int(self.world.settings.rates.least_bps is not None),
                "several processes": int(self.world.processes > 1),
                "segments": int(self.world.settings.most_segments > 1),
                "byte ranges": int(any(entry.range_start is not None for entry in self.world.entries)),
            }
        )
        self.log(f"--- run {number}: {ending}")
        self.network.requests.clear()
        self.network.read_bytes = 0
        descriptors = _descriptors()
        began_s = asyncio.get_running_loop().time()
        await self._process(run, ending)
        tasks = [one for one in asyncio.all_tasks() if one is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        died = self.disk.dead
        self._gone_epoch = run.epoch if self.rng.random() < 0.7 else None  # else it may only be stopped
        came = died or run.stopped or run.fault is not None
        self.story.endings[ending.kind if came else "by itself"] += 1
        self.disk.begin()
        self._stop_at = None
        self.log(f"--- {'died' if died else run.summary and run.summary.files}")
        if not died:
            self.checks.ended(run, self.disk.root)
            self.story.statuses.update(record.status for record in run.records)
        self.checks.left_open(
            run, [one.get_name() for one in tasks], self.network.open_now, descriptors, _descriptors()
        )
        elapsed_s = asyncio.get_running_loop().time() - began_s
        self.checks.requests(run, self.network.requests, elapsed_s)
        self.checks.rate(run, self.network.read_bytes, elapsed_s)
        self.checks.leaks(self.network.leaks)
        self.checks.tree(self.disk.root)
        if not died and self.disk._models_power and self.rng.random() < 0.3:
            self.log("power cut between runs")
            self.story.endings["power cut between runs"] += 1
            self.disk.cut_power()
            self.checks.tree(self.disk.root)
        self.disk.forget_old_trees()
        return run

    async def _process(self, run, ending):
        at = ending.at
        self.disk.begin(
            die_at=at if ending.kind in ("kill", "power cut") else None,
            power=ending.kind == "power cut",
            full_at=at if ending.kind == "full" else None,
            eio_at=at if ending.kind == "eio" else None,
        )
        self._steps, self._stop_at = 0, at if ending.kind == "stop" else None
        tally = Tally()
        with ExitStack() as stack:
            try:
                volume = Directory(self.disk.root)
                stack.callback(self._close, volume)
                files = LocalFiles(volume.root / STATE_NAME)
                stack.callback(files.close)
                with self._execution(run.epoch, volume, Attempts([files])) as volumes:
                    await self._run_pools(run, ending, volumes, tally)
                if not self.disk.dead:
                    cause = Interrupted(signal.SIGINT) if run.stopped else run.fault
                    run.summary = tally.summary(1.0, error=cause)
                    if run.summary.exit_code == 0:
                        self._tidy_up(run, files)
            except LocalFault as fault:
                run.fault = fault
            except Exception as error:  # a bug, and told as one
                run.error = error

    def _close(self, volume):
        with suppress(*((OSError,) if self.disk.dead else ())):
            volume.close()

    @contextmanager
    def _execution(self, epoch, volume, attempts):
        """What the timeline does before and after one, as far as it concerns the volumes."""
        with on_this_machine("cannot begin the plan"):
            attempts.roll_back(
                INSTANT,
                epoch,
                salvage=lambda dead: useful_parts(dead.names),
                gone_epoch=self._gone_epoch,
            )
            attempts.make(INSTANT, epoch)
        own = f"{ATTEMPTS}/{INSTANT}/{epoch}"
        with ExitStack() as stack:
            stack.callback(attempts.remove, INSTANT, epoch)
            volumes = [volume]
            if self.world.processes == 1:
                volume.stage(own)
            else:
                volumes = []
                for task in range(self.world.processes):
                    volumes.append(Directory(self.disk.root, f"{own}/t{task}"))
                    stack.callback(self._close, volumes[-1])
            for staged in volumes:
                stack.callback(staged.unstage)
            yield volumes

    def _tidy_up(self, run, files):
        """What ``timeline.tidying.tidy_up`` does once the plan is completed."""
        for directory in files.names(f"{ATTEMPTS}/{INSTANT}"):
            run.unused += files.names(f"{ATTEMPTS}/{INSTANT}/{directory}")
        if self.disk.boots:  # parts of an earlier boot that nobody can name any more
            run.unused = [name for name in run.unused if not name.startswith(PROVED_BY_SIZE)]
        Attempts([files]).roll_back(INSTANT, run.epoch + 1)

    async def _run_pools(self, run, ending, volumes, tally):
        """One pool for each process: they share the destination, the clock and their death."""
        world, loop = self.world, asyncio.get_running_loop()

        def emit(event):
            tally(event)
            self._step()
            if isinstance(event, EntryFinished) and not self.disk.dead:
                run.records.append(event.record)
            if not isinstance(event, Progress):
                self.log(_told(event))

        def stop():
            run.stopped = True
            self.log("SIGINT")
            for pool in pools:
                pool.stop("SIGINT")

        emit(_started(len(world.entries)))
        pools = [
            self._make_pool(world.entries[number :: world.processes], volume, emit, tally.live)
            for number, volume in enumerate(volumes)
        ]
        self._stop = lambda: loop.call_soon(stop)
        if self._stop_at is not None and self._steps >= self._stop_at:
            stop()
        if self.disk.dead:
            return
        task = loop.create_task(_run_all(pools))
        self.disk.on_death = lambda: loop.call_soon(task.cancel)
        timer = loop.call_later(ending.at_s, self.disk.die) if ending.kind == "kill at time" else None
        limit_s = RUN_LIMIT_S if run.faulty else QUIET_LIMIT_S
        _, hung = await asyncio.wait({task}, timeout=limit_s)
        if timer is not None:
            timer.cancel()
        self.disk.on_death = lambda: None
        self._stop = lambda: None
        if hung:
            run.hung = True
            task.cancel()
            await asyncio.wait({task}, timeout=60)
        if not task.cancelled() and task.exception() is not None:
            run.error = task.exception()
        run.fault = next((pool.fault for pool in pools if pool.fault is not None), None)

    def _make_pool(self, entries, volume, emit, counts):
        world = self.world
        plan: Any = ListPlan(entries, world.plan_headers)
        return Pool(
            plan,
            world.settings,
            [DirectoryVolume(volume, durable=world.settings.durability == "power")],
            self.network,
            PoolInputs(
                instant=INSTANT,
                clock=RunClock(_WatchedClock()),
                jitter=self.rng.random,
                emit=tell_each(emit),
                counts=counts,
            ),
            refresher=Signer(world, self.network) if world.signed_s is not None else None,
        )

    def _changed(self, kind, what):
        self.log(f"disk {self.disk.changes}: {kind} {what}")
        self._step()

    def _step(self):
        self._steps += 1
        if self._steps == self._stop_at:
            self._stop()


async def _run_all(pools):
    if len(pools) == 1:
        await pools[0].run()
        return
    async with asyncio.TaskGroup() as group:
        for pool in pools:
            group.create_task(pool.run())


def _started(files):
    return RunStarted(
        t_s=0.0, instant=INSTANT, wall_start="", version="", host="", files=files, bytes_known=0,
        sizes_unknown=0, concurrency=1, destination="", settings={},
    )  # fmt: skip


def _told(event):
    if not isinstance(event, EntryFinished):
        return f"{type(event).__name__} {getattr(event, 'id', '')} {getattr(event, 'error', '')}"
    record = event.record
    return f"{record.status} {record.path} {record.bytes} {record.verified} {record.error or ''}"


def _descriptors():
    return len(os.listdir("/proc/self/fd"))


class _WatchedClock(VirtualClock):
    """Ends an engine that goes round and round without letting time pass."""

    def __init__(self):
        super().__init__()
        self._last_s, self._asked = -1.0, 0

    def monotonic(self):
        now_s = super().monotonic()
        self._asked = self._asked + 1 if now_s == self._last_s else 0
        self._last_s = now_s
        if self._asked > SPIN_LIMIT:
            raise RuntimeError("the engine spins: time does not pass")
        return now_s


class _NoThreads(ThreadPoolExecutor):
    """Does a thread's work at once, and tells of it a drawn number of the loop's turns later."""

    def __init__(self, rng):
        super().__init__(max_workers=1)
        self._rng = rng

    def submit(self, function, /, *args, **kwargs):
        future: Future[Any] = Future()
        future.set_running_or_notify_cancel()
        loop = asyncio.get_running_loop()
        tell: Any = future.set_result
        try:
            value = function(*args, **kwargs)
        except BaseException as error:  # as an executor does
            tell, value = future.set_exception, error

        def turn(left):
            if left:
                loop.call_soon(turn, left - 1)
            else:
                tell(value)

        turn(self._rng.choice((0, 1, 3, 10)))
        return future
