"""How far a follower is behind its feed."""

import json

import pytest

from cfetch.base.config.settings import Settings
from cfetch.base.errors import SourceError, UsageError
from cfetch.plugins.follow.journal import Journal, locate_journal
from cfetch.plugins.follow.use_cases.follow_status import find_status
from cfetch.plugins.follow.use_cases.follow_text import status_lines
from tests.app.command import cfetch
from tests.plugins.follow.follow_world import PollClock, open_world


@pytest.fixture
def world(tmp_path):
    with open_world(tmp_path) as found:
        yield found


def status_of(world):
    return find_status(world.served.url, Settings(to=(str(world.to),)), env={})


def test_a_follower_in_step_and_one_that_is_behind(world):
    """By range, also where ranges have split since; nothing is changed."""
    world.served.write({f"f{n}": "1" for n in range(20)})
    with pytest.raises(UsageError, match="no follower"):
        status_of(world)
    world.follow()
    status = status_of(world)
    assert (status.entries, status.ranges, status.is_counted, status.is_running) == (0, [], True, False)
    assert status.in_step_s is not None
    world.served.write({f"f{n}": "2" for n in range(7)})
    world.served.split()
    world.served.write({f"g{n}": "2" for n in range(8)})
    before = world.tree()
    status = status_of(world)
    assert (status.entries, status.is_counted) == (15, True)
    assert {lag.range: lag.entries for lag in status.ranges}["0"] == 7
    assert {lag.range for lag in status.ranges} <= {"0", "1", "2"}
    assert all(lag.seconds is not None and lag.seconds >= 0 for lag in status.ranges)
    assert world.tree() == before


def test_what_waits_and_the_last_error_are_named(world):
    """The error of the feed, while the follower asks again, and that which ended it."""
    world.served.write({"a": "1", "b": "2"})
    (world.served.root / "b").write_text("x")  # and not published yet: another hash
    world.follow(settings={"max_attempts": 1})
    status = status_of(world)
    assert (status.pending, status.pending_paths, status.error) == (1, ["b"], "")
    assert "1 file could not be had yet: b" in status_lines(status)
    world.served.world.publisher.max_delete = 100
    world.served.write({f"f{n}": "1" for n in range(30)})
    world.follow(settings={"max_attempts": 1})
    world.served.write({f"f{n}": None for n in range(30)})
    run = cfetch("follow", world.served.url, "--to", world.to, "--once", "--delete", "--max-attempts", 1)
    assert run.returncode == 1
    directory = locate_journal(world.to / ".cfetch", world.served.url, [world.to])
    with Journal(directory):
        assert status_of(world).is_running
    done = cfetch("follow", world.served.url, "--to", world.to, "--status")
    assert done.returncode == 0
    assert "a follower is not running" in done.stdout
    assert "30 files would be deleted within an hour" in done.stdout
    done = cfetch("follow", world.served.url, "--to", world.to, "--status", "--json")
    assert json.loads(done.stdout)["schema"] == "cfetch.follow-status/1"


def test_the_ranges_of_a_feed_are_listed(world):
    """Of any feed that can be followed."""
    world.served.write({"a": "1", "b": "2"})
    world.served.split()
    done = cfetch("feed", "status", world.served.url, "--json")
    found = json.loads(done.stdout)
    assert [(live["share"], live["first_lsn"], live["ancestors"]) for live in found["live"]] == [
        (0.5, "2", 1)
    ] * 2
    assert (found["schema"], found["closed"]) == ("cfetch.feed-status/1", 1)
    done = cfetch("feed", "status", world.served.url)
    assert done.stdout.splitlines()[1] == "  range 1: 50.0000% of the keys, from LSN 2, ranges before it: 1"


def test_a_feed_that_was_away_is_in_the_status(world):
    """The follower asks again, and goes on; the error stays until another comes."""
    world.served.write({"a": "1"})
    original = world.served.world.store.list_ranges

    class Stopped(Exception):
        pass

    def away():
        raise RuntimeError

    def polled(count):
        world.served.world.store.list_ranges = original
        if count == 2:
            raise Stopped

    world.served.world.store.list_ranges = away
    with pytest.raises(Stopped):
        world.follow(once=False, poll_s=PollClock.poll_s, clock=PollClock(polled))
    status = status_of(world)
    assert "500" in status.error
    assert status.error_s is not None
    assert world.tree() == {"a": b"1"}
    world.served.world.store.list_ranges = away
    with pytest.raises(SourceError):
        world.follow(once=True, clock=PollClock(lambda _: None))
    world.served.world.store.list_ranges = original
