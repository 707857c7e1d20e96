"""Small documents over HTTP: a manifest given as a URL, and the SQL statement API's lists of fresh links."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from io import BytesIO
from types import MappingProxyType
from typing import BinaryIO, NamedTuple, TypeVar

from cfetch.clock import Clock
from cfetch.errors import ConfigError, Refused, Transient
from cfetch.secret import SecretText, SecretUrl
from cfetch.wire.http import Response, Transport
from cfetch.wire.judge import Action, Asked, Headers, judge
from cfetch.wire.repeat import refusal, until_answered

__all__ = ["MAX_MANIFEST_BYTES", "Answer", "ask", "fetch_document", "statement_chunks"]

MAX_MANIFEST_BYTES = 16 << 30  # 30 million presigned links; a larger manifest belongs on disk
MAX_REPLY_BYTES = 64 << 20
SILENCE_S = 30.0  # no monitor watches a document
ANSWER_S = 120.0  # a small reply as a whole; a byte now and then is no answer
T = TypeVar("T")
_STATEMENT_ID = re.compile(r"[A-Za-z0-9_-]{1,100}")


class Answer(NamedTuple):
    """A reply that has been read."""

    status: int
    headers: Headers
    body: bytes


async def fetch_document(
    url: SecretUrl,
    sink: BinaryIO,
    *,
    transport: Transport,
    clock: Clock,
    jitter: Callable[[], float],
    secrets: Mapping[str, str] | None = None,
    max_bytes: int = MAX_MANIFEST_BYTES,
) -> None:
    """Write the whole body to ``sink``, which can be truncated and starts empty.

    Raises:
        SourceError: it cannot be had; transient faults were tried again.
    """
    fetch = partial(_fetch_once, url, sink, transport, max_bytes, secrets=secrets or {})
    await until_answered(fetch, clock=clock, jitter=jitter)


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
    """A small reply as a whole: of a success, or of a status that is ``expected``.

    Raises:
        SourceError: it cannot be had; transient faults were tried again, unless ``method`` changes something.
    """

    async def once() -> Answer:
        body = BytesIO()
        try:
            async with asyncio.timeout(ANSWER_S):
                response = await _fetch_once(
                    url, body, transport, max_bytes, headers=headers or {}, method=method, expected=expected
                )
        except TimeoutError:
            raise Transient(f"no whole answer within {ANSWER_S:g} s") from None
        return Answer(response.status, response.headers, body.getvalue())

    return await (until_answered(once, clock=clock, jitter=jitter) if method == "GET" else once())


async def _in_time(step: Awaitable[T]) -> T:
    try:
        async with asyncio.timeout(SILENCE_S):
            return await step
    except TimeoutError:
        raise Transient(f"no byte for {SILENCE_S:g} s") from None


async def _fetch_once(
    url: SecretUrl,
    sink: BinaryIO,
    transport: Transport,
    max_bytes: int,
    *,
    secrets: Mapping[str, str] = MappingProxyType({}),
    headers: Mapping[str, str] = MappingProxyType({}),
    method: str = "GET",
    expected: frozenset[int] = frozenset(),
) -> Response:
    sink.seek(0)
    sink.truncate()
    response = await _in_time(transport.open(url, headers, secrets, fresh=False, method=method))
    try:
        if response.status not in expected:
            verdict = judge(response.status, response.headers, Asked())
            if verdict.action is not Action.ACCEPT:
                raise refusal(verdict, response.status)
            if not verdict.framed:
                raise Refused("the server states no length, so a document that was cut short would go unseen")
        size = 0
        while data := await _in_time(response.read()):
            size += len(data)
            if size > max_bytes:
                raise Refused(f"the document is longer than {max_bytes} bytes")
            sink.write(data)
    except BaseException:
        response.close()
        raise
    return response


def statement_chunks(
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
        raise ConfigError("the manifest's statement_id is not one; cfetch will not build a URL from it")
    base = host if "://" in host else f"https://{host}"

    async def chunk(index: int) -> bytes:
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

    return chunk
