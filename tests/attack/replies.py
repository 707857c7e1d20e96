"""What servers do wrong. A fault ``needs`` so much in the manifest that a client can notice it at all."""

import asyncio
import gzip
import random
from collections.abc import Awaitable, Callable
from typing import Literal, NamedTuple

__all__ = ["FAULTS", "HASH", "NOTHING", "SIZE", "Exchange", "Fault", "reply_well"]

NOTHING, SIZE, HASH = range(3)
PIECE_BYTES = 64 << 10
MAX_PAUSE_S = 3.0  # beyond every stall time-out that is drawn
Then = Literal["keep", "close", "reset"]
CONTROLS = "\x1b]0;owned\x07\x1b[31m\x9b2J"


class Exchange(NamedTuple):
    """One request and the means to answer it: the version's bytes, and where the asked range begins and ends.

    ``send`` takes bytes at the server's rate; ``wait`` pauses as long as the client stays; ``other``: the
    URL of the same file at another origin; ``partial``: a proper answer would be a 206; ``is_known``: the
    client has this version, and asked for another one.
    """

    send: Callable[[bytes], Awaitable[None]]
    wait: Callable[[float], Awaitable[None]]
    body: bytes
    etag: str | None
    start: int
    end: int
    partial: bool
    other: str
    here: str
    dice: random.Random
    is_known: bool

    @property
    def wanted(self) -> bytes:
        """The bytes of a proper answer."""
        return self.body[self.start : self.end]

    def head(self, status: str, *fields: str, etag: bool = True) -> bytes:
        """A status line and fields."""
        own = (f"ETag: {self.etag}",) if etag and self.etag else ()
        return "\r\n".join([f"HTTP/1.1 {status}", *fields, *own, "", ""]).encode("latin-1")

    def proper_head(self, *fields: str, length: int | None = None, total: object = None) -> bytes:
        """The head of a proper answer, with another length or total where one is given."""
        stated = (f"Content-Length: {len(self.wanted) if length is None else length}",)
        if not self.partial:
            return self.head("200 OK", *stated, *fields)
        total = len(self.body) if total is None else total
        place = f"Content-Range: bytes {self.start}-{self.end - 1}/{total}"
        return self.head("206 Partial Content", place, *stated, *fields)

    def cut(self) -> bytes:
        """The beginning of what was asked for."""
        return self.wanted[: self.dice.randint(0, max(0, len(self.wanted) - 1))]


async def reply_well(x: Exchange) -> Then:
    """As a good server does."""
    if x.is_known:
        await x.send(x.head("304 Not Modified"))
        return "keep"
    if x.partial and x.start >= len(x.body):
        await x.send(x.head("416 Range Not Satisfiable", "Content-Length: 0"))
        return "keep"
    await x.send(x.proper_head())
    await x.send(x.wanted)
    return "keep"


class Fault(NamedTuple):
    """See the module."""

    needs: int
    reply: Callable[[Exchange], Awaitable[Then]]


FAULTS: dict[str, Fault] = {}
Reply = Callable[[Exchange], Awaitable[Then]]


def fault(needs: int) -> Callable[[Reply], Reply]:
    """Register a reply under its name."""

    def register(reply: Reply) -> Reply:
        FAULTS[reply.__name__.replace("_", " ")] = Fault(needs, reply)
        return reply

    return register


@fault(NOTHING)
async def closed_at_once(x: Exchange) -> Then:
    return x.dice.choice(("close", "reset"))


@fault(NOTHING)
async def cut_body(x: Exchange) -> Then:
    await x.send(x.proper_head() + x.cut())
    return x.dice.choice(("close", "reset"))


@fault(NOTHING)
async def cut_head(x: Exchange) -> Then:
    head = x.proper_head()
    await x.send(head[: x.dice.randrange(len(head))])
    return x.dice.choice(("close", "reset"))


@fault(NOTHING)
async def cut_after_its_last_byte(x: Exchange) -> Then:
    await x.send(x.proper_head() + x.wanted)
    return "reset"


@fault(NOTHING)
async def stall(x: Exchange) -> Then:
    await x.send(x.proper_head() + x.cut())
    await x.wait(MAX_PAUSE_S)
    return "close"


@fault(NOTHING)
async def silence(x: Exchange) -> Then:
    await x.wait(MAX_PAUSE_S)
    return "close"


@fault(NOTHING)
async def trickle(x: Exchange) -> Then:
    await x.send(x.proper_head())
    for place in range(min(12, len(x.wanted))):
        await x.send(x.wanted[place : place + 1])
        await x.wait(0.1)
    await x.send(x.wanted[12:])
    return "keep"


def _chunks(data: bytes, dice: random.Random) -> bytes:
    step = max(1, len(data) // dice.randint(1, 5))
    pieces = (data[place : place + step] for place in range(0, len(data), step))
    return b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces)


def _chunked_head(x: Exchange, *fields: str) -> bytes:
    if not x.partial:
        return x.head("200 OK", "Transfer-Encoding: chunked", *fields)
    place = f"Content-Range: bytes {x.start}-{x.end - 1}/{len(x.body)}"
    return x.head("206 Partial Content", place, "Transfer-Encoding: chunked", *fields)


@fault(NOTHING)
async def chunked(x: Exchange) -> Then:
    trailer = x.dice.choice((b"", b"X-Trailer: 1\r\n"))
    await x.send(_chunked_head(x) + _chunks(x.wanted, x.dice) + b"0\r\n" + trailer + b"\r\n")
    return "keep"


@fault(NOTHING)
async def chunks_cut(x: Exchange) -> Then:
    data = _chunks(x.wanted, x.dice)
    await x.send(_chunked_head(x) + data[: x.dice.randint(0, len(data))])
    return x.dice.choice(("close", "reset"))


BAD_CHUNKS = (
    b"zz\r\n", b"-5\r\nhello\r\n", b"fffffffffffffffffff\r\n", b"5hello\r\n", b"\r\n", b"0\r\nX",
    b"0\r\n\x00\r\n\r\n", b"5;\r\r\nhello\r\n", b"0x5\r\nhello\r\n", b"3\r\nhello\r\n0\r\n\r\n",
    b"0\r\nno colon\r\n\r\n", b" 5\r\nhello\r\n",
)  # fmt: skip


@fault(NOTHING)
async def chunks_malformed(x: Exchange) -> Then:
    data = _chunks(x.wanted, x.dice)
    await x.send(_chunked_head(x) + x.dice.choice((b"", data)) + x.dice.choice(BAD_CHUNKS))
    return x.dice.choice(("close", "keep"))


@fault(NOTHING)
async def last_chunk_malformed(x: Exchange) -> Then:
    await x.send(
        _chunked_head(x) + _chunks(x.wanted, x.dice) + x.dice.choice((b"0\r\nX\r\n", b"0;\x00\r\n\r\n"))
    )
    return "keep"


@fault(NOTHING)
async def no_length(x: Exchange) -> Then:
    await x.send(x.head("200 OK", "Connection: close") + x.body)
    return "close"


@fault(NOTHING)
async def no_length_and_cut(x: Exchange) -> Then:
    await x.send(x.head("200 OK", "Connection: close") + x.body[: x.dice.randint(0, max(0, len(x.body) - 1))])
    return x.dice.choice(("close", "reset"))


@fault(NOTHING)
async def two_lengths(x: Exchange) -> Then:
    await x.send(x.proper_head(f"Content-Length: {len(x.wanted) // 2}") + x.wanted)
    return "close"


@fault(NOTHING)
async def length_and_chunks(x: Exchange) -> Then:
    await x.send(_chunked_head(x, "Content-Length: 3") + _chunks(x.wanted, x.dice) + b"0\r\n\r\n")
    return "close"


@fault(NOTHING)
async def length_of_no_number(x: Exchange) -> Then:
    length = x.dice.choice(("-1", "+5", "5, 6", "0x10", "1e3", "", "9" * 30, "٣"))
    head = f"HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n"
    await x.send(head.encode() + x.body)
    return "close"


@fault(NOTHING)
async def length_too_long(x: Exchange) -> Then:
    await x.send(x.proper_head(length=len(x.wanted) + x.dice.choice((1, 1000, 1 << 40))) + x.wanted)
    return "close"


@fault(NOTHING)
async def more_than_stated(x: Exchange) -> Then:
    await x.send(x.proper_head() + x.wanted + x.dice.randbytes(3000))
    return x.dice.choice(("close", "keep"))


@fault(NOTHING)
async def second_reply_unasked(x: Exchange) -> Then:
    await x.send(x.proper_head() + x.wanted + b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nlies")
    return "keep"


@fault(NOTHING)
async def whole_for_a_range(x: Exchange) -> Then:
    await x.send(x.head("200 OK", f"Content-Length: {len(x.body)}") + x.body)
    return "keep"


@fault(NOTHING)
async def range_unasked(x: Exchange) -> Then:
    half = len(x.body) // 2
    place = f"Content-Range: bytes 0-{max(0, half - 1)}/{len(x.body)}"
    await x.send(x.head("206 Partial Content", place, f"Content-Length: {half}") + x.body[:half])
    return "keep"


@fault(NOTHING)
async def range_elsewhere(x: Exchange) -> Then:
    start = x.dice.randint(0, max(0, len(x.body) - 1))
    place = f"Content-Range: bytes {start}-{len(x.body) - 1}/{len(x.body)}"
    data = x.body[start:]
    await x.send(x.head("206 Partial Content", place, f"Content-Length: {len(data)}") + data)
    return "keep"


@fault(NOTHING)
async def range_without_its_place(x: Exchange) -> Then:
    await x.send(x.head("206 Partial Content", f"Content-Length: {len(x.wanted)}") + x.wanted)
    return "keep"


@fault(NOTHING)
async def range_garbled(x: Exchange) -> Then:
    place = x.dice.choice(("bytes", "bytes */5", "bytes 5-1/3", "bytes a-b/c", "items 0-4/5", "bytes 0-/9"))
    await x.send(
        x.head("206 Partial Content", f"Content-Range: {place}", f"Content-Length: {len(x.wanted)}")
        + x.wanted
    )
    return "keep"


@fault(NOTHING)
async def range_of_another_total(x: Exchange) -> Then:
    await x.send(x.proper_head(total=x.dice.choice((len(x.body) + 1, "*", 1))) + x.wanted)
    return "keep"


@fault(NOTHING)
async def less_than_the_range(x: Exchange) -> Then:
    if not x.partial or len(x.wanted) < 2:
        return await reply_well(x)
    data = x.wanted[: len(x.wanted) // 2]
    place = f"Content-Range: bytes {x.start}-{x.start + len(data) - 1}/{len(x.body)}"
    await x.send(x.head("206 Partial Content", place, f"Content-Length: {len(data)}") + data)
    return "keep"


@fault(NOTHING)
async def several_ranges(x: Exchange) -> Then:
    head = "Content-Type: multipart/byteranges; boundary=b"
    await x.send(x.head("206 Partial Content", head, f"Content-Length: {len(x.wanted)}") + x.wanted)
    return "keep"


@fault(NOTHING)
async def no_such_range(x: Exchange) -> Then:
    await x.send(x.head("416 Range Not Satisfiable", "Content-Length: 0"))
    return "keep"


@fault(NOTHING)
async def fickle_etag(x: Exchange) -> Then:
    return await reply_well(x._replace(etag=f'"{x.dice.randbytes(4).hex()}"'))


@fault(NOTHING)
async def long_etag(x: Exchange) -> Then:
    return await reply_well(x._replace(etag='"' + (x.etag or "x").strip('"') * 700 + '"'))


@fault(NOTHING)
async def two_etags(x: Exchange) -> Then:
    await x.send(x.proper_head('ETag: "another"') + x.wanted)
    return "keep"


@fault(NOTHING)
async def gzip_unasked(x: Exchange) -> Then:
    data = gzip.compress(x.body, 1)
    coding = x.dice.choice(("gzip", "deflate", "br", "gzip, gzip", "x-unheard-of"))
    await x.send(x.head("200 OK", f"Content-Encoding: {coding}", f"Content-Length: {len(data)}") + data)
    return "keep"


@fault(NOTHING)
async def error_status(x: Exchange) -> Then:
    status = x.dice.choice((401, 403, 404, 408, 410, 421, 425, 500, 501, 502, 504, 522, 204, 304, 599))
    fields = ("Content-Length: 3",) if status not in (204, 304) else ()
    await x.send(x.head(f"{status} {CONTROLS}", *fields) + (b"err" if fields else b""))
    return x.dice.choice(("keep", "close"))


@fault(NOTHING)
async def slow_down(x: Exchange) -> Then:
    after = x.dice.choice(("0", "1", "-3", "soon", "", "86400", "Mon, 01 Jan 2001 00:00:00 GMT"))
    await x.send(x.head(x.dice.choice(("429 No", "503 No")), f"Retry-After: {after}", "Content-Length: 0"))
    return "keep"


@fault(NOTHING)
async def redirect_to_the_same(x: Exchange) -> Then:
    await x.send(x.head("302 Found", f"Location: {x.here}", "Content-Length: 0"))
    return "keep"


@fault(NOTHING)
async def redirect_to_another_origin(x: Exchange) -> Then:
    status = x.dice.choice(("301 M", "302 F", "303 S", "307 T", "308 P"))
    await x.send(x.head(status, f"Location: {x.other}", "Content-Length: 0"))
    return "keep"


@fault(NOTHING)
async def redirect_to_nowhere(x: Exchange) -> Then:
    target = x.dice.choice(
        (
            "file:///etc/passwd",
            "ftp://x/y",
            "//",
            "http://[::1",
            "",
            "javascript:1",
            "http://u:CANARYp@x/",
            "\x1b[2J",
        )
    )
    await x.send(x.head("302 Found", f"Location: {target}", "Content-Length: 0"))
    return "keep"


@fault(NOTHING)
async def garbage(x: Exchange) -> Then:
    await x.send(
        x.dice.choice((x.dice.randbytes(200), b"<html>\r\n\r\n", b"HTTP/9.9 200 OK\r\n\r\n", b"\r\n" * 50))
    )
    return "close"


@fault(NOTHING)
async def damaged_head(x: Exchange) -> Then:
    head = bytearray(x.head("500 Oops", "Content-Length: 0", "X-Long: " + "y" * 40))
    for _ in range(x.dice.randint(1, 4)):
        head[x.dice.randrange(len(head))] = x.dice.randrange(256)
    await x.send(bytes(head))
    return "close"


@fault(NOTHING)
async def endless_head(x: Exchange) -> Then:
    await x.send(b"HTTP/1.1 200 OK\r\n" + b"X-More: abc\r\n" * 40_000)
    return "close"


@fault(NOTHING)
async def interim_replies(x: Exchange) -> Then:
    await x.send(b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" * x.dice.randint(1, 30))
    return await reply_well(x)


@fault(SIZE)
async def length_too_short(x: Exchange) -> Then:
    data = x.cut()
    await x.send(x.head("200 OK", f"Content-Length: {len(data)}") + data)
    return "keep"


@fault(SIZE)
async def last_chunk_too_early(x: Exchange) -> Then:
    data = x.cut()
    await x.send(x.head("200 OK", "Transfer-Encoding: chunked") + _chunks(data, x.dice) + b"0\r\n\r\n")
    return "keep"


@fault(SIZE)
async def error_page(x: Exchange) -> Then:
    page = b"<html>" + b"x" * (len(x.body) + 7)
    await x.send(x.head("200 OK", f"Content-Length: {len(page)}", etag=False) + page)
    return "keep"


@fault(SIZE)
async def endless_chunks(x: Exchange) -> Then:
    await x.send(x.head("200 OK", "Transfer-Encoding: chunked"))
    for _ in range(80):
        await x.send(b"10000\r\n" + bytes(0x10000) + b"\r\n")
    return "close"


@fault(HASH)
async def flipped_byte(x: Exchange) -> Then:
    data = bytearray(x.wanted)
    if data:
        data[x.dice.randrange(len(data))] ^= 1 << x.dice.randrange(8)
    await x.send(x.proper_head() + bytes(data))
    return "keep"


@fault(HASH)
async def shifted_range(x: Exchange) -> Then:
    await x.send(x.proper_head() + (x.wanted[1:] + x.wanted[:1]))
    return "keep"


@fault(HASH)
async def other_bytes_under_the_same_etag(x: Exchange) -> Then:
    await x.send(x.proper_head() + x.dice.randbytes(len(x.wanted)))
    return "keep"


async def pace(send: Callable[[bytes], Awaitable[None]], data: bytes, rate_bps: int) -> None:
    """Send ``data`` at about so many bytes per second."""
    for place in range(0, len(data), PIECE_BYTES):
        piece = data[place : place + PIECE_BYTES]
        await send(piece)
        pause_s = len(piece) / rate_bps
        if pause_s > 0.001:
            await asyncio.sleep(pause_s)
