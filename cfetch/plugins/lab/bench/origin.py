"""A loopback HTTP/1.1 origin for benches, demos and tests: cheap, deterministic, and able to misbehave.

It enacts a ``NetworkModel`` too: the traits of connections, their link, and changes; each host of the network
is a server of its own, on 127.0.0.1, 127.0.0.2 and so on.

In a test::

    faults = {"a.bin": Fault(kind="reset", after_bytes=100)}
    async with Origin({"a.bin": Synthetic("a.bin", 4096)}, faults) as origin:
        await fetch(origin.url + "a.bin")
        assert [request.n for request in origin.requests] == [1, 2]

For a bench, in another process so that its cost is not the client's, ``process.OriginProcess`` runs
``python -m cfetch.plugins.lab.bench.origin``. That reads a spec, one line, from its standard input, prints
``{"urls": […]}`` when it is ready, and exits when its standard input closes, so that it never outlives its
parent.
"""

import asyncio
import functools
import ipaddress
import json
import math
import os
import signal
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

import msgspec

from cfetch.base.schemes import HTTP
from cfetch.plugins.lab.bench.connection import Accepted, Connection, Server
from cfetch.plugins.lab.bench.content import Content, Fixed
from cfetch.plugins.lab.bench.faults import Fault, Script, fault_for
from cfetch.plugins.lab.bench.http_messages import Head
from cfetch.plugins.lab.bench.network import NetworkModel, connection_of, factor_at
from cfetch.plugins.lab.bench.pacing import Pacer
from cfetch.plugins.lab.bench.spec import JournalEntry, OriginSpec
from cfetch.wire.listener import close_listener

BACKLOG = 4096  # connections that wait to be accepted, as clients open all connections at once


class Request(NamedTuple):
    """One request of a client. ``path`` is decoded, without slash or query; ``n`` counts its GETs from 1.

    ``connection_id`` counts all connections, ``number`` those to the same ``host``, both from 1.
    """

    method: str
    path: str
    query: str
    headers: dict[str, str]
    n: int
    connection_id: int
    range: str | None
    host: int
    number: int


class RequestScript:
    """The fault that each file's next request meets, and the list of the requests so far."""

    def __init__(self, faults: Mapping[str, Script], *, pace_bps: float | None, journal: bool) -> None:
        self.requests: list[Request] = []
        self.faults = faults
        self._pace = None if pace_bps is None else Fault(kind="slow", rate_bps=pace_bps, first=0)
        self._journal = journal
        self._counts: dict[str, int] = {}

    def note(self, head: Head, path: str, query: str, connection: Connection) -> Fault | None:
        """Count and list a request; return its fault, if any."""
        script = self.faults.get(path)
        if script is None and not self._journal:
            return self._pace
        n = self._counts.get(path, 0) + (head.method == "GET")
        self._counts[path] = n
        if self._journal:
            request = Request(
                head.method,
                path,
                query,
                head.headers,
                n,
                connection.id,
                head.headers.get("range"),
                connection.host,
                connection.number,
            )
            self.requests.append(request)
        return fault_for(script, n) or self._pace


class Origin:
    """Serves ``files`` (by path without leading slash) on loopback while its ``async with`` block runs.

    ``faults`` scripts single files; ``pace_bps`` throttles every body that no fault covers. ``requests``
    lists all requests in order, unless ``journal`` is off; ``connections`` counts those accepted so far.
    ``network``, with the ``seed`` of its connections, has one server for each of its hosts: ``urls``.
    ``bucket``: files are below that name too. ``clock`` is in seconds; None is the loop's.
    """

    def __init__(
        self,
        files: Mapping[str, Content | bytes],
        faults: Mapping[str, Script] | None = None,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        pace_bps: float | None = None,
        journal: bool = True,
        network: NetworkModel | None = None,
        seed: int = 0,
        bucket: str | None = None,
        clock: Callable[[], float] | None = None,
    ) -> None:
        self.files = files
        self.connections = 0
        self.urls: list[str] = []
        self.live: set[Connection] = set()
        self.pacer: Pacer
        self.network = network or NetworkModel()
        self._seed = seed
        self._clock = clock
        self._began_s: float | None = None
        self._hosts = [Server(self.network.connections) for _ in self.network.hosts]
        self._folder = "" if bucket is None else f"{bucket}/"
        self.script = RequestScript(faults or {}, pace_bps=pace_bps, journal=journal)
        self._address = (host, port)
        self._servers: list[asyncio.Server] = []

    @property
    def requests(self) -> list[Request]:
        """The requests so far, in order."""
        return self.script.requests

    @property
    def url(self) -> str:
        """The URL of the first server, with a slash at its end."""
        return self.urls[0] if self.urls else ""

    async def __aenter__(self) -> "Origin":
        loop = asyncio.get_running_loop()
        self._clock = self._clock or loop.time
        self.pacer = Pacer(loop, self.link_bps)
        first, port = self._address
        for number in range(len(self.network.hosts)):
            address = str(ipaddress.ip_address(first) + number) if number else first
            make = functools.partial(Connection, self, number)
            server = await loop.create_server(make, address, 0 if number else port, backlog=BACKLOG)
            self._servers.append(server)
            host, taken = server.sockets[0].getsockname()[:2]
            self.urls.append(f"{HTTP}://{f'[{host}]' if ':' in host else host}:{taken}/")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for server in self._servers:
            await close_listener(server)
        for connection in tuple(self.live):
            connection.abort()
        await asyncio.sleep(0)  # the turn in which aborted transports are closed

    def accept(self, connection: Connection) -> Accepted:
        """Number a new connection, from 1."""
        self.connections += 1
        host = self._hosts[connection.host]
        host.accepted += 1
        self.live.add(connection)
        traits = connection_of(self.network, self._seed, connection.host, host.accepted)
        return Accepted(self.connections, host.accepted, traits, host)

    def forget(self, connection: Connection) -> None:
        """Forget a connection that is over."""
        self.live.discard(connection)
        self._hosts[connection.host].forget(connection)

    def content(self, path: str) -> Content | None:
        """The file at ``path``, or None."""
        content = self.files.get(path.removeprefix(self._folder))
        return Fixed(content) if isinstance(content, bytes) else content

    def factor(self, host: int) -> float:
        """How many times as long everything takes at ``host`` now."""
        return factor_at(self.network, host, self._now_s()) if self.network.changes else 1.0

    def link_bps(self) -> float:
        """The rate of all connections together now."""
        if self.network.link_bps is None:
            return math.inf
        return self.network.link_bps / factor_at(self.network, None, self._now_s())

    def _now_s(self) -> float:
        """Seconds since the first request."""
        assert self._clock is not None
        if self._began_s is None:
            self._began_s = self._clock()
        return self._clock() - self._began_s

    def note(self, head: Head, path: str, query: str, connection: Connection) -> Fault | None:
        """Count and list a request. Returns its fault, if any."""
        return self.script.note(head, path.removeprefix(self._folder), query, connection)


def _stop_with_parent(loop: asyncio.AbstractEventLoop, stop: asyncio.Event) -> None:
    while os.read(0, 4096):
        pass
    loop.call_soon_threadsafe(stop.set)


async def _serve(spec: OriginSpec) -> list[Request]:
    stop = asyncio.Event()
    watch = threading.Thread(target=_stop_with_parent, args=(asyncio.get_running_loop(), stop), daemon=True)
    async with Origin(
        spec.contents(),
        spec.faults,
        pace_bps=spec.pace_bps,
        journal=spec.journal is not None,
        network=spec.network,
        seed=spec.seed,
        bucket=spec.bucket,
    ) as origin:
        watch.start()
        sys.stdout.write(json.dumps({"urls": origin.urls}) + "\n")
        sys.stdout.flush()
        await stop.wait()
    return origin.requests


def main() -> None:
    """Serve the spec that comes over standard input, until that closes."""
    # Ctrl-C is for the bench, which closes the pipe when it is done
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    line = sys.stdin.buffer.readline()
    if not line:  # the bench has ended meanwhile
        return
    spec = msgspec.json.decode(line, type=OriginSpec)
    requests = asyncio.run(_serve(spec))
    if spec.journal is not None:
        gets = [request for request in requests if request.method == "GET"]
        entries = [JournalEntry(request.path, request.n, request.host, request.number) for request in gets]
        Path(spec.journal).write_bytes(msgspec.json.encode(entries))


if __name__ == "__main__":
    main()
