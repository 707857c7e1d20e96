"""Files of shards on their way into a tar file: in memory, then one after the other in a file of their shard.

A file of its own for each would be made, read and removed again: on a disk this costs more than its bytes.
A spool has no name, so nothing of it is left when its process dies. Files of ``LARGE_BYTES`` are in a file of
their own until they are whole, so that a task's memory does not depend on the sizes of files.
"""

import asyncio
import io
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from typing import IO, TYPE_CHECKING, cast

from cfetch.base.errors import LocalFault
from cfetch.engine.stream_window import StreamWindow
from cfetch.manifest.digests import Bytes
from cfetch.manifest.entry import Entry
from cfetch.storage.files import local_fault
from cfetch.storage.memory_volume import MemoryPart, MemoryVolume
from cfetch.storage.volume_values import BatchRecord, Ended

if TYPE_CHECKING:
    from cfetch.storage.held_ranges import HeldRanges
    from cfetch.storage.volume import PartPort

LARGE_BYTES = 4 << 20
CHUNK_BYTES = 1 << 20
NO_ROOM = "cannot write the files of a shard to Spark's directory for temporary files"


def charge_bytes(size_bytes: int) -> int:
    """What a file counts with in a task's memory: of a large one only what is on its way to the disk."""
    return size_bytes if size_bytes < LARGE_BYTES else LARGE_BYTES // 4


class SpoolRoom:
    """Implements ``memory_volume.Room`` by a window of what files count with."""

    def __init__(self, window: StreamWindow) -> None:
        self._window = window

    def note_size(self, index: int, size_bytes: int) -> bool:
        """Implements ``Room.note_size``."""
        return self._window.note_size(index, charge_bytes(size_bytes))

    def note_bytes(self, index: int, size_bytes: int) -> None:
        """Implements ``Room.note_bytes``; a large file has left the memory."""
        if size_bytes < LARGE_BYTES:
            self._window.note_bytes(index, size_bytes)

    def must_wait(self, index: int) -> bool:
        """Implements ``Room.must_wait``."""
        return self._window.must_wait(index)

    def lend(self, size_bytes: int) -> bool:
        """Implements ``Room.lend``."""
        return self._window.lend(charge_bytes(size_bytes))

    def give_back(self, size_bytes: int) -> None:
        """Implements ``Room.give_back``."""
        self._window.give_back(charge_bytes(size_bytes))


class Spool:
    """The files of one shard, by path. One thread adds, and after the last one another reads."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._file: io.FileIO | None = None
        self._end = 0
        self._places: dict[str, tuple[int, int]] = {}

    def add(self, path: str, chunks: Iterator[Bytes]) -> None:
        """Append a file. Raises OSError."""
        if self._file is None:
            self._file = tempfile.TemporaryFile(dir=self._directory, buffering=0)  # noqa: SIM115
        begin = self._end
        for chunk in chunks:
            with memoryview(chunk) as view:
                written = 0
                while written < len(view):
                    written += self._file.write(view[written:])
            self._end += len(chunk)
        self._places[path] = (begin, self._end - begin)

    def size_bytes(self, path: str) -> int:
        """The size of a file."""
        return self._places[path][1]

    def read_chunks(self, path: str) -> Iterator[bytes]:
        """The bytes of a file, some at a time. Raises OSError."""
        begin, left = self._places[path]
        while left:
            assert self._file is not None
            chunk = os.pread(self._file.fileno(), min(left, CHUNK_BYTES), begin)
            if not chunk:
                raise EOFError(path)
            yield chunk
            begin, left = begin + len(chunk), left - len(chunk)

    def close(self) -> None:
        """Let go of all files."""
        if self._file is not None:
            self._file.close()


class SpoolPart(MemoryPart):
    """A part in memory, or in a file without a name once it is large."""

    __slots__ = ("_file",)

    def __init__(self, volume: "SpoolVolume", entry: Entry, index: int, *, lent_bytes: int = 0) -> None:
        super().__init__(volume, entry, index, lent_bytes=lent_bytes)
        self._file: IO[bytes] | None = None  # then it is the buffer too

    def write(self, data: Bytes) -> None:
        """Take the next bytes. Raises LocalFault."""
        if self.ranges is None and self.position + len(data) >= LARGE_BYTES:
            self._move_to_file()
        try:
            super().write(data)
        except OSError as error:
            raise local_fault(error, NO_ROOM) from None

    def split_into_ranges(self, size_bytes: int) -> "HeldRanges":
        """Implements ``volume.Part.split_into_ranges``. Raises LocalFault."""
        if size_bytes >= LARGE_BYTES:
            self._move_to_file()
        return super().split_into_ranges(size_bytes)

    def _read(self, begin: int, end: int) -> bytes:
        if self._file is None:
            return super()._read(begin, end)
        self._file.seek(begin)
        return self._file.read(end - begin)

    def move_to(self, spool: Spool) -> None:
        """Append the bytes to a spool. Raises OSError."""
        buffer, file, size_bytes = self._buffer, self._file, self.position
        if file is not None:
            file.seek(0)
            spool.add(self.entry.path, iter(lambda: file.read(CHUNK_BYTES), b""))
        elif isinstance(buffer, io.BytesIO):
            with buffer.getbuffer() as view:
                spool.add(self.entry.path, iter([view[:size_bytes]]))
        else:
            with memoryview(buffer) as view, view[:size_bytes] as whole:
                spool.add(self.entry.path, iter([whole]))

    def _move_to_file(self) -> None:
        """Go on in a file, unless the bytes are in one already."""
        if self._file is not None:
            return
        buffer, volume = self._buffer, cast("SpoolVolume", self._volume)
        try:
            file = tempfile.TemporaryFile(dir=volume.directory)  # noqa: SIM115 - ``_drop`` closes it
            buffer.seek(0)
            file.write(buffer.read(self.position))
        except OSError as error:
            raise local_fault(error, NO_ROOM) from None
        self._drop()
        self._file, self._buffer = file, cast("io.BytesIO", file)

    def _drop(self) -> None:
        super()._drop()
        if self._file is not None:
            self._file.close()
            self._file = None


class SpoolVolume(MemoryVolume):
    """Implements ``volume.Volume``: each file goes to the spool of its shard.

    ``spool_of``: the spool of an entry, by its index. ``directory``: where large parts are meanwhile.
    """

    def __init__(self, room: SpoolRoom, spool_of: Callable[[int], Spool], directory: str) -> None:
        super().__init__("memory", room, lambda *_: None, most_bytes=LARGE_BYTES - 1)
        self.directory = directory
        self._spool_of = spool_of
        self._waiting: list[tuple[SpoolPart, Ended]] = []
        self._arrived = asyncio.Event()

    def open_part(self, entry: Entry, index: int) -> SpoolPart:
        """Make a new, empty part."""
        return SpoolPart(self, entry, index)

    def publish(self, parts: Sequence["PartPort"], ended: Ended, record: BatchRecord | None = None) -> None:  # noqa: ARG002 - the port's
        """Let the parts go to their spools, in a thread."""
        self._waiting += ((cast("SpoolPart", part), ended) for part in parts)
        self._arrived.set()

    def drain(self) -> None:
        """Note that no more parts will come."""
        super().drain()
        self._arrived.set()

    async def run(self) -> None:
        """Spool what comes, many files at a time, until ``drain``."""
        while self._waiting or not self._is_draining.is_set():
            await self._arrived.wait()
            self._arrived.clear()
            batch, self._waiting = self._waiting, []
            faults = await asyncio.to_thread(self._spool_all, [part for part, _ in batch])
            for (part, ended), fault in zip(batch, faults, strict=True):
                part.discard()
                ended(fault)

    def _spool_all(self, parts: Sequence[SpoolPart]) -> list[LocalFault | None]:
        faults: list[LocalFault | None] = []
        for part in parts:
            try:
                part.move_to(self._spool_of(part.index))
                faults.append(None)
            except OSError as error:
                faults.append(local_fault(error, NO_ROOM))
        return faults
