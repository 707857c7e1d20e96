"""The driver's view of the volumes, on virtual time: a disk that hangs holds up nobody."""

import asyncio
from collections import deque
from typing import Any

from cfetch.base.config.engine import PlacementOptions
from cfetch.base.errors import VolumeFault
from cfetch.base.events import Event, VolumePaused
from cfetch.base.virtual_clock import run_virtual
from cfetch.engine.placement.chooser import Mode
from cfetch.engine.placement.placer import Placer
from cfetch.tasks.shares.task_volumes import TaskVolumes


class HangingVolume:
    """Answers no question about batches; as with a disk, a cancelled call ends only when it is abandoned."""

    name = "v0"
    is_stuck = False

    def __init__(self):
        self.since_s = []
        self.looks = 0

    async def open(self):
        pass

    async def free_bytes(self):
        self.looks += 1
        if self.looks > 1:  # a disk's thread stays behind, although nobody waits for this call any more
            await asyncio.get_running_loop().create_future()
        return 1 << 40

    async def inspect_batches(self, batches):
        loop = asyncio.get_running_loop()
        self.since_s.append(loop.time())
        self._answer = loop.create_future()
        while not self._answer.done():
            try:
                await asyncio.wait([self._answer])
            except asyncio.CancelledError:
                continue
        self._answer.result()

    def oldest_s(self, now_s):
        return now_s - self.since_s[0] if self.since_s and not self.is_stuck else 0.0

    def abandon(self, why):
        self.is_stuck = True
        self._answer.set_exception(VolumeFault(why))


def test_a_volume_that_hangs_holds_up_nobody():
    """Batches are noted together after a second; after its patience the driver uses the volume no more."""
    volume: Any = HangingVolume()
    events, ends_s = deque[Event](), list[float]()

    async def play():
        clock = asyncio.get_running_loop().time
        placer = Placer(1, mode=Mode.COUNT, deadline_s=60.0)
        options = PlacementOptions(
            concurrency=1, mode="count", batch_share=0.1, write_timeout_s=10.0, deadline_s=60.0
        )
        watch = TaskVolumes([volume], placer, events, clock, lambda _: None, options)
        await watch.open()
        for wait_s in (0.0, 20.0):
            await asyncio.sleep(wait_s)
            begun_s = clock()
            await watch.note_records(0, ["a", "b"])
            ends_s.append(clock() - begun_s)
        watch.close()

    run_virtual(play())
    assert ends_s == [1.0, 0.0]
    assert len(volume.since_s) == 1
    (paused,) = [event for event in events if isinstance(event, VolumePaused)]
    assert (paused.volume, paused.reason) == ("v0", "v0 has not answered for 10 s")


def test_free_space_is_asked_for_by_one_call_at_a_time():
    """While a volume does not answer, no thread for a second call is added to the one that waits."""
    volume: Any = HangingVolume()

    async def play():
        clock = asyncio.get_running_loop().time
        options = PlacementOptions(
            concurrency=1, mode="count", batch_share=0.1, write_timeout_s=600.0, deadline_s=600.0
        )
        placer = Placer(1, mode=Mode.COUNT, deadline_s=600.0)
        watch = TaskVolumes([volume], placer, deque(), clock, lambda _: None, options)
        await watch.open()
        watch.follow(dict)
        await asyncio.sleep(30)
        watch.leave()
        watch.close()

    run_virtual(play())
    assert volume.looks == 2
