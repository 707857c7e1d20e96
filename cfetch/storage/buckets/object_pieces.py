"""The bytes of an object as they come: hashed, cut into pieces, and sent one piece after the other."""

import asyncio
from collections import deque
from collections.abc import Iterator
from functools import partial

from cfetch.base.errors import VolumeFault
from cfetch.manifest.digests import Bytes
from cfetch.manifest.entry import Digest, Entry
from cfetch.manifest.hashing import Hash, new_hash
from cfetch.storage.buckets.object_store import PIECE_BYTES, About, Upload, piece_bytes_for
from cfetch.storage.buckets.object_uploads import OpenUploads
from cfetch.storage.buckets.store_calls import StoreCalls

MOST_UNSENT = 2  # pieces: one that is being sent, and one that is ready next


class Sending:
    """One upload, and the pieces that are not sent yet."""

    def __init__(
        self, calls: StoreCalls, uploads: OpenUploads, key: str, upload: Upload, about: About
    ) -> None:
        self._calls = calls
        self._uploads = uploads
        self._key = key
        self._is_noted = False
        self._upload = upload
        self.about = about
        self._pieces: deque[bytes] = deque()
        self._task: asyncio.Task[None] | None = None
        self._progress = asyncio.Event()
        self.fault: VolumeFault | None = None

    @property
    def is_behind(self) -> bool:
        """Whether so much is unsent that callers with more bytes have to wait."""
        return len(self._pieces) >= MOST_UNSENT

    def send_whole(self, piece: bytes) -> None:
        """Send a whole piece soon. Raises LocalFault: it cannot be noted that an upload begins."""
        if not self._is_noted:
            self._uploads.begin(self._key)
            self._is_noted = True
        self.send(piece)

    def send(self, piece: bytes) -> None:
        """Send the piece soon; a fault is kept for later."""
        if self.fault is not None:
            return
        self._pieces.append(piece)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._send())

    async def _send(self) -> None:
        try:
            while self._pieces:
                await self._calls.ask(partial(self._upload.write, self._pieces[0]))
                self._pieces.popleft()
                self._progress.set()
        except VolumeFault as fault:
            self.fault = fault
        finally:
            self._pieces.clear()
            self._progress.set()

    async def wait_for_room(self) -> None:
        """Wait while ``is_behind``. Raises VolumeFault."""
        while self.is_behind:
            self._progress.clear()
            await self._progress.wait()
        if self.fault is not None:
            raise self.fault

    async def complete(self) -> str | None:
        """Make the object visible; return its ETag, if it is known.

        Raises VolumeFault; then the upload is ended, if possible.
        """
        try:
            await self._wait_until_sent()
            if self.fault is not None:
                raise self.fault
            await self._calls.ask(self._upload.complete)
            self._forget()
            return self._upload.etag
        except VolumeFault as fault:
            self.fault = fault
            self.end()
            raise

    def end(self) -> None:
        """Remove the upload from the store, soon."""
        while len(self._pieces) > 1:
            self._pieces.pop()
        self._calls.tidy(self._end)

    async def _end(self) -> None:
        # A cancelled first piece may leave an upload whose name is not known here.
        await self._wait_until_sent()
        await self._upload.abort()
        if self.fault is None:
            self._forget()

    def _forget(self) -> None:
        """Note that the upload is over; after a fault the store may still have it."""
        if self._is_noted:
            self._is_noted = False
            self._uploads.end(self._key)

    async def _wait_until_sent(self) -> None:
        if self._task is not None:
            await asyncio.wait([self._task])
            self._task.result()


class UploadPieces:
    """The bytes of an entry as they come: hashed, and cut into the pieces of an upload.

    ``position``: how many bytes have come, all of which are in ``hash``. ``held_bytes``: how many of them
    have come since the last whole piece.
    """

    def __init__(self, entry: Entry) -> None:
        self._size_bytes = entry.size_bytes
        digest = entry.digest
        self.hash: Hash | None = new_hash(digest.algorithm, entry.size_bytes) if digest else None
        self.position = self.held_bytes = 0
        self.piece_bytes = PIECE_BYTES
        self._held: list[bytes] = []
        self._whole: tuple[int, Hash | None] = (0, None)  # position and hash at the end of the last piece

    def begin(self, total_bytes: int | None, stated: Digest | None) -> None:
        """Choose the size of the pieces before the first byte; size and hash come from the reply."""
        self.piece_bytes = piece_bytes_for(self._size_bytes or total_bytes)
        if self.hash is None and stated is not None:
            self.hash = new_hash(stated.algorithm)

    def add(self, data: Bytes) -> Iterator[bytes]:
        """Take more bytes, and yield the pieces that are complete now."""
        while self.held_bytes + len(data) >= self.piece_bytes:
            rest = self.piece_bytes - self.held_bytes
            self._take(data[:rest])
            data = data[rest:]
            piece = self.take_rest()
            self._whole = (self.position, self.hash.copy() if self.hash is not None else None)
            yield piece
        if data:
            self._take(data)

    def _take(self, data: Bytes) -> None:
        self._held.append(bytes(data))  # the caller uses the memory of a ``memoryview`` again
        self.held_bytes += len(data)
        self.position += len(data)
        if self.hash is not None:
            self.hash.update(data)

    def take_rest(self) -> bytes:
        """Take the bytes that are no whole piece yet; after this no bytes are held."""
        held, self._held, self.held_bytes = self._held, [], 0
        return b"".join(held)

    def go_back_to_whole_pieces(self) -> bool:
        """Forget the bytes after the last whole piece; False: there is no whole piece."""
        position, running = self._whole
        if not position:
            return False
        self.take_rest()
        self.position = position
        self.hash = running.copy() if running is not None else None
        return True
