"""The transport's contract, kept by both adapters to aiohttp, the simulator's and the tests' scripted one."""

import asyncio
import threading
from typing import Any

import aiohttp
import pytest

from cfetch.base.clock import RunClock
from cfetch.base.virtual_clock import VirtualClock, run_virtual
from cfetch.plugins.lab.bench.faults import Fault
from cfetch.plugins.lab.bench.network import NetworkModel
from cfetch.plugins.lab.bench.origin import Origin
from cfetch.plugins.lab.bench.simulation.transport import SimTransport
from cfetch.testing.transport import BROKEN, REFUSED, SIZE_BYTES, WHOLE, TransportContract
from cfetch.wire.http import HttpTransport
from cfetch.wire.network import Network as Reach
from cfetch.wire.session import SessionTransport
from tests.engine.fake import FakeTransport, Reply

BODY = bytes(range(1, 251)) * (SIZE_BYTES // 250)
HALF = SIZE_BYTES // 2
FAULTS = {
    BROKEN: (Fault(kind="reset", after_bytes=HALF, first=0),),
    REFUSED: (Fault(kind="status", status=404, first=0),),
}


class HttpWorld:
    """A real server on loopback."""

    body = BODY
    make: Any = HttpTransport

    def url(self, file):
        return f"{self._base}{file}"

    def play(self, scene):
        async def main():
            files = dict.fromkeys((WHOLE, BROKEN, REFUSED), BODY)
            async with Origin(files, FAULTS) as origin:
                self._base = origin.url
                transport = self.make(connect_timeout_s=5.0)
                try:
                    return await scene(transport)
                finally:
                    await transport.close()

        return asyncio.run(main())


class SessionWorld(HttpWorld):
    """The same, asked by a session of aiohttp."""

    make = SessionTransport


class OwnSessionWorld(HttpWorld):
    """The same, asked by a program's own session, whose loop runs in another thread."""

    def make(self, **how):
        return SessionTransport(**how, network=Reach(session=self._session))

    def play(self, scene):
        loop = asyncio.new_event_loop()
        thread = threading.Thread(target=loop.run_forever)
        thread.start()

        def ask(coroutine):
            return asyncio.run_coroutine_threadsafe(coroutine, loop).result()

        async def begin():
            return aiohttp.ClientSession()

        self._session = ask(begin())
        try:
            return super().play(scene)
        finally:
            ask(self._session.close())
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            loop.close()


class SimWorld:
    """A network that is computed, on virtual time; its files are of zeros."""

    body = bytes(SIZE_BYTES)
    files = (WHOLE, BROKEN, REFUSED)

    def url(self, file):
        return f"http://0/{self.files.index(file)}"

    def play(self, scene):
        async def main():
            faults = {self.files.index(file): script for file, script in FAULTS.items()}
            network = NetworkModel(latency_s=0.1, rate_bps=1e6)
            clock = RunClock(VirtualClock())
            transport = SimTransport(network, 1, [SIZE_BYTES] * len(self.files), faults, clock=clock)
            try:
                return await scene(transport)
            finally:
                await transport.close()

        return run_virtual(main())


class ScriptedWorld:
    """Replies that a test has written, on virtual time."""

    body = BODY

    def url(self, file):
        return f"http://h/{file}"

    def play(self, scene):
        async def main():
            scripts = {
                WHOLE: Reply(BODY, rate_bps=1e6),
                BROKEN: Reply(BODY, rate_bps=1e6, cut=HALF, then="reset"),
                REFUSED: Reply(status=404),
            }
            transport = FakeTransport(scripts)
            try:
                return await scene(transport)
            finally:
                await transport.close()

        return run_virtual(main())


class TestHttpTransport(TransportContract):
    @pytest.fixture
    def world(self):
        return HttpWorld()


class TestSessionTransport(TransportContract):
    @pytest.fixture
    def world(self):
        return SessionWorld()


class TestOwnSession(TransportContract):
    @pytest.fixture
    def world(self):
        return OwnSessionWorld()


class TestSimTransport(TransportContract):
    @pytest.fixture
    def world(self):
        return SimWorld()


class TestFakeTransport(TransportContract):
    @pytest.fixture
    def world(self):
        return ScriptedWorld()
