"""A feed over HTTP, by the protocol of docs/feed-protocol.md. All that the server sends is checked."""

import asyncio
import re
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, NamedTuple
from urllib.parse import quote

from cfetch.base.clock import SystemClock
from cfetch.base.errors import (
    CheckpointExpired,
    FeedError,
    FeedReplaced,
    HostileFeed,
    Refused,
    SourceError,
    Transient,
    UsageError,
)
from cfetch.base.schemes import WEB
from cfetch.base.secret import SecretUrl, printable
from cfetch.manifest.faults import UrlError
from cfetch.manifest.fields import FieldError
from cfetch.manifest.rows import Document
from cfetch.manifest.urls import resolve_url
from cfetch.plugins.follow.backends.feed_kind import FeedContext, FeedKind, FeedName, check_url
from cfetch.plugins.follow.backends.web import Web, open_web
from cfetch.plugins.follow.protocol import (
    SCHEMA,
    check_id,
    check_members,
    decode_document,
    format_keys,
    parse_change,
    parse_keys,
    parse_lsn,
)
from cfetch.plugins.follow.ranges import KeyRange, Position, Range, Span
from cfetch.plugins.follow.source import FeedId, Gone, NotModified, Page, Ranges, Why
from cfetch.show.format import plural
from cfetch.wire.headers import Headers
from cfetch.wire.network import DIRECT, Network

MAX_REPLY_BYTES = 16 << 20  # 10,000 changes of 1,600 bytes, or 100,000 live ranges
MAX_LIMIT = 10_000  # changes in one request
MAX_LEFT_OUT = 20  # files that the publisher leaves out, and that are told
_ETAG = re.compile(r'"[\x21\x23-\x7e]{1,200}"')
_EXPECTED = frozenset({304, 404, 409, 410, 416})
_HEAD = ("schema", "feed")


class _Answer(NamedTuple):
    """``document``: the feed's own; None if nothing has changed."""

    status: int
    headers: Headers
    document: dict[str, Any] | None


class HttpSource:
    """A ``FeedSource``. The first answer names the feed; all other answers have to come from the same one."""

    reads_at_once = 16  # 64 ranges take four round trips; a page may have 16 MiB

    def __init__(self, url: SecretUrl, web: Web, tell_left_out: Callable[[str], None] | None = None) -> None:
        """``web`` is closed with this. ``tell_left_out`` gets, once, the files that the publisher leaves out.

        Raises UsageError: the URL cannot be a feed's.
        """
        text = url.reveal()
        if "?" in text or "#" in text:
            raise UsageError(f"a feed's URL has no query and no fragment: {url}")
        self._base = text.rstrip("/") + "/"
        self._shown = str(url)
        self._account = url.origin()
        self._web = web
        self._feed: str | None = None
        self._tell_left_out = tell_left_out

    async def ranges(self, etag: str | None) -> Ranges | NotModified:
        """List the live ranges, as ``FeedSource`` says."""
        conditional = self._feed is not None and etag is not None and _ETAG.fullmatch(etag)
        answer = await self._ask("", headers={"If-None-Match": etag or ""} if conditional else {})
        if answer.status == HTTPStatus.NOT_MODIFIED and conditional:
            return NotModified()
        document = self._check_document(answer, "the list of ranges", ("ranges",))
        if type(document["ranges"]) is not list:
            raise self._hostile("the list of ranges has no array 'ranges'")
        ranges = Ranges(
            FeedId(self._account, document["feed"]),
            self._read_etag(answer),
            tuple(self._read_range(row) for row in document["ranges"]),
        )
        tell, self._tell_left_out = self._tell_left_out, None
        if tell is not None:
            for line in await self._ask_left_out():
                tell(line)
        return NotModified() if ranges.etag == etag else ranges

    async def info(self, of: str, via: str) -> Span | Gone:
        """Ask for the LSNs of a range, as ``FeedSource`` says."""
        answer = await self._ask(f"info?feed={await self._ask_feed_id()}&via={quote(via)}&of={quote(of)}")
        if (gone := self._read_gone(answer)) is not None:
            return gone
        document = self._check_document(answer, f"the answer about range {of}", ("range", "first", "last"))
        try:
            first = parse_lsn(document["first"])
            last = document["last"] if document["last"] in (None, first - 1) else parse_lsn(document["last"])
            if document["range"] != of or (last is not None and last < first - 1):
                raise FieldError("it is not of that range, or ends before it begins")
        except FieldError as error:
            raise self._hostile(f"the answer about range {of}: {error}") from None
        return Span(first, last)

    async def read(
        self, via: str, position: Position, keys: KeyRange, limit: int
    ) -> Page | Gone | NotModified:
        """Read a page of a range, as ``FeedSource`` says."""
        of, next_lsn, mark = position
        answer = await self._ask(
            f"read?feed={await self._ask_feed_id()}&via={quote(via)}&of={quote(of)}&next_lsn={next_lsn}"
            f"&keys={format_keys(keys)}&limit={min(limit, MAX_LIMIT)}{f'&mark={mark}' if mark else ''}",
            headers={"If-None-Match": f'"{next_lsn}"'},
        )
        if answer.status == HTTPStatus.NOT_MODIFIED:
            return NotModified()
        if answer.status == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
            raise CheckpointExpired(
                f"{self._shown} does not keep LSN {next_lsn} of range {of} any more; what came after it was "
                "missed"
            )
        if answer.status == HTTPStatus.CONFLICT:
            if answer.document and "mark" in answer.document:
                raise FeedReplaced(
                    f"the feed at {self._shown} has another history than the one that was followed: LSN "
                    f"{next_lsn - 1} of range {of} is another change now, as after a restore from a backup"
                )
            raise self._hostile(f"range {of} has gone back behind LSN {next_lsn}, which it had given before")
        if (gone := self._read_gone(answer)) is not None:
            return gone
        what = f"the page from LSN {next_lsn} of range {of}"
        document = self._check_document(answer, what, ("range", "next_lsn", "changes"), ("mark",))
        rows = document["changes"]
        try:
            if document["range"] != of or type(rows) is not list or len(rows) > limit:
                raise FieldError("it is not of that range, or not an array of at most as many as asked for")
            after = parse_lsn(document["next_lsn"])
            new_mark = check_id(document["mark"]) if "mark" in document else ""
        except FieldError as error:
            raise self._hostile(f"{what}: {error}") from None
        if not rows and after == next_lsn and of == via:
            return NotModified()  # a proxy has dropped If-None-Match
        links = Document(base_url=self._base)
        changes = (parse_change(row, links, f"{what}: change {n}") for n, row in enumerate(rows, 1))
        return Page(tuple(changes), after, new_mark)

    async def split(self, of: str | None) -> tuple[str, tuple[str, ...]]:
        """Let the server split a range: ``of``, else the one with most entries. Returns it and its children.

        Raises:
            UsageError: the server refuses it.
        """
        answer = await self._ask(
            "split" if of is None else f"split?range={quote(of)}",
            method="POST",
            headers={"Content-Type": "application/json"},
        )
        if answer.status != HTTPStatus.OK:
            named = "no range" if of is None else f"no live range {printable(of)}"
            raise UsageError(f"{self._shown} has {named} that can be split (HTTP {answer.status})")
        document = self._check_document(answer, "the answer to a split", ("range", "children"))
        try:
            children = tuple(check_id(child) for child in document["children"])
            return check_id(document["range"]), children
        except (FieldError, TypeError):
            raise self._hostile("the answer to a split names no children") from None

    async def _ask_left_out(self) -> list[str]:
        """Ask for the files that the publisher leaves out; none if the server does not tell them."""
        try:
            answer = await self._ask(f"left-out?feed={await self._ask_feed_id()}")
            what = "the list of files left out"
            document = self._check_document(answer, what, ("total", "files"))
            total, rows = parse_lsn(document["total"]), document["files"]
            if type(rows) is not list or len(rows) > total:
                return []
            files = [check_members(row, what, ("name", "why")) for row in rows[:MAX_LEFT_OUT]]
        except (SourceError, FeedError, FieldError):
            return []
        lines = [f"{printable(str(file['name']))}: {printable(str(file['why']))}" for file in files]
        more = total - len(lines)
        return [*lines, f"{plural(more, 'file')} without a name here"] if more else lines

    async def close(self) -> None:
        """Close connections and files, as ``FeedSource`` says."""
        await self._web.close()

    async def _ask(self, what: str, *, headers: dict[str, str] | None = None, method: str = "GET") -> _Answer:
        """Send a request. Raises SourceError: there is no answer, or it does not come from a feed."""
        answer = await self._web.ask(
            self._base + what, expected=_EXPECTED, max_bytes=MAX_REPLY_BYTES, headers=headers, method=method
        )
        if answer.status == HTTPStatus.NOT_MODIFIED:
            return _Answer(answer.status, answer.headers, None)
        document = _read_feed_document(answer.body, answer.status, self._shown, SCHEMA)
        return _Answer(answer.status, answer.headers, document)

    async def _ask_feed_id(self) -> str:
        """The feed's id, which is asked for if it is not known yet."""
        if self._feed is None:
            await self.ranges(None)
        assert self._feed is not None
        return self._feed

    def _read_gone(self, answer: _Answer) -> Gone | None:
        if answer.status != HTTPStatus.GONE:
            return None
        code = check_members(answer.document, "the answer 410", ("schema", "error", "code"))["code"]
        if code == Why.STALE:
            raise _make_replaced_error(self._shown)
        if type(code) is not int or code not in set(Why):
            raise self._hostile("an answer 410 has no sub-code that is known")
        return Gone(Why(code))

    def _check_document(
        self, answer: _Answer, what: str, keys: tuple[str, ...], optional: tuple[str, ...] = ()
    ) -> dict[str, Any]:
        if answer.status != HTTPStatus.OK:
            raise Refused(f"{self._shown} answers HTTP {answer.status}", http_status=answer.status)
        document = check_members(answer.document, f"{self._shown}: {what}", (*_HEAD, *keys), optional)
        if document["schema"] != SCHEMA:
            raise self._hostile(f"{what} is not of the schema {SCHEMA}")
        try:
            feed = check_id(document["feed"])
        except FieldError as error:
            raise self._hostile(f"{what}: feed: {error}") from None
        if self._feed is None:
            self._feed = feed
        elif self._feed != feed:
            raise _make_replaced_error(self._shown)
        return document

    def _read_range(self, row: object) -> Range:
        fields = check_members(row, "a range", ("id", "keys", "ancestors"))
        try:
            if type(fields["ancestors"]) is not list:
                raise FieldError("it must be an array of ids")
            above = frozenset(check_id(name) for name in fields["ancestors"])
            return Range(check_id(fields["id"]), parse_keys(fields["keys"]), above)
        except FieldError as error:
            raise self._hostile(f"a range in the list breaks the rules: {error}") from None

    def _read_etag(self, answer: _Answer) -> str:
        etags = answer.headers.getall("ETag", [])
        if len(etags) != 1 or not _ETAG.fullmatch(etags[0]):
            raise self._hostile("the list of ranges has no strong ETag")
        return etags[0]

    def _hostile(self, what: str) -> HostileFeed:
        return HostileFeed(f"{self._shown}: {what}")


def _make_replaced_error(shown: str) -> FeedReplaced:
    """The error of an answer that comes from another feed than before, at the URL ``shown``."""
    return FeedReplaced(
        f"the feed at {shown} was deleted or made anew, so what was read of the old one does not count"
    )


def _read_feed_document(body: bytes, status: int, shown: str, schema: str) -> dict[str, Any]:
    """Read a feed's document, of any version of ``schema``; its other rules are not checked.

    Raises:
        Transient: it is no such document, so it says nothing about the feed: a proxy, a sign-in page or a
            server that is being set up has answered at the URL ``shown``.
    """
    if status == HTTPStatus.NOT_FOUND:
        raise Transient(
            f"there is no feed at {shown} now: HTTP 404; check the URL if it stays so", http_status=status
        )
    try:
        document = decode_document(body, "it")
    except HostileFeed as error:
        why = str(error)
    else:
        name = document.get("schema") if type(document) is dict else None
        if type(name) is str and name.startswith(schema.partition("/")[0] + "/"):
            return dict(document)
        why = f"it has no schema {schema}"
    raise Transient(
        f"something other than a feed answered at {shown} with HTTP {status}: {why}; if it stays so, check "
        "the URL, and whether a proxy or a sign-in page stands in between",
        http_status=status,
    )


def split_range(url: str, of: str | None, *, network: Network = DIRECT) -> tuple[str, tuple[str, ...]]:
    """Call ``HttpSource.split`` for the feed at ``url``, in an event loop of its own.

    Raises:
        UsageError: there is no feed, or its server does not split it.
    """
    return asyncio.run(_split_range(url, of, network))


def parse_feed_url(url: str) -> SecretUrl:
    """Parse the URL of a feed that a person has given. Raises UsageError."""
    try:
        return SecretUrl(resolve_url(url, lambda: None))
    except UrlError as error:
        raise UsageError(f"the feed's URL cannot be used: {error}") from None


async def _split_range(url: str, of: str | None, network: Network) -> tuple[str, tuple[str, ...]]:
    whole = parse_feed_url(url)
    source = HttpSource(whole, open_web(network, SystemClock()))
    try:
        return await source.split(of)
    except SourceError as error:
        raise UsageError(f"cannot split {whole}: {error}") from None
    finally:
        await source.close()


def _open_http(name: FeedName, context: FeedContext) -> HttpSource:
    url = SecretUrl(check_url(name.url))
    if "?" in url.reveal():  # checked before there is a transport, which would need a close
        raise UsageError(f"a feed's URL has no query: {url}")
    return HttpSource(url, open_web(context.network, context.clock), context.tell_left_out)


FEED = FeedKind("an http(s):// URL", _open_http, WEB)
