"""The reference feed server: the protocol of docs/feed-protocol.md over HTTP, and the files themselves.

It decides nothing: the store answers, in threads, and its answers become a status and JSON.
"""

import asyncio
import hashlib
import ipaddress
import os
import re
import stat
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import msgspec
from aiohttp import web

from cfetch.base.errors import LocalFault, UsageError
from cfetch.base.secret import printable
from cfetch.manifest.fields import FieldError
from cfetch.manifest.url_completion import make_relative_url
from cfetch.plugins.follow.protocol import SCHEMA, LeftOut, format_key, format_keys, parse_keys, parse_lsn
from cfetch.plugins.follow.server.store import FeedStore, File, StoredChange
from cfetch.plugins.follow.source import Why
from cfetch.storage.tree import ReadOnlyTree

MAX_LIMIT = 10_000  # changes of a page
CHUNK_BYTES = 256 << 10
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
T = TypeVar("T")
_RANGE = re.compile(r"bytes=(\d{0,19})-(\d{0,19})\Z", re.ASCII)


def feed_app(
    store: FeedStore, root: Path | None, find_left_out: Callable[[], LeftOut] = lambda: LeftOut(0, ())
) -> web.Application:
    """Make the application; ``root``: the tree whose files it serves beneath ``files/``."""
    server = _Server(store, root, find_left_out)
    app = web.Application(middlewares=[_answer_errors])
    app.router.add_get("/", server.list_ranges)
    app.router.add_get("/info", server.info)
    app.router.add_get("/read", server.read)
    app.router.add_get("/left-out", server.list_left_out)
    app.router.add_post("/split", server.split)
    app.router.add_post("/merge", server.merge)
    app.router.add_get("/files/{path:.+}", server.file)
    return app


class _Refusal(Exception):
    """An answer that is no success: a status, words, and what a program needs to know."""

    def __init__(self, status: int, error: str, **more: int | str) -> None:
        super().__init__(error)
        self.status = status
        self.more = more


@web.middleware
async def _answer_errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    try:
        return await handler(request)
    except _Refusal as refusal:
        document = {"schema": SCHEMA, "error": str(refusal), **refusal.more}
        return _make_reply(document, status=refusal.status)
    except FieldError as error:
        return _make_reply({"schema": SCHEMA, "error": str(error)}, status=400)
    except LocalFault as fault:
        return _make_reply({"schema": SCHEMA, "error": str(fault)}, status=503)


class _Server:
    def __init__(self, store: FeedStore, root: Path | None, find_left_out: Callable[[], LeftOut]) -> None:
        self._store = store
        self._root = root
        self._find_left_out = find_left_out

    # --- the protocol

    async def list_ranges(self, request: web.Request) -> web.StreamResponse:
        generation, ranges = await asyncio.to_thread(self._store.list_ranges)
        etag = {"ETag": f'"{self._store.feed}-{generation}"'}
        if request.headers.get("If-None-Match") == etag["ETag"]:
            return web.Response(status=304, headers=etag)
        rows = [
            {"id": live.id, "keys": format_keys(live.keys), "ancestors": sorted(live.ancestors)}
            for live in ranges
        ]
        return self._answer({"ranges": rows}, headers=etag)

    async def info(self, request: web.Request) -> web.StreamResponse:
        via, of = self._read_target(request)
        span = await _call_store(self._store.find_span, of, via, status=400)
        if span is None:
            raise _refuse_gone(via)
        return self._answer({"range": of, "first": span.first, "last": span.last})

    async def read(self, request: web.Request) -> web.StreamResponse:
        # ``via``: the live range that is asked; ``of``: the range whose changes are wanted, itself or an
        # ancestor
        via, of = self._read_target(request)
        next_lsn = _check_parameter(request, "next_lsn", _parse_integer)
        keys = _check_parameter(request, "keys", parse_keys)
        limit = min(_check_parameter(request, "limit", _parse_integer), MAX_LIMIT)
        if limit < 1:
            raise FieldError("limit: it must be at least 1")
        mark = request.query.get("mark", "")
        window = await _call_store(self._store.read_window, of, via, next_lsn, keys, limit, mark, status=400)
        # A window has no rows if one of these is set. The reader has waited too long (``expired``), or it
        # knows an LSN that this feed has never given (``ahead``) or has given to another change (``other``):
        # then the feed is older than the reader, and going on would skip changes.
        if window is None:
            raise _refuse_gone(via)
        if window.expired is not None:
            words = f"LSN {next_lsn} of range {of} is not kept any more; the oldest is {window.expired}"
            raise _Refusal(416, words, kept_from=window.expired)
        if window.ahead is not None:
            words = f"range {of} has given no LSN from {window.ahead} on; is it an old copy of the feed?"
            raise _Refusal(409, words, next_lsn=window.ahead)
        if window.other is not None:
            words = f"LSN {next_lsn - 1} of range {of} is another change: the feed was restored from a backup"
            raise _Refusal(409, words, mark=window.other)
        etag = {"ETag": f'"{next_lsn}"'}
        nothing = via == of and window.next_lsn == next_lsn
        if nothing and request.headers.get("If-None-Match") == etag["ETag"]:
            return web.Response(status=304, headers=etag)
        changes = [_make_row(stored) for stored in window.rows]
        marked = {} if window.mark is None else {"mark": window.mark}
        return self._answer({"range": of, "next_lsn": window.next_lsn, **marked, "changes": changes})

    async def list_left_out(self, request: web.Request) -> web.StreamResponse:
        """Name the files that the tree has and the feed lacks."""
        self._check_feed(request)
        total, files = self._find_left_out()
        return self._answer({"total": total, "files": [{"name": name, "why": why} for name, why in files]})

    async def split(self, request: web.Request) -> web.StreamResponse:
        """Split the range that ``range`` names, else the range with the most entries."""
        _check_sender(request)
        parent, children = await _call_store(self._store.split, request.query.get("range"))
        return self._answer({"range": parent, "children": list(children)})

    async def merge(self, request: web.Request) -> web.StreamResponse:
        """Merge the two neighbours that ``range`` names."""
        _check_sender(request)
        named = request.query.getall("range", [])
        if len(named) != 2:
            raise FieldError("range must be given twice: the neighbours to merge")
        child = await _call_store(self._store.merge, *named)
        return self._answer({"ranges": named, "child": child})

    def _read_target(self, request: web.Request) -> tuple[str, str]:
        """The live range that is asked, and the range whose entries are wanted."""
        self._check_feed(request)
        return _read_parameter(request, "via"), _read_parameter(request, "of")

    def _check_feed(self, request: web.Request) -> None:
        if _read_parameter(request, "feed") != self._store.feed:
            raise _Refusal(410, "another feed is published here now", code=Why.STALE)

    def _answer(self, document: dict[str, Any], headers: dict[str, str] | None = None) -> web.Response:
        return _make_reply({"schema": SCHEMA, "feed": self._store.feed, **document}, headers=headers)

    # --- files

    async def file(self, request: web.Request) -> web.StreamResponse:
        path, version = request.match_info["path"], request.query.get("sha256")
        with _Descriptor() as opened:
            known, small = await asyncio.to_thread(self._open_file, path, version, opened)
            return await _send(request, opened.number, known, small)

    def _open_file(self, path: str, version: str | None, opened: "_Descriptor") -> tuple[File, bytes | None]:
        """Open the file as it was published. A small file is also read, as another turn would cost more."""
        known = self._store.find_files([path]).get(path)
        if known is None or self._root is None:
            raise _Refusal(404, "there is no such file in the feed")
        if version is not None and version != known.sha256.hex():
            raise _Refusal(410, "this version of the file has been replaced")
        try:
            with ReadOnlyTree(self._root) as tree:
                descriptor = tree.open_file(path)
        except (OSError, UsageError):
            raise _Refusal(410, "the file has gone") from None
        try:
            small = _read_published(descriptor, known)
        except BaseException:
            os.close(descriptor)
            raise
        opened.put(descriptor)
        return known, small


class _Descriptor:
    """The descriptor that a thread opens for a request. It is closed, also if the request ended before."""

    def __init__(self) -> None:
        self.number = -1
        self._lock, self._is_over = threading.Lock(), False

    def put(self, descriptor: int) -> None:
        """Take the descriptor from the thread."""
        with self._lock:
            if not self._is_over:
                self.number = descriptor
                return
        os.close(descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._lock:
            self._is_over = True
        if self.number >= 0:
            os.close(self.number)


def _read_published(descriptor: int, known: File) -> bytes | None:
    """Check that the open file is the published version; return its bytes if it is small.

    A small file that was touched is compared by its hash. A refusal concerns this file alone: a 503 would
    stop a client's other downloads.
    """
    status, size = os.fstat(descriptor), known.size_bytes
    if not stat.S_ISREG(status.st_mode) or status.st_size != size:
        raise _Refusal(410, "this version of the file has been replaced")
    small = os.pread(descriptor, size, 0) if size <= CHUNK_BYTES else None
    if (status.st_mtime_ns, status.st_ino) == (known.mtime_ns, known.inode):
        return small
    if small is None:
        raise _Refusal(409, "the file was touched; the next scan tells whether this is still its version")
    if hashlib.sha256(small).digest() != known.sha256:
        raise _Refusal(410, "this version of the file has been replaced")
    return small


def _make_row(stored: StoredChange) -> dict[str, Any]:
    row: dict[str, Any] = {"lsn": stored.lsn, "key": format_key(stored.key), "path": stored.path}
    if stored.more is not None:
        more: dict[str, Any] = msgspec.json.decode(stored.more)
        return row | {"op": "upsert"} | more
    if stored.sha256 is None:
        return row | {"op": "delete"}
    digits = stored.sha256.hex()
    url = f"{make_relative_url('files/' + stored.path)}?sha256={digits}"
    return row | {"op": "upsert", "url": url, "size": stored.size_bytes, "sha256": digits}


async def _send(
    request: web.Request, descriptor: int, known: File, small: bytes | None
) -> web.StreamResponse:
    """Send the file, or the one requested range of it (RFC 9110, 14.2)."""
    size, etag = known.size_bytes, f'"{known.sha256.hex()}"'
    headers = {"ETag": etag, "Accept-Ranges": "bytes", "Content-Type": "application/octet-stream"}
    if request.headers.get("If-None-Match") == etag:
        return web.Response(status=304, headers={"ETag": etag})
    status, first, end = 200, 0, size
    match = _RANGE.match(request.headers.get("Range", ""))
    if match and any(match.groups()) and request.headers.get("If-Range", etag) == etag:
        if match[1]:
            first, end = int(match[1]), min(int(match[2] or size), size - 1) + 1
        else:
            first = max(0, size - int(match[2]))
        if first >= end:
            return web.Response(status=416, headers={"Content-Range": f"bytes */{size}", "ETag": etag})
        status, headers["Content-Range"] = 206, f"bytes {first}-{end - 1}/{size}"
    if small is not None and len(small) == size:
        return web.Response(status=status, headers=headers, body=small[first:end])
    reply = web.StreamResponse(status=status, headers=headers)
    reply.content_length = end - first
    await reply.prepare(request)
    while request.method != "HEAD" and first < end:
        data = await asyncio.to_thread(os.pread, descriptor, min(CHUNK_BYTES, end - first), first)
        if not data:  # the file became shorter meanwhile, so the reply is visibly cut
            assert request.transport is not None
            request.transport.abort()
            break
        await reply.write(data)
        first += len(data)
    return reply


def _check_sender(request: web.Request) -> None:
    """Allow requests from this machine only, and from no web page: a browser asks before it sends JSON."""
    peer = ipaddress.ip_address(request.remote or "::")
    forwarded = "Forwarded" in request.headers or "X-Forwarded-For" in request.headers
    if not peer.is_loopback or forwarded:
        raise _Refusal(403, "ranges are split and merged from the server's own machine")
    if request.content_type != "application/json":
        raise _Refusal(415, "send it with Content-Type: application/json")


def _refuse_gone(via: str) -> _Refusal:
    return _Refusal(410, f"range {printable(via)} is not live", code=Why.RANGE_GONE)


async def _call_store(call: Callable[..., T], *what: object, status: int = 409) -> T:
    try:
        return await asyncio.to_thread(call, *what)
    except UsageError as error:
        raise _Refusal(status, str(error)) from None


def _read_parameter(request: web.Request, name: str) -> str:
    values = request.query.getall(name, [])
    if len(values) != 1:
        raise FieldError(f"{name} must be given once")
    return values[0]


def _parse_integer(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 19):
        raise FieldError("it must be an integer")
    return parse_lsn(int(text))


def _check_parameter(request: web.Request, name: str, check: Callable[[str], T]) -> T:
    try:
        return check(_read_parameter(request, name))
    except FieldError as error:
        raise FieldError(f"{name}: {error}") from None


def _make_reply(
    document: dict[str, Any], *, status: int = 200, headers: dict[str, str] | None = None
) -> web.Response:
    headers = {"Cache-Control": "no-cache", **(headers or {})}
    body = msgspec.json.encode(document)
    return web.Response(body=body, status=status, content_type="application/json", headers=headers)
