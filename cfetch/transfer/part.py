"""A partial file: bytes in order, a running hash, and the one step that makes it a final file."""

import contextlib
import errno
import os

import msgspec

from cfetch.errors import Corrupt, LocalFault, VolumeFault
from cfetch.manifest.digests import Hash, new_hash
from cfetch.manifest.entry import Digest, Entry, SafePath
from cfetch.placement.disk import Disk, InlineDisk
from cfetch.placement.leftovers import Leftover, boot_id
from cfetch.placement.local import LocalVolume, volume_fault
from cfetch.placement.source import Source
from cfetch.secret import printable
from cfetch.transfer.resume import WORTH_KEEPING_BYTES, Note, identity, note_for, part_name, proof_of

__all__ = ["INLINE", "Part", "hash_and_close"]

INLINE = InlineDisk()
READ_BYTES = 1 << 20
READS_PER_TURN = 16  # 16 MiB, 10 ms: the hop to a thread costs nothing beside it, and a stop is prompt


async def hash_and_close(descriptor: int, algorithm: str, path: SafePath, disk: Disk = INLINE) -> str:
    """The hex digest of an open file, which is closed afterwards; can be cancelled. Raises LocalFault."""
    running = new_hash(algorithm)
    await _read_and_close(descriptor, running, path, disk)
    return running.hexdigest()


async def _read_and_close(descriptor: int, running: Hash, path: SafePath, disk: Disk) -> None:
    """Small files are read here and now where that may be: a thread would cost more than they do."""

    def read(times: int) -> bool:
        try:
            for _ in range(times):
                chunk = file.read(READ_BYTES)
                running.update(chunk)
                if len(chunk) < READ_BYTES:
                    return False
        except OSError as error:
            raise volume_fault(error, f"cannot read {printable(path)}") from None
        return True

    file = os.fdopen(descriptor, "rb")
    try:
        more = await disk.call(lambda: read(1))
        while more:
            more = await disk.long(lambda: read(READS_PER_TURN))
    finally:
        disk.tidy(file.close)  # it waits for a read under way, which may hang


class Part:
    """One entry's bytes on their way. Its file is made at the first byte, so a refused entry costs no file.

    ``position`` is the number of bytes held; the hash covers exactly those. ``validator`` is the strong ETag
    under which they came: only bytes of the same ETag may follow them.

    A part whose entry has a hash needs nothing but its name to be gone on with by a later run; another one
    gets a note once it is ``WORTH_KEEPING_BYTES`` long (``resume``).
    """

    __slots__ = (
        "_discarded",
        "_disk",
        "_entry",
        "_fd",
        "_hash",
        "_known_identity",
        "_line",
        "_lost",
        "_made",
        "_mirrored",
        "_name",
        "_noted",
        "_volume",
        "fault",
        "position",
        "total_bytes",
        "validator",
    )

    def __init__(self, volume: LocalVolume, entry: Entry, disk: Disk = INLINE) -> None:
        """What touches the file are steps that ``disk`` carries out, in order; all else is known at once."""
        self._volume = volume
        self._disk = disk
        self._line = disk.line
        self._known_identity: str | None = None
        self._name = ""  # until there is a file: most entries of a second run have none
        self._entry = entry
        self._fd = -1
        self._made = False  # a file of ours stands in the staging directory
        self._mirrored = False  # the present bytes' validator is a mirror's, and says nothing in a later run
        self._noted = False  # and a note beside it
        self._discarded = False
        self._lost = False  # the disk has failed to take some of it, and what is there may be anything
        self._hash = self._new_hash()
        self.fault: LocalFault | None = None  # what a step has met that nobody waited for
        self.position = 0
        self.validator: str | None = None
        self.total_bytes: int | None = None  # as the reply stated from which the bytes came

    def _new_hash(self) -> Hash | None:
        return new_hash(self._entry.digest.algorithm) if self._entry.digest else None

    def write(self, data: bytes) -> None:
        """Append. Raises LocalFault when the disk does not take it, or has not taken what came before."""
        self.check()
        self._disk.do(self._append, data, size_bytes=len(data))
        if self._hash is not None:
            self._hash.update(data)
        self.position += len(data)
        if self.position > WORTH_KEEPING_BYTES and not self._noted:
            self._note()

    def check(self) -> None:
        """Raises LocalFault if it cannot come to a good end any more."""
        fault = self.fault or self._line.fault
        if fault is not None:
            raise fault

    @property
    def must_wait(self) -> bool:
        """The disk is behind: whoever has more bytes is to wait for ``room``."""
        return self._disk.must_wait

    async def room(self) -> None:
        """Wait for the disk. Raises LocalFault."""
        await self._disk.room()
        self.check()

    def _append(self, data: bytes) -> None:
        if self.fault is not None:
            return
        try:
            if self._fd < 0:
                self._open()
            written = os.write(self._fd, data)
            while written < len(data):  # a nearly full disk takes a part of it first
                written += os.write(self._fd, memoryview(data)[written:])
        except OSError as error:
            self._lost = error.errno == errno.EIO
            self._failed(volume_fault(error, f"cannot write {printable(self._entry.path)}"))
        except LocalFault as fault:
            self._failed(fault)

    def _failed(self, fault: LocalFault) -> None:
        """In a step: whoever goes on with this part is told; at once, if the step is carried out at once."""
        if self._disk is INLINE:
            raise fault
        self.fault = self.fault or fault

    def _note(self) -> None:
        """Tell later runs under which ETag these bytes came, if there was one and no hash will prove them."""
        if self.validator is None or self._mirrored or self._entry.digest is not None:
            return
        note = msgspec.json.encode(note_for(self._entry, self.validator, boot_id()))
        self._disk.do(self._write_note, note)
        self._noted = True

    def _write_note(self, note: bytes) -> None:
        if self.fault is None:
            try:
                self._volume.note_part(self._name, note)
            except LocalFault as fault:
                self._failed(fault)

    def _forget_note(self) -> None:
        if self._noted:
            self._noted = False
            self._volume.forget_note(self._name)

    async def adopt(self, leftover: Leftover, note: Note | None) -> None:
        """Go on with a dead run's part that ``fits``. Raises LocalFault."""
        self._name = self._own_name()
        if not await self._disk.call(lambda: self._take_over(leftover)):
            return
        self._noted = bool(leftover.note)
        if self._hash is not None:
            await _read_and_close(os.dup(self._fd), self._hash, self._entry.path, self._disk)
        self.position = await self._disk.call(lambda: os.lseek(self._fd, 0, os.SEEK_END))
        if note is not None and note.identity == self._identity:
            self.validator = note.validator

    def _take_over(self, leftover: Leftover) -> bool:
        descriptor = self._volume.adopt_part(leftover, self._name)
        if descriptor is not None:
            self._fd = descriptor
            self._made = True
        return descriptor is not None

    def came_from(self, *, mirror: bool) -> None:
        """The next bytes come from another source, whose validator is not known yet."""
        self._mirrored = mirror
        self.validator = None
        self.total_bytes = None

    def restart(self) -> None:
        """Forget the bytes."""
        if self.position == 0:
            return
        had_note, self._noted = self._noted, False
        self._disk.do(self._empty, had_note)
        self.position = 0
        self.validator = None
        self._hash = self._new_hash()

    def _empty(self, had_note: bool) -> None:
        if self.fault is not None:
            return
        try:
            if had_note:
                self._volume.forget_note(self._name)
            if self._fd < 0:
                self._open()
            os.ftruncate(self._fd, 0)
            os.lseek(self._fd, 0, os.SEEK_SET)
        except OSError as error:
            self._failed(volume_fault(error, f"cannot restart {printable(self._entry.path)}"))
        except LocalFault as fault:
            self._failed(fault)

    def verify(self, size_bytes: int | None, digest: Digest | None) -> str:
        """See ``proof_of``. Raises Corrupt; then the part has been emptied."""
        try:
            return proof_of(self.position, self._hash, size_bytes, digest)
        except Corrupt:
            self.restart()
            raise

    def close(self) -> None:
        """Give the descriptor back; a later write goes on at the end.

        Raises LocalFault: a network file system may tell now that it is full.
        """
        self._disk.do(self._close)

    def _close(self) -> None:
        if self._fd < 0:
            return
        descriptor, self._fd = self._fd, -1
        try:
            os.close(descriptor)
        except OSError as error:
            self._lost = error.errno == errno.EIO
            self._failed(volume_fault(error, f"cannot write {printable(self._entry.path)}"))

    def seal(self) -> None:
        """The part is whole and verified. Raises LocalFault.

        What only its size vouches for is told where it came from: see ``placement.source``.
        """
        self.check()
        self._disk.do(self._seal)

    def _seal(self) -> None:
        if self.fault is not None:
            return
        try:
            if not self._made:
                self._open()
        except LocalFault as fault:
            self._failed(fault)
            return
        if self._fd >= 0 and self._entry.digest is None:
            self._volume.record(self._fd, Source(self._identity, None if self._mirrored else self.validator))
        self._close()

    def publish(self) -> None:
        """Give the verified part its final name. A step: called where the disk carries steps out.

        Raises LocalFault, Blocked.
        """
        if self._discarded:  # its batch went elsewhere while this waited for its turn
            raise VolumeFault(f"{printable(self._entry.path)} was given up")
        self._seal()
        self.check()  # others of its batch may have been published before the disk was given up
        self._volume.publish(self._name, self._entry.path)
        self._made = False
        with contextlib.suppress(LocalFault):  # a note without a part is debris, and does no harm
            self._forget_note()

    def unpublish(self) -> None:
        """Take the final name away again. A step; raises LocalFault."""
        self._volume.unpublish(self._name, self._entry.path)
        self._made = True

    def leave(self, *, whole: bool = False) -> int:
        """Keep what a later run can go on with and remove the rest; the number of bytes kept.

        ``whole``: verified, so its size and its name are proof enough on this boot.
        """
        is_proved = self._entry.digest is not None and self.position > WORTH_KEEPING_BYTES
        lost = self._lost or self.fault is not None or self._volume.lost_writes
        if lost or not (self._noted or is_proved or whole):
            self.discard()
            return 0
        with contextlib.suppress(LocalFault):  # whoever goes on looks at what is really there
            self.close()
        return self.position

    def discard(self) -> None:
        """Remove what is there, if that can be done; harmless after ``publish``.

        What made it useless matters more than what cannot be tidied up: a later run does that.
        """
        self._disk.tidy(self._remove)

    def _remove(self) -> None:
        self._discarded = True
        with contextlib.suppress(LocalFault):
            self._close()
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
