"""A world for followers: a directory that the real server publishes, and a follower of it.

A test changes the source, follows, and looks at both trees. Nothing is simulated but who asks: the server is
the one of ``cfetch feed serve`` on a loopback port, in an event loop of its own thread (``Served``), since
``follow`` is not a coroutine and runs in the test's. ``Served.do`` hands a coroutine over to that loop and
waits for what it brings, so a test reads from top to bottom::

    with open_world(tmp_path) as world:
        world.served.write({"a": "1"})       # published when this returns; None instead of a text is a delete
        assert world.follow().files.done == 1
        assert world.tree() == world.served.tree()

``FollowWorld.follow`` raises what ended the follower; ``events`` and ``lines`` are those of its last call.
"""

import asyncio
import threading
from contextlib import contextmanager, nullcontext

from cfetch.base.clock import SystemClock
from cfetch.base.config.settings import Settings
from cfetch.plugins.follow.server.store import NewChange
from cfetch.plugins.follow.use_cases.follow import follow
from cfetch.plugins.follow.use_cases.follow_options import FollowOptions
from tests.engine.drive import tree
from tests.plugins.follow.http_world import HttpWorld

__all__ = ["FollowWorld", "PollClock", "Served", "open_world"]


class Served:
    """``HttpWorld`` without ``await``: its loop is another thread's."""

    def __init__(self, root, **how):
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self.thread.start()
        self.world = HttpWorld()
        self.do(self.world.start(root, **how))
        self.root, self.url = root, self.world.url

    def do(self, work):
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(60)

    def close(self):
        try:
            self.do(self.world.close())
        finally:
            self.loop.call_soon_threadsafe(self.loop.stop)
            self.thread.join()
            self.loop.close()

    def write(self, files):
        """Publish them together; None is a delete."""
        for name, text in files.items():
            where = self.root / name
            if text is None:
                where.unlink()
                while not any(where.parent.iterdir()):
                    where = where.parent
                    where.rmdir()
            else:
                where.parent.mkdir(parents=True, exist_ok=True)
                where.write_text(text)
        return self.do(self.world.scan())

    def publish_row(self, path, row):
        """Publish a row of a manifest as a publisher of links does."""
        self.world.store.publish([NewChange(path, more=row)], at_s=0)

    def split(self):
        """Every live range."""
        for one in self.world.store.list_ranges()[1]:
            self.do(self.world.split(one.id))

    def merge(self):
        """The first two live ranges."""
        ranges = sorted(self.world.store.list_ranges()[1], key=lambda one: one.keys)
        self.do(self.world.merge(ranges[0].id, ranges[1].id))

    def tree(self):
        return {name: data for name, data in tree(self.root).items() if not name.startswith(".cfetch-feed")}


class PollClock(SystemClock):
    """A clock on which all sleeps end at once. ``polled`` gets the number of each pause of ``poll_s``."""

    poll_s = 400.0

    def __init__(self, polled):
        self._polled, self._polls, self._slept_s = polled, 0, 0.0

    def monotonic(self):
        return super().monotonic() + self._slept_s

    async def sleep(self, seconds):
        self._slept_s += seconds
        if seconds == self.poll_s:
            self._polls += 1
            self._polled(self._polls)
        await asyncio.sleep(0)


class FollowWorld:
    """The follower: its destination, what its plans told, and its lines."""

    def __init__(self, served, to):
        self.served, self.to = served, to
        self.events, self.lines = [], []

    def follow(self, *, settings=None, clock=None, **options):
        self.events.clear()
        self.lines.clear()
        found = follow(
            self.served.url,
            Settings(**({"to": (str(self.to),), "durability": "crash"} | (settings or {}))),
            FollowOptions(**({"once": True} | options)),
            env={},
            dashboard=lambda: nullcontext(self.events.append),
            emit_line=self.lines.append,
            clock=clock,
        )
        if found.error is not None:
            raise found.error
        return found.summary

    def tree(self):
        return tree(self.to)


@contextmanager
def open_world(folder, **how):
    served = Served(folder / "source", **how)
    try:
        yield FollowWorld(served, folder / "to")
    finally:
        served.close()
