"""A run whose files are handed to a reader in another thread, through memory.

The engine's event loop has a thread of its own. ``Outbox`` is between the two threads: the engine puts files
into it as they become whole, and the reader takes them, in order or as they come. What the reader lets go of
is an order to the engine, which may then begin further entries.
"""

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from cfetch.base.config.engine import PlacementOptions
from cfetch.base.config.settings import Settings
from cfetch.base.errors import CfetchError
from cfetch.base.events import MEMORY
from cfetch.engine.attempts_under_way import AttemptsUnderWay
from cfetch.engine.entry_records import EntryRecords
from cfetch.engine.idle_workers import IdleWorkers
from cfetch.engine.pool_inputs import PoolInputs
from cfetch.engine.stop_switch import StopSwitch
from cfetch.engine.stream_window import StreamWindow
from cfetch.engine.streaming import Streaming
from cfetch.manifest.entry import Entry
from cfetch.manifest.plan import Plan
from cfetch.run.frame import Run
from cfetch.run.local_run import LocalEngine
from cfetch.run.volumes import Volumes
from cfetch.storage.memory_volume import MemoryVolume, Take
from cfetch.wire.fresh_link import UrlRefresher
from cfetch.wire.network import Network
from cfetch.wire.transport import Transport

if TYPE_CHECKING:
    from cfetch.engine.batches.borne import Bears
    from cfetch.manifest.entries import Entries
    from cfetch.storage.volume import Volume


class Handed(NamedTuple):
    """An entry's end: the function that takes its bytes, once, or the error why it cannot be had."""

    key: int
    entry: Entry
    take: Take = bytes
    error: CfetchError | None = None


class Outbox:
    """Files that wait for their reader. All methods may be called from any thread.

    ``on_change`` is called when a reader who does not block may look again; it is the reader's.
    ``give_away`` tells the engine that the reader has let go of an entry, and ``stop`` why it takes no more.
    """

    def __init__(self, *, ordered: bool) -> None:
        self._ordered = ordered
        self._changed = threading.Condition()
        self._waiting: dict[int, Handed] = {}  # in the order in which they came
        self._next = 0
        self.is_closed = False
        self.on_change: Callable[[], None] = lambda: None
        self.give_away: Callable[[int], None] = lambda _: None
        self.stop: Callable[[str], None] = lambda _: None

    def put(self, handed: Handed) -> None:
        """Put an entry's end into it."""
        with self._changed:
            self._waiting[handed.key] = handed
            self._changed.notify()
        self.on_change()

    def close(self) -> None:
        """Note that nothing more comes."""
        with self._changed:
            self.is_closed = True
            self._changed.notify()
        self.on_change()

    def take(self) -> Handed | None:
        """Take the next one out, if it is there."""
        with self._changed:
            return self._take()

    def wait_and_take(self) -> Handed | None:
        """Take the next one out, as soon as it is there; None: nothing more comes."""
        with self._changed:
            while (handed := self._take()) is None and not self.is_closed:
                self._changed.wait()
            return handed

    def _take(self) -> Handed | None:
        index = self._next if self._ordered else next(iter(self._waiting), -1)
        handed = self._waiting.pop(index, None)
        self._next += handed is not None
        return handed


class StreamGuard:
    """Implements ``frame.Guard`` for a run that changes nothing which another run could change too."""

    epoch = 1

    def __init__(self, instant: str) -> None:
        self.instant = self.run_id = instant

    def confirm(self) -> None:
        """Do nothing: nobody can take the plan."""

    def commit(self, *, files: int, size_bytes: int) -> None:
        """Do nothing: there is no timeline."""


class StreamEngine(LocalEngine):
    """A pool in this process that brings files into ``outbox``; they and their like hold ``most_bytes``."""

    def __init__(
        self,
        plan: Plan,
        volumes: Volumes,
        settings: Settings,
        outbox: Outbox,
        most_bytes: int,
        *,
        network: Network,
        refresher: Callable[[Transport], UrlRefresher | None],
    ) -> None:
        """``volumes``: of the directory that has the plan; no file goes there."""
        super().__init__(plan, volumes, settings, network=network, refresher=refresher)
        self._outbox = outbox
        self._window = StreamWindow(plan.sizes, most_bytes)
        self._streaming: Streaming | None = None
        self._commit_by = self._make_streaming
        outbox.give_away = lambda index: self._order(lambda *_: self._give_away(index))
        outbox.stop = self.stop

    def _give_away(self, index: int) -> None:
        if self._streaming is not None:
            self._streaming.give_away(index)

    def _make_volumes(self, run: Run) -> Sequence[MemoryVolume]:  # noqa: ARG002 - the base's
        def deliver(index: int, entry: Entry, take: Take) -> None:
            self._outbox.put(Handed(index, entry, take))

        return [MemoryVolume(MEMORY, self._window, deliver, most_bytes=self._window.limit_bytes)]

    def _make_streaming(
        self,
        entries: "Entries",
        placing: PlacementOptions,
        volumes: "Sequence[Volume]",
        entry_records: EntryRecords,
        switch: StopSwitch,
        idle: IdleWorkers,
        in_flight: AttemptsUnderWay,  # noqa: ARG002 - as make_commitment
        outside: PoolInputs,
        *,
        backwards: bool,  # noqa: ARG002 - as make_commitment
        bears: "Bears",  # noqa: ARG002 - as make_commitment
    ) -> Streaming:
        [volume] = volumes
        assert isinstance(volume, MemoryVolume)
        self._streaming = Streaming(
            entries,
            volume,
            self._window,
            entry_records,
            switch,
            idle,
            outside.clock,
            concurrency=placing.concurrency,
            lose=lambda index, entry, error: self._outbox.put(Handed(index, entry, error=error)),
        )
        return self._streaming
