"""A partial file: bytes in order, a running hash, and the one step that makes it a final file."""

import asyncio
import contextlib
import errno
import os

import msgspec

from cfetch.errors import Corrupt, LocalFault
from cfetch.manifest.digests import Hash, new_hash
from cfetch.manifest.entry import Digest, Entry, SafePath
from cfetch.placement.leftovers import Leftover, boot_id
from cfetch.placement.local import LocalVolume, local_fault
from cfetch.placement.source import Source
from cfetch.secret import printable
from cfetch.transfer.resume import WORTH_KEEPING_BYTES, Note, identity, note_for, part_name

__all__ = ["Part", "hash_and_close"]

READ_BYTES = 1 << 20
READS_PER_TURN = 16  # 16 MiB, 10 ms: the hop to a thread costs nothing beside it, and a stop is prompt


async def hash_and_close(descriptor: int, algorithm: str, path: SafePath) -> str:
    """The hex digest of an open file, which is closed afterwards; can be cancelled. Raises LocalFault."""
    running = new_hash(algorithm)
    await _read_and_close(descriptor, running, path)
    return running.hexdigest()


async def _read_and_close(descriptor: int, running: Hash, path: SafePath) -> None:
    """Small files are read here and now: a thread would cost more than they do."""

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


class Part:
    """One entry's bytes on their way. Its file is made at the first byte, so a refused entry costs no file.

    ``position`` is the number of bytes held; the hash covers exactly those. ``validator`` is the strong ETag
    under which they came: only bytes of the same ETag may follow them.

    A part whose entry has a hash needs nothing but its name to be gone on with by a later run; another one
    gets a note once it is ``WORTH_KEEPING_BYTES`` long (``resume``).
    """

    __slots__ = (
        "_entry",
        "_fd",
        "_hash",
        "_known_identity",
        "_lost",
        "_made",
        "_mirrored",
        "_name",
        "_noted",
        "_volume",
        "position",
        "total_bytes",
        "validator",
    )

    def __init__(self, volume: LocalVolume, entry: Entry) -> None:
        self._volume = volume
        self._known_identity: str | None = None
        self._name = ""  # until there is a file: most entries of a second run have none
        self._entry = entry
        self._fd = -1
        self._made = False  # a file of ours stands in the staging directory
        self._mirrored = False  # the present bytes' validator is a mirror's, and says nothing in a later run
        self._noted = False  # and a note beside it
        self._lost = False  # the disk has failed to take some of it, and what is there may be anything
        self._hash = self._new_hash()
        self.position = 0
        self.validator: str | None = None
        self.total_bytes: int | None = None  # as the reply stated from which the bytes came

    def _new_hash(self) -> Hash | None:
        return new_hash(self._entry.digest.algorithm) if self._entry.digest else None

    def write(self, data: bytes) -> None:
        """Append. Raises LocalFault when the disk does not take it."""
        if self._fd < 0:
            self._open()
        try:
            written = os.write(self._fd, data)
            while written < len(data):  # a nearly full disk takes a part of it first
                written += os.write(self._fd, memoryview(data)[written:])
        except OSError as error:
            self._lost = error.errno == errno.EIO
            raise local_fault(error, f"cannot write {printable(self._entry.path)}") from None
        if self._hash is not None:
            self._hash.update(data)
        self.position += len(data)
        if self.position > WORTH_KEEPING_BYTES and not self._noted:
            self._note()

    def _note(self) -> None:
        """Tell later runs under which ETag these bytes came, if there was one and no hash will prove them."""
        if self.validator is None or self._mirrored or self._entry.digest is not None:
            return
        note = note_for(self._entry, self.validator, boot_id())
        self._volume.note_part(self._name, msgspec.json.encode(note))
        self._noted = True

    def _forget_note(self) -> None:
        if self._noted:
            self._noted = False
            self._volume.forget_note(self._name)

    async def adopt(self, leftover: Leftover, note: Note | None) -> None:
        """Go on with a dead run's part that ``fits``. Raises LocalFault."""
        self._name = self._own_name()
        descriptor = self._volume.adopt_part(leftover, self._name)
        if descriptor is None:
            return
        self._fd = descriptor
        self._made = True
        self._noted = bool(leftover.note)
        if self._hash is not None:
            await _read_and_close(os.dup(self._fd), self._hash, self._entry.path)
        self.position = os.lseek(self._fd, 0, os.SEEK_END)
        if note is not None and note.identity == self._identity:
            self.validator = note.validator

    def came_from(self, *, mirror: bool) -> None:
        """The next bytes come from another source, whose validator is not known yet."""
        self._mirrored = mirror
        self.validator = None
        self.total_bytes = None

    def restart(self) -> None:
        """Forget the bytes."""
        if self.position == 0:
            return
        self._forget_note()
        if self._fd < 0:
            self._open()
        try:
            os.ftruncate(self._fd, 0)
            os.lseek(self._fd, 0, os.SEEK_SET)
        except OSError as error:
            raise local_fault(error, f"cannot restart {printable(self._entry.path)}") from None
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

    def close(self) -> None:
        """Give the descriptor back; a later write goes on at the end.

        Raises LocalFault: a network file system may tell now that it is full.
        """
        if self._fd < 0:
            return
        descriptor, self._fd = self._fd, -1
        try:
            os.close(descriptor)
        except OSError as error:
            self._lost = error.errno == errno.EIO
            raise local_fault(error, f"cannot write {printable(self._entry.path)}") from None

    def seal(self) -> None:
        """The part is whole and verified. Raises LocalFault.

        What only its size vouches for is told where it came from: see ``placement.source``.
        """
        if not self._made:
            self._open()
        if self._fd >= 0 and self._entry.digest is None:
            self._volume.record(self._fd, Source(self._identity, None if self._mirrored else self.validator))
        self.close()

    def publish(self) -> None:
        """Give the verified part its final name."""
        self.seal()
        self._volume.publish(self._name, self._entry.path)
        self._made = False
        with contextlib.suppress(LocalFault):  # a note without a part is debris, and does no harm
            self._forget_note()

    def leave(self) -> int:
        """Keep what a later run can go on with and remove the rest; the number of bytes kept."""
        is_proved = self._entry.digest is not None and self.position > WORTH_KEEPING_BYTES
        if not (self._noted or is_proved) or self._lost or self._volume.lost_writes:
            self.discard()
            return 0
        with contextlib.suppress(LocalFault):  # whoever goes on looks at what is really there
            self.close()
        return self.position

    def discard(self) -> None:
        """Remove what is there, if that can be done; harmless after ``publish``.

        What made it useless matters more than what cannot be tidied up: a later run does that.
        """
        with contextlib.suppress(LocalFault):
            self.close()
        with contextlib.suppress(LocalFault):
            if self._made:
                self._volume.discard_part(self._name)
            self._made = False
        with contextlib.suppress(LocalFault):
            self._forget_note()

    def _open(self) -> None:
        if self._made:
            self._fd = self._volume.reopen_part(self._name)
            return
        self._name = self._own_name()
        self._fd = self._volume.create_part(self._name)
        self._made = True

    def _own_name(self) -> str:
        link = self._identity if self._entry.digest is None else None
        return part_name(self._entry, boot_id(), link)

    @property
    def _identity(self) -> str:
        if self._known_identity is None:
            self._known_identity = identity(self._entry.url)
        return self._known_identity
