"""The name that a server gives a file, by a request for one byte.

It is the one in ``Content-Disposition``, or the last segment of the URL to which redirects have led.

GET is used, and not HEAD: a signed link is signed for GET, and some servers state the name only for GET.
"""

import asyncio
from collections.abc import Callable, Mapping

from msgspec.structs import replace

from cfetch.base.clock import Clock
from cfetch.base.errors import Transient
from cfetch.base.secret import SecretUrl
from cfetch.manifest.faults import UrlError
from cfetch.manifest.urls import last_segment
from cfetch.wire.disposition import read_name
from cfetch.wire.document import FIRST_BYTE, PROBE_S, make_refusal, repeat_until_answered
from cfetch.wire.headers import Headers
from cfetch.wire.judge import judge
from cfetch.wire.statuses import PROOF
from cfetch.wire.transport import Transport
from cfetch.wire.verdict import Asked, ReplyAction

HAS_FILE = (200, 206, 416)  # 416: the file is empty


async def ask_name(
    url: SecretUrl,
    secrets: Mapping[str, str],
    *,
    transport: Transport,
    clock: Clock,
    jitter: Callable[[], float],
    by_final_url: bool = False,
    has_hash: bool = False,
) -> str | None:
    """The name that the server states, without directories, not yet checked; None: it states none.

    ``by_final_url``: the name in the URL after all redirects. ``has_hash``: a hash will prove the file, so
    that a status which is none of a file does not matter.

    Raises:
        SourceError: there is no such file; transient faults were tried again.
    """

    async def ask() -> str | None:
        try:
            async with asyncio.timeout(PROBE_S):
                response = await transport.open(url, FIRST_BYTE, secrets, fresh=False)
                try:
                    if response.status not in HAS_FILE:
                        verdict = judge(response.status, response.headers, Asked(has_hash=has_hash))
                        if verdict.action is not ReplyAction.ACCEPT:
                            if 200 <= response.status <= 399:
                                verdict = replace(verdict, reason=verdict.reason + PROOF)
                            raise await make_refusal(verdict, response, clock)
                    if response.status == 206 and len(await response.read()) <= 1:
                        await response.read()  # reads to the end, so that the connection can be used again
                    if by_final_url:
                        return _find_name(response.source)
                    return read_stated_name(response.headers)
                finally:
                    response.close()
        except TimeoutError:
            raise Transient(f"no answer within {PROBE_S:g} s") from None

    return await repeat_until_answered(ask, clock=clock, jitter=jitter)


def _find_name(url: SecretUrl) -> str | None:
    try:
        return last_segment(url.reveal())
    except UrlError:
        return None


def read_stated_name(headers: Headers) -> str | None:
    """The file's name from ``Content-Disposition``; None: there is none, or it cannot be read."""
    names = map(read_name, headers.getall("Content-Disposition", []))
    return next(filter(None, names), None)
