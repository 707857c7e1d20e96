"""How a check of a feed server asks: pages of changes and the LSNs of ranges, each read strictly.

What an answer by itself says against docs/feed-protocol.md is noticed here; ``conformance.py`` compares
answers.
"""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, NamedTuple

from cfetch.base.errors import SourceError
from cfetch.base.secret import SecretUrl
from cfetch.manifest.rows import Document
from cfetch.plugins.follow.backends.http import MAX_REPLY_BYTES
from cfetch.plugins.follow.backends.web import Web
from cfetch.plugins.follow.lineage import Lineage
from cfetch.plugins.follow.protocol import (
    SCHEMA,
    check_id,
    check_members,
    decode_document,
    format_keys,
    parse_change,
    parse_lsn,
)
from cfetch.plugins.follow.ranges import ALL_KEYS, KeyRange, Span
from cfetch.plugins.follow.source import Change, Page

MAX_PAGES = 50  # of a range: enough for every rule, and a check of a large feed ends soon
LARGE_PAGE = 1000
_STATUSES = frozenset({304, 400, 404, 405, 409, 410, 416, 422})


class WrongAnswer(Exception):
    """The server breaks the rule of the check."""


class FeedReply(NamedTuple):
    """A reply of the feed: ``document`` is empty if it is 304."""

    status: int
    etag: str
    document: dict[str, Any]


class AskedFeed:
    """The feed at ``url``, whose answers raise WrongAnswer where they break the protocol.

    ``id`` and ``lineage`` are what the checks have learned of it: the feed's id and its ranges.
    """

    def __init__(self, url: SecretUrl, web: Web) -> None:
        self._base = url.reveal().rstrip("/") + "/"
        self._web = web
        self.id = ""
        self.lineage: Lineage | None = None

    async def read_span(self, of: str, via: str) -> Span:
        """The LSNs of a range, as the live range ``via`` states them."""
        reply = await self.ask(f"info?feed={self.id}&via={via}&of={of}")
        document = self.expect_document(reply, ("range", "first", "last"), f"info of {of} via {via}")
        if document["range"] != of:
            raise WrongAnswer(f"info of {of} is about range {document['range']}")
        first, last = parse_lsn(document["first"]), document["last"]
        return Span(first, last if last in (None, first - 1) else parse_lsn(last))

    async def read_first(self, of: str, via: str) -> int:
        """The first LSN that a range has kept."""
        reply = await self.ask(f"info?feed={self.id}&via={via}&of={of}")
        document = self.expect_document(reply, ("range", "first", "last"), f"the LSNs of range {of}")
        return parse_lsn(document["first"])

    def name_read(self, of: str, via: str, next_lsn: int, keys: KeyRange, limit: int) -> str:
        """The address of a page, relative to the feed."""
        return (
            f"read?feed={self.id}&via={via}&of={of}&next_lsn={next_lsn}&keys={format_keys(keys)}"
            f"&limit={limit}"
        )

    async def read_all(
        self, of: str, via: str, *, next_lsn: int = 0, keys: KeyRange = ALL_KEYS, limit: int = LARGE_PAGE
    ) -> Page:
        """Read a range to its end, or as far as ``MAX_PAGES`` lead, as one page. All changes are checked."""
        assert self.lineage is not None
        closed = self.lineage.closed.get(of)
        changes: list[Change] = []
        mark = ""
        for _ in range(MAX_PAGES):
            reply = await self.ask(self.name_read(of, via, next_lsn, keys, limit))
            page = self.parse_page(reply, of, next_lsn, limit, keys)
            is_end = page.next_lsn == next_lsn and not page.changes
            changes += page.changes
            next_lsn, mark = page.next_lsn, page.mark
            if closed and next_lsn <= closed.last and is_end:
                raise WrongAnswer(
                    f"range {of} ended at LSN {closed.last}, and does not go on from {next_lsn}"
                )
            if is_end or (closed and next_lsn > closed.last):
                break
        return Page(tuple(changes), next_lsn, mark)

    def parse_page(self, reply: FeedReply, of: str, asked_lsn: int, limit: int, keys: KeyRange) -> Page:
        """The page, if it follows the protocol and is what was asked for."""
        what = f"the page from LSN {asked_lsn} of range {of}"
        document = self.expect_document(reply, ("range", "next_lsn", "changes"), what, ("mark",))
        links = Document(base_url=self._base)
        changes = tuple(
            parse_change(row, links, f"{what}: change {number}")
            for number, row in enumerate(document["changes"], 1)
        )
        next_lsn, last_lsn = parse_lsn(document["next_lsn"]), asked_lsn - 1
        if document["range"] != of:
            raise WrongAnswer(f"{what} is of range {document['range']}")
        if len(changes) > limit:
            raise WrongAnswer(f"{what} has {len(changes)} changes, and {limit} were asked for")
        for change in changes:
            if change.lsn <= last_lsn:
                raise WrongAnswer(f"{what} has LSN {change.lsn} after {last_lsn}")
            if not keys.holds(change.key):
                raise WrongAnswer(f"{what} has {change.path}, whose key was not asked for")
            last_lsn = change.lsn
        if next_lsn <= last_lsn and not (next_lsn == asked_lsn and not changes):
            raise WrongAnswer(f"{what} has next_lsn {next_lsn}, which is not beyond its last change")
        return Page(changes, next_lsn, check_id(document["mark"]) if "mark" in document else "")

    def expect_document(
        self, reply: FeedReply, keys: tuple[str, ...], what: str, optional: tuple[str, ...] = ()
    ) -> dict[str, Any]:
        """The document of a reply that must have one, with these members, of this feed."""
        if reply.status != HTTPStatus.OK:
            raise WrongAnswer(f"HTTP {reply.status} to {what}")
        document = check_members(reply.document, what, ("schema", "feed", *keys), optional)
        if self.id and document["feed"] != self.id:
            raise WrongAnswer(f"{what} is of feed {document['feed']}")
        return document

    async def ask(self, what: str, headers: Mapping[str, str] | None = None) -> FeedReply:
        """Send a request. Raises SourceError: there is no answer; WrongAnswer: it is no document."""
        try:
            answer = await self._web.ask(
                self._base + what, expected=_STATUSES, max_bytes=MAX_REPLY_BYTES, headers=headers
            )
        except SourceError as error:
            if error.http_status is None:
                raise
            raise WrongAnswer(f"HTTP {error.http_status} to {what or 'the list'}") from None
        etag = ", ".join(answer.headers.getall("ETag", []))
        if answer.status == HTTPStatus.NOT_MODIFIED:
            return FeedReply(answer.status, etag, {})
        document = decode_document(answer.body, f"the answer to {what or 'the list'}")
        if type(document) is not dict or document.get("schema") != SCHEMA:
            raise WrongAnswer(f"the answer to {what or 'the list'} has no schema {SCHEMA}")
        return FeedReply(answer.status, etag, document)
