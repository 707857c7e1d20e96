"""An entry's bytes on their way to an object store: hashed as they come, sent in pieces, visible at the end.

Nothing of it lies on this machine's disk. What has not been sent is in memory, and that is bounded: by
backpressure while bytes come, and by ``shed`` while the part waits for its next try or for its batch.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Protocol, TypeVar

from cfetch.errors import Corrupt, VolumeFault
from cfetch.manifest.digests import Hash, new_hash
from cfetch.manifest.entry import Digest, Entry
from cfetch.storage.held_ranges import HeldRanges, Segment
from cfetch.storage.object_store import PIECE_BYTES, About, ObjectStore, Upload, piece_bytes_for
from cfetch.storage.resume import identity, proof_of
from cfetch.storage.volume import Sink

__all__ = ["ObjectPart", "Outlet"]

T = TypeVar("T")
MOST_UNSENT = 2  # pieces: one in the sender's hand, one that is ready when it comes back


class Outlet(Protocol):
    """What a part asks of its volume. ``line`` is done, with a fault, once the volume was abandoned."""

    store: ObjectStore
    run_id: str
    line: "asyncio.Future[VolumeFault]"
    turns: asyncio.Semaphore

    async def ask(self, call: Callable[[], Awaitable[T]]) -> T:
        """The answer of the store. Raises VolumeFault, also when the volume is abandoned."""

    def tidy(self, step: Callable[[], Awaitable[None]]) -> object:
        """Carry out a step that only cleans up, whatever becomes of its part meanwhile."""

    def undo(self, key: str, after: "asyncio.Task[None]") -> None:
        """Delete an object if this run has put it; ``after`` is the task that may be at it."""

    async def cleared(self, key: str) -> None:
        """Wait until what was to be deleted under ``key`` until now is gone."""

    def rests(self, part: "ObjectPart") -> None:
        """It waits, for its next try or for its batch, and holds ``held_bytes`` meanwhile."""

    def goes_on(self, part: "ObjectPart") -> None:
        """It waits no longer."""


class _Sending:
    """One upload, and the pieces that it has not taken yet."""

    def __init__(self, outlet: Outlet, upload: Upload) -> None:
        self._outlet = outlet
        self._upload = upload
        self._pieces: deque[bytes] = deque()
        self._task: asyncio.Task[None] | None = None
        self._progress = asyncio.Event()
        self.fault: VolumeFault | None = None

    @property
    def is_behind(self) -> bool:
        """So much is unsent that whoever has more is to wait."""
        return len(self._pieces) >= MOST_UNSENT

    def send(self, piece: bytes) -> None:
        """Soon; a fault is kept for later."""
        if self.fault is not None:
            return
        self._pieces.append(piece)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._send())

    async def _send(self) -> None:
        try:
            while self._pieces:
                await self._outlet.ask(partial(self._upload.write, self._pieces[0]))
                self._pieces.popleft()
                self._progress.set()
        except VolumeFault as fault:
            self.fault = fault
        finally:
            self._pieces.clear()
            self._progress.set()

    async def wait_for_room(self) -> None:
        """Wait while it is behind. Raises VolumeFault."""
        while self.is_behind:
            self._progress.clear()
            await self._progress.wait()
        if self.fault is not None:
            raise self.fault

    async def complete(self) -> None:
        """Make the object visible. Raises VolumeFault; then the upload is ended, as far as may be."""
        try:
            await self._sent()
            if self.fault is not None:
                raise self.fault
            await self._outlet.ask(self._upload.complete)
        except VolumeFault:
            self.end()
            raise

    def end(self) -> None:
        """Leave nothing of it at the store, soon."""
        while len(self._pieces) > 1:
            self._pieces.pop()
        self._outlet.tidy(self._end)

    async def _end(self) -> None:
        await self._sent()  # broken off, a first piece may leave an upload whose name nobody has learned
        await self._upload.abort()

    async def _sent(self) -> None:
        if self._task is not None:
            await asyncio.wait([self._task])
            self._task.result()


class ObjectPart:
    """See ``volume.Part``. ``close`` keeps what is in memory, if that is little for the whole volume."""

    def __init__(self, outlet: Outlet, entry: Entry) -> None:
        self._outlet = outlet
        self._line = outlet.line
        self._entry = entry
        self._hash = self._new_hash()
        self._filling: list[bytes] = []  # what came since the last whole piece
        self.held_bytes = 0  # of these
        self._piece_bytes = PIECE_BYTES
        self._whole_pieces: tuple[int, Hash | None] = (0, None)  # position and hash at their end
        self._sending: _Sending | None = None
        self._completing: asyncio.Task[None] | None = None
        self._is_finished = self._is_committed = self._is_discarded = False
        self.position = 0
        self.validator: str | None = None
        self.total_bytes: int | None = None
        self.segment: Segment | None = None
        self.ranges: HeldRanges | None = None

    def can_split(self, size_bytes: int) -> bool:  # noqa: ARG002
        """It takes bytes in order only."""
        return False

    def split_into_ranges(self, size_bytes: int) -> HeldRanges:
        """Not to be asked for."""
        raise NotImplementedError

    def open_segment(self, segment: Segment, *, same_source: bool = True) -> Sink:
        """Not to be asked for."""
        raise NotImplementedError

    async def hash_rest(self) -> None:
        """The hash has seen it all."""

    def release_segment(self) -> None:
        """Its stream has no segment."""

    def _new_hash(self) -> Hash | None:
        return new_hash(self._entry.digest.algorithm) if self._entry.digest else None

    def write(self, data: bytes) -> None:
        """Append. Raises VolumeFault if the store has not taken what came before."""
        self.check()
        self._outlet.goes_on(self)
        if not self.position:
            self._piece_bytes = piece_bytes_for(self._entry.size_bytes or self.total_bytes)
        while self.held_bytes + len(data) >= self._piece_bytes:
            rest = self._piece_bytes - self.held_bytes
            self._take(data[:rest])
            self._send_piece()
            data = data[rest:]
        if data:
            self._take(data)

    def _take(self, data: bytes) -> None:
        self._filling.append(data)
        self.held_bytes += len(data)
        self.position += len(data)
        if self._hash is not None:
            self._hash.update(data)

    def _send_piece(self) -> None:
        self._upload().send(b"".join(self._filling))
        self._empty()
        self._whole_pieces = (self.position, self._hash.copy() if self._hash is not None else None)

    def _empty(self) -> None:
        self._filling = []
        self.held_bytes = 0

    def _upload(self) -> _Sending:
        if self._sending is None:
            entry = self._entry
            digest = f"{entry.digest.algorithm}:{entry.digest.hex}" if entry.digest else None
            about = About(digest, identity(entry.url) if digest is None else None, self._outlet.run_id)
            upload = self._outlet.store.upload(entry.path, about, self._piece_bytes)
            self._sending = _Sending(self._outlet, upload)
        return self._sending

    def check(self) -> None:
        """Raises VolumeFault if it cannot come to a good end any more."""
        late = self._sending.fault if self._sending is not None else None
        fault = self._line.result() if self._line.done() else late
        if fault is not None:
            raise fault

    @property
    def must_wait(self) -> bool:
        """Whole pieces wait to be sent."""
        return self._sending is not None and self._sending.is_behind

    async def wait_for_room(self) -> None:
        """Wait for the store. Raises VolumeFault."""
        if self._sending is not None:
            await self._sending.wait_for_room()
        self.check()

    def change_source(self, *, mirror: bool) -> None:  # noqa: ARG002 - the store is told of the entry's own link only
        """The next bytes come from another source, whose validator is not known yet."""
        self.validator = None
        self.total_bytes = None

    def restart(self) -> None:
        """Forget the bytes: the upload is ended, and the next byte begins another."""
        if self.position:
            self._drop()
            self.position = 0
            self.validator = None
            self._hash = self._new_hash()
            self._whole_pieces = (0, None)

    def _drop(self) -> None:
        self._outlet.goes_on(self)
        self._empty()
        if self._sending is not None:
            self._sending.end()
            self._sending = None

    def verify(self, size_bytes: int | None, digest: Digest | None) -> str:
        """See ``proof_of``. Raises Corrupt; then the part has been emptied."""
        try:
            return proof_of(self.position, self._hash, size_bytes, digest)
        except Corrupt:
            self.restart()
            raise

    def close(self) -> None:
        """It waits for its next try: see ``shed``."""
        self._outlet.rests(self)

    def finish(self) -> None:
        """It is whole and verified, and may wait for its batch: see ``shed``. Raises VolumeFault."""
        self.check()
        self._is_finished = True
        self._outlet.rests(self)

    def shed(self) -> None:
        """Hold nothing in memory: make a sealed part visible now, or forget what is not yet a whole piece."""
        if self._is_finished:
            self.complete()
            return
        position, running = self._whole_pieces
        if not position:
            self.restart()
            return
        self._empty()
        self.position = position
        self._hash = running.copy() if running is not None else None

    def complete(self) -> "asyncio.Task[None]":
        """Make it visible, once; the task that does it raises VolumeFault."""
        if self._completing is None:
            self._completing = asyncio.create_task(self._complete())
            self._completing.add_done_callback(_look_at)
        return self._completing

    async def _complete(self) -> None:
        await self._outlet.cleared(self._entry.path)
        async with self._outlet.turns:
            if self._is_discarded:
                self._drop()
                return
            self.check()
            sending = self._upload()
            if self._filling:
                sending.send(b"".join(self._filling))
            self._outlet.goes_on(self)
            self._empty()
            await sending.complete()

    def mark_published(self) -> None:
        """It stands for good."""
        self._is_committed = True

    def withdraw(self) -> None:
        """It does not stand for good after all."""
        self._is_committed = False
        self.discard()

    def keep_leftover(self, *, whole: bool = False) -> int:  # noqa: ARG002 - of an upload nothing is kept, whole or not
        """Keep it if it is visible already: a later run finds it there. Otherwise it is discarded."""
        done = self._completing
        if done is not None and done.done() and not done.cancelled() and done.exception() is None:
            self._is_committed = True
            return self.position
        self.discard()
        return 0

    def discard(self) -> None:
        """Leave nothing of it at the store, soon; harmless after it was committed."""
        if self._is_committed or self._is_discarded:
            return
        self._is_discarded = True
        if self._completing is not None:
            self._outlet.undo(self._entry.path, self._completing)
        else:
            self._drop()


def _look_at(task: "asyncio.Task[None]") -> None:
    """Whoever wants its fault asks for it; the event loop need not complain that nobody has."""
    if not task.cancelled():
        task.exception()
