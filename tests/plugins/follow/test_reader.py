"""Turns, ends, and pages that are not what was asked for."""

import asyncio
from dataclasses import replace

import pytest

from cfetch.base.errors import CheckpointExpired, HostileFeed, Transient
from cfetch.base.virtual_clock import VirtualClock, run_virtual
from cfetch.manifest.entry import safe_path
from cfetch.plugins.follow.cache import RouteCache
from cfetch.plugins.follow.ranges import ALL_KEYS, Range
from cfetch.plugins.follow.reader import Reader
from cfetch.plugins.follow.source import Change, Gone, NotModified, Page, Why
from tests.plugins.follow.reader_world import check_order, drain, expected, lineage_of, open_reader, token_at
from tests.plugins.follow.simulator import SimulatedFeed, at, between, seed_tree

HALVES = (between(0, 0x80), between(0x80, 0xFF))
THIRDS = (between(0, 0x40), between(0x40, 0x80), between(0x80, 0xFF))


def forest(roots=HALVES):
    feed = SimulatedFeed(roots=roots)
    for name in feed.live:
        feed.fill(name, 20)
    return feed


def change(lsn, key):
    return Change(lsn, key, safe_path("a"), None)


def test_every_token_has_its_turn():
    async def scenario():
        reader = await open_reader(forest(THIRDS), limit=2)
        assert [(await reader.step()).range for _ in range(7)] == ["0", "1", "2", "0", "1", "2", "0"]

    run_virtual(scenario())


def test_a_range_that_cannot_be_had_leaves_the_turn_to_others():
    async def scenario():
        feed = forest()
        feed.down = {"0"}
        reader = await open_reader(feed)
        for _ in range(3):
            with pytest.raises(Transient):
                await reader.step()
            assert (await reader.step()).range == "1"
        assert not reader.is_at_end
        feed.down = set()
        assert len(await drain(reader)) == 21

    run_virtual(scenario())


def test_a_step_that_is_cancelled_has_read_nothing():
    async def scenario():
        feed = forest()
        lineage = lineage_of(feed)
        feed.split("0")
        tokens = [token_at(str(n), 0, keys) for n, keys in enumerate(HALVES)]
        source = feed.source(VirtualClock(), 1.0)
        reader = await open_reader(feed, tokens=tokens, lineage=lineage, source=source)
        found = []
        for wait_s in (0.5, 1.5, 2.5, 3.5):
            task = asyncio.create_task(reader.step())
            await asyncio.sleep(wait_s)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        found += await drain(reader)
        check_order(found, expected(feed))

    run_virtual(scenario())


def test_an_archive_that_lags_is_not_at_its_end():
    async def scenario():
        feed = seed_tree()
        reader = await open_reader(feed, keys=between(0, 0x40))
        feed.lagging = 3
        for _ in range(3):
            assert (await reader.step()).changes == ()
            assert reader.is_idle
            assert not reader.is_at_end
        assert len(await drain(reader)) == len(expected(feed, between(0, 0x40)))

    run_virtual(scenario())


def test_a_new_round_hears_all_again():
    async def scenario():
        feed = forest(THIRDS)
        reader = await open_reader(feed)
        await drain(reader)
        feed.append(at(0xF0))
        found = []
        for _ in range(2):
            found += (await reader.step()).changes
            assert not reader.is_at_end
        found += (await reader.step()).changes
        assert len(found) == 1

    run_virtual(scenario())


def test_two_of_one_range_that_are_not_at_one_place_stay_two():
    async def scenario():
        feed = SimulatedFeed()
        feed.fill("0", 40)
        tokens = [token_at("0", 41, HALVES[0]), token_at("0", 10, HALVES[1])]
        found = await drain(await open_reader(feed, tokens=tokens))
        assert found == [one for one in expected(feed, HALVES[1]) if one[1].lsn >= 10]

    run_virtual(scenario())


def test_a_range_that_is_only_being_moved_is_not_kept_as_a_split():
    async def scenario():
        feed = forest()
        cache = RouteCache(VirtualClock())
        reader = await open_reader(feed, cache=cache)
        feed.splitting = 2
        check_order(await drain(reader), expected(feed))
        assert (reader.gone, cache.feeds, cache.counts.builds) == (2, 0, 0)

    run_virtual(scenario())


def test_two_that_become_one_do_not_end_a_round_early():
    """Of three, two have been heard and are at one place by now; the third has not been heard."""

    async def scenario():
        feed = forest(THIRDS)
        lineage = lineage_of(feed)
        tokens = [token_at(str(number), 21, keys) for number, keys in enumerate(THIRDS)]
        feed.merge("0", "1")
        feed.append(at(0xF0))
        reader = await open_reader(feed, tokens=tokens, lineage=lineage)
        await reader.step()
        assert not reader.is_at_end
        await reader.step()
        assert [one.keys for one in reader.checkpoint().tokens] == [between(0, 0x80), THIRDS[2]]
        assert not reader.is_at_end
        assert len((await reader.step()).changes) == 1

    run_virtual(scenario())


@pytest.mark.parametrize(
    ("page", "fault"),
    [
        (Page((change(4, 0),), 6), "goes back: LSN 4 comes after 4"),
        (Page((change(6, 0), change(5, 0)), 7), "goes back: LSN 5 comes after 6"),
        (Page((change(6, 0), change(6, 0)), 7), "goes back: LSN 6 comes after 6"),
        (Page((change(6, at(0x80)),), 7), "other keys"),
        (Page((change(6, 0),), 6), "says to read on from LSN 6"),
        (Page((), 4), "says to read on from LSN 4"),
        (Page(tuple(change(lsn, 0) for lsn in range(5, 9)), 9), "brought 4 changes, 3 were asked for"),
        (Page((change(21, 0),), 22), "ended at LSN 20, but has LSN 21"),
    ],
)
def test_a_page_that_was_not_asked_for_is_refused(page, fault):
    async def scenario():
        feed = forest()
        lineage = None
        feed.split("0")
        lineage = lineage_of(feed)
        tokens = [token_at("0", 5, HALVES[0]), token_at("1", 0, HALVES[1])]
        reader = await open_reader(feed, tokens=tokens, lineage=lineage, limit=3)

        async def read(*_):
            return page

        before = reader.checkpoint()
        reader._source.read = read
        with pytest.raises(HostileFeed, match=fault):
            await reader.step()
        assert reader.checkpoint() == before

    run_virtual(scenario())


def test_pages_without_end_or_content_are_refused():
    async def scenario():
        reader = await open_reader(
            forest(), tokens=[token_at("0", 5, HALVES[0]), token_at("1", 5, HALVES[1])]
        )

        async def read(*_):
            return Page((), 5)

        reader._source.read = read
        for _ in range(2000):
            await reader.step()
        with pytest.raises(HostileFeed, match="page after page"):
            await reader.step()

    run_virtual(scenario())


def test_a_feed_that_is_always_gone_but_always_has_news_is_refused():
    async def scenario():
        feed = SimulatedFeed()
        reader = await open_reader(feed)

        async def read(*_):
            name = feed.live[-1]
            feed._add(ALL_KEYS, 0, (name,), f"moved {feed.next_id}")
            feed.nodes[name].is_live = False
            feed._changed()
            return Gone(Why.MIGRATING)

        reader._source.read = read
        with pytest.raises(HostileFeed, match="times in a row"):
            await reader.step()

    run_virtual(scenario())


def test_a_first_listing_that_is_not_modified_is_refused():
    async def scenario():
        source = SimulatedFeed().source()

        async def ranges(_):
            return NotModified()

        source.ranges = ranges  # type: ignore[method-assign]
        with pytest.raises(HostileFeed, match="in its first answer"):
            await open_reader(SimulatedFeed(), source=source)

    run_virtual(scenario())


def test_a_range_that_the_cache_does_not_know_yet_is_looked_up():
    """The checkpoint is of a later generation than what another reader has left in the cache."""

    async def scenario():
        feed = seed_tree()
        cache = RouteCache(VirtualClock())
        older = await open_reader(feed, cache=cache)
        feed.split("4", at(0x60))
        feed.append(at(0x70))
        keys = between(0x60, 0x80)
        reader = await open_reader(feed, cache=cache, keys=keys, tokens=[token_at("6", 20001, keys)])
        cache._lineages[feed.id] = older.checkpoint().lineage
        reader._lineage = older.checkpoint().lineage
        assert [name for name, _ in await drain(reader)] == ["6"]
        assert reader.gone == 0

    run_virtual(scenario())


def test_a_range_that_nobody_knows_any_more_is_an_error():
    """The cache was filled after the feed had forgotten it, and there is no news."""

    async def scenario():
        feed = seed_tree()
        old = lineage_of(feed)
        for node in feed.nodes.values():
            node.ancestors -= {"0"}
        feed._changed()
        cache = RouteCache(VirtualClock())
        await drain(await open_reader(feed, cache=cache, keys=between(0, 0x80)))
        keys = between(0, 0x40)
        reader = await open_reader(feed, cache=cache, keys=keys, tokens=[token_at("0", 5, keys)], lineage=old)
        with pytest.raises(CheckpointExpired, match="does not know range 0 any more"):
            await reader.step()

    run_virtual(scenario())


def test_what_another_reader_has_learned_divides_tokens_at_once():
    async def scenario():
        feed = seed_tree()
        cache = RouteCache(VirtualClock())
        one, other = await open_reader(feed, cache=cache), await open_reader(feed, cache=cache)
        for reader in (one, other):
            await drain(reader)
        feed.split("4", at(0x60))
        feed.append(at(0x50))
        feed.append(at(0x70))
        assert len(await drain(one)) == len(await drain(other)) == 2
        assert (one.gone, other.gone) == (1, 0)

    run_virtual(scenario())


@pytest.mark.parametrize("limit", [1, 2, 5, 1000])
@pytest.mark.parametrize("page", [1, 3, 1000])
def test_readers_of_parts_bring_together_what_one_brings(limit, page):
    """Metamorphic: fused, divided in any way, and however small the pages are."""

    async def scenario():
        feed = seed_tree(every=500, page=page)
        feed.merge("3", "4")
        feed.append(at(0x20))
        cache = RouteCache(VirtualClock())
        whole = await drain(await open_reader(feed, cache=cache, limit=limit))
        check_order(whole, expected(feed))
        parts = []
        for keys in (between(0, 0x25), between(0x25, 0x60), between(0x60, 0x90), between(0x90, 0xFF)):
            parts += await drain(await open_reader(feed, cache=cache, keys=keys, limit=limit))
        check_order(parts, expected(feed))

    run_virtual(scenario())


def test_splits_that_come_earlier_change_nothing_for_a_key():
    """Metamorphic: the same changes, with the range split before, between and after them."""

    async def scenario():
        told = []
        for when in range(4):
            feed = SimulatedFeed()
            for number in range(3):
                if number == when:
                    feed.split("0")
                for first in range(0, 0xF0, 0x10):
                    feed.append(at(first), f"{first}.{number}")
            found = await drain(await open_reader(feed, limit=4))
            paths: dict[int, list[str]] = {}
            for _, one in found:
                paths.setdefault(one.key, []).append(one.path)
            told.append(paths)
        assert told == told[:1] * 4
        assert len(told[0]) == 15

    run_virtual(scenario())


def test_ranges_are_read_at_the_same_time():
    """64 ranges, 50 ms away: as many round trips as there are groups that the source allows."""

    async def read():
        feed = SimulatedFeed()
        for _ in range(6):
            for name in feed.live:
                feed.split(name)
        clock = VirtualClock()
        source = feed.source(clock, 0.05)
        source.reads_at_once = 16
        reader = await Reader.open(source, RouteCache(clock), clock)
        await drain(reader, together=True)
        for name in feed.live:
            feed.fill(name, 5)
        source.reads.clear()
        began_s = clock.monotonic()
        found = await drain(reader, together=True)
        assert len(found) == len(feed.written)
        return clock.monotonic() - began_s, len(source.reads)

    seconds, reads = run_virtual(read())
    assert reads == 2 * 64  # a page of each, and a round without news
    assert seconds == pytest.approx(2 * 4 * 0.05)


def test_a_round_without_news_looks_at_no_list_of_ranges():
    """With thousands of ranges, a look at all of them for each would take minutes."""

    class Watched(tuple[Range, ...]):
        looks = 0

        def __iter__(self):
            Watched.looks += 1
            return super().__iter__()

    async def read():
        feed = SimulatedFeed()
        for _ in range(3):
            for name in feed.live:
                feed.split(name)
        reader = await open_reader(feed)
        await drain(reader, together=True)
        for together in (False, True):
            lineage = replace(reader._lineage, live=Watched(reader._lineage.live))
            reader._lineage = reader._cache._lineages[lineage.feed] = lineage
            await drain(reader, together=together)  # the indexes are made
            Watched.looks = 0
            await drain(reader, together=together)
            assert Watched.looks == 0

    run_virtual(read())


def test_pages_with_many_changes_are_not_all_in_memory():
    """No further request is sent once a limit of changes has come."""

    async def read():
        feed = SimulatedFeed()
        for name in list(feed.live):
            feed.split(name)
        for name in list(feed.live):
            feed.split(name)
        reader = await open_reader(feed, limit=10)
        await drain(reader, together=True)
        for name in feed.live:
            feed.fill(name, 9)
        reader._source.reads_at_once = 2
        reader._source.reads.clear()
        return len(await reader.steps()), len(reader._source.reads)

    assert run_virtual(read()) == (2, 2)


def test_a_failing_range_takes_the_place_of_its_step():
    """The others are read; a fault of the feed itself is raised once nothing else is there to be done."""

    async def read():
        feed = SimulatedFeed()
        low, high = feed.split("0")
        reader = await open_reader(feed)
        await drain(reader, together=True)
        feed.fill(low, 3)
        feed.fill(high, 3)
        feed.down = {high}
        first = await reader.steps()
        feed.down = set()
        return [type(step).__name__ for step in first], await drain(reader, together=True)

    kinds, later = run_virtual(read())
    assert sorted(kinds) == ["ReadStep", "Transient"]
    assert {name for name, _ in later} == {"2"}
