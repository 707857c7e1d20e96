"""What every source of a feed does alike: one suite, which the tests of a source inherit.

A source's test module derives a class from those mixins that its backend can, and gives it a ``world``::

    class TestSegments(SplitContract, MergeContract):
        @pytest.fixture
        async def world(self, tmp_path):
            world = SegmentWorld(tmp_path)   # a World
            yield world
            await world.close()

Every mixin includes ``FeedContract``. LSNs rise but need not be dense, and keys are the backend's affair.
"""

import asyncio
import itertools
from typing import Any, Protocol

from cfetch.base.errors import CheckpointExpired, FeedReplaced
from cfetch.plugins.follow.ranges import ALL_KEYS, KeyRange, Position, Span
from cfetch.plugins.follow.source import FeedSource, Gone, NotModified, Page, Ranges, Why
from cfetch.testing.checks import expect_error

MAX_PAGES = 2000  # of a drain: a source that never comes to an end fails its test instead of hanging it
NAMES = [f"dir{n % 3}/file {n:02}.bin" for n in range(24)]  # enough that both halves of the keys have some
ODD_NAMES = ["100%.txt", "a b/c#d?e&f=g.bin", "grüße/日本.txt", "plus+and;comma,.bin", "colon:in/name"]


class FeedWorld(Protocol):
    """A feed that a test can change, and a source that reads it. Each change can be read once it returns.

    A new world has one live range and no entries.
    """

    source: FeedSource

    async def append(self, path: str) -> None:
        """Publish a new version of ``path``."""

    async def delete(self, path: str) -> None:
        """Publish that it has gone."""

    async def split(self, of: str) -> None:
        """Split a live range, in the middle of its keys."""

    async def merge(self, one: str, other: str) -> None:
        """Merge two live neighbours (MergeContract)."""

    async def recreate(self) -> None:
        """Delete the feed and make it anew under its name, without entries (RecreateContract)."""

    async def retire(self) -> None:
        """All that was published until now is not kept any more (RetentionContract)."""

    def reopened(self) -> FeedSource:
        """Another source of the same feed, as after a restart of the reader; the world closes it."""


async def listed(source: FeedSource, etag: str | None = None) -> Ranges:
    """The live ranges, which are not those of ``etag`` any more."""
    found = await source.ranges(etag)
    assert isinstance(found, Ranges), found
    return found


async def only(source: FeedSource) -> str:
    """The id of the one live range."""
    (live,) = (await listed(source)).ranges
    return live.id


async def span(source: FeedSource, of: str, via: str) -> Span:
    """The span of a range, which has not gone."""
    found = await source.info(of, via)
    assert isinstance(found, Span), found
    return found


async def last_of(source: FeedSource, of: str, via: str) -> int:
    """The last LSN of a closed range."""
    last = (await span(source, of, via)).last
    assert last is not None
    return last


async def drained(
    source: FeedSource,
    via: str,
    of: str,
    keys: KeyRange = ALL_KEYS,
    *,
    limit: int = 100,
    from_lsn: int | None = None,
) -> list[Any]:
    """All changes of ``of`` from an LSN on; each page is checked on the way."""
    owned = await span(source, of, via)
    next_lsn = owned.first if from_lsn is None else from_lsn
    changes: list[Any] = []
    for _ in range(MAX_PAGES):
        if owned.last is not None and next_lsn > owned.last:
            return changes
        page = await source.read(via, Position(of, next_lsn), keys, limit)
        if isinstance(page, NotModified):
            assert owned.last is None, "an archive never says that it has nothing yet"
            return changes
        assert isinstance(page, Page), page
        lsns = [next_lsn - 1, *(change.lsn for change in page.changes)]
        assert all(one < two for one, two in itertools.pairwise(lsns)), lsns
        assert len(page.changes) <= limit
        assert page.next_lsn > lsns[-1], "it goes back"
        assert all(keys.holds(change.key) for change in page.changes)
        changes += page.changes
        next_lsn = page.next_lsn
    raise AssertionError(f"no end after {MAX_PAGES} pages")


def cover(ranges: Ranges) -> list[KeyRange]:
    """The keys of the live ranges in order, which are all keys, once each."""
    keys = sorted(live.keys for live in ranges.ranges)
    assert keys[0].low == ALL_KEYS.low
    assert keys[-1].high == ALL_KEYS.high
    assert all(one.high == two.low for one, two in itertools.pairwise(keys)), keys
    return keys


def told(changes):
    """Path and operation, in order."""
    return [(change.path, change.op) for change in changes]


def identities(changes):
    """What must not be there twice, and in which order."""
    return [(change.lsn, change.key, change.path, change.op) for change in changes]


def halves(keys: KeyRange) -> list[KeyRange]:
    """Two filters that are ``keys`` together."""
    middle = (keys.low + keys.high) // 2
    return [KeyRange(keys.low, middle), KeyRange(middle, keys.high)]


class FeedContract:
    """What a feed of one range can."""

    async def test_a_new_feed_lists_its_range(self, world):
        found = await listed(world.source)
        assert cover(found) == [ALL_KEYS]
        (live,) = found.ranges
        assert live.id
        assert live.ancestors == frozenset()
        assert found.etag
        assert found.feed.account
        assert found.feed.id

    async def test_the_etag_is_answered_by_not_modified_until_it_is_another(self, world):
        found = await listed(world.source)
        assert await world.source.ranges(found.etag) == NotModified()
        assert await world.reopened().ranges(found.etag) == NotModified()
        assert (await listed(world.source, "another")).ranges == found.ranges
        assert (await listed(world.source)).feed == found.feed

    async def test_a_live_range_is_open_at_its_end(self, world):
        of = await only(world.source)
        before = await span(world.source, of, of)
        assert before.last is None
        await world.append("a")
        assert await span(world.source, of, of) == before

    async def test_a_feed_without_entries_has_nothing_new(self, world):
        of = await only(world.source)
        first = (await span(world.source, of, of)).first
        assert await world.source.read(of, Position(of, first), ALL_KEYS, 10) == NotModified()

    async def test_what_is_published_is_read_once_and_in_order(self, world):
        of = await only(world.source)
        for name in NAMES[:3]:
            await world.append(name)
        changes = await drained(world.source, of, of)
        assert told(changes) == [(name, "upsert") for name in NAMES[:3]]
        assert all(change.entry.path == change.path and change.entry.url.reveal() for change in changes)
        after = changes[-1].lsn + 1
        assert await world.source.read(of, Position(of, after), ALL_KEYS, 10) == NotModified()
        await world.append("later")
        assert told(await drained(world.source, of, of, from_lsn=after)) == [("later", "upsert")]

    async def test_all_versions_of_a_path_are_told_and_have_one_key(self, world):
        of = await only(world.source)
        await world.append("a")
        await world.append("b")
        await world.append("a")
        await world.delete("a")
        await world.append("a")
        changes = await drained(world.source, of, of)
        of_a = [change for change in changes if change.path == "a"]
        assert [change.op for change in of_a] == ["upsert", "upsert", "delete", "upsert"]
        assert of_a[2].entry is None
        assert len({change.key for change in of_a}) == 1

    async def test_pages_of_any_size_bring_the_same(self, world):
        of = await only(world.source)
        for name in NAMES:
            await world.append(name)
        for limit in (1, 2, 7, 1000):
            changes = await drained(world.source, of, of, limit=limit)
            assert told(changes) == [(name, "upsert") for name in NAMES]

    async def test_reading_can_begin_at_any_lsn(self, world):
        of = await only(world.source)
        for name in NAMES[:8]:
            await world.append(name)
        changes = await drained(world.source, of, of)
        for number, change in enumerate(changes):
            rest = await drained(world.source, of, of, from_lsn=change.lsn, limit=3)
            assert identities(rest) == identities(changes[number:])

    async def test_filters_divide_the_entries_among_them(self, world):
        of = await only(world.source)
        for name in NAMES:
            await world.append(name)
        whole = await drained(world.source, of, of)
        for limit in (1, 5, 100):
            parts = [await drained(world.source, of, of, keys, limit=limit) for keys in halves(ALL_KEYS)]
            assert all(parts)
            assert sorted(identities(parts[0] + parts[1])) == sorted(identities(whole))

    async def test_a_page_whose_entries_are_all_filtered_out_moves_on(self, world):
        of = await only(world.source)
        for name in NAMES[:4]:
            await world.append(name)
        changes = await drained(world.source, of, of)
        nobodys = max(change.key for change in changes) + 1
        nothing = KeyRange(nobodys, nobodys + 1)
        assert await drained(world.source, of, of, nothing) == []

    async def test_odd_names_come_through(self, world):
        of = await only(world.source)
        for name in ODD_NAMES:
            await world.append(name)
        changes = await drained(world.source, of, of)
        assert told(changes) == [(name, "upsert") for name in ODD_NAMES]

    async def test_a_source_opened_again_reads_the_same(self, world):
        of = await only(world.source)
        for name in NAMES:
            await world.append(name)
        before = await drained(world.source, of, of)
        assert identities(await drained(world.reopened(), of, of)) == identities(before)

    async def test_many_read_at_once(self, world):
        of = await only(world.source)
        for name in NAMES[:6]:
            await world.append(name)
        found = await asyncio.gather(*(drained(world.source, of, of, limit=2) for _ in range(4)))
        assert all(identities(one) == identities(found[0]) for one in found)
        assert len(found[0]) == 6


async def split_once(world):
    """The id of the range that was split, its entries, and what is listed after it."""
    of = await only(world.source)
    for name in NAMES:
        await world.append(name)
    before = await drained(world.source, of, of)
    old = await listed(world.source)
    await world.split(of)
    return of, before, await listed(world.source, old.etag)


class SplitContract(FeedContract):
    """What a feed can whose ranges split."""

    async def test_children_take_the_place_of_a_range_that_split(self, world):
        of = await only(world.source)
        old = await listed(world.source)
        await world.split(of)
        new = await listed(world.source, old.etag)
        assert len(cover(new)) == 2
        assert new.feed == old.feed
        assert new.etag != old.etag
        assert of not in {live.id for live in new.ranges}
        assert all(live.ancestors == {of} for live in new.ranges)
        assert await world.source.ranges(new.etag) == NotModified()

    async def test_a_range_that_split_is_gone(self, world):
        of, changes, _ = await split_once(world)
        assert await world.source.read(of, Position(of, changes[-1].lsn + 1), ALL_KEYS, 10) == Gone(
            Why.RANGE_GONE
        )
        assert await world.source.read(of, Position(of, changes[0].lsn), ALL_KEYS, 10) == Gone(Why.RANGE_GONE)
        assert await world.source.info(of, of) == Gone(Why.RANGE_GONE)

    async def test_children_begin_where_the_parent_ended(self, world):
        of, changes, new = await split_once(world)
        spans = {await span(world.source, of, live.id) for live in new.ranges}
        (closed,) = spans
        assert closed.last is not None
        assert closed.first <= changes[0].lsn
        assert closed.last >= changes[-1].lsn
        for live in new.ranges:
            assert await span(world.source, live.id, live.id) == Span(closed.last + 1, None)

    async def test_every_child_archives_its_parent_as_a_whole(self, world):
        of, before, new = await split_once(world)
        for limit in (1, 5, 100):
            parts = []
            for via in new.ranges:
                whole = await drained(world.source, via.id, of, limit=limit)
                assert identities(whole) == identities(before)
                filtered = [
                    await drained(world.source, via.id, of, live.keys, limit=limit) for live in new.ranges
                ]
                parts.append([identities(one) for one in filtered])
            assert parts[0] == parts[1]
            assert sorted(parts[0][0] + parts[0][1]) == sorted(identities(before))

    async def test_an_archive_is_read_on_from_any_lsn(self, world):
        of, before, new = await split_once(world)
        via = new.ranges[0].id
        for number in (0, 1, len(before) - 1):
            rest = await drained(world.source, via, of, from_lsn=before[number].lsn, limit=7)
            assert identities(rest) == identities(before[number:])

    async def test_an_archive_that_has_been_read_says_so(self, world):
        of, before, new = await split_once(world)
        via = new.ranges[-1].id
        last = await last_of(world.source, of, via)
        nobodys = max(change.key for change in before) + 1
        for keys in (ALL_KEYS, KeyRange(nobodys, nobodys + 1)):
            next_lsn = before[-1].lsn
            while next_lsn <= last:
                page = await world.source.read(via, Position(of, next_lsn), keys, 100)
                assert isinstance(page, Page)
                assert page.next_lsn > next_lsn
                next_lsn = page.next_lsn
            assert next_lsn == last + 1
        beyond = await world.source.read(via, Position(of, last + 1), ALL_KEYS, 10)
        assert isinstance(beyond, Page)
        assert beyond[:2] == ((), last + 1)

    async def test_what_comes_after_a_split_goes_to_the_child_of_its_key(self, world):
        of, before, new = await split_once(world)
        keys = {change.path: change.key for change in before}
        for name in NAMES:
            await world.append(name)
        await world.delete(NAMES[0])
        seen = []
        for live in new.ranges:
            changes = await drained(world.source, live.id, live.id)
            assert all(live.keys.holds(change.key) and change.key == keys[change.path] for change in changes)
            assert changes
            seen += told(changes)
        assert sorted(seen) == sorted([*((name, "upsert") for name in NAMES), (NAMES[0], "delete")])
        assert identities(await drained(world.source, new.ranges[0].id, of)) == identities(before)

    async def test_a_range_that_split_without_entries(self, world):
        of = await only(world.source)
        await world.split(of)
        new = await listed(world.source)
        for live in new.ranges:
            closed = await span(world.source, of, live.id)
            assert closed.last is not None
            assert await drained(world.source, live.id, of) == []
            assert (await span(world.source, live.id, live.id)).first == closed.last + 1
        for name in NAMES:
            await world.append(name)
        assert [bool(await drained(world.source, live.id, live.id)) for live in new.ranges] == [True, True]

    async def test_splits_of_splits(self, world):
        of, before, new = await split_once(world)
        child = max(new.ranges, key=lambda live: live.keys)
        for name in NAMES:
            await world.append(name)
        in_child = await drained(world.source, child.id, child.id)
        await world.split(child.id)
        third = await listed(world.source, new.etag)
        assert len(cover(third)) == 3
        leaves = [live for live in third.ranges if child.id in live.ancestors]
        assert len(leaves) == 2
        for leaf in leaves:
            assert leaf.ancestors == {of, child.id}
            assert identities(await drained(world.source, leaf.id, of)) == identities(before)
            assert identities(await drained(world.source, leaf.id, child.id)) == identities(in_child)
            closed = await span(world.source, child.id, leaf.id)
            assert closed.last is not None
            assert (await span(world.source, leaf.id, leaf.id)).first == closed.last + 1
        assert await world.source.info(child.id, child.id) == Gone(Why.RANGE_GONE)
        (untouched,) = (live for live in third.ranges if child.id not in live.ancestors)
        assert untouched in new.ranges

    async def test_an_archive_can_be_read_by_a_source_opened_again(self, world):
        of, before, new = await split_once(world)
        assert identities(await drained(world.reopened(), new.ranges[0].id, of)) == identities(before)


class MergeContract(SplitContract):
    """What a feed can whose ranges also merge."""

    async def test_a_merged_range_archives_all_its_parents(self, world):
        of, before, new = await split_once(world)
        one, other = new.ranges
        for name in NAMES:
            await world.append(name)
        await world.append(NAMES[0])
        parents = {live.id: await drained(world.source, live.id, live.id) for live in new.ranges}
        await world.merge(one.id, other.id)
        found = await listed(world.source, new.etag)
        (merged,) = found.ranges
        assert merged.keys == ALL_KEYS
        assert merged.ancestors == {of, one.id, other.id}
        lasts = []
        for parent, changes in parents.items():
            assert identities(await drained(world.source, merged.id, parent)) == identities(changes)
            assert await world.source.info(parent, parent) == Gone(Why.RANGE_GONE)
            lasts.append(await last_of(world.source, parent, merged.id))
        assert (await span(world.source, merged.id, merged.id)).first == max(lasts) + 1
        assert identities(await drained(world.source, merged.id, of)) == identities(before)
        await world.append("after")
        assert told(await drained(world.source, merged.id, merged.id)) == [("after", "upsert")]


class RecreateContract(FeedContract):
    """What a backend does that can tell a feed from another of its name."""

    async def test_a_feed_made_anew_is_another(self, world):
        old = await listed(world.source)
        of = old.ranges[0].id
        for name in NAMES[:3]:
            await world.append(name)
        first = (await drained(world.source, of, of))[0].lsn
        await world.recreate()
        with expect_error(FeedReplaced):
            await world.source.read(of, Position(of, first), ALL_KEYS, 10)
        with expect_error(FeedReplaced):
            await world.source.info(of, of)
        with expect_error(FeedReplaced):
            await world.source.ranges(old.etag)
        again = world.reopened()
        new = await listed(again, old.etag)
        assert new.feed.account == old.feed.account
        assert new.feed.id != old.feed.id
        assert new.etag != old.etag
        assert await drained(again, new.ranges[0].id, new.ranges[0].id) == []


class RetentionContract(FeedContract):
    """What a backend says that does not keep everything."""

    async def test_what_is_not_kept_any_more_is_an_error(self, world):
        of = await only(world.source)
        for name in NAMES[:5]:
            await world.append(name)
        for name in NAMES[:5]:  # a server may keep telling of files that are still there
            await world.delete(name)
        changes = await drained(world.source, of, of)
        await world.retire()
        for change in changes[1:]:  # who has read nothing may begin with the oldest that is kept
            with expect_error(CheckpointExpired):
                await world.source.read(of, Position(of, change.lsn), ALL_KEYS, 10)
        after = changes[-1].lsn + 1
        await world.append("later")
        assert told(await drained(world.source, of, of, from_lsn=after)) == [("later", "upsert")]
        assert told(await drained(world.source, of, of, from_lsn=0)) == [("later", "upsert")]
