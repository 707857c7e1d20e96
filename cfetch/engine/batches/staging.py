"""A batch under way, and its staging on one volume: from the first entry handed out until the commit."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from cfetch.base.errors import Blocked, Unstorable
from cfetch.engine.transfer import Transfer
from cfetch.manifest.entry import Entry
from cfetch.storage.volume_values import BatchRecord


class BatchSize(NamedTuple):
    """The bytes of the entries whose size is stated, and the number of the others.

    ``learned``: the bytes of those of the others whose files were in place.
    """

    known_bytes: int
    unknown: int = 0
    learned: Mapping[int, int] = {}


class Batch:
    """A batch, on whichever volume it is; ``number`` counts in this run, ``id`` is made of the entries.

    As it was found when it arrived: ``standing``: entries that were in place, and on which volume.
    ``blocked``: by volume, entries in whose place something else stands. ``recorded``: the volumes that had
    its record; ``home``: one of these, or that which had its mark; of a named batch also that with its files.

    ``in_place``: entries that are in place and need nothing more; ``failed`` are those that have failed.
    ``joined_bytes``: the bytes of ``missing_bytes`` that come in pieces, which are copied to make their
    files, so they need their room a second time.
    """

    __slots__ = (
        "blocked",
        "copies",
        "entries",
        "failed",
        "home",
        "id",
        "in_place",
        "joined_bytes",
        "missing_bytes",
        "moves",
        "name",
        "number",
        "recorded",
        "size",
        "standing",
    )

    def __init__(
        self,
        number: int,
        id: str,  # noqa: A002 - the design's word
        name: str | None,
        entries: Sequence[int],
        size: BatchSize,
    ) -> None:
        self.number = number
        self.id = id
        self.name = name
        self.entries = entries
        self.size = size
        self.home: int | None = None
        self.missing_bytes = 0
        self.joined_bytes = 0
        self.standing: dict[int, int] = {}
        self.copies: dict[int, list[int]] = {}
        self.blocked: list[dict[int, Blocked | Unstorable]] = []
        self.recorded: set[int] = set()
        self.in_place: dict[int, Entry] = {}
        self.failed: set[int] = set()
        self.moves = 0  # moves away from volumes that had begun with it

    def is_settled(self, index: int) -> bool:
        """Whether nothing more is to be done about an entry: it is in place, or has failed."""
        return index in self.in_place or index in self.failed

    def size_in_place(self, index: int, entry: Entry) -> int:
        """The bytes of an entry's file that was in place."""
        return self.size.learned.get(index, 0) if entry.size_bytes is None else entry.size_bytes

    @property
    def avoids(self) -> frozenset[int]:
        """The volumes on which something stands in the way of its files; none if that is so on all."""
        blocked = {
            volume_index
            for volume_index, faults in enumerate(self.blocked)
            if faults and any(index in faults for index in self.entries)
        }
        return frozenset(blocked) if len(blocked) < len(self.blocked) else frozenset()

    @property
    def shown(self) -> str:
        """The name of the batch in messages."""
        return self.name if self.name is not None else self.id[:8]


class BatchStaging:
    """A batch on a volume: ``unhanded`` entries were not handed out yet, ``left`` have not ended."""

    __slots__ = (
        "batch",
        "is_over",
        "left",
        "skipped",
        "staged",
        "transfers",
        "unhanded",
        "volume_index",
        "why",
    )

    def __init__(self, batch: Batch, volume_index: int, why: str) -> None:
        self.batch = batch
        self.volume_index = volume_index
        self.why = why
        self.unhanded = len(batch.entries)
        self.left = len(batch.entries) - len(batch.in_place) - len(batch.failed)
        self.transfers: set[Transfer] = set()  # transfers in the hands of workers
        self.staged: list[Transfer] = []  # whole and verified
        self.skipped: list[Transfer] = []  # of a named batch: in place here before
        self.is_over = False

    @property
    def shown(self) -> str:
        """The name of the batch in messages."""
        return self.batch.shown

    @property
    def staged_bytes(self) -> int:
        """The bytes of the files that are whole and verified."""
        return sum(transfer.part.position for transfer in self.staged)

    @property
    def lacks_record(self) -> bool:
        """Whether the batch has its files here and no record: its run was killed just before that."""
        batch, here = self.batch, self.volume_index
        if batch.name is not None:
            has_files = bool(self.skipped)
        else:
            has_files = batch.home == here and here in batch.standing.values()
        return has_files and here not in batch.recorded

    @property
    def _homes(self) -> set[int]:
        """The volumes on which its files were when it arrived, and this one."""
        return {self.volume_index, *self.batch.standing.values()}

    @property
    def recorded_elsewhere(self) -> set[int]:
        """The other volumes that had the batch's record when it arrived, if all of it is here now."""
        is_here = self.batch.name is not None or (len(self._homes) == 1 and not self.batch.failed)
        return self.batch.recorded - {self.volume_index} if is_here else set()

    def copies_elsewhere(self) -> Iterator[tuple[int, Entry]]:
        """Volume and entry of files under its names on other volumes: older versions, or duplicates.

        Another volume may also have a file that was in place here; without the record it is not the batch's.
        """
        recorded = self.recorded_elsewhere
        for transfer in self.staged:
            others = self.batch.copies.get(transfer.index, ())
            yield from ((index, transfer.entry) for index in others if index != self.volume_index)
        in_place = {transfer.index: transfer.entry for transfer in self.skipped} | self.batch.in_place
        for number, entry in in_place.items():
            yield from ((index, entry) for index in self.batch.copies.get(number, ()) if index in recorded)

    def record(self, instant: str) -> BatchRecord:
        """Make the record that is written beside its files."""
        batch = self.batch
        standing = [index for index in batch.in_place if batch.standing.get(index) == self.volume_index]
        paths = [transfer.entry.path for transfer in (*self.staged, *self.skipped)]
        paths += [batch.in_place[index].path for index in standing]
        return BatchRecord(
            id=batch.id,
            name=batch.name,
            instant=instant,
            entries=len(batch.entries),
            files=len(self.staged) + len(self.skipped) + len(standing),
            bytes=self.staged_bytes
            + sum(batch.size_in_place(transfer.index, transfer.entry) for transfer in self.skipped)
            + sum(batch.size_in_place(index, batch.in_place[index]) for index in standing),
            why=self.why,
            paths=tuple(sorted(set(paths))),
        )
