"""Feed servers that break the rules, by accident or not: what they say is refused, and said to be refused."""

import asyncio
import json
from typing import Any

import pytest

from cfetch.base.errors import (
    CheckpointExpired,
    FeedReplaced,
    HostileFeed,
    Refused,
    Throttled,
    Transient,
    UsageError,
)
from cfetch.base.secret import SecretUrl
from cfetch.plugins.follow.backends import http as http_source
from cfetch.plugins.follow.ranges import ALL_KEYS, Position
from cfetch.plugins.follow.source import Gone, NotModified, Why
from cfetch.wire import document
from tests.plugins.follow.http_world import source_of
from tests.wire.raw_server import RawServer, reply

HEAD = {"schema": "cfetch.feed/1", "feed": "F"}
ERROR = {"schema": "cfetch.feed/1", "error": "x"}
LIVE: dict[str, Any] = {"id": "0", "keys": "0" * 32 + "-", "ancestors": []}
LIST = HEAD | {"ranges": [LIVE]}
ROW: dict[str, Any] = {"lsn": 5, "op": "upsert", "path": "a", "url": "a"}
PAGE = HEAD | {"range": "0", "next_lsn": 6, "changes": [ROW]}


BAD_RANGES: list[tuple[dict[str, Any], str]] = [
    ({"id": "../0"}, "letters, digits"),
    ({"id": 0}, "letters, digits"),
    ({"keys": "0-1"}, "32 hex digits"),
    ({"keys": "0" * 32}, "LOW-HIGH"),
    ({"keys": "A" * 32 + "-"}, "lower case"),
    ({"keys": "2" * 32 + "-" + "1" * 32}, "holds no key"),
    ({"keys": None}, "string LOW-HIGH"),
    ({"ancestors": "0"}, "array of ids"),
    ({"ancestors": [[]]}, "letters, digits"),
    ({"first": 1}, "unknown key"),
]


BAD_ROWS: list[tuple[dict[str, Any], str]] = [
    ({"lsn": "5"}, "lsn: it must be an integer"),
    ({"op": "update"}, 'op: it must be "upsert" or "delete"'),
    ({"op": None}, "op: it must be"),
    ({"op": "delete"}, "a delete states no 'url'"),
    ({"path": "../a"}, "climb|component"),
    ({"path": "/etc/passwd"}, "absolute"),
    ({"path": ".cfetch/lock"}, "own state directory"),
    ({"path": "a\x1b[2J"}, "control"),
    ({"path": 7}, "path: it must be a string"),
    ({"key": "f"}, "key: it must be a string of 32"),
    ({"url": "file:///etc/passwd"}, "its scheme is file"),
    ({"url": "a b"}, "whitespace"),
    ({"sha256": "00"}, "64 hexadecimal digits"),
    ({"size": -2}, "size"),
    ({"headers": {"Host": "x"}}, "set by cfetch itself"),
    ({"colour": "red"}, "unknown key"),
]


def said(document, *fields, status="200 OK"):
    """The bytes of an answer."""
    body = document if isinstance(document, bytes) else json.dumps(document).encode()
    return reply(body, *fields, status=status)


GOOD = said(LIST, 'ETag: "F-0"')


async def asked(call, *replies, **how):
    """What ``call(source)`` gives; the answers come in order. Also the server."""
    async with RawServer(*replies, **how) as server:
        source = source_of(server.url)
        try:
            return await call(source), server
        finally:
            await source.close()


def listing(source):
    return source.ranges(None)


def reading(source):
    return source.read("0", Position("0", 5), ALL_KEYS, 2)


def informing(source):
    return source.info("0", "0")


async def test_an_empty_page_is_no_news():
    """A proxy that drops If-None-Match turns a 304 into it; the reader waits as after a 304."""
    empty = HEAD | {"range": "0", "next_lsn": 5, "changes": []}
    found, _ = await asked(reading, GOOD, said(empty))
    assert found == NotModified()


# --- the list


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (said(HEAD), "no 'ranges'"),
        (said(LIST | {"more": 1}), "unknown key"),
        (said(LIST | {"schema": "cfetch.feed/2"}), "schema"),
        (said(LIST | {"feed": "a/b"}), "letters, digits"),
        (said(LIST | {"feed": 7}), "letters, digits"),
        (said(LIST | {"ranges": {}}), "array"),
        (said(LIST), "no strong ETag"),
        (said(LIST, 'ETag: W/"1"'), "no strong ETag"),
        (said(LIST, 'ETag: "1"', 'ETag: "1"'), "no strong ETag"),
        *((said(LIST | {"ranges": [LIVE | wrong]}, 'ETag: "1"'), words) for wrong, words in BAD_RANGES),
    ],
)
async def test_a_list_that_breaks_the_rules(answer, words):
    with pytest.raises(HostileFeed, match=words):
        await asked(listing, answer)


STRANGERS = [
    (b"{", "not JSON"),
    (b"<html>Sign in", "not JSON"),
    (b"\xff{}", "not UTF-8"),
    (b"[" * 100_000, "nested too deeply"),
    (b"", "not JSON"),
    (b"[]", "no schema cfetch.feed/1"),
    (b'{"code": 1000}', "no schema cfetch.feed/1"),
    (b'{"schema": "other/1", "code": 1000}', "no schema cfetch.feed/1"),
    (b'{"schema": ["cfetch.feed/1"]}', "no schema cfetch.feed/1"),
    (b'{"schema": "cfetch.feed/1", "schema": "cfetch.feed/1", "ranges": []}', "no schema"),
]


@pytest.mark.parametrize("status", ["200 OK", "409 Conflict", "410 Gone", "416 Range Not Satisfiable"])
@pytest.mark.parametrize(("body", "words"), STRANGERS)
async def test_an_answer_that_is_no_feeds_ends_nothing(status, body, words):
    """A proxy, a sign-in page: it says nothing about the feed, which may be there when it is asked again."""
    for call in (listing, reading, informing):
        known = [] if call is listing else [GOOD]
        with pytest.raises(Transient, match=f"something other than a feed answered at http://.*{words}"):
            await asked(call, *known, said(body, status=status))


@pytest.mark.parametrize("body", [b"<html>", b""])
async def test_no_feed_there(body):
    """Now, that is: neither from the start nor later was anything deleted."""
    missing = said(body, status="404 Not Found")
    for call, known in ((listing, []), (reading, [GOOD]), (informing, [GOOD])):
        with pytest.raises(Transient, match=r"no feed at http.* HTTP 404"):
            await asked(call, *known, missing)


async def test_a_feed_that_was_away_is_read_on():
    """The same source, after a stranger's answer."""

    async def call(source):
        with pytest.raises(Transient):
            await reading(source)
        return await reading(source)

    page, _ = await asked(call, GOOD, said(b"<html>"), said(PAGE))
    assert [change.path for change in page.changes] == ["a"]


async def test_not_modified_that_nobody_asked_for():
    """A 304 to a question without a condition is no answer."""
    with pytest.raises(Refused, match="HTTP 304"):
        await asked(listing, reply(status="304 Not Modified", length=False))


async def test_an_etag_is_sent_as_it_came_and_nothing_else_is():
    """What a checkpoint holds may be damaged; it never becomes a header of its own."""

    async def call(source):
        await source.ranges(None)
        first = await source.ranges('"F-0"')
        await source.ranges('"F-0"\r\nX-Evil: 1')
        return first

    found, server = await asked(call, GOOD, reply(status="304 Not Modified", length=False), GOOD)
    assert found == NotModified()
    assert server.fields(1)["if-none-match"] == '"F-0"'
    assert "if-none-match" not in server.fields(2)


@pytest.mark.parametrize("url", ["http://h.test/?key=1", "http://h.test/#a"])
def test_a_url_with_a_query_is_no_feeds(url):
    nothing: Any = None
    with pytest.raises(UsageError, match="no query"):
        http_source.HttpSource(SecretUrl(url), nothing)


# --- pages


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (said(PAGE | {"range": "1"}), "not of that range"),
        (said(PAGE | {"changes": [ROW, ROW, ROW]}), "at most as many"),
        (said(PAGE | {"changes": None}), "not an array"),
        (said(PAGE | {"next_lsn": -1}), "integer from 0"),
        (said(PAGE | {"next_lsn": 2**63}), "integer from 0"),
        (said(PAGE | {"next_lsn": 6.0}), "fraction"),
        (said(PAGE | {"next_lsn": True}), "boolean"),
        (said(PAGE | {"changes": ["a"]}), "must be an object, not a string"),
        *((said(PAGE | {"changes": [ROW | wrong]}), words) for wrong, words in BAD_ROWS),
        (said(PAGE | {"changes": [{"op": "upsert", "path": "a", "url": "a"}]}), "lsn: it is missing"),
        (said(PAGE | {"changes": [{"op": "upsert", "lsn": 5, "url": "a"}]}), "path: it is missing"),
        (said(PAGE | {"changes": [{"op": "upsert", "lsn": 5, "path": "a"}]}), "url: it is missing"),
        (said({"schema": "cfetch.feed/1", "error": "x", "code": 7}, status="410 Gone"), "sub-code"),
        (said({"schema": "cfetch.feed/1", "error": "x", "code": True}, status="410 Gone"), "sub-code"),
        (said(ERROR | {"next_lsn": 3}, status="409 Conflict"), "gone back behind LSN 5"),
    ],
)
async def test_a_page_that_breaks_the_rules(answer, words):
    with pytest.raises(HostileFeed, match=words):
        await asked(reading, GOOD, answer)


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (said(PAGE | {"feed": "G"}), FeedReplaced),
        (said({"schema": "cfetch.feed/1", "error": "", "code": 1000}, status="410 Gone"), FeedReplaced),
        (said(ERROR | {"kept_from": 9}, status="416 Range Not Satisfiable"), CheckpointExpired),
        (said({}, status="400 Bad Request"), Refused),
        (said({}, status="403 Forbidden"), Refused),
    ],
)
async def test_a_page_that_cannot_be_had(answer, error):
    with pytest.raises(error):
        await asked(reading, GOOD, answer)


@pytest.mark.parametrize("why", [Why.RANGE_GONE, Why.SPLITTING, Why.MIGRATING])
async def test_sub_codes(why):
    """Each is told on, of a page and of the LSNs."""
    answer = said({"schema": "cfetch.feed/1", "error": "", "code": int(why)}, status="410 Gone")
    for call in (reading, informing):
        found, _ = await asked(call, GOOD, answer)
        assert found == Gone(why)


async def test_links_are_relative_to_the_feed_and_may_lead_elsewhere():
    """The feed's URL is their base, whatever document they stood in."""
    other = ROW | {"lsn": 6, "path": "b", "url": "https://cdn.test/b?sig=1"}
    page, server = await asked(reading, GOOD, said(PAGE | {"next_lsn": 7, "changes": [ROW, other]}))
    assert [change.entry.url.reveal() for change in page.changes] == [
        f"{server.url}a",
        "https://cdn.test/b?sig=1",
    ]


# --- the LSNs


@pytest.mark.parametrize(
    "wrong",
    [
        {"range": "1"},
        {"first": -1},
        {"first": None},
        {"last": 3},
        {"last": "9"},
        {"last": 2**63},
        {"first": 1.5},
    ],
)
async def test_lsns_that_break_the_rules(wrong):
    with pytest.raises(HostileFeed):
        await asked(informing, GOOD, said(HEAD | {"range": "0", "first": 5, "last": None} | wrong))


@pytest.mark.parametrize(("first", "last"), [(5, None), (5, 4), (0, -1), (5, 9)])
async def test_lsns_that_are_right(first, last):
    """An empty range ends before it begins, even at 0."""
    found, _ = await asked(informing, GOOD, said(HEAD | {"range": "0", "first": first, "last": last}))
    assert found == (first, last)


# --- the wire


async def test_an_answer_that_does_not_end_is_given_up(monkeypatch):
    """At the cap, not when memory is full."""
    monkeypatch.setattr(http_source, "MAX_REPLY_BYTES", 100_000)
    endless = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"8000\r\n" + b" " * 0x8000 + b"\r\n"
    with pytest.raises(Refused, match="longer than 100000 bytes"):
        await asked(listing, endless + (b"8000\r\n" + b" " * 0x8000 + b"\r\n") * 10)


@pytest.mark.parametrize("then", ["close", "reset"])
async def test_an_answer_that_is_cut_is_asked_for_again(then):
    """Half a list is no list."""
    cut = GOOD.replace(b"Content-Length: ", b"Content-Length: 1")

    class Cutting(RawServer):
        async def answer(self, writer, answer):
            await super().answer(writer, answer)
            return then if len(self.heads) == 1 else "keep"

    async with Cutting(cut, GOOD) as server:
        source = source_of(server.url)
        found = await source.ranges(None)
        await source.close()
    assert [live.id for live in found.ranges] == ["0"]
    assert len(server.heads) == 2


async def test_a_server_that_is_busy_is_asked_again():
    """503, then an answer."""
    found, server = await asked(listing, reply(status="503 Service Unavailable"), GOOD)
    assert found.feed.id == "F"
    assert found.feed.account == server.url.rstrip("/")


@pytest.mark.parametrize("slow", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n"])
async def test_a_server_that_says_nothing_is_given_up(monkeypatch, slow):
    """Silence, before the reply or in it, is no wait without end."""
    monkeypatch.setattr(document, "SILENCE_S", 0.05)
    monkeypatch.setattr(document, "FIRST_BYTE_S", 0.05)
    with pytest.raises(Transient, match="no byte for"):
        await asked(listing, slow)


async def test_a_server_that_drips_is_given_up(monkeypatch):
    """A byte now and then keeps nobody waiting for ever."""
    monkeypatch.setattr(document, "ANSWER_S", 0.2)

    class Dripping(RawServer):
        async def answer(self, writer, answer):
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
            while True:
                writer.write(b" ")
                await writer.drain()
                await asyncio.sleep(0.01)

    async with Dripping(b"") as server:
        source = source_of(server.url)
        with pytest.raises(Transient, match="no whole answer"):
            await source.ranges(None)
        await source.close()


async def test_a_split_is_asked_for_once():
    """It changes something: a lost answer does not make it two."""
    for status, error in (("503 Service Unavailable", Throttled), ("500 Oops", Transient)):
        async with RawServer(reply(status=status)) as server:
            source = source_of(server.url)
            with pytest.raises(error):
                await source.split(None)
            await source.close()
        assert len(server.heads) == 1
