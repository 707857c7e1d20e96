"""The calls under way at a store, and what becomes of them when its volume is abandoned or closed."""

import asyncio
from collections.abc import Awaitable, Callable, Collection
from contextlib import suppress
from typing import Any, TypeVar

from cfetch.base.errors import CfetchError, VolumeFault

T = TypeVar("T")
LONGEST_END_S = 10.0  # at a run's end, the wait until uploads are ended; a store's own rule ends the rest


class StoreCalls:
    """The calls under way at a store: calls that somebody waits for, and calls that only tidy up.

    Made and used in an event loop; ``monotonic`` is the run's clock. When the volume is abandoned, ``line``
    is done, with a fault, and a new ``line`` begins.
    """

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self.line: asyncio.Future[VolumeFault] = asyncio.get_running_loop().create_future()
        self._monotonic = monotonic
        self._since_s: dict[asyncio.Future[Any], float] = {}
        self._tidying: set[asyncio.Task[None]] = set()
        self._late: asyncio.Task[None] | None = None

    async def ask(self, call: Callable[[], Awaitable[T]]) -> T:
        """Return the store's answer. Raises VolumeFault, also if the volume is abandoned meanwhile."""
        line = self.line
        asked = asyncio.ensure_future(call())
        either: list[asyncio.Future[Any]] = [asked, line]
        self._since_s[asked] = self._monotonic()
        try:
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if line.done():
                raise line.result()
            return asked.result()
        finally:
            asked.cancel()
            del self._since_s[asked]

    def tidy(self, step: Callable[[], Awaitable[None]]) -> "asyncio.Task[None]":
        """Carry out the call soon.

        Its faults are ignored, as a store that refuses it also refuses more important calls.
        """

        async def carry_out() -> None:
            with suppress(CfetchError):
                await step()

        task = asyncio.create_task(carry_out())
        self._tidying.add(task)
        task.add_done_callback(self._tidying.discard)
        return task

    def oldest_s(self, now_s: float) -> float:
        """The age in seconds of the oldest call that somebody waits for."""
        return max((now_s - since_s for since_s in self._since_s.values()), default=0.0)

    def abandon(self, why: str, probe: Callable[[], Awaitable[None]]) -> None:
        """Cancel the calls under way; ``probe`` is a call that shows when the store answers again."""
        line, self.line = self.line, asyncio.get_running_loop().create_future()
        line.set_result(VolumeFault(why))
        self._late = self.tidy(probe)

    @property
    def is_stuck(self) -> bool:
        """Whether the probe of ``abandon`` was neither answered nor timed out yet."""
        return self._late is not None and not self._late.done()

    async def wait_until_tidy(self) -> None:
        """Wait until all calls that tidy up are done."""
        while self._tidying:
            await asyncio.wait(self._tidying)

    async def close(self, others: Collection["asyncio.Task[None]"]) -> None:
        """Give the calls that tidy up some time, then cancel them and the other tasks."""
        if self._tidying:
            await asyncio.wait(self._tidying, timeout=LONGEST_END_S)
        late = [*self._tidying, *others]
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)
