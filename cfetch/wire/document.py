"""Repeats small requests until they are answered: for documents, replies of an API, sizes of files.

The worker pool does not retry them, and a run cannot begin before the answer, so they have their own small
retry budget (``LIMITS``). A document is a manifest given as a URL, or a page of the SQL statement API.

A HEAD request asks for the size of a file. If HEAD is refused, or brings no length, a GET asks for the first
byte: a signed URL is signed for GET, and is refused with other methods.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from io import BytesIO
from types import MappingProxyType
from typing import BinaryIO, NamedTuple, TypeVar

from cfetch.base.clock import Clock
from cfetch.base.config.wire import ReplyOptions
from cfetch.base.errors import ConfigError, Refused, SourceError, Transient
from cfetch.base.schemes import HTTPS
from cfetch.base.secret import SecretText, SecretUrl
from cfetch.manifest.digests import Bytes
from cfetch.wire.headers import Headers
from cfetch.wire.judge import judge
from cfetch.wire.next_step import Spent, next_step
from cfetch.wire.retry import Limits
from cfetch.wire.transport import Response, Transport
from cfetch.wire.verdict import Asked, ReplyAction, Verdict

MAX_MANIFEST_BYTES = 16 << 30  # 30 million presigned links; a larger manifest must be given as a file
MAX_REPLY_BYTES = 64 << 20
SILENCE_S = 30.0  # no monitor watches a document
FIRST_BYTE_S = 120.0  # for the head: some servers make a list when they are asked for it
ANSWER_S = 120.0  # for a small reply as a whole, so that single bytes now and then do not count as an answer
SLOW_S = 60.0  # after this time, a document's average rate must be SLOWEST_BPS
SLOWEST_BPS = 1024.0  # a server below this rate only blocks its clients
DECODED = ReplyOptions(encoded="decode")
FIRST_BYTE = {"Range": "bytes=0-0"}
PROBE_S = 30.0  # for one try to get a size: a header and a byte
LIMITS = Limits(max_attempts=5, retry_budget_s=60.0)
T = TypeVar("T")
_TOTAL = re.compile(r"bytes (?:\d{1,19}-\d{1,19}|\*)/(\d{1,19})", re.ASCII | re.IGNORECASE)
_NUMBER = re.compile(r"\d{1,19}", re.ASCII)
_STATEMENT_ID = re.compile(r"[A-Za-z0-9_-]{1,100}")


class Fetched(NamedTuple):
    """The origin of a document: ``place`` and ``source`` are as in ``Response``."""

    place: SecretUrl
    source: SecretUrl
    headers: Headers

    @property
    def content_type(self) -> str | None:
        """The header; None: there is none."""
        return next(iter(self.headers.getall("Content-Type", [])), None)


class Answer(NamedTuple):
    """A reply that has been read; ``source`` is as in ``Response``."""

    status: int
    headers: Headers
    body: bytes
    source: SecretUrl

    @property
    def content_type(self) -> str | None:
        """The header; None: there is none."""
        return next(iter(self.headers.getall("Content-Type", [])), None)


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
        SourceError: the document cannot be had; transient faults were tried again.
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
    secrets: Mapping[str, str] | None = None,
    method: str = "GET",
) -> Answer:
    """Get a small reply as a whole: a success, or a status that is ``expected``.

    ``secrets``: headers that only the URL's own origin gets.

    Raises:
        SourceError: there is no such reply; after transient faults a GET, and only a GET, was tried again.
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
                    secrets=secrets or {},
                    method=method,
                    expected=expected,
                )
        except TimeoutError:
            raise Transient(f"no whole answer within {ANSWER_S:g} s") from None
        return Answer(response.status, response.headers, body.getvalue(), response.source)

    return await (
        repeat_until_answered(ask_once, clock=clock, jitter=jitter) if method == "GET" else ask_once()
    )


async def _wait_for_byte(step: Awaitable[T], limit_s: float = SILENCE_S) -> T:
    try:
        async with asyncio.timeout(limit_s):
            return await step
    except TimeoutError:
        raise Transient(f"no byte for {limit_s:g} s") from None


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
    opening = transport.open(url, headers, secrets, fresh=False, method=method)
    response = await _wait_for_byte(opening, FIRST_BYTE_S)
    read: Callable[[], Awaitable[Bytes]] = response.read
    is_framed = True
    try:
        if response.status not in expected:
            verdict = judge(response.status, response.headers, Asked(options=DECODED, link=url))
            if verdict.action is not ReplyAction.ACCEPT:
                raise await make_refusal(verdict, response, clock)
            if verdict.coding is not None:
                from cfetch.wire.decoding import Decoder  # few servers send a coding that nobody asked for

                read = Decoder(verdict.coding, read).read
            is_framed = verdict.framed
            if not is_framed and response.tls_end is None:
                raise Refused(
                    "the server states no length, so cfetch cannot tell whether the document is complete; "
                    "save it by another program, and give the file"
                )
        size, began_s = 0, clock.monotonic()
        while data := await _wait_for_byte(read()):
            size += len(data)
            lasting_s = clock.monotonic() - began_s
            if lasting_s > SLOW_S and size < lasting_s * SLOWEST_BPS:
                raise Transient(f"only {size} bytes came in {lasting_s:.0f} s")
            if size > max_bytes:
                raise Refused(f"the document is longer than {max_bytes} bytes")
            sink.write(data)
        if not is_framed and not response.tls_end:
            raise Transient("the server states no length, and the connection ended without TLS's own end")
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
    """Make a function that asks the SQL statement API for the links from a chunk index on.

    It sends ``GET /api/2.0/sql/statements/{id}/result/chunks/{index}`` and returns the reply's body. The
    token goes only to that host.
    """
    if not _STATEMENT_ID.fullmatch(statement_id):
        raise ConfigError("the manifest's statement_id is not valid; cfetch builds no URL from it")
    base = host if "://" in host else f"{HTTPS}://{host}"

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
    """Asks for sizes; remembers which origins refuse HEAD, so that each costs only one useless request."""

    def __init__(self, transport: Transport, clock: Clock, jitter: Callable[[], float]) -> None:
        self._transport = transport
        self._clock = clock
        self._jitter = jitter
        self._without_head: set[str] = set()

    async def ask_size_bytes(self, url: SecretUrl, secrets: Mapping[str, str]) -> int | None:
        """The size that the server states; None if it states none.

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

        None: a GET of the first byte is needed; also if HEAD says 0, which some servers say wrongly.
        """
        origin = url.origin()
        if origin in self._without_head:
            return None
        response = await self._transport.open(url, {}, secrets, fresh=False, method="HEAD")
        try:
            if response.status == 200:
                return _read_length(response) or None
            verdict = judge(response.status, response.headers, Asked())
            if verdict.action in (ReplyAction.RETRY, ReplyAction.WAIT, ReplyAction.THROTTLE):
                raise await make_refusal(verdict, response, self._clock)
            if response.status not in (404, 410):  # a missing file tells nothing about HEAD
                self._without_head.add(origin)
            return None
        finally:
            response.close()

    async def _ask_by_first_byte(self, url: SecretUrl, secrets: Mapping[str, str]) -> int | None:
        response = await self._transport.open(url, FIRST_BYTE, secrets, fresh=False)
        try:
            size = await self._read_total(response)
            if response.status == 206 and len(await response.read()) <= 1:
                await response.read()  # reads to the end, so that the connection can be used again
            return size
        finally:
            response.close()

    async def _read_total(self, response: Response) -> int | None:
        if response.status in (206, 416):
            match = _TOTAL.fullmatch(_read_single(response.headers, "Content-Range") or "")
            if response.status == 206 or (match and match[1] == "0"):  # an empty file has no first byte
                return int(match[1]) if match else None
        if response.status == 200:
            return _read_length(response)
        verdict = judge(response.status, response.headers, Asked())
        raise await make_refusal(verdict, response, self._clock)


def _read_length(response: Response) -> int | None:
    """The length of a whole reply, unless the reply is encoded."""
    from cfetch.wire.codings import read_codings  # only a request for a size needs it

    headers = response.headers
    encoded = read_codings(headers.getall("Content-Encoding", [])) or headers.getall("Transfer-Encoding", [])
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
        SourceError: the last error, if it is permanent or ``LIMITS`` are reached; then it says which limit.
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


async def make_refusal(verdict: Verdict, response: Response, clock: Clock) -> SourceError:
    """Make the error of a reply that is not accepted, if there is no part and no way to a fresh link."""
    if response.status not in (200, 206):
        from cfetch.wire.reasons import explain  # only a refusal needs it

        verdict = await explain(verdict, response)
    from cfetch.wire.pauses import make_throttled, make_transient

    if verdict.action is ReplyAction.THROTTLE:
        return make_throttled(verdict.reason, response.status, response.headers, clock.wall())
    if verdict.action in (ReplyAction.RETRY, ReplyAction.WAIT):
        is_made, wall_s = verdict.action is ReplyAction.WAIT, clock.wall()
        return make_transient(verdict.reason, response.status, response.headers, wall_s, is_made=is_made)
    return Refused(verdict.reason, http_status=response.status)
