"""Reads one reply from bytes: limits, status, headers, and the pieces of the body. Pure.

llhttp, the parser of Node.js, does the work, by way of httptools; aiohttp uses the same parser. It is as
lenient as in aiohttp (many servers end lines with a bare LF). llhttp leaves all limits to its caller.
"""

import re
from collections import deque
from functools import cache
from operator import add
from typing import TYPE_CHECKING, NamedTuple

from httptools import HttpParserCallbackError, HttpParserError, HttpParserUpgrade, HttpResponseParser
from multidict import CIMultiDict, istr

from cfetch.base.config.wire import MAX_HEAD_BYTES

if TYPE_CHECKING:
    from cfetch.wire.bare_chunks import BareChunkParser

MAX_HEADER_BYTES = 100 << 10  # one header line; curl's limit, as some sites' security policies are long
MAX_HEADERS = 1000
MOST_DIGITS = 19  # of a length: 2**63 - 1
# Limit of bytes without a byte of the body: interim replies and a head, the extensions of a chunk, trailers.
# The parser keeps no more bytes than that.
MAX_BARE_BYTES = MAX_HEAD_BYTES
WAY_OUT = "cfetch's limit; --max-head-size permits a larger head"
LARGE_BYTES = 64 << 10  # pieces of this size are returned as they are, smaller pieces are joined
MANY_PIECES = 64  # each piece has some 50 bytes of overhead, and a chunk may have a single byte

_TRANSFER_ENCODING = istr("Transfer-Encoding")
_PLAIN_CODINGS = re.compile(r"[^,;\s]+(?:,[ \t]*[^,;\s]+)*(?<!identity)", re.IGNORECASE)
_MAY_BE_HEAD = re.compile(rb"[\r\n]*(?:HTTP/|ICY )", re.IGNORECASE)
NO_HEADERS: CIMultiDict[str] = CIMultiDict()


class HeadFault(HttpParserError):
    """A head that would be the same at another try; the text is for a person."""


class NoHttp(HttpParserError):
    """What the server speaks is no HTTP. Its argument: the first bytes, or the wrong line of a status."""


class BytesBehind(HttpParserError):
    """What came behind a whole reply is no HTTP."""


def make_parser(callbacks: object) -> HttpResponseParser:
    """Make a parser of one reply, and of bytes that come behind it."""
    parser = HttpResponseParser(callbacks)
    parser.set_dangerous_leniencies(
        lenient_headers=True,
        lenient_chunked_length=True,  # chunks count, and not a length beside them (RFC 9112 6.3)
        lenient_optional_cr_before_lf=True,
        lenient_spaces_after_chunk_size=True,
    )
    return parser


class HeadLimits(NamedTuple):
    """The most bytes of a head, the most bytes of one header in it, and the most headers."""

    head_bytes: int
    header_bytes: int
    headers: int


@cache
def find_head_limits(max_bytes: int) -> HeadLimits:
    """The limits of heads that may have so many bytes in all."""
    header_bytes, headers = max_bytes * MAX_HEADER_BYTES, max_bytes * MAX_HEADERS
    return HeadLimits(max_bytes, header_bytes // MAX_BARE_BYTES, headers // MAX_BARE_BYTES)


def _read_fields(fields: list[bytes], max_bytes: int) -> CIMultiDict[str]:
    """Decode names and values in turn, all at once. Raises ValueError: one is too long, or has a NUL."""
    is_long = sum(map(len, fields)) > max_bytes  # else no header is too long
    if is_long and max(map(add, map(len, fields[::2]), map(len, fields[1::2]))) > max_bytes:
        raise HeadFault(f"a header of the reply is longer than {max_bytes} bytes, {WAY_OUT}")
    texts = b"\0".join(map(bytes.rstrip, fields)).decode("utf-8", "surrogateescape").split("\0")
    if len(texts) > len(fields):
        raise ValueError("a header has a zero byte")
    return CIMultiDict(zip(texts[::2], texts[1::2], strict=True))


class BodyPieces:
    """The parsed pieces of a body that wait for their reader; ``size_bytes`` of them together."""

    __slots__ = ("_pieces", "size_bytes")

    def __init__(self) -> None:
        self._pieces: deque[bytes] = deque()
        self.size_bytes = 0

    def add(self, piece: bytes) -> None:
        """Add the next piece."""
        self._pieces.append(piece)
        self.size_bytes += len(piece)
        if len(self._pieces) > MANY_PIECES:
            self._join_last()

    def take(self, most: int) -> bytes:
        """Take the next bytes, small pieces together; a negative ``most`` is no limit."""
        taken = self._take(most)
        self.size_bytes -= len(taken)
        return taken

    def take_all(self) -> bytes:
        """Take all bytes."""
        data = b"".join(self._pieces)
        self._pieces.clear()
        self.size_bytes = 0
        return data

    def _take(self, most: int) -> bytes:
        first = self._pieces[0]
        if 0 <= most < len(first):  # only under a rate limit, where pieces are small
            self._pieces[0] = first[most:]
            return first[:most]
        if most >= 0 or len(first) >= LARGE_BYTES or len(self._pieces) == 1:
            return self._pieces.popleft()
        pieces, size_bytes = [], 0
        while self._pieces and size_bytes < LARGE_BYTES:
            pieces.append(self._pieces.popleft())
            size_bytes += len(pieces[-1])
        return b"".join(pieces)

    def _join_last(self) -> None:
        """Join the last pieces that are small."""
        small: deque[bytes] = deque()
        while self._pieces and len(self._pieces[-1]) < LARGE_BYTES:
            small.appendleft(self._pieces.pop())
        self._pieces.append(b"".join(small))


class ReplyParser:
    """One reply. ``status`` is 0 until the head has come; ``has_body`` is false for the reply to HEAD.

    The parser calls the methods ``on_…``.
    """

    __slots__ = (
        "_bare_bytes",
        "_fields",
        "_has_body",
        "_head",
        "_head_fault",
        "_is_mended",
        "_is_over",
        "_keeps",
        "_limits",
        "_parsed_bytes",
        "_parser",
        "_pieces",
        "headers",
        "phrase",
        "status",
    )

    def __init__(self, *, has_body: bool, max_head_bytes: int = MAX_BARE_BYTES) -> None:
        self._limits = find_head_limits(max_head_bytes)
        self._has_body = has_body
        self._parser: HttpResponseParser | BareChunkParser | None = make_parser(self)
        self._pieces = BodyPieces()
        self._fields: list[bytes] = []  # names and values in turn
        self._head = b""  # what has come of a head that is not complete yet
        self._head_fault: HeadFault | None = None
        self._bare_bytes = self._parsed_bytes = 0
        self._is_over = self._keeps = self._is_mended = False
        self.status = 0
        self.phrase = b""
        self.headers = NO_HEADERS

    def parse(self, data: memoryview) -> None:
        """Parse bytes that have come. Raises HttpParserError."""
        assert self._parser is not None
        self._bare_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except HttpParserUpgrade:
            self._is_over, self._keeps = True, False  # it speaks another protocol from now on
        except HttpParserError as error:
            self._mend(data, error)
        is_first = not self._parsed_bytes and (not self.status or _TRANSFER_ENCODING in self.headers)
        if is_first and self._parser is not None:
            self._head += bytes(data)

    def _mend(self, data: memoryview, error: HttpParserError) -> None:
        """Parse again what another reader understands.

        That is a head that can be mended, once all of it has come, and a body in chunks whose lines end with
        a bare LF.
        """
        if self._head_fault is not None:
            raise self._head_fault from None
        head = self._head + bytes(data)
        if self._may_be_bare() and not isinstance(error, HttpParserCallbackError):
            from cfetch.wire.bare_chunks import BareChunkParser, find_body  # few servers send them

            self._parser = BareChunkParser(self)
            self._parser.feed_data(find_body(head))
            return
        if not self.status and not _MAY_BE_HEAD.match(head):
            raise NoHttp(head) from None
        if self.status or self._is_mended:
            raise error
        from cfetch.wire.odd_heads import find_bad_status, mend_head  # few servers send such heads
        from cfetch.wire.repeated_lengths import is_whole

        if not is_whole(head):
            return  # the parser refuses all further bytes, so that this is called again
        if (line := find_bad_status(head)) is not None:
            raise NoHttp(line) from None
        mended = mend_head(head)
        if mended is None:
            raise error
        self._parser, self._head, self._is_mended, self.phrase = make_parser(self), b"", True, b""
        self._fields[:] = [text for length in mended.lengths for text in (b"Content-Length", length)]
        self._parser.feed_data(mended.data)
        self._keeps &= not mended.is_odd

    def _may_be_bare(self) -> bool:
        """Whether a body in chunks has failed before its first byte."""
        is_first = self.status and not self._parsed_bytes and not self._is_over
        is_chunked = _TRANSFER_ENCODING in self.headers
        return bool(is_first) and isinstance(self._parser, HttpResponseParser) and is_chunked

    def count_left_bytes(self) -> int:
        """How many bytes of a large body of stated length have not come; 0 for all other bodies."""
        length = self.find_length()
        if length is None or "Transfer-Encoding" in self.headers:
            return 0
        left_bytes = length - self._parsed_bytes
        return left_bytes if left_bytes > LARGE_BYTES else 0

    def find_length(self) -> int | None:
        """The length of the body, if the reply states just one, and one that a file may have."""
        stated = self.headers.getall("Content-Length", [])
        is_sound = len(stated) == 1 and stated[0].isdecimal() and len(stated[0]) <= MOST_DIGITS
        return int(stated[0]) if is_sound else None

    def on_message_begin(self) -> None:
        """Note a second reply, for which there was no request."""
        if self._is_over:
            self._keeps = False

    def on_status(self, phrase: bytes) -> None:
        """Keep the words behind the status, which may be the server's reason."""
        self.phrase += b"" if self.status else phrase

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a header. Trailers count for the limit, but are not used."""
        fields = self._fields
        if len(fields) == 2 * self._limits.headers:
            self._head_fault = (
                None
                if self.status
                else HeadFault(f"the reply has more than {self._limits.headers} headers, {WAY_OUT}")
            )
            raise ValueError("too many trailers")
        fields += name, value

    def on_headers_complete(self) -> None:
        """Note status and headers, unless the reply is an interim reply."""
        if self._is_over or self._parser is None:
            return
        assert isinstance(self._parser, HttpResponseParser)
        status = self._parser.get_status_code()
        if status < 100:
            raise ValueError("the status is none")
        if 100 <= status < 200 and status != 101:
            self._fields.clear()
            self.phrase = b""
            return
        self._keeps = self._parser.should_keep_alive()
        if self._fields:
            try:
                self.headers = _read_fields(self._fields, self._limits.header_bytes)
            except HeadFault as fault:
                self._head_fault = fault
                raise
        if _TRANSFER_ENCODING in self.headers:
            if not self._is_mended and not all(
                map(_PLAIN_CODINGS.fullmatch, self.headers.getall(_TRANSFER_ENCODING))
            ):
                raise ValueError("unknown transfer coding")  # the parser may read it otherwise than the judge
            self._keeps &= "Content-Length" not in self.headers  # they may be meant for two recipients
        self.status = status
        if not self._has_body:
            self._is_over = True

    def on_body(self, body: bytes) -> None:
        """Keep a piece of the body for the reader."""
        if self._is_over:
            self._keeps = False  # a body in a reply that must not have one
            return
        self._bare_bytes = 0
        self._pieces.add(body)
        self._parsed_bytes += len(body)

    def on_message_complete(self) -> None:
        """Note the end of the reply; after an interim reply, another one follows."""
        if self.status:
            self._is_over = True
