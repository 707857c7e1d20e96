"""Repeats small requests until they are answered: for documents, replies of an API, sizes of files.

The pool does not retry them, and nothing begins before the answer, so they have a small retry
budget of their own (``LIMITS``). A document is a manifest given as a URL, or a page of the SQL statement API.

The size of a file is asked with HEAD. Where that is refused, or brings no length, the first byte is asked
with GET: a signed URL is signed for GET, and refuses all else.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from io import BytesIO
from types import MappingProxyType
from typing import BinaryIO, NamedTuple, TypeVar

from cfetch.clock import Clock
from cfetch.errors import ConfigError, Refused, SourceError, Transient
from cfetch.secret import SecretText, SecretUrl
from cfetch.wire.http import Response, Transport
from cfetch.wire.judge import Action, Asked, Headers, Verdict, judge
from cfetch.wire.retry import Limits, Spent, make_throttled, next_step

MAX_MANIFEST_BYTES = 16 << 30  # 30 million presigned links; a larger manifest belongs on disk
MAX_REPLY_BYTES = 64 << 20
SILENCE_S = 30.0  # no monitor watches a document
ANSWER_S = 120.0  # for a small reply as a whole, so that single bytes now and then do not count as an answer
SLOW_S = 60.0  # from then on a document has to have come at SLOWEST_BPS
SLOWEST_BPS = 1024.0  # less is a server that holds its clients up
FIRST_BYTE = {"Range": "bytes=0-0"}
PROBE_S = 30.0  # for one try of a size: a header and a byte
LIMITS = Limits(max_attempts=5, retry_budget_s=60.0)
T = TypeVar("T")
_TOTAL = re.compile(r"bytes (?:\d{1,19}-\d{1,19}|\*)/(\d{1,19})", re.ASCII | re.IGNORECASE)
_NUMBER = re.compile(r"\d{1,19}", re.ASCII)
_STATEMENT_ID = re.compile(r"[A-Za-z0-9_-]{1,100}")


class Fetched(NamedTuple):
    """Where a document came from: ``place`` and ``source`` are as in ``Response``."""

    place: SecretUrl
    source: SecretUrl
    headers: Headers


class Answer(NamedTuple):
    """A reply that has been read; ``source`` is as in ``Response``."""

    status: int
    headers: Headers
    body: bytes
    source: SecretUrl


async def fetch_document(
    url: SecretUrl,
    sink: BinaryIO,
    *,
    transport: Transport,
    clock: Clock,
    jitter: Callable[[], float],
    secrets: Mapping[str, str] | None = None,
    max_bytes: int = MAX_MANIFEST_BYTES,
) -> Fetched:
    """Write the whole body to ``sink``, which can be truncated and starts empty.

    Raises:
        SourceError: it cannot be had; transient faults were tried again.
    """
    fetch = partial(_fetch_once, url, sink, transport, clock, max_bytes, secrets=secrets or {})
    response = await repeat_until_answered(fetch, clock=clock, jitter=jitter)
    return Fetched(response.place, response.source, response.headers)


async def ask(
    url: SecretUrl,
    *,
    transport: Transport,
    clock: Clock,
    jitter: Callable[[], float],
    expected: frozenset[int],
    max_bytes: int,
    headers: Mapping[str, str] | None = None,
    method: str = "GET",
) -> Answer:
    """Ask for a small reply as a whole: of a success, or of a status that is ``expected``.

    Raises:
        SourceError: it cannot be had; transient faults were tried again, unless ``method`` changes something.
    """

    async def ask_once() -> Answer:
        body = BytesIO()
        try:
            async with asyncio.timeout(ANSWER_S):
                response = await _fetch_once(
                    url,
                    body,
                    transport,
                    clock,
                    max_bytes,
                    headers=headers or {},
                    method=method,
                    expected=expected,
                )
        except TimeoutError:
            raise Transient(f"no whole answer within {ANSWER_S:g} s") from None
        return Answer(response.status, response.headers, body.getvalue(), response.source)

    return await (
        repeat_until_answered(ask_once, clock=clock, jitter=jitter) if method == "GET" else ask_once()
    )


async def _wait_for_byte(step: Awaitable[T]) -> T:
    try:
        async with asyncio.timeout(SILENCE_S):
            return await step
    except TimeoutError:
        raise Transient(f"no byte for {SILENCE_S:g} s") from None


async def _fetch_once(
    url: SecretUrl,
    sink: BinaryIO,
    transport: Transport,
    clock: Clock,
    max_bytes: int,
    *,
    secrets: Mapping[str, str] = MappingProxyType({}),
    headers: Mapping[str, str] = MappingProxyType({}),
    method: str = "GET",
    expected: frozenset[int] = frozenset(),
) -> Response:
    sink.seek(0)
    sink.truncate()
    response = await _wait_for_byte(transport.open(url, headers, secrets, fresh=False, method=method))
    try:
        if response.status not in expected:
            verdict = judge(response.status, response.headers, Asked())
            if verdict.action is not Action.ACCEPT:
                raise make_refusal(verdict, response, clock)
            if not verdict.framed:
                raise Refused(
                    "the server states no length, so cfetch cannot tell whether the document is complete"
                )
        size, began_s = 0, clock.monotonic()
        while data := await _wait_for_byte(response.read()):
            size += len(data)
            lasting_s = clock.monotonic() - began_s
            if lasting_s > SLOW_S and size < lasting_s * SLOWEST_BPS:
                raise Transient(f"only {size} bytes came in {lasting_s:.0f} s")
            if size > max_bytes:
                raise Refused(f"the document is longer than {max_bytes} bytes")
            sink.write(data)
    except BaseException:
        response.close()
        raise
    return response


def make_chunk_fetcher(
    host: str,
    token: SecretText,
    statement_id: str,
    *,
    transport: Transport,
    clock: Clock,
    jitter: Callable[[], float],
) -> Callable[[int], Awaitable[bytes]]:
    """A function that asks the SQL statement API for the links from a chunk index on; gives the reply's body.

    ``GET /api/2.0/sql/statements/{id}/result/chunks/{index}``. The token goes to that host only.
    """
    if not _STATEMENT_ID.fullmatch(statement_id):
        raise ConfigError("the manifest's statement_id is not valid; cfetch builds no URL from it")
    base = host if "://" in host else f"https://{host}"

    async def fetch_chunk(index: int) -> bytes:
        url = SecretUrl(f"{base.rstrip('/')}/api/2.0/sql/statements/{statement_id}/result/chunks/{index}")
        body = BytesIO()
        await fetch_document(
            url,
            body,
            transport=transport,
            clock=clock,
            jitter=jitter,
            secrets={"Authorization": f"Bearer {token.reveal()}"},
            max_bytes=MAX_REPLY_BYTES,
        )
        return body.getvalue()

    return fetch_chunk


class Prober:
    """Asks for sizes; remembers which origins refuse HEAD, so that each costs one question too many, once."""

    def __init__(self, transport: Transport, clock: Clock, jitter: Callable[[], float]) -> None:
        self._transport = transport
        self._clock = clock
        self._jitter = jitter
        self._without_head: set[str] = set()

    async def ask_size_bytes(self, url: SecretUrl, secrets: Mapping[str, str]) -> int | None:
        """The size that the server states; None when it states none.

        Raises:
            SourceError: there is no such file; transient faults were tried again.
        """

        async def ask() -> int | None:
            try:
                async with asyncio.timeout(PROBE_S):
                    size = await self._ask_by_head(url, secrets)
                    return await self._ask_by_first_byte(url, secrets) if size is None else size
            except TimeoutError:
                raise Transient(f"no answer within {PROBE_S:g} s") from None

        return await repeat_until_answered(ask, clock=self._clock, jitter=self._jitter)

    async def _ask_by_head(self, url: SecretUrl, secrets: Mapping[str, str]) -> int | None:
        """Ask with HEAD.

        None: the first byte must be asked for, also of an empty file, which some servers misstate.
        """
        origin = url.origin()
        if origin in self._without_head:
            return None
        response = await self._transport.open(url, {}, secrets, fresh=False, method="HEAD")
        try:
            if response.status == 200:
                return _read_length(response) or None
            verdict = judge(response.status, response.headers, Asked())
            if verdict.action in (Action.RETRY, Action.THROTTLE):
                raise make_refusal(verdict, response, self._clock)
            if response.status not in (404, 410):  # a missing file says nothing about the others
                self._without_head.add(origin)
            return None
        finally:
            response.close()

    async def _ask_by_first_byte(self, url: SecretUrl, secrets: Mapping[str, str]) -> int | None:
        response = await self._transport.open(url, FIRST_BYTE, secrets, fresh=False)
        try:
            size = self._read_total(response)
            if response.status == 206 and len(await response.read()) <= 1:
                await response.read()  # reads to the end, so that the connection can be used again
            return size
        finally:
            response.close()

    def _read_total(self, response: Response) -> int | None:
        if response.status in (206, 416):
            match = _TOTAL.fullmatch(_read_single(response.headers, "Content-Range") or "")
            if response.status == 206 or (match and match[1] == "0"):  # an empty file has no first byte
                return int(match[1]) if match else None
        if response.status == 200:
            return _read_length(response)
        verdict = judge(response.status, response.headers, Asked())
        raise make_refusal(verdict, response, self._clock)


def _read_length(response: Response) -> int | None:
    """The length of a whole reply, unless it is that of an encoded form."""
    headers = response.headers
    encoded = _read_single(headers, "Content-Encoding") or headers.getall("Transfer-Encoding", [])
    length = _read_single(headers, "Content-Length") or ""
    return int(length) if not encoded and _NUMBER.fullmatch(length) else None


def _read_single(headers: Headers, name: str) -> str | None:
    """Read a header with one value. None: it is missing, or has several."""
    values = set(headers.getall(name, []))
    return values.pop() if len(values) == 1 else None


async def repeat_until_answered(
    ask: Callable[[], Awaitable[T]], *, clock: Clock, jitter: Callable[[], float]
) -> T:
    """Ask again after transient faults, until there is an answer.

    Raises:
        SourceError: the last one, when it is for good or ``LIMITS`` are reached; then it says which.
    """
    start_s, errors = clock.monotonic(), 0
    while True:
        try:
            return await ask()
        except SourceError as error:
            errors += 1
            spent = Spent(errors, 0, clock.monotonic() - start_s)
            step = next_step(error, spent, LIMITS, jitter=jitter(), can_refresh=False)
            if step.delay_s is None:
                if step.reason:
                    error.args = (f"{error}; {step.reason}",)
                raise
            await clock.sleep(step.delay_s)


def make_refusal(verdict: Verdict, response: Response, clock: Clock) -> SourceError:
    """Make the error of a reply that is not accepted, where no part is kept and no link can be renewed."""
    if verdict.action is Action.THROTTLE:
        return make_throttled(verdict.reason, response.status, response.headers, clock.wall())
    kind = Transient if verdict.action is Action.RETRY else Refused
    return kind(verdict.reason, http_status=response.status)
