"""How large is it? Asked of the server without taking the file.

The question is a HEAD; where that is refused, or brings no length, a GET of the first byte: a signed URL is
signed for GET, and refuses all else.
"""

import asyncio
import re
from collections.abc import Callable, Mapping

from cfetch.clock import Clock
from cfetch.errors import Transient
from cfetch.secret import SecretUrl
from cfetch.wire.http import Response, Transport
from cfetch.wire.judge import Action, Asked, Headers, judge
from cfetch.wire.repeat import refusal, until_answered

__all__ = ["Prober"]

FIRST_BYTE = {"Range": "bytes=0-0"}
TIMEOUT_S = 30.0  # for one try: a header and a byte
_TOTAL = re.compile(r"bytes (?:\d{1,19}-\d{1,19}|\*)/(\d{1,19})", re.ASCII | re.IGNORECASE)
_NUMBER = re.compile(r"\d{1,19}", re.ASCII)


class Prober:
    """Asks for sizes; remembers which origins refuse HEAD, so that each costs one question too many, once."""

    def __init__(self, transport: Transport, clock: Clock, jitter: Callable[[], float]) -> None:
        self._transport = transport
        self._clock = clock
        self._jitter = jitter
        self._without_head: set[str] = set()

    async def size_bytes(self, url: SecretUrl, secrets: Mapping[str, str]) -> int | None:
        """The size that the server states; None when it states none.

        Raises:
            SourceError: there is no such file; transient faults were tried again.
        """

        async def ask() -> int | None:
            try:
                async with asyncio.timeout(TIMEOUT_S):
                    size = await self._by_head(url, secrets)
                    return await self._by_first_byte(url, secrets) if size is None else size
            except TimeoutError:
                raise Transient(f"no answer within {TIMEOUT_S:g} s") from None

        return await until_answered(ask, clock=self._clock, jitter=self._jitter)

    async def _by_head(self, url: SecretUrl, secrets: Mapping[str, str]) -> int | None:
        """None where the first byte must be asked for: also for an empty file, a slip of some servers."""
        origin = url.origin()
        if origin in self._without_head:
            return None
        response = await self._transport.open(url, {}, secrets, fresh=False, method="HEAD")
        try:
            if response.status == 200:
                return _length(response) or None
            verdict = judge(response.status, response.headers, Asked())
            if verdict.action in (Action.RETRY, Action.THROTTLE):
                raise refusal(verdict, response.status)
            if response.status not in (404, 410):  # what is missing says nothing of the others
                self._without_head.add(origin)
            return None
        finally:
            response.close()

    async def _by_first_byte(self, url: SecretUrl, secrets: Mapping[str, str]) -> int | None:
        response = await self._transport.open(url, FIRST_BYTE, secrets, fresh=False)
        try:
            size = _stated_size(response)
            if response.status == 206 and len(await response.read()) <= 1:
                await response.read()  # the end: the connection can be used again
            return size
        finally:
            response.close()


def _stated_size(response: Response) -> int | None:
    if response.status in (206, 416):
        match = _TOTAL.fullmatch(_only(response.headers, "Content-Range") or "")
        if response.status == 206 or (match and match[1] == "0"):  # an empty file has no first byte
            return int(match[1]) if match else None
    if response.status == 200:
        return _length(response)
    raise refusal(judge(response.status, response.headers, Asked()), response.status)


def _length(response: Response) -> int | None:
    """The length of a whole reply, unless it is that of an encoded form."""
    headers = response.headers
    encoded = _only(headers, "Content-Encoding") or headers.getall("Transfer-Encoding", [])
    length = _only(headers, "Content-Length") or ""
    return int(length) if not encoded and _NUMBER.fullmatch(length) else None


def _only(headers: Headers, name: str) -> str | None:
    """A header that stands once; None when it is missing or says two things."""
    values = set(headers.getall(name, []))
    return values.pop() if len(values) == 1 else None
