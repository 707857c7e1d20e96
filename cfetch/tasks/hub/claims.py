"""The hub's side of dealing: processes ask for shares over the hub, and a dealer of the driver's gives them.

A process has one connection for all of its shares. If that ends while the process has a share, or brings no
word for a minute, the share is lost to it: the dealer fences its task, and others may have the share. A
process that was only cut off finds the fence in its way, and asks again over another connection.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Protocol, TypeVar

import msgspec

from cfetch.tasks.hub.connection import HubConnection
from cfetch.tasks.hub.messages import (
    MOST_BEAT_BYTES,
    Dealt,
    Said,
    ShareClaim,
    ShareEnded,
    StillAlive,
)

T = TypeVar("T")
ANSWER_S = 5.0  # a claim is answered within this, if only by "ask again"
LOOK_S = 1.0  # between looks for a share while there is none
SILENT_TICKS = 60  # without a word, of a second each: if this process itself stood still, they blame one tick
TICK_S = 1.0
MOST_ENDS = 64  # that the dealer takes in at a time: it waits for the receipts of each task that was lost


class Dealer(Protocol):
    """Deals shares out. Its methods may take long, and are called in threads; they raise nothing."""

    @property
    def is_over(self) -> bool:
        """Whether ``claim`` will never give a share again."""

    def claim(self, executor: str) -> int | None:
        """The task as which the process of an executor brings a share now; None: there is none now."""

    def renew(self, task: int) -> None:
        """The task is alive."""

    def end(self, ended: ShareEnded) -> None:
        """The task has let go of its share; nothing happens if it had lost it."""

    def lose(self, task: int) -> None:
        """The process of the task has died, or was cut off: fence the task, and take its share back."""


class Claims:
    """Serves the processes that ask for shares. Used in the hub's event loop."""

    def __init__(self, dealer: Dealer) -> None:
        self._dealer = dealer
        self._turn = asyncio.Lock()  # processes wait for shares in a line, and only the first looks for one
        self._changed = asyncio.Event()
        self._losing: set[asyncio.Task[None]] = set()
        self._ends = ThreadPoolExecutor(MOST_ENDS, "deal")
        self._is_closed = False

    def close(self) -> None:
        """The run is over: connections that end now mean nothing."""
        self._is_closed = True
        self._ends.shutdown(wait=False, cancel_futures=True)

    async def serve(self, said: Said, process: HubConnection) -> None:
        """Serve one process from its first message on. Raises OSError, EOFError, TimeoutError."""
        decoder = msgspec.msgpack.Decoder(Said)
        task: int | None = None
        try:
            while True:
                if isinstance(said, ShareClaim) and task is None:
                    task = await self._find_task(said.executor, process.reader)
                    is_over = task is None and self._dealer.is_over
                    await process.send(Dealt(task=task, is_over=is_over))
                elif isinstance(said, StillAlive) and said.task == task:
                    await asyncio.to_thread(self._dealer.renew, task)
                elif isinstance(said, ShareEnded) and said.task == task:
                    await self._in_thread(self._dealer.end, said)
                    task = None
                    self._changed.set()
                else:
                    raise ConnectionError("a message out of turn")
                said = decoder.decode(await _read_patiently(process))
        finally:
            if task is not None and not self._is_closed:
                losing = asyncio.get_running_loop().create_task(self._lose(task))
                self._losing.add(losing)
                losing.add_done_callback(self._losing.discard)

    async def _find_task(self, executor: str, reader: asyncio.StreamReader) -> int | None:
        loop = asyncio.get_running_loop()
        end_s = loop.time() + ANSWER_S
        with suppress(TimeoutError):
            async with asyncio.timeout_at(end_s):
                await self._turn.acquire()
            try:
                while not (reader.at_eof() or self._dealer.is_over):
                    self._changed.clear()
                    task = await asyncio.to_thread(self._dealer.claim, executor)
                    if task is not None or self._dealer.is_over or loop.time() > end_s:
                        return task
                    with suppress(TimeoutError):
                        await asyncio.wait_for(self._changed.wait(), LOOK_S)
            finally:
                self._turn.release()
        return None

    async def _lose(self, task: int) -> None:
        await self._in_thread(self._dealer.lose, task)
        self._changed.set()

    async def _in_thread(self, call: Callable[[T], None], what: T) -> None:
        await asyncio.get_running_loop().run_in_executor(self._ends, call, what)


async def _read_patiently(process: HubConnection) -> bytes:
    """The next message. Raises TimeoutError: there has been none for a minute in which this process ran."""
    reading = asyncio.create_task(process.read(MOST_BEAT_BYTES))
    try:
        for _ in range(SILENT_TICKS):
            if (await asyncio.wait({reading}, timeout=TICK_S))[0]:
                return reading.result()
        raise TimeoutError
    finally:
        reading.cancel()
        with suppress(OSError, EOFError, asyncio.CancelledError):
            await reading
