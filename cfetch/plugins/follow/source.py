"""The port to a feed: it lists the ranges, states the LSNs of a range, and reads it.

Every backend passes one suite of tests.

A range that has split or merged is *closed*: it gets no more entries, and its live descendants archive those
that it had. A backend that is asked for it directly answers ``Gone``; a live descendant gives the entries:
``read(via, position, …)``. For a live range, ``via`` and the range of ``position`` are the same.
"""

from enum import IntEnum
from typing import Literal, NamedTuple, Protocol

from cfetch.manifest.entry import Entry, SafePath
from cfetch.plugins.follow.ranges import KeyRange, Position, Range, Span


class FeedId(NamedTuple):
    """``account``: the publisher, as scheme and authority; ``id``: new when the feed is made anew."""

    account: str
    id: str


class Ranges(NamedTuple):
    """The live ranges of a feed at one moment, as the backend sent them: nothing is checked yet."""

    feed: FeedId
    etag: str
    ranges: tuple[Range, ...]


class NotModified(NamedTuple):
    """Nothing new: the etag is the present one, or the range has no further entries yet."""


class Why(IntEnum):
    """The sub-codes of a 410, the same as those of Azure Cosmos DB."""

    STALE = 1000  # the name belongs to another feed now
    RANGE_GONE = 1002
    SPLITTING = 1007  # a split or merge is under way, and soon done
    MIGRATING = 1008  # the same range moves to another place


class Gone(NamedTuple):
    """410: the range that was asked (``via``) is not live."""

    why: Why


class Change(NamedTuple):
    """One version of one file. ``entry`` says where its bytes are; None for a delete.

    ``key`` decides to which range it belongs; changes of one path have one key. ``entry.id`` has no meaning.
    ``waits``: it is applied only when all changes before it are, as a table's new version behind its files.
    """

    lsn: int
    key: int
    path: SafePath
    entry: Entry | None
    waits: bool = False

    @property
    def op(self) -> Literal["upsert", "delete"]:
        """The operation on the path."""
        return "delete" if self.entry is None else "upsert"


class Page(NamedTuple):
    """Changes with the requested keys, by rising LSNs; even a page without changes may move the reader on.

    ``next_lsn``: the next LSN to read. If it is beyond the last LSN of a closed range, that has been read.
    ``mark``: the mark of the change before ``next_lsn``; "" if the feed gives none.
    """

    changes: tuple[Change, ...]
    next_lsn: int
    mark: str = ""


class FeedSource(Protocol):
    """All methods raise SourceError if the backend does not answer, after tries again if those may help.

    ``ranges(None)`` is called first, and names the feed. If an answer comes from another feed, all methods
    raise ``FeedReplaced``: the feed was deleted, or made anew. ``HostileFeed``: the answer breaks the rules.
    ``reads_at_once``: how many reads may be under way.
    """

    reads_at_once: int

    async def ranges(self, etag: str | None) -> Ranges | NotModified:
        """The live ranges, which cover all keys; NotModified if ``etag`` is still theirs.

        A feed that was made anew never has an etag of the old one.
        """

    async def info(self, of: str, via: str) -> Span | Gone:
        """The LSNs of range ``of``, asked of a live range: itself, or a descendant that archives it.

        They do not depend on which entries are still kept.
        """

    async def read(
        self, via: str, position: Position, keys: KeyRange, limit: int
    ) -> Page | Gone | NotModified:
        """At most ``limit`` changes from ``position`` on, whose keys are in ``keys``.

        The request goes to the live range ``via``, which archives all entries of its ancestors, whatever
        their keys. ``keys`` may reach beyond those of the range. NotModified: a live range has none yet, or
        an archive lags behind. Also raises ``CheckpointExpired``: the entries from ``position`` on are not
        all kept any more. ``next_lsn`` 0 means the oldest kept entry, and never expires. ``FeedReplaced``:
        the change before ``position`` has another mark than the position.
        """

    async def close(self) -> None:
        """Close connections and files."""
