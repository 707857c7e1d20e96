"""An entry's bytes on their way to an object store: hashed as they come, sent in pieces, visible at the end.

No byte is on this machine's disk. Bytes that have not been sent are in memory, and their number is limited:
by backpressure while bytes come, and by ``free_memory`` while the part waits for its next try or its batch.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

from cfetch.base.errors import Corrupt
from cfetch.manifest.digests import Bytes
from cfetch.manifest.entry import Digest, Entry
from cfetch.storage.buckets.object_listing import ListedPages, judge_listed
from cfetch.storage.buckets.object_pieces import Sending, UploadPieces
from cfetch.storage.buckets.object_records import ObjectRecords, records_name
from cfetch.storage.buckets.object_store import (
    About,
    FoundObject,
    ObjectStore,
)
from cfetch.storage.buckets.object_uploads import OpenUploads, abort_dead_uploads
from cfetch.storage.buckets.store_calls import StoreCalls
from cfetch.storage.etags import keep_etag
from cfetch.storage.held_ranges import HeldRanges, Segment
from cfetch.storage.resume import identity_of, proof_of
from cfetch.storage.volume import Sink

AT_A_TIME = 16  # objects that are made visible at the same time; a small one takes a round trip of some 50 ms
MAX_HELD_BYTES = 64 << 20  # for all parts of a volume that wait for their next try or for their batch


class OwnObjects:
    """Objects that this run puts or deletes besides its parts' uploads; steps at one key run in order.

    ``run_id`` is unique to this execution: only objects that it has put are ever deleted. ``confirm`` is the
    plan's guard: it raises CfetchError if the plan is no longer this run's, and then nothing is deleted.
    If this process is not ``alone``, nothing is ever undone: another one may have reported the same object.
    ``touch`` is called with each key whose object this run changes.
    """

    def __init__(
        self,
        store: ObjectStore,
        calls: StoreCalls,
        *,
        run_id: str,
        confirm: Callable[[], None],
        alone: bool,
        touch: Callable[[str], None],
    ) -> None:
        self._alone = alone
        self.touch = touch
        self.run_id = run_id
        self.confirm = confirm
        self._store = store
        self._calls = calls
        self._last: dict[str, asyncio.Task[None]] = {}  # the last step by key

    def put(self, key: str, data: bytes) -> None:
        """Schedule a put of the object and return at once."""
        self._do(key, partial(self._store.put, key, data))

    def delete(self, key: str) -> None:
        """Schedule the deletion and return at once; the object need not exist."""
        self._do(key, partial(self._delete, key))

    def undo(self, key: str, after: "asyncio.Task[None]") -> None:
        """Schedule the deletion of an object that this run put; ``after``, which may write it, ends first."""
        if self._alone:
            self._do(key, partial(self._undo, key, after))

    async def wait_for(self, key: str) -> None:
        """Wait for all pending steps at ``key``, so that they cannot undo the next one."""
        last = self._last.get(key)
        if last is not None:
            await asyncio.wait([last])

    async def _undo(self, key: str, after: "asyncio.Task[None]") -> None:
        await asyncio.wait([after])
        object_ = await self._store.find_object(key)
        if object_ is not None and object_.about is not None and object_.about.run == self.run_id:
            await self._delete(key)

    async def _delete(self, key: str) -> None:
        self.confirm()
        await self._store.delete([key])

    def _do(self, key: str, step: Callable[[], Awaitable[None]]) -> None:
        self.touch(key)
        before = self._last.get(key)

        async def follow() -> None:
            if before is not None:
                await asyncio.wait([before])
            await step()

        def forget(task: "asyncio.Task[None]") -> None:
            if self._last.get(key) is task:
                del self._last[key]

        self._last[key] = self._calls.tidy(follow)
        self._last[key].add_done_callback(forget)


class WaitingParts:
    """Parts that wait for their next try or for their batch, and hold bytes in memory meanwhile."""

    def __init__(self) -> None:
        self._parts: dict[ObjectPart, None] = {}  # the longest wait first

    def add(self, part: "ObjectPart") -> None:
        """Add a part; beyond ``MAX_HELD_BYTES`` the parts that wait longest free their memory."""
        self._parts[part] = None
        held_bytes = sum(waiting.held_bytes for waiting in self._parts)
        while held_bytes > MAX_HELD_BYTES:
            oldest = next(iter(self._parts))
            del self._parts[oldest]
            held_bytes -= oldest.held_bytes
            oldest.free_memory()

    def remove(self, part: "ObjectPart") -> None:
        """Remove a part that no longer waits; it keeps its bytes in memory."""
        self._parts.pop(part, None)


class BucketOfRun:
    """An object store in one run: the values that its volume and all its parts share."""

    def __init__(
        self,
        store: ObjectStore,
        *,
        run_id: str,
        confirm: Callable[[], None],
        monotonic: Callable[[], float],
        alone: bool,
        records: Path | None,
    ) -> None:
        self.store = store
        self._alone = alone
        self.calls = StoreCalls(monotonic)
        self.records = ObjectRecords(None if records is None else records / records_name(store.url))
        self.uploads = OpenUploads(records, store.url)
        self._directory = records
        next_page = store.list_pages()
        self.listing = ListedPages(lambda: self.calls.ask(next_page))
        self.objects = OwnObjects(
            store, self.calls, run_id=run_id, confirm=confirm, alone=alone, touch=self.listing.touch
        )
        self.waiting = WaitingParts()
        self.turns = asyncio.Semaphore(AT_A_TIME)

    async def abort_dead_uploads(self) -> None:
        """Abort the uploads that killed runs have left in this store, as far as possible."""
        if self._directory is not None:
            await asyncio.to_thread(abort_dead_uploads, self._directory, os.environ, self.store.url)

    async def find(self, entry: Entry) -> FoundObject | None:
        """The object under the entry's name: by the listing if that is enough, else the store is asked.

        That an object was missing in the listing counts only if no other process brings it meanwhile.

        Raises VolumeFault.
        """
        key = entry.path
        if await self.listing.reaches(key):
            listed = self.listing.find(key)
            if listed is None and self._alone:
                return None
            if listed is not None:
                record = self.records.find(key, listed.size_bytes, listed.etag)
                known = judge_listed(entry, listed, record)
                if known is not None:
                    return known
        object_ = await self.calls.ask(partial(self.store.find_object, key))
        if object_ is not None and object_.about is not None:
            self.records.note(key, object_.size_bytes, object_.etag, object_.about)
        return object_

    async def size_of(self, key: str) -> int | None:
        """The size of the object under ``key``; None if there is none. Raises VolumeFault."""
        if await self.listing.reaches(key):
            listed = self.listing.find(key)
            return None if listed is None else listed.size_bytes
        object_ = await self.calls.ask(partial(self.store.find_object, key))
        return None if object_ is None else object_.size_bytes


class ObjectPart:
    """Implements ``volume.Part``. ``close`` keeps buffered bytes, unless the volume's parts hold too many."""

    segment: Segment | None = None  # it takes bytes only in order
    ranges: HeldRanges | None = None
    has_rest = False

    def __init__(self, bucket: BucketOfRun, entry: Entry) -> None:
        self._bucket = bucket
        self._line = bucket.calls.line
        self._entry = entry
        self._pieces = UploadPieces(entry)
        self._sending: Sending | None = None
        self._completing: asyncio.Task[None] | None = None
        self._is_finished = self._is_discarded = False
        self._is_mirrored = False  # whether its bytes come from a mirror, whose ETag is of no use later
        self.is_published = False  # the object stays, and may no longer be discarded
        self.validator: str | None = None
        self.stated: Digest | None = None
        self.last_modified: str | None = None  # a store's objects have the time at which they were put
        self.total_bytes: int | None = None

    @property
    def position(self) -> int:
        """How many bytes are held, in memory or by the store."""
        return self._pieces.position

    @property
    def held_bytes(self) -> int:
        """The number of bytes that are held in memory."""
        return self._pieces.held_bytes

    def can_split(self, size_bytes: int) -> bool:  # noqa: ARG002
        """Always false: the part takes bytes only in order."""
        return False

    def split_into_ranges(self, size_bytes: int) -> HeldRanges:
        """Never called for a part of an object store."""
        raise NotImplementedError

    def open_segment(self, segment: Segment, *, same_source: bool = True) -> Sink:
        """Never called for a part of an object store."""
        raise NotImplementedError

    def open_second(self) -> "ObjectPart | None":
        """None: two uploads of one object would hold their pieces in memory twice."""
        return None

    async def hash_rest(self) -> None:
        """Do nothing: the hash has seen all bytes."""

    def release_segment(self) -> None:
        """Do nothing: a part of an object store has no segments."""

    def write(self, data: Bytes) -> None:
        """Append bytes. Raises VolumeFault if the store has refused earlier bytes."""
        self.check()
        self._bucket.waiting.remove(self)
        if not self.position:
            self._pieces.begin(self.total_bytes, self.stated)
        for piece in self._pieces.add(data):
            self._upload().send_whole(piece)

    def _upload(self) -> Sending:
        if self._sending is None:
            entry = self._entry
            digest = f"{entry.digest.algorithm}:{entry.digest.hex}" if entry.digest else None
            source, run_id = identity_of(entry) if digest is None else None, self._bucket.objects.run_id
            is_known = digest is None and not self._is_mirrored
            about = About(digest, source, run_id, keep_etag(self.validator) if is_known else None)
            upload = self._bucket.store.upload(entry.path, about, self._pieces.piece_bytes)
            self._sending = Sending(self._bucket.calls, self._bucket.uploads, entry.path, upload, about)
        return self._sending

    def check(self) -> None:
        """Raise VolumeFault if the part can no longer be completed."""
        late = self._sending.fault if self._sending is not None else None
        fault = self._line.result() if self._line.done() else late
        if fault is not None:
            raise fault

    @property
    def must_wait(self) -> bool:
        """Whether whole pieces wait to be sent."""
        return self._sending is not None and self._sending.is_behind

    async def wait_for_room(self) -> None:
        """Wait for the store. Raises VolumeFault."""
        if self._sending is not None:
            await self._sending.wait_for_room()
        self.check()

    def change_source(self, *, mirror: bool) -> None:
        """Note that the next bytes come from another source, whose validator is not known yet."""
        self._is_mirrored = mirror
        self.validator = None
        self.total_bytes = None

    def restart(self) -> None:
        """Forget the bytes: the upload is ended, and the next byte begins another upload."""
        if self.position:
            self._drop()
            self.validator = self.stated = None
            self._pieces = UploadPieces(self._entry)

    def _drop(self) -> None:
        self._bucket.waiting.remove(self)
        self._pieces.take_rest()
        if self._sending is not None:
            self._sending.end()
            self._sending = None

    def verify(self, size_bytes: int | None, digest: Digest | None) -> str:
        """Verify the bytes, see ``proof_of``. Raises Corrupt; then the part is empty."""
        try:
            return proof_of(self.position, self._pieces.hash, size_bytes, digest, self.stated)
        except Corrupt:
            self.restart()
            raise

    def close(self) -> None:
        """Note that the part waits for its next try: see ``free_memory``."""
        self._bucket.waiting.add(self)

    def finish(self) -> None:
        """Note that the part is whole, and may wait for its batch (``free_memory``). Raises VolumeFault."""
        self.check()
        self._is_finished = True
        self._bucket.waiting.add(self)

    def free_memory(self) -> None:
        """Free memory: make a finished part visible now, or forget the bytes after the last whole piece."""
        if self._is_finished:
            self.complete()
        elif not self._pieces.go_back_to_whole_pieces():
            self.restart()

    def complete(self) -> "asyncio.Task[None]":
        """Make the object visible, once; the returned task raises VolumeFault."""
        if self._completing is None:
            self._completing = asyncio.create_task(self._complete())
            self._completing.add_done_callback(_take_exception)
        return self._completing

    async def _complete(self) -> None:
        await self._bucket.objects.wait_for(self._entry.path)
        async with self._bucket.turns:
            if self._is_discarded:
                self._drop()
                return
            self.check()
            sending = self._upload()
            rest = self._pieces.take_rest()
            if rest:
                sending.send(rest)
            self._bucket.waiting.remove(self)
            self._bucket.objects.touch(self._entry.path)
            etag = await sending.complete()
            self._bucket.records.note(self._entry.path, self.position, etag, sending.about)

    def keep_leftover(self, *, whole: bool = False, even_small: bool = False) -> int:  # noqa: ARG002 - no upload is kept
        """Keep the object if it is visible already, so that a later run finds it; else discard it."""
        done = self._completing
        if done is not None and done.done() and not done.cancelled() and done.exception() is None:
            self.is_published = True
            return self.position
        self.discard()
        return 0

    def discard(self) -> None:
        """Remove the object or upload from the store, soon; harmless after it was published."""
        if self.is_published or self._is_discarded:
            return
        self._is_discarded = True
        if self._completing is not None:
            self._bucket.objects.undo(self._entry.path, self._completing)
        else:
            self._drop()


def _take_exception(task: "asyncio.Task[None]") -> None:
    """Read the task's exception, so that the event loop does not report it; callers get it from the task."""
    if not task.cancelled():
        task.exception()
