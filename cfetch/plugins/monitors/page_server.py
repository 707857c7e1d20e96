"""Serves the page of a run under way, in a thread of its own: the run waits for no reader.

::

    engine's thread: event -> queue
    server's thread: queue -> PageState, RunMetrics -> GET /          the page
                                                           /events    live numbers and the page's document
                                                           /summary   the live numbers as JSON
                                                           /metrics   OpenMetrics
                                                           /healthz   200 as long as the process serves

Everything is read only. Beyond loopback a client needs the token. On loopback the Host header must name
loopback, else a page of another site whose name points here could read the run (DNS rebinding). How it is
served is ``cfetch/wire/serving.py``; a run reserves ``PAGE_DESCRIPTORS`` for it before it begins.
"""

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import NamedTuple, Self

import msgspec
from aiohttp import web

from cfetch.base.errors import UsageError
from cfetch.base.events import Event
from cfetch.base.secret import SecretText, printable
from cfetch.plugins.monitors.openmetrics import RunMetrics
from cfetch.plugins.monitors.page_state import PageState
from cfetch.show.page.html import render_live_html
from cfetch.wire.serving import (
    FaultLines,
    ServerAccess,
    ServerLimits,
    descriptors_for,
    is_loopback,
    serve_app,
)

LIVE_EVERY_S = 1.0
PAGE_EVERY_S = 2.0
PAGE_SHARE = 0.05  # of a processor, at most, to make documents while somebody looks
MOST_READERS = 16  # of events; more are refused
# Readers, and as many short requests, beside the connections that come in one turn. No request has a body; to
# read one, however long, would take time of the run.
LIMITS = ServerLimits(connections=64, linger_s=0, unread_bytes=128 << 20)
PAGE_DESCRIPTORS = descriptors_for(LIMITS.connections)
LAST_WORDS_S = 2.0  # for the last document, once the run has ended
_HEADERS = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",  # a token may be in the address
}


class Address(NamedTuple):
    """Where to listen."""

    host: str
    port: int

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can connect."""
        return is_loopback(self.host)


def read_address(text: str) -> Address:
    """Read ``PORT``, ``HOST:PORT`` or ``[IPV6]:PORT``; without a host it is loopback.

    Raises:
        UsageError: the text is no address.
    """
    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]") if colon else "127.0.0.1"
    if not host or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise UsageError(
            f"--serve is {printable(text)!r} but must be a port, or an address like 127.0.0.1:8080; "
            "port 0 takes a free one"
        )
    return Address(host, int(port))


class PageServer:
    """A listener that serves the run until it is closed. ``url`` is the page's address, without the token.

    ``emit_line`` gets faults, which never end the run. ``names``: as for ``PageState``.

    Raises:
        UsageError: nothing can listen at the address, or prometheus_client is not installed.
    """

    def __init__(
        self,
        address: Address,
        token: SecretText | None,
        names: Sequence[str] = (),
        emit_line: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._address, self._token = address, token
        self._faults = FaultLines(lambda line: emit_line(f"the live page: {line}"))
        self._events: SimpleQueue[Event] = SimpleQueue()
        self._state, self._metrics = PageState(names, self._faults.add), RunMetrics()
        self._page = _EncodedPage(self._state, self._faults)
        self._readers = 0
        self._started = threading.Event()
        self._fault: UsageError | None = None
        self._loop = asyncio.new_event_loop()
        self._over, self._no_reader = asyncio.Event(), asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="cfetch-page", daemon=True)
        self.url = ""

    def __enter__(self) -> Self:
        self._thread.start()
        self._started.wait()
        if self._fault is not None:
            self._thread.join()
            raise self._fault
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join()

    def __call__(self, event: Event) -> None:
        """Take an event of the run, from its thread."""
        self._events.put(event)

    def _run(self) -> None:
        try:
            with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
                runner.run(self._serve())
        finally:
            self._started.set()

    async def _serve(self) -> None:
        app = web.Application()
        app.add_routes(
            [
                web.get("/", self._answer_page),
                web.get("/events", self._answer_events, allow_head=False),  # it would have no end
                web.get("/summary", self._answer_summary),
                web.get("/metrics", self._answer_metrics),
                web.get("/healthz", self._answer_health),
            ]
        )
        remedy = "only this machine may ask, as localhost; with --serve-token-env others may"
        access = ServerAccess(self._token, remedy=remedy)
        try:
            served = await serve_app(app, *self._address, access, LIMITS, self._faults)
        except UsageError as fault:
            self._fault = fault
            return
        self.url = served.url
        self._started.set()
        while not self._over.is_set():
            self._take_events()
            await _wait_for(self._over, LIVE_EVERY_S / 2)
        self._take_events()
        if self._readers:
            await _wait_for(self._no_reader, LAST_WORDS_S)
        await served.cleanup(patience_s=0.0)  # the run does not wait for who has not read its end by now

    def _take_events(self) -> None:
        while True:
            try:
                event = self._events.get_nowait()
            except Empty:
                return
            for take in (self._state.apply, self._metrics):
                try:
                    take(event)
                except Exception as error:  # noqa: BLE001 - the page shows less then, and is not lost
                    self._faults.add_error("an event cannot be shown", error)

    async def _answer_page(self, _: web.Request) -> web.Response:
        return web.Response(text=render_live_html(), content_type="text/html", headers=_HEADERS)

    async def _answer_summary(self, _: web.Request) -> web.Response:
        self._take_events()
        body = msgspec.json.encode(self._state.make_live())
        return web.Response(body=body, content_type="application/json", headers=_HEADERS)

    async def _answer_metrics(self, _: web.Request) -> web.Response:
        self._take_events()
        body, content_type = self._metrics.render()
        return web.Response(body=body, headers={**_HEADERS, "Content-Type": content_type})

    async def _answer_health(self, _: web.Request) -> web.Response:
        return web.Response(text="ok\n", headers=_HEADERS)

    async def _answer_events(self, request: web.Request) -> web.StreamResponse:
        if self._readers >= MOST_READERS:
            raise web.HTTPServiceUnavailable(text="too many readers\n")
        response = web.StreamResponse(headers={**_HEADERS, "Content-Type": "text/event-stream"})
        self._readers += 1
        try:
            await response.prepare(request)
            sent = b""
            is_last = False
            while not is_last:
                is_last = self._over.is_set()  # the events until then are sent once more
                self._take_events()
                live = msgspec.json.encode(self._state.make_live())
                await response.write(b"event: live\ndata: " + live + b"\n\n")
                page = self._page.make(at_once=is_last or not sent)
                if page is not sent and page:
                    await response.write(b"event: page\ndata: " + page + b"\n\n")
                    sent = page
                if not is_last:
                    await _wait_for(self._over, LIVE_EVERY_S)
        except ConnectionError:
            pass  # the reader has gone
        finally:
            self._readers -= 1
            if self._over.is_set() and not self._readers:
                self._no_reader.set()
        return response


class _EncodedPage:
    """The document of the page in JSON, made once for all readers."""

    def __init__(self, state: PageState, faults: FaultLines) -> None:
        self._state, self._faults = state, faults
        self._encoded, self._changes, self._due_s = b"", -1, 0.0

    def make(self, *, at_once: bool) -> bytes:
        """The document; made anew if something has changed, ``at_once`` or when it is time."""
        now_s = time.monotonic()
        if self._state.changes != self._changes and (at_once or now_s >= self._due_s):
            self._changes = self._state.changes
            before_s = time.thread_time()  # on a busy machine the wall clock would count the work of others
            try:
                self._encoded = msgspec.json.encode(self._state.make_page())
            except Exception as error:  # noqa: BLE001 - the reader keeps the document before, and the live numbers
                self._faults.add_error("the document cannot be made", error)
            took_s = time.thread_time() - before_s
            self._due_s = now_s + max(PAGE_EVERY_S, took_s / PAGE_SHARE)
        return self._encoded


async def _wait_for(event: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        pass
