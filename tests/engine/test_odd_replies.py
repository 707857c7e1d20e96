"""Odd replies, over a real socket: what size or hash prove is taken, else a message names the way."""

import asyncio
import gzip
import hashlib
import zlib
from typing import Any

import pytest

from cfetch.base.secret import SecretUrl
from cfetch.base.virtual_clock import run_virtual
from cfetch.engine.odd_bodies import adapt
from cfetch.manifest.entry import Digest, Entry, safe_path
from cfetch.wire.verdict import ReplyAction, Verdict
from tests.engine.test_pool_wire import fetched
from tests.wire.raw_server import RawServer

BODY = b"0123456789" * 100
OK = b"HTTP/1.1 200 OK\r\n"
PACKED = gzip.compress(BODY, mtime=0)


def in_chunks(body):
    return b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)


async def bring(tmp_path, data, *, proved, **settings):
    """The record of a file whose server sends ``data`` to every request, and the file."""
    (tmp_path / "to").mkdir()
    digest = Digest("sha256", hashlib.sha256(BODY).hexdigest())
    stated: dict[str, Any] = {"digest": digest, "size_bytes": len(BODY)} if proved else {}
    async with RawServer(data, then="close") as server:
        entry = Entry(id=0, path=safe_path("a"), url=SecretUrl(server.url + "a"), **stated)
        records, _ = await fetched(tmp_path / "to", [entry], max_attempts=1, **settings)
    path = tmp_path / "to" / "a"
    return records["a"], path.read_bytes() if path.exists() else None


@pytest.mark.parametrize(("data", "way"), [
    (OK + b"Connection: close\r\nContent-Length: 1000\r\n\r\n" + BODY + b" and more", "the size or the hash"),
    (b"HTTP/1.0 200 OK\r\nContent-Length: 1000\r\n\r\n" + BODY + b" and more", "the size or the hash"),
    (OK + b"Content-Length: 9\r\nTransfer-Encoding: chunked\r\n\r\n" + in_chunks(BODY), "--accept-unframed"),
    (OK + b"Content-Length: 7\r\nContent-Length: 1000\r\n\r\n" + BODY, "lengths, 7 and 1000 bytes, and"),
    (OK + b"Connection: close\r\nContent-Length: " + b"9" * 20 + b"\r\n\r\n" + BODY, "9 bytes, which no"),
    (b"HTTP/1.1 302 Found\r\nLocation: \r\nContent-Length: 1000\r\n\r\n" + BODY, "to nowhere; if its body"),
    (b"HTTP/1.1 305 Use Proxy\r\nContent-Length: 1000\r\n\r\n" + BODY, "names: --proxy URL; if its body"),
    (b"HTTP/1.1 300 Many\r\nContent-Length: 1000\r\n\r\n" + BODY, "state the hash"),
    (b"HTTP/1.1 201 Made\r\nContent-Length: 1000\r\n\r\n" + BODY, "state the hash"),
    (b"HTTP/1.1 206 Part\r\nContent-Length: 1000\r\n\r\n" + BODY, "state the hash"),
])  # fmt: skip
@pytest.mark.parametrize("proved", [True, False])
async def test_what_a_size_and_a_hash_prove_is_taken_whatever_the_form(tmp_path, data, way, proved):
    """Without them it is refused, and the message names what helps."""
    record, file = await bring(tmp_path, data, proved=proved)
    assert file == (BODY if proved else None)
    assert (record.status, record.error) == ("done", None) if proved else way in record.error


@pytest.mark.parametrize(("head", "body"), [
    ("gzip, chunked", in_chunks(PACKED)), ("deflate", zlib.compress(BODY)), ("gzip", PACKED),
    ("deflate, gzip, chunked", in_chunks(gzip.compress(zlib.compress(BODY), mtime=0))),
])  # fmt: skip
async def test_codings_of_the_transfer_are_no_part_of_the_file(tmp_path, head, body):
    """They are decoded, as nobody can keep them; without chunks the end of the connection is the end."""
    data = OK + b"Transfer-Encoding: " + head.encode() + b"\r\n\r\n" + body
    record, file = await bring(tmp_path, data, proved=False, accept_unframed=True)
    assert (record.status, file) == ("done", BODY)


@pytest.mark.parametrize(("pieces", "may_end", "body"), [
    ([b"0123", b"456789"], 4, b"0123456789"), ([b"0123"], 4, b"0123"), ([b"012", b"3"], 4, b"0123"),
])  # fmt: skip
def test_behind_the_shortest_length_silence_is_the_end(pieces, may_end, body):
    """Of a body whose server states several lengths and keeps the connection; a hash will prove it."""

    class Silent:
        def __init__(self):
            self.left, self.is_closed = [*pieces], False

        async def read(self):
            if not self.left:
                await asyncio.Event().wait()
            return self.left.pop(0)

        def close(self):
            self.is_closed = True

    async def read_all():
        response: Any = Silent()
        part: Any = None
        received = b""
        read = adapt(Verdict(action=ReplyAction.ACCEPT, may_end=may_end), response, part, response.read, None)
        while data := await read():
            received += data
        return received, response.is_closed

    assert run_virtual(read_all()) == (body, True)
