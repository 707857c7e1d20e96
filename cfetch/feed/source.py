"""The port to a feed: what lists its ranges, tells the LSNs of one, and reads it.

Every backend passes one suite of tests.

A range that has split or merged is *closed*: it has no more entries of its own, and those that it had are
archived by its live descendants. Asked directly, a backend answers ``Gone``; the entries are had by asking a
live descendant for them: ``read(via, of, …)``. For a live range both are the same.
"""

from enum import IntEnum
from typing import Literal, NamedTuple, Protocol

from cfetch.feed.ranges import KeyRange, Position, Range, Span
from cfetch.manifest.entry import Entry, SafePath


class FeedId(NamedTuple):
    """``account``: who publishes, as scheme and authority; ``id``: new when the feed is made anew."""

    account: str
    id: str


class Ranges(NamedTuple):
    """The live ranges of a feed at one moment, as they came: nothing is checked yet."""

    feed: FeedId
    etag: str
    ranges: tuple[Range, ...]


class NotModified(NamedTuple):
    """Nothing new: the etag is the present one, or the range has no further entries yet."""


class Why(IntEnum):
    """The sub-code of a 410, as Cosmos has them."""

    STALE = 1000  # the name stands for another feed now
    RANGE_GONE = 1002
    SPLITTING = 1007  # or merging: it is being done, and done soon
    MIGRATING = 1008  # the same range, elsewhere


class Gone(NamedTuple):
    """410: the range that was asked (``via``) is not live."""

    why: Why


class Change(NamedTuple):
    """One version of one file. ``entry`` says where its bytes are; None for a delete.

    ``key`` decides to which range it belongs; changes of one path have one key. ``entry.id`` is of no
    meaning.
    """

    lsn: int
    key: int
    path: SafePath
    entry: Entry | None

    @property
    def op(self) -> Literal["upsert", "delete"]:
        """What is to be done with the path."""
        return "delete" if self.entry is None else "upsert"


class Page(NamedTuple):
    """Changes by LSN, rising, with keys as asked; a page without any may still have moved on.

    ``next_lsn``: where to read on. A closed range has been read when that is beyond its last LSN. ``mark``:
    of the change before ``next_lsn``; "" if the feed has none.
    """

    changes: tuple[Change, ...]
    next_lsn: int
    mark: str = ""


class FeedSource(Protocol):
    """All methods raise SourceError when the backend cannot be had (tried again before, where that may help).

    ``ranges(None)`` is asked first, and says which feed this is. When an answer is of another one, all
    methods raise ``FeedReplaced``: the feed was deleted, or made anew. ``HostileFeed``: the answer breaks
    the rules.
    """

    async def ranges(self, etag: str | None) -> Ranges | NotModified:
        """The live ranges, which cover all keys; NotModified if ``etag`` is still theirs.

        Feeds made anew never have an etag of the old one.
        """

    async def info(self, of: str, via: str) -> Span | Gone:
        """The LSNs of range ``of``, by a live range: itself, or a descendant that archives it.

        They do not depend on what is still kept.
        """

    async def read(
        self, via: str, position: Position, keys: KeyRange, limit: int
    ) -> Page | Gone | NotModified:
        """At most ``limit`` changes from ``position`` on, whose keys are in ``keys``.

        They are asked of the live range ``via``, which archives all entries of its ancestors, with whatever
        keys. ``keys`` may reach beyond those of the range. NotModified: a live range has none yet; an archive
        lags behind. Raises also ``CheckpointExpired``: the entries from ``position`` on are not all kept any
        more. ``next_lsn`` 0 is the oldest that is kept, and never expires. ``FeedReplaced``: the change
        before ``position`` has another mark than the position.
        """

    async def close(self) -> None:
        """Let go of connections and files."""
