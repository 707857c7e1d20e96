"""Replies without a server, for the tests of programs that use cfetch: aioresponses, in one line.

    with mock_servers() as servers:
        servers.get("https://data.test/a.csv", body=b"1,2")
        cfetch.get("https://data.test/a.csv", to=tmp_path)

aioresponses mocks aiohttp's client session, so all requests go by it meanwhile (``--transport session``).
What touches bytes on the wire (cut bodies, slow replies) needs a real server on loopback.
"""

import json
from contextlib import suppress
from typing import Any
from unittest.mock import patch

import aiohttp
from aioresponses import aioresponses

from cfetch.wire import network


class MockedResponse(aiohttp.ClientResponse):
    """The response of aiohttp; aioresponses 0.7 does not give what aiohttp asks for since 3.14."""

    def __init__(self, *args: Any, **options: Any) -> None:
        options.setdefault("stream_writer", _NothingSent())
        super().__init__(*args, **options)


class _NothingSent:
    output_size = 0


class MockServers(aioresponses):
    """``aioresponses`` whose replies state their length, as servers do, so that cfetch can tell their ends.

    A URL that is not mocked is answered with 404, and the message says so.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._imposing = patch.object(network, "IMPOSED", "session")

    def start(self) -> None:
        super().start()
        self._imposing.start()

    def stop(self) -> None:
        with suppress(RuntimeError):  # it was stopped before
            self._imposing.stop()
        super().stop()

    def add(self, url: Any, method: str = "GET", **reply: Any) -> None:  # type: ignore[override]
        reply.setdefault("response_class", MockedResponse)
        payload = reply.pop("payload", None)
        if payload is not None:
            reply["body"] = json.dumps(payload)
        kind = "application/octet-stream" if payload is None else "application/json"
        reply.setdefault("content_type", kind)
        body = reply.get("body", b"")
        size_bytes = len(body if isinstance(body, bytes) else body.encode())
        stated = {name.lower() for name in reply.get("headers") or {}}
        if stated.isdisjoint({"content-length", "transfer-encoding"}):
            reply["headers"] = {**(reply.get("headers") or {}), "Content-Length": str(size_bytes)}
        super().add(url, method, **reply)

    async def match(self, method: str, url: Any, **options: Any) -> Any:  # type: ignore[override]
        reply = await super().match(method, url, **options)
        if reply is None and not self.passthrough_unmatched:
            unknown = MockServers()
            unknown.start_empty()
            text = f"no reply to {method} {url} is mocked, or no more than those that were given"
            unknown.add(url, method, status=404, headers={"X-Error-Message": text})
            reply = await aioresponses.match(unknown, method, url, **options)
        return reply

    def start_empty(self) -> None:
        """Take replies without mocking anything."""
        self._responses, self._matches = [], {}


mock_servers = MockServers
