"""A feed of one range over a source that has no log of its own: cfetch observes it and keeps the log.

A reader reads the log (``change_log.py``). Only at its end the source is asked for news, which are written
down before anybody reads them. So whatever the source forgets or repeats, a follower reads each change from
the log as from any feed.
"""

import asyncio
from collections.abc import Callable
from typing import Protocol

from cfetch.base.errors import FeedReplaced
from cfetch.plugins.follow.backends.change_log import ChangeLog, News
from cfetch.plugins.follow.backends.one_range import check_range, list_range, select_keys, span_range
from cfetch.plugins.follow.ranges import KeyRange, Position, Span
from cfetch.plugins.follow.source import Gone, NotModified, Page, Ranges

MAX_TOLD = 100  # files that are named when left out


class Upstream(Protocol):
    """A source in its own protocol. ``shown``: its name for messages; ``account``: its owner. No secrets."""

    shown: str
    account: str

    async def ask(self, cursor: str, list_directories: Callable[[], set[str]]) -> News:
        """Ask for news behind the cursor; "" is the beginning. ``list_directories`` lists those in the log.

        The next call means that the news of this one are written down.

        Raises SourceError, HostileFeed; FeedReplaced, CheckpointExpired: the differences from the log cannot
        be found any more.
        """

    async def close(self) -> None:
        """Close connections."""


class ObservedSource:
    """A ``FeedSource``. ``end`` closes the log; ``tell_left_out`` gets each file that is left out."""

    reads_at_once = 1

    def __init__(
        self,
        upstream: Upstream,
        log: ChangeLog,
        end: Callable[[], object],
        tell_left_out: Callable[[str], None] | None = None,
    ) -> None:
        self._upstream = upstream
        self._log = log
        self._end = end
        self._tell = tell_left_out or (lambda _: None)
        self._told: set[str] = set()
        self._asks = asyncio.Lock()

    async def ranges(self, etag: str | None) -> Ranges | NotModified:
        """List the only range, as ``FeedSource`` says. ``etag`` None: the source is asked for news first."""
        if etag is None:
            await self._observe(self._log.last_lsn())
        return list_range(self._upstream.account, self._log.feed, etag)

    async def info(self, of: str, via: str) -> Span | Gone:
        """The LSNs of the range, as ``FeedSource`` says."""
        return span_range(of, via)

    async def read(
        self, via: str, position: Position, keys: KeyRange, limit: int
    ) -> Page | Gone | NotModified:
        """Read a page of the log; at its end, ask the source."""
        if (gone := check_range(via, position)) is not None:
            return gone
        next_lsn = max(position.next_lsn, 1)
        last_lsn = self._log.last_lsn()
        if next_lsn > last_lsn + 1:
            raise FeedReplaced(f"the log of {self._upstream.shown} was replaced by an older copy")
        if next_lsn > last_lsn:
            await self._observe(last_lsn)
        page = self._log.read_page(next_lsn, limit)
        if not page.changes:
            return NotModified()
        return select_keys(page, keys)

    async def close(self) -> None:
        """Close connections and files, as ``FeedSource`` says."""
        try:
            await self._upstream.close()
        finally:
            self._end()

    async def _observe(self, last_lsn: int) -> None:
        """Ask the source until there is a change behind ``last_lsn``, or nothing new."""
        upstream = self._upstream
        async with self._asks:
            while self._log.last_lsn() == last_lsn:
                cursor = self._log.read_cursor()
                news = await upstream.ask(cursor, self._log.list_directories)
                for reason in self._log.add(news, cursor, upstream.shown):
                    self._tell_left_out(reason)
                if news.is_last:
                    return

    def _tell_left_out(self, reason: str) -> None:
        if reason in self._told or len(self._told) > MAX_TOLD:
            return
        self._told.add(reason)
        more = "; further files that are left out are not named" if len(self._told) > MAX_TOLD else ""
        self._tell(f"{reason}{more}")
