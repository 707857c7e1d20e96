"""Rate limits on virtual time: the average, the start, fairness, and nobody is punished for our waiting."""

import asyncio
import itertools
import time
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cfetch.base.clock import RunClock, SystemClock
from cfetch.base.config.wire import ALL_HOSTS, RateLimits
from cfetch.base.events import Progress
from cfetch.base.virtual_clock import VirtualClock, run_virtual
from cfetch.manifest.digests import Bytes
from cfetch.wire.rate import (
    BURST_S,
    MAX_SLICE_BYTES,
    MIN_SLICE_BYTES,
    Limiter,
    TokenBucket,
    make_limiter,
    slice_bytes,
)
from tests.engine.drive import drive, entry_of
from tests.engine.fake import Reply

MIB = 1 << 20
KIB = 1 << 10


@given(
    st.integers(1024, 10**9),
    st.lists(st.tuples(st.integers(0, 10**7), st.floats(0, 5)), min_size=1, max_size=50),
)
def test_no_more_than_rate_and_burst_in_any_time(rate_bps, takes):
    """Whoever keeps to the waits has read at most what the rate allows from any moment on, plus the burst."""
    bucket, now_s, reads = TokenBucket(rate_bps), 0.0, []
    for size_bytes, gap_s in takes:
        now_s += gap_s
        reads.append((now_s + bucket.wait_s(bucket.take(size_bytes, now_s), now_s), size_bytes))
    for start in range(len(reads)):
        after_first = sum(size for _, size in reads[start + 1 :])
        seconds = max(t for t, _ in reads) - reads[start][0]
        assert after_first <= rate_bps * (seconds + BURST_S) * (1 + 1e-9) + 1


def test_unused_time_is_not_saved_up():
    """After an hour of silence there is the burst and no more."""
    bucket = TokenBucket(1000.0)
    assert bucket.wait_s(bucket.take(100, 0.0), 0.0) == 0.0
    assert bucket.wait_s(bucket.take(100, 3600.0), 3600.0) == 0.0
    assert bucket.wait_s(bucket.take(100, 3600.0), 3600.0) == pytest.approx(0.1)


def test_room_is_a_use_below_half_for_some_time():
    """Not at the start, nor right after a use above half; a short burst does not count."""

    def read(bucket, share, begin_s, seconds):
        tenths = range(round(begin_s * 10), round((begin_s + seconds) * 10))
        rooms = []
        for tenth in tenths:
            rooms.append(bucket.has_room(tenth / 10))
            bucket.note_read(round(share * 100), tenth / 10)
        return rooms

    bucket = TokenBucket(1000.0)
    early = read(bucket, 0.25, 0, 4)
    assert early == sorted(early)
    assert early.index(True) in range(15, 25)
    assert all(read(bucket, 0.45, 4, 10))
    assert not any(read(bucket, 0.7, 14, 20)[15:])
    after = read(bucket, 0.1, 34, 3)
    assert after.index(True) in range(8, 15)
    bucket.note_read(200, 37.0)
    assert bucket.has_room(37.0)


def test_what_is_given_back_can_be_had_by_others():
    """A turn for which there was nothing to read costs nothing."""
    bucket = TokenBucket(1000.0)
    assert bucket.wait_s(bucket.take(1100, 0.0), 0.0) == pytest.approx(1.0)
    bucket.give_back(1000)
    assert bucket.wait_s(bucket.take(100, 0.0), 0.0) == pytest.approx(0.1)


def test_a_caller_that_waits_learns_the_new_rate():
    """Its bytes are as far from the head of the queue as before, and the queue moves faster."""
    bucket = TokenBucket(100.0)
    first, second = bucket.take(110, 0.0), bucket.take(100, 0.0)
    assert (bucket.wait_s(first, 0.0), bucket.wait_s(second, 0.0)) == pytest.approx((1.0, 2.0))
    bucket.change_rate(1000.0, 0.5)
    assert (bucket.wait_s(first, 0.5), bucket.wait_s(second, 0.5)) == pytest.approx((0.05, 0.15))
    assert (bucket.is_short, bucket.count_read()) == (True, 210)
    assert (bucket.is_short, bucket.count_read()) == (False, 0)


def test_a_leased_rate_is_followed_within_a_tenth_of_a_second():
    """Nothing is read before the first lease; then what the lease allows, and no more after it shrinks."""

    async def main():
        limiter, got = Limiter(RunClock(VirtualClock()), total_bps=MIB, per_host_bps=None), [0]
        limiter.lease({ALL_HOSTS: 0})

        async def read(most):
            return b"x" * most

        async def reader():
            in_turn = limiter.reader(read, "h", Waits())
            while True:
                data = await in_turn()
                got[0] += len(data)

        tasks, seen = [asyncio.create_task(reader()) for _ in range(4)], []
        for rate_bps in (0, 1_000_000, 10_000):
            limiter.lease({ALL_HOSTS: rate_bps})
            before = got[0]
            await asyncio.sleep(2.0)
            seen.append(got[0] - before)
        use = limiter.measure()[ALL_HOSTS]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return seen, use

    seen, use = run_virtual(main())
    assert seen[0] == 0
    assert seen[1] == pytest.approx(2_000_000, rel=0.1)
    assert seen[2] <= 4 * slice_bytes(1_000_000) + 2 * 10_000
    assert (use.limit_bps, use.is_short) == (10_000, True)


def test_a_turn_is_small_but_not_tiny():
    """Between a packet and what one read brings anyway."""
    assert slice_bytes(1) == MIN_SLICE_BYTES
    assert slice_bytes(10 * MIB) == 10 * MIB // 50
    assert slice_bytes(1e12) == MAX_SLICE_BYTES


def test_without_limits_there_is_no_limiter():
    """And so nothing on the path of each read."""
    clock = RunClock(SystemClock())
    assert make_limiter(RateLimits(), clock) is None
    assert make_limiter(RateLimits(total_bps=MIB), clock) is not None
    assert make_limiter(RateLimits(per_host_bps=MIB), clock) is not None


class Waits:
    """What an attempt is told."""

    def __init__(self):
        self.told = []

    def hold(self, now_s):
        self.told.append(("hold", now_s))

    def let_go(self, now_s):
        self.told.append(("let go", now_s))


PLENTY = memoryview(bytes(64 * MIB))  # views of it cost nothing, and gigabytes are read


def readings(kinds, seconds, **limits):
    """Bytes of each reader after so many seconds. ``kinds``: (host, bytes that each read can bring)."""
    got = [0] * len(kinds)

    async def main():
        limiter = Limiter(RunClock(VirtualClock()), **{"total_bps": None, "per_host_bps": None, **limits})

        async def reader(number, host, ready_bytes):
            async def read(most):
                await asyncio.sleep(0)
                return PLENTY[: min(most, ready_bytes)]

            in_turn = limiter.reader(read, host, Waits())
            while True:
                got[number] += len(await in_turn())

        tasks = [asyncio.create_task(reader(n, *kind)) for n, kind in enumerate(kinds)]
        await asyncio.sleep(seconds)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    run_virtual(main())
    return got


@pytest.mark.parametrize("rate_bps", [KIB, 1_000_000, 2 << 30])
@pytest.mark.parametrize("connections", [1, 100])
def test_the_average_holds(rate_bps, connections):
    """Within 5 % over four seconds, however many connections there are; less a turn that is under way."""
    total = sum(readings([("h", 1 << 30)] * connections, 4.0, total_bps=rate_bps))
    assert 4.0 * rate_bps * 0.95 - slice_bytes(rate_bps) <= total <= 4.0 * rate_bps * 1.05


def test_the_start_is_no_burst():
    """In the first tenth of a second sixteen connections together read what a fifth of a second allows."""
    assert sum(readings([("h", 1 << 30)] * 16, 0.1, total_bps=1_000_000)) <= 200_000


def test_all_connections_have_the_same_share():
    """None is starved and none is ahead by more than a turn."""
    got = readings([("h", 1 << 30)] * 16, 10.0, total_bps=1_000_000)
    assert max(got) - min(got) <= slice_bytes(1_000_000)


def test_a_slow_server_leaves_its_share_to_the_others():
    """What it does not use is used: the limit is still reached."""
    got = readings([("h", 1 << 30)] * 3 + [("h", 100)], 10.0, total_bps=1_000_000)
    assert sum(got) >= 9_500_000
    assert got[3] < 100_000


def test_each_host_has_its_own_limit_within_the_common_one():
    """Two hosts at their limits, and a third that gets what the common limit leaves."""
    hosts = [("a", 1 << 30)] * 5 + [("b", 1 << 30)]
    got = readings(hosts, 10.0, per_host_bps=100_000)
    assert sum(got[:5]) == pytest.approx(1_000_000, rel=0.05)
    assert got[5] == pytest.approx(1_000_000, rel=0.05)
    both = readings(hosts, 10.0, per_host_bps=100_000, total_bps=150_000)
    assert sum(both) == pytest.approx(1_500_000, rel=0.05)
    assert sum(both[:5]) <= 1_050_000


def test_a_cancelled_wait_takes_no_turn_from_the_others():
    """Attempts that are broken off while they wait leave the limit to those that are still there."""

    async def main():
        limiter = Limiter(RunClock(VirtualClock()), total_bps=10 * KIB, per_host_bps=None)

        async def read(most):
            return b"x" * most

        waiting: list[asyncio.Future[Bytes]] = [
            asyncio.ensure_future(limiter.reader(read, "h", Waits())()) for _ in range(100)
        ]
        await asyncio.sleep(0)
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        await limiter.reader(read, "h", Waits())()
        return asyncio.get_running_loop().time()

    assert run_virtual(main()) < 0.5


def test_an_attempt_is_told_when_it_is_held_and_let_go():
    """On the run's clock, so that its silence is not taken for the server's."""
    waits = Waits()

    async def main():
        await asyncio.sleep(5.0)

        async def read(most):
            return b"x" * most

        in_turn = Limiter(RunClock(VirtualClock()), total_bps=KIB, per_host_bps=None).reader(read, "h", waits)
        await in_turn()
        await in_turn()

    run_virtual(main())
    assert [word for word, _ in waits.told] == ["hold", "let go"] * 2
    assert [t for _, t in waits.told] == pytest.approx([0.0, 0.9, 0.9, 1.9])


# --- whole runs


def rates_of(outcome):
    """Bytes between reports a second apart."""
    seen = {int(e.t_s): e.bytes_done + e.bytes_active for e in outcome.of(Progress)}
    return [after - before for before, after in itertools.pairwise(seen[t] for t in sorted(seen))]


def test_a_run_keeps_to_its_limit_and_cancels_nobody(tmp_path):
    """Sixteen connections at a hundredth of what the servers could give: no straggler, no stall, no retry."""
    sizes = [MIB // 4 * (1 + number % 5) for number in range(48)]
    scripts = {f"{number}": Reply(body=bytes(size), rate_bps=50e6) for number, size in enumerate(sizes)}
    outcome = drive(tmp_path, scripts, limit_rate=MIB, padding=0.0, concurrency=16, stall_timeout=0.3)
    assert set(outcome.statuses) == {"done"}
    assert {len(record.attempts) for record in outcome.all_records} == {1}
    assert outcome.flagged == []
    assert outcome.elapsed_s == pytest.approx(sum(sizes) / MIB, rel=0.05)
    assert max(rates_of(outcome)) <= 1.2 * MIB


def test_a_very_low_limit_is_not_taken_for_silence(tmp_path):
    """At 1 KiB/s each of 16 connections has its turn every 16 s, and the stall rule allows 2 s."""
    scripts = {f"{number}": Reply(body=bytes(8 * KIB), rate_bps=50e6) for number in range(32)}
    outcome = drive(tmp_path, scripts, limit_rate=KIB, concurrency=16, stall_timeout=2.0)
    assert set(outcome.statuses) == {"done"}
    assert {len(record.attempts) for record in outcome.all_records} == {1}
    assert 256 <= outcome.elapsed_s <= 256 + 16 + 2  # the ends of the last bodies take a turn too


def test_hosts_with_unequal_shares_make_no_stragglers(tmp_path):
    """Of two hosts with the same limit one serves twelve connections, the other four: three times as slow."""
    entries, scripts = [], {}
    for number in range(64):
        host = "few.test" if number % 4 == 0 else "many.test"
        scripts[f"{number}"] = Reply(body=bytes(MIB), rate_bps=50e6)
        entries.append(entry_of(number, f"{number}", bytes(MIB), host=host))
    limits = {"limit_rate_per_host": MIB, "per_host": 12}
    outcome = drive(tmp_path, scripts, entries, **limits, padding=0.0, concurrency=16)
    assert set(outcome.statuses) == {"done"}
    assert outcome.flagged == []
    assert outcome.elapsed_s == pytest.approx(48, rel=0.05)


def test_a_real_straggler_is_still_found_under_a_limit(tmp_path):
    """Its server gives a hundredth of the share that the limit leaves it: that is not our doing."""
    scripts: dict[str, object] = {f"{n}": Reply(body=bytes(MIB), rate_bps=50e6) for n in range(32)}
    slow = Reply(body=bytes(MIB), rate_bps=1000.0)
    scripts["5"] = [slow, Reply(body=bytes(MIB), rate_bps=50e6)]
    outcome = drive(tmp_path, scripts, limit_rate=2 * MIB, padding=1.0, concurrency=8)
    assert outcome.flagged == [5]
    assert [a.outcome for a in outcome.records["5"].attempts] == ["straggler", "done"]
    assert set(outcome.statuses) == {"done"}


def test_a_server_that_falls_silent_is_still_noticed_under_a_limit(tmp_path):
    """Once we wait for it and not it for us."""
    stalled = Reply(body=bytes(MIB), rate_bps=50e6, cut=100_000, then="stall")
    scripts = {"a": [stalled, Reply(body=bytes(MIB), rate_bps=50e6)]}
    outcome = drive(tmp_path, scripts, limit_rate=MIB, stall_timeout=2.0, segments=1)
    assert [a.outcome for a in outcome.records["a"].attempts] == ["stalled", "done"]
    assert outcome.statuses == ["done"]


def test_a_timetable_limits_at_its_times_only():
    """Outside of its spans as much is read as there is; readers that wait learn of a change at once."""
    start = time.localtime(1_800_000_000)  # where the virtual clock begins
    minute = start.tm_hour * 60 + start.tm_min
    spans = [f"{m // 60:02}:{m % 60:02}" for m in ((minute + 1) % 1440, (minute + 3) % 1440)]
    limits = RateLimits(by_time=f"{spans[0]}-{spans[1]}=100K")
    read = Counter[int]()

    async def main():
        clock = RunClock(VirtualClock())
        limiter = make_limiter(limits, clock)
        assert limiter is not None

        async def bring(most):
            await clock.sleep(0.02)
            read[int((clock.now() + start.tm_sec) // 60)] += most
            return bytes(most)

        turn = limiter.reader(bring, "h", Unheld())
        while clock.now() + start.tm_sec < 240:
            await turn()
        assert limiter.measure() == {}

    run_virtual(main())
    for limited in (1, 2):
        assert read[limited] == pytest.approx(60 * 100 * KIB, rel=0.06)
    for free in (0, 3):
        assert read[free] > 10 * read[1] or start.tm_sec > 50


class Unheld:
    def hold(self, now_s):
        """Nobody looks at it."""

    def let_go(self, now_s):
        """Nobody looks at it."""
