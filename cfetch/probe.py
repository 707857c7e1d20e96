"""How large is it? Asked of the server without taking the file.

The question is a GET of the first byte, not a HEAD: a signed URL is signed for GET, and refuses all else.
"""

import asyncio
import re
from collections.abc import Callable, Mapping

from cfetch.clock import Clock
from cfetch.errors import Refused, SourceError, Transient
from cfetch.secret import SecretUrl
from cfetch.transfer.http import Response, Transport
from cfetch.transfer.judge import Action, Asked, Headers, judge
from cfetch.transfer.retry import Limits, Spent, next_step

__all__ = ["probed_size"]

FIRST_BYTE = {"Range": "bytes=0-0"}
TIMEOUT_S = 30.0  # for one try: a header and a byte
LIMITS = Limits(max_attempts=4, retry_budget_s=60.0)
_TOTAL = re.compile(r"bytes (?:\d{1,19}-\d{1,19}|\*)/(\d{1,19})", re.ASCII | re.IGNORECASE)
_NUMBER = re.compile(r"\d{1,19}", re.ASCII)


async def probed_size(
    url: SecretUrl,
    secrets: Mapping[str, str],
    *,
    transport: Transport,
    clock: Clock,
    jitter: Callable[[], float],
) -> int | None:
    """The size in bytes that the server states; None when it states none.

    Raises:
        SourceError: there is no such file; transient faults were tried again.
    """
    start_s, errors = clock.monotonic(), 0
    while True:
        try:
            return await _ask(url, secrets, transport)
        except SourceError as error:
            errors += 1
            spent = Spent(errors, 0, clock.monotonic() - start_s)
            step = next_step(error, spent, LIMITS, jitter=jitter(), can_refresh=False)
            if step.delay_s is None:
                raise
            await clock.sleep(step.delay_s)


async def _ask(url: SecretUrl, secrets: Mapping[str, str], transport: Transport) -> int | None:
    try:
        async with asyncio.timeout(TIMEOUT_S):
            response = await transport.open(url, FIRST_BYTE, secrets, fresh=False)
            try:
                size = _stated_size(response)
                if response.status == 206 and len(await response.read()) <= 1:
                    await response.read()  # the end: the connection can be used again
                return size
            finally:
                response.close()
    except TimeoutError:
        raise Transient(f"no answer within {TIMEOUT_S:g} s") from None


def _stated_size(response: Response) -> int | None:
    if response.status in (206, 416):
        match = _TOTAL.fullmatch(_only(response.headers, "Content-Range") or "")
        if response.status == 206 or (match and match[1] == "0"):  # an empty file has no first byte
            return int(match[1]) if match else None
    if response.status == 200:
        encoded = _only(response.headers, "Content-Encoding") or response.headers.getall(
            "Transfer-Encoding", []
        )
        length = _only(response.headers, "Content-Length") or ""
        return int(length) if not encoded and _NUMBER.fullmatch(length) else None
    verdict = judge(response.status, response.headers, Asked())
    if verdict.action in (Action.RETRY, Action.THROTTLE):
        raise Transient(verdict.reason, http_status=response.status)
    raise Refused(verdict.reason, http_status=response.status)


def _only(headers: Headers, name: str) -> str | None:
    """A header that stands once; None when it is missing or says two things."""
    found = set(headers.getall(name, []))
    return found.pop() if len(found) == 1 else None
