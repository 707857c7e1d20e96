"""The volumes of a run as its driver sees them, while tasks write: speed, room, whether they answer.

What tasks have brought is known by their beats. A volume that does not answer the driver is not used while no
task is at work there; the tasks at work find out by themselves, and say so.
"""

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from cfetch.base.config.engine import PlacementOptions
from cfetch.base.errors import CfetchError, LocalFault, Vanished, VolumeFault
from cfetch.base.events import Event, VolumePaused, VolumeView
from cfetch.engine.batches.staging import Batch
from cfetch.engine.batches.volume_events import VolumesInUse
from cfetch.engine.placement.placer import Placer
from cfetch.manifest.entry import Entry
from cfetch.storage.volume import Volume

T = TypeVar("T")

LOOK_S = 1.0  # between looks at speeds and rooms, and the patience of one look
Landed = Callable[[], Mapping[int, tuple[int, int]]]
"""By task at work: its volume, and the bytes that it has brought there."""


class TaskVolumes:
    """Used in the event loop in which ``volumes`` were made. ``events`` gets what people are told."""

    def __init__(
        self,
        volumes: Sequence[Volume],
        placer: Placer,
        events: deque[Event],
        now_s: Callable[[], float],
        note_files: Callable[[int], None],
        options: PlacementOptions,
    ) -> None:
        self._volumes = volumes
        self._placer = placer
        self._events = events
        self.in_use = VolumesInUse(volumes, placer, now_s, events.append)
        self._now_s = now_s
        self._note_files = note_files
        self._patience_s = min(options.write_timeout_s, options.deadline_s)
        self._files = Counter[int]()  # that tasks have put there, or found
        self._seen: dict[int, int] = {}  # bytes by task
        self._landed = Counter[int]()  # bytes of tasks at work, by volume
        self._following: list[asyncio.Task[None]] = []
        self._watching: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Look at each volume once; those that do not answer are out of use, also later on."""
        self._watching = asyncio.get_running_loop().create_task(self._abandon_those_that_hang())
        await asyncio.gather(*map(self._open, range(len(self._volumes))))

    async def _open(self, index: int) -> None:
        try:
            await call_for(self._patience_s, self._volumes[index].open())
            await call_for(self._patience_s, self._measure_room(index))
        except TimeoutError:
            name = self._volumes[index].name
            self.lose(index, VolumeFault(f"{name} has not answered for {self._patience_s:g} s"))
        except LocalFault as fault:
            self.lose(index, fault)

    def lose(self, index: int, fault: LocalFault) -> None:
        """Take a volume out of use, unless tasks are at work there."""
        if not self._placer.view(index).running:
            self._placer.volume_failed(index, self._now_s(), str(fault))
            self.in_use.pause(index)

    def note_done(self, index: int, files: int) -> None:
        """A batch is over on a volume, of which tasks have put or found so many files there."""
        self.in_use.note_done(index)
        if files:
            self._files[index] += files

    async def note_records(self, index: int, batches: Sequence[str]) -> None:
        """Let the volume note that the records of these batches stand: it looks again at the end."""
        volume = self._volumes[index]
        if batches and not volume.is_stuck:
            with suppress(CfetchError, TimeoutError):
                await call_for(LOOK_S, volume.inspect_batches([(batch, ()) for batch in batches]))

    def list_used(self) -> list[int]:
        """The volumes that have files of this run."""
        return sorted(self._files)

    async def confirm(self, index: int, fault: Vanished | None = None) -> LocalFault | None:
        """Look whether what tasks have put on a volume stands; ``fault``: what a task has seen there.

        Returns the fault with which the run ends, if files have gone.
        """
        volume = self._volumes[index]
        self._note_files(index)
        volume.drain()
        left = 0 if fault is None else self._files[index]
        try:
            await call_for(self._patience_s, volume.run())
        except Vanished as gone:
            fault, left = gone, gone.left
        except (LocalFault, TimeoutError):
            fault = fault or Vanished(f"{volume.name} cannot be read any more")
            left = 0
        if fault is not None:
            now_s, why = self._now_s(), str(fault)
            self._events.append(
                VolumePaused(t_s=now_s, volume=volume.name, pause_s=None, reason=why, left=left)
            )
        return fault

    def views(self, done_bytes: Mapping[str, int]) -> list[VolumeView]:
        """The volumes at this moment; ``done_bytes``: of what tasks have brought, by the volumes' names."""
        return self.in_use.make_views([done_bytes.get(volume.name, 0) for volume in self._volumes])

    def follow(self, find_landed: Landed) -> None:
        """Measure speeds and rooms from now on."""
        rooms = map(self._follow_room, range(len(self._volumes)))
        self._following = list(map(asyncio.create_task, (self._follow_speeds(find_landed), *rooms)))

    def leave(self) -> None:
        """Measure nothing more."""
        for following in self._following:
            following.cancel()

    def close(self) -> None:
        """Leave volumes that hang to their own ``close``."""
        if self._watching is not None:
            self._watching.cancel()

    async def _abandon_those_that_hang(self) -> None:
        """Let nobody wait for a volume that has not answered for long: a call ends in no other way."""
        while True:
            due_s = self._now_s() + LOOK_S
            await asyncio.sleep(LOOK_S)
            for index, volume in enumerate(self._volumes):
                # as of when this look was due: if it is late, the loop has heard no answers meanwhile
                if volume.oldest_s(due_s) > self._patience_s:
                    why = f"{volume.name} has not answered for {self._patience_s:g} s"
                    volume.abandon(f"{why}; see whether it is still there")
                    self.lose(index, VolumeFault(why))

    async def _follow_speeds(self, find_landed: Landed) -> None:
        while True:
            before_s = self._now_s()
            await asyncio.sleep(LOOK_S)
            grown, landed = Counter[int](), Counter[int]()
            for task, (volume, size_bytes) in find_landed().items():
                grown[volume] += max(0, size_bytes - self._seen.get(task, 0))
                landed[volume] += size_bytes
                self._seen[task] = size_bytes
            passed_s = self._now_s() - before_s
            for volume, size_bytes in grown.items():
                if size_bytes and passed_s > 0:
                    self._placer.note_speed(volume, size_bytes, passed_s)
            self._landed = landed

    async def _follow_room(self, index: int) -> None:
        """One call at a time: one that hangs is abandoned, or answered when the volume is well again."""
        while True:
            await asyncio.sleep(LOOK_S)
            if not self._volumes[index].is_stuck:
                try:
                    await self._measure_room(index)
                except LocalFault as fault:
                    self.lose(index, fault)

    async def _measure_room(self, index: int) -> None:
        await self.in_use.measure_room(index, lambda number: self._landed[number])


async def call_for(limit_s: float, work: Coroutine[Any, Any, T]) -> T:
    """Return what a call to a volume returns. Raises TimeoutError after so many seconds.

    ``asyncio.timeout`` would not: a call that hangs is cancelled only when it returns, or is abandoned.
    """
    task = asyncio.ensure_future(work)
    try:
        await asyncio.wait([task], timeout=limit_s)
    finally:
        task.cancel()  # of one that is over this changes nothing
    if not task.done():
        raise TimeoutError
    return task.result()


async def tidy(volumes: Sequence[Volume], batch: Batch, entries: Iterable[Entry], index: int) -> None:
    """Remove what other volumes have of files that stand where their batch is: first the records.

    ``entries`` are the batch's, and ``index`` is its volume.
    """
    all_of_them = list(entries)
    (held,) = await volumes[index].inspect_batches([(batch.id, all_of_them)])
    here = {batch.entries[position] for position in held.same_size}
    if len(here) == len(all_of_them):
        for other in batch.recorded - {index}:
            volumes[other].withdraw_batch(batch.id, ())
    for number, entry in zip(batch.entries, all_of_them, strict=True):
        is_new = batch.standing.get(number) != index
        for other in set(batch.copies.get(number, ())) - {index}:
            if number in here and (is_new or other in batch.recorded):
                volumes[other].remove_older(entry)
