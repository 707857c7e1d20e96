"""A server of a serial feed, as small as docs/feed-protocol.md allows, as a world for the contract."""

import random

from aiohttp import web

from cfetch.base.clock import SystemClock
from cfetch.base.secret import SecretUrl
from cfetch.manifest.urls import make_relative_url
from cfetch.plugins.follow.backends.serial import SerialSource
from cfetch.plugins.follow.backends.web import Web
from cfetch.wire.http import HttpTransport
from tests.plugins.follow.http_world import serve_here

__all__ = ["SerialWorld"]


class SerialWorld:
    """``rows`` by serial, from ``kept_from`` on; its LSNs have gaps."""

    async def start(self, feed="first"):
        self.feed = feed
        self.rows = []
        self.serial = self.dropped = 0
        self.sources = []
        self.asked = []
        app = web.Application()
        app.router.add_get("/changes", self.changes)
        self.runner = await serve_here(app)
        self.url = f"{self.runner.url}changes?of=all"
        self.source = self.reopened()
        return self

    async def changes(self, request):
        assert request.query["of"] == "all"
        since, limit = int(request.query["since"]), int(request.query["limit"])
        self.asked.append(since)
        if 0 < since < self.dropped:
            return web.Response(status=410)
        found = [row for row in self.rows if row["lsn"] > since][:limit]
        document = {
            "schema": "cfetch.serial/1",
            "feed": self.feed,
            "changes": found,
            "next": found[-1]["lsn"] if len(found) == limit else self.serial,
        }
        return web.json_response(document)

    def reopened(self):
        web = Web(HttpTransport(connect_timeout_s=10), SystemClock(), random.random)
        source = SerialSource(SecretUrl(self.url), web)
        self.sources.append(source)
        return source

    async def close(self):
        for source in self.sources:
            await source.close()
        await self.runner.cleanup()

    def _add(self, path, **more):
        self.serial += 3
        self.rows.append({"lsn": self.serial, "path": path, **more})

    async def append(self, path):
        self._add(path, op="upsert", url=make_relative_url(path), size=1)

    async def delete(self, path):
        self._add(path, op="delete")

    async def recreate(self):
        self.feed, self.rows, self.serial, self.dropped = "second", [], 0, 0

    async def retire(self):
        self.rows, self.dropped = [], self.serial
