"""A model of ``curl --parallel`` with ``--speed-limit``, ``--speed-time`` and ``--retry``, all set by hand.

The limit is set with knowledge of the network: ``LESS`` of the rate that a connection usually has, or of its
share of the link if that is smaller. A download that brings less for ``SPEED_TIME_S`` is ended and begins
anew, from its first byte, ``RETRY_DELAY_S`` later. Real curl smooths its speed over some five seconds, so it
ends downloads later than this model does.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import Sequence

from cfetch.base.errors import Transient
from cfetch.plugins.lab.bench.network import NetworkModel
from cfetch.plugins.lab.bench.simulation.connections import usual_bps
from cfetch.plugins.lab.bench.simulation.exchange import SimExchange
from cfetch.plugins.lab.bench.simulation.transport import SimTransport

LESS = 0.25  # of the usual rate: a slower download is ended
SPEED_TIME_S = 2.0
RETRY_DELAY_S = 1.0
MOST_RETRIES = 20


class CurlClient:
    """Fetches all files in their order. Make it inside the virtual loop.

    ``sizes`` and ``hosts`` are those of the files by index. ``ended``: downloads that were too slow;
    ``false_alarms``: those whose connection the network had not held back; ``failed``: files that never came.
    """

    def __init__(
        self,
        network: NetworkModel,
        transport: SimTransport,
        sizes: Sequence[int],
        hosts: Sequence[int],
        slots: int,
    ) -> None:
        self._transport = transport
        self._sizes = sizes
        self._hosts = hosts
        self._slots = slots
        share_bps = float("inf") if network.link_bps is None else network.link_bps / slots
        self._limits_bps = [
            LESS * min(usual_bps(network, host), share_bps) for host in range(len(network.hosts))
        ]
        self._waiting = deque(range(len(sizes)))
        self.ended = self.false_alarms = self.failed = 0

    async def run(self) -> None:
        """Fetch everything."""
        await asyncio.gather(*(self._work() for _ in range(self._slots)))

    async def _work(self) -> None:
        while self._waiting:
            index = self._waiting.popleft()
            for _ in range(1 + MOST_RETRIES):
                if await self._fetch(index):
                    break
                await asyncio.sleep(RETRY_DELAY_S)
            else:
                self.failed += 1

    async def _fetch(self, index: int) -> bool:
        """Make one attempt; returns whether the whole file came."""
        loop, host = asyncio.get_running_loop(), self._hosts[index]
        connection = self._transport.connection(host, fresh=False)
        asking = asyncio.ensure_future(self._transport.ask(connection, index, {}))
        came = counted = 0
        due_s = loop.time() + SPEED_TIME_S
        exchange: SimExchange | None = None
        reading: asyncio.Future[bytes] | None = None
        with contextlib.suppress(Transient):
            while True:
                if exchange is None and asking.done():
                    exchange = asking.result()
                    if exchange.status >= 300:
                        break
                if exchange is not None and reading is None:
                    reading = asyncio.ensure_future(exchange.read())
                await asyncio.wait({reading or asking}, timeout=max(0.0, due_s - loop.time()))
                if reading is not None and reading.done():
                    data, reading = reading.result(), None
                    came += len(data)
                    if not data:
                        break
                if loop.time() >= due_s - 1e-9:
                    if came - counted < self._limits_bps[host] * SPEED_TIME_S:
                        self.ended += 1
                        self.false_alarms += not self._is_held_back(asking)
                        break
                    counted, due_s = came, due_s + SPEED_TIME_S
        self._transport.forget(asking)
        for task in (asking, reading):
            if task is not None:
                task.cancel()
        if exchange is not None:
            exchange.close()
        return came == self._sizes[index]

    def _is_held_back(self, asking: "asyncio.Future[SimExchange]") -> bool:
        exchange = self._transport.exchange_of(asking)
        return exchange is not None and exchange.is_held_back
