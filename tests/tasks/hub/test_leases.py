"""Leases: never more than there are, none idle that somebody wants, and everybody's turn comes."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cfetch.tasks.hub.leases import SETTLED_S, TURN_S, Demand, Leases, divide_fairly


@pytest.mark.parametrize(
    ("wants", "most", "parts"),
    [
        ([], 4, []),
        ([9], 4, [4]),
        ([2], 4, [2]),
        ([9, 9], 4, [2, 2]),
        ([9, 9], 5, [3, 2]),
        ([1, 9, 9], 9, [1, 4, 4]),
        ([1, 9, 9], 8, [1, 4, 3]),
        ([0, 3, 9], 4, [0, 2, 2]),
        ([9, 9, 9], 2, [1, 1, 0]),
        ([9, 9, 9], 0, [0, 0, 0]),
    ],
)
def test_fair_parts(wants, most, parts):
    """As much as the others, or as much as it wants; the odd ones to those who come first."""
    assert list(divide_fairly(dict(enumerate(wants)), most, range(len(wants))).values()) == parts


@given(st.lists(st.integers(0, 20)), st.integers(0, 40))
def test_fair_parts_are_max_min_and_leave_nothing(wants, most):
    """All is given that is wanted; who lacks some has at most one less than anybody."""
    parts = divide_fairly(dict(enumerate(wants)), most, range(len(wants)))
    assert sum(parts.values()) == min(most, sum(wants))
    assert all(0 <= part <= wants[task] for task, part in parts.items())
    lacking = [part for task, part in parts.items() if part < wants[task]]
    assert all(part <= low + 1 for low in lacking for part in parts.values())


class Task:
    """One that goes by its lease: begins no more than that, and ends what it likes when it likes."""

    def __init__(self, number, wants):
        self.number, self.wants = number, wants
        self.has = self.lease = 0

    def live(self, ended):
        self.has = max(0, self.has - ended)
        self.has = max(self.has, min(self.wants, self.lease))

    def beat(self, leases, now_s, *, lost=False):
        found = leases.take_demands(self.number, {"h": Demand(self.has, self.lease, self.wants)}, now_s)["h"]
        if not lost:
            self.lease = found


step = st.tuples(
    st.integers(0, 4),  # who
    st.integers(0, 12),  # wants so many from now on
    st.integers(0, 12),  # has ended so many
    st.sampled_from(["beat", "beat", "lost", "gone"]),
    st.sampled_from([0.0, 0.3, 1.0, TURN_S]),
)


@given(st.integers(0, 8), st.lists(step))
def test_there_are_never_more_than_there_may_be(most, steps):
    """Whatever tasks want, whenever they are heard, and whichever answers are lost."""
    leases, now_s = Leases(lambda *_: most), 0.0
    tasks: dict[int, Task] = {}
    for number, wants, ended, what, pause_s in steps:
        now_s += pause_s
        task = tasks.setdefault(number, Task(number, wants))
        task.wants = wants
        task.live(ended)
        if what == "gone":
            leases.forget(number)
            del tasks[number]
        else:
            task.beat(leases, now_s, lost=what == "lost")
            task.live(0)
        assert sum(one.has for one in tasks.values()) <= most
        assert sum(host.held for host in leases._hosts.values()) <= most


def rounds(leases, tasks, number, now_s=0.0):
    """So many seconds in which each is heard, and files end within."""
    for _ in range(number):
        now_s += 1.0
        for task in tasks:
            task.beat(leases, now_s)
            task.live(task.has)
    return now_s


@given(st.integers(0, 12), st.lists(st.integers(0, 12), max_size=6))
def test_none_is_idle_that_somebody_wants(most, wants):
    """A few beats after things have changed."""
    leases, tasks = Leases(lambda *_: most), [Task(number, 12) for number in range(len(wants))]
    now_s = rounds(leases, tasks, 3)
    for task, want in zip(tasks, wants, strict=True):
        task.wants = want
    if sum(want > 0 for want in wants) <= most:  # else they take turns, and one may be on its way
        rounds(leases, tasks, 4, now_s)
        assert sum(task.has for task in tasks) == min(most, sum(wants))


@given(st.integers(1, 4), st.integers(1, 9))
def test_everybodys_turn_comes(most, number):
    """With less than one for each: in as many turns as there are tasks, each has had one."""
    leases, tasks = Leases(lambda *_: most), [Task(n, 3) for n in range(number)]
    had: Counter[int] = Counter()
    now_s = 0.0
    for _ in range(int(number * TURN_S) + 5):
        now_s = rounds(leases, tasks, 1, now_s)
        had.update(task.number for task in tasks if task.has)
        assert sum(task.has for task in tasks) <= most
    assert set(had) == set(range(number))


def test_a_lease_is_moved_when_it_is_free_and_not_before():
    """One task has all eight; a second gets its half when the first has ended some."""
    leases, first, second = Leases(lambda *_: 8), Task(1, 9), Task(2, 9)
    first.beat(leases, 0.0)
    first.live(0)
    second.beat(leases, 1.0)
    assert (first.has, second.lease) == (8, 0)
    first.beat(leases, 1.0)
    assert first.lease == 4
    second.beat(leases, 1.1)
    assert second.lease == 0  # the first has not said yet that it has ended any
    first.has = 6
    first.beat(leases, 2.0)
    second.beat(leases, 2.1)
    assert second.lease == 2


def test_a_task_that_is_forgotten_leaves_its_leases():
    """And one that wants nothing of a host any more."""
    leases, first, second = Leases(lambda *_: 4), Task(1, 4), Task(2, 4)
    first.beat(leases, 0.0)
    leases.forget(1)
    second.beat(leases, 0.0)
    assert second.lease == 4
    leases.take_demands(2, {}, 1.0)
    assert not leases._hosts
    leases.forget(2)
    assert not leases._hosts
    assert not leases._hosts_of


def test_what_is_wanted_is_looked_at_again_after_a_moment():
    """A thousand tasks a second must not each deal out everything anew."""
    leases, first, second = Leases(lambda *_: 8), Task(1, 4), Task(2, 4)
    first.beat(leases, 0.0)
    second.beat(leases, 0.0)
    first.wants, second.wants = 8, 0
    second.beat(leases, SETTLED_S / 2)
    first.beat(leases, SETTLED_S / 2)
    assert (first.lease, second.lease) == (4, 4)
    second.beat(leases, SETTLED_S)  # its part is nothing now
    second.beat(leases, SETTLED_S)  # and it has said that it has nothing
    first.beat(leases, SETTLED_S)
    assert (first.lease, second.lease) == (8, 0)
