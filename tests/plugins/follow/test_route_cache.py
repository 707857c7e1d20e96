"""One refresh at a time, failures that harm nobody, bounds, and what is told of it."""

import asyncio

import pytest

from cfetch.base.errors import HostileFeed, Transient
from cfetch.base.events import RouteEvent
from cfetch.base.virtual_clock import VirtualClock, run_virtual
from cfetch.plugins.follow.cache import RouteCache
from cfetch.plugins.follow.lineage import grow_lineage
from cfetch.plugins.follow.ranges import Span
from tests.plugins.follow.reader_world import drain, lineage_of, open_reader, token_at
from tests.plugins.follow.simulator import SimulatedFeed, at, between, seed_tree


def of_split_feed():
    """A cache, a lineage from before the last split, and the feed."""
    feed = seed_tree()
    stale = lineage_of(feed)
    feed.split("4", at(0x60))
    return RouteCache(VirtualClock()), stale, feed


def test_a_caller_who_is_cancelled_does_not_fail_the_others():
    async def scenario():
        cache, stale, feed = of_split_feed()
        source = feed.source(VirtualClock(), 1.0)
        callers = [asyncio.create_task(cache.beyond(source, stale)) for _ in range(3)]
        await asyncio.sleep(0.5)
        callers[0].cancel()
        found = await asyncio.gather(*callers, return_exceptions=True)
        assert isinstance(found[0], asyncio.CancelledError)
        assert found[1] is found[2] is cache._lineages[feed.id]
        assert cache._lineages[feed.id].generation == feed.present.etag
        assert source.listings == 1

    run_virtual(scenario())


def test_when_all_callers_have_gone_nothing_goes_on():
    async def scenario():
        cache, stale, feed = of_split_feed()
        source = feed.source(VirtualClock(), 1.0)
        caller = asyncio.create_task(cache.beyond(source, stale))
        await asyncio.sleep(0.5)
        caller.cancel()
        with pytest.raises(asyncio.CancelledError):
            await caller
        await asyncio.sleep(5)
        assert (source.listings, source.infos, cache.counts.builds) == (1, [], 0)
        assert (await cache.beyond(source, stale)).generation == feed.present.etag

    run_virtual(scenario())


def test_those_who_come_after_a_failure_have_a_try_of_their_own():
    async def scenario():
        cache, stale, feed = of_split_feed()
        source = feed.source(VirtualClock(), 1.0)
        feed.lost = (Dice(), 0.5)
        found = await asyncio.gather(*(cache.beyond(source, stale) for _ in range(3)), return_exceptions=True)
        assert [type(one) for one in found] == [Transient] * 3
        assert (cache.feeds, source.listings) == (0, 1)
        assert (await cache.beyond(source, stale)).generation == feed.present.etag
        assert source.listings == 2

    run_virtual(scenario())


class Dice:
    """The first reply is lost."""

    def __init__(self):
        self.thrown = 0

    def random(self):
        self.thrown += 1
        return 0.0 if self.thrown == 1 else 1.0


def test_who_comes_late_gets_what_another_has_found():
    async def scenario():
        cache, stale, feed = of_split_feed()
        source = feed.source()
        newer = await cache.beyond(source, stale)
        assert await cache.beyond(source, stale) is newer
        assert source.listings == 1
        assert await cache.beyond(source, newer) is newer  # nothing new: 304
        assert (source.listings, source.infos) == (2, ["4"])

    run_virtual(scenario())


def test_a_newer_checkpoint_teaches_an_older_cache():
    async def scenario():
        cache, stale, feed = of_split_feed()
        source = feed.source()
        assert await cache.current(source, stale) is stale
        newer = lineage_of(feed)
        assert await cache.current(source, newer) is newer
        assert await cache.current(source, stale) is newer
        assert source.listings == 0

    run_virtual(scenario())


def test_the_least_recently_used_feed_gives_way():
    async def scenario():
        cache = RouteCache(VirtualClock(), feeds=2)
        feeds = []
        for number in range(3):
            feed = seed_tree(every=5000)
            feed.id = feed.id._replace(id=f"feed {number}")
            feed._changed()
            feeds.append((feed.source(), lineage_of(feed)))
        for number in (0, 1, 0, 2):
            await cache.current(*feeds[number])
        assert [one.id for one in cache._lineages] == ["feed 0", "feed 2"]
        assert cache.feeds == 2

    run_virtual(scenario())


def test_every_look_is_told():
    async def scenario():
        told: list[RouteEvent] = []
        cache = RouteCache(VirtualClock(), listener=told.append)  # type: ignore[arg-type]
        feed = SimulatedFeed()
        feed.fill("0", 10)
        reader = await open_reader(feed, cache=cache)
        await drain(reader)
        assert told == []
        feed.split("0", at(0x80))
        await drain(reader)
        assert [one.what for one in told[:4]] == ["stale", "miss", "build", "hit"]
        assert {one.what for one in told[4:]} == {"hit"}
        del told[:]
        feed.split("2", at(0xC0))
        await drain(reader)
        assert [one.what for one in told if one.what != "hit"] == ["stale", "refresh"]
        assert told[-1].requests == 2
        assert {one.feed for one in told} == {"feed-1"}
        assert told[-1].generation == feed.present.etag
        counts = cache.counts
        assert (counts.builds, counts.refreshes, counts.misses, counts.stale) == (1, 1, 1, 2)
        assert counts.info_requests_saved > counts.info_requests == 2

    run_virtual(scenario())


def test_without_the_cache_a_changed_past_is_found_out():
    """Asked anew at every read, a span that was another before is a fork."""

    async def scenario():
        feed = seed_tree()
        cache = RouteCache(VirtualClock(), enabled=False)
        reader = await open_reader(feed, cache=cache)
        await reader.step()
        feed.nodes["0"].head += 1
        with pytest.raises(HostileFeed, match="forks"):
            await reader.step()

    run_virtual(scenario())


def test_without_the_cache_a_range_that_is_gone_is_looked_up_too():
    async def scenario():
        cache, stale, feed = of_split_feed()
        cache = RouteCache(VirtualClock(), enabled=False)
        source = feed.source()
        assert (await cache.current(source, stale)).generation == feed.present.etag
        assert cache.feeds == 0

    run_virtual(scenario())


def test_an_archive_that_is_down_does_not_keep_a_lineage_from_being_made():
    async def scenario():
        feed = seed_tree()
        feed.down = {"2", "4"}
        source = feed.source()
        lineage = await RouteCache(VirtualClock()).begin(source, feed.present)
        assert lineage == lineage_of(feed)
        assert sorted(source.infos) == ["0", "0", "0", "1", "1"]
        feed.down = {"2", "3", "4"}
        with pytest.raises(Transient):
            await RouteCache(VirtualClock()).begin(source, feed.present)

    run_virtual(scenario())


def test_many_ends_are_asked_for_in_few_round_trips():
    async def scenario():
        feed = SimulatedFeed()
        for _ in range(5):
            for name in feed.live:
                feed.split(name)
        loop = asyncio.get_running_loop()
        await RouteCache(VirtualClock()).begin(feed.source(VirtualClock(), 1.0), feed.present)
        assert loop.time() == pytest.approx(2)  # 31 ends, 16 at once
        return feed

    run_virtual(scenario())


def test_a_split_while_the_lineage_is_being_made():
    async def scenario():
        cache, stale, feed = of_split_feed()
        source = feed.source(VirtualClock(), 1.0)

        async def split_again(method):
            if method == "info" and "6" in feed.live:
                feed.split("6", at(0x70))

        source.refuse = split_again
        lineage = await cache.beyond(source, stale)
        assert lineage == grow_lineage(stale, feed.present, {one: feed.nodes[one].span for one in ("4", "6")})

    run_virtual(scenario())


def test_a_reader_with_little_of_the_feed_shares_the_whole_lineage():
    async def scenario():
        feed = seed_tree()
        cache = RouteCache(VirtualClock())
        first = await open_reader(feed, cache=cache, keys=between(0, 1))
        second = await open_reader(feed, cache=cache, tokens=[token_at("0", 5, between(0, 0xFF))])
        assert first.checkpoint().lineage is (await cache.current(first._source, second.checkpoint().lineage))
        assert first.checkpoint().lineage.closed["0"].last == Span(0, 5000).last

    run_virtual(scenario())
