"""Silence that is our own: what a late look may conclude."""

import asyncio
import importlib
import sys
import threading
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from cfetch.base.config.settings import Settings
from cfetch.base.events import Progress
from cfetch.engine.attempt import Assignment, Attempt, BreakOff
from cfetch.engine.monitor import EVIDENCE, Monitor
from cfetch.engine.pool_inputs import PoolInputs
from cfetch.engine.schedule import Schedule
from cfetch.show.counts import LiveCounts
from cfetch.straggler.detector import Detector
from tests.engine.drive import drive, entry_of
from tests.engine.fake import Reply
from tests.engine.flying import new_flights, new_transfer

NO_ENTRIES: Schedule[Any] = Schedule([], [], 0, most_put_back=1)
IMMUNE = Assignment(entry_of(0, "a", b"x" * 100), 1, is_immune=True)
IMPATIENT = msgspec.structs.replace(IMMUNE, patience_s=2.0)


class Clock:
    """Stands where it is put."""

    now_s = 0.0

    def now(self):
        return self.now_s


def monitor_of(policy, in_flight, settings, clock, *, emit=lambda _: None, on_slow=None):
    """One over a run without entries, whose volumes are judged if there is ``on_slow``."""
    commitment: Any = SimpleNamespace(
        schedule=NO_ENTRIES, judges_volumes=on_slow is not None, note_straggler=on_slow, views=list
    )
    outside = PoolInputs("i", clock, lambda: 0.5, emit, LiveCounts())
    nothing: Any = lambda *_: None  # noqa: E731
    return Monitor(policy, in_flight, commitment, settings, outside, on_life=nothing, on_check=nothing)


async def looks(*times_s, stall_timeout, then=lambda attempt, now_s: None):
    """What became of a silent attempt after a look at each of these times, and what happens ``then``."""
    clock: Any = Clock()
    settings = Settings(stall_timeout=stall_timeout)
    detector = Detector(settings.straggler)
    in_flight = new_flights()
    monitor = monitor_of(detector, in_flight, settings, clock)

    async def attempt():
        run = Attempt(IMMUNE, 0.0, from_byte=0, size_bytes=100)
        run.note(0.0, 10)
        in_flight.start(run, new_transfer())
        for time_s in times_s:
            clock.now_s = time_s
            monitor.check()
            then(run, time_s)
        reasons.append(run.reason)

    reasons: list[BreakOff | None] = []
    task = asyncio.create_task(attempt())  # a break-off cancels the task that the attempt belongs to
    await asyncio.wait([task])
    return reasons[0]


async def test_silence_is_a_stall():
    """Looked at all the time, it sent nothing for longer than it may."""
    assert await looks(0.5, 1.0, 1.5, 2.0, 2.1, stall_timeout=2.0) is BreakOff.STALLED


async def test_a_process_that_stood_still_blames_nobody():
    """Most of the silence went by unwatched: whether bytes came cannot be known yet."""
    assert await looks(0.5, 4.0, 4.5, 5.0, 5.5, stall_timeout=2.0) is None


async def test_a_gap_that_is_short_beside_the_time_out_blames_nobody_either():
    """Five seconds unwatched at the end of thirty: the policy knows of them, and what came then is unread."""
    seconds = [float(n) for n in range(1, 29)]
    assert await looks(*seconds, 34.0, 35.0, stall_timeout=30.0) is None
    assert await looks(*seconds, 31.0, stall_timeout=30.0) is BreakOff.STALLED


async def test_who_is_held_back_by_our_own_side_is_not_silent():
    """Neither while we do not read, nor by a late look in the middle of that; once we read, time begins."""

    def hold(attempt, now_s):
        if now_s == 0.5:
            attempt.hold(now_s)
        elif now_s == 9.0:
            attempt.let_go(now_s)

    seconds = [n / 2 for n in range(8, 23)]  # the first look after 0.5 is late
    assert await looks(0.5, *seconds, stall_timeout=2.0, then=hold) is None
    assert await looks(0.5, *seconds, 11.1, stall_timeout=2.0, then=hold) is BreakOff.STALLED


async def test_half_a_short_time_out_unwatched_is_enough():
    """A look that is two seconds late says nothing of silence that may last two."""
    assert await looks(0.5, 2.6, stall_timeout=2.0) is None


async def test_after_that_silence_counts_again():
    """From the late look on."""
    assert await looks(0.5, 4.0, 4.5, 5.0, 5.5, 6.0, 6.1, stall_timeout=2.0) is BreakOff.STALLED


async def test_a_further_stream_that_falls_silent_is_ended_itself():
    """And not the entry's other stream, which has the entry's id."""
    clock: Any = Clock()
    settings = Settings(stall_timeout=2.0)
    policy = Detector(settings.straggler)
    in_flight = new_flights()
    monitor = monitor_of(policy, in_flight, settings, clock)
    runs: dict[int, Attempt] = {}

    async def attempt(key):
        run = runs[key] = Attempt(IMPATIENT, 0.0, from_byte=0, size_bytes=100, key=key)
        in_flight.start(run, new_transfer())
        await asyncio.Event().wait()

    tasks = [asyncio.create_task(attempt(key)) for key in (0, -1)]
    await asyncio.sleep(0)
    for clock.now_s in (0.5, 1.0, 1.5, 2.0, 2.5):
        runs[0].note(clock.now_s, 10)
        monitor.check()
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    assert {key: run.reason for key, run in runs.items()} == {0: None, -1: BreakOff.STALLED}
    assert [task.done() for task in tasks] == [False, True]
    tasks[0].cancel()
    await asyncio.wait(tasks)


class Asked(Detector):
    """Counts who asks how long an attempt may take."""

    asked = 0

    def expected_s(self, key):
        self.asked += 1
        return 1.0


async def test_slow_files_are_looked_for_only_where_they_speak_against_a_volume():
    """The question costs time, for each attempt at each look; each slow one is reported once."""
    slow: list[int] = []
    for on_slow in (None, slow.append):
        clock: Any = Clock()
        policy, in_flight = Asked(Settings().straggler), new_flights()
        monitor = monitor_of(policy, in_flight, Settings(), clock, on_slow=on_slow)
        in_flight.start(
            Attempt(replace(IMMUNE, volume_index=3), 0.0, from_byte=0, size_bytes=100), new_transfer()
        )
        for clock.now_s in (0.5, 1.5, 2.5):
            monitor.check()
        assert policy.asked == (0 if on_slow is None else 3)
    assert slow == [3]


async def test_the_rate_that_is_shown_is_smoothed():
    """Over the reports of one attempt; the next attempt at the file begins anew."""
    clock: Any = Clock()
    shown: list[Any] = []
    policy, in_flight = Detector(Settings().straggler), new_flights()
    monitor = monitor_of(policy, in_flight, Settings(), clock, emit=shown.append)
    first = Attempt(IMMUNE, 0.0, from_byte=0, size_bytes=100_000)
    in_flight.start(first, new_transfer())
    for clock.now_s, came in ((1.0, 1000), (2.0, 3000), (2.0, 0)):
        first.note(clock.now_s, came)
        monitor.report()
    in_flight.end_unjudged(first, "interrupted", 2.0)
    second = Attempt(replace(IMMUNE, n=2), 3.0, from_byte=0, size_bytes=100_000)
    in_flight.start(second, new_transfer())
    second.note(5.0, 500)
    clock.now_s = 5.0
    monitor.report()
    rates = [event.active[0].rate_bps for event in shown if isinstance(event, Progress)]
    assert rates == pytest.approx([1000.0, 1600.0, 1600.0, 250.0])


async def test_the_policy_is_told_of_what_is_to_come():
    """The reply states the size of a file of which thirty bytes are there: seventy are to be fetched."""
    told: list[tuple[int, int]] = []

    class Told(Detector):
        def note_size(self, key, size_bytes):
            told.append((key, size_bytes))

    policy, in_flight = Told(Settings().straggler), new_flights()
    clock: Any = Clock()
    monitor = monitor_of(policy, in_flight, Settings(), clock)
    attempt = Attempt(IMMUNE, 0.0, from_byte=30, size_bytes=100)
    in_flight.start(attempt, new_transfer())
    attempt.reply.has_news_of_size = True
    monitor.check()
    monitor.check()
    assert told == [(0, 70)]


@pytest.mark.parametrize(("now_s", "state"), [(1.4, "last try"), (1.6, "slow"), (7.0, "slow")])
async def test_what_will_take_too_long_is_shown_as_slow(now_s, state):
    """From a quarter of what is expected on; before that a pace says little."""

    class SixSeconds(Detector):
        def expected_s(self, key):
            return 6.0

    clock: Any = Clock()
    shown: list[Any] = []
    policy, in_flight = SixSeconds(Settings().straggler), new_flights()
    monitor = monitor_of(policy, in_flight, Settings(), clock, emit=shown.append)
    attempt = Attempt(IMMUNE, 0.0, from_byte=0, size_bytes=100_000)
    in_flight.start(attempt, new_transfer())
    attempt.note(1.0, 1000)
    clock.now_s = now_s
    monitor.report()
    (view,) = shown[-1].active
    assert (view.state, view.is_spared) == (state, True)  # the time left must not hope for a restart


@pytest.mark.parametrize(("latency_s", "is_loaded"), [(0.05, False), (0.5, True)])
def test_what_is_slow_to_import_is_imported_in_a_thread_and_only_for_attempts_that_last(
    tmp_path, monkeypatch, latency_s, is_loaded
):
    """The import of numpy takes 0.1 s, for which no byte would be read."""
    threads = []

    def load(name):
        threads.append((name, threading.current_thread() is threading.main_thread()))
        return importlib.import_module(name)

    monkeypatch.delitem(sys.modules, EVIDENCE, raising=False)
    monkeypatch.setattr("cfetch.engine.monitor.import_module", load)
    outcome = drive(tmp_path, {"a": Reply(b"x" * 100, latency_s=latency_s)}, policy="adaptive")
    assert outcome.statuses == ["done"]
    assert threads == [(EVIDENCE, False)] * is_loaded
