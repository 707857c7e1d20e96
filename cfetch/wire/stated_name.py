"""The name that a server states for a file in ``Content-Disposition`` (RFC 6266), by a request for one byte.

GET is used, and not HEAD: a signed link is signed for GET, and some servers state the name only for GET.
"""

import asyncio
import warnings
from collections.abc import Callable, Mapping

from cfetch.base.clock import Clock
from cfetch.base.errors import Transient
from cfetch.base.secret import SecretUrl
from cfetch.wire.document import FIRST_BYTE, PROBE_S, make_refusal, repeat_until_answered
from cfetch.wire.judge import Asked, Headers, judge
from cfetch.wire.transport import Transport

HAS_FILE = (200, 206, 416)  # 416: the file is empty


async def ask_name(
    url: SecretUrl,
    secrets: Mapping[str, str],
    *,
    transport: Transport,
    clock: Clock,
    jitter: Callable[[], float],
) -> str | None:
    """The name that the server states, without directories, not yet checked; None: it states none.

    Raises:
        SourceError: there is no such file; transient faults were tried again.
    """

    async def ask() -> str | None:
        try:
            async with asyncio.timeout(PROBE_S):
                response = await transport.open(url, FIRST_BYTE, secrets, fresh=False)
                try:
                    if response.status not in HAS_FILE:
                        verdict = judge(response.status, response.headers, Asked())
                        raise await make_refusal(verdict, response, clock)
                    if response.status == 206 and len(await response.read()) <= 1:
                        await response.read()  # reads to the end, so that the connection can be used again
                    return read_stated_name(response.headers)
                finally:
                    response.close()
        except TimeoutError:
            raise Transient(f"no answer within {PROBE_S:g} s") from None

    return await repeat_until_answered(ask, clock=clock, jitter=jitter)


def read_stated_name(headers: Headers) -> str | None:
    """The file's name from ``Content-Disposition``; None: there is none, or it is not valid.

    ``filename*`` wins, and directories are dropped (RFC 6266, 4.3).
    """
    from aiohttp.multipart import content_disposition_filename, parse_content_disposition

    for header in headers.getall("Content-Disposition", []):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an invalid name counts as not stated
            _, params = parse_content_disposition(header)
            name = content_disposition_filename(params)
        if name:
            return _read_raw_bytes(name).replace("\\", "/").rpartition("/")[2] or None
    return None


def _read_raw_bytes(name: str) -> str:
    """Decode bytes outside ASCII that are not UTF-8 as Latin-1, by the old rule of HTTP."""
    return name.encode("utf-8", "surrogateescape").decode("latin-1") if _has_surrogates(name) else name


def _has_surrogates(name: str) -> bool:
    return any("\ud800" <= character <= "\udfff" for character in name)
