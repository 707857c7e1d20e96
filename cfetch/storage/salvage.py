"""The parts of dead runs, by the entries that may go on with them."""

from collections import defaultdict
from collections.abc import Collection
from functools import partial

import msgspec

from cfetch.manifest.entry import Entry
from cfetch.storage.directory import Directory
from cfetch.storage.disk import Disk
from cfetch.storage.leftovers import BATCH, IN_RANGES, Leftover, boot_id
from cfetch.storage.part import INLINE, Part
from cfetch.storage.resume import Note, fits, part_name, read_note

__all__ = ["Salvage"]


class Salvage:
    """As many as dead runs had under way and waiting; each is used at most once.

    Raises:
        LocalFault: what dead runs had published cannot be made durable.
    """

    def __init__(self, volume: Directory, disk: Disk = INLINE) -> None:
        self._volume = volume
        self._disk = disk
        self._found: defaultdict[str, list[tuple[Leftover, Note | None]]] = defaultdict(list)
        self._marks: dict[str, list[Leftover]] = {}
        for leftover in volume.leftovers():
            if leftover.name.startswith(BATCH):
                self._marks.setdefault(leftover.name.removeprefix(BATCH), []).append(leftover)
                continue
            note = read_note(leftover.note)
            tells_ranges = note is not None and note.held is not msgspec.UNSET
            if tells_ranges is not leftover.name.startswith(IN_RANGES):
                volume.drop_leftover(leftover)  # nobody can tell what of it is held
                continue
            self._found[leftover.name if note is None else note.path].append((leftover, note))

    @property
    def begun_batches(self) -> Collection[str]:
        """The ids of batches that dead runs were staging here."""
        return self._marks.keys()

    def unmark_batch(self, batch: str) -> None:
        """The batch is done, or goes elsewhere."""
        for leftover in self._marks.pop(batch, ()):
            self._disk.tidy(partial(self._volume.drop_leftover, leftover))

    async def adopt_leftover(self, entry: Entry, part: Part) -> None:
        """Let ``part`` go on with the one that fits and holds most; the others of this entry are removed."""
        found = self._of(entry)
        while found:
            leftover, note = found.pop()
            if not part.position and fits(note, entry, leftover.size_bytes, boot_id()):
                await part.adopt(leftover, note)
            else:
                self._disk.tidy(partial(self._volume.drop_leftover, leftover))

    def remove_leftovers(self, entry: Entry) -> None:
        """The entry is in place: remove what there is of it."""
        for leftover, _ in self._of(entry):
            self._disk.tidy(partial(self._volume.drop_leftover, leftover))

    def _of(self, entry: Entry) -> list[tuple[Leftover, Note | None]]:
        """The one that holds least comes first."""
        if not self._found:
            return []
        found = self._found.pop(entry.path, []) + self._found.pop(part_name(entry, boot_id()), [])
        return sorted(found, key=_held_bytes)


def _held_bytes(found: tuple[Leftover, Note | None]) -> int:
    leftover, note = found
    if note is None or not isinstance(note.held, tuple):
        return leftover.size_bytes
    return sum(end - start for start, end in note.held)
