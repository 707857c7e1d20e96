"""A volume that is a bucket: adapts ``ObjectStore`` to the volume's port.

Objects are put under their final names when they are verified: the store makes each visible as a whole. The
objects of a batch are held back until all are there, as far as memory allows. The batch's record says that
it is complete; if it cannot be completed, the objects that this run has put are deleted. No other run can
continue an upload; the next run aborts it.
"""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import cast

import msgspec

from cfetch.base.errors import Blocked, CfetchError, VolumeFault
from cfetch.base.secret import printable
from cfetch.manifest.entry import Entry
from cfetch.storage import volume
from cfetch.storage.buckets.object_part import BucketOfRun, ObjectPart
from cfetch.storage.buckets.object_store import MAX_KEY_BYTES, ObjectStore
from cfetch.storage.directory import foreign_file
from cfetch.storage.files import STATE_NAME
from cfetch.storage.standing_proofs import vouch
from cfetch.storage.volume_values import (
    BATCHES,
    BatchRecord,
    Ended,
    Holding,
    SourceRecord,
    Standing,
    unless_changed,
)

BEGUN = f"{STATE_NAME}/begun"  # one empty object for each batch that is being staged
LOOKS_AT_A_TIME = 32  # look-ups at a time: some 600 a second
MAX_PENDING_FILES = 256  # files that wait to be published; each holds less than one piece
MAX_PENDING_BYTES = 64 << 20


class ObjectPublisher:
    """Makes verified parts visible, several at a time; the number of pending parts is limited.

    ``run`` is its task; after ``drain`` it ends when all parts are visible and reported.
    """

    def __init__(self, bucket: BucketOfRun) -> None:
        self._bucket = bucket
        self.tasks: set[asyncio.Task[None]] = set()
        self._pending_files = self._pending_bytes = 0
        self._draining = False
        self._changed = asyncio.Event()  # set when a task has ended

    def add(self, parts: Sequence[ObjectPart], ended: Ended, record: BatchRecord | None) -> None:
        """Take over verified parts: publish all of them or none, then write the record."""
        size = (len(parts), sum(part.held_bytes for part in parts))
        self._pending_files += size[0]
        self._pending_bytes += size[1]
        task = asyncio.create_task(self._publish(parts, ended, record, size))
        self.tasks.add(task)
        task.add_done_callback(lambda _: self._changed.set())

    async def _publish(
        self, parts: Sequence[ObjectPart], ended: Ended, record: BatchRecord | None, size: tuple[int, int]
    ) -> None:
        objects = self._bucket.objects
        error: CfetchError | None = None
        try:
            objects.confirm()
            if record is not None:
                await objects.wait_for(_mark_of(record.id))
            if parts:
                done, _ = await asyncio.wait(
                    [part.complete() for part in parts], return_when=asyncio.FIRST_EXCEPTION
                )
                for task in done:
                    task.result()
            if record is not None:
                objects.confirm()
                await self._put_record(record)
        except CfetchError as failure:
            error = failure
        for part in parts:
            if error is None:
                part.is_published = True
            else:
                part.discard()
        self._pending_files -= size[0]
        self._pending_bytes -= size[1]
        ended(error)

    async def _put_record(self, record: BatchRecord) -> None:
        key = _record_of(record.id)
        await self._bucket.objects.wait_for(key)
        self._bucket.objects.touch(key)
        try:
            await self._bucket.calls.ask(partial(self._bucket.store.put, key, msgspec.json.encode(record)))
        except VolumeFault:
            self._bucket.objects.delete(key)  # the object may exist nevertheless
            raise

    async def run(self) -> None:
        """Wait for pending parts, until ``drain`` was called and the last part is done."""
        while self.tasks or not self._draining:
            await self._changed.wait()
            self._changed.clear()
            for task in [task for task in self.tasks if task.done()]:
                self.tasks.discard(task)
                task.result()

    def drain(self) -> None:
        """Note that no more parts will come."""
        self._draining = True
        self._changed.set()

    @property
    def is_full(self) -> bool:
        """Whether there are too many pending parts, by number or by the bytes that they hold in memory."""
        return self._pending_files >= MAX_PENDING_FILES or self._pending_bytes >= MAX_PENDING_BYTES

    async def wait_for_room(self) -> None:
        """Wait while ``is_full``."""
        while self.is_full:
            under_way = [task for task in self.tasks if not task.done()]
            await asyncio.wait(under_way, return_when=asyncio.FIRST_COMPLETED)


class ObjectStoreVolume:
    """Implements ``volume.Volume``; ``store`` is the bucket. Made and used in an event loop.

    ``monotonic`` is the run's clock; ``existing``: how objects in place are treated (``--existing``).

    ``run_id`` is unique to this execution: only objects that it has put are ever deleted. ``confirm`` is the
    plan's guard: it raises CfetchError if the plan is no longer this run's; then nothing is put or deleted.
    """

    def __init__(
        self,
        store: ObjectStore,
        *,
        run_id: str,
        confirm: Callable[[], None],
        monotonic: Callable[[], float],
        existing: str = "trust",
        alone: bool = True,
        records: Path | None = None,
    ) -> None:
        """``alone``: no other process brings the same entries, so objects may be withdrawn.

        ``records``: the directory in which runs note objects and open uploads; None: they note nothing.
        """
        self._existing = existing
        self.search: volume.Search | None = None
        self.loans: volume.Loans | None = None  # an upload cannot be read
        self.has_parts = False  # an upload belongs to the process that began it
        self.name = printable(store.url)
        self.bucket = BucketOfRun(
            store,
            run_id=run_id,
            confirm=confirm,
            monotonic=monotonic,
            alone=alone,
            records=records,
        )
        self._store = store
        self._calls = self.bucket.calls
        self._objects = self.bucket.objects
        self._publisher = ObjectPublisher(self.bucket)
        self._begun: set[str] = set()  # ids of batches that have a mark
        self._alone = alone
        self._was_empty = False

    async def open(self) -> None:
        """Abort the uploads of killed runs; look up which batches have marks, and the first objects.

        Raises VolumeFault, also if the store cannot be used at all.
        """
        await self.bucket.abort_dead_uploads()
        self._begun = set(await self._calls.ask(partial(self._store.names, BEGUN)))
        self._was_empty = not await self.bucket.listing.begin() and self._alone

    def new_part(self, entry: Entry) -> ObjectPart:
        """Make a part. Its upload begins with the first whole piece."""
        return ObjectPart(self.bucket, entry)

    def has_nothing_of(self, entry: Entry) -> bool:
        """Whether the prefix was empty and is this process's alone; if not, the store has to be asked."""
        return self._was_empty and not _obstacle(self._store, entry)

    async def verify_existing(self, entry: Entry) -> Standing | None:
        """Verify by the hash that is stored with the object, if the manifest has one.

        The object is not read again.

        Else verify it by size, and by its link if that is known; without a size, only by that link.
        Raises Blocked for a name that no store takes.
        """
        obstacle = _obstacle(self._store, entry)
        if obstacle is not None:
            raise obstacle
        standing = None
        if self._existing != "refetch":
            await self._objects.wait_for(entry.path)
            standing = await _verify_object(self.bucket, self._existing, entry)
        if standing is None and entry.spares_others:
            there = await self._calls.ask(partial(self._store.find_object, entry.path))
            if there is not None and there.about is None:
                raise foreign_file(entry)
        return standing

    async def adopt_leftover(self, entry: Entry, part: volume.PartPort) -> None:
        """Do nothing: an upload belongs to the process that began it."""

    def remove_leftovers(self, entries: Sequence[Entry]) -> None:
        """Do nothing: ``open`` has aborted the uploads of dead runs."""

    async def inspect_batches(self, batches: Sequence[tuple[str, Sequence[Entry]]]) -> list[Holding]:
        """Look up the batches' marks, their records, and the sizes of the objects under their names.

        This takes one request for each object that the listing does not reach.
        """
        if self._was_empty:
            return [Holding(blocked=_find_blocked(self._store, entries)) for _, entries in batches]
        turns = asyncio.Semaphore(LOOKS_AT_A_TIME)

        async def size_of(key: str) -> int | None:
            async with turns:
                return await self.bucket.size_of(key)

        answers = []
        for batch, entries in batches:
            blocked = _find_blocked(self._store, entries)
            free = [n for n in range(len(entries)) if n not in blocked]
            record, *sizes = await asyncio.gather(
                size_of(_record_of(batch)), *(size_of(entries[n].path) for n in free)
            )
            there = {
                n: size_bytes for n, size_bytes in zip(free, sizes, strict=True) if size_bytes is not None
            }
            same_size = [n for n, size_bytes in there.items() if entries[n].size_bytes in (size_bytes, None)]
            learned = {n: size_bytes for n, size_bytes in there.items() if entries[n].size_bytes is None}
            is_begun = batch in self._begun
            answers.append(Holding(record is not None, is_begun, same_size, blocked, learned=learned))
        return answers

    def mark_batch(self, batch: str) -> None:
        """Put an empty object as a mark, before any object of the batch becomes visible."""
        if batch not in self._begun:
            self._begun.add(batch)
            self._objects.put(_mark_of(batch), b"")

    def unmark_batch(self, batch: str) -> None:
        """Remove the mark of the batch, soon."""
        if batch in self._begun:
            self._begun.discard(batch)
            self._objects.delete(_mark_of(batch))

    def publish(
        self, parts: Sequence[volume.PartPort], ended: Ended, record: BatchRecord | None = None
    ) -> None:
        """Publish the parts at the same time as others: each object is visible as soon as it is complete."""
        self._publisher.add(cast("Sequence[ObjectPart]", parts), ended, record)

    def withdraw_batch(self, batch: str, parts: Sequence[volume.PartPort]) -> None:
        """Delete the record, and the objects that this run has put, soon."""
        self._objects.delete(_record_of(batch))
        for part in cast("Sequence[ObjectPart]", parts):
            part.is_published = False
            part.discard()

    async def run(self) -> None:
        """Call ``ObjectPublisher.run``. Never raises LocalFault."""
        await self._publisher.run()

    def drain(self) -> None:
        """Call ``ObjectPublisher.drain``."""
        self._publisher.drain()

    async def wait_for_room(self) -> None:
        """Call ``ObjectPublisher.wait_for_room``."""
        await self._publisher.wait_for_room()

    def oldest_s(self, now_s: float) -> float:
        """Call ``StoreCalls.oldest_s``."""
        return self._calls.oldest_s(now_s)

    def abandon(self, why: str) -> None:
        """Cancel the calls under way; ``is_stuck`` until the store answers again."""

        async def probe() -> None:
            await self._store.find_object(BEGUN)

        self._calls.abandon(why, probe)

    async def close(self) -> None:
        """Wait until unwanted uploads and objects are removed, unless the store does not answer."""
        await self._calls.close(self._publisher.tasks)
        self.bucket.records.close()
        self.bucket.uploads.close()

    def remove_older(self, entry: Entry) -> None:
        """Do nothing: a run deletes only objects that it has put itself."""

    @property
    def left_behind(self) -> int:
        """Always 0: an object that cannot be deleted is whole, and the docs say so."""
        return 0

    @property
    def is_full(self) -> bool:
        """Passes on ``ObjectPublisher.is_full``."""
        return self._publisher.is_full

    async def free_bytes(self) -> int | None:
        """Always None: a store does not state it."""
        return None

    @property
    def written_bytes(self) -> int | None:
        """Always None: only received bytes are known; backpressure stops them if the store is behind."""
        return None

    @property
    def is_behind(self) -> bool:
        """Always false: an entry is under way until the store has it."""
        return False

    @property
    def is_stuck(self) -> bool:
        """Passes on ``StoreCalls.is_stuck``."""
        return self._calls.is_stuck


def _mark_of(batch: str) -> str:
    return f"{BEGUN}/{batch}"


def _record_of(batch: str) -> str:
    return f"{STATE_NAME}/{BATCHES}/{batch}.json"


async def _verify_object(bucket: BucketOfRun, existing: str, entry: Entry) -> Standing | None:
    """The proof for the object under the entry's name, see ``ObjectStoreVolume.verify_existing``."""
    object_ = await bucket.find(entry)
    if object_ is None:
        return None
    about = object_.about
    if entry.digest is not None:
        digest = f"{entry.digest.algorithm}:{entry.digest.hex}"
        is_size = entry.size_bytes in (object_.size_bytes, None)
        return Standing(entry.digest.algorithm) if is_size and about and about.digest == digest else None
    source = None
    if about is not None and about.source is not None:
        source = SourceRecord(about.source, about.etag, object_.size_bytes)
    verified = vouch(source, entry, object_.size_bytes)
    if verified is None or existing == "trust":
        return None if verified is None else Standing(verified)
    etag = None if source is None else source.etag
    return unless_changed(verified, etag, object_.changed_s, object_.size_bytes)


def _find_blocked(store: ObjectStore, entries: Sequence[Entry]) -> dict[int, Blocked]:
    obstacles = {n: _obstacle(store, entry) for n, entry in enumerate(entries)}
    return {n: error for n, error in obstacles.items() if error is not None}


def _obstacle(store: ObjectStore, entry: Entry) -> Blocked | None:
    if entry.piece is not None:
        return Blocked("files are assembled of pieces in directories only; give a directory as --to")
    if store.key_bytes(entry.path) <= MAX_KEY_BYTES:
        return None
    return Blocked(f"its name, with the prefix, is longer than the {MAX_KEY_BYTES} bytes of a key")
