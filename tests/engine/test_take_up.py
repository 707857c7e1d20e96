"""Idle workers take up what ended helpers have left, while the owner of the entry is busy elsewhere."""

import random
from typing import Any

import pytest

from cfetch.base.clock import RunClock
from cfetch.base.config.settings import Settings
from cfetch.base.virtual_clock import VirtualClock
from cfetch.engine.attempt import Assignment, Attempt
from cfetch.engine.hosts import Hosts
from cfetch.engine.schedule import Schedule
from cfetch.engine.segments import MOST_FAILURES, Segments
from cfetch.engine.transfer import Transfer
from cfetch.storage.directory import Directory
from cfetch.storage.part import Part
from cfetch.straggler.attempt_limits import MIN_SEGMENT_BYTES
from cfetch.straggler.detector import Detector
from cfetch.wire.retry import Limits
from tests.engine.drive import entry_of
from tests.engine.flying import new_flights

MIB = 1 << 20
BODY = random.Random("left").randbytes(16 * MIB)
HOST = "origin.test"


class Forecast(Detector):
    """Every attempt has so many seconds left, if that is known; a fresh one would need a second."""

    left_s: float | None = None

    def remaining_s(self, key):
        return self.left_s

    def fresh_s(self, host, size_bytes):
        return 1.0


class Scene:
    """A file in ranges whose owner is under way, with 1 MiB held; nothing is known of how fast it is."""

    def __init__(self, volume, *, slots=8, most=8):
        self.policy = Forecast(Settings().straggler)
        self.hosts = Hosts(slots, Limits(5, 60.0))
        self.in_flight = new_flights(self.policy, self.hosts)
        waiting: Schedule[Any] = Schedule([], [], 0, most_put_back=1)
        clock = RunClock(VirtualClock())
        self.segments = Segments(self.policy, self.hosts, self.in_flight, waiting, clock, most=most)
        entry = entry_of(0, "a", BODY)
        self.part = Part(volume, entry)
        self.part.write(BODY[:MIB])
        self.part.validator = '"v1"'
        self.transfer = Transfer(entry, self.part, queue=0, host=HOST, now_s=0.0)
        self.owner = Attempt(Assignment(entry, 1, HOST), 0.0, from_byte=0, size_bytes=len(BODY))
        self.owner.resumable = True
        self.in_flight.start(self.owner, self.transfer)
        self.hosts.take_slot(HOST, len(BODY))
        self.ranges = self.part.split_into_ranges(len(BODY))

    def leave(self, start, position, end):
        """A helper was sent for a range, has brought its first bytes, and was ended."""
        segment = self.ranges.join(start, end)
        self.part.write_at(segment, BODY[start:position])
        self.ranges.give_back(segment)

    def leave_three(self):
        """Three gaps, of 3 MiB each."""
        for start in (12, 8, 4):
            self.leave(start * MIB, (start + 1) * MIB, (start + 4) * MIB)

    def assign(self, idle):
        """The ranges for which idle workers are sent."""
        helpers = self.segments.assign(idle)
        assert {helper.key for helper in helpers} <= self.transfer.helpers.keys
        segments = [helper.segment for helper in helpers if helper.segment is not None]
        return [(segment.start / MIB, segment.end / MIB) for segment in segments]


@pytest.fixture
def make_scene(tmp_path):
    scenes = []

    def make(**how):
        volume = Directory(tmp_path, "attempts/i/0")
        scenes.append((Scene(volume, **how), volume))
        return scenes[-1][0]

    yield make
    for made, volume in scenes:
        made.part.discard()
        volume.close()


async def test_what_an_ended_helper_has_left_is_taken_up_once(make_scene):
    """All of it, and nothing else; the helper has a slot at the host."""
    scene = make_scene()
    assert scene.assign(3) == []
    scene.leave(8 * MIB, 9 * MIB, 16 * MIB)
    assert scene.assign(3) == [(9, 16)]
    running, borne = scene.hosts.bears(HOST)
    assert borne - running == 6
    assert scene.assign(3) == []


async def test_no_more_is_taken_up_than_workers_are_idle(make_scene):
    """In the order of the file; the rest is for those who are idle later."""
    scene = make_scene()
    scene.leave_three()
    assert scene.assign(2) == [(5, 8), (9, 12)]
    assert scene.assign(2) == [(13, 16)]


@pytest.mark.parametrize("how", [{"slots": 3}, {"most": 3}])
async def test_no_more_is_taken_up_than_connections_are_allowed(make_scene, how):
    """By the host, or for one file: the owner has one of three."""
    scene = make_scene(**how)
    scene.leave_three()
    assert scene.assign(8) == [(5, 8), (9, 12)]
    assert scene.assign(8) == []


@pytest.mark.parametrize(("left_bytes", "count"), [(MIN_SEGMENT_BYTES, 1), (MIN_SEGMENT_BYTES - 1, 0)])
async def test_a_rest_that_is_not_worth_a_request_is_left_to_the_owner(make_scene, left_bytes, count):
    """It comes by there."""
    scene = make_scene()
    scene.leave(8 * MIB, 16 * MIB - left_bytes, 16 * MIB)
    assert scene.ranges.missing == [(16 * MIB - left_bytes, 16 * MIB)]
    assert len(scene.assign(8)) == count


async def test_an_owner_that_is_between_two_tries_takes_it_up_itself(make_scene):
    """Only another helper is under way."""
    scene = make_scene()
    scene.leave(8 * MIB, 9 * MIB, 16 * MIB)
    helper = Attempt(scene.owner.assignment, 0.0, from_byte=0, size_bytes=len(BODY), key=-99)
    scene.in_flight.start(helper, scene.transfer)
    scene.in_flight.end_unjudged(scene.owner, "a test", 0.0)
    assert scene.assign(8) == []


async def test_a_server_that_failed_helpers_is_asked_for_nothing_more(make_scene):
    """After so many failures it gets one request at a time."""
    scene = make_scene()
    scene.leave(8 * MIB, 9 * MIB, 16 * MIB)
    scene.transfer.helpers.failures = MOST_FAILURES
    scene.transfer.helpers.opens_s = 1e9
    assert scene.assign(8) == []
    scene.transfer.helpers.failures -= 1
    assert scene.assign(8) == [(9, 16)]


async def test_nothing_is_taken_up_for_a_volume_that_was_left(make_scene):
    """The file begins anew elsewhere."""
    scene = make_scene()
    scene.leave(8 * MIB, 9 * MIB, 16 * MIB)
    scene.transfer.moved = True
    assert scene.assign(8) == []


async def test_what_was_left_comes_before_further_splits(make_scene):
    """The owner's own range is split only among workers that are still idle."""
    scene = make_scene()
    scene.policy.left_s = 60.0
    scene.leave_three()
    assert scene.assign(3) == [(5, 8), (9, 12), (13, 16)]
    (split,) = scene.assign(1)
    assert 1 < split[0] < split[1] == 4


async def test_one_call_takes_up_and_splits(make_scene):
    """So many workers in all."""
    scene = make_scene()
    scene.policy.left_s = 60.0
    scene.leave(8 * MIB, 9 * MIB, 16 * MIB)
    first, *others = scene.assign(3)
    assert first == (9, 16)
    assert len(others) == 2
    assert others[-1][1] == 8
