"""A directory that is published by the real server on loopback, as a world for the contract."""

import asyncio
import threading

from cfetch.base.clock import SystemClock
from cfetch.base.secret import SecretUrl
from cfetch.plugins.follow.backends.http import HttpSource
from cfetch.plugins.follow.backends.web import Web
from cfetch.plugins.follow.server.handler import feed_app
from cfetch.plugins.follow.server.source_root import STATE_DIRECTORY
from cfetch.plugins.follow.server.store import FeedStore
from cfetch.plugins.follow.server.tree_publisher import TreePublisher
from cfetch.wire.http import HttpTransport
from cfetch.wire.serving import FaultLines, ServerAccess, ServerLimits, serve_app

__all__ = ["HttpWorld", "serve_here", "source_of"]


def source_of(url):
    """An HTTP source with a transport of its own, which asks again without waiting."""
    return HttpSource(SecretUrl(url), Web(HttpTransport(connect_timeout_s=10), SystemClock(), lambda: 0.0))


async def serve_here(app, port=0):
    """The application on loopback; it has its ``url``."""
    return await serve_app(app, "127.0.0.1", port, ServerAccess(), ServerLimits(100), FaultLines(print))


class HttpWorld:
    """Files come and go below ``root``, and are published by a scan of the real publisher."""

    async def start(self, root, **how):
        self.root = root
        root.mkdir()
        self.port = 0
        self.versions = 0
        self.sources = []
        self.how = how
        await self._serve()
        self.source = self.reopened()
        return self

    async def _serve(self):
        self.store = FeedStore(self.root / STATE_DIRECTORY)
        self.told: list[str] = []
        self.publisher = TreePublisher(
            self.root, self.store, clock=SystemClock(), emit_line=self.told.append, settle_s=0, **self.how
        )
        app = feed_app(self.store, self.root, lambda: self.publisher.left_out)
        self.runner = await serve_here(app, self.port)
        self.url = self.runner.url
        self.port = int(self.url.rstrip("/").rpartition(":")[2])

    async def _stop(self):
        await self.runner.cleanup()
        self.store.close()

    def reopened(self):
        self.sources.append(source_of(self.url))
        return self.sources[-1]

    async def close(self):
        for source in self.sources:
            await source.close()
        await self._stop()

    async def scan(self):
        """How many changes were found."""
        return await asyncio.to_thread(self.publisher.scan, threading.Event())

    async def append(self, path):
        self.versions += 1
        where = self.root / path
        where.parent.mkdir(parents=True, exist_ok=True)
        where.write_text(f"version {self.versions} of {path}")
        assert await self.scan() == 1

    async def delete(self, path):
        (self.root / path).unlink()
        assert await self.scan() == 1

    async def split(self, of):
        parent, children = await self.source.split(of)
        assert parent == of
        assert len(children) == 2

    async def merge(self, one, other):
        self.store.merge(one, other)

    async def recreate(self):
        await self._stop()
        for path in self.root.rglob("*"):
            if path.is_file():
                path.unlink()
        await self._serve()

    async def retire(self):
        now_s = SystemClock().wall()
        self.store.forget(now_s + 2, now_s=now_s)
