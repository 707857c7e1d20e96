"""Bodies in chunks whose lines end with a bare LF. Pure. Imported for the first such body.

RFC 9112 (2.2) lets a recipient take a bare LF for the end of a line, and curl and browsers do. llhttp takes
it everywhere but behind the size of a chunk, so such a body is read here, from its first byte on. All lines
may end either way.
"""

import re
from collections.abc import Callable
from typing import Protocol

from httptools import HttpParserError

_HEAD_END = re.compile(rb"\r?\n\r?\n")
_INTERIM = re.compile(rb"HTTP/\S+ +1(?!01)\d\d")
_SIZE = re.compile(rb"[ \t]*([0-9A-Fa-f]{1,15})[ \t]*(?:;.*)?\r?\Z", re.DOTALL)
MAX_LINE_BYTES = 16 << 10


class _Events(Protocol):
    """What gets the body: the reply's parser."""

    def on_body(self, body: bytes, /) -> None:
        """Take a piece."""

    def on_message_complete(self) -> None:
        """Note the end."""


def find_body(reply: bytes) -> bytes:
    """What has come of the body of a reply, behind its heads."""
    place = 0
    while (end := _HEAD_END.search(reply, place)) is not None:
        is_interim = _INTERIM.match(reply, place)
        place = end.end()
        if not is_interim:
            break
    return reply[place:]


class BareChunkParser:
    """Reads the body from its first byte on, with the methods of httptools' parser that are used for one."""

    def __init__(self, events: _Events) -> None:
        self._events = events
        self._kept = b""  # a line that is not complete
        self._left_bytes = 0  # of the chunk
        self._next: Callable[[bytes], None] = self._read_size

    def feed_data(self, data: bytes | memoryview) -> None:
        """Read on. Raises HttpParserError."""
        rest = self._kept + bytes(data)
        while rest:
            if self._left_bytes:
                piece = rest[: self._left_bytes]
                self._left_bytes -= len(piece)
                self._events.on_body(piece)
                rest = rest[len(piece) :]
                continue
            line, end, rest = rest.partition(b"\n")
            if not end:
                self._kept = line
                if len(line) > MAX_LINE_BYTES:
                    raise HttpParserError
                return
            self._next(line.removesuffix(b"\r"))
        self._kept = b""

    def _read_size(self, line: bytes) -> None:
        match = _SIZE.fullmatch(line)
        if match is None:
            raise HttpParserError
        self._left_bytes = int(match[1], 16)
        self._next = self._read_end if self._left_bytes else self._read_trailer

    def _read_end(self, line: bytes) -> None:
        if line:
            raise HttpParserError
        self._next = self._read_size

    def _read_trailer(self, line: bytes) -> None:
        if not line:
            self._next = _refuse_line
            self._events.on_message_complete()


def _refuse_line(_: bytes) -> None:
    """Refuse what comes behind the reply: it is no HTTP."""
    raise HttpParserError
