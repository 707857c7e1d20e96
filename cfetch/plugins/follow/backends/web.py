"""Asks the servers of feeds over HTTP for small replies, and checks the form of JSON."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import msgspec

from cfetch.base.clock import Clock
from cfetch.base.errors import HostileFeed
from cfetch.base.records import NOT_DECODED
from cfetch.base.secret import SecretUrl
from cfetch.wire.document import Answer, ask
from cfetch.wire.network import Network
from cfetch.wire.transport import RunTransport, Transport

T = TypeVar("T")
CONNECT_TIMEOUT_S = 10.0
AT_ONCE = 8  # requests of one follower under way, as other mirrors send them


@dataclass(frozen=True)
class Web:
    """The way to the server of a feed; ``close`` closes the transport."""

    transport: Transport
    clock: Clock
    jitter: Callable[[], float]

    async def ask(
        self,
        url: str,
        *,
        max_bytes: int,
        headers: Mapping[str, str] | None = None,
        secrets: Mapping[str, str] | None = None,
        expected: frozenset[int] = frozenset(),
        method: str = "GET",
    ) -> Answer:
        """Call ``wire.document.ask``. Raises SourceError."""
        return await ask(
            SecretUrl(url),
            transport=self.transport,
            clock=self.clock,
            jitter=self.jitter,
            headers=headers,
            secrets=secrets,
            expected=expected,
            max_bytes=max_bytes,
            method=method,
        )

    async def close(self) -> None:
        """Close all connections."""
        await self.transport.close()


def open_web(network: Network, clock: Clock) -> Web:
    """Open a way over ``network``, with no connection yet. Close it."""
    transport = RunTransport(connect_timeout_s=CONNECT_TIMEOUT_S, network=network)
    return Web(transport, clock, random.random)


async def ask_together(asks: Sequence[Callable[[], Awaitable[T]]]) -> list[T]:
    """Carry out requests, ``AT_ONCE`` at once; the results are in their order. Raises the first error."""
    limit = asyncio.Semaphore(AT_ONCE)

    async def carry_out(ask: Callable[[], Awaitable[T]]) -> T:
        async with limit:
            return await ask()

    tasks = [asyncio.ensure_future(carry_out(ask)) for ask in asks]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()


def read_json(body: bytes, decoder: msgspec.json.Decoder[T], what: str) -> T:
    """Decode JSON of a known form. Raises HostileFeed: ``what`` has another form."""
    try:
        return decoder.decode(body)
    except NOT_DECODED as error:
        raise HostileFeed(f"{what} has another form than its protocol: {type(error).__name__}") from None
