"""One execution of a plan in an event loop: transport, pool, signals, metrics; in the end the summary."""

import asyncio
import os
import random
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from cfetch import __version__
from cfetch.clock import Clock, RunClock
from cfetch.config.settings import Settings
from cfetch.engine.pool import Pool
from cfetch.errors import CfetchError, Interrupted, LocalFault
from cfetch.events import Event, Listener, RunFinished, RunStarted, RunStopping, VolumePaused, fan_out
from cfetch.manifest.entries import Frozen
from cfetch.manifest.plan import Plan
from cfetch.records import Summary
from cfetch.report.metrics import MetricsFile
from cfetch.report.summary import Tally
from cfetch.report.tracing import tracing_listener
from cfetch.run.volumes import Volumes
from cfetch.straggler.knowledge import NOTHING, Knowledge
from cfetch.wire.http import HttpTransport, Transport
from cfetch.wire.network import Network
from cfetch.wire.refresh import UrlRefresher

__all__ = ["Guard", "Run", "listening", "noted_signals", "started"]

_Handlers = dict[int, Any]
HANDLED_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
MANY_HOSTS = 256  # an idle connection is kept for 15 s, and 1,024 descriptors are a usual limit


class Guard(Protocol):
    """What keeps other runs off the plan; ``timeline.execution.Execution`` is one."""

    @property
    def instant(self) -> str:
        """The plan's."""

    @property
    def run_id(self) -> str:
        """Of this execution, and no other."""

    def confirm(self) -> None:
        """Raises Held or LocalFault if the plan is not this run's any more."""

    def commit(self, *, files: int, size_bytes: int) -> None:
        """Everything is in place and durable. Raises Held, LocalFault."""


class Run:
    """``refresher`` makes the way to fresh links once there is a transport. Used once.

    ``knowledge``: of earlier runs; ``learned``: in this one, once it is over, however it ended.
    """

    def __init__(
        self,
        plan: Plan,
        volumes: Volumes,
        settings: Settings,
        *,
        network: Network,
        refresher: Callable[[Transport], UrlRefresher | None],
        clock: Clock,
        knowledge: Knowledge = NOTHING,
    ) -> None:
        self.learned = NOTHING
        self._knowledge = knowledge
        self._plan = plan
        self._volumes = volumes
        self._settings = settings
        self._network = network
        self._refresher = refresher
        self._clock = clock
        self._ended_by: list[CfetchError] = []
        self._listening: _Handlers = {}
        self._lost: str | None = None
        self._on_lost: Callable[[], None] | None = None

    def lose(self, why: str) -> None:
        """The guard has lost the plan: stop at once. From any thread, at any time."""
        self._lost = why
        if self._on_lost is not None:
            self._on_lost()

    def go(self, guard: Guard, metrics: MetricsFile, listener: Listener) -> Summary:
        """Download. Never raises for what happens to entries: the summary tells it, with the exit code."""
        tally = Tally()
        tell = fan_out(*(one for one in (tally, metrics, tracing_listener(), listener) if one is not None))
        try:
            with _handlers_kept() as self._listening:
                return asyncio.run(self._go(guard, tell, tally, metrics))
        finally:
            metrics.close()

    async def _go(self, guard: Guard, tell: Listener, tally: Tally, metrics: MetricsFile) -> Summary:
        clock = RunClock(self._clock)
        transport = HttpTransport(
            connect_timeout_s=self._settings.connect_timeout,
            keep_alive=len(self._plan.hosts) <= MANY_HOSTS,
            network=self._network,
        )

        def emit(event: Event) -> None:
            try:
                tell(event)
            except LocalFault as fault:  # the metrics file cannot grow any more
                pool.fail(fault)

        volumes = self._volumes.volumes(
            durable=self._settings.durability == "power",
            clock=clock,
            run_id=guard.run_id,
            confirm=guard.confirm,
        )
        pool = Pool(
            self._plan,
            self._settings,
            volumes,
            transport,
            instant=guard.instant,
            clock=clock,
            jitter=random.random,
            emit=emit,
            refresher=self._refresher(transport),
            confirm=guard.confirm,
            knowledge=self._knowledge,
        )
        try:
            with _signals(pool, self._ended_by, self._listening), self._watched(guard, pool):
                self._begin(emit, guard)
                await pool.run()
        finally:
            self.learned = pool.learned()
            await transport.close()
            for volume in volumes:
                await volume.close()
        try:
            metrics.close()
        except LocalFault as fault:  # its last lines did not fit: said in the summary, not after it
            pool.fail(fault)
        error = self._ended_by[0] if self._ended_by else pool.fault
        try:
            self._settle(guard, error, tally)
        except CfetchError as lost:
            if str(lost) != str(error):  # else it was told when it was found
                emit(RunStopping(t_s=clock.now(), reason=str(lost)))
            error = lost
        summary = tally.summary(clock.now(), error=error, metrics=str(metrics.path))
        emit(RunFinished(t_s=clock.now(), summary=summary))
        return summary

    def _begin(self, emit: Listener, guard: Guard) -> None:
        roots = self._volumes.roots
        emit(started(self._plan, self._settings, roots, instant=guard.instant, clock=self._clock))
        for name, fault in self._volumes.refused:
            emit(VolumePaused(t_s=0.0, volume=name, pause_s=None, reason=str(fault)))

    def _settle(self, guard: Guard, error: CfetchError | None, tally: Tally) -> None:
        """Complete the plan if all is in place. Raises Held or LocalFault if it is no more this run's."""
        if isinstance(error, LocalFault):
            guard.confirm()  # what looks like a fault may be another run's tidying up after this one
        elif error is None and not tally.unfinished:
            guard.commit(files=len(self._plan), size_bytes=self._plan.total_bytes)

    @contextmanager
    def _watched(self, guard: Guard, pool: Pool) -> Iterator[None]:
        loop = asyncio.get_running_loop()

        def stop() -> None:
            try:
                guard.confirm()
            except CfetchError as error:
                self._ended_by.append(error)
                pool.stop(str(error), again=True)

        def from_thread() -> None:
            loop.call_soon_threadsafe(stop)

        self._on_lost = from_thread
        if self._lost is not None:
            stop()
        try:
            yield
        finally:
            self._on_lost = None


def started(
    plan: Frozen, settings: Settings, roots: Sequence[str | Path], *, instant: str, clock: Clock
) -> RunStarted:
    """The event with which a run of ``plan`` begins, now."""
    return RunStarted(
        t_s=0.0,
        instant=instant,
        wall_start=datetime.fromtimestamp(clock.wall(), UTC).isoformat(timespec="milliseconds"),
        version=__version__,
        host=socket.gethostname(),
        files=len(plan),
        bytes_known=plan.total_bytes,
        sizes_unknown=plan.sizes_unknown,
        concurrency=settings.concurrency,
        destination=", ".join(map(str, roots)),
        destinations=tuple(map(str, roots)),
        settings=settings.public(),
    )


@contextmanager
def _handlers_kept() -> Iterator[_Handlers]:
    """Who listened before, by signal, and does so again afterwards; nobody outside the main thread."""
    mine = threading.current_thread() is threading.main_thread()
    before: _Handlers = {number: signal.getsignal(number) for number in HANDLED_SIGNALS if mine}
    try:
        yield before
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def listening(on_signal: Callable[[int, object], None]) -> Iterator[None]:
    """To the signals that end a run, but for those that the caller has set to be ignored."""
    with _handlers_kept() as before:
        for number, handler in before.items():
            if handler is not signal.SIG_IGN:
                signal.signal(number, on_signal)
        yield


@contextmanager
def noted_signals(noted: list[CfetchError]) -> Iterator[None]:
    """The first is noted as ``Interrupted``, the next one after that ends the process at once."""

    def on_signal(number: int, _frame: object) -> None:
        if noted:
            os._exit(128 + number)
        noted.append(Interrupted(number))

    with listening(on_signal):
        yield


@contextmanager
def _signals(pool: Pool, ended_by: list[CfetchError], before: _Handlers) -> Iterator[None]:
    """The first SIGINT, SIGTERM or SIGHUP ends the run in good order; the second ends the process at once.

    What the caller has set to be ignored stays so, as ``nohup`` does with SIGHUP. A caller who listens hears
    of it too: it may come when nothing is left to end here. ``before``: by number, from outside the loop.
    """
    loop = asyncio.get_running_loop()

    def on_signal(number: int, frame: object) -> None:
        if ended_by:
            if sys.stderr.isatty():
                os.write(sys.stderr.fileno(), b"\x1b[?25h\n")  # the live view had hidden the cursor
            os._exit(128 + number)
        ended_by.append(Interrupted(number))
        loop.call_soon_threadsafe(
            pool.stop,
            f"{signal.Signals(number).name}: closing what is under way; once more to leave at once",
        )
        heard = before[number]
        if callable(heard) and heard is not signal.default_int_handler:
            heard(number, frame)

    for number, handler in before.items():
        if handler is not signal.SIG_IGN:
            signal.signal(number, on_signal)  # to the end: closing may wait for a slow resolver's thread
    yield
