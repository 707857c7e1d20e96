"""A follower without --once outlives what passes, and says what it waits for."""

import pytest

from cfetch.base.errors import HostileFeed, Interrupted, StaleAnswer
from cfetch.plugins.follow.backends.http import HttpSource
from tests.plugins.follow.follow_world import PollClock, open_world


@pytest.fixture
def world(tmp_path):
    with open_world(tmp_path) as found:
        yield found


def hide_a_range(world, monkeypatch):
    """The list of ranges has a gap, as from the middle of a split."""
    store = world.served.world.store
    whole = store.list_ranges
    monkeypatch.setattr(store, "list_ranges", lambda: (whole()[0], whole()[1][:-1]))


def test_a_list_with_a_gap_is_asked_for_again(world, monkeypatch):
    """For minutes, with a line each time; then the files come."""
    world.served.write({"a": "1"})
    world.served.split()
    hide_a_range(world, monkeypatch)

    def polled(number):
        if number == 1:
            monkeypatch.undo()
        elif "a" in world.tree():
            raise Interrupted(2)

    with pytest.raises(Interrupted):
        world.follow(once=False, poll_s=PollClock.poll_s, clock=PollClock(polled))
    assert world.tree() == {"a": b"1"}
    (line,) = (line for line in world.lines if "asking again" in line)
    assert "ranges end before the last key" in line


def test_its_patience_has_an_end(world, monkeypatch):
    """A feed that contradicts itself for ten minutes is broken."""
    world.served.split()
    hide_a_range(world, monkeypatch)
    with pytest.raises(HostileFeed):
        world.follow(once=False, poll_s=PollClock.poll_s, clock=PollClock(lambda _: None))
    assert len([line for line in world.lines if "asking again" in line]) == 2


def test_changes_before_a_broken_page_are_applied(world, monkeypatch):
    """The reader is beyond them, so they must not be lost when it asks again."""
    monkeypatch.setattr("cfetch.plugins.follow.server.handler.MAX_LIMIT", 1)
    world.served.write({"a": "1"})
    world.served.publish_row("broken", '{"url": 7}')

    def polled(_):
        assert world.tree() == {"a": b"1"}
        raise Interrupted(2)

    with pytest.raises(Interrupted):
        world.follow(once=False, poll_s=PollClock.poll_s, clock=PollClock(polled))


def answer_stale(monkeypatch, times):
    """The feed's list of ranges is an old copy, so many times."""
    left = iter(range(times))
    whole = HttpSource.ranges

    async def ranges(source, parent):
        for _ in left:
            raise StaleAnswer("the feed has gone back")
        return await whole(source, parent)

    monkeypatch.setattr(HttpSource, "ranges", ranges)


def test_a_single_run_asks_again_after_a_stale_answer(world, monkeypatch):
    """A cache holds an old copy for a while; the files come when it has a new one."""
    world.served.write({"a": "1"})
    answer_stale(monkeypatch, 3)
    world.follow(once=True, poll_s=5.0, clock=PollClock(lambda _: None))
    assert world.tree() == {"a": b"1"}
    assert len([line for line in world.lines if "asking again in 5 s" in line]) == 3


def test_a_single_run_gives_a_stale_answer_a_minute(world, monkeypatch):
    """Then it ends, and says why."""
    answer_stale(monkeypatch, 10**6)
    with pytest.raises(StaleAnswer, match="gone back"):
        world.follow(once=True, poll_s=25.0, clock=PollClock(lambda _: None))
    assert len([line for line in world.lines if "asking again" in line]) == 3
