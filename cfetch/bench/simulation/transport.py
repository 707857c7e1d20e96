"""The wire's stand-in: connections that are pooled or fresh, replies that come as the network lets them."""

import asyncio
import math
import mmap
from collections import deque
from collections.abc import Mapping, Sequence
from typing import NamedTuple, cast

from cfetch.bench.faults import Fault, Script, fault_for
from cfetch.bench.http_messages import choose_slice
from cfetch.bench.network import ConnectionTraits, Network, connection_of
from cfetch.bench.simulation.link import FASTEST_BPS, Flow, Link
from cfetch.clock import RunClock
from cfetch.errors import Transient
from cfetch.secret import SecretUrl
from cfetch.wire.http import Response
from cfetch.wire.judge import Headers

QUANTUM_S = (
    0.05  # how often a reader is given what has come: as a busy reader of a real socket sees it, or finer
)
PACKET_BYTES = 1460  # less does not come at once
SLOWEST_QUANTUM_S = 1.0  # the rate may be another by then
WINDOW_BYTES = 4 << 20  # of a connection that nobody reads: then the server waits, as with TCP
KEEP_ALIVE_S = 15.0  # as HttpTransport's
BLANK = memoryview(mmap.mmap(-1, WINDOW_BYTES))  # no page of it is ever touched
WHOLE = 1e-6  # what the fluid may lack of a byte that has come
LESS = 0.25  # a connection with a smaller share of its host's usual rate is slow by nature


class _Headers(dict[str, str]):
    """Names as the judge spells them."""

    def getall(self, key: str, default: list[str], /) -> list[str]:
        return [self[key]] if key in self else default


class Connection:
    """``sent`` bytes of body in all, ``served`` requests."""

    __slots__ = ("host", "idle_s", "line", "sent", "served")

    def __init__(self, host: int, line: ConnectionTraits) -> None:
        self.host = host
        self.line = line
        self.sent = 0.0
        self.served = 0
        self.idle_s = 0.0


class _Meets(NamedTuple):
    """What a request meets; ``is_lasting``: a fresh one would meet the same."""

    fault: Fault | None
    is_lasting: bool


class _Body:
    """The bytes of a reply: ``end`` of them come, ``taken`` were read. ``has_come``: all that will.

    ``then``: what follows on them: "keep" the connection, "stall", "reset", "truncate", or "close".
    """

    __slots__ = ("end", "has_come", "taken", "then")

    def __init__(self) -> None:
        self.end = self.taken = 0
        self.then = "keep"
        self.has_come = False


class SimTransport:
    """Implements ``cfetch.wire.http.Transport``. Make it inside the virtual loop.

    URLs are ``http://<host>/<index>`` with numbers; ``sizes`` and ``faults`` are of the files by index.
    ``requests``, ``connections`` and ``sent_bytes`` (of bodies, read or not) count all of the run.
    """

    def __init__(
        self,
        network: Network,
        seed: int,
        sizes: Sequence[int],
        faults: Mapping[int, Script] | None = None,
        *,
        clock: RunClock,
    ) -> None:
        self.network = network
        self.link = Link(network, clock)
        self._seed = seed
        self._sizes = sizes
        self._faults = faults or {}
        self._asked: dict[int, int] = {}
        self._idle: list[deque[Connection]] = [deque() for _ in network.hosts]
        self._made = [0 for _ in network.hosts]
        self._exchanges: dict[asyncio.Task[object] | None, Exchange] = {}
        self._tasks: dict[int, asyncio.Task[object] | None] = {}
        self.requests = 0
        self.sent_bytes = 0

    @property
    def connections(self) -> int:
        """Made so far."""
        return sum(self._made)

    async def open(
        self,
        url: SecretUrl,
        headers: Mapping[str, str],
        secrets: Mapping[str, str],  # noqa: ARG002 - nobody is asked who they are
        *,
        fresh: bool,
        method: str = "GET",
    ) -> Response:
        """Implements ``Transport.open``."""
        if method != "GET":
            raise NotImplementedError(f"the simulator answers GET, not {method}")
        host, _, number = url.reveal()[len("http://") :].partition("/")
        index = int(number)
        exchange = Exchange(self, self._connection(int(host), fresh), self._meets(index))
        self._exchanges[asyncio.current_task()] = exchange
        self.requests += 1
        try:
            await exchange.answer(headers, index, self._sizes[index])
        except BaseException:
            exchange.close()
            raise
        return exchange

    async def close(self) -> None:
        """Nothing to give back."""

    def begins(self, key: int) -> None:
        """The task that calls this is about to make the request of attempt ``key``."""
        self._tasks[key] = asyncio.current_task()
        self._exchanges.pop(self._tasks[key], None)

    def ends(self, key: int) -> None:
        """The attempt ``key`` is over."""
        self._tasks.pop(key, None)

    def exchange(self, key: int) -> "Exchange | None":
        """The latest request of an attempt under way."""
        task = self._tasks.get(key)
        return None if task is None else self._exchanges.get(task)

    def over(self, connection: Connection) -> None:
        """The last byte of a reply has come: who asks next may have the connection."""
        if connection.served != self.network.requests:
            connection.idle_s = self.link.now()
            self._idle[connection.host].append(connection)

    def _connection(self, host: int, fresh: bool) -> Connection:
        idle = self._idle[host]
        while idle and not fresh:
            connection = idle.popleft()  # the one that was idle longest, as aiohttp does
            if self.link.now() - connection.idle_s <= KEEP_ALIVE_S:
                return connection
        self._made[host] += 1
        line = connection_of(self.network, self._seed, host, self._made[host])
        return Connection(host, line)

    def _meets(self, index: int) -> _Meets:
        """What the file's next request meets."""
        script = self._faults.get(index)
        if script is None:
            return _Meets(None, False)
        n = self._asked[index] = self._asked.get(index, 0) + 1
        fault = fault_for(script, n)
        return _Meets(fault, fault is not None and fault is fault_for(script, n + 1))


class Exchange:
    """One request and its reply; see ``cfetch.wire.http.Response``."""

    __slots__ = (
        "_before",
        "_body",
        "_due_s",
        "_flow",
        "_link",
        "_meets",
        "_said",
        "_slow_at",
        "_transport",
        "_waiter",
        "connection",
        "headers",
        "peer",
        "status",
    )

    def __init__(self, transport: SimTransport, connection: Connection, meets: _Meets) -> None:
        self._transport = transport
        self._link = transport.link
        self._meets = meets
        self._due_s = -math.inf  # when the head comes
        self.connection = connection
        self.status = 0
        self._said = _Headers()
        self.headers: Headers = self._said
        self.peer: str | None = None
        line = connection.line
        self._before = connection.sent  # of the connection's bytes, those of earlier replies
        self._slow_at = math.inf if line.slow_after is None else max(0.0, line.slow_after - self._before)
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
        self._due_s = self._link.now() + latency_s
        await asyncio.sleep(latency_s)
        if fault is not None and fault.status is not None:
            self.status = fault.status
            if fault.retry_after_s is not None:
                self._said["Retry-After"] = str(fault.retry_after_s)
            return
        self._begin(*self._choose_reply(headers, index, size_bytes))

    def _choose_reply(self, headers: Mapping[str, str], index: int, size_bytes: int) -> tuple[int, int]:
        """First and end of what is to be sent; sets status and headers."""
        etag = f'"{index}"'
        if not self._transport.network.ranges:
            self.status = 200
            self._said["Content-Length"] = str(size_bytes)
            return 0, size_bytes
        given = {name.lower(): value for name, value in headers.items()}
        self.status, start, stop = choose_slice(given, size_bytes, etag)
        if self.status == 416:
            self._said["Content-Range"] = f"bytes */{size_bytes}"
            return 0, 0
        if self.status == 206:
            self._said["Content-Range"] = f"bytes {start}-{stop - 1}/{size_bytes}"
        self._said["ETag"] = etag
        self._said["Content-Length"] = str(stop - start)
        return start, stop

    def _begin(self, start: int, stop: int) -> None:
        line, fault, length = self.connection.line, self._meets.fault, stop - start
        self._body.end = length
        if fault is not None and fault.after_bytes is not None:
            self._body.end, self._body.then = min(fault.after_bytes, max(0, length - 1)), fault.kind
        if line.stall_after is not None and line.stall_after - self._before < self._body.end:
            self._body.end, self._body.then = int(line.stall_after - self._before), "stall"
        self._flow = Flow(self.connection.host, self._limit_bps(0.0), self._take_bytes)
        self._set_mark(self._flow)
        if self._body.end == 0:
            self._come()
        else:
            self._link.start(self._flow)

    def _limit_bps(self, got: float) -> float:
        line, fault = self.connection.line, self._meets.fault
        limit_bps = line.slow_bps if got >= self._slow_at else math.inf
        if fault is not None and fault.rate_bps is not None:
            limit_bps = min(limit_bps, fault.rate_bps)
        return min(limit_bps, line.rate_bps, FASTEST_BPS)

    def _set_mark(self, flow: Flow) -> None:
        flow.mark = float(min(self._body.end, self._body.taken + WINDOW_BYTES))
        if flow.got < self._slow_at < flow.mark:
            flow.mark = self._slow_at

    def _take_bytes(self) -> None:
        """Bytes have come."""
        flow, waiter = self._flow, self._waiter
        assert flow is not None
        if flow.got >= self._body.end:
            self._come()
        elif flow.got >= flow.mark:
            if flow.got == self._slow_at:
                self._link.limit(flow, self._limit_bps(flow.got))
                self._set_mark(flow)
                self._link.arm(flow)
            elif waiter is None:
                self._link.stop(flow)  # the window is full
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    def _come(self) -> None:
        """No more will come; where that is the whole reply, the connection is free."""
        self._leave()
        self._body.has_come = True
        if self._body.then == "keep":
            self._transport.over(self.connection)

    def _leave(self) -> None:
        """The flow is over."""
        if self._flow is not None and not self._body.has_come:
            self._link.stop(self._flow)
            self.connection.sent = self._before + self._flow.got
            self._transport.sent_bytes += int(self._flow.got + WHOLE)

    async def read(self, most: int = -1) -> bytes:
        """Implements ``Response.read``; what is read are zeros that nobody looks at."""
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

    def close(self) -> None:
        """Implements ``Response.close``; bytes that nobody has read have come all the same."""
        if not self._body.has_come:
            self._leave()
            self._body.has_come, self._body.then = True, "close"

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

    # what only the model knows

    @property
    def is_held_back(self) -> bool:
        """It is slower than a fresh request of its file usually is: whoever breaks it off is right."""
        line, fault, network = self.connection.line, self._meets.fault, self._transport.network
        if fault is not None and fault.kind in {"slow", "stall", "delay"} and not self._meets.is_lasting:
            return True
        got = self._got()
        if got >= self._slow_at or (line.stall_after is not None and self._before + got >= line.stall_after):
            return True
        return line.rate_bps < LESS * usual_bps(network, self.connection.host)

    def left_s(self, size_bytes: int) -> float:
        """Seconds until the reply has brought ``size_bytes`` in all, as things stand."""
        got, line = self._got(), self.connection.line
        if self.status == 0 and (line.stall_after is not None and self._before >= line.stall_after):
            return math.inf
        if self._body.then == "stall" and size_bytes > self._body.end:
            return math.inf
        rate_bps = self._flow.rate_bps if self._flow is not None else 0.0
        rate_bps = rate_bps or self._limit_bps(got) / self._link.factor(self.connection.host)
        silent_s = max(0.0, self._due_s - self._link.now()) if self.status == 0 else 0.0
        return silent_s + max(0.0, size_bytes - got) / rate_bps

    def _got(self) -> float:
        if self._flow is None:
            return 0.0
        if not self._body.has_come:
            self._link.settle(self._flow)
        return self._flow.got


def usual_bps(network: Network, host: int) -> float:
    """The median rate of a host's connections."""
    if network.rates_bps:
        rate_bps = sorted(network.rates_bps)[len(network.rates_bps) // 2]
    else:
        rate_bps = network.rate_bps or FASTEST_BPS
    return rate_bps * network.hosts[host].rate_factor


async def _for_ever() -> None:
    await asyncio.get_running_loop().create_future()
