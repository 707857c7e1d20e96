"""Replies that are made of the files of a source that is no HTTP server."""

import pytest

from cfetch.base.errors import Refused
from cfetch.base.secret import SecretUrl
from cfetch.wire.judge import judge
from cfetch.wire.source import FileTransport
from cfetch.wire.verdict import Asked, ReplyAction

BODY = bytes(range(200))


class Remote:
    """A file whose bytes come 64 at a time; ``log`` has what was done to it."""

    peer = "192.0.2.1:21"

    def __init__(self, log, *, size_bytes=200, version="v1", modified_s=784_111_777.0):
        self.log, self.size_bytes, self.version, self.modified_s = log, size_bytes, version, modified_s
        self.place = 0

    async def start(self, first_byte):
        self.log.append(first_byte)
        self.place = first_byte

    async def read(self):
        data = BODY[self.place : self.place + 64]
        self.place += len(data)
        return data

    def close(self):
        self.log.append("close")


class Source:
    def __init__(self, **about):
        self.log, self.about = [], about

    async def open_file(self, url, *, fresh):
        return Remote(self.log, **self.about)

    async def close(self):
        self.log.append("end")


async def ask(source, headers=(), method="GET"):
    """The reply, its body, and what was done to the file."""
    reply = await FileTransport(source).open(
        SecretUrl("x://h/a"), dict(headers), {}, fresh=False, method=method
    )
    body = b""
    while data := await reply.read():
        body += data
    reply.close()
    return reply, body, source.log


@pytest.mark.parametrize(
    ("asked", "status", "span", "log"),
    [
        ({}, 200, (0, 200), [0, "close"]),
        ({"Range": "bytes=10-"}, 206, (10, 200), [10, "close"]),
        ({"Range": "bytes=10-99"}, 206, (10, 100), [10, "close"]),
        ({"Range": "bytes=10-999"}, 206, (10, 200), [10, "close"]),
        ({"Range": "bytes=10-", "If-Range": '"v1"'}, 206, (10, 200), [10, "close"]),
        ({"Range": "bytes=10-", "If-Range": '"v0"'}, 200, (0, 200), [0, "close"]),
        ({"Range": "bytes=200-"}, 416, (0, 0), ["close"]),
        ({"If-None-Match": '"v1"'}, 304, (0, 0), ["close"]),
        ({"If-None-Match": '"v0"'}, 200, (0, 200), [0, "close"]),
        ({"If-Modified-Since": "Sun, 06 Nov 1994 08:49:37 GMT"}, 304, (0, 0), ["close"]),
    ],
)
async def test_what_is_asked_is_answered_as_http_does(asked, status, span, log):
    """Ranges and conditions mean what they mean there, and the file is let go once."""
    reply, body, done = await ask(Source(), asked)
    assert (reply.status, body, done) == (status, BODY[slice(*span)], log)
    if status == 206:
        assert reply.headers.getall("Content-Range", []) == [f"bytes {span[0]}-{span[1] - 1}/200"]


async def test_a_file_without_a_stated_size():
    """It is sent whole, and the judge trusts its end, which the source has to tell from a cut."""
    reply, body, _ = await ask(Source(size_bytes=None, version=None, modified_s=None), {"Range": "bytes=9-"})
    verdict = judge(reply.status, reply.headers, Asked())
    assert (reply.status, body, verdict.action, verdict.framed) == (200, BODY, ReplyAction.ACCEPT, True)


async def test_a_question_for_the_size_sends_nothing():
    """HEAD begins no transfer; another method is refused before a connection is made."""
    source = Source()
    reply, body, log = await ask(source, method="HEAD")
    assert (reply.headers.getall("Content-Length", []), body, log) == (["200"], b"", ["close"])
    with pytest.raises(Refused, match="takes no POST"):
        await ask(source, method="POST")
