"""What cancelled attempts were worth, and whose bytes stand in the file, where streams overlap too."""

import random

import pytest

from cfetch.show.counts import retries
from cfetch.show.makespan import list_jobs
from cfetch.show.saved_time import add_verdicts, list_verdicts
from cfetch.show.wasted_bytes import wasted_by_attempt, wasted_bytes
from tests.show.records import attempt, record


def helper(*args, **more):
    return attempt(*args, helper=True, **more)


def test_a_second_stream_that_wins_leaves_the_loser_what_it_alone_had_brought():
    """The old stream had 58 of 100 when it was left; the new one began at 40: 18 bytes came twice."""
    old = attempt(1, 0.0, 10.0, size=58, outcome="lost")
    new = helper(2, 5.0, 14.0, from_byte=40, size=60)
    assert wasted_by_attempt(record(0, 100, old, new)) == [18, 0]


@pytest.mark.parametrize("loser_ends_s", [9.9, 10.0, 10.1])
def test_a_second_stream_that_loses_has_brought_nothing(loser_ends_s):
    """Whichever of the two is recorded to end first."""
    new = helper(2, 5.0, loser_ends_s, from_byte=40, size=30, outcome="lost")
    assert wasted_by_attempt(record(0, 100, new, attempt(1, 0.0, 10.0, size=100))) == [30, 0]


def test_ranges_side_by_side_waste_nothing():
    """A split file: the first stream ends where the second began, whichever ends first."""
    first = attempt(1, 0.0, 10.0, size=60, to_byte=60)
    second = helper(2, 4.0, 9.0, from_byte=60, size=40)
    assert wasted_by_attempt(record(0, 100, second, first)) == [0, 0]


def test_bytes_beyond_the_range_are_in_vain():
    """The first stream was told too late to stop; the second brings those bytes."""
    first = attempt(1, 0.0, 10.0, size=65, to_byte=60)
    second = helper(2, 4.0, 9.0, from_byte=60, size=40)
    assert wasted_by_attempt(record(0, 100, second, first)) == [0, 5]


def test_a_loser_takes_nothing_from_those_after_it_and_leaves_nothing_to_those_before():
    """A first try whose bytes were discarded comes after the loser that began anew."""
    discarded = attempt(1, 0.0, 1.0, size=50, outcome="error")
    old = attempt(2, 2.0, 10.0, size=58, outcome="lost")
    new = helper(3, 5.0, 14.0, from_byte=40, size=60)
    assert wasted_by_attempt(record(0, 100, discarded, old, new)) == [50, 18, 0]


def test_a_kept_part_with_gaps_keeps_all_its_ranges():
    """Of an interrupted split file 30 bytes stand, the last of them beyond a gap."""
    first = attempt(1, 0.0, 10.0, size=20, to_byte=60, outcome="error")
    second = helper(2, 4.0, 10.0, from_byte=60, size=10, outcome="error")
    assert wasted_bytes(record(0, 100, first, second, status="cancelled", bytes_=30)) == 0
    assert wasted_bytes(record(0, 100, first, second, status="failed", bytes_=0)) == 30


@pytest.mark.parametrize("seed", range(200))
def test_waste_is_what_came_less_what_stands(seed):
    """Whatever overlaps whatever: of a whole file the sum is exact, and no attempt has less than nothing."""
    dice = random.Random(seed)
    attempts = []
    for n in range(dice.randint(1, 8)):
        start, size = dice.randint(0, 99), dice.randint(0, 60)
        begin_s = dice.uniform(0, 10)
        attempts.append(
            attempt(
                n + 1,
                begin_s,
                begin_s + dice.uniform(0, 10),
                from_byte=start,
                size=min(size, 100 - start),
                outcome=dice.choice(["done", "lost", "straggler", "error"]),
                helper=dice.random() < 0.5,
            )
        )
    covered = {b for piece in attempts for b in range(piece.from_byte, piece.from_byte + piece.bytes)}
    whole = attempts + [attempt(99, 30.0, 40.0, from_byte=0, size=100)] * (seed % 2)
    standing = 100 if seed % 2 else len(covered)
    file = record(0, 100, *whole)
    wasted = wasted_by_attempt(file)
    assert min(wasted) >= 0
    assert sum(wasted) == sum(a.bytes for a in whole) - standing


def test_second_streams_are_no_retries():
    """However they end; an own attempt that failed is one."""
    ends = [helper(2, outcome=outcome) for outcome in ("error", "lost", "done", "stalled")]
    assert retries(record(0, 100, attempt(1), *ends)) == 0
    assert retries(record(0, 100, attempt(1, outcome="error"), *ends, attempt(3))) == 1
    assert retries(record(0, 100, attempt(1, outcome="done"), attempt(2))) == 0


def straggler(**more):
    """Cancelled at 10 s after 100 of 1000 bytes, at 10 bytes a second."""
    return attempt(1, 0.0, 10.0, size=100, outcome="straggler", samples=[(5.0, 50), (10.0, 100)], **more)


def test_the_policys_own_projection_counts():
    """It was made when the decision was, from more than the metrics keep."""
    file = record(0, 1000, straggler(projected_s=50.0), attempt(2, 10.5, 12.0, from_byte=100, size=900))
    (verdict,) = list_verdicts(file)
    assert (verdict.projected_s, verdict.saved_s, verdict.wasted_bytes) == (50.0, 38.0, 0)


@pytest.mark.parametrize(
    "told",
    [
        {"size": 50, "samples": [(4.0, 40), (5.0, 50)]},  # it brought bytes until 5 s, and none until 10 s
        {"size": 0, "first_byte_s": None, "samples": []},  # no byte at all
        {"size": 50, "samples": [(3.0, 40)]},  # the last 10 bytes came soon after that sample
        {"size": 100, "samples": [(2.0, 10), (5.0, 30), (8.0, 70)]},  # its rate grows, as in slow start
        {"size": 100, "first_byte_s": 4.0, "samples": [(7.0, 50)]},  # a wait of 4 s, and bytes for only 6 s
    ],
)
@pytest.mark.parametrize("projected_s", [None, 2945.0])
def test_an_attempt_whose_rate_foretells_nothing_claims_no_saved_time(told, projected_s):
    """Nobody knows when it would have ended, even if the policy has guessed."""
    cancelled = attempt(1, 0.0, 10.0, outcome="straggler", projected_s=projected_s, **told)
    file = add_verdicts(record(0, 1000, cancelled, attempt(2, 10.0, 12.0, size=1000)))
    assert (file.attempts[0].projected_s, file.attempts[0].saved_s) == (None, None)
    assert [(job.took_s, job.alone_s) for job in list_jobs(file)] == [(12.0, 12.0)]


@pytest.mark.parametrize(
    ("end_s", "connect_s", "alone_s"),
    [
        (0.6, 0.6, 1.4),  # the kernel asks again at 1 s, and from there the successor took 0.4 s
        (1.5, 1.5, 3.4),
        (4.0, 3.5, 7.9),  # it had waited for 0.5 s before
    ],
)
def test_an_unanswered_handshake_claims_the_time_until_the_kernel_asks_again(end_s, connect_s, alone_s):
    """At most: what its successor did after its own handshake, the attempt would have done too."""
    silent = {"size": 0, "first_byte_s": None, "http_status": None, "connect_s": connect_s}
    cancelled = attempt(1, 0.0, end_s, outcome="straggler", unanswered=True, **silent)
    done = attempt(2, end_s, end_s + 0.5, size=1000, first_byte_s=end_s + 0.2, connect_s=0.1)
    (verdict,) = list_verdicts(record(0, 1000, cancelled, done))
    assert verdict.projected_s == pytest.approx(alone_s)
    assert verdict.saved_s == pytest.approx(alone_s - end_s - 0.5)
    again = attempt(
        2, end_s, end_s + 0.6, outcome="straggler", unanswered=True, **silent | {"connect_s": 0.6}
    )
    last = attempt(3, end_s + 0.6, end_s + 1.1, size=1000, first_byte_s=end_s + 0.8, connect_s=0.1)
    both = list_verdicts(record(0, 1000, cancelled, again, last))
    assert [verdict.projected_s for verdict in both] == pytest.approx([end_s + 1.4, alone_s])


def test_verdicts_stand_in_the_record_and_nowhere_else():
    """Attempts that were not cancelled bear none, and a record without cancelled ones is left as it is."""
    file = add_verdicts(record(0, 1000, straggler(), attempt(2, 10.5, 12.0, size=900, from_byte=100)))
    assert [(a.saved_s, a.wasted_bytes) for a in file.attempts] == [(88.0, 0), (None, None)]
    plain = record(0, 100, attempt(1, outcome="stalled"), attempt(2))
    assert add_verdicts(plain) is plain


def test_a_second_stream_that_lost_saved_nothing():
    """And cost what it had brought; the old one that lost is judged as a cancelled one."""
    lost = helper(2, 5.0, 10.0, from_byte=40, size=30, outcome="lost")
    (verdict,) = list_verdicts(record(0, 100, lost, attempt(1, 0.0, 10.0, size=100)))
    assert (verdict.saved_s, verdict.wasted_bytes) == (0.0, 30)
    old = attempt(1, 0.0, 10.0, size=50, outcome="lost", samples=[(5.0, 45), (10.0, 50)])
    (verdict,) = list_verdicts(record(0, 100, old, helper(2, 5.0, 11.0, from_byte=45, size=55)))
    assert (verdict.projected_s, verdict.saved_s, verdict.wasted_bytes) == (60.0, 49.0, 5)


def test_a_range_is_judged_by_its_own_end():
    """The first range was still under way long after the slow one was mended: that is not its matter."""
    first = attempt(1, 0.0, 100.0, size=500, to_byte=500)
    slow = helper(
        2, 0.0, 10.0, from_byte=500, size=100, outcome="straggler", samples=[(5.0, 50), (10.0, 100)]
    )
    mended = helper(3, 10.0, 12.0, from_byte=600, size=400)
    (verdict,) = list_verdicts(record(0, 1000, slow, mended, first))
    assert (verdict.projected_s, verdict.saved_s) == (50.0, 38.0)


@pytest.mark.parametrize(("first_byte_s", "projected_s", "saved_s"), [(12.0, 10.0, -2.0), (11.9, None, None)])
def test_a_file_that_is_late_itself_was_asked_for_in_vain(first_byte_s, projected_s, saved_s):
    """Silent for 2 s; the next one waited as long: left alone it would have come 2 s sooner."""
    silent = attempt(1, 8.0, 10.0, size=0, outcome="straggler", first_byte_s=None)
    after = attempt(2, 10.0, 12.0, size=1000, first_byte_s=first_byte_s)
    file = add_verdicts(record(0, 1000, silent, after))
    assert (file.attempts[0].projected_s, file.attempts[0].saved_s) == (projected_s, saved_s)
