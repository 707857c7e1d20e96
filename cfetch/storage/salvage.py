"""The parts that dead runs of this plan have left on a volume, and those whose batch has left it.

Each is found by its entry, and continued at most once: by a part of the same volume, or copied to another
volume (``lent_parts.py``).
"""

from collections import defaultdict
from collections.abc import Collection, Iterable
from functools import partial

import msgspec

from cfetch.manifest.entry import Entry
from cfetch.storage.directory import Directory
from cfetch.storage.disk import INLINE, Disk
from cfetch.storage.part import Part
from cfetch.storage.resume import BATCH, IN_RANGES, Note, fits, owner_of, part_name, read_note
from cfetch.storage.staging import Leftover, boot_id

Candidate = tuple[Leftover, Note | None]


class Salvage:
    """The parts of dead runs, by the entries that may continue them.

    There are as many as dead runs had under way and waiting; each is used at most once.

    Raises:
        LocalFault: files that dead runs had published cannot be made durable.
    """

    def __init__(
        self, volume: Directory, disk: Disk = INLINE, leftovers: Iterable[Leftover] | None = None
    ) -> None:
        """``leftovers`` None: those of the directory."""
        self._volume = volume
        self._disk = disk
        self._candidates: defaultdict[str, list[Candidate]] = defaultdict(list)
        self._marks: dict[str, list[Leftover]] = {}
        for leftover in volume.leftovers() if leftovers is None else leftovers:
            if leftover.name.startswith(BATCH):
                self._marks.setdefault(leftover.name.removeprefix(BATCH), []).append(leftover)
            else:
                self.add(leftover)

    def add(self, leftover: Leftover) -> None:
        """Let an entry continue a part, unless it is unknown which bytes the part holds."""
        note = read_note(leftover.note)
        tells_ranges = note is not None and note.held is not msgspec.UNSET
        if tells_ranges is not leftover.name.startswith(IN_RANGES):
            self.remove(leftover)
            return
        self._candidates[leftover.name if note is None else note.path].append((leftover, note))

    def remove(self, leftover: Leftover) -> None:
        """Remove a part that is of no use, soon."""
        self._disk.tidy(partial(self._volume.staging.remove_leftover, leftover))

    @property
    def has_parts(self) -> bool:
        """Whether any part waits for its entry."""
        return bool(self._candidates)

    @property
    def kept_bytes(self) -> int:
        """The bytes of dead runs' parts that wait for their entries, which go on with them.

        Parts of this run do not count, as their entries go to another volume.
        """
        waiting = [each for candidates in self._candidates.values() for each in candidates]
        own_run = self._volume.staging.run if waiting else ""
        return sum(_held_bytes(each) for each in waiting if each[0].run != own_run)

    @property
    def begun_batches(self) -> Collection[str]:
        """The ids of the batches that dead runs had begun here."""
        return self._marks.keys()

    def unmark_batch(self, batch: str) -> None:
        """Remove the mark of a batch that is done or goes elsewhere."""
        for leftover in self._marks.pop(batch, ()):
            self.remove(leftover)

    async def adopt_leftover(self, entry: Entry, part: Part) -> None:
        """Let ``part`` continue the leftover that fits and holds most; remove the entry's other leftovers."""
        while not part.position and (best := self.take_best(entry)) is not None:
            await part.adopt(*best)
        self.remove_leftovers(entry)

    def take_best(self, entry: Entry) -> Candidate | None:
        """Take the leftover that fits and holds most; remove those that do not fit and hold more."""
        candidates = self._take_candidates(entry)
        best = None
        while candidates and best is None:
            leftover, note = candidates.pop()
            if fits(note, entry, leftover.size_bytes, boot_id()):
                best = leftover, note
            else:
                self.remove(leftover)
        for leftover, _ in candidates:
            self.add(leftover)
        return best

    def remove_leftovers(self, entry: Entry) -> None:
        """Remove the parts of an entry that is in place, or has a part that goes on."""
        for leftover, _ in self._take_candidates(entry):
            self.remove(leftover)

    def _take_candidates(self, entry: Entry) -> list[Candidate]:
        """Take the leftovers of an entry, in ascending order of their held bytes."""
        if not self._candidates:
            return []
        name = part_name(entry, boot_id())
        candidates = self._candidates.pop(owner_of(entry), []) + self._candidates.pop(name, [])
        return sorted(candidates, key=_held_bytes)


def _held_bytes(candidate: Candidate) -> int:
    leftover, note = candidate
    if note is None or not isinstance(note.held, tuple):
        return leftover.size_bytes
    return sum(end - start for start, end in note.held)
