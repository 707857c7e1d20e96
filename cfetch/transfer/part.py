"""A partial file: bytes in order, a running hash, and the one step that makes it a final file."""

import asyncio
import contextlib
import hashlib
import os
from typing import Protocol

from cfetch.errors import Corrupt
from cfetch.manifest.entry import Digest, Entry, SafePath
from cfetch.placement.local import LocalVolume, local_fault
from cfetch.secret import printable

__all__ = ["Part", "hash_and_close"]

READ_BYTES = 1 << 20
READS_PER_TURN = 16  # 16 MiB, 10 ms: the hop to a thread costs nothing beside it, and a stop is prompt


class _Hash(Protocol):
    def update(self, data: bytes, /) -> None: ...
    def hexdigest(self) -> str: ...


async def hash_and_close(descriptor: int, algorithm: str, path: SafePath) -> str:
    """The hex digest of an open file, which is closed afterwards; can be cancelled.

    Small files are read here and now: a thread would cost more than they do. Raises LocalFault.
    """
    running = hashlib.new(algorithm, usedforsecurity=False)

    def read(times: int) -> bool:
        for _ in range(times):
            chunk = file.read(READ_BYTES)
            running.update(chunk)
            if len(chunk) < READ_BYTES:
                return False
        return True

    with os.fdopen(descriptor, "rb") as file:  # closing it waits for a read under way in the thread
        try:
            more = read(1)
            while more:
                more = await asyncio.to_thread(read, READS_PER_TURN)
        except OSError as error:
            raise local_fault(error, f"cannot read {printable(path)}") from None
    return running.hexdigest()


class Part:
    """One entry's bytes on their way. Its file is made at the first byte, so a refused entry costs no file.

    ``position`` is the number of bytes held; the hash covers exactly those. ``validator`` is the strong ETag
    under which they came: only bytes of the same ETag may follow them.
    """

    __slots__ = ("_algorithm", "_fd", "_hash", "_made", "_name", "_path", "_volume", "position", "validator")

    def __init__(self, volume: LocalVolume, entry: Entry) -> None:
        self._volume = volume
        self._name = f"{entry.id:012x}"  # fixed length: no manifest can make it too long
        self._path = entry.path
        self._fd = -1
        self._made = False  # a file of ours stands in the staging directory
        self._algorithm = entry.digest.algorithm if entry.digest else None
        self._hash: _Hash | None = self._new_hash()
        self.position = 0
        self.validator: str | None = None

    def _new_hash(self) -> _Hash | None:
        return hashlib.new(self._algorithm, usedforsecurity=False) if self._algorithm else None

    def write(self, data: bytes) -> None:
        """Append. Raises LocalFault when the disk does not take it."""
        if self._fd < 0:
            self._create()
        try:
            written = os.write(self._fd, data)
            while written < len(data):  # a nearly full disk takes a part of it first
                written += os.write(self._fd, memoryview(data)[written:])
        except OSError as error:
            raise local_fault(error, f"cannot write {printable(self._path)}") from None
        if self._hash is not None:
            self._hash.update(data)
        self.position += len(data)

    def restart(self) -> None:
        """Forget the bytes."""
        if self.position == 0:
            return
        try:
            os.ftruncate(self._fd, 0)
            os.lseek(self._fd, 0, os.SEEK_SET)
        except OSError as error:
            raise local_fault(error, f"cannot restart {printable(self._path)}") from None
        self.position = 0
        self.validator = None
        self._hash = self._new_hash()

    def verify(self, size_bytes: int | None, digest: Digest | None) -> str:
        """What vouches for the bytes: the hash's name, ``size`` or ``none``.

        Raises:
            Corrupt: they are not the manifest's file. The part has been emptied.
        """
        if size_bytes is not None and self.position != size_bytes:
            got = self.position
            self.restart()
            raise Corrupt(f"{got} bytes came where the manifest says {size_bytes}")
        if digest is None or self._hash is None:
            return "none" if size_bytes is None else "size"
        if self._hash.hexdigest() != digest.hex:
            self.restart()
            raise Corrupt(f"the {digest.algorithm} of the bytes is not the manifest's")
        return digest.algorithm

    def publish(self, path: SafePath) -> None:
        """Give the verified part its final name."""
        if self._fd < 0:
            self._create()
        try:
            self._close()
        except OSError as error:  # where a network file system tells that it is full
            raise local_fault(error, f"cannot write {printable(self._path)}") from None
        self._volume.publish(self._name, path)
        self._made = False

    def discard(self) -> None:
        """Remove what is there; harmless after ``publish``."""
        if self._fd >= 0:
            with contextlib.suppress(OSError):  # whether its bytes could be kept no longer matters
                self._close()
        if self._made:
            self._volume.discard_part(self._name)
            self._made = False

    def _create(self) -> None:
        self._fd = self._volume.create_part(self._name)
        self._made = True

    def _close(self) -> None:
        descriptor, self._fd = self._fd, -1
        os.close(descriptor)
