"""The notes beside a part, by which a later run can continue it."""

from typing import TYPE_CHECKING

from cfetch.manifest.entry import Entry
from cfetch.storage.disk import Disk
from cfetch.storage.part_file import PartFile
from cfetch.storage.resume import encode_note, note_for
from cfetch.storage.staging import boot_id

if TYPE_CHECKING:
    from cfetch.storage.held_ranges import HeldRanges

MOST_NOTED = 200  # ranges in a note, whose size is limited; bytes of further ranges are fetched again


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
