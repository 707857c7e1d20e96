"""The pure half of the origin: parses request heads, chooses ranges, builds reply heads (RFC 9110, 9112).

There are no sockets here; ``cfetch.plugins.lab.bench.connection`` moves the bytes.
"""

import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import NamedTuple

_RANGE = re.compile(r"bytes=(?:(\d{1,18})-(\d{1,18})?|-(\d{1,18}))", re.ASCII)
_VERSIONS = ("HTTP/1.1", "HTTP/1.0")
_PHRASES = {status.value: status.phrase for status in HTTPStatus}


class BadRequest(Exception):
    """The request head is not HTTP/1."""


class Head(NamedTuple):
    """A request head. Header names are in lower case; if one is repeated, the last value counts."""

    method: str
    target: str
    keep_alive: bool
    headers: dict[str, str]


class Slice(NamedTuple):
    """The reply's status and which bytes it carries: ``start`` up to, not including, ``stop``."""

    status: int
    start: int
    stop: int


def parse_head(raw: bytes) -> Head:
    """Parse a head without its closing empty line.

    Raises:
        BadRequest: not a request line and header fields of HTTP/1.0 or 1.1.
    """
    lines = raw.decode("latin-1").split("\r\n")
    parts = lines[0].split(" ")
    if len(parts) != 3 or parts[2] not in _VERSIONS or not parts[1]:
        raise BadRequest("the request line is not 'METHOD target HTTP/1.x'")
    headers: dict[str, str] = {}
    for line in lines[1:]:
        name, colon, value = line.partition(":")
        if not colon or not name or name != name.strip():
            raise BadRequest("a header field has no name")
        headers[name.lower()] = value.strip()
    keep_alive = parts[2] == "HTTP/1.1" and headers.get("connection", "").lower() != "close"
    return Head(parts[0], parts[1], keep_alive, headers)


def choose_slice(headers: Mapping[str, str], size_bytes: int, etag: str) -> Slice:
    """Choose the bytes that answer a GET (RFC 9110 §13.1.5, §14.2).

    A Range counts only when If-Range is absent or is this very strong ETag; several ranges, other units and
    nonsense are ignored, as the RFC allows: then the whole file is sent with 200.
    """
    whole = Slice(200, 0, size_bytes)
    wanted = headers.get("range")
    if wanted is None or headers.get("if-range", etag) != etag:
        return whole
    match = _RANGE.fullmatch(wanted)
    if match is None:
        return whole
    first, last, suffix = match.groups()
    if suffix is not None:
        length = min(int(suffix), size_bytes)
        return Slice(206, size_bytes - length, size_bytes) if length else Slice(416, 0, 0)
    if last is not None and int(last) < int(first):
        return whole
    if int(first) >= size_bytes:
        return Slice(416, 0, 0)
    return Slice(206, int(first), size_bytes if last is None else min(int(last) + 1, size_bytes))


def reply_head(status: int, length: int | None, fields: str = "", *, keep_alive: bool = True) -> bytes:
    """Build a reply's head. ``fields`` are further header lines, each with its own line end.

    ``length`` None: the body is chunked.
    """
    connection = "" if keep_alive else "Connection: close\r\n"
    phrase = _PHRASES.get(status, "")
    size = "Transfer-Encoding: chunked" if length is None else f"Content-Length: {length}"
    return f"HTTP/1.1 {status} {phrase}\r\n{size}\r\n{fields}{connection}\r\n".encode("latin-1")
