"""A loopback HTTP/1.1 origin for benches, demos and tests: cheap, deterministic, and able to misbehave.

In a test::

    faults = {"a.bin": Fault(kind="reset", after_bytes=100)}
    async with Origin({"a.bin": Synthetic("a.bin", 4096)}, faults) as origin:
        await fetch(origin.url + "a.bin")
        assert [request.n for request in origin.requests] == [1, 2]

For a bench, in another process so that its cost is not the client's, ``cfetch.bench.process.OriginProcess``
runs ``python -m cfetch.bench.origin --spec FILE --port 0``. That prints ``{"url": …}`` when it is ready and
exits when its standard input closes, so that it never outlives its parent.
"""

import argparse
import asyncio
import json
import os
import signal
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

from cfetch.bench.connection import Connection
from cfetch.bench.content import Content, Fixed
from cfetch.bench.faults import Fault, Script, fault_for
from cfetch.bench.spec import OriginSpec
from cfetch.bench.wire import Head

__all__ = ["Origin", "Request"]

BACKLOG = 4096  # connections that wait to be accepted; clients open all of theirs at once


class Request(NamedTuple):
    """What a client asked for. ``path`` is decoded, without slash or query; ``n`` counts its GETs from 1."""

    method: str
    path: str
    query: str
    headers: dict[str, str]
    n: int
    connection_id: int
    range: str | None


class Origin:
    """Serves ``files`` (by path without leading slash) on loopback while its ``async with`` block runs.

    ``faults`` scripts single files; ``pace_bps`` throttles every body that no fault covers. ``requests``
    lists what was asked, in order, unless ``journal`` is off; ``connections`` counts those accepted so far.
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
    ) -> None:
        self.files = files
        self.faults = faults or {}
        self.requests: list[Request] = []
        self.connections = 0
        self.url = ""
        self.live: set[Connection] = set()
        self._closed = False
        self._pace = None if pace_bps is None else Fault(kind="slow", rate_bps=pace_bps, first=0)
        self._address = (host, port)
        self._journal = journal
        self._counts: dict[str, int] = {}
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> "Origin":
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: Connection(self), *self._address, backlog=BACKLOG)
        host, port = self._server.sockets[0].getsockname()[:2]
        self.url = f"http://{f'[{host}]' if ':' in host else host}:{port}/"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._closed = True
        self._server.close()
        for connection in tuple(self.live):
            connection.abort()
        await asyncio.sleep(0)  # the turn in which aborted transports are closed

    def accepted(self, connection: Connection) -> int:
        """Take a new connection in and number it, from 1; one that comes too late is closed."""
        self.connections += 1
        self.live.add(connection)
        if self._closed:
            connection.abort()
        return self.connections

    def lost(self, connection: Connection) -> None:
        """Forget a connection that is over."""
        self.live.discard(connection)

    def content(self, path: str) -> Content | None:
        """The file at ``path``, or None."""
        found = self.files.get(path)
        return Fixed(found) if isinstance(found, bytes) else found

    def note(self, head: Head, path: str, query: str, connection_id: int) -> Fault | None:
        """Count and list a request; the fault it meets, if any."""
        script = self.faults.get(path)
        if script is None and not self._journal:
            return self._pace
        n = self._counts.get(path, 0) + (head.method == "GET")
        self._counts[path] = n
        if self._journal:
            wanted = head.headers.get("range")
            self.requests.append(Request(head.method, path, query, head.headers, n, connection_id, wanted))
        return fault_for(script, n) or self._pace


def _stop_with_parent(loop: asyncio.AbstractEventLoop, stop: asyncio.Event) -> None:
    while os.read(0, 4096):
        pass
    loop.call_soon_threadsafe(stop.set)


async def _serve(spec: OriginSpec, port: int) -> None:
    stop = asyncio.Event()
    watch = threading.Thread(target=_stop_with_parent, args=(asyncio.get_running_loop(), stop), daemon=True)
    async with Origin(
        spec.contents(), spec.faults, port=port, pace_bps=spec.pace_bps, journal=False
    ) as origin:
        watch.start()
        sys.stdout.write(json.dumps({"url": origin.url}) + "\n")
        sys.stdout.flush()
        await stop.wait()


def main() -> None:
    """Serve one spec until standard input closes."""
    parser = argparse.ArgumentParser(
        prog="python -m cfetch.bench.origin", description=__doc__.splitlines()[0] if __doc__ else None
    )
    parser.add_argument(
        "--spec", type=Path, required=True, help="JSON, as cfetch.bench.spec.OriginSpec writes it"
    )
    parser.add_argument("--port", type=int, default=0, help="0: a free one")
    args = parser.parse_args()
    signal.signal(
        signal.SIGINT, signal.SIG_IGN
    )  # Ctrl-C is for the bench, which closes the pipe when it is done
    asyncio.run(_serve(OriginSpec.read(args.spec), args.port))


if __name__ == "__main__":
    main()
