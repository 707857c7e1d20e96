"""The reference feed server as a process: listens, looks for changes again and again, ends in good order."""

import asyncio
import signal
import threading
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, closing
from pathlib import Path
from typing import NamedTuple, Protocol

from cfetch.base.clock import Clock
from cfetch.base.errors import LocalFault, UsageError
from cfetch.base.secret import printable
from cfetch.plugins.follow.server.handler import feed_app
from cfetch.plugins.follow.server.scan_timer import ScanTimer
from cfetch.plugins.follow.server.source_root import STATE_DIRECTORY
from cfetch.plugins.follow.server.store import FeedStore
from cfetch.plugins.follow.server.stream_publisher import StreamPublisher
from cfetch.plugins.follow.server.tree_publisher import TreePublisher
from cfetch.wire.serving import (
    FaultLines,
    Served,
    ServerAccess,
    ServerLimits,
    count_connections,
    own_names,
    serve_app,
)

EmitLine = Callable[[str], None]


class FeedPublisher(Protocol):
    """Brings changes of a directory or a stream into the feed."""

    def scan(self, stop: threading.Event) -> int:
        """Publish new changes. Returns their number."""


class ServeOptions(NamedTuple):
    """``state``: where the feed's own files are; None: in or beside the source. ``port`` 0: a free one.

    ``watches``: scan when the system tells of a change, and not every ``rescan_s``. The rest is as in
    ``TreePublisher``.
    """

    state: Path | None
    host: str
    port: int
    rescan_s: float
    watches: bool
    split_entries: int | None
    keep_s: float | None
    max_delete: float
    names: tuple[str, ...] = ()  # by which clients ask, besides addresses and this machine's own name


def serve(source: Path, options: ServeOptions, *, clock: Clock, ready: EmitLine, emit_line: EmitLine) -> None:
    """Publish ``source``, a directory or a JSON Lines file, until SIGTERM or SIGINT.

    ``ready`` gets the feed's URL; ``emit_line`` gets faults that do not end the server.

    Raises:
        UsageError: there is no such source, or nothing can listen there, or the library for watching is
            not installed.
        LocalFault: the feed cannot be kept.
        Held: another server publishes from the same state.
    """
    is_tree = source.is_dir()
    if not is_tree and not source.is_file():
        raise UsageError(f"{printable(str(source))} is neither a directory nor a JSON Lines file")
    beside = source / STATE_DIRECTORY if is_tree else source.with_name(source.name + STATE_DIRECTORY)
    with closing(FeedStore(options.state or beside)) as store:
        publisher: FeedPublisher
        if is_tree:
            publisher = tree = TreePublisher(
                source,
                store,
                clock=clock,
                emit_line=emit_line,
                split_entries=options.split_entries,
                keep_s=options.keep_s,
                max_delete=options.max_delete,
            )
            app = feed_app(store, source, lambda: tree.left_out)
        else:
            publisher = StreamPublisher(
                source, store, clock=clock, split_entries=options.split_entries, keep_s=options.keep_s
            )
            app = feed_app(store, None)
        faults = FaultLines(emit_line, clock.monotonic)
        names = own_names(options.host) | {name.lower() for name in options.names}
        access = ServerAccess(
            names=names, remedy="ask for it by its address, or restart it with --server-name NAME"
        )

        async def listen() -> Served:
            limits = ServerLimits(count_connections())
            served = await serve_app(app, options.host, options.port, access, limits, faults)
            ready(served.url)
            return served

        watched = source if options.watches else None
        run = _run(listen, publisher, clock, rescan_s=options.rescan_s, watched=watched, emit_line=emit_line)
        asyncio.run(run)


async def _run(
    listen: Callable[[], Awaitable[Served]],
    publisher: FeedPublisher,
    clock: Clock,
    *,
    rescan_s: float,
    watched: Path | None,
    emit_line: EmitLine,
) -> None:
    stop = asyncio.Event()
    bell = ScanTimer(rescan_s, stop, clock.monotonic)
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with AsyncExitStack() as stack:
        if watched is not None:
            await stack.enter_async_context(bell.watch(watched, emit_line))
        served = await listen()
        stack.push_async_callback(served.cleanup)
        await _publish_until_stopped(publisher, bell, stop, emit_line)


async def _publish_until_stopped(
    publisher: FeedPublisher, bell: ScanTimer, stop: asyncio.Event, emit_line: EmitLine
) -> None:
    """Scan until ``stop`` is set. A scan that fails is reported once, and tried again."""
    halt, last_fault = threading.Event(), ""
    while not stop.is_set():
        scan = asyncio.ensure_future(asyncio.to_thread(publisher.scan, halt))
        stopped = asyncio.ensure_future(stop.wait())
        await asyncio.wait((scan, stopped), return_when=asyncio.FIRST_COMPLETED)
        if stop.is_set():
            halt.set()
        try:
            await scan
            last_fault = ""
        except (LocalFault, UsageError) as error:
            if str(error) != last_fault:
                last_fault = str(error)
                emit_line(last_fault)
        stopped.cancel()
        await bell.wait(is_sure=not last_fault)
