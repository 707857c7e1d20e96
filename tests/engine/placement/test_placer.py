"""The placer's rules beside the table: probes, stealing, homes, refusals, deadlines, evidence, look-ahead."""

from math import inf, nextafter

import pytest

from cfetch.base.breaker import BreakerState
from cfetch.engine.placement.books import Placed
from cfetch.engine.placement.chooser import Earlier, Mode, explain
from cfetch.engine.placement.placer import EVIDENCE, RETRY_S, PlacementView, Placer, Unplaceable
from tests.engine.placement.story import Story, volume_of

LATER_S = 0.5  # the first pause is over


def broken(mode=Mode.FINISH, *loads, deadline_s=inf):
    """A story in which volume 0 failed at 0.0, and its batch was cancelled."""
    story = Story(mode, *(loads or (0, 0)), deadline_s=deadline_s)
    batch = story.start(1, 0)
    story.fail(batch)
    story.placer.cancel(batch)
    return story


def position(story, p=0):
    return story.placer.view(p).breaker


# probes


def test_a_probe_is_the_smallest_waiting_batch_and_only_one():
    """Before the pause is over none, and after it the rest go to the healthy ones."""
    story = broken()
    batches = [story.tell(size, LATER_S) for size in (30, 10, 10, 20)]
    early = story.placer.assign(nextafter(LATER_S, 0.0))
    assert [placed.volume for placed in early] == [1, 1, 1, 1]
    story = broken()
    batches = [story.tell(size, LATER_S) for size in (30, 10, 10, 20)]
    placed = story.placer.assign(LATER_S)
    assert (placed[0].batch, placed[0].volume, placed[0].probe) == (batches[1], 0, True)
    assert [(one.batch, one.volume, one.probe) for one in placed[1:]] == [
        (batches[0], 1, False),
        (batches[2], 1, False),
        (batches[3], 1, False),
    ]
    assert story.placer.assign(99.0) == []
    assert position(story) is BreakerState.OPEN
    assert story.begin(0, LATER_S).probe
    assert position(story) is BreakerState.HALF_OPEN
    assert story.placer.begin(0, LATER_S) is None
    assert story.produce(5, now_s=99.0) == [1]


def test_a_probe_that_is_written_closes_the_breaker_and_forgets_the_evidence():
    """From then on it is a candidate like the others."""
    story = broken()
    for _ in range(EVIDENCE - 1):
        assert not story.placer.note_straggler(0, 0.0)
    (probe,) = story.produce(10, now_s=LATER_S)
    story.placer.begin(0, LATER_S)
    assert story.placer.finish(1, 1.0, of=0)
    assert (probe, position(story)) == (0, BreakerState.CLOSED)
    assert not story.placer.note_straggler(0, 1.0)
    assert story.produce(10, now_s=1.0) == [0]


def test_a_probe_that_fails_doubles_the_pause():
    """0.5 s, then 1 s; its batch is placed elsewhere."""
    story = broken()
    assert story.produce(10, now_s=LATER_S) == [0]
    story.placer.begin(0, LATER_S)
    assert story.fail(1, 1.0) == []
    assert story.placer.assign(1.0)[0].volume == 1
    assert story.produce(1, now_s=nextafter(2.0, 0.0)) == [1]
    story.tell(1, 2.0)
    assert story.placer.assign(2.0)[0].probe


def test_a_probe_that_fails_before_it_was_started_doubles_the_pause_too():
    """It could not even be prepared."""
    story = broken()
    assert story.produce(10, now_s=LATER_S) == [0]
    story.fail(1, LATER_S)
    assert story.produce(1, now_s=nextafter(LATER_S + 1.0, 0.0)) == [1]
    story.tell(1, LATER_S + 1.0)
    assert story.placer.assign(LATER_S + 1.0)[0].probe


@pytest.mark.parametrize("begun", [False, True])
def test_a_probe_that_is_cancelled_lets_another_follow(begun):
    """It told nothing."""
    story = broken()
    assert story.produce(10, now_s=LATER_S) == [0]
    if begun:
        story.placer.begin(0, LATER_S)
    story.placer.cancel(1)
    story.tell(20, LATER_S)
    assert story.placer.assign(LATER_S)[0].probe


def test_a_probe_without_room_lets_another_follow():
    """No failure; but not this batch again."""
    story = broken()
    first = story.tell(10, LATER_S)
    story.placer.assign(LATER_S)
    story.placer.begin(0, LATER_S)
    story.placer.fail(first, LATER_S, of=0, reason="full", no_room=True)
    second = story.tell(20, LATER_S)
    placed = story.placer.assign(LATER_S)
    assert [(one.batch, one.volume, one.probe) for one in placed] == [(second, 0, True), (first, 1, False)]


def test_a_probe_comes_from_another_queue_when_nothing_waits():
    """The smallest unstarted one; not what is at home there, nor what has no room here."""
    story = broken()
    story.produce(40, 30, 20, 10, now_s=0.0)
    small = story.tell(5, 0.0, home=1)
    story.placer.assign(0.0)
    assert story.begin(1, 0.0).batch == 1
    assert story.placer.next_s(0.0) == LATER_S
    (probe,) = story.placer.assign(LATER_S)
    assert (probe.batch, probe.volume, probe.stolen_from, probe.probe) == (4, 0, 1, True)
    assert volume_of(story.placer, small) == 1
    assert story.loads() == [10, 95]
    story.placer.cancel(4)
    story.placer.set_room(0, 25)
    assert story.placer.assign(LATER_S)[0].batch == 3


def test_round_robin_takes_no_probe_from_another_queue():
    """Nothing moves from queue to queue in it."""
    story = broken(Mode.ROUND_ROBIN)
    assert story.produce(40, 30, now_s=0.0) == [1, 1]
    assert story.placer.assign(LATER_S) == []
    assert story.placer.next_s(LATER_S) == inf


def test_a_probe_is_not_stolen_back():
    """However long it is queued."""
    story = broken()
    story.placer.note_speed(0, 1, 1.0)
    story.placer.note_speed(1, 1000, 1.0)
    assert story.produce(10, now_s=LATER_S) == [0]
    assert story.placer.begin(1, 99.0) is None


def test_late_news_of_older_batches_changes_nothing():
    """Neither a success nor a failure of what was begun before; the pause stays as it is."""
    story = Story(Mode.FINISH, 0, 0)
    first, second, third = (story.start(1, 0) for _ in range(3))
    story.fail(first)
    assert story.placer.finish(second, 0.1, of=0)
    assert position(story) is BreakerState.OPEN
    story.placer.assign(0.1)
    (probe,) = story.produce(1, now_s=LATER_S)
    assert probe == 0
    story.placer.begin(0, LATER_S)
    assert story.fail(third, LATER_S) == []
    assert position(story) is BreakerState.HALF_OPEN
    assert story.placer.finish(3, 1.0, of=0)
    assert position(story) is BreakerState.CLOSED


def test_a_partition_that_refuses_its_probe_waits_twice_as_long():
    """The caller sees that it still hangs, so its probe is taken back unstarted."""
    story = Story(Mode.FINISH, 0)
    batch = story.start(1, 0)
    assert story.placer.volume_failed(0, 0.0, "hangs") == [batch]
    assert story.placer.volume_failed(0, 0.25, "still hangs") == []
    assert story.placer.next_s(0.25) == LATER_S
    assert story.placer.assign(LATER_S)[0].probe
    assert story.placer.volume_failed(0, LATER_S, "still hangs") == []
    assert story.loads() == [0]
    assert story.placer.next_s(LATER_S) == LATER_S + 1.0


# stealing


def test_a_free_partition_steals_the_last_of_who_is_done_last():
    """The lowest index on ties; until there is nothing more."""
    story = Story(Mode.FINISH, 100, 150, 1000)
    assert story.produce(40, 30, 20, 5) == [0, 0, 1, 0]
    assert story.placer.finish(2, 0.0, of=2)
    stolen = [story.begin(2) for _ in range(4)]
    assert [(one.batch, one.stolen_from) for one in stolen] == [(6, 0), (4, 0), (5, 1), (3, 0)]
    assert stolen[0] == Placed(6, 2, "done sooner here", None, 0)
    assert story.loads() == [100, 150, 95]
    assert story.placer.begin(2, 0.0) is None
    assert story.placer.begin(0, 0.0) is None


@pytest.mark.parametrize(("other", "sooner"), [(100, False), (99, True)])
def test_nothing_is_stolen_to_be_done_no_sooner(other, sooner):
    """Exactly as late is not sooner."""
    story = Story(Mode.FINISH, 100, other)
    more = story.start(2, 1)
    assert story.produce(20) == [0]
    assert story.placer.finish(more, 0.0, of=1)
    assert (story.placer.begin(1, 0.0) is not None) == sooner


@pytest.mark.parametrize(("speed_bps", "sooner"), [(10, False), (11, True)])
def test_a_faster_partition_steals_more(speed_bps, sooner):
    """Seconds count, not bytes."""
    story = Story(Mode.FINISH, 100, 100)
    assert story.produce(20) == [0]
    story.placer.note_speed(0, 10, 1.0)
    story.placer.note_speed(1, speed_bps, 1.0)
    assert (story.placer.begin(1, 0.0) is not None) == sooner


@pytest.mark.parametrize(("other", "sooner"), [(50, False), (49, True)])
def test_what_is_queued_behind_a_batch_does_not_make_it_later(other, sooner):
    """The last has no room here; the one before it does not wait for the last."""
    story = Story(Mode.FINISH, 50, other)
    more = story.start(5, 1)
    story.placer.set_room(1, 70)
    assert story.produce(10, 1000) == [0, 0]
    assert story.placer.finish(more, 0.0, of=1)
    stolen = story.placer.begin(1, 0.0)
    assert (stolen is not None and stolen.batch == 3) == sooner


def test_what_is_at_home_was_refused_or_has_no_room_is_not_stolen():
    """The one before it in the queue is."""
    story = Story(Mode.FINISH, 100, 200)
    refused = story.start(30, 1)
    free, home, large = story.tell(10), story.tell(20, home=0), story.tell(51)
    story.placer.assign(0.0)
    story.placer.fail(refused, 0.0, of=1, reason="quota", no_room=True)
    story.placer.assign(0.0)
    assert [volume_of(story.placer, batch) for batch in (free, home, large, refused)] == [0] * 4
    assert story.placer.finish(1, 0.0, of=1)
    story.placer.set_room(1, 50)
    assert story.begin(1, 0.0).batch == free
    assert story.placer.begin(1, 0.0) is None


@pytest.mark.parametrize(
    ("mode", "steals"), [(Mode.FINISH, True), (Mode.COUNT, True), (Mode.ROUND_ROBIN, False)]
)
def test_in_round_robin_nothing_is_stolen(mode, steals):
    """It is what the others are compared with."""
    story = Story(mode, 0, 0)
    story.produce(10, 10, 10)
    for p in (0, 1):
        story.placer.begin(p, 0.0)
    assert story.placer.finish(1, 1.0, of=1)
    assert (story.placer.begin(1, 1.0) is not None) == steals


# homes, refusals, room


def test_a_batch_goes_home_if_it_can():
    """Though others have less to do; elsewhere if home is out of use, full or has refused it."""
    story = Story(Mode.FINISH, 0, 0)
    story.start(100, 1)
    story.tell(10, home=1)
    placed = story.placer.assign(0.0)
    assert placed == [Placed(1, 1, "part of it is there", None)]
    assert story.placer.begin(0, 0.0) is None
    story.placer.fail(1, 0.0, of=1, reason="full", no_room=True)
    assert story.placer.assign(0.0)[0].volume == 0
    story.placer.set_room(1, 105)
    story.tell(10, home=1)
    assert story.placer.assign(0.0)[0].volume == 0
    story.placer.set_room(1, None)
    story.placer.volume_failed(1, 0.0, "gone")
    story.tell(10, home=1)
    assert [one.volume for one in story.placer.assign(0.0)] == [0, 0]


def test_no_room_is_no_failure():
    """Others still go there; this one does not, until it has been without any place for a while."""
    story = Story(Mode.FINISH, 0, 0)
    batch = story.start(10, 0)
    assert story.placer.fail(batch, 0.0, of=0, reason="quota", no_room=True) == []
    assert position(story) is BreakerState.CLOSED
    assert story.loads() == [0, 0]
    assert story.placer.assign(0.0)[0].volume == 1
    assert story.produce(5) == [0]
    story.placer.begin(1, 0.0)
    story.placer.fail(batch, 1.0, of=1, reason="quota", no_room=True)
    assert story.placer.assign(2.0) == []
    assert story.placer.next_s(2.0) == 2.0 + RETRY_S
    assert story.placer.assign(3.0) == []
    assert story.placer.next_s(3.0) == 2.0 + RETRY_S
    assert story.placer.assign(nextafter(2.0 + RETRY_S, 0.0)) == []
    assert [one.batch for one in story.placer.assign(2.0 + RETRY_S)] == [batch]


def test_a_refusal_is_remembered_from_the_last_place_on():
    """A probe in between was a place."""
    story = broken(Mode.FINISH, 0, 0)
    batch = story.start(10, 1)
    story.placer.fail(batch, 0.0, of=1, reason="quota", no_room=True)
    assert story.placer.assign(0.0) == []
    assert story.placer.assign(1.0)[0].probe
    story.fail(batch, 1.0)
    story.placer.set_room(0, 0)
    assert story.placer.assign(1.0) == []
    assert story.placer.assign(RETRY_S) == []
    assert [one.volume for one in story.placer.assign(1.0 + RETRY_S)] == [1]


def test_who_was_refused_for_good_is_not_tried_there_again():
    """However long it waits; the other volume may come back until the deadline."""
    story = Story(Mode.FINISH, 0, 0, deadline_s=60.0)
    batch = story.start(10, 0)
    story.placer.volume_failed(1, 0.0, "gone")
    story.placer.fail(batch, 0.0, of=0, reason="full", no_room=True, for_good=True)
    assert [one.volume for one in story.placer.assign(RETRY_S)] == [1]
    story.fail(batch, RETRY_S)
    assert story.placer.assign(RETRY_S) == []
    assert story.placer.next_s(RETRY_S) == RETRY_S + 2 * LATER_S
    assert [one.volume for one in story.placer.assign(4 * RETRY_S)] == [1]


def test_who_is_refused_for_good_everywhere_is_given_up_at_once():
    """There is nothing to wait for, and the words say what was the matter."""
    story = Story(Mode.FINISH, 0, deadline_s=60.0)
    batch = story.start(10, 0)
    story.placer.fail(batch, 1.0, of=0, reason="full", no_room=True, for_good=True)
    assert story.placer.assign(1.0) == []
    assert story.placer.next_s(1.0) == 1.0
    assert story.placer.overdue(1.0) == [(batch, "no destination had room for all of it", ("full",))]


def test_who_fails_waits_in_the_order_of_arrival():
    """Not in that of the failures."""
    story = Story(Mode.FINISH, 0, 0)
    first, second = story.start(10, 0), story.start(10, 0)
    story.fail(second)
    story.fail(first)
    assert [one.batch for one in story.placer.assign(0.0)] == [first, second]


def test_no_room_leaves_the_queue_as_it_is():
    """Only what failed waits again."""
    story = Story(Mode.FINISH, 0)
    first = story.start(10, 0)
    assert story.produce(10) == [0]
    assert story.placer.fail(first, 0.0, of=0, reason="quota", no_room=True) == []
    assert volume_of(story.placer, 1) == 0


def test_who_waits_for_room_does_not_hold_up_those_behind():
    """And is not given up as long as others are to leave: the deadline is for want of a volume."""
    story = Story(Mode.FINISH, 60, deadline_s=1.0)
    story.placer.set_room(0, 100)
    assert story.produce(50, 40) == [None, 0]
    assert story.placer.next_s(0.0) == inf
    assert story.placer.overdue(5.0) == []
    assert story.placer.assign(5.0) == []
    story.placer.set_room(0, 49)
    assert story.placer.assign(5.5) == []
    assert story.placer.overdue(6.5) == []
    assert story.placer.next_s(5.5) == nextafter(6.5, inf)
    (over,) = story.placer.overdue(nextafter(6.5, inf))
    assert (over.batch, over.reasons) == (1, ("no room",))


def test_who_had_no_room_and_has_none_says_both():
    """What failed before is told with what is the matter now."""
    story = Story(Mode.FINISH, 60, deadline_s=2 * RETRY_S)
    assert story.produce(50) == [0]
    story.placer.begin(0, 0.0)
    story.placer.fail(0, 0.0, of=0, reason="P0: No space left on device", no_room=True)
    story.placer.set_room(0, 0)
    assert story.placer.assign(0.0) == []
    assert story.placer.assign(RETRY_S) == []
    (over,) = story.placer.overdue(3 * RETRY_S)
    assert over.reasons == ("P0: No space left on device; no room",)


# deadlines


def test_the_deadline_begins_anew_when_something_was_taken():
    """At the failure that follows; once."""
    story = Story(Mode.FINISH, 0, deadline_s=2.0)
    batch = story.start(10, 0)
    story.placer.note_progress(batch)
    story.fail(batch, 5.0)
    assert story.placer.overdue(7.0) == []
    story = Story(Mode.FINISH, 0, deadline_s=2.0)
    batch = story.start(10, 0)
    story.fail(batch, 5.0)
    assert [over.batch for over in story.placer.overdue(5.0)] == [batch]
    assert not story.placer.finish(batch, 5.0, of=0)
    story.placer.note_progress(batch)
    story.placer.cancel(batch)


def test_the_deadline_does_not_run_in_a_queue():
    """A long one is no want of a volume."""
    story = Story(Mode.FINISH, 10, deadline_s=2.0)
    assert story.produce(5) == [0]
    story.placer.volume_failed(0, 100.0, "gone")
    assert [over.batch for over in story.placer.overdue(102.0)] == [0]
    assert story.try_last(102.0) == [0]
    (over,) = story.placer.overdue(nextafter(102.0, inf))
    assert over == (1, "no destination took it within 2 s", ("P0 broke",))


def test_what_was_taken_counts_for_one_failure():
    """The next one, without anything taken, does not begin the deadline anew."""
    story = Story(Mode.FINISH, 0, 0, deadline_s=2.0)
    batch = story.start(10, 0)
    story.placer.note_progress(batch)
    story.fail(batch, 5.0)
    story.placer.assign(5.0)
    story.placer.begin(1, 5.0)
    story.fail(batch, 6.0)
    assert story.placer.overdue(7.0) == []
    assert story.try_last(7.0) == [0, 1]
    assert [over.batch for over in story.placer.overdue(nextafter(7.0, inf))] == [batch]


@pytest.mark.parametrize("thief", [0, 1])
def test_the_time_in_a_queue_is_left_out_of_the_deadline(thief):
    """What was begun or stolen after 100 s has all of it before it."""
    story = Story(Mode.FINISH, 10, 10, deadline_s=2.0)
    assert story.produce(5) == [0]
    assert story.placer.finish(1, 1.0, of=1)
    assert story.begin(thief, 100.0).batch == 2
    story.placer.volume_failed(0, 102.0, "gone")
    story.placer.volume_failed(1, 102.0, "gone")
    assert 2 not in [over.batch for over in story.placer.overdue(102.0)]
    assert 2 in [over.batch for over in story.placer.overdue(nextafter(102.0, inf))]


def test_a_failure_does_not_begin_the_deadline_anew():
    """Failing over and over must end some time."""
    story = Story(Mode.FINISH, 0, 0, deadline_s=2.0)
    batch = story.start(10, 0)
    story.fail(batch, 1.0)
    story.placer.assign(1.0)
    story.placer.begin(1, 1.0)
    story.fail(batch, 2.0)
    assert story.placer.overdue(2.0) == []
    assert story.try_last(2.0) == [0]  # the other has just failed
    assert [over.batch for over in story.placer.overdue(nextafter(2.0, inf))] == [batch]


def test_nothing_to_wait_for():
    """No time without a waiting batch or a candidate for a probe."""
    story = broken()
    assert story.placer.next_s(0.0) == inf
    story.start(10, 1)
    assert story.placer.next_s(0.0) == inf
    story.tell(10, 0.0)
    assert story.placer.next_s(0.0) == LATER_S
    assert story.placer.next_s(7.0) == 7.0


def test_after_its_deadline_a_batch_is_no_probe():
    """Pause after pause it would never end; where it is, there may be a usable volume all the same."""
    story = Story(Mode.FINISH, 0, deadline_s=2.0)
    batch = story.start(10, 0)
    story.placer.volume_failed(0, 3.0, "hangs")
    assert story.placer.assign(4.0) == []
    assert story.placer.next_s(4.0) == 4.0
    assert [over.batch for over in story.placer.overdue(4.0)] == [batch]
    story = Story(Mode.FINISH, 0, 0, deadline_s=2.0)
    batch = story.start(10, 0)
    story.placer.volume_failed(0, 3.0, "hangs")
    assert [one.volume for one in story.placer.assign(4.0)] == [1]


def test_who_waited_long_for_room_takes_it():
    """Its deadline was not running, so it is not over."""
    story = Story(Mode.FINISH, 60, deadline_s=1.0)
    story.placer.set_room(0, 100)
    assert story.produce(50) == [None]
    assert story.placer.finish(0, 9.0, of=0)
    assert [one.batch for one in story.placer.assign(9.0)] == [1]


# droughts


def dry(*loads, deadline_s=5.0):
    """A story in which all volumes failed at 0.0, and one batch waits since then."""
    story = Story(Mode.FINISH, *loads, deadline_s=deadline_s)
    for p in range(len(loads)):
        story.placer.volume_failed(p, 0.0, f"P{p} is gone")
    batch = story.tell(10, 0.0)
    assert story.placer.assign(0.0) == []
    return story, batch


def test_who_arrives_in_a_drought_shares_its_deadline():
    """Else each batch would wait for its own, one after the other: hours, of many batches."""
    story, first = dry(0, 0)
    second = story.tell(10, 4.0)
    assert story.placer.overdue(5.0) == []
    assert story.try_last(5.0) == [0, 1]
    over = story.placer.overdue(nextafter(5.0, inf))
    assert [one.batch for one in over] == [first, second]
    third = story.tell(10, 6.0)
    assert story.placer.assign(6.0) == []
    assert story.placer.next_s(6.0) == 6.0
    (gone,) = story.placer.overdue(6.0)
    assert gone == (third, "no destination took it within 5 s", ("P0 broke", "P1 broke"))


def test_volumes_without_room_are_a_drought_too():
    """One is out of use, the other is full; a smaller batch that fits is placed all the same."""
    story = Story(Mode.FINISH, 0, 0, deadline_s=5.0)
    story.placer.set_room(0, 9)
    story.placer.volume_failed(1, 0.0, "P1 is gone")
    first = story.tell(10, 0.0)
    assert story.placer.assign(0.0) == []
    assert story.try_last(5.0) == [1]
    assert [one.batch for one in story.placer.overdue(5.1)] == [first]
    large, small = story.tell(10, 6.0), story.tell(9, 6.0)
    assert [(one.batch, one.volume) for one in story.placer.assign(6.0)] == [(small, 0)]
    assert story.begin(0, 6.0).batch == small
    assert story.placer.overdue(6.0) == []
    assert story.placer.finish(small, 7.0, of=0)
    story.placer.set_room(0, 0)
    assert story.placer.assign(7.0)[0].probe
    story.fail(large, 7.0)
    assert story.placer.overdue(11.0) == []
    assert story.try_last(11.0) == [1]
    assert [one.batch for one in story.placer.overdue(11.1)] == [large]


def test_a_volume_that_comes_back_ends_the_drought():
    """Later batches have all of their deadline, should it fail again."""
    story, first = dry(0)
    assert story.placer.assign(LATER_S)[0].probe
    story.begin(0, LATER_S)
    assert story.placer.finish(first, 4.0, of=0)
    story.placer.volume_failed(0, 4.5, "gone again")
    second = story.tell(10, 4.5)
    assert story.placer.assign(4.5) == []
    assert story.placer.overdue(9.5) == []
    assert story.try_last(9.5) == [0]
    assert [one.batch for one in story.placer.overdue(9.6)] == [second]


def test_a_part_that_is_durable_ends_the_drought():
    """The volume takes bytes again, and a large batch needs long."""
    story, first = dry(0)
    story.placer.assign(LATER_S)
    story.begin(0, LATER_S)
    story.placer.note_progress(first)
    second = story.tell(10, 5.0)
    assert story.placer.assign(5.0) == []
    story.fail(first, 5.5)
    assert story.placer.overdue(10.0) == []
    assert story.try_last(10.0) == [0]
    assert [one.batch for one in story.placer.overdue(10.1)] == [second]


def test_while_a_volume_is_tried_no_batch_that_it_may_take_is_given_up():
    """The one that arrives just then waits until it is known how the probe ends."""
    story, _ = dry(0)
    story.placer.assign(LATER_S)
    story.begin(0, LATER_S)
    second = story.tell(10, 4.0)
    assert story.placer.assign(6.0) == []
    assert story.placer.overdue(6.0) == []
    assert story.placer.next_s(6.0) == inf
    assert story.placer.overdue(9.5) == []
    story.placer.volume_failed(0, 9.5, "gone again")
    assert second in [one.batch for one in story.placer.overdue(9.5)]


# evidence


def test_three_stragglers_in_a_row_take_it_out_of_use():
    """Its started batches stay, the unstarted ones go."""
    story = Story(Mode.FINISH, 5, 5)
    assert story.produce(1) == [0]
    assert not story.placer.note_straggler(0, 0.0)
    assert not story.placer.note_straggler(0, 0.0)
    story.placer.steady(0)
    assert [story.placer.note_straggler(0, 0.0) for _ in range(EVIDENCE)] == [False, False, True]
    assert position(story) is BreakerState.OPEN
    assert story.loads() == [5, 5]
    assert story.placer.assign(0.0)[0].volume == 1
    assert not story.placer.note_straggler(0, 0.0)
    assert story.placer.finish(0, 0.1, of=0)
    assert position(story) is BreakerState.OPEN


def test_the_last_usable_partition_is_never_taken_out():
    """Nor who is no worse than all others: then it may be the source."""
    story = Story(Mode.FINISH, 0)
    assert not any(story.placer.note_straggler(0, 0.0) for _ in range(9))
    story = broken()
    assert not any(story.placer.note_straggler(1, 0.0) for _ in range(4))
    assert story.produce(1, now_s=LATER_S) == [0]
    story.placer.begin(0, LATER_S)
    assert story.placer.finish(1, LATER_S, of=0)
    assert not any(story.placer.note_straggler(0, 1.0) for _ in range(4))
    assert story.placer.note_straggler(0, 1.0)


# the rest


def test_it_looks_ahead_for_as_many_batches_as_partitions_are_usable():
    """At least one, so that a probe can be."""
    story = Story(Mode.FINISH, 0, 0)
    assert story.placer.wants_more(0.0)
    story.produce(1)
    assert story.placer.wants_more(0.0)
    story.produce(1)
    assert not story.placer.wants_more(0.0)
    story.placer.begin(0, 0.0)
    assert story.placer.wants_more(0.0)
    story.placer.volume_failed(0, 0.0, "gone")
    story.placer.cancel(0)
    assert not story.placer.wants_more(0.0)
    story.placer.volume_failed(1, 0.0, "gone")
    story.placer.cancel(1)
    assert story.placer.wants_more(0.0)


def test_a_probe_that_waits_is_no_work_for_the_others():
    """It stands in the queue of a volume out of use, as long as an old batch has not ended there."""
    story = Story(Mode.FINISH, 0, 0)
    story.produce(1)
    story.produce(1)
    story.placer.begin(0, 0.0)
    story.placer.begin(1, 0.0)
    story.placer.volume_failed(1, 0.0, "gone")
    story.placer.assign(LATER_S)
    assert (story.placer.view(1).queued, story.placer.view(1).breaker) == (1, BreakerState.OPEN)
    assert story.placer.wants_more(LATER_S)
    story.produce(1, now_s=LATER_S)
    assert not story.placer.wants_more(LATER_S)


def test_speeds_are_smoothed():
    """The newest weighs 0.3; the first is taken as it is."""
    placer = Placer(1, mode=Mode.FINISH, deadline_s=1.0)
    placer.note_speed(0, 200, 2.0)
    assert placer.view(0).speed_bps == 100.0
    placer.note_speed(0, 200, 1.0)
    assert placer.view(0).speed_bps == pytest.approx(130.0)


def test_speeds_decide_where_loads_are_equal():
    """Done sooner, not less to do."""
    story = Story(Mode.FINISH, 0, 0)
    story.placer.note_speed(0, 10, 1.0)
    story.placer.note_speed(1, 30, 1.0)
    assert story.produce(10, 10, 10, 10) == [1, 1, 0, 1]


def test_what_a_person_may_see():
    """And what is said of a placement."""
    story = Story(Mode.FINISH, 7, 0)
    story.placer.set_room(0, 100)
    story.placer.note_speed(0, 10, 1.0)
    story.placer.note_speed(1, 1, 1.0)
    batch = story.tell(13)
    (placed,) = story.placer.assign(0.0)
    assert (placed.batch, placed.volume, placed.why) == (batch, 0, "done first there")
    assert placed.choice is not None
    assert explain(placed.choice, ("/a", "/b")) == "/a: done in 2.0 s; /b 13.0 s"
    assert story.placer.view(0) == PlacementView(20, 20, 1, 1, 10.0, 100, BreakerState.CLOSED, "", 0.0)
    story.fail(0)
    assert story.placer.view(0) == PlacementView(
        0, 0, 0, 0, 10.0, 100, BreakerState.OPEN, "P0 broke", LATER_S
    )


def test_a_batch_comes_once():
    """Twice the same number would be two batches in one."""
    story = Story(Mode.FINISH, 5)
    with pytest.raises(ValueError, match="already here"):
        story.placer.submit(0, 1, 1, 0.0)


def test_news_of_unknown_batches_is_ignored():
    """They were cancelled or given up meanwhile."""
    story = Story(Mode.FINISH, 0)
    assert not story.placer.finish(9, 0.0, of=0)
    assert story.placer.fail(9, 0.0, of=0, reason="late") == []
    story.placer.note_progress(9)
    story.placer.cancel(9)
    assert story.placer.view(0) == PlacementView(0, 0, 0, 0, 0.0, None, BreakerState.CLOSED, "", 0.0)
    batch = story.tell(1)
    story.placer.assign(0.0)
    assert not story.placer.finish(batch, 0.0, of=0)  # it was not begun


def test_a_paused_volume_gets_nothing_and_keeps_what_is_whole_there():
    """Neither a choice, nor a home, nor a queue of another brings new files there."""
    placer = Placer(2, mode=Mode.COUNT, deadline_s=1.0, earlier=Earlier([(0, 0), (9, 9)], frozenset({0})))
    placer.submit(0, 5, 5, 0.0)
    placer.submit(1, 5, 5, 0.0, home=0, in_place=2)
    placer.submit(2, 0, 5, 0.0, home=0, in_place=5)
    assert [(placed.batch, placed.volume) for placed in placer.assign(0.0)] == [(0, 1), (1, 1), (2, 0)]
    began = placer.begin(0, 0.0)
    assert began is not None
    assert began.batch == 2
    assert placer.begin(0, 0.0) is None
    alone = Placer(1, mode=Mode.COUNT, deadline_s=1.0, earlier=Earlier((), frozenset({0})))
    with pytest.raises(Unplaceable, match="every destination is paused"):
        alone.submit(0, 5, 5, 0.0)


def test_what_is_committed_counts_there_from_then_on():
    """The load becomes what stands, so the next choice does not change by the commit."""
    placer = Placer(2, mode=Mode.COUNT, deadline_s=1.0)
    placer.submit(0, 5, 5, 0.0)
    placer.assign(0.0)
    placer.begin(0, 0.0)
    placer.add_held(0, 5, 5)
    assert placer.finish(0, 1.0, of=0)
    placer.submit(1, 1, 1, 1.0)
    assert placer.assign(1.0)[0].volume == 1
