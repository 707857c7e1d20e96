"""Waits between two scans: for the system's word that a file has changed, or for the time of the next scan.

The system's word is only a ring: a scan finds out the rest. It may be lost, so that a scan each minute is the
safety net; and a file that was written to just now is published only by a scan after it has rested.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from cfetch.base.errors import UsageError
from cfetch.base.secret import printable
from cfetch.manifest.digests import missing_library
from cfetch.plugins.follow.server.source_root import STATE_DIRECTORY

SAFETY_S = 60.0
RESTING_S = 3.0  # after the last ring, scans go on as without a doorbell


class ScanTimer:
    """``wait`` ends when ``stop`` is set, or when the next scan is due."""

    def __init__(self, rescan_s: float, stop: asyncio.Event, now: Callable[[], float]) -> None:
        """``now`` is in seconds, of a clock that never goes back."""
        self._rescan_s = rescan_s
        self._stop = stop
        self._now = now
        self._rung = asyncio.Event()
        self._rung.set()  # the first scan may meet files that were written to just before
        self._is_watching = False
        self._rung_s = now()

    def ring(self) -> None:
        """Tell that something has changed."""
        self._rung_s = self._now()
        self._rung.set()

    async def wait(self, *, is_sure: bool) -> None:
        """Wait for the next scan. Not ``is_sure``: the last scan failed, so it is repeated in any case."""
        await self._sleep(self._rescan_s)
        rests = self._now() - self._rung_s > RESTING_S
        if self._is_watching and is_sure and rests:
            await self._sleep(max(0.0, SAFETY_S - self._rescan_s), until_rung=True)
        self._rung.clear()

    async def _sleep(self, seconds: float, *, until_rung: bool = False) -> None:
        tasks = [asyncio.ensure_future(self._stop.wait())]
        if until_rung:
            tasks.append(asyncio.ensure_future(self._rung.wait()))
        try:
            await asyncio.wait(tasks, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()

    @asynccontextmanager
    async def watch(self, source: Path, emit_line: Callable[[str], None]) -> AsyncIterator[None]:
        """Ring when something below ``source`` changes, as long as the block lasts.

        If the system cannot watch it, ``emit_line`` gets the reason, and the scans go on as before.

        Raises:
            UsageError: the library for it is not installed.
        """
        try:
            from watchfiles import awatch
        except ImportError:
            raise UsageError(missing_library("--watch", "watchfiles", "watch")) from None

        async def listen() -> None:
            try:
                self._is_watching = True
                async for _ in awatch(
                    source, watch_filter=_is_of_source, stop_event=ended, debounce=50, step=10
                ):
                    self.ring()
            except (OSError, RuntimeError) as error:  # as when a user may watch no more directories
                why = getattr(error, "strerror", None) or type(error).__name__
                emit_line(
                    f"cannot watch {printable(str(source))}: {why}; it is scanned every {self._rescan_s:g} s"
                )
            finally:
                self._is_watching = False

        ended = asyncio.Event()
        task = asyncio.create_task(listen())
        try:
            yield
        finally:
            ended.set()
            with suppress(asyncio.CancelledError):
                await task


def _is_of_source(_: object, path: str) -> bool:
    """Whether a change is none of the server's own files."""
    return STATE_DIRECTORY not in Path(path).parts
