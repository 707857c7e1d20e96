"""Where the files of a feed of segments are: a directory, or a prefix of URLs."""

import asyncio
import os
import stat
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Protocol, TypeVar

from cfetch.clock import Clock
from cfetch.errors import Refused, Transient
from cfetch.manifest.urls import relative_url
from cfetch.placement.local import local_fault
from cfetch.secret import SecretUrl, printable
from cfetch.transfer.http import Response, Transport
from cfetch.transfer.judge import Action, Asked, judge
from cfetch.transfer.repeat import refusal, until_answered

__all__ = ["DirectoryFiles", "SegmentFiles", "UrlFiles"]

SILENCE_S = 30.0  # as for other documents: no monitor watches these
BLOCK_BYTES = 1 << 20
T = TypeVar("T")


class SegmentFiles(Protocol):
    """Files by their paths, which were checked. All raise SourceError or LocalFault."""

    base_url: str | None
    """What relative URLs are joined to where the index does not say."""

    account: str

    async def fresh(self, path: str, most: int) -> bytes | None:
        """The whole file as it is now; None: it is not there. Refused if it has more than ``most``."""

    async def tail(self, path: str, from_byte: int, most: int) -> bytes | None:
        """At most ``most`` bytes from ``from_byte`` on: ``b""`` if there are none; None: it is not there."""

    async def close(self) -> None:
        """Let go of connections."""


class DirectoryFiles:
    """Below one directory, which is given by its own user; a symlink must not lead out of it."""

    base_url: str | None = None
    account = "file://"

    def __init__(self, root: Path) -> None:
        self._root = root.resolve()

    async def fresh(self, path: str, most: int) -> bytes | None:
        """See ``SegmentFiles``."""
        return await asyncio.to_thread(self._fresh, path, most)

    async def tail(self, path: str, from_byte: int, most: int) -> bytes | None:
        """See ``SegmentFiles``."""
        return await asyncio.to_thread(self._tail, path, from_byte, most)

    async def close(self) -> None:
        """There is nothing to let go of."""

    def _fresh(self, path: str, most: int) -> bytes | None:
        data = self._tail(path, 0, most + 1)
        if data is not None and len(data) > most:
            raise Refused(f"{printable(path)} is longer than {most} bytes")
        return data

    def _tail(self, path: str, from_byte: int, most: int) -> bytes | None:
        where = (self._root / path).resolve()
        if not where.is_relative_to(self._root):
            raise Refused(f"{printable(path)} leads out of the feed's directory")
        try:
            descriptor = os.open(where, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # a FIFO does not hang
            try:
                if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                    raise Refused(f"{printable(path)} is not a regular file")
                with os.fdopen(descriptor, "rb", closefd=False) as file:
                    file.seek(from_byte)
                    return file.read(most)
            finally:
                os.close(descriptor)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise local_fault(error, f"cannot read {printable(str(where))}") from None


class UrlFiles:
    """Below one URL, by GET; a query of it, such as a signature, is sent with each request."""

    def __init__(
        self, url: SecretUrl, *, transport: Transport, clock: Clock, jitter: Callable[[], float]
    ) -> None:
        """``transport`` is closed with this."""
        stem, mark, query = url.reveal().partition("#")[0].partition("?")
        self.base_url: str | None = stem.rstrip("/") + "/"
        self.account = url.origin()
        self._query = mark + query
        self._transport = transport
        self._clock = clock
        self._jitter = jitter
        self._kept: dict[str, tuple[str, bytes]] = {}

    async def fresh(self, path: str, most: int) -> bytes | None:
        """See ``SegmentFiles``. Asked again, the server may say by its ETag that it is the same."""
        return await self._answered(lambda: self._fresh(path, most))

    async def tail(self, path: str, from_byte: int, most: int) -> bytes | None:
        """See ``SegmentFiles``. A server without ranges sends the whole."""
        return await self._answered(lambda: self._tail(path, from_byte, most))

    async def close(self) -> None:
        """See ``SegmentFiles``."""
        await self._transport.close()

    async def _answered(self, ask: Callable[[], Awaitable[T]]) -> T:
        return await until_answered(ask, clock=self._clock, jitter=self._jitter)

    async def _open(self, path: str, headers: dict[str, str]) -> Response:
        url = SecretUrl(f"{self.base_url}{relative_url(path)}{self._query}")
        return await _in_time(self._transport.open(url, headers, {}, fresh=False))

    async def _fresh(self, path: str, most: int) -> bytes | None:
        kept = self._kept.get(path)
        response = await self._open(path, {} if kept is None else {"If-None-Match": kept[0]})
        try:
            if response.status == 304 and kept is not None:
                return kept[1]
            if response.status in (404, 410):
                return None
            data = await _body(response, Asked(), 0, most)
        finally:
            response.close()
        self._kept.pop(path, None)
        etags = response.headers.getall("ETag", [])
        if len(etags) == 1:
            self._kept[path] = (etags[0], data)
        return data

    async def _tail(self, path: str, from_byte: int, most: int) -> bytes | None:
        response = await self._open(path, {"Range": f"bytes={from_byte}-"} if from_byte else {})
        try:
            if response.status in (404, 410):
                return None
            if response.status == 416:
                return b""
            return await _body(response, Asked(from_byte=from_byte), from_byte, most)
        finally:
            response.close()


async def _in_time(step: Awaitable[T]) -> T:
    try:
        async with asyncio.timeout(SILENCE_S):
            return await step
    except TimeoutError:
        raise Transient(f"no byte for {SILENCE_S:g} s") from None


async def _body(response: Response, asked: Asked, from_byte: int, most: int) -> bytes:
    """What the reply has of the file from ``from_byte`` on."""
    verdict = judge(response.status, response.headers, asked)
    if verdict.action is not Action.ACCEPT:
        raise refusal(verdict, response.status)
    if not verdict.framed:
        raise Refused("the server states no length, so a file that was cut short would go unseen")
    skipped = from_byte - verdict.from_byte
    data = bytearray()
    while block := await _in_time(response.read(BLOCK_BYTES)):
        data += block
        if len(data) > skipped + most:
            raise Refused(f"the file has more than {most} bytes")
    return bytes(data[skipped:])
