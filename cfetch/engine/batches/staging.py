"""A batch under way, and its staging on one volume: from the first entry handed out until the commit."""

from collections.abc import Iterator, Sequence

from cfetch.engine.transfer import Transfer
from cfetch.errors import Blocked
from cfetch.manifest.entry import SafePath
from cfetch.storage.volume import BatchRecord


class Batch:
    """A batch, on whichever volume it is; ``number`` counts in this run, ``id`` is made of the entries.

    ``standing``: entries that were in place when it arrived, and on which volume. ``blocked``: by volume,
    entries in whose place something else stands. ``settled`` entries need nothing more: they are in place,
    and ``paths`` names them, or have failed; ``failed`` counts these. ``joined_bytes``: the bytes of
    ``missing_bytes`` that come in pieces, which are copied to make their files, so they need their room a
    second time.
    """

    __slots__ = (
        "blocked",
        "bytes",
        "copies",
        "entries",
        "failed",
        "home",
        "id",
        "joined_bytes",
        "missing_bytes",
        "moves",
        "name",
        "number",
        "paths",
        "settled",
        "standing",
    )

    def __init__(
        self,
        number: int,
        id: str,  # noqa: A002 - the design's word
        name: str | None,
        entries: Sequence[int],
        size_bytes: int,
    ) -> None:
        self.number = number
        self.id = id
        self.name = name
        self.entries = entries
        self.bytes = size_bytes
        self.home: int | None = None
        self.missing_bytes = 0
        self.joined_bytes = 0
        self.standing: dict[int, int] = {}
        self.copies: dict[int, list[int]] = {}
        self.blocked: list[dict[int, Blocked]] = []
        self.settled: set[int] = set()
        self.paths: dict[int, SafePath] = {}
        self.failed = 0
        self.moves = 0  # moves away from volumes that had begun with it

    @property
    def shown(self) -> str:
        """The name of the batch in messages."""
        return self.name if self.name is not None else self.id[:8]


class Staging:
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
        self.left = len(batch.entries) - len(batch.settled)
        self.transfers: set[Transfer] = set()  # transfers in the hands of workers
        self.staged: list[Transfer] = []  # whole and verified
        self.skipped: list[Transfer] = []  # of a named batch: in place here before
        self.is_over = False

    @property
    def staged_bytes(self) -> int:
        """The bytes of the files that are whole and verified."""
        return sum(transfer.part.position for transfer in self.staged)

    def copies_elsewhere(self) -> Iterator[tuple[int, SafePath]]:
        """Volume and path of files under its names on other volumes: older versions, or duplicates."""
        for transfer in self.staged:
            for index in self.batch.copies.get(transfer.index, ()):
                if index != self.volume_index:
                    yield index, transfer.entry.path

    def record(self, instant: str) -> BatchRecord:
        """Make the record that is written beside its files."""
        batch = self.batch
        standing = [index for index in batch.settled if batch.standing.get(index) == self.volume_index]
        paths = [transfer.entry.path for transfer in (*self.staged, *self.skipped)]
        paths += [batch.paths[index] for index in standing if index in batch.paths]
        return BatchRecord(
            id=batch.id,
            name=batch.name,
            instant=instant,
            entries=len(batch.entries),
            files=len(self.staged) + len(self.skipped) + len(standing),
            bytes=self.staged_bytes,
            why=self.why,
            paths=tuple(sorted(set(paths))),
        )
