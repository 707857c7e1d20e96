"""Two ports: the entries that an engine brings, and a frozen manifest, whoever has frozen it.

An engine decides by sizes and hosts, which are in memory for all entries, and reads an entry only when its
turn has come. A manifest may be frozen on this machine (``plan.Plan`` keeps both ports) or by Spark, which
cuts it into the batches of tasks and never holds all of it in one place.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from cfetch.manifest.entry import Entry
from cfetch.manifest.fields import Headers


class Entries(Protocol):
    """What the worker pool asks about the entries of its run. They are numbered from 0."""

    @property
    def headers(self) -> Headers:
        """They go with every request."""

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
        """Whether an entry has mirrors, so that its own host does not tell when it may start."""

    def __len__(self) -> int: ...

    def entry(self, index: int) -> Entry:
        """Read one entry; a few microseconds."""


class Frozen(Protocol):
    """What a use case asks about a frozen manifest."""

    @property
    def source(self) -> str:
        """The manifest's name for messages."""

    @property
    def headers(self) -> Headers:
        """They go with every request."""

    @property
    def merged(self) -> int:
        """How many repeated entries were dropped."""

    @property
    def digest(self) -> str:
        """SHA-256 of what the entries state, as hex."""

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
        """Files by host; of very many hosts only those with most."""

    @property
    def more_hosts(self) -> int:
        """How many hosts ``host_files`` leaves out."""

    @property
    def tasks(self) -> int | None:
        """Into how many tasks it has been cut; None: it has not been cut."""

    @property
    def floors_s(self) -> Mapping[str, float]:
        """Seconds that the slowest hosts take however many tasks there are, as far as anybody has asked."""

    def __len__(self) -> int: ...

    def entries(self) -> Iterator[Entry]:
        """All of them, in any order. Raises LocalFault."""

    def find(self, path: str) -> int | None:
        """The number of the entry with exactly this path. Raises LocalFault."""

    def save(self, directory: Path) -> None:
        """Put the plan into another directory of its file system as well. Raises OSError, LocalFault."""

    def forget_others(self, directory: Path) -> None:
        """Remove what earlier calls of ``save`` have left in ``directory``, but for the last."""
