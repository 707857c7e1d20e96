"""What the placer is told of volumes: their room, and whether their speed is still to be measured."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from cfetch.base.clock import RunClock
from cfetch.base.virtual_clock import VirtualClock, run_virtual
from cfetch.engine.batches.health import Health
from cfetch.engine.batches.volume_events import VolumesInUse
from tests.engine.flying import new_flights

MIB, GIB = 1 << 20, 1 << 30


class Volume:
    """Has so much room, and nothing is written to it."""

    name = "v"
    is_stuck = False
    written_bytes = 0

    def __init__(self, free_bytes=GIB, *, is_behind=False):
        self.free = free_bytes
        self.is_behind = is_behind

    async def open(self):
        """Nothing to open."""

    async def free_bytes(self):
        return self.free

    def oldest_s(self, now_s):
        return 0.0


class Placer:
    """Knows no speed; ``rooms`` are what it was told."""

    def __init__(self):
        self.rooms = {}
        self.speeds_bps = []

    def view(self, index):
        return SimpleNamespace(speed_bps=self.speeds_bps and self.speeds_bps[-1], load_bytes=0)

    def note_speed(self, index, size_bytes, seconds, *, weight):
        if size_bytes:
            self.speeds_bps.append(size_bytes / seconds)

    def set_room(self, index, size_bytes):
        self.rooms[index] = size_bytes


def health_of(*volumes, placer=None, work=None, clock=None, patience_s=60.0):
    made: Any = volumes
    told: Any = placer or Placer()
    clock = RunClock(clock or VirtualClock())
    stagings: Any = SimpleNamespace(here=lambda _: [], changed=work or asyncio.Event())
    in_use = VolumesInUse(made, told, clock.now, lambda _: None)
    facts = {"patience_s": patience_s, "in_use": in_use, "gone": lambda *_: None}
    return Health(made, told, stagings, new_flights(), clock, **facts)


@pytest.mark.parametrize(
    ("free_bytes", "room_bytes"), [(100 * MIB, 99 * MIB), (10 * GIB, 10 * GIB - 16 * MIB), (0, 0)]
)
def test_some_room_is_kept_for_our_own_files(free_bytes, room_bytes):
    """A hundredth of the volume, at most 16 MiB."""
    placer = Placer()

    async def main():
        health = health_of(Volume(free_bytes), placer=placer)
        watching = asyncio.create_task(health.watch())
        await health.wait_until_open()
        watching.cancel()
        await asyncio.wait([watching])

    run_virtual(main())
    assert placer.rooms == {0: room_bytes}


def test_how_long_a_volume_is_new():
    """For its first second at work; then it is new only while it is behind with what has come."""

    async def main():
        health = health_of(Volume(), Volume(is_behind=True))
        seen = [[health.is_new(index) for index in (0, 1)]]
        for index in (0, 1):
            health.note_start(index)
        for _ in range(2):
            await asyncio.sleep(0.6)
            seen.append([health.is_new(index) for index in (0, 1)])
        return seen

    assert run_virtual(main()) == [[True, True], [True, True], [False, True]]


def test_a_speed_that_becomes_known_is_work():
    """A further batch may be begun then, as places are idle; nothing else tells before the next round."""

    async def main():
        volume, placer, work = Volume(), Placer(), asyncio.Event()
        health = health_of(volume, placer=placer, work=work)
        watching = asyncio.create_task(health.watch())
        await health.wait_until_open()
        health.note_start(0)
        seen = []
        for written_bytes in (0, MIB):
            volume.written_bytes = written_bytes
            await asyncio.sleep(0.25)
            seen.append((work.is_set(), [*placer.speeds_bps]))
        watching.cancel()
        await asyncio.wait([watching])
        return seen

    assert run_virtual(main()) == [(False, []), (True, [pytest.approx(MIB / 0.26)])]


class StandingStill(VirtualClock):
    """The time of a loop that stood still for ``lost_s``."""

    lost_s = 0.0

    def monotonic(self):
        return super().monotonic() + self.lost_s


class Asked(Volume):
    """``asked_s``: when the call began whose answer has not been heard yet."""

    asked_s = None
    is_abandoned = False

    def oldest_s(self, now_s):
        return 0.0 if self.asked_s is None else now_s - self.asked_s

    def abandon(self, why):
        self.is_abandoned = True


@pytest.mark.parametrize(("patience_s", "lost_s"), [(60.0, 100.0), (1.0, 1.5)])
def test_an_event_loop_that_stood_still_blames_no_volume(patience_s, lost_s):
    """A disk with the state may hold it; what the volumes have answered meanwhile is heard only then."""

    async def main():
        still, volume = StandingStill(), Asked()
        health = health_of(volume, clock=still, patience_s=patience_s)
        watching = asyncio.create_task(health.watch())
        await asyncio.sleep(1.05)
        volume.asked_s, still.lost_s = still.monotonic(), lost_s
        await asyncio.sleep(0.1)
        volume.asked_s = None
        await asyncio.sleep(1.0)
        watching.cancel()
        await asyncio.wait([watching])
        assert watching.cancelled(), watching.exception()
        return volume.is_abandoned

    assert not run_virtual(main())
