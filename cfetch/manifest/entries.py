"""Two ports: the entries that an engine brings, and a frozen manifest, whether Spark has frozen it or not.

An engine decides by sizes and hosts, which are in memory for all entries, and reads an entry only when its
turn has come. A manifest may be frozen on this machine (``plan.Plan`` implements both ports) or by Spark,
which cuts it into shares of tasks and never holds all of it in one place.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from cfetch.manifest.entry import Entry
from cfetch.manifest.fields import Headers


class Entries(Protocol):
    """The port for the worker pool: the entries of its run, numbered from 0."""

    @property
    def headers(self) -> Headers:
        """Headers that go with every request."""

    @property
    def hosts(self) -> Sequence[str]:
        """The hosts that the entries' own URLs name, each once."""

    @property
    def host_of(self) -> Sequence[int]:
        """Index into ``hosts`` by entry."""

    @property
    def sizes(self) -> Sequence[int]:
        """Bytes by entry; -1 is unknown."""

    @property
    def batch_of(self) -> Sequence[int] | None:
        """Number of the named batch by entry, -1 for none; None if no entry has one."""

    @property
    def names_mirrors(self) -> bool:
        """Whether an entry has mirrors; then its own host alone does not decide when it may start."""

    def __len__(self) -> int: ...

    def entry(self, index: int) -> Entry:
        """Read one entry; a few microseconds."""

    def block(self, first: int, end: int) -> Sequence[Entry]:
        """Read the entries from ``first`` to ``end`` or to the last one; half a microsecond each."""


class Frozen(Protocol):
    """The port for a use case: a frozen manifest."""

    @property
    def source(self) -> str:
        """The manifest's name for messages."""

    @property
    def headers(self) -> Headers:
        """Headers that go with every request."""

    @property
    def merged(self) -> int:
        """How many repeated entries were dropped."""

    @property
    def digest(self) -> str:
        """SHA-256 of the entries' contents, as hex."""

    @property
    def total_bytes(self) -> int:
        """Sum of the known sizes."""

    @property
    def sizes_unknown(self) -> int:
        """How many entries state no size."""

    @property
    def names_batches(self) -> bool:
        """Whether an entry has a batch with a name."""

    @property
    def host_files(self) -> Mapping[str, int]:
        """Files by host; if there are very many hosts, only the hosts with most files."""

    @property
    def more_hosts(self) -> int:
        """How many hosts ``host_files`` leaves out."""

    @property
    def tasks(self) -> int | None:
        """The number of tasks into which it has been cut; None: it has not been cut."""

    @property
    def floors_s(self) -> Mapping[str, float]:
        """Seconds that the slowest hosts take with any number of tasks; empty if not estimated."""

    def __len__(self) -> int: ...

    def entries(self) -> Iterator[Entry]:
        """All entries, in any order. Raises LocalFault."""

    def find(self, path: str) -> int | None:
        """The number of the entry with exactly this path. Raises LocalFault."""

    def save(self, directory: Path) -> None:
        """Save the plan in another directory of its file system too. Raises OSError, LocalFault."""

    def forget_others(self, directory: Path) -> None:
        """Remove from ``directory`` the files of all calls of ``save`` before the last one."""
