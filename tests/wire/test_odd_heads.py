"""Heads that parsers differ about: read as curl, wget and aria2 read them, and never against the judge."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from multidict import CIMultiDict

from cfetch.base.errors import SourceError, Transient
from cfetch.base.secret import SecretUrl
from cfetch.manifest.entry import Entry, safe_path
from cfetch.wire.judge import judge
from cfetch.wire.odd_heads import mend_head, spell_codings
from cfetch.wire.transport import CutHead
from cfetch.wire.verdict import Asked, ReplyAction
from tests.engine.test_pool_wire import fetched
from tests.wire.raw_server import RawServer
from tests.wire.wire import ask

BODY = b"body of a file\n"
SIZED = b"Content-Length: %d\r\n" % len(BODY)
CHUNKS = b"%x\r\n%b\r\n0\r\n\r\n" % (len(BODY), BODY)


def head(status=b"HTTP/1.1 200 OK", fields=SIZED):
    return status + b"\r\n" + fields + b"\r\n"


@pytest.mark.parametrize(
    "sent",
    [
        *(
            head(status) + BODY
            for status in (
                b"http/1.1 200 ok", b"HTTP/2 200", b"HTTP/1.2 200 OK", b"HTTP/1.1  200  OK", b"ICY 200 OK",
            )
        ),
        *(
            head(fields=line + b"\r\n" + SIZED) + BODY
            for line in (
                b": no name", b"Two Words: x", "X-Ü: x".encode(), b"X: a\rb",
                b"Transfer-Encoding:", b"Transfer-Encoding: identity", b"Transfer-Encoding: , ;x",
            )
        ),
        *(
            head(fields=b"Content-Length: " + length + b"\r\n") + BODY
            for length in (b"+%d" % len(BODY), b"%d bytes" % len(BODY), b"0%d" % len(BODY))
        ),
        *(
            head(fields=b"Transfer-Encoding: " + coding + b"\r\n") + CHUNKS
            for coding in (b"chunked,", b",chunked", b"chunked;q=1", b"Chunked, , ", b"chunked, identity")
        ),
        head(fields=b": no name\r\nTransfer-Encoding: chunked,\r\n") + CHUNKS,
    ],
)  # fmt: skip
@pytest.mark.parametrize("piece_bytes", [1, 1 << 16])
async def test_a_head_that_others_read_is_read(sent, piece_bytes):
    """However it comes; the body is the file's bytes and no line of a chunk."""

    class Piecemeal(RawServer):
        async def answer(self, writer, reply):
            for start in range(0, len(reply), piece_bytes):
                writer.write(reply[start : start + piece_bytes])
                await writer.drain()
            return self.then

    async with Piecemeal(sent) as server:
        assert await ask(server.url) == (200, BODY)


async def test_the_connection_of_an_odd_head_is_not_used_again(tmp_path):
    """Where its reply ends is what parsers differ about."""
    async with RawServer(head(fields=b": no name\r\n" + SIZED) + BODY) as server:
        entries = [Entry(id=n, path=safe_path(str(n)), url=SecretUrl(server.url)) for n in range(3)]
        records, _ = await fetched(tmp_path, entries, concurrency=1)
    assert {record.status for record in records.values()} == {"done"}
    assert server.connections == 3


@pytest.mark.parametrize(
    "sent",
    [
        b"hello",
        b"HTTP/1.1 x\r\n\r\n",
        head(fields=b"Content-Length: 1e3\r\n"),
        head(fields=b"Content-Length: 1 2\r\n"),
    ],
)
async def test_what_nobody_can_read_is_an_error(sent):
    """A number that others would read to its first letter is a guess about where the file ends."""
    async with RawServer(sent + BODY, then="close") as server:
        with pytest.raises(Transient, match="not proper HTTP"):
            await ask(server.url)


@pytest.mark.parametrize(("sent", "words"), [
    (b"SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n", "not proper HTTP: it begins with SSH-2.0-OpenSSH_9.2p1 Debian-2"),
    (b"\x15\x03\x01\x00\x02\x02\x46", "the port speaks TLS: write https:// in place of http://"),
    (head(fields=b"Content-Length: -5\r\n"), "not proper HTTP: invalid character in content-length"),
    (b"HTTP/1.1 000 Nope\r\n\r\n", "not proper HTTP: it begins with HTTP/1.1 000 Nope"),
    (b"HTTP/1.1 2000 OK\r\nA: b\r\n\r\nHTTP/1.1 x", "not proper HTTP: it begins with HTTP/1.1 2000 OK"),
    (b"HTTP/1.1 103 E\r\nA: b\r\n\r\nHTTP/1.1 -1\r\n\r\n", "not proper HTTP: it begins with HTTP/1.1 -1"),
    (head(fields=b"A: b\0c\r\n"), "not proper HTTP: a header has a zero byte"),
])  # fmt: skip
async def test_what_speaks_no_http_is_named(sent, words):
    """By its first line, which says what it is; of headers only the parser's words are shown."""
    async with RawServer(sent, then="close") as server:
        with pytest.raises(SourceError, match=f"{words}$"):
            await ask(server.url)


async def test_a_head_that_is_cut_off_tells_its_status():
    """The last one: interim replies may come before."""
    for sent, status in ((b"HTTP/1.1 103 E\r\n\r\nHTTP/1.1 404 x\r\nA", 404), (b"HTTP/1.1 40", None)):
        async with RawServer(sent, then="close") as server:
            with pytest.raises(CutHead) as caught:
                await ask(server.url)
        assert caught.value.status == status


@given(st.lists(st.sampled_from(["chunked", "Chunked", "identity", "", "gzip", "x;y", " ", "chunked ;a=b"])))
def test_the_judge_and_the_parser_agree_about_chunks(words):
    """The spelling that the parser gets says what the judge reads, and is spelled anew only once."""
    stated = ",".join(words)
    spelled = spell_codings(stated)
    assert spell_codings(spelled) == spelled
    action = judge(200, CIMultiDict({"Transfer-Encoding": stated}), Asked(size_bytes=1)).action
    again = judge(200, CIMultiDict({"Transfer-Encoding": spelled}), Asked(size_bytes=1)).action
    assert action in (again, ReplyAction.REFUSE)


@given(
    st.binary(max_size=60),
    st.lists(st.sampled_from([b"Content-Length: 5", b"content-length:+5", b"A: b", b"c", b" d"])),
)
def test_a_mended_head_needs_no_mending(status, lines):
    """And never loses what comes behind it."""
    text = b"\r\n".join([b"HTTP/1.1 200 " + status.replace(b"\n", b"").replace(b"\r", b""), *lines])
    mended = mend_head(text + b"\r\n\r\nBODY")
    if mended is not None:
        assert mended.data.endswith(b"\r\n\r\nBODY")
        assert mend_head(mended.data) is None
