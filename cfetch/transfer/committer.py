"""Gives verified parts their final names, in an order that survives a power cut.

Durable (``--durability power``): parts are flushed, then renamed, and the renames are flushed before anything
vouches for them (Pillai et al., OSDI 2014: neither order nor rename is durable by itself). A flush costs
milliseconds however many files it covers, so parts are published in groups: one flush makes a group's bytes
durable and, with them, the names of the group before, whose files are told to be done only then. Workers do
not wait for it.

Not durable (``crash``): renamed at once. A killed process loses nothing by that; a power cut may.
"""

import asyncio
import concurrent.futures.thread  # noqa: F401 - else it is loaded at the first flush, when descriptors may be few
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

from cfetch.errors import Blocked, CfetchError, LocalFault
from cfetch.placement.local import LocalVolume
from cfetch.transfer.part import Part

__all__ = ["Committer"]

GROUP_S = 0.2  # what a file waits at most for others; four or five flushes a second
GROUP_FILES = 1024  # a flush of so many small files takes well under a second, and so do their names
MAX_PENDING_FILES = 4096  # memory, some 3 KiB each and of twice as many; only a slow disk comes here
MAX_PENDING_BYTES = (
    256 << 20
)  # the kernel's own limit for unwritten pages is usually higher; ours bounds a flush

Ended = Callable[[CfetchError | None], None]
"""Told once per part: None when it has its final name for good, else why it has not."""


class _Pending(NamedTuple):
    part: Part
    ended: Ended


class Committer:
    """Publishes parts. ``run`` is its task; after ``drain`` it ends when all is named, flushed and told."""

    def __init__(self, volume: LocalVolume, *, durable: bool) -> None:
        self._volume = volume
        self._durable = durable
        self._pending: list[_Pending] = []
        self._pending_bytes = 0
        self._work = asyncio.Event()
        self._full = asyncio.Event()  # no use in waiting for more
        self._room = asyncio.Event()
        self._draining = False

    def add(self, part: Part, ended: Ended) -> None:
        """Take over a verified part."""
        if not self._durable:
            if _has_got_its_name(part, ended):
                ended(None)
            return
        try:
            part.seal()  # hundreds may be pending, and descriptors are few
        except LocalFault as fault:
            part.discard()
            ended(fault)
            return
        self._pending.append(_Pending(part, ended))
        self._pending_bytes += part.position
        self._work.set()
        if len(self._pending) >= GROUP_FILES or self._pending_bytes >= MAX_PENDING_BYTES:
            self._full.set()

    @property
    def is_full(self) -> bool:
        """Whether so much is pending that workers have to wait."""
        return len(self._pending) >= MAX_PENDING_FILES or self._pending_bytes >= MAX_PENDING_BYTES

    async def room(self) -> None:
        """Wait while it is full."""
        while self.is_full:
            self._room.clear()
            await self._room.wait()

    async def run(self) -> None:
        """Publish group after group, until drained."""
        named: list[_Pending] = []
        while True:
            if not self._pending and not named:
                if self._draining:
                    break
                self._work.clear()
                await self._work.wait()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._full.wait(), GROUP_S)
            group, self._pending, self._pending_bytes = self._pending, [], 0
            if not self._draining:
                self._full.clear()
            self._room.set()
            named = await self._publish_group(group, named)

    def drain(self) -> None:
        """Nothing more will come: publish what is pending, then end ``run``."""
        self._draining = True
        self._work.set()
        self._full.set()

    async def _publish_group(self, group: list[_Pending], named: list[_Pending]) -> list[_Pending]:
        """Flush; tell of the group before that it is ``named`` for good; what of this one got its name."""
        try:
            await asyncio.to_thread(self._volume.flush)
        except LocalFault as fault:  # the bytes may be lost although they were written: never publish them
            for pending in group:
                pending.part.discard()
            for pending in named + group:
                pending.ended(fault)
            return []
        for pending in named:
            pending.ended(None)
        return [pending for pending in group if _has_got_its_name(*pending)]


def _has_got_its_name(part: Part, ended: Ended) -> bool:
    try:
        part.publish()
    except (Blocked, LocalFault) as error:
        part.discard()
        ended(error)
        return False
    return True
