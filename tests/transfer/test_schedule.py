"""Which entry starts next: order, caps, and a model that holds for any plan."""

from hypothesis import given
from hypothesis import strategies as st

from cfetch.transfer.schedule import Schedule


def order(sizes, host_of=None, per_host=None):
    schedule = Schedule(sizes, host_of or [0] * len(sizes), per_host)
    found = []
    while (index := schedule.take()) is not None:
        found.append(index)
        schedule.release(index)
    return found


def test_largest_first_unknown_before_all_and_stable():
    """Equal sizes keep the manifest's order; so do unknown ones."""
    assert order([5, -1, 9, 5, 0, -1, 9]) == [1, 5, 2, 6, 0, 3, 4]
    assert order([5, -1, 9, 5, 0, -1, 9], per_host=3) == [1, 5, 2, 6, 0, 3, 4]


def test_nothing_to_do():
    """An empty plan."""
    assert order([]) == []
    assert Schedule([], [], 1).take() is None


def test_a_full_host_gives_way_and_comes_back():
    """The largest of the other host starts meanwhile; a release brings the first host's next."""
    schedule = Schedule([9, 8, 7, 1], [0, 0, 0, 1], 2)
    assert [schedule.take() for _ in range(4)] == [0, 1, 3, None]
    assert schedule.waiting == 1
    schedule.release(3)
    assert schedule.take() is None
    schedule.release(0)
    assert schedule.take() == 2


@given(
    st.lists(st.tuples(st.integers(-1, 5), st.integers(0, 3)), max_size=40),
    st.none() | st.integers(1, 3),
    st.randoms(use_true_random=False),
)
def test_the_model(entries, per_host, rng):
    """Each start is the first by rank of all hosts with a free place; none is left out."""
    sizes, hosts = [e[0] for e in entries], [e[1] for e in entries]
    schedule = Schedule(sizes, hosts, per_host)
    waiting: set[int] = set(range(len(entries)))
    running: list[int] = []

    def rank(index):
        return (sizes[index] >= 0, -sizes[index], index)

    while waiting or running:
        places = [
            i for i in waiting if per_host is None or sum(hosts[j] == hosts[i] for j in running) < per_host
        ]
        if places and (not running or rng.random() < 0.6):
            taken = schedule.take()
            assert taken in places
            assert rank(taken)[:2] == min(rank(i)[:2] for i in places)
            assert taken == min((i for i in places if hosts[i] == hosts[taken]), key=rank)
            waiting.remove(taken)
            running.append(taken)
        else:
            if not places:
                assert schedule.take() is None
            schedule.release(running.pop(rng.randrange(len(running))))
        assert schedule.waiting == len(waiting)
    assert schedule.take() is None
