"""A frozen manifest: validated as a whole, sealed in a file, indexed in memory. ``freezing.py`` makes it."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Self

import msgspec

from cfetch.base.errors import LocalFault
from cfetch.base.records import NOT_DECODED
from cfetch.manifest.entry import Entry
from cfetch.manifest.fields import Headers
from cfetch.manifest.folding import KEEPS_NAMES, Folding, fold_path
from cfetch.manifest.plan_file import PlanFile, PlanTotals

FILE_NAME = "entries.msgpack"
PREPARED_NAME = "about.json"  # its place in a plan that Spark has prepared; JSON, as numbers may be large


class PlanAbout(msgspec.Struct, array_like=True):
    """The part of a plan's file that is about all entries."""

    source: str
    headers: Headers
    merged: int


class Plan:
    """A frozen manifest, as the ports of ``entries.py`` say; ``plan.entry(i)`` is entry ``i``.

    ``headers`` go with every request, ``merged`` is how many repeated entries were dropped, ``source`` is the
    manifest's name for messages. ``notes`` are for the user, ``skipped`` counts the faults of rows that were
    left out, and ``partial`` is as in ``Document``; these three are set only if the manifest was read just
    now. Close the plan, or use it in a ``with``.
    """

    def __init__(
        self,
        file: PlanFile,
        *,
        source: str,
        headers: Headers,
        merged: int,
        notes: Sequence[str] = (),
        skipped: int = 0,
        partial: str | None = None,
    ) -> None:
        self._file = file
        self.source = source
        self.headers = headers
        self.merged = merged
        self.notes = tuple(notes)
        self.skipped = skipped
        self.partial = partial
        self.hosts: tuple[str, ...] = tuple(file.hosts)
        self.digest: str = file.digest
        self.totals: PlanTotals = file.totals
        self.sizes_unknown: int = file.sizes_unknown
        self.sizes: Sequence[int] = file.sizes
        self.host_of: Sequence[int] = file.host_of
        self.batch_of: Sequence[int] | None = file.batch_of

    def __len__(self) -> int:
        return len(self._file)

    @property
    def host_files(self) -> dict[str, int]:
        """Files by host, in the order of their first entries."""
        counts = Counter(self.host_of)
        return {host: counts[number] for number, host in enumerate(self.hosts)}

    @property
    def total_bytes(self) -> int:
        """The sum of the sizes that are known."""
        return self.totals.size_bytes

    @property
    def more_hosts(self) -> int:
        """Zero: ``host_files`` has all hosts."""
        return 0

    @property
    def names_mirrors(self) -> bool:
        """Whether an entry has mirrors."""
        return self._file.names_mirrors

    @property
    def names_batches(self) -> bool:
        """Whether an entry has a batch with a name."""
        return self.batch_of is not None

    @property
    def tasks(self) -> int | None:
        """None: it has not been cut into tasks."""
        return None

    @property
    def floors_s(self) -> Mapping[str, float]:
        """Empty: the time of its hosts is not estimated."""
        return {}

    def entry(self, index: int) -> Entry:
        """Read entry ``index`` from the plan's file; a few microseconds.

        Raises:
            IndexError: there is no such entry.
        """
        return self._file.entry(index)

    def block(self, first: int, end: int) -> list[Entry]:
        """Read the entries from ``first`` to ``end`` or to the last one at once."""
        return self._file.block(first, min(end, len(self)))

    def entries(self) -> Iterator[Entry]:
        """All entries, in their order."""
        return map(self.entry, range(len(self)))

    def find(self, path: str, start_byte: int | None = None, *, folding: Folding = KEEPS_NAMES) -> int | None:
        """The index of the entry with exactly this path; ``start_byte`` selects a piece by its place.

        ``folding``, of a plan that was frozen with it: a path that is the same file will do.
        """
        key = fold_path(path, folding)
        for index in self._file.paths.find(path):
            entry = self.entry(index)
            start = None if entry.piece is None else entry.piece.start_byte
            if fold_path(entry.path, folding) == key and start_byte in (None, start):
                return index
        return None

    def add_notes(self, notes: Iterable[str]) -> None:
        """Add notes for the user about the manifest."""
        self.notes += tuple(notes)

    def save(self, directory: Path) -> None:
        """Save the plan in another directory of its file system too, for ``load_plan``."""
        self._file.save(directory / FILE_NAME)

    def forget_others(self, directory: Path) -> None:
        """Do nothing: ``save`` has replaced the older file."""

    def close(self) -> None:
        """Close the plan's file, which stays."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def load_plan(directory: Path) -> Plan:
    """The plan that ``freeze`` has sealed in ``directory``. Raises LocalFault."""
    file, text = PlanFile.load(directory / FILE_NAME)
    try:
        about = msgspec.msgpack.decode(text, type=PlanAbout)
    except NOT_DECODED:
        file.close()
        raise LocalFault(f"the plan in {directory} is damaged; schedule the manifest again") from None
    return Plan(file, source=about.source, headers=about.headers, merged=about.merged)
