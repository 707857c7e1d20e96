"""``cfetch feed serve`` and ``split`` as real processes: ready line, signals, kill -9, restarts."""

import asyncio
import json
import os
import re
import signal

import aiohttp
import pytest

from cfetch.base.errors import FeedReplaced
from cfetch.plugins.follow.ranges import ALL_KEYS, Position
from cfetch.plugins.follow.source import Gone, Page
from cfetch.testing.feed import drained, listed
from tests.cli.verbs import begun, cfetch, ended
from tests.plugins.follow.http_world import source_of

OLD = 1_000_000_000


class Server:
    """``cfetch feed serve`` of ``source``; ``url`` is what it printed."""

    def __init__(self, source, *words, limit=None):
        self.limit = limit
        self.words = ("feed", "serve", source, "--rescan", "50ms", *words)

    async def __aenter__(self):
        self.child = await begun(*self.words, preexec_fn=self.limit)
        line = await asyncio.wait_for(self.child.stdout.readline(), 300)
        assert line, await ended(self.child)
        document = json.loads(line)
        assert list(document) == ["url"]
        self.url = document["url"]
        self.source = source_of(self.url)
        return self

    async def __aexit__(self, *_):
        await self.source.close()
        if self.child.returncode is None:
            await self.stopped()

    async def stopped(self, how=signal.SIGTERM):
        """What it said in the end."""
        self.child.send_signal(how)
        found = await ended(self.child)
        assert found.out == ""
        return found

    async def entries(self):
        """All changes of the feed, by range; None if one split meanwhile."""
        ranges = (await listed(self.source)).ranges
        via = {above: live.id for live in ranges for above in {live.id, *live.ancestors}}
        found = {}
        for of in sorted(via, key=int):
            at, rows = Position(of, 0), []
            while isinstance(page := await self.source.read(via[of], at, ALL_KEYS, 1000), Page):
                rows += [(one.lsn, one.path, one.op) for one in page.changes]
                if page.next_lsn == at.next_lsn:  # the end of an archive
                    break
                at = Position(of, page.next_lsn)
            if isinstance(page, Gone):
                return None
            found[of] = rows
        return found

    async def has(self, count):
        """The entries, when there are so many."""
        while True:
            found = await self.entries()
            if found is not None and sum(map(len, found.values())) >= count:
                return found
            assert self.child.returncode is None
            await asyncio.sleep(0.02)


def write(root, *names, text="x"):
    """Files that have stood still for long."""
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
        os.utime(root / name, (OLD, OLD))


@pytest.fixture
def root(tmp_path):
    (tmp_path / "tree").mkdir()
    return tmp_path / "tree"


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
async def test_it_ends_in_good_order(root, how):
    """Exit 0, and nothing left but the database."""
    write(root, "a")
    async with Server(root) as server:
        assert await server.has(1) == {"0": [(0, "a", "upsert")]}
        found = await server.stopped(how)
    assert (found.code, found.err) == (0, "")
    assert {path.name for path in (root / ".cfetch-feed").iterdir()} == {"feed.sqlite", "lock"}


async def test_it_tells_what_it_leaves_out(root):
    write(root, "a:b")
    async with Server(root) as server, aiohttp.ClientSession() as session:
        feed = (await listed(server.source)).feed.id
        while True:
            async with session.get(f"{server.url}left-out?feed={feed}") as reply:
                document = await reply.json()
            if document["total"]:  # the first scan is over
                break
            assert server.child.returncode is None
            await asyncio.sleep(0.02)
    assert [file["name"] for file in document["files"]] == ["a:b"]


async def test_changes_are_found_while_it_runs(root):
    """A file written just now, when it has stood still."""
    async with Server(root) as server:
        write(root, "a")
        await server.has(1)
        (root / "fresh").write_text("now")
        await server.has(2)
        (root / "a").unlink()
        found = await server.has(3)
    assert found == {"0": [(0, "a", "upsert"), (1, "fresh", "upsert"), (2, "a", "delete")]}


async def test_a_restart_keeps_the_lsns(root):
    """And sees what happened meanwhile, and only that."""
    write(root, "a", "b")
    async with Server(root, "--split-entries", "1") as server:
        before, feed = await server.has(2), (await listed(server.source)).feed.id
    write(root, "c")
    (root / "a").unlink()
    async with Server(root) as server:
        after = await server.has(4)
        assert (await listed(server.source)).feed.id == feed
    assert all(after[of][: len(rows)] == rows for of, rows in before.items())
    new = [row for of, rows in after.items() for row in rows[len(before.get(of, [])) :]]
    assert {(path, op) for _, path, op in new} == {("c", "upsert"), ("a", "delete")}


async def test_without_its_database_it_is_another_feed(root):
    """A follower is told, and not given other entries under the old LSNs."""
    write(root, "a")
    own = ("--host", "127.0.0.3")  # nobody else takes a port of it meanwhile
    async with Server(root, *own) as server:
        await server.has(1)
        await server.stopped()
        for path in (root / ".cfetch-feed").iterdir():
            path.unlink()
        port = server.url.rstrip("/").rpartition(":")[2]
        async with Server(root, *own, "--port", port) as again:
            await again.has(1)
            with pytest.raises(FeedReplaced):
                await server.source.read("0", Position("0", 1), ALL_KEYS, 10)


async def test_kill_9_in_the_middle_of_a_scan(root):
    """What was told stays under its LSNs; in the end every file is there once."""
    names = [f"d{number % 10}/{number}" for number in range(3000)]
    write(root, *names)
    async with Server(root, "--split-entries", "300") as server:
        seen = await server.has(1001)
        found = await server.stopped(signal.SIGKILL)
        assert found.code == -signal.SIGKILL
    async with Server(root, "--split-entries", "300") as server:
        whole = await server.has(len(names))
    for of, rows in seen.items():
        assert whole[of][: len(rows)] == rows
    told = [path for rows in whole.values() for _, path, _ in rows]
    assert sorted(told) == sorted(names)


async def test_a_second_server_of_one_state_is_refused(root, tmp_path):
    """Exit 4, as of a plan that another run holds; another state is another feed."""
    async with Server(root):
        found = await cfetch("feed", "serve", root)
        assert (found.code, found.out) == (4, "")
        assert "another server publishes" in found.err
        async with Server(root, "--state", tmp_path / "other"):
            pass


async def test_an_address_that_is_taken(root, tmp_path):
    async with Server(root) as server:
        port = server.url.rstrip("/").rpartition(":")[2]
        found = await cfetch("feed", "serve", root, "--state", tmp_path / "other", "--port", port)
    assert (found.code, found.out) == (2, "")
    assert f"cannot listen on 127.0.0.1, port {port}" in found.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("no/such/directory",), "neither a directory nor a JSON Lines file"),
        ((".", "--rescan", "0s"), "rescan is '0s' but"),
        ((".", "--keep", "x"), "keep is 'x' but"),
    ],
)
async def test_words_that_are_wrong(words, said, tmp_path):
    found = await cfetch("feed", "serve", *words, "--state", tmp_path / "state")
    assert (found.code, found.out) == (2, "")
    assert said in found.err
    assert not (tmp_path / "state").exists()


async def test_what_goes_wrong_is_told_once_and_ends_nothing(root):
    """A directory that is taken away; when it is back, so is its feed."""
    write(root, "a")
    away = root.with_name("away")
    async with Server(root, "--state", root.parent / "state") as server:
        await server.has(1)
        while not (root / ".cfetch-feed" / "root").exists():  # the marker comes after the first entries
            await asyncio.sleep(0.02)
        root.rename(away)
        line = await asyncio.wait_for(server.child.stderr.readline(), 300)
        assert b"cannot read the directory" in line
        write(away, "b")
        away.rename(root)
        await server.has(2)
        found = await server.stopped()
    assert found.err == ""


async def test_a_stream_is_followed(tmp_path):
    """Rows are told as they are appended; relative links are relative to the feed."""
    stream = tmp_path / "changes.jsonl"
    stream.write_text('{"path": "a", "url": "https://x.test/a", "size": 1}\n')
    async with Server(stream) as server:
        await server.has(1)
        with stream.open("a") as file:
            file.write('{"path": "b", "url": "b"}\n{"op": "delete", "path": "a"}\n{"path":\n')
        await server.has(3)
        changes = await drained(server.source, "0", "0")
        line = await asyncio.wait_for(server.child.stderr.readline(), 300)
    assert [change.entry and change.entry.url.reveal() for change in changes] == [
        "https://x.test/a",
        f"{server.url}b",
        None,
    ]
    assert re.search(rb"changes\.jsonl:4 .*not JSON", line)


async def test_split_on_demand(root):
    """In words, and as one document."""
    write(root, *"abcdef")
    async with Server(root) as server:
        await server.has(6)
        found = await cfetch("feed", "split", server.url)
        assert (found.code, found.out, found.err) == (0, "range 0 was split into 1 and 2\n", "")
        found = await cfetch("feed", "split", server.url, "--range", "2", "--json")
        assert found.document == {"schema": "cfetch.feed-split/1", "range": "2", "children": ["3", "4"]}
        found = await cfetch("feed", "split", server.url, "--range", "2")
        assert (found.code, found.out) == (2, "")
        assert "no live range 2" in found.err
        assert len(await server.has(6)) == 5
    found = await cfetch("feed", "split", server.url)
    assert found.code == 2
    assert "Connection refused" in found.err
