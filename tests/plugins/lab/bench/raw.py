"""A client that shows every byte: what the origin's tests need and no HTTP library gives."""

import asyncio
from dataclasses import dataclass
from urllib.parse import urlsplit

__all__ = ["Raw", "Reply", "get"]


@dataclass
class Reply:
    """A reply as it came; ``body`` is shorter than ``length`` when the connection ended early."""

    status: int
    headers: dict[str, str]
    body: bytes
    ended: str = "whole"

    @property
    def length(self):
        return int(self.headers["content-length"])


class Raw:
    """One connection to ``origin``; ``async with Raw(origin.url) as raw``."""

    def __init__(self, url, limit=1 << 16):
        self.host, self.port = urlsplit(url).hostname, urlsplit(url).port
        self.limit = limit

    async def __aenter__(self):
        self.reader, self.writer = await asyncio.open_connection(self.host, self.port, limit=self.limit)
        return self

    async def __aexit__(self, *_):
        self.writer.transport.abort()
        await asyncio.sleep(0)

    def send(self, path, *fields, method="GET", version="HTTP/1.1"):
        lines = (f"{method} /{path} {version}", "Host: x", *fields, "", "")
        self.writer.write("\r\n".join(lines).encode("latin-1"))

    async def head(self):
        raw = await self.reader.readuntil(b"\r\n\r\n")
        first, *lines = raw.decode("latin-1").rstrip("\r\n").split("\r\n")
        headers = {k.lower(): v for k, v in (line.split(": ", 1) for line in lines)}
        return Reply(int(first.split(" ")[1]), headers, b"")

    async def reply(self, *, body=True):
        got = await self.head()
        while body and len(got.body) < got.length:
            try:
                piece = await self.reader.read(got.length - len(got.body))
            except ConnectionResetError:
                got.ended = "reset"
                break
            if not piece:
                got.ended = "closed"
                break
            got.body += piece
        return got

    async def get(self, path, *fields, **how):
        self.send(path, *fields, **how)
        return await self.reply(body=how.get("method") != "HEAD")

    async def closed(self):
        """Whether the origin closes without sending anything more."""
        return await self.reader.read(1) == b""


async def get(url, path, *fields):
    """One request on a connection of its own."""
    async with Raw(url) as raw:
        return await raw.get(path, *fields)
