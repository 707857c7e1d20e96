"""A transport without a network: scripted replies on virtual time, deterministic to the last byte.

A path's script is a list of ``Reply``; the n-th request gets the n-th, and the last one repeats.
"""

import asyncio
import re
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from multidict import CIMultiDict

from cfetch.base.errors import Transient
from cfetch.base.secret import SecretUrl

__all__ = ["FakeTransport", "Opened", "Reply"]

STUCK_S = 1e9


@dataclass(frozen=True)
class Reply:
    """``body`` is the whole object on the server; ``rate_bps`` None sends it at once after ``latency_s``.

    After ``cut`` bytes of the reply comes ``then``: "stall" for ever, "reset", or "end" like a normal end.
    ``framing`` is how the end is told: "length", "chunked" or "close". ``at_s``: the body's pieces arrive at
    these times after the head instead, in equal shares. ``place``: where redirects have led. ``handshake_s``:
    so long the handshake of its connection has no answer. ``reason``: the body of a refusal. A body
    arrives in so many ``pieces`` at ``rate_bps``.
    """

    body: bytes = b""
    status: int = 200
    latency_s: float = 0.0
    rate_bps: float | None = None
    at_s: tuple[float, ...] = ()
    cut: int | None = None
    then: str = "end"
    etag: str | None = '"v1"'
    ranges: bool = True
    framing: str = "length"
    headers: dict[str, str] = field(default_factory=dict)
    error: Exception | None = None
    place: str = "http://h.test/"
    handshake_s: float = 0.0
    reason: bytes = b""
    pieces: int = 20


@dataclass
class Opened:
    """A request as it was made. ``range`` and ``if_range`` are header texts; ``t_s`` is virtual time."""

    path: str
    n: int
    url: str
    range: str | None
    if_range: str | None
    secrets: dict[str, str]
    fresh: bool
    t_s: float
    response: "FakeResponse | None" = None


class FakeTransport:
    """Keeps the pool's ``Transport`` protocol; ``opens`` lists all requests; ``most`` were open at once."""

    def __init__(self, scripts):
        self.scripts = {k: [v] if isinstance(v, Reply) else list(v) for k, v in scripts.items()}
        self.opens: list[Opened] = []
        self._opens_of: dict[str, list[Opened]] = {}
        self.open_now: set[int] = set()
        self.most = 0

    async def open(self, url, headers, secrets, *, fresh, method="GET", connecting=None):
        path = urlsplit(url.reveal()).path[1:]
        n = len(self._opens_of.setdefault(path, [])) + 1
        now = asyncio.get_running_loop().time()
        asked = Opened(
            path,
            n,
            url.reveal(),
            headers.get("Range"),
            headers.get("If-Range"),
            dict(secrets),
            fresh,
            now,
        )
        self.opens.append(asked)
        self._opens_of[path].append(asked)
        script = self.scripts[path]
        reply = script[min(n, len(script)) - 1]
        self.open_now.add(id(asked))
        self.most = max(self.most, len(self.open_now))
        try:
            if reply.handshake_s:
                connecting.begin()
                await asyncio.sleep(reply.handshake_s)
                connecting.end()
            await asyncio.sleep(reply.latency_s)
        except asyncio.CancelledError:
            self.open_now.discard(id(asked))
            raise
        if reply.error is not None:
            self.open_now.discard(id(asked))
            raise reply.error
        asked.response = FakeResponse(reply, asked, lambda: self.open_now.discard(id(asked)))
        return asked.response

    def of(self, path):
        """The requests for one path, in order."""
        return list(self._opens_of.get(path, ()))

    def left_open(self):
        """The paths whose responses were neither read to their end nor closed."""
        return [a.path for a in self.opens if a.response is not None and not a.response.over]

    def keep_at_most(self, most):
        """None are kept."""

    async def close(self):
        """Nothing to give back."""


class FakeResponse:
    """One reply on its way."""

    def __init__(self, reply, asked, on_over):
        self.peer = "192.0.2.1:80"
        self.place = self.source = SecretUrl(reply.place)
        self.carried_bytes = 0
        self.tls_end = None
        self.over = False
        self.is_retired = False
        self._on_over = on_over
        self.status, start, end = _slice(reply, asked)
        self.phrase = b""
        self.hidden = tuple(asked.secrets.values())
        self._data = reply.body[start:end] if self.status in (200, 206) else reply.reason
        self.headers = _headers(reply, self.status, start, len(self._data))
        self._then = reply.then if reply.cut is not None else "end"
        if reply.cut is not None:
            self._data = self._data[: reply.cut]
        self._whole_by_length = self.headers.get("Content-Length") == str(len(self._data))
        now = asyncio.get_running_loop().time()
        self._arrivals = [(now + t, piece) for t, piece in _pieces(reply, self._data)]

    async def read(self, most=-1):
        if not self._arrivals:
            return await self._end()
        wait_s = self._arrivals[0][0] - asyncio.get_running_loop().time()
        if wait_s > 0:
            await asyncio.sleep(wait_s)
        data = self.read_buffered() or await self.read()
        if 0 <= most < len(data):
            self._arrivals.insert(0, (0.0, data[most:]))
            self.over = False
            data = data[:most]
        return data

    def read_buffered(self):
        now = asyncio.get_running_loop().time() + 1e-9
        arrived = [piece for t, piece in self._arrivals if t <= now]
        del self._arrivals[: len(arrived)]
        if self._whole_by_length and not self._arrivals:
            self.close()  # as a real one: the last byte of a stated length is the end
        return b"".join(arrived)

    def retire(self):
        self.is_retired = True

    def close(self):
        self.over = True
        self._on_over()

    async def _end(self):
        if self._then == "stall":
            await asyncio.sleep(STUCK_S)
        self.close()
        if self._then == "reset":
            raise Transient("the connection broke: Connection reset by peer")
        return b""


def _slice(reply, asked):
    size = len(reply.body)
    match = re.fullmatch(r"bytes=(\d+)-(\d*)", asked.range or "")
    if reply.status != 200 or match is None or not reply.ranges:
        return reply.status, 0, size
    if asked.if_range is not None and asked.if_range != reply.etag:
        return 200, 0, size
    start, end = int(match[1]), min(int(match[2]) + 1, size) if match[2] else size
    return (206, start, end) if start < size else (416, 0, size)


def _headers(reply, status, start, length):
    headers = CIMultiDict(reply.headers)
    if reply.etag is not None and status in (200, 206):
        headers.setdefault("ETag", reply.etag)
    if status == 206:
        headers.setdefault("Content-Range", f"bytes {start}-{start + length - 1}/{len(reply.body)}")
    if reply.framing == "length":
        headers.setdefault("Content-Length", str(length))
    elif reply.framing == "chunked":
        headers["Transfer-Encoding"] = "chunked"
    return headers


def _pieces(reply, data):
    if reply.at_s:
        share = -(-len(data) // len(reply.at_s))
        return [(t, data[i * share : (i + 1) * share]) for i, t in enumerate(reply.at_s)]
    if not data:
        return []
    if reply.rate_bps is None:
        return [(0.0, data)]
    share = max(1, -(-len(data) // reply.pieces))
    return [
        (min(i + share, len(data)) / reply.rate_bps, data[i : i + share]) for i in range(0, len(data), share)
    ]
