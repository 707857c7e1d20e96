"""A follower without --once outlives what passes, and says what it waits for."""

import pytest

from cfetch.errors import HostileFeed, Interrupted
from tests.feed.follow_world import PollClock, open_world


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
    monkeypatch.setattr("cfetch.feed.server.handler.MAX_LIMIT", 1)
    world.served.write({"a": "1"})
    world.served.publish_row("broken", '{"url": 7}')

    def polled(_):
        assert world.tree() == {"a": b"1"}
        raise Interrupted(2)

    with pytest.raises(Interrupted):
        world.follow(once=False, poll_s=PollClock.poll_s, clock=PollClock(polled))
