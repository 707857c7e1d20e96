"""The servers of a world: an origin and another, raw bytes on real sockets, well or ill as it was drawn."""

import asyncio
import contextlib
import hashlib
import json
import random
import re
import socket
import struct
from collections import Counter
from typing import Any

from cfetch.wire.listener import close_listener
from tests.attack.replies import FAULTS, Exchange, pace, reply_well
from tests.attack.world import File, Version, World, body_of, cut_body

__all__ = ["REPOSITORY", "Servers", "names_of"]

REPOSITORY = "datasets/owner/name"
TREE = f"api/{REPOSITORY}/tree/main"

_RANGE = re.compile(r"bytes=(\d+)-(\d*)")
MAX_HEAD_BYTES = 64 << 10
MOST_SMALL_BYTES = 4096  # of a file that git itself keeps


class Servers:
    """Serves a world's files at ``origin`` and ``other``; without ``hostile`` as good servers do.

    ``requests``: how often each path was asked for. ``leaks``: secrets that came to the wrong place.
    ``faults``: what was played, by name. ``total``: all requests; ``sent``: all bytes.
    """

    def __init__(self, world: World, secrets: tuple[str, ...], tls=None):
        self._world, self._secrets, self._tls = world, secrets, tls
        self._served = {
            name: (file, piece)
            for number, file in enumerate(world.files)
            for piece, name in enumerate(names_of(world, number))
        }
        self._asked: Counter[str] = Counter()  # by version's and fault's turn, over all runs
        self._open: set[Any] = set()
        self.hostile = True
        self.requests: Counter[str] = Counter()
        self.faults: Counter[str] = Counter()
        self.leaks: list[str] = []
        self.total = self.sent = 0

    async def __aenter__(self):
        self._listeners = []
        for serve in (self._serve_origin, self._serve_other):
            self._listeners.append(await asyncio.start_server(serve, "127.0.0.1", 0, ssl=self._tls))
        ports = [listener.sockets[0].getsockname()[1] for listener in self._listeners]
        scheme = "https" if self._tls else "http"
        self.origin, self.other = (f"{scheme}://localhost:{port}" for port in ports)
        return self

    async def __aexit__(self, *error):
        for listener in self._listeners:
            await close_listener(listener)
        for task, writer in list(self._open):
            writer.transport.abort()
            task.cancel()
        await asyncio.gather(*(task for task, _ in self._open), return_exceptions=True)

    async def _serve_origin(self, reader, writer):
        await self._serve(reader, writer, "origin")

    async def _serve_other(self, reader, writer):
        await self._serve(reader, writer, "other")

    async def _serve(self, reader, writer, place):
        key = (asyncio.current_task(), writer)
        self._open.add(key)
        then = "keep"
        try:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
                while then == "keep":
                    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                    then = await self._answer(head, reader, writer, place)
                if then == "reset":
                    await asyncio.sleep(0.01)  # a RST overtakes what was not read yet
                    sock = writer.get_extra_info("socket")
                    if sock is not None:
                        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        finally:
            self._open.discard(key)
            writer.transport.abort() if then == "reset" else writer.close()

    async def _answer(self, head, reader, writer, place):
        name = head.split()[1].partition("?")[0].strip("/")
        if place == "other":
            self.leaks += [secret for secret in self._secrets if secret in head]
        if name == TREE:
            self._write_list(writer)
            return "keep"
        if name not in self._served:
            writer.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
            return "keep"
        file, piece = self._served[name]
        turn = self._asked[name]
        self._asked[name] += 1
        self.requests[file.path] += 1
        self.total += 1
        fault = file.faults[turn % len(file.faults)] if self.hostile and file.faults else ""
        if fault:
            self.faults[fault] += 1
        exchange = self._exchange(name, piece, turn, head, reader, writer)
        return await (FAULTS[fault].reply if fault else reply_well)(exchange)

    def _write_list(self, writer):
        """The list of a repository: large files with their SHA-256, small ones with git's hash."""
        entries = []
        for file in self._world.files:
            if self.hostile or not file.goes:
                body = body_of(file.versions[-1])
                oid = hashlib.sha1(b"blob %d\0%s" % (len(body), body)).hexdigest()
                entry = {"type": "file", "oid": oid, "size": len(body), "path": file.path}
                large = {"lfs": {"oid": hashlib.sha256(body).hexdigest(), "size": len(body)}}
                entries.append(entry | (large if len(body) > MOST_SMALL_BYTES else {}))
        text = json.dumps(entries).encode()
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(text), text))

    def _exchange(self, name: str, piece: int, turn, head, reader, writer) -> Exchange:
        file = self._served[name][0]
        version = self._version(file, turn)
        body, etag = cut_body(body_of(version), file.pieces)[piece], _etag(file, version)
        fields = _read_fields(head)
        start, end, partial = self._range(fields, body, etag)

        async def send(data):
            async def write(piece):
                if writer.transport.is_closing():
                    raise ConnectionResetError
                writer.write(piece)
                await writer.drain()
                self.sent += len(piece)

            await pace(write, data, self._world.rate_bps if self.hostile else 1 << 30)

        async def wait(seconds):
            until_s = asyncio.get_running_loop().time() + seconds
            while asyncio.get_running_loop().time() < until_s and not reader.at_eof():
                if writer.transport.is_closing():
                    raise ConnectionResetError
                await asyncio.sleep(0.02)

        return Exchange(
            send, wait, body, etag, start, end, partial,
            other=f"{self.other}/{name}", here=f"{self.origin}/{name}",
            dice=random.Random(f"{self._world.seed} {name} {turn}"),
            is_known=etag is not None and fields.get("if-none-match") == etag,
        )  # fmt: skip

    def _version(self, file: File, turn: int) -> Version:
        for version in file.versions[:-1]:
            if self.hostile and turn < version.requests:
                return version
            turn -= version.requests
        return file.versions[-1]

    def _range(self, fields, body, etag):
        asked = _RANGE.fullmatch(fields.get("range", ""))
        if asked is None or not self._world.ranges or fields.get("if-range", etag) != etag:
            return 0, len(body), False
        start, last = int(asked[1]), int(asked[2] or len(body) - 1)
        return start, min(last + 1, len(body)), True


def names_of(world: World, number: int) -> list[str]:
    """The paths of a file's URLs, one for each of its pieces, without the slash at the beginning."""
    file = world.files[number]
    if world.hub:
        return [f"{REPOSITORY}/resolve/main/{file.path}"]
    return [f"{number}.{piece}" for piece in range(file.pieces)] if file.pieces > 1 else [str(number)]


def _read_fields(head: str) -> dict[str, str]:
    pairs = (line.partition(": ") for line in head.split("\r\n"))
    return {name.lower(): value for name, _, value in pairs}


def _etag(file: File, version: Version) -> str | None:
    text = f'"{version.start:x}-{version.size_bytes:x}"'
    return {"strong": text, "weak": f"W/{text}", "none": None}[file.etag]
