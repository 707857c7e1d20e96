"""One request of the model and its reply: the head comes after a latency, then bytes at the link's pace."""

import asyncio
import math
import mmap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, cast

from cfetch.base.errors import Transient
from cfetch.base.secret import SecretUrl
from cfetch.plugins.lab.bench.faults import Fault
from cfetch.plugins.lab.bench.http_messages import choose_slice
from cfetch.plugins.lab.bench.network import NetworkModel, lasting_pace, pace_now
from cfetch.plugins.lab.bench.simulation.connections import GOOD, SimConnection, usual_bps
from cfetch.plugins.lab.bench.simulation.link import FASTEST_BPS, Flow, SimLink
from cfetch.wire.headers import Headers

QUANTUM_S = 0.05  # between the pieces that a reader gets: a busy reader of a real socket gets no finer ones
PACKET_BYTES = 1460  # the least that comes at once
SLOWEST_QUANTUM_S = 1.0  # the longest wait for a packet, as the rate may have changed by then
WINDOW_BYTES = 4 << 20  # the most unread bytes of a connection: then the server waits, as with TCP
BLANK = memoryview(mmap.mmap(-1, WINDOW_BYTES))  # its pages are never touched
WHOLE = 1e-6  # of a byte: so little may be missing of a byte that has come


class _Headers(dict[str, str]):
    """Headers whose names are spelled as the judge spells them."""

    def getall(self, key: str, default: list[str], /) -> list[str]:
        return [self[key]] if key in self else default


class Meets(NamedTuple):
    """The fault that a request meets; ``is_lasting``: a fresh request would meet the same."""

    fault: Fault | None
    is_lasting: bool


@dataclass(slots=True)
class _Body:
    """The bytes of a reply: ``end`` of them come, ``taken`` were read. ``has_come``: no more will come.

    ``then``: the event after them: "keep" the connection, "stall", "reset", "truncate", or "close".
    """

    end: int = 0
    taken: int = 0
    then: str = "keep"
    has_come: bool = False


class Simulated(Protocol):
    """The transport, as an exchange sees it (``transport.py``)."""

    network: NetworkModel
    link: SimLink
    sent_bytes: int

    def over(self, connection: SimConnection) -> None:
        """Note that a reply is over, and its connection free."""

    def close_connection(self, connection: SimConnection) -> None:
        """Close a connection."""


class SimExchange:
    """One request and its reply. Implements ``cfetch.wire.http.Response``."""

    place: SecretUrl  # set by the transport
    source: SecretUrl  # set by the transport

    hidden: Sequence[str] = ()
    phrase = b""
    tls_end: bool | None = None

    def __init__(self, transport: Simulated, connection: SimConnection, meets: Meets) -> None:
        self._transport = transport
        self._link = transport.link
        self._meets = meets
        self.connection = connection
        self.status = 0
        self._said = _Headers()
        self.headers: Headers = self._said
        self.peer: str | None = None
        self.carried_bytes = int(connection.sent)
        self._before = connection.sent  # the connection's bytes of earlier replies
        self._pace_end = math.inf  # the byte of the reply at which its rate changes
        self._body = _Body()
        self._flow: Flow | None = None
        self._waiter: asyncio.Future[None] | None = None

    async def answer(self, headers: Mapping[str, str], index: int, size_bytes: int) -> None:
        """Wait for the head. A connection that has stalled gives none."""
        connection, fault, line = self.connection, self._meets.fault, self.connection.line
        latency_s = line.latency_s * (1 if connection.served else 2) * self._link.factor(connection.host)
        connection.served += 1
        if line.stall_after is not None and connection.sent >= line.stall_after:
            await _for_ever()
        if fault is not None and fault.delay_s is not None:
            latency_s += fault.delay_s
        await asyncio.sleep(latency_s)
        if fault is not None and fault.status is not None:
            self.status = fault.status
            if fault.retry_after_s is not None:
                self._said["Retry-After"] = str(fault.retry_after_s)
            self._said["Content-Length"] = "0"
            self._come()
            return
        self._begin(*self._choose_reply(headers, index, size_bytes))

    def _choose_reply(self, headers: Mapping[str, str], index: int, size_bytes: int) -> tuple[int, int]:
        """The first byte to send, and the end; sets status and headers."""
        etag = f'"{index}"'
        if not self._transport.network.ranges:
            self.status = 200
            self._state_length(size_bytes)
            return 0, size_bytes
        given = {name.lower(): value for name, value in headers.items()}
        self.status, start, stop = choose_slice(given, size_bytes, etag)
        if self.status == 416:
            self._said["Content-Range"] = f"bytes */{size_bytes}"
            return 0, 0
        if self.status == 206:
            self._said["Content-Range"] = f"bytes {start}-{stop - 1}/{size_bytes}"
        self._said["ETag"] = etag
        self._state_length(stop - start)
        return start, stop

    def _state_length(self, length: int) -> None:
        """Set the header with the body's length, or with chunked coding."""
        if self.status == 206 or self._transport.network.sizes:
            self._said["Content-Length"] = str(length)
        else:
            self._said["Transfer-Encoding"] = "chunked"

    def _begin(self, start: int, stop: int) -> None:
        line, fault, length = self.connection.line, self._meets.fault, stop - start
        self._body.end = length
        if fault is not None and fault.after_bytes is not None:
            self._body.end, self._body.then = min(fault.after_bytes, max(0, length - 1)), fault.kind
        if line.stall_after is not None and line.stall_after - self._before < self._body.end:
            self._body.end, self._body.then = int(line.stall_after - self._before), "stall"
        self._flow = Flow(self.connection.host, self._next_pace(0.0), self._take_bytes)
        self._set_mark(self._flow)
        if self._body.end == 0:
            self._come()
        else:
            self._link.start(self._flow)

    def _next_pace(self, got: float) -> float:
        """The rate from this byte of the reply on; also notes where this rate ends."""
        rate_bps, left = pace_now(self.connection.line, self._before + got, got)
        self._pace_end = got + left
        fault = self._meets.fault
        if fault is not None and fault.rate_bps is not None:
            rate_bps = min(rate_bps, fault.rate_bps)
        return min(rate_bps, FASTEST_BPS)

    def _set_mark(self, flow: Flow) -> None:
        flow.mark = float(min(self._body.end, self._body.taken + WINDOW_BYTES))
        if flow.got >= self._pace_end:
            self._link.limit(flow, self._next_pace(flow.got))
        if flow.got < self._pace_end < flow.mark:
            flow.mark = self._pace_end

    def _take_bytes(self) -> None:
        """Take the bytes that have come."""
        flow, waiter = self._flow, self._waiter
        assert flow is not None
        if flow.got >= self._body.end:
            self._come()
        elif flow.got >= flow.mark:
            if flow.got == self._pace_end:
                self._set_mark(flow)
                self._link.arm(flow)
            elif waiter is None:
                self._link.stop(flow)  # the window is full
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    def _come(self) -> None:
        """End the body; if the reply is whole, the connection is free."""
        self._leave()
        self._body.has_come = True
        if self._body.then == "keep":
            self._transport.over(self.connection)
        elif self._body.then != "stall":
            self._transport.close_connection(self.connection)

    def _leave(self) -> None:
        """End the flow, and count its bytes."""
        if self._flow is not None and not self._body.has_come:
            self._link.stop(self._flow)
            self.connection.sent = self._before + self._flow.got
            self._transport.sent_bytes += int(self._flow.got + WHOLE)

    async def read(self, most: int = -1) -> bytes:
        """Implements ``Response.read``; the bytes are zeros that no code looks at."""
        while True:
            data = self._take(most)
            if data:
                return data
            if self._body.has_come:
                if self._body.then == "stall":
                    await _for_ever()
                if self._body.then == "reset":
                    raise Transient("the connection broke: Connection reset by peer")
                return b""
            await self._more()

    def read_buffered(self) -> bytes:
        """Implements ``Response.read_buffered``."""
        return self._take(-1)

    def retire(self) -> None:
        """Implements ``Response.retire``."""
        self.connection.is_retired = True

    def close(self) -> None:
        """Implements ``Response.close``; unread bytes count as sent."""
        if not self._body.has_come:
            self._leave()
            self._body.has_come, self._body.then = True, "close"
            self._transport.close_connection(self.connection)
        elif self._body.then == "stall":
            self._transport.close_connection(self.connection)

    def _take(self, most: int) -> bytes:
        flow = self._flow
        if flow is None or self._body.then == "close":
            return b""
        if not self._body.has_come:
            self._link.settle(flow)
        ready = int(flow.got + WHOLE) - self._body.taken
        if 0 <= most < ready:
            ready = most
        if ready <= 0:
            return b""
        self._body.taken += ready
        if not self._body.has_come and flow.mark < self._body.end:
            was_full = flow.rate_bps == 0.0
            self._set_mark(flow)
            if was_full:
                self._link.start(flow)
            self._link.arm(flow)
        return cast("bytes", BLANK[:ready])

    async def _more(self) -> None:
        flow = self._flow
        if flow is None:
            await _for_ever()
            return
        self._waiter = asyncio.get_running_loop().create_future()
        packet_s = PACKET_BYTES / flow.rate_bps if flow.rate_bps else SLOWEST_QUANTUM_S
        flow.wake_s = flow.settled_s + min(max(packet_s, QUANTUM_S), SLOWEST_QUANTUM_S)
        self._link.arm(flow)
        try:
            await self._waiter
        finally:
            self._waiter = None
            flow.wake_s = math.inf

    # facts that only the model knows

    @property
    def is_held_back(self) -> bool:
        """Whether it is slower than a fresh request for its file usually is: to cancel it is then right."""
        line, fault, network = self.connection.line, self._meets.fault, self._transport.network
        if network.connections and not self.connection.has_seat:
            return True  # it gets no byte before another connection closes
        if fault is not None and fault.kind in {"slow", "stall", "delay"} and not self._meets.is_lasting:
            return True
        got = self._got()
        if line.stall_after is not None and self._before + got >= line.stall_after:
            return True
        if line.slow_after is not None and self._before + got >= line.slow_after:
            return True
        usual = usual_bps(network, self.connection.host)
        return lasting_pace(line, self._before + got, got).rate_bps < GOOD * usual

    def _got(self) -> float:
        if self._flow is None:
            return 0.0
        if not self._body.has_come:
            self._link.settle(self._flow)
        return self._flow.got


async def _for_ever() -> None:
    await asyncio.get_running_loop().create_future()
