"""Brings the shards of a task one after the other without a pause: one pool, and one set of connections.

The files of a shard begin while the slowest of the shards before are under way, and a shard is written, in a
thread, as soon as its last file has ended. ``AHEAD`` bounds what lies on the disk meanwhile.
"""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING

from cfetch.base.config.engine import PlacementOptions
from cfetch.base.events import EntryFinished, Event
from cfetch.base.records import FileRecord
from cfetch.engine.attempts_under_way import AttemptsUnderWay
from cfetch.engine.entry_records import EntryRecords
from cfetch.engine.idle_workers import IdleWorkers
from cfetch.engine.pool_inputs import PoolInputs
from cfetch.engine.side_tasks import SideTasks
from cfetch.engine.stop_switch import StopSwitch
from cfetch.engine.stream_window import StreamWindow
from cfetch.engine.streaming import Streaming
from cfetch.engine.transfer import Transfer
from cfetch.manifest.entry import Entry
from cfetch.plugins.spark.frames.shard_spool import LARGE_BYTES, Spool, SpoolRoom, SpoolVolume, charge_bytes

if TYPE_CHECKING:
    from cfetch.engine.batches.borne import Bears
    from cfetch.manifest.entries import Entries
    from cfetch.storage.volume import Volume

AHEAD = 3  # shards on the disk at a time: one is written, one ends with its slowest files, one begins
LEAST_BYTES = 64 << 20  # of memory for files that are under way or wait for the disk


class StreamedShard:
    """A shard under way: its entries, and the records of those that have ended."""

    def __init__(self, entries: Sequence[Entry], directory: str) -> None:
        self.entries = entries
        self.records: list[FileRecord] = []
        self.spool = Spool(directory)
        self.is_begun = False
        self.is_over = False  # written, or found written by another task


class ShardStream:
    """The shards of a part of a frame, in the order in which they are brought.

    ``write`` writes the shard of a number, in a thread. ``is_there``: whether another task has written it.
    """

    def __init__(
        self,
        shards: Sequence[StreamedShard],
        write: Callable[[int], None],
        is_there: Callable[[int], bool],
        *,
        concurrency: int,
        directory: str,
    ) -> None:
        self.shards = shards
        self.write = write
        self.is_there = is_there
        self._shard_of = [number for number, shard in enumerate(shards) for _ in shard.entries]
        self.entries = [entry for shard in shards for entry in shard.entries]
        sizes = [-1 if entry.size_bytes is None else charge_bytes(entry.size_bytes) for entry in self.entries]
        # As many files as there are workers, each as large as may be in memory; smaller ones wait in there.
        self.window = StreamWindow(sizes, max(LEAST_BYTES, concurrency * LARGE_BYTES))
        self.volume = SpoolVolume(SpoolRoom(self.window), lambda index: self.shard(index).spool, directory)
        self.note_end: Callable[[FileRecord], None] = lambda _: None

    def number(self, index: int) -> int:
        """The number of an entry's shard."""
        return self._shard_of[index]

    def shard(self, index: int) -> StreamedShard:
        """The shard of an entry."""
        return self.shards[self._shard_of[index]]

    def __call__(self, event: Event) -> None:
        """Listen to the pool."""
        if isinstance(event, EntryFinished):
            self.note_end(event.record)

    def commit_by(
        self,
        entries: "Entries",
        placing: PlacementOptions,
        volumes: "Sequence[Volume]",  # noqa: ARG002 - it is this stream's own
        entry_records: EntryRecords,
        switch: StopSwitch,
        idle: IdleWorkers,
        in_flight: AttemptsUnderWay,  # noqa: ARG002 - as make_commitment
        outside: PoolInputs,
        *,
        backwards: bool,  # noqa: ARG002 - the order of the shards says it
        bears: "Bears",  # noqa: ARG002 - as make_commitment
    ) -> "ShardCommitment":
        """Make the commitment, as ``make_commitment`` does."""
        made = partial(ShardCommitment, self, entries, self.volume, self.window, entry_records, switch, idle)
        return made(outside.clock, concurrency=placing.concurrency, lose=lambda *_: None)

    def close(self) -> None:
        """Let go of all files."""
        for shard in self.shards:
            shard.spool.close()


class ShardCommitment(Streaming):
    """The ``Commitment`` to shards, each of which is written when its last entry has ended."""

    def __init__(self, stream: ShardStream, *args: object, **named: object) -> None:
        super().__init__(*args, **named)  # type: ignore[arg-type]
        self._stream = stream
        self._first = 0  # the first shard that is not over
        self._kept: list[int] = []  # entries that count until their shard's turn has come
        self._writer = ThreadPoolExecutor(1, "shards")
        self._writing: list[asyncio.Task[None]] = []
        self._tasks: SideTasks | None = None
        stream.note_end = self._note_end

    async def open(self, tasks: SideTasks) -> None:
        """Begin."""
        self._tasks = tasks
        await super().open(tasks)

    def hand_out(self, index: int, now_s: float) -> Transfer | None:  # type: ignore[override]
        """Make the transfer of an entry; None: a copy of the task has written its shard meanwhile."""
        number, shard = self._stream.number(index), self._stream.shard(index)
        if not shard.is_begun:
            shard.is_begun = True
            if self._stream.is_there(number):
                self._end_shard(shard)
        if shard.is_over:
            self.give_away(index)
            return None
        return super().hand_out(index, now_s)

    async def close(self) -> None:
        """Wait until all files are spooled, and all shards written."""
        await super().close()
        if self._writing:
            await asyncio.wait(self._writing)
        self._writer.shutdown()

    def _note_end(self, record: FileRecord) -> None:
        """Note the end of an entry, whose id is its index."""
        index = record.id
        shard = self._stream.shard(index)
        shard.records.append(record)
        self._give_away_in_turn(index)
        if len(shard.records) == len(shard.entries) and not self._switch.is_stopping:
            assert self._tasks is not None
            self._writing.append(self._tasks.create_task(self._write(self._stream.number(index))))

    async def _write(self, number: int) -> None:
        await asyncio.get_running_loop().run_in_executor(self._writer, self._stream.write, number)
        self._end_shard(self._stream.shards[number])

    def _end_shard(self, shard: StreamedShard) -> None:
        shard.is_over = True
        shard.spool.close()
        shards = self._stream.shards
        while self._first < len(shards) and shards[self._first].is_over:
            self._first += 1
        kept, self._kept = self._kept, []
        for index in kept:
            self._give_away_in_turn(index)

    def _give_away_in_turn(self, index: int) -> None:
        """Give the bytes of an entry away, unless its shard is too far ahead of the first that is open."""
        if self._stream.number(index) < self._first + AHEAD:
            self.give_away(index)
        else:
            self._kept.append(index)
