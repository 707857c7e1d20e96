"""What starts next: order, caps, holds, things put back, and a model that holds for any plan."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cfetch.engine.schedule import NEVER, Schedule


class Hosts:
    """Lanes with a cap and a time before which nothing starts; ``elsewhere`` need not wait for them."""

    def __init__(self, queues, cap=None, held=None, elsewhere=()):
        self.running = [0] * max(queues, 1)
        self.cap = cap
        self.held = held or {}
        self.elsewhere = set(elsewhere)

    def opens_s(self, queue, found, now_s):
        if found in self.elsewhere:
            return now_s
        if self.cap is not None and self.running[queue] >= self.cap:
            return NEVER
        return max(now_s, self.held.get(queue, now_s))


class Asking:
    """A schedule that asks the same ``opens_s`` each time."""

    def __init__(self, schedule, opens_s):
        self._schedule = schedule
        self._opens_s = opens_s

    def take(self, now_s):
        return self._schedule.take(now_s, self._opens_s)

    def may_start(self, now_s):
        return self._schedule.may_start(now_s, self._opens_s)

    def __getattr__(self, name):
        return getattr(self._schedule, name)


def schedule_of(sizes, queue_of=None, *, most=1000, backwards=False, **hosts):
    queue_of = queue_of or [0] * len(sizes)
    queues = max(queue_of, default=0) + 1
    world = Hosts(queues, **hosts)
    schedule: Schedule[str] = Schedule(
        sizes,
        queue_of,
        queues,
        most_put_back=most,
        backwards=backwards,
    )
    return Asking(schedule, world.opens_s), world


def takes(schedule, world, queue_of, now_s=0.0):
    found = schedule.take(now_s)
    if isinstance(found, int):
        world.running[queue_of[found]] += 1
    return found


def order(sizes, **how):
    schedule, _ = schedule_of(sizes, **how)
    return [schedule.take(0.0) for _ in range(len(sizes))]


def test_largest_first_unknown_before_all_and_stable():
    """Equal sizes keep the manifest's order; so do unknown ones."""
    assert order([5, -1, 9, 5, 0, -1, 9]) == [1, 5, 2, 6, 0, 3, 4]


def test_backwards_is_the_other_way_round():
    """Two copies of a run that begin at both ends meet in the middle; among queues too."""
    sizes = [5, -1, 9, 5, 0, -1, 9]
    assert order(sizes, backwards=True) == order(sizes)[::-1]
    assert order(sizes, queue_of=[0, 1, 1, 0, 2, 2, 0], backwards=True)[:3] == [4, 3, 0]


def test_nothing_to_do():
    """An empty plan."""
    schedule, _ = schedule_of([])
    assert (schedule.take(0.0), schedule.next_s(), schedule.waiting) == (None, NEVER, 0)


def test_a_full_host_gives_way_and_comes_back():
    """The largest of the other host starts meanwhile; a release brings the first host's next."""
    queues = [0, 0, 0, 1]
    schedule, world = schedule_of([9, 8, 7, 1], queues, cap=2)
    assert [takes(schedule, world, queues) for _ in range(4)] == [0, 1, 3, None]
    assert (schedule.waiting, schedule.next_s()) == (1, NEVER)
    world.running[1] -= 1
    schedule.reopen(1)
    assert schedule.take(0.0) is None
    world.running[0] -= 1
    schedule.reopen(0)
    assert schedule.take(0.0) == 2


def test_c44_a_held_host_gives_way_until_its_time():
    """Time alone brings it back; nobody has to reopen it."""
    schedule, _ = schedule_of([9, 8, 1], [0, 0, 1], held={0: 7.0})
    assert [schedule.take(0.0), schedule.take(0.0)] == [2, None]
    assert schedule.next_s() == 7.0
    assert schedule.take(6.9) is None
    assert [schedule.take(7.0), schedule.take(7.0)] == [0, 1]


def test_an_entry_that_can_go_elsewhere_does_not_wait_for_its_host():
    """Nor does one that has to fail."""
    schedule, world = schedule_of([9, 8], held={0: NEVER}, elsewhere=[0])
    assert [schedule.take(0.0), schedule.take(0.0)] == [0, None]
    world.elsewhere.add(1)
    assert schedule.take(0.0) is None  # nothing has told it
    schedule.reopen_shut()
    assert schedule.take(0.0) == 1


def test_a_queue_that_was_to_be_looked_at_later_is_looked_at_when_any_host_may_have_a_place():
    """Its host got more places meanwhile."""
    schedule, world = schedule_of([9, 8], held={0: 1.5})
    assert schedule.take(0.0) is None
    world.held.clear()
    assert schedule.take(0.4) is None
    schedule.reopen_all()
    assert schedule.take(0.4) == 0


def test_what_was_put_back_comes_when_due_and_before_new_entries():
    """Not a moment earlier, and each once."""
    schedule, _ = schedule_of([9, 8, 7])
    assert schedule.take(0.0) == 0
    schedule.put(0, "zero", 5.0)
    assert (schedule.take(0.0), schedule.waiting, schedule.next_s()) == (1, 2, 5.0)
    assert [schedule.take(5.0) for _ in range(3)] == ["zero", 2, None]
    assert schedule.waiting == 0


def test_hosts_with_equal_sizes_take_turns():
    """None of them is served first as a whole."""
    schedule, _ = schedule_of([5] * 6, [0, 0, 1, 1, 2, 2])
    assert [schedule.take(0.0) for _ in range(6)] == [0, 2, 4, 1, 3, 5]


def test_something_put_back_into_an_empty_lane_is_found():
    """Also by a queue that stands nowhere any more."""
    schedule, _ = schedule_of([9])
    assert [schedule.take(0.0), schedule.take(0.0)] == [0, None]
    schedule.put(0, "late", 9.0)
    schedule.put(0, "early", 3.0)
    assert schedule.next_s() == 3.0
    assert [schedule.take(3.0), schedule.take(3.0), schedule.take(9.0)] == ["early", None, "late"]


def test_what_may_not_start_yet_holds_up_nobody_in_its_lane():
    """It waits for another host's place: those behind it and the queue's new entries go on."""
    closed = {"a": 9.0, "b": NEVER}
    inner: Schedule[str] = Schedule(
        [9, 8],
        [0, 0],
        1,
        most_put_back=9,
    )
    schedule = Asking(inner, lambda _, found, now_s: max(now_s, closed.get(str(found), 0.0)))
    for name in ("a", "b", "c"):
        schedule.put(0, name, 1.0)
    assert [schedule.take(2.0) for _ in range(4)] == ["c", 0, 1, None]
    assert (schedule.waiting, schedule.next_s()) == (2, 9.0)
    assert [schedule.take(9.0), schedule.take(9.0)] == ["a", None]
    closed.clear()
    assert (schedule.take(10.0), schedule.next_s()) == (None, NEVER)
    schedule.reopen_shut()
    assert [schedule.take(10.0), schedule.waiting] == ["b", 0]


def test_memory_is_bounded_by_beginning_nothing_new():
    """Until one of those that wait has come back."""
    schedule, _ = schedule_of([9, 8, 7], most=1)
    assert schedule.take(0.0) == 0
    schedule.put(0, "zero", 5.0)
    assert schedule.take(0.0) is None
    assert [schedule.take(5.0), schedule.take(5.0)] == ["zero", 1]


def test_lanes_that_were_crowded_out_come_back():
    """Even one whose own host has nothing under way: when fewer wait, it begins something new."""
    schedule, _ = schedule_of([9, 8, 1], [0, 0, 1], most=1)
    assert schedule.take(0.0) == 0
    schedule.put(0, "zero", 5.0)
    assert schedule.take(0.0) is None
    assert [schedule.take(5.0) for _ in range(4)] == ["zero", 1, 2, None]


def test_drain_gives_all_that_waits_and_forgets_it():
    """For the end of a run."""
    schedule, _ = schedule_of([9, 8])
    for name in ("a", "b"):
        schedule.take(0.0)
        schedule.put(0, name, 5.0)
    assert sorted(schedule.drain()) == ["a", "b"]
    assert (schedule.waiting, schedule.take(9.0)) == (0, None)


@given(
    st.lists(st.tuples(st.integers(-1, 5), st.integers(0, 3)), max_size=40),
    st.none() | st.integers(1, 3),
    st.dictionaries(st.integers(0, 3), st.integers(1, 9)),
    st.integers(0, 1 << 32).map(random.Random),
)
def test_the_model(entries, cap, held, rng):
    """Each start is the first by rank of all that may; none is left out; time and ends bring the rest."""
    sizes, queues = [e[0] for e in entries], [e[1] for e in entries]
    schedule, world = schedule_of(sizes, queues, cap=cap, held=dict(held))
    waiting: set[int] = set(range(len(entries)))
    back: dict[str, tuple[int, float]] = {}
    running: list[int] = []
    now_s = 0.0

    def rank(index):
        return (sizes[index] >= 0, -sizes[index], index)

    while waiting or running or back:
        free = {queue for queue in range(max(queues) + 1) if world.opens_s(queue, None, now_s) <= now_s}
        places = [i for i in waiting if queues[i] in free]
        due = [name for name, (queue, at_s) in back.items() if queue in free and at_s <= now_s]
        if rng.random() < 0.5 and not schedule.may_start(now_s) and schedule.next_s() > now_s:
            assert not places, "a queue that may start something was put aside"
            assert not due
        if (places or due) and (not running or rng.random() < 0.6):
            taken = schedule.take(now_s)
            if isinstance(taken, str):
                assert taken in due
                queue, _ = back.pop(taken)
                index = int(taken)
            else:
                assert taken in places
                assert taken == min((i for i in places if queues[i] == queues[taken]), key=rank)
                if not due:
                    assert rank(taken)[:2] == min(rank(i)[:2] for i in places)
                waiting.remove(taken)
                queue, index = queues[taken], taken
            running.append(index)
            world.running[queue] += 1
        elif running and rng.random() < 0.8:
            if not places and not due:
                assert schedule.take(now_s) is None
            index = running.pop(rng.randrange(len(running)))
            world.running[queues[index]] -= 1
            schedule.reopen(queues[index])
            if rng.random() < 0.3:
                at_s = now_s + rng.randrange(5)
                schedule.put(queues[index], str(index), at_s)
                back[str(index)] = (queues[index], at_s)
        else:
            now_s += 1
        assert schedule.waiting == len(waiting) + len(back)
    assert schedule.take(now_s) is None


def test_who_waits_for_another_try_is_left_too():
    """Of each queue: what was never handed out, and what has been put back."""
    schedule, world = schedule_of([5, 4, 3, 2], [0, 0, 0, 1])
    index = takes(schedule, world, [0, 0, 0, 1])
    assert [schedule.count_left(queue) for queue in (0, 1)] == [2, 1]
    schedule.put(0, "again", 9.0)
    assert index == 0
    assert [schedule.count_left(queue) for queue in (0, 1)] == [3, 1]
    assert (schedule.waiting, schedule.put_back) == (4, 1)


@given(
    sizes=st.lists(st.integers(-1, 30), max_size=60),
    ended=st.sets(st.integers(0, 59)),
    queues=st.integers(1, 4),
)
def test_what_was_left_out_is_not_handed_out_and_the_rest_as_before(sizes, ended, queues):
    """By queue, the largest first, as if those that have ended had never been there."""
    lanes = [index % queues for index in range(len(sizes))]
    schedule, _ = schedule_of(sizes, lanes)
    schedule.leave_out([index in ended for index in range(len(sizes))])
    left = [index for index in range(len(sizes)) if index not in ended]
    assert schedule.waiting == len(left)
    taken = [schedule.take(0.0) for _ in left]
    assert schedule.take(0.0) is None
    for queue in range(queues):
        mine = [index for index in left if lanes[index] == queue]
        expected = sorted(mine, key=lambda index: -sizes[index] if sizes[index] >= 0 else -100)
        assert [index for index in taken if lanes[index] == queue] == expected


@pytest.mark.parametrize("backwards", [False, True])
def test_the_order_of_many_is_that_of_few(monkeypatch, backwards):
    """Whether a rank is in the sample or between two of it."""
    sizes = [(number * 7919) % 1009 if number % 3 else 500 for number in range(5000)]
    orders = []
    for sample in (7, 10_000):
        monkeypatch.setattr("cfetch.engine.schedule.SAMPLE", sample)
        schedule: Schedule[str] = Schedule(sizes, [0] * 5000, 1, most_put_back=1, backwards=backwards)
        orders.append([schedule.take(0.0, lambda *_: 0.0) for _ in sizes])
    assert orders[0] == orders[1]
    kept = range(5000)[:: -1 if backwards else 1]
    assert orders[0] == sorted(kept, key=lambda index: sizes[index] if backwards else -sizes[index])
