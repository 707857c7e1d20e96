"""The file of a part and the notes beside it: steps that its volume's disk carries out, one after the other.

Bytes in order are appended, and the file's length tells how many are held. A part in ranges is written in
place, and its length tells nothing: before the first byte out of order, the file gets another kind of name
(see ``in_ranges`` in ``resume.py``) and a note that says which bytes are held. When all bytes are there, it
gets its old name again.

The body of a small file that came in one piece stays in memory until ``finish``, or until another step needs
the file. Such files are written one after the other, which takes half the time of a write between the work
for two requests.
"""

import calendar
import contextlib
import errno
import os
import re
from functools import lru_cache
from typing import TYPE_CHECKING

from cfetch.base.errors import LocalFault, VolumeFault
from cfetch.base.secret import printable
from cfetch.manifest.digests import Bytes
from cfetch.manifest.entry import Entry
from cfetch.storage.directory import Directory, spare_foreign
from cfetch.storage.disk import Disk
from cfetch.storage.files import volume_fault
from cfetch.storage.resume import IN_RANGES, beside, encode_note, identity_of, in_ranges, note_for, part_name
from cfetch.storage.staging import Leftover, boot_id
from cfetch.storage.volume_values import SourceRecord

if TYPE_CHECKING:
    from cfetch.storage.held_ranges import HeldRanges

_DATE = re.compile(r"[A-Z][a-z]{2}, (\d{2}) ([A-Z][a-z]{2}) (\d{4}) (\d{2}):(\d{2}):(\d{2}) GMT\Z", re.ASCII)
EPOCH = 1970
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
MOST_NOTED = 200  # ranges in a note, whose size is limited; bytes of further ranges are fetched again
SMALL_BYTES = 64 << 10  # the largest body that may stay in memory; a larger one gains nothing by it


@lru_cache(maxsize=256)  # files that were put on a server together have few dates
def parse_http_date(text: str) -> int | None:
    """Seconds since 1970 of a date in HTTP's form (RFC 9110, 5.6.7); None: it has another form.

    The two obsolete forms are not read.
    """
    match = _DATE.match(text)
    if match is None or match[2] not in _MONTHS:
        return None
    day, year, *time = (int(match[n]) for n in (1, 3, 4, 5, 6))
    if not (1 <= day <= 31 and year >= EPOCH):
        return None
    return calendar.timegm((year, _MONTHS.index(match[2]) + 1, day, *time))


class PartFile:
    """The file of a part. It is created at the first byte, so that a refused entry costs no file.

    ``raises``: steps are carried out at once, and raise LocalFault; else they keep the error as ``fault``,
    and later steps do nothing. In ranges the error is always kept, as another stream may go on. ``lost``: the
    disk has failed to write, and the file's contents are unknown. ``is_second``: another part of the same
    entry is being brought too.
    """

    __slots__ = (
        "_entry",
        "_identity",
        "_is_discarded",
        "_is_made",
        "_is_noted",
        "_is_second",
        "_name",
        "_raises",
        "_volume",
        "fault",
        "fd",
        "keeps_time",
        "lost",
        "unwritten",
    )

    def __init__(
        self,
        volume: Directory,
        entry: Entry,
        *,
        raises: bool,
        is_second: bool = False,
        keeps_time: bool = True,
    ) -> None:
        self._volume = volume
        self._is_second = is_second
        self._entry = entry
        self._raises = raises
        self.keeps_time = keeps_time
        self._identity: str | None = None
        self._name = ""  # computed when the file is created: most entries of a second run need no name
        self._is_made = False  # whether it is in the staging directory
        self._is_noted = False  # whether a note is beside it
        self._is_discarded = False
        self.unwritten = b""  # the whole of a small file that is only in memory
        self.fd = -1
        self.lost = False
        self.fault: LocalFault | None = None

    @property
    def identity(self) -> str:
        """The identity of the entry's own link: see ``resume``."""
        if self._identity is None:
            self._identity = identity_of(self._entry)
        return self._identity

    @property
    def _in_place(self) -> bool:
        """Whether the part is in ranges, by its name."""
        return self._name.startswith(IN_RANGES)

    def _own_name(self) -> str:
        link = self.identity if self._entry.digest is None else None
        name = part_name(self._entry, boot_id(), link)
        return beside(name) if self._is_second else name

    def _note_failure(self, error: OSError | LocalFault, what: str = "") -> None:
        if isinstance(error, OSError):
            self.lost = self.lost or error.errno == errno.EIO
            name = printable(self._entry.path)
            error = self._volume.refusals.judge_bytes(error, self._entry.path, f"cannot {what} {name}")
        if self._in_place or not self._raises:
            self.fault = self.fault or error
        if self._raises:
            raise error from None

    def _open(self) -> None:
        if self._is_made:
            self.fd = self._volume.staging.reopen_part(self._name, in_place=self._in_place)
            return
        self._name = self._own_name()
        self.fd = self._volume.staging.create_part(self._name)
        self._is_made = True
        if self.unwritten:
            self._write(self.unwritten)
            self.unwritten = b""

    def _write(self, data: Bytes) -> None:
        written = os.write(self.fd, data)
        while written < len(data):  # a nearly full disk first takes only some of the bytes
            written += os.write(self.fd, memoryview(data)[written:])

    def append(self, data: Bytes, size_bytes: int | None) -> None:
        """Append bytes. ``size_bytes``: of the file, by the manifest or the reply."""
        if self.fault is not None:
            return
        try:
            if self.fd < 0:
                is_whole = len(data) == size_bytes and len(data) <= SMALL_BYTES
                if is_whole and not self._is_made and not self.unwritten:
                    self.unwritten = bytes(data)
                    return
                self._open()
            self._write(data)
        except (OSError, LocalFault) as error:
            self._note_failure(error, "write")

    def write_at(self, offset: int, data: Bytes) -> None:
        """Write bytes in place."""
        if self.fault is not None:
            return
        try:
            if self.fd < 0:
                self._open()
            written = os.pwrite(self.fd, data, offset)
            while written < len(data):
                written += os.pwrite(self.fd, memoryview(data)[written:], offset + written)
        except (OSError, LocalFault) as error:
            self._note_failure(error, "write")

    def note(self, note: bytes, *, renews: bool = False) -> None:
        """Write a note beside the file; ``renews``: replace an older note."""
        if self.fault is not None:
            return
        try:
            self._volume.staging.note_part(self._name, note, renews=renews)
            self._is_noted = True
        except LocalFault as fault:
            self._note_failure(fault)

    def split_into_ranges(self, note: bytes | None) -> None:
        """Write in place from now on.

        A process that is killed between any two calls leaves one form or the other.
        """
        if self.fault is not None:
            return
        try:
            if not self._is_made:
                self._open()
            before, name = self._name, in_ranges(self._name)
            if note is not None:
                self._volume.staging.note_part(name, note, renews=True)
            self._volume.staging.rename_part(before, name)
            was_noted, self._is_noted = self._is_noted, note is not None
            self._name = name
            self.close()  # it may be open for appending
            if was_noted:
                self._volume.staging.forget_note(before)
        except (OSError, LocalFault) as error:
            self._note_failure(error, "write")

    def join_ranges(self) -> None:
        """Give a part in ranges, when it is whole, its old name: its length is right again."""
        if self.fault is not None:
            return
        try:
            if self.fd < 0:
                self._open()
            before, name = self._name, self._own_name()
            self._volume.staging.rename_part(before, name)
            self._name = name
            if self._is_noted:
                self._is_noted = False
                self._volume.staging.forget_note(before)
        except LocalFault as fault:
            self._note_failure(fault)

    def empty(self) -> None:
        """Remove the note, and then the bytes that it describes."""
        if self.fault is not None:
            return
        try:
            self._forget_note()
            if self._in_place:
                self.close()
                self._volume.staging.discard_part(self._name)
                self._is_made = False
                return
            self.unwritten = b""
            if not self._is_made:
                return
            if self.fd < 0:
                self._open()
            os.ftruncate(self.fd, 0)
            os.lseek(self.fd, 0, os.SEEK_SET)
        except (OSError, LocalFault) as error:
            self._note_failure(error, "restart")

    def _forget_note(self) -> None:
        if self._is_noted:
            self._is_noted = False
            self._volume.staging.forget_note(self._name)

    def close(self, *, is_kept: bool = False) -> None:
        """Close the file; a later write opens it again.

        ``is_kept``: for a later run, so bytes that are only in memory are written before.
        """
        try:
            if is_kept and self.unwritten and self.fault is None:
                self._open()
        except (OSError, LocalFault) as error:
            self._note_failure(error, "write")
        if self.fd < 0:
            return
        descriptor, self.fd = self.fd, -1
        try:
            os.close(descriptor)
        except OSError as error:
            self._note_failure(error, "write")

    def finish(self, validator: str | None, last_modified: str | None = None) -> None:
        """Note that the file is whole. Note source and ETag on the file, if anybody may need them later.

        They prove a file without a hash, and that a name which a server has chosen is cfetch's to replace.

        Before that, the file gets the time of ``last_modified``, the reply's header, as the record of the
        source may hold that time.
        """
        if self.fault is not None:
            return
        try:
            if not self._is_made:
                self._open()
        except (OSError, LocalFault) as error:
            self._note_failure(error, "write")
            return
        changed_s = parse_http_date(last_modified) if self.keeps_time and last_modified else None
        if self.fd >= 0 and changed_s is not None:
            with contextlib.suppress(OSError):  # some file systems cannot set the time
                os.utime(self.fd, (changed_s, changed_s))
        if self.fd >= 0 and self._entry.piece is None and self._has_record():
            source = SourceRecord(
                self.identity, validator, self._entry.size_bytes
            )  # a whole part has this size
            self._volume.sources.note(self.fd, self._entry.path, source)
        self.close()

    def _has_record(self) -> bool:
        """Whether the file gets the record of its source.

        So does one that replaces a file with a record: a list without hashes would fetch it once more.
        """
        path = self._entry.path
        if self._entry.digest is None or self._entry.is_named_by_server:
            return True
        return not self._volume.was_free(path) and self._volume.sources.find(path) is not None

    @property
    def is_finished(self) -> bool:
        """Whether all bytes are in the file, and the file is closed."""
        return self._is_made and self.fd < 0

    def check(self) -> None:
        """Raise LocalFault if the file cannot be published."""
        if self._is_discarded:  # its batch moved while this step waited for its turn
            raise VolumeFault(f"{printable(self._entry.path)} was given up")
        if self.fault is not None:
            raise self.fault

    def publish(self) -> None:
        """Give the file its final name. Raises LocalFault, Blocked."""
        spare_foreign(self._volume, self._entry)
        self._volume.publish(self._name, self._entry.path)
        self._is_made = False
        if self._is_noted:  # few parts have a note
            with contextlib.suppress(LocalFault):  # a note without a part is useless, and does no harm
                self._forget_note()

    def unpublish(self) -> None:
        """Undo ``publish``. Raises LocalFault."""
        self._volume.unpublish(self._name, self._entry.path)
        self._is_made = True

    def remove(self) -> None:
        """Remove the file and its note, if possible."""
        self._is_discarded = True
        self.unwritten = b""
        with contextlib.suppress(LocalFault):
            self.close()
        with contextlib.suppress(LocalFault):
            if self._is_made:
                self._volume.staging.discard_part(self._name)
            self._is_made = False
        with contextlib.suppress(LocalFault):
            self._forget_note()

    def set_aside(self) -> Leftover | None:
        """Leave the closed file where it is, for others; None: there is none. This is a step.

        A later step of this part does not touch it, and a publish that waits for its turn does not happen.
        """
        is_made, self._is_made, self._is_noted = self._is_made, False, False
        self._is_discarded = True
        if not is_made or self.lost:
            return None
        with contextlib.suppress(OSError):
            return self._volume.staging.find_leftover(self._name)
        return None

    def take_over(self, leftover: Leftover) -> bool:
        """Become a dead run's part; False: another run was faster. Raises LocalFault."""
        is_in_ranges = leftover.name.startswith(IN_RANGES)
        self._name = in_ranges(self._own_name()) if is_in_ranges else self._own_name()
        descriptor = self._volume.staging.adopt_part(leftover, self._name)
        if descriptor is None:
            return False
        self.fd = descriptor
        self._is_made = True
        self._is_noted = bool(leftover.note)
        return True

    def end(self, most_bytes: int | None = None) -> int:
        """Go to the end of the file, cut to ``most_bytes``; return its length. Raises LocalFault."""
        try:
            length = os.lseek(self.fd, 0, os.SEEK_END)
            if most_bytes is None or length <= most_bytes:
                return length
            os.ftruncate(self.fd, most_bytes)
            return os.lseek(self.fd, most_bytes, os.SEEK_SET)
        except OSError as error:
            raise volume_fault(error, f"cannot read {printable(self._entry.path)}") from None

    def reader(self, offset: int) -> int:
        """A new descriptor for reading the file from ``offset`` on. Raises LocalFault."""
        if self.fault is not None:
            raise self.fault
        descriptor = self._volume.staging.reopen_part(self._name, in_place=True)
        os.lseek(descriptor, offset, os.SEEK_SET)
        return descriptor


class PartNotes:
    """Writes the notes by which later runs can continue a part: see ``resume``.

    ``is_mirrored``: the present bytes' validator is a mirror's, and of no use in a later run. ``is_noted``:
    there is a note about the present bytes. ``unnoted_bytes``: for a part in ranges, the bytes since the
    last note.
    """

    __slots__ = ("_disk", "_entry", "_file", "is_mirrored", "is_noted", "unnoted_bytes")

    def __init__(self, entry: Entry, file: PartFile, disk: Disk) -> None:
        self._entry = entry
        self._file = file
        self._disk = disk
        self.is_mirrored = self.is_noted = False
        self.unnoted_bytes = 0

    def leave_out_mirror(self, validator: str | None) -> str | None:
        """The validator, if it is of use in a later run; None: it is a mirror's, or there is none."""
        return None if self.is_mirrored else validator

    def note_source(self, validator: str | None) -> None:
        """Note the ETag of a part in order, if there is one, and the manifest has no hash."""
        if validator is None or self.is_mirrored or self._entry.digest is not None:
            return
        note = encode_note(note_for(self._entry, validator, boot_id()))
        self._disk.do(self._file.note, note)
        self.is_noted = True

    def encode_ranges(self, ranges: "HeldRanges", validator: str | None) -> bytes | None:
        """The note of a part in ranges; None: a later run could not continue the part."""
        own_validator = self.leave_out_mirror(validator)
        if self._entry.digest is None and own_validator is None:
            return None
        held = ranges.held[:MOST_NOTED]
        note = note_for(self._entry, own_validator, boot_id(), held=held, total_bytes=ranges.size_bytes)
        return encode_note(note)

    def note_ranges(self, ranges: "HeldRanges", validator: str | None) -> None:
        """Note which bytes are held now; this replaces an older note."""
        self.unnoted_bytes = 0
        note = self.encode_ranges(ranges, validator)
        if note is not None:
            self._disk.do(lambda: self._file.note(note, renews=True))
