"""A feed of one range over HTTP: a list of changes under a growing serial, as package indexes have.

``GET url?since=N&limit=M`` returns the changes after serial N; docs/feed-protocol.md has the form. It never
splits, and its LSNs are the serials. This module selects by keys, as such a server knows none.
"""

from http import HTTPStatus
from typing import Any

from cfetch.base.errors import CheckpointExpired, HostileFeed, Refused
from cfetch.base.schemes import WEB
from cfetch.base.secret import SecretUrl
from cfetch.manifest.fields import FieldError
from cfetch.manifest.rows import Document
from cfetch.plugins.follow.backends.feed_kind import FeedContext, FeedKind, FeedName, check_url
from cfetch.plugins.follow.backends.http import (
    MAX_LIMIT,
    MAX_REPLY_BYTES,
    make_replaced_error,
    read_feed_document,
)
from cfetch.plugins.follow.backends.one_range import check_range, list_range, select_keys, span_range
from cfetch.plugins.follow.backends.web import Web, open_web
from cfetch.plugins.follow.protocol import SERIAL_SCHEMA, check_id, check_members, parse_change, parse_lsn
from cfetch.plugins.follow.ranges import KeyRange, Position, Span
from cfetch.plugins.follow.source import Gone, NotModified, Page, Ranges

UNNAMED = "serial"  # the id of a feed that does not state one
_EXPECTED = frozenset({404, 410})


class SerialSource:
    """A ``FeedSource``. If the serial goes back or the id changes, it is another feed."""

    reads_at_once = 1

    def __init__(self, url: SecretUrl, web: Web) -> None:
        """``url`` may have a query. ``web`` is closed with this."""
        self._url = url
        self._web = web
        self._feed: str | None = None

    async def ranges(self, etag: str | None) -> Ranges | NotModified:
        """List the live ranges, as ``FeedSource`` says. It asks for one change, to learn the feed's id."""
        await self._fetch_page(0, 1, expired=False)
        assert self._feed is not None
        return list_range(self._url.origin(), self._feed, etag)

    async def info(self, of: str, via: str) -> Span | Gone:
        """Ask for the LSNs of a range, as ``FeedSource`` says."""
        await self.ranges(None)  # the feed may have been made anew
        return span_range(of, via)

    async def read(
        self, via: str, position: Position, keys: KeyRange, limit: int
    ) -> Page | Gone | NotModified:
        """Read a page of a range, as ``FeedSource`` says."""
        if (gone := check_range(via, position)) is not None:
            return gone
        if self._feed is None:
            await self.ranges(None)
        since = max(position.next_lsn - 1, 0)
        page = await self._fetch_page(since, min(limit, MAX_LIMIT), expired=position.next_lsn > 0)
        if page.next_lsn == since + 1 and not page.changes:
            return NotModified()
        return select_keys(page, keys)

    async def close(self) -> None:
        """Close connections and files, as ``FeedSource`` says."""
        await self._web.close()

    async def _fetch_page(self, since: int, limit: int, *, expired: bool) -> Page:
        """Fetch a page. ``expired``: whether the server may have dropped the requested changes."""
        text = self._url.reveal().partition("#")[0]
        url = f"{text}{'&' if '?' in text else '?'}since={since}&limit={limit}"
        answer = await self._web.ask(url, expected=_EXPECTED, max_bytes=MAX_REPLY_BYTES)
        if answer.status == HTTPStatus.GONE and expired:
            await self._fetch_page(0, 1, expired=False)  # raises unless the 410 came from the feed itself
            raise CheckpointExpired(
                f"{self._url} does not keep the changes after serial {since} any more; what came after it "
                "was missed"
            )
        document = read_feed_document(answer.body, answer.status, str(self._url), SERIAL_SCHEMA)
        if answer.status != HTTPStatus.OK:
            raise Refused(f"{self._url} answers HTTP {answer.status}", http_status=answer.status)
        return self._check_page(document, since, limit)

    def _check_page(self, document: dict[str, Any], since: int, limit: int) -> Page:
        what = f"{self._url}: the changes after serial {since}"
        check_members(document, what, ("schema", "changes", "next"), ("feed",))
        try:
            if document["schema"] != SERIAL_SCHEMA:
                raise FieldError(f"their schema is not {SERIAL_SCHEMA}")
            feed = check_id(document.get("feed", UNNAMED))
            if type(document["changes"]) is not list or len(document["changes"]) > limit:
                raise FieldError("they are not an array of at most as many as asked for")
            after = parse_lsn(document["next"])
        except FieldError as error:
            raise HostileFeed(f"{what}: {error}") from None
        if self._feed not in (None, feed) or after < since:
            raise make_replaced_error(str(self._url))
        self._feed = feed
        links = Document(base_url=self._url.reveal())
        rows = (
            parse_change(row, links, f"{what}: change {n}") for n, row in enumerate(document["changes"], 1)
        )
        return Page(tuple(rows), after + 1)


def _open_serial(name: FeedName, context: FeedContext) -> SerialSource:
    return SerialSource(SecretUrl(check_url(name.url)), open_web(context.network, context.clock))


FEED = FeedKind("serial+http(s)://…", _open_serial, WEB)
