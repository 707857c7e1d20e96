"""ADR 19's conformance table, B1 to B22: what is placed where, and the loads at the end.

Sizes are the rows' items: files in count mode, bytes at an unknown speed in finish mode, so that both modes
have to answer alike. What a volume bears at the start is a batch that it is still writing.
"""

from math import inf, nextafter

import pytest

from cfetch.base.breaker import BreakerState
from cfetch.engine.placement.batches import cut
from cfetch.engine.placement.chooser import Mode, most_loaded, spread
from cfetch.engine.placement.placer import Placer, Unplaceable
from tests.engine.placement.story import Story, volume_of

pytestmark = pytest.mark.parametrize("mode", [Mode.COUNT, Mode.FINISH])


def test_b01_the_least_loaded_takes_the_whole_batch(mode):
    """The ADR's first example."""
    story = Story(mode, 0, 0, 0, 0)
    assert story.produce(50, 30, 100) == [0, 1, 2]
    assert story.loads() == [50, 30, 100, 0]


def test_b02_each_choice_sees_the_one_before(mode):
    """The ADR's second example: volume 3 twice."""
    story = Story(mode, 50, 30, 100, 0)
    assert story.produce(20, 100, 100) == [3, 3, 1]
    assert story.loads() == [50, 130, 100, 120]


def test_b03_then_the_first_is_the_least(mode):
    """The ADR says so in words."""
    story = Story(mode, 50, 130, 100, 120)
    assert story.produce(1) == [0]
    assert story.loads() == [51, 130, 100, 120]


def test_b04_equal_batches_alternate(mode):
    """Five over two."""
    story = Story(mode, 0, 0)
    assert story.produce(10, 10, 10, 10, 10) == [0, 1, 0, 1, 0]
    assert story.loads() == [30, 20]


def test_b05_the_lowest_index_wins_a_tie(mode):
    """The original takes who stands first in an array that it has sorted, which gives 10/15."""
    story = Story(mode, 0, 0)
    assert story.produce(10, 10, 5) == [0, 1, 0]
    assert story.loads() == [15, 10]


def test_b06_the_largest_first_when_all_are_known(mode):
    """An option of ours: the order in which cut() lets them arrive, and spread() without a placer."""
    sizes = [50, 30, 100]
    story = Story(mode, 0, 0, 0, 0)
    assert story.produce(*(sizes[batch] for batch in cut(sizes, [0, 1, 2]).order)) == [0, 1, 2]
    assert story.loads() == [100, 50, 30, 0]
    assert spread(sizes, 4) == [1, 2, 0]


def test_b07_the_largest_first_is_more_even(mode):
    """The same batches as in row 2, where the loads end between 50 and 130."""
    sizes = [20, 100, 100]
    story = Story(mode, 50, 30, 100, 0)
    assert story.produce(*(sizes[batch] for batch in cut(sizes, [0, 1, 2]).order)) == [3, 1, 0]
    assert story.loads() == [70, 130, 100, 100]


def test_b08_a_failed_batch_goes_elsewhere_whole_when_all_are_assigned_first(mode):
    """The original answers success and leaves the load; here it is undone and the choice made anew."""
    story = Story(mode, 0, 0, 0, 0)
    assert story.produce(50, 30, 100) == [0, 1, 2]
    story.placer.begin(1, 0.0)
    assert story.fail(1) == []
    assert story.loads() == [50, 0, 100, 0]
    assert [(placed.batch, placed.volume) for placed in story.placer.assign(0.0)] == [(1, 3)]
    assert story.loads() == [50, 0, 100, 30]
    assert story.placer.view(1).breaker is BreakerState.OPEN


def test_b09_a_failed_batch_goes_elsewhere_whole_when_each_is_written_first(mode):
    """The same three, one by one: the second finds two empty ones, and the third what it leaves."""
    story = Story(mode, 0, 0, 0, 0)
    assert story.produce(50) == [0]
    assert story.produce(30) == [1]
    story.placer.begin(1, 0.0)
    story.fail(1)
    assert [(placed.batch, placed.volume) for placed in story.placer.assign(0.0)] == [(1, 2)]
    assert story.produce(100) == [3]
    assert story.loads() == [50, 0, 30, 100]


def test_b10_what_was_not_started_leaves_a_failed_partition(mode):
    """Both of volume 3's go, in the order of their arrival."""
    story = Story(mode, 50, 30, 100, 0)
    assert story.produce(20, 100, 100) == [3, 3, 1]
    first, second, third = range(3, 6)
    assert story.begin(3, 0.0).batch == first
    assert story.fail(first) == [second]
    placed = story.placer.assign(0.0)
    assert [(one.batch, one.volume) for one in placed] == [(first, 0), (second, 0)]
    assert volume_of(story.placer, third) == 1
    assert story.loads() == [170, 130, 100, 0]


def drive(story, writes, until_s):
    """What is begun ends at once, and ``writes(p, now_s)`` says how. Returns written and given up batches."""
    now_s, written, overdue = 0.0, [], []
    while now_s <= until_s:
        while placed := story.placer.assign(now_s):
            for one in placed:
                assert story.begin(one.volume, now_s).batch == one.batch
                if writes(one.volume, now_s):
                    assert story.placer.finish(one.batch, now_s, of=one.volume)
                    written.append((one.batch, one.volume, now_s))
                else:
                    story.placer.fail(one.batch, now_s, of=one.volume, reason="broken")
        overdue += [(one.batch, now_s) for one in story.placer.overdue(now_s)]
        later_s = story.placer.next_s(now_s)
        assert later_s > now_s
        now_s = later_s
    return written, overdue


def test_b11_when_all_failed_it_waits_for_one_to_recover(mode):
    """The original tries again only when another request arrives; here each pause's end is a try.

    The first failures are at 0.25 s and at 0.5 s, so the tries of volume 1 are at 1.0, 2.0 and 4.0 s.
    """
    story = Story(mode, 0, 0, deadline_s=5.0)
    assert story.produce(10) == [0]
    story.placer.begin(0, 0.0)
    story.fail(0, 0.25)
    assert story.placer.assign(0.25)[0].volume == 1
    story.placer.begin(1, 0.25)
    story.fail(0, 0.5)
    assert story.placer.assign(0.5) == []
    written, overdue = drive(story, lambda p, now_s: p == 1 and now_s >= 4.0, 60.0)
    assert written == [(0, 1, 4.0)]
    assert overdue == []
    assert story.loads() == [0, 0]
    assert [story.placer.view(p).breaker for p in range(2)] == [BreakerState.OPEN, BreakerState.CLOSED]


def test_b11_when_both_fail_at_once(mode):
    """The pauses stay short against the deadline, so the volume that recovers is tried before it."""
    story = Story(mode, 0, 0, deadline_s=5.0)
    story.tell(10)
    written, overdue = drive(story, lambda p, now_s: p == 1 and now_s >= 4.0, 60.0)
    assert ([batch for batch, *_ in written], overdue) == ([0], [])
    assert written[0][1] == 1
    assert 4.0 <= written[0][2] <= 5.0


def test_b11_the_deadline_itself_is_a_probe(mode):
    """A volume that is well again after the last pause, but before the deadline, takes the batch."""
    for well_s in (4.1, 4.9, 5.0):
        story = Story(mode, 0, 0, deadline_s=5.0)
        story.tell(10)
        written, overdue = drive(story, lambda p, now_s, well_s=well_s: p == 1 and now_s >= well_s, 60.0)
        assert ([(batch, volume) for batch, volume, _ in written], overdue) == ([(0, 1)], [])
        assert well_s <= written[0][2] <= 5.0


def test_b11_others_wait_for_the_answer_of_that_probe(mode):
    """If it succeeds, what has waited as long is placed there too; if it fails, nothing is tried again."""
    for is_well in (True, False):
        story = Story(mode, 0, deadline_s=5.0)
        story.placer.volume_failed(0, 0.0, "gone")
        story.placer.volume_failed(0, 4.9, "gone")  # a pause of a second, until 5.9
        first, second = story.tell(10), story.tell(20)
        assert story.placer.assign(0.0) == []
        assert story.placer.next_s(4.9) == 5.0
        (probe,) = story.placer.assign(5.0)
        assert (probe.batch, probe.probe) == (first, True)
        story.begin(0, 5.0)
        assert (story.placer.overdue(7.0), story.placer.next_s(7.0)) == ([], inf)
        if is_well:
            assert story.placer.finish(first, 7.0, of=0)
            assert [one.batch for one in story.placer.assign(7.0)] == [second]
        else:
            story.fail(first, 7.0)
            assert story.placer.assign(7.0) == []
            assert [one.batch for one in story.placer.overdue(7.0)] == [first, second]


def test_b12_after_the_deadline_it_is_given_up(mode):
    """Strictly after; the original never times a waiting request out."""
    story = Story(mode, 0, 0, deadline_s=5.0)
    assert story.tell(10) == 0
    written, overdue = drive(story, lambda p, now_s: False, 60.0)
    assert (written, overdue) == ([], [(0, nextafter(5.0, 6.0))])
    assert story.loads() == [0, 0]


def test_b12_at_the_deadline_itself_it_still_waits(mode):
    """And what each volume said is told with the end."""
    story = Story(mode, 0, 0, deadline_s=5.0)
    assert story.produce(10) == [0]
    for p in range(2):
        story.placer.begin(p, 0.0)
        story.fail(0)
        story.placer.assign(0.0)
    assert story.placer.overdue(5.0) == []
    assert story.try_last(5.0) == [0, 1]
    assert story.placer.overdue(5.0) == []
    (given_up,) = story.placer.overdue(nextafter(5.0, 6.0))
    assert given_up.batch == 0
    assert given_up.reasons == ("P0 broke", "P1 broke")
    assert given_up.why == "no destination took it within 5 s"


def test_b13_what_hangs_loses_the_batch_and_cannot_land_it_later(mode):
    """The write timeout of 3 s is the caller's."""
    story = Story(mode, 0, 0, deadline_s=10.0)
    assert story.produce(10) == [0]
    story.placer.begin(0, 0.0)
    assert story.placer.volume_failed(0, 3.0, "it has not answered for 3 s") == [0]
    assert [(one.batch, one.volume) for one in story.placer.assign(3.0)] == [(0, 1)]
    story.placer.begin(1, 3.0)
    assert not story.placer.finish(0, 3.1, of=0)
    assert story.loads() == [0, 10]
    assert story.placer.finish(0, 3.2, of=1)
    assert story.loads() == [0, 0]


def test_b14_no_write_lands_after_the_answer(mode):
    """The caller bounds its write timeout of 3 s by the deadline of 2 s, and answers before it assigns."""
    story = Story(mode, 0, 0, deadline_s=2.0)
    assert story.produce(10) == [0]
    story.placer.begin(0, 0.0)
    assert (
        story.placer.overdue(nextafter(2.0, 3.0)) == []
    )  # it is not waiting: the caller has to end the write first
    late_s = nextafter(min(3.0, 2.0), 3.0)
    assert story.placer.volume_failed(0, late_s, "it has not answered for 2 s") == [0]
    assert [one.batch for one in story.placer.overdue(late_s)] == [0]
    assert not story.placer.finish(0, 2.5, of=0)
    assert story.placer.fail(0, 2.5, of=0, reason="late") == []
    assert story.placer.assign(2.5) == []
    assert story.loads() == [0, 0]


def test_b15_a_failure_outranks_the_load(mode):
    """VolumeState 0 has 5 and a failure, volume 1 has 9."""
    story = Story(mode, 5, 7)
    broken = story.start(2, 0)
    story.fail(broken)
    story.placer.assign(0.0)
    assert story.loads() == [5, 9]
    assert story.produce(1) == [1]
    assert story.loads() == [5, 10]


def test_b16_fewer_failures_are_not_health(mode):
    """Two failures here and one there: it waits."""
    story = Story(mode, 0, 0)
    first = story.start(1, 0)
    story.fail(first, 0.0)
    assert story.placer.assign(0.0)[0].volume == 1
    story.placer.begin(1, 0.0)
    story.fail(first, 0.25)
    assert story.placer.assign(0.5)[0].volume == 0
    story.placer.begin(0, 0.5)
    story.fail(first, 0.5)
    story.placer.cancel(first)
    assert [story.placer._volumes[p].breaker.failures for p in range(2)] == [2, 1]
    assert story.produce(1, now_s=0.6) == [None]
    assert story.loads() == [0, 0]


def test_b17_after_a_recovery_the_load_is_what_is_really_there(mode):
    """The 40 were written while volume 0 was out of use; that does not bring it back, the probe does."""
    story = Story(mode, 40, 9)
    broken = story.start(1, 0)
    story.fail(broken)
    story.placer.assign(0.0)
    assert story.loads() == [40, 10]
    assert story.placer.finish(0, 0.1, of=0)
    assert story.placer.view(0).breaker is BreakerState.OPEN
    assert story.produce(3, now_s=0.5) == [0]
    story.placer.begin(0, 0.5)
    assert story.placer.finish(3, 0.6, of=0)
    assert story.loads() == [0, 10]
    assert story.produce(10, now_s=0.6) == [0]
    assert story.loads() == [10, 10]


def test_b18_one_partition_works_too(mode):
    """Everything goes there."""
    story = Story(mode, 0)
    assert story.produce(30, 30) == [0, 0]
    assert story.loads() == [60]


def test_b19_without_a_partition_it_is_an_error(mode):
    """And no hang."""
    with pytest.raises(Unplaceable, match="no destination was given"):
        Story(mode).tell(10)


def test_b20_a_batch_of_no_files_is_refused(mode):
    """Files without bytes are fine."""
    placer = Placer(2, mode=mode, deadline_s=1.0)
    with pytest.raises(Unplaceable, match="no files"):
        placer.submit(0, 0, 0, 0.0)
    assert placer.assign(0.0) == []
    placer.submit(0, 0, 3, 0.0)
    assert placer.assign(0.0)[0].volume == 0


def test_b21_what_is_larger_than_every_room_is_refused(mode):
    """By the rooms themselves: what is unfinished there will be gone, and who is out of use may come back."""
    story = Story(mode, 0, 0)
    story.placer.set_room(0, 900)
    story.placer.set_room(1, 1000)
    full = story.start(600, 1)
    with pytest.raises(Unplaceable, match="room for its 1001 bytes: the most is 1000"):
        story.tell(1001)
    assert volume_of(story.placer, 1) is None
    assert story.loads() == [0, 600]
    assert story.produce(1000) == [None]
    assert story.placer.finish(full, 0.0, of=1)
    assert story.placer.assign(0.0)[0].volume == 1
    story.placer.volume_failed(1, 0.0, "gone")
    story.placer.submit(9, 1000, 1, 0.0)
    story.placer.set_room(0, None)
    story.placer.submit(10, 1 << 60, 1, 0.0)


def test_b22_leases_go_to_the_most_loaded(mode):
    """Whom to relieve: the lease side."""
    story = Story(mode, 30, 20)
    loads, leased = story.loads(), []
    for wanted in (5, 10, 20):
        p = most_loaded(loads)
        taken = min(loads[p], wanted)
        loads[p] -= taken
        leased.append((p, taken))
    assert leased == [(0, 5), (0, 10), (1, 20)]
    assert loads == [15, 0]
