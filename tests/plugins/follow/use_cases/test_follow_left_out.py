"""What a served directory has and its feed cannot carry is told to the followers, once."""

import os

import pytest
from aiohttp import web

from cfetch.base.config.settings import Settings
from cfetch.plugins.follow.protocol import LeftOut
from cfetch.plugins.follow.server import tree_publisher
from cfetch.plugins.follow.use_cases.follow_status import find_status
from cfetch.plugins.follow.use_cases.follow_text import status_lines
from tests.plugins.follow.follow_world import PollClock, open_world

NAMES = [b"a:b", b"~user", b"back\\slash", b"\xff"]


@pytest.fixture
def world(tmp_path):
    with open_world(tmp_path) as found:
        yield found


def put(world, names):
    for name in names:
        with open(os.fsencode(world.served.root) + b"/" + name, "w"):
            pass
    world.served.write({"good": "1"})


def left_out(world):
    return [line for line in world.lines if line.startswith("feed: left out: ")]


def status_of(world):
    return find_status(world.served.url, Settings(to=(str(world.to),)), env={})


def test_names_that_no_feed_can_have_are_told(world):
    """By each start, and by the status; no more when they have gone."""
    put(world, NAMES)
    assert world.follow().files.done == 1
    lines = left_out(world)
    assert len(lines) == 4
    for shown in ("a:b: no feed", "~user: no feed", "back\\slash: no feed", "\\udcff: no feed"):
        assert sum(f"left out: {shown} can name it: " in line for line in lines) == 1
    assert world.tree() == {"good": b"1"}
    status = status_of(world)
    assert [f"feed: left out: {text}" for text in status.left_out] == lines
    assert f"left out: {status.left_out[0]}" in status_lines(status)
    for name in NAMES:
        os.unlink(os.fsencode(world.served.root) + b"/" + name)
    world.served.write({})
    world.follow()
    assert left_out(world) == []


def test_they_are_told_once_while_a_follower_runs(world):
    put(world, NAMES[:1])

    def polled(number):
        if number == 3:
            raise KeyboardInterrupt
        world.served.split()

    with pytest.raises(KeyboardInterrupt):
        world.follow(once=False, poll_s=PollClock.poll_s, clock=PollClock(polled))
    assert len(left_out(world)) == 1


def test_only_some_of_many_are_named(world, monkeypatch):
    """By the server, and of these by the follower; all are counted."""
    monkeypatch.setattr(tree_publisher, "MAX_TOLD", 6)
    monkeypatch.setattr("cfetch.plugins.follow.backends.http.MAX_LEFT_OUT", 4)
    put(world, [b"~%d" % number for number in range(1200)])
    world.follow()
    lines = left_out(world)
    assert (len(lines), lines[-1]) == (5, "feed: left out: 1,196 files without a name here")


@pytest.mark.parametrize(
    "rows",
    [None, 7, [7], [{"name": "a"}], [{"name": "a", "why": "b"}] * 2, "\x1b[31m"],
)
def test_a_server_that_does_not_tell_them_is_followed_all_the_same(world, monkeypatch, rows):
    """None: it does not know the question."""

    async def answer(server, _):
        if rows is None:
            return web.Response(status=404)
        return server._answer({"total": 1, "files": rows})

    with monkeypatch.context() as patch:
        patch.setattr("cfetch.plugins.follow.server.handler._Server.list_left_out", answer)
        world.served.do(world.served.world._stop())
        world.served.do(world.served.world._serve())
    world.served.write({"good": "1"})
    assert world.follow().files.done == 1
    assert left_out(world) == []


def test_names_of_a_hostile_server_are_made_printable(world, monkeypatch):
    files = (("a\x1b[31m", "b\n" * 1000),)
    monkeypatch.setattr(world.served.world.publisher, "left_out", LeftOut(1, files))
    world.follow()
    (line,) = left_out(world)
    assert line.isprintable()
    assert len(line) < 500
