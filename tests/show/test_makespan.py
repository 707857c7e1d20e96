"""How much shorter a run has become by mitigation: replays that were computed by hand."""

import random

import pytest

import cfetch.show.makespan as module
from cfetch.show.digest import make_digest
from cfetch.show.makespan import Makespan, ReplayedFile, count_peak, list_jobs, schedule_jobs
from tests.show.records import attempt, record


def replay_of(*records):
    replay = Makespan()
    for entry in records:
        replay.add(entry)
    return replay


def saved_s(*records):
    return round(replay_of(*records).saved_s(), 6)


def whole(id_, start_s, end_s):
    return record(id_, 100, attempt(1, start_s, end_s))


def rescued(id_, start_s, cancelled_s, end_s, projected_s):
    """An entry whose first attempt was cancelled; the second one brought it."""
    slow = attempt(1, start_s, cancelled_s, size=10, outcome="straggler", projected_s=projected_s)
    return record(id_, 100, slow, attempt(2, cancelled_s, end_s, from_byte=10, size=90))


def test_a_job_gets_the_place_that_is_free_first():
    """3, 3 and 2 start at once; 4 starts at 2, 1 at 3 and 1 at 3: the end is at 6."""
    assert schedule_jobs([3.0, 3.0, 2.0, 4.0, 1.0, 1.0], 3) == 6.0
    assert schedule_jobs([], 3) == 0.0


def test_the_peak_is_counted_between_starts_and_ends():
    """One that starts as another ends takes its slot."""
    jobs = [
        ReplayedFile(0.0, 2.0, 2.0),
        ReplayedFile(1.0, 2.0, 2.0),
        ReplayedFile(2.0, 5.0, 5.0),
        ReplayedFile(2.5, 0.5, 0.5),
        ReplayedFile(8.0, 1.0, 1.0),
    ]
    assert count_peak(jobs) == 3
    assert count_peak([]) == 0


def test_a_run_without_stragglers_saves_nothing():
    """Whatever its files took."""
    assert saved_s(*(whole(id_, id_ // 2, id_ // 2 + 1) for id_ in range(20))) == 0.0


def test_the_last_file_is_saved_whole():
    """On 2 slots until 3 s; left alone the slow file had taken until 60 s: 57 s."""
    assert saved_s(whole(0, 0, 1), whole(1, 1, 2), rescued(2, 0, 2, 3, projected_s=60.0)) == 57.0


def test_slow_files_side_by_side_do_not_add_up():
    """Four slots, four slow files at once: each is 58 s earlier, and so is the run, not by 232 s."""
    assert saved_s(*(rescued(id_, 0, 1, 2, projected_s=60.0) for id_ in range(4))) == 58.0


def faded(id_, start_s):
    """A file that stood still for 3 s of its 5, and came to its end by itself."""
    samples = [(start_s + 1.0, 50), (start_s + 4.0, 51)]
    return record(id_, 100, attempt(1, start_s, start_s + 5.0, samples=samples))


def test_a_run_whose_slow_attempts_come_back_claims_no_more_than_was_seen():
    """Left alone until 60 s by its rate; two others came back after fades, so 3 s foretell 3 s more."""
    slow = rescued(9, 0, 2, 3, projected_s=60.0)
    assert saved_s(slow, faded(0, 0.0)) == 55.0
    assert saved_s(slow, faded(0, 0.0), faded(1, 0.0)) == 1.0
    digest = make_digest([faded(0, 0.0), faded(1, 0.0)], slots=4)
    replay = replay_of(slow)
    replay.include(digest)
    assert replay.saved_s() == pytest.approx(1.0)


def test_a_run_claims_no_more_for_a_file_than_its_longest_fade():
    """40 s of a file would foretell 40 s more, but others came back after 3 s at most."""
    slow = rescued(9, 0, 39, 40, projected_s=400.0)
    assert saved_s(slow, faded(0, 0.0), faded(1, 0.0)) == 3.0


def test_a_slow_file_among_many_costs_its_place_only():
    """Two slots, 10 s of work: 1 slow file (0 to 2 s) and 18 files of 1 s, which end at 10 s.

    Left alone until 8 s, it leaves the other slot 8 files until then; the 10 others take both slots until
    13 s. So 3 s were saved, although the file itself was 6 s earlier.
    """
    first = [whole(id_, float(id_), float(id_ + 1)) for id_ in range(2)]
    rest = [whole(2 + n, 2.0 + n // 2, 3.0 + n // 2) for n in range(16)]
    assert saved_s(rescued(99, 0, 1, 2, projected_s=8.0), *first, *rest) == 3.0


def test_cancelling_in_vain_costs():
    """The attempt would have ended at 5 s, its replacement did at 9 s."""
    assert saved_s(whole(0, 0, 1), rescued(1, 0, 4, 9, projected_s=5.0)) == -4.0


def test_the_first_cancelled_attempt_counts():
    """What followed would not have been there, however often it was cancelled."""
    slow = attempt(1, 0.0, 1.0, size=10, outcome="straggler", projected_s=50.0)
    also = attempt(2, 1.0, 2.0, from_byte=10, size=10, outcome="straggler", projected_s=99.0)
    entry = record(0, 100, slow, also, attempt(3, 2.0, 3.0, from_byte=20, size=80))
    assert list_jobs(entry) == [ReplayedFile(0.0, 3.0, 50.0)]


def test_waits_hold_no_place():
    """A try that failed and a pause of 10 s before the next: two seconds of a slot."""
    failed = attempt(1, 0.0, 1.0, size=0, outcome="error")
    assert list_jobs(record(0, 100, failed, attempt(2, 11.0, 12.0))) == [ReplayedFile(0.0, 2.0, 2.0)]


@pytest.mark.parametrize("status", ["failed", "cancelled"])
def test_an_entry_that_did_not_come_counts_as_it_was(status):
    """Nobody knows when it would have come."""
    slow = attempt(1, 0.0, 1.0, size=10, outcome="straggler", projected_s=50.0)
    assert list_jobs(record(0, 100, slow, attempt(2, 1.0, 3.0, size=0), status=status)) == [
        ReplayedFile(0.0, 3.0, 3.0)
    ]
    assert list_jobs(record(0, 100, status="skipped")) == []


def test_an_unknown_projection_counts_as_it_was():
    """An older version's record of a silent attempt."""
    silent = attempt(1, 0.0, 1.0, size=0, outcome="straggler", first_byte_s=None)
    assert list_jobs(record(0, 100, silent, attempt(2, 1.0, 2.0))) == [ReplayedFile(0.0, 2.0, 2.0)]


def test_a_projection_that_an_older_version_did_not_record_follows_from_the_rate():
    """10 bytes a second, 900 bytes left at 10 s: until 100 s."""
    slow = attempt(1, 0.0, 10.0, size=100, outcome="straggler", samples=[(5.0, 50), (10.0, 100)])
    assert list_jobs(record(0, 1000, slow, attempt(2, 10.0, 12.0, from_byte=100, size=900))) == [
        ReplayedFile(0.0, 12.0, 100.0)
    ]


def helped(own_bytes, **about):
    """900 bytes; the entry's own attempt brought ``own_bytes`` until 10 s, a helper the rest from 5 s on."""
    own = attempt(1, 0.0, 10.0, size=own_bytes, to_byte=own_bytes, samples=[(5.0, own_bytes // 2)])
    other = attempt(2, 5.0, 10.0, from_byte=own_bytes, size=900 - own_bytes, helper=True, **about)
    return record(0, 900, own, other)


def test_a_slow_file_that_others_helped_was_rescued():
    """At 10 bytes a second the other 800 bytes had taken 80 s more, and no helper's slot."""
    assert list_jobs(helped(100)) == [ReplayedFile(0.0, 10.0, 90.0), ReplayedFile(5.0, 5.0, 0.0)]
    assert saved_s(helped(100)) == 80.0


@pytest.mark.parametrize(("full_link", "alone_s"), [(False, 50.0), (True, 2.0)])
def test_a_slow_rate_on_a_full_link_foretells_as_much_again(full_link, alone_s):
    """It was cancelled after a second: others end, and leave it their share of the link."""
    slow = attempt(1, 0.0, 1.0, size=10, outcome="straggler", projected_s=50.0, full_link=full_link)
    jobs = list_jobs(record(0, 100, slow, attempt(2, 1.0, 1.5, from_byte=10, size=90)))
    assert jobs == [ReplayedFile(0.0, 1.5, alone_s)]


def test_a_slow_file_that_shared_a_full_link_with_its_helpers_was_not_rescued():
    """Alone it would have had their share of the link."""
    assert saved_s(helped(100, full_link=True)) == 0.0


def test_a_file_that_was_fast_for_a_while_was_helped_and_not_rescued():
    """Nine tenths of its bytes came in the first second: it fades, or the helpers take its link."""
    own = attempt(1, 0.0, 10.0, size=500, to_byte=500, samples=[(1.0, 450), (5.0, 460), (9.0, 499)])
    other = attempt(2, 5.0, 10.0, from_byte=500, size=400, helper=True)
    assert {job.took_s == job.alone_s for job in list_jobs(record(0, 900, own, other))} == {True}


def test_a_good_file_that_others_helped_was_not():
    """What splitting gains has nothing to do with stragglers."""
    assert list_jobs(helped(600)) == [ReplayedFile(0.0, 10.0, 10.0), ReplayedFile(5.0, 5.0, 5.0)]


def test_a_cancelled_attempt_would_have_brought_what_helpers_took():
    """By 30 s its range; the 500 bytes behind it at 10 bytes a second by 80 s."""
    slow = attempt(
        1, 0.0, 10.0, size=100, to_byte=500, outcome="straggler", projected_s=30.0, samples=[(5.0, 50)]
    )
    helper = attempt(2, 5.0, 9.0, from_byte=500, size=500, helper=True)
    entry = record(0, 1000, slow, helper, attempt(3, 10.0, 11.0, from_byte=100, size=400, to_byte=500))
    assert list_jobs(entry) == [ReplayedFile(0.0, 11.0, 80.0), ReplayedFile(5.0, 4.0, 0.0)]


@pytest.mark.parametrize(("projected_s", "alone_s"), [(60.0, 60.0), (12.0, 14.0)])
def test_helpers_as_fast_as_an_attempt_that_was_cancelled_bring_their_ranges_without_it(projected_s, alone_s):
    """The server limits each connection: 45 bytes a second would bring all in 200 s, but nobody waits so."""
    limited = {"from_byte": 1000, "size": 400, "helper": True, "samples": [(9.0, 1200)]}
    about = {"size": 450, "to_byte": 1000, "samples": [(5.0, 225)], "projected_s": projected_s}
    slow = attempt(1, 0.0, 10.0, outcome="straggler", **about)
    last = attempt(4, 10.0, 11.0, from_byte=450, size=550, to_byte=1000)
    helpers = [attempt(2, 5.0, 14.0, **limited), attempt(3, 5.0, 14.0, **limited | {"from_byte": 1400})]
    jobs = list_jobs(record(0, 1800, slow, *helpers, last))
    assert jobs == [ReplayedFile(0.0, 14.0, alone_s)] + 2 * [ReplayedFile(5.0, 9.0, 9.0)]


def test_a_slow_range_of_a_helper_does_not_count_for_the_whole_file():
    """The file's own attempt was fast to the end of its range; alone it would have brought all the rest."""
    own = attempt(1, 0.0, 10.0, size=900, to_byte=900)
    helper = attempt(2, 1.0, 10.0, from_byte=900, size=90, outcome="error", helper=True)
    slow = attempt(3, 10.0, 20.0, from_byte=990, size=5, to_byte=1000, outcome="straggler", projected_s=30.0)
    entry = record(0, 2000, own, helper, slow, attempt(4, 20.0, 21.0, from_byte=995, size=1005))
    assert {job.took_s == job.alone_s for job in list_jobs(entry)} == {True}


def test_bounded_memory_gives_the_same_answer(monkeypatch):
    """Entries of long ago are merged; the answer hardly changes."""
    dice = random.Random(7)
    free_s = [0.0] * 8
    records = []
    for id_ in range(3000):
        slot = free_s.index(min(free_s))
        start_s = free_s[slot]
        free_s[slot] += dice.uniform(0.5, 1.5)
        if id_ % 40 == 0:
            free_s[slot] += 1.0
            records.append(rescued(id_, start_s, start_s + 1, free_s[slot], start_s + 40))
        else:
            records.append(whole(id_, start_s, free_s[slot]))
    exact_s = saved_s(*records)
    monkeypatch.setattr(module, "MOST_JOBS", 256)
    replay = replay_of(*records)
    assert len(replay._jobs) + len(replay._merged) <= 3 * 256
    assert replay.saved_s() == pytest.approx(exact_s, rel=0.05)
