"""Small documents over HTTP: manifests, and the SQL statement API's lists of links."""

import asyncio
import io
import json

import pytest

from cfetch.base.clock import SystemClock
from cfetch.base.errors import ConfigError, Expired, Refused, Throttled, Transient
from cfetch.base.secret import SecretText, SecretUrl
from cfetch.base.virtual_clock import VirtualClock, run_virtual
from cfetch.manifest.entry import Entry, safe_path
from cfetch.wire.document import Prober, fetch_document, make_chunk_fetcher
from cfetch.wire.fresh_link import Link
from cfetch.wire.http import HttpTransport
from cfetch.wire.refresh import StatementRefresher
from tests.engine.fake import FakeTransport, Reply
from tests.wire.raw_server import RawServer, reply

BODY = b'{"files": []}' * 100


def document(script, **how):
    """What arrives in the sink, and the transport."""
    transport, sink = FakeTransport({"m": script}), io.BytesIO()
    url = SecretUrl("http://h.test/m?sig=CANARY")
    try:
        run_virtual(
            fetch_document(url, sink, transport=transport, clock=VirtualClock(), jitter=lambda: 0.5, **how)
        )
    finally:
        assert transport.left_open() == []
    return sink.getvalue(), transport


@pytest.mark.parametrize("bad", [
    Reply(body=BODY, cut=500, then="reset"), Reply(status=503), Reply(status=500),
    Reply(error=Transient("x")),
])  # fmt: skip
def test_a_transient_fault_is_repeated_from_the_start(bad):
    """What had arrived of the first try is not kept in front of the second."""
    found, transport = document([bad, Reply(body=BODY)])
    assert found == BODY
    assert len(transport.opens) == 2


@pytest.mark.parametrize(("reply", "words"), [
    (Reply(status=404), "HTTP 404"), (Reply(status=403), "HTTP 403"),
    (Reply(body=BODY, framing="close"), "no length"),
    (Reply(body=BODY, headers={"Content-Encoding": "gzip"}), "encoded"),
])  # fmt: skip
def test_what_would_be_wrong_for_good_is_refused_at_once(reply, words):
    """Also a body whose cut would go unseen: half a list of links is a list of links."""
    with pytest.raises(Refused, match=words):
        document(reply)


def test_a_document_that_drips_is_given_up():
    """After a minute a byte now and then is no answer; one that comes slowly is waited for."""
    with pytest.raises(Transient, match=r"only \d+ bytes came in 6\d s"):
        document([Reply(body=BODY * 10, rate_bps=100.0)] * 9)
    assert document(Reply(body=BODY * 100, rate_bps=1100.0))[0] == BODY * 100


def test_a_document_that_does_not_end_is_given_up():
    """At its limit, not at the disk's."""
    with pytest.raises(Refused, match="longer than 1000 bytes"):
        document(Reply(body=BODY, rate_bps=100.0), max_bytes=1000)


def test_a_document_as_long_as_is_allowed_is_read():
    """The limit itself is fine, one byte more is not."""
    assert document(Reply(body=BODY), max_bytes=len(BODY))[0] == BODY
    with pytest.raises(Refused, match="longer than"):
        document(Reply(body=BODY), max_bytes=len(BODY) - 1)


def test_a_server_that_stays_down_is_given_up():
    """After five tries, with the last error."""
    with pytest.raises(Transient, match="HTTP 502; gave up after 5 tries"):
        document(Reply(status=502))


def test_42_a_server_that_asks_for_a_pause_gets_it():
    """Its Retry-After, which is longer than our own back-off would be."""
    busy = Reply(status=503, headers={"Retry-After": "20"})
    body, transport = document([busy, Reply(body=BODY)])
    assert body == BODY
    first, second = transport.opens
    assert second.t_s - first.t_s == 20.0


def test_43_a_pause_that_nobody_waits_for_ends_it_at_once():
    """A second request would only make a busy server busier."""
    busy = Reply(status=429, headers={"Retry-After": "3600"})
    with pytest.raises(Throttled, match="HTTP 429; its server asks for a pause of 3600 s, so the next"):
        document([busy, Reply(body=BODY)])


def link(index, url):
    return {
        "chunk_index": index,
        "row_offset": index * 10,
        "row_count": 10,
        "byte_count": 100,
        "external_link": url,
        "expiration": "2030-01-01T00:00:00.000Z",
    }


def chunk_entry(index, stale):
    return Entry(id=index, path=safe_path(f"c{index}"), url=SecretUrl(stale), chunk=index)


def refreshed(entries, *replies):
    """Each entry's fresh URL, and the transport that was asked."""
    path = "api/2.0/sql/statements/01-ab/result/chunks/0"
    transport = FakeTransport({path: list(replies), path[:-1] + "1": list(replies)})

    async def main():
        fetch = make_chunk_fetcher(
            "w.test",
            SecretText("TOKEN"),
            "01-ab",
            transport=transport,
            clock=VirtualClock(),
            jitter=lambda: 0.5,
        )
        refresher = StatementRefresher(fetch, SystemClock())
        return [(await refresher.refresh(entry, Link(entry.url))).url.reveal() for entry in entries]

    return run_virtual(main()), transport


def test_one_reply_of_the_statement_api_serves_all_its_chunks():
    """P15: asked for the first chunk, it brings the second's link along; the token is sent to the API."""
    body = json.dumps({"external_links": [link(0, "https://s/0?n"), link(1, "https://s/1?n")]}).encode()
    entries = [chunk_entry(0, "https://s/0?o"), chunk_entry(1, "https://s/1?o")]
    urls, transport = refreshed(entries, Reply(body=body))
    assert urls == ["https://s/0?n", "https://s/1?n"]
    assert [a.url for a in transport.opens] == ["https://w.test/api/2.0/sql/statements/01-ab/result/chunks/0"]
    assert transport.opens[0].secrets == {"Authorization": "Bearer TOKEN"}


@pytest.mark.parametrize(("body", "words"), [
    (b"<html>", "no links that can be read"),
    (json.dumps({"external_links": [link(5, "https://s/5")]}).encode(), "no link for this chunk"),
])  # fmt: skip
def test_a_reply_of_the_statement_api_that_does_not_help(body, words):
    """Refused, without quoting it."""
    with pytest.raises(Refused, match=words):
        refreshed([chunk_entry(0, "https://s/0?o")], Reply(body=body))


def test_an_entry_that_is_no_chunk_cannot_be_asked_for():
    """A file of another manifest."""
    entry = Entry(id=0, path=safe_path("a"), url=SecretUrl("https://s/a"))
    with pytest.raises(Refused, match="not a chunk"):
        refreshed([entry], Reply())


@pytest.mark.parametrize("statement_id", ["", "../x", "a/b", "a?b", "x" * 101])
def test_a_statement_id_cannot_lead_elsewhere(statement_id):
    """It becomes part of a URL that gets the token."""
    with pytest.raises(ConfigError, match="statement_id"):
        make_chunk_fetcher(
            "w",
            SecretText("t"),
            statement_id,
            transport=FakeTransport({}),
            clock=VirtualClock(),
            jitter=float,
        )


def test_expired_is_never_what_a_document_ends_with():
    """A manifest's own link has nobody to renew it."""
    assert not issubclass(Refused, Expired)
    with pytest.raises(Refused):
        document(Reply(status=401))


def size_of(*replies):
    """What the servers' answers to HEAD and to the question for the first byte tell of a file's size."""
    transport = FakeTransport({"m": list(replies)})
    prober = Prober(transport, VirtualClock(), lambda: 0.5)
    try:
        return run_virtual(prober.ask_size_bytes(SecretUrl("http://h.test/m"), {}))
    finally:
        assert transport.left_open() == []


NO_HEAD = Reply(status=405)


@pytest.mark.parametrize(("replies", "size_bytes"), [
    ([Reply(body=BODY)], len(BODY)),
    ([Reply(body=BODY, framing="chunked"), Reply(body=BODY)], len(BODY)),
    ([Reply(body=BODY, headers={"Content-Encoding": "gzip"}), Reply(body=BODY)], len(BODY)),
    ([Reply(body=BODY, framing="close", headers={"Content-Length": "1"}), Reply(body=BODY)], 1),
    ([NO_HEAD, Reply(body=BODY, ranges=False)], len(BODY)),
    ([NO_HEAD, Reply(body=BODY, ranges=False, headers={"Content-Encoding": "gzip"})], None),
    ([NO_HEAD, Reply(body=BODY, ranges=False, framing="chunked")], None),
    ([NO_HEAD, Reply(status=416, headers={"Content-Range": "bytes */0"})], 0),
])  # fmt: skip
def test_the_size_that_a_server_states(replies, size_bytes):
    """By HEAD, else with the first byte; never that of an encoded form, or one that is not stated."""
    assert size_of(*replies) == size_bytes


@pytest.mark.parametrize("content_range", ["bytes */7", "bytes 0-0/7", ""])
def test_a_file_without_a_first_byte_that_is_not_empty_cannot_be(content_range):
    """A 416 tells a size only where it is zero; else the server is wrong, and nobody knows where."""
    with pytest.raises(Refused, match="HTTP 416"):
        size_of(NO_HEAD, Reply(status=416, headers={"Content-Range": content_range}))


def test_two_lengths_are_none():
    """A reply that contradicts itself states no size."""
    two = Reply(body=BODY)
    transport = FakeTransport({"m": [two, NO_HEAD]})
    real = transport.open

    async def open_with_two(*args, **how):
        response = await real(*args, **how)
        response.headers.add("Content-Length", "7")
        return response

    transport.open = open_with_two  # type: ignore[method-assign]
    prober = Prober(transport, VirtualClock(), lambda: 0.5)
    with pytest.raises(Refused, match="HTTP 405"):
        run_virtual(prober.ask_size_bytes(SecretUrl("http://h.test/m"), {}))


class InTwoPieces(RawServer):
    """The body comes when the head has been read."""

    async def answer(self, writer, reply):
        head, _, body = reply.partition(b"\r\n\r\n")
        writer.write(head + b"\r\n\r\n")
        await asyncio.sleep(0.01)
        return await super().answer(writer, body)


async def test_asking_for_the_first_byte_costs_no_connection():
    """The reply is read to its end, so that the next question goes over the same connection."""
    byte = reply(b"x", "Content-Range: bytes 0-0/9", status="206 Partial Content")
    transport = HttpTransport(connect_timeout_s=5.0)
    async with InTwoPieces(reply(status="405 No"), byte) as server:
        prober = Prober(transport, SystemClock(), lambda: 0.5)
        sizes = [await prober.ask_size_bytes(SecretUrl(server.url), {}) for _ in range(3)]
        assert (sizes, len(server.heads), server.connections) == ([9, 9, 9], 4, 1)
    await transport.close()
