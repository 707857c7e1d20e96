"""Asks for one URL as a download would, and takes no body: whether a file could be had, and by which way."""

import asyncio
from typing import NamedTuple

from cfetch.base.clock import Clock
from cfetch.base.config.wire import ReplyOptions
from cfetch.base.errors import CfetchError
from cfetch.base.schemes import is_repository_url
from cfetch.base.secret import SecretUrl
from cfetch.wire.document import make_refusal
from cfetch.wire.judge import judge
from cfetch.wire.network import Network
from cfetch.wire.transport import Response, Transport
from cfetch.wire.verdict import Asked, ReplyAction


class Answered(NamedTuple):
    """The answer to one request. ``fault``: why no file would come of it; None: one would.

    ``final``: where redirects led; None: there were none.
    """

    status: int | None
    address: str | None
    elapsed_s: float
    final: SecretUrl | None
    fault: str | None


async def reach(
    url: SecretUrl, transport: Transport, clock: Clock, *, replies: ReplyOptions, limit_s: float
) -> Answered:
    """Ask once, without a second try: a person waits, and wants to see what happens."""
    began_s = clock.monotonic()
    status, address, final, fault = None, None, None, None
    if is_repository_url(url.value):
        fault = "it names a repository; give the https link of one of its files"
        return Answered(status, address, 0.0, final, fault)
    try:
        async with asyncio.timeout(limit_s):
            response = await transport.open(url, {}, {}, fresh=True)
            try:
                status, address = response.status, response.peer
                final = response.source if response.source != url else None
                await _refuse_bad(url, response, clock, replies)
            finally:
                response.close()
    except TimeoutError:
        fault = f"no reply within {limit_s:g} s"
    except CfetchError as error:
        fault = str(error)
    return Answered(status, address, clock.monotonic() - began_s, final, fault)


async def _refuse_bad(url: SecretUrl, response: Response, clock: Clock, replies: ReplyOptions) -> None:
    verdict = judge(response.status, response.headers, Asked(options=replies, link=url))
    if verdict.action is not ReplyAction.ACCEPT:
        raise await make_refusal(verdict, response, clock)


def find_proxy(url: SecretUrl, network: Network) -> str | None:
    """The proxy of requests for the URL, as it may be shown; None: they go without one."""
    proxy = network.proxy_for(url)
    return None if proxy is None else str(proxy).rstrip("/")
