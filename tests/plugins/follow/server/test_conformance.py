"""The reference's rows C1 to C25, by number. A ``ck`` is the last LSN read; a token holds the next one."""

import asyncio
from dataclasses import asdict
from itertools import pairwise

import pytest

from cfetch.base.errors import CheckpointExpired, FeedError, FeedReplaced, HostileFeed, Transient
from cfetch.base.virtual_clock import VirtualClock, run_virtual
from cfetch.plugins.follow.cache import RouteCache
from cfetch.plugins.follow.lineage import check_ranges, grow_lineage
from cfetch.plugins.follow.ranges import ALL_KEYS, Position, Range
from cfetch.plugins.follow.route import explain_token, make_first_tokens, route, settle_token
from cfetch.plugins.follow.source import Gone, NotModified, Ranges, Why
from tests.plugins.follow.reader_world import check_order, drain, expected, lineage_of, open_reader, token_at
from tests.plugins.follow.simulator import SimulatedFeed, at, between, ealsur_tree, seed_tree

LEAVES = {"2": between(0x80, 0xFF), "3": between(0, 0x40), "4": between(0x40, 0x80)}


def virtual(scenario):
    """The test runs on virtual time."""

    def test():
        run_virtual(scenario())

    test.__name__ = scenario.__name__
    test.__doc__ = scenario.__doc__
    return test


def routed(lineage, leaf, ck):
    """(range, via, whether archival) for a leaf whose reader has read ``ck``, and its keys unchanged."""
    (token,) = settle_token(lineage, token_at(leaf, ck + 1, LEAVES[leaf]))
    way = route(lineage, token)
    assert way.keys == LEAVES[leaf]
    assert way.position.next_lsn == ck + 1
    return way.position.range, way.via, way.is_archival


def asked(reader):
    """The reads that a reader's source was asked for: (range, via, keys), repeats left out."""
    found = [(position.range, via, keys) for via, position, keys, _ in reader._source.reads]
    return [one for number, one in enumerate(found) if number == 0 or found[number - 1] != one]


def gones(reader):
    return sum(isinstance(answer, Gone) for *_, answer in reader._source.reads)


@virtual
async def test_row_c1_an_early_lsn_of_leaf_2_is_in_the_root():
    """By its number; a reader without a checkpoint begins there."""
    lineage = lineage_of(seed_tree())
    assert routed(lineage, "2", 4999) == ("0", "2", True)
    (token,) = make_first_tokens(lineage, LEAVES["2"])
    way = route(lineage, token)
    assert (way.position.range, way.via, way.keys) == ("0", "2", LEAVES["2"])


@virtual
async def test_row_c2_an_lsn_of_its_own_passes_through():
    assert routed(lineage_of(seed_tree()), "2", 5000) == ("2", "2", False)


@virtual
async def test_row_c3_both_ends_of_each_interval_of_leaf_3():
    lineage = lineage_of(seed_tree())
    found = [routed(lineage, "3", ck) for ck in (4999, 5000, 7499, 7500)]
    assert found == [("0", "2", True), ("1", "4", True), ("1", "4", True), ("3", "3", False)]


@virtual
async def test_row_c4_leaf_4_drains_its_ancestors_in_order():
    feed = seed_tree()
    reader = await open_reader(feed, keys=LEAVES["4"], tokens=[token_at("0", 3001, LEAVES["4"])])
    found = await drain(reader)
    assert asked(reader) == [("0", "2", LEAVES["4"]), ("1", "4", LEAVES["4"]), ("4", "4", LEAVES["4"])]
    wanted = [one for one in expected(feed, LEAVES["4"]) if one[0] != "0" or one[1].lsn >= 3001]
    assert found == wanted
    assert wanted
    assert reader.checkpoint().tokens[0].position == Position("4", 20001)


@virtual
async def test_row_c5_a_live_range_has_no_last_lsn():
    feed = seed_tree()
    lineage = lineage_of(feed)
    feed.fill("3", 20100, 10)
    assert routed(lineage, "3", 20000) == ("3", "3", False)


@virtual
async def test_row_c6_a_gone_range_is_divided_among_its_children():
    feed = SimulatedFeed()
    feed.fill("0", 5000, 100)
    feed.split("0", at(0x80))
    feed.fill("1", 7500, 50)
    before = lineage_of(feed)
    feed.split("1", at(0x40))
    keys = between(0, 0x80)
    reader = await open_reader(feed, keys=keys, tokens=[token_at("1", 6001, keys)], lineage=before, limit=5)
    step = await reader.step()
    assert (step.range, step.keys) == ("1", LEAVES["3"])
    assert reader._source.reads[0][3] == Gone(Why.RANGE_GONE)
    tokens = reader.checkpoint().tokens
    assert [one.keys for one in tokens] == [LEAVES["3"], LEAVES["4"]]
    assert tokens[0].position == Position("1", step.changes[-1].lsn + 1)
    assert tokens[1].position == Position("1", 6001)
    found = [("1", one) for one in step.changes] + await drain(reader)
    check_order(found, [one for one in expected(feed, keys) if one[1].lsn >= 6001])


@virtual
async def test_row_c7_a_gone_root_and_nothing_known():
    """The tree is made from the leaves; together they bring everything once."""
    feed = seed_tree()
    token = token_at("0", 0, ALL_KEYS, is_new=True)
    listing = Ranges(feed.id, "0", (Range("0", ALL_KEYS),))
    reader = await open_reader(feed, tokens=[token], lineage=grow_lineage(None, listing, {}))
    check_order(await drain(reader), expected(feed))
    assert gones(reader) == 1
    assert sorted(reader._source.infos) == ["0", "1"]


async def c8():
    """Readers of each leaf that have read everything; then 4 splits at 20000."""
    feed = seed_tree()
    cache = RouteCache(VirtualClock())
    readers = [
        await open_reader(feed, cache=cache, keys=keys, tokens=[token_at(leaf, feed.nodes[leaf].head, keys)])
        for leaf, keys in LEAVES.items()
    ]
    for reader in readers:
        assert await drain(reader) == []
    feed.split("4", at(0x60), last=20000)
    return feed, cache, readers


@virtual
async def test_row_c8_one_refresh_asks_only_for_what_is_new():
    feed, cache, readers = await c8()
    before = asdict(cache.counts)
    feed.append(at(0x50))
    feed.append(at(0x70))
    found = await drain(readers[2])
    assert [(name, one.lsn) for name, one in found] == [("5", 20001), ("6", 20001)]
    assert cache.counts.refreshes - before["refreshes"] == 1
    assert readers[2]._source.infos == ["4"]  # one request, where asking both children would be two
    lineage = readers[2].checkpoint().lineage
    way = route(lineage, token_at("4", 7501, LEAVES["4"]))
    assert (way.via, way.is_archival) == ("6", True)
    assert [lineage.first_lsn(one) for one in ("5", "6")] == [20001, 20001]
    assert lineage.closed["4"].last == 20000


@virtual
async def test_row_c9_fifty_readers_are_told_and_one_asks():
    feed, cache, _ = await c8()
    lineage = grow_lineage(None, feed.before, {name: feed.nodes[name].span for name in "01"})
    readers = [
        await open_reader(
            feed,
            cache=cache,
            keys=LEAVES["4"],
            tokens=[token_at("4", 20001, LEAVES["4"])],
            lineage=lineage,
            source=feed.source(VirtualClock(), 0.02),
        )
        for _ in range(50)
    ]
    await asyncio.gather(*(reader.step() for reader in readers))
    assert cache.counts.refreshes == 1
    assert cache.counts.stale == 50
    assert sum(reader._source.listings for reader in readers) == 50 + 1
    for reader in readers:
        (gone, again) = reader._source.reads
        assert gone[0] == "4"
        assert gone[3] == Gone(Why.RANGE_GONE)
        assert again[0] == "5"
        assert again[3] == NotModified()


@virtual
async def test_row_c10_a_refresh_that_fails_changes_nothing():
    feed, cache, (two, three, four) = await c8()
    before = cache._lineages[feed.id]

    async def refuse(method):
        if method == "ranges":
            raise Transient("no answer in time")

    four._source.refuse = refuse
    with pytest.raises(Transient):
        await four.step()
    assert cache._lineages[feed.id] is before
    feed.append(at(0x90))
    feed.append(at(0x10))
    assert len(await drain(two)) == len(await drain(three)) == 1
    assert gones(two) == gones(three) == 0
    four._source.refuse = None
    feed.append(at(0x50))
    assert [name for name, _ in await drain(four)] == ["5"]


@virtual
async def test_row_c11_a_map_from_before_a_split_is_not_served_after_it():
    """The author's own counter-example: what was built for range 2 still says 0 -> 1, 2 after 2 has split."""
    feed = SimulatedFeed()
    feed.split("0", at(0x80), last=10)
    cache = RouteCache(VirtualClock())
    old = await open_reader(feed, cache=cache, keys=LEAVES["2"])
    await drain(old)
    assert {one.id for one in cache._lineages[feed.id].live} == {"1", "2"}
    feed.split("2", at(0xC0), last=20)
    feed.append(at(0xF0))
    check_order(await drain(old), expected(feed, LEAVES["2"]))
    for keys in (LEAVES["2"], between(0, 0x80)):
        reader = await open_reader(feed, cache=cache, keys=keys)
        await drain(reader)
        assert {one.id for one in reader.checkpoint().lineage.live} == {"1", "3", "4"}
        assert gones(reader) == 0
    assert cache.feeds == 1


@virtual
async def test_row_c12_splits_of_splits_are_walked_from_the_root():
    feed = ealsur_tree()
    keys = between(0x80, 0xC0)
    reader = await open_reader(feed, keys=keys, tokens=[token_at("3", 500, keys)])
    found = await drain(reader)
    assert asked(reader) == [("0", "4", keys), ("2", "4", keys), ("3", "3", keys)]
    assert found == [one for one in expected(feed, keys) if one[0] != "0" or one[1].lsn >= 500]
    lineage = lineage_of(feed)
    assert [route(lineage, token_at(name, 1, ALL_KEYS)).via for name in ("0", "1", "2")] == ["4", "6", "4"]


@pytest.mark.parametrize("roots", [(ALL_KEYS,), (between(0, 0x40), between(0x40, 0xFF))], ids=["A", "C"])
def test_row_c13_a_feed_that_never_split_builds_nothing(roots):
    async def scenario():
        feed = SimulatedFeed(roots=roots)
        for name in feed.live:
            feed.fill(name, 500, 10)
        cache = RouteCache(VirtualClock())
        reader = await open_reader(feed, cache=cache, limit=7)
        check_order(await drain(reader), expected(feed))
        assert reader._source.infos == []
        assert cache.feeds == 0
        assert set(asdict(cache.counts).values()) == {0}

    run_virtual(scenario())


@virtual
async def test_row_c14_in_a_forest_a_tree_is_left_alone_by_readers_of_another():
    feed = SimulatedFeed(roots=(between(0, 0x80), between(0x80, 0xFF)))
    for name in feed.live:
        feed.fill(name, 100, 10)
    lineage = lineage_of(feed)
    feed.split("0", at(0x40))
    keys = between(0x80, 0xFF)
    cache = RouteCache(VirtualClock())
    reader = await open_reader(feed, cache=cache, keys=keys, tokens=[token_at("1", 0, keys)], lineage=lineage)
    assert await drain(reader) == expected(feed, keys)
    assert reader._source.infos == []
    assert asked(reader) == [("1", "1", keys)]
    assert (cache.feeds, cache.counts.builds) == (0, 0)
    lineage = lineage_of(feed)
    for leaf, keys in (("2", between(0, 0x40)), ("3", between(0x40, 0x80))):
        (token,) = settle_token(lineage, token_at(leaf, 50, keys))
        assert route(lineage, token)[:2] == ("3", Position("0", 50))


@pytest.mark.parametrize("limit", [1, 3, 7, 1000])
def test_row_c15_without_the_cache_the_same_at_a_higher_price(limit):
    async def read(*, enabled):
        cache = RouteCache(VirtualClock(), enabled=enabled)
        reader = await open_reader(seed_tree(), cache=cache, limit=limit)
        return await drain(reader), cache.counts

    async def scenario():
        (with_cache, on), (without, off) = await read(enabled=True), await read(enabled=False)
        assert with_cache == without
        check_order(with_cache, expected(seed_tree()))
        assert on.info_requests == 2 < off.info_requests
        assert on.info_requests_saved == off.info_requests - 2 or limit == 1000
        assert (off.hits, off.builds, off.refreshes, off.info_requests_saved) == (0, 0, 0, 0)

    run_virtual(scenario())


@pytest.mark.parametrize("limit", [1, 3, 1000])
def test_the_requests_saved_are_those_that_a_server_would_have_counted(limit):
    """Also of a reader that asks for several ranges at once: a read that turns out alone counts once."""

    async def read(*, enabled):
        cache = RouteCache(VirtualClock(), enabled=enabled)
        reader = await open_reader(seed_tree(), cache=cache, limit=limit)
        reader._source.reads_at_once = 8
        for _ in range(3):
            await drain(reader, together=True)
        return len(reader._source.infos), cache.counts

    async def scenario():
        (asked, counts), (without, _) = await read(enabled=True), await read(enabled=False)
        assert counts.info_requests_saved == without - asked > 0

    run_virtual(scenario())


@virtual
async def test_row_c16_a_feed_made_anew_is_not_one_without_changes():
    feed = seed_tree()
    tokens = [token_at("2", 10001, LEAVES["2"])]
    lineage = lineage_of(feed)
    reader = await open_reader(feed, keys=LEAVES["2"], tokens=tokens, lineage=lineage)
    feed.recreate()
    feed.split("0", at(0x80))
    with pytest.raises(FeedReplaced, match="another feed"):
        await reader.step()
    with pytest.raises(FeedReplaced, match="made anew"):
        await open_reader(feed, keys=LEAVES["2"], tokens=tokens, lineage=lineage)


@virtual
async def test_row_c17_children_are_clamped_to_the_tokens_keys():
    feed = SimulatedFeed()
    feed.fill("0", 100, 1)
    before = lineage_of(feed)
    feed.split("0", at(0x40))
    keys = between(0x20, 0x60)
    reader = await open_reader(feed, keys=keys, tokens=[token_at("0", 50, keys)], lineage=before, limit=1)
    await reader.step()
    tokens = reader.checkpoint().tokens
    assert [one.keys for one in tokens] == [between(0x20, 0x40), between(0x40, 0x60)]


@pytest.mark.parametrize("ranges", [2, 3])
def test_row_c18_a_split_in_a_round_adds_its_children_in_place(ranges):
    async def scenario():
        edges = [0, 0x40, 0x80][:ranges]
        roots = [between(low, high) for low, high in pairwise([*edges, 0xFF])]
        feed = SimulatedFeed(roots=roots)
        before = lineage_of(feed)
        tokens = [token_at(str(number), 0, keys) for number, keys in enumerate(roots)]
        feed.split("1")
        reader = await open_reader(feed, tokens=tokens, lineage=before)
        for _ in range(ranges + 1):
            assert not reader.is_at_end
            await reader.step()
        assert reader.is_at_end
        first, second = str(ranges), str(ranges + 1)
        quiet = [via for via, _, _, answer in reader._source.reads if answer == NotModified()]
        assert quiet == ["0", first, second, *(str(number) for number in range(2, ranges))]
        assert len(reader._source.reads) == len(quiet) + 1

    run_virtual(scenario())


def merged_feed():
    feed = seed_tree()
    lineage = lineage_of(feed)
    feed.merge("3", "4")
    feed.append(at(0x20))
    feed.append(at(0x60))
    return feed, lineage


@pytest.mark.parametrize("grows", [True, False], ids=["seen live", "seen merged"])
def test_row_c19_a_merge_keeps_a_token_for_each_parent(grows):
    async def scenario():
        feed, lineage = merged_feed()
        lineage = lineage if grows else lineage_of(feed)
        tokens = [token_at("3", 9001, LEAVES["3"]), token_at("4", 8001, LEAVES["4"])]
        keys = between(0, 0x80)
        reader = await open_reader(feed, keys=keys, tokens=tokens, lineage=lineage, limit=3)
        found = []
        for _ in range(4):
            step = await reader.step()
            found += [(step.range, change) for change in step.changes]
            assert [one.keys for one in reader.checkpoint().tokens] == [LEAVES["3"], LEAVES["4"]]
        found += await drain(reader)
        after = {"3": 9001, "4": 8001, "5": 20001}
        wanted = [one for one in expected(feed, keys) if one[1].lsn >= after.get(one[0], 1 << 200)]
        check_order(found, wanted)
        assert any(name == "4" and 8000 < one.lsn <= 9000 for name, one in found)
        assert feed.nodes["5"].first == 20001
        assert [one.keys for one in reader.checkpoint().tokens] == [keys]  # at one place: one token again

    run_virtual(scenario())


@virtual
async def test_row_c20_one_number_for_two_ranges_loses_or_repeats():
    """What the tokens are there for: each scalar in their place is wrong, and the lookup refuses it."""
    feed, _ = merged_feed()
    keys = between(0, 0x80)
    after = {"3": 9001, "4": 8001, "5": 20001}
    wanted = {(name, one.lsn) for name, one in expected(feed, keys) if one.lsn >= after.get(name, 1 << 200)}
    for scalar, is_lost, is_repeated in ((9001, True, False), (8001, False, True)):
        read = {(name, one.lsn) for name, one in expected(feed, keys) if one.lsn >= scalar}
        assert bool(wanted - read) == is_lost
        assert bool(read - wanted) == is_repeated
    with pytest.raises(FeedError, match="several ranges that merged own it"):
        settle_token(lineage_of(feed), token_at("5", 9001, keys))


@virtual
async def test_row_c21_a_range_that_is_listed_twice_counts_once():
    feed = seed_tree()
    *most, last = feed.present.ranges
    parent = Range("1", feed.nodes["1"].keys, feed.nodes["1"].ancestors)
    listed = (last._replace(keys=between(0x40, 0x41)), *most, last, parent)
    feed.present = feed.present._replace(ranges=listed)
    assert [one.id for one in check_ranges(feed.present.ranges)] == ["3", "4", "2"]
    check_order(await drain(await open_reader(feed)), expected(feed))


@pytest.mark.parametrize("fault", ["gap", "overlap", "none"])
@pytest.mark.parametrize("lasts", [False, True], ids=["for a moment", "for good"])
def test_row_c22_a_listing_with_a_gap_or_an_overlap_is_asked_for_again(fault, lasts):
    async def scenario():
        feed, cache, readers = await c8()
        good = feed.present
        four, five, *rest = sorted(good.ranges, key=lambda one: one.id, reverse=True)
        wide = five._replace(keys=between(0x50, 0x80))
        feed.present = good._replace(
            ranges={"gap": (five, *rest), "overlap": (four, wide, *rest), "none": ()}[fault]
        )

        async def heal(method):
            if method == "ranges" and not lasts and asyncio.get_running_loop().time() > 1:
                feed.present = good

        readers[2]._source.refuse = heal
        before = cache._lineages[feed.id]
        if lasts:
            with pytest.raises(HostileFeed, match=r"gap|overlap|do not|end before"):
                await readers[2].step()
            assert cache._lineages[feed.id] is before
            assert readers[2]._source.listings == 1 + 4
        else:
            await readers[2].step()
            assert readers[2]._source.listings > 2
        assert len(cache._lineages[feed.id].live) == (3 if lasts else 4)

    run_virtual(scenario())


@virtual
async def test_row_c23_gone_without_news_is_asked_again_three_times():
    feed = SimulatedFeed(roots=(between(0, 0x80), between(0x80, 0xFF)))
    feed.append(at(0x10))
    feed.append(at(0x90))
    reader = await open_reader(
        feed, tokens=[token_at("0", 0, between(0, 0x80)), token_at("1", 0, LEAVES["2"])]
    )
    await reader.step()
    feed.splitting = 4
    began_s = asyncio.get_running_loop().time()
    with pytest.raises(Transient, match="is said to be gone"):
        await reader.step()
    assert asyncio.get_running_loop().time() - began_s == 1 + 2 + 4
    assert reader.gone == 4
    assert [one.position for one in reader.checkpoint().tokens] == [Position("0", 1), Position("1", 0)]
    check_order([("0", feed.written[0][2]), *await drain(reader)], expected(feed))
    feed.append(at(0x20))
    feed.splitting = 3
    assert [one.lsn for _, one in await drain(reader)] == [1]


@virtual
async def test_row_c24_another_archive_is_asked_when_one_is_down():
    feed = seed_tree()
    cache = RouteCache(VirtualClock())
    feed.down = {"2"}
    reader = await open_reader(feed, cache=cache, keys=LEAVES["3"])
    check_order(await drain(reader), expected(feed, LEAVES["3"]))
    assert [via for via, position, *_ in reader._source.reads if position.range == "0"] == ["2", "4"]
    feed.down = {"2", "4", "3"}
    reader = await open_reader(feed, cache=cache, keys=LEAVES["3"])
    with pytest.raises(Transient):
        await reader.step()
    assert reader.checkpoint().tokens == make_first_tokens(lineage_of(feed), LEAVES["3"])


@virtual
async def test_row_c25_what_is_not_kept_any_more_is_an_error():
    feed = seed_tree()
    feed.retire("0", 3001)
    tokens = [token_at("0", 3000, LEAVES["2"])]
    with pytest.raises(CheckpointExpired):
        await (await open_reader(feed, keys=LEAVES["2"], tokens=tokens)).step()
    found = await drain(await open_reader(feed, keys=LEAVES["2"]))
    assert found == [one for one in expected(feed, LEAVES["2"]) if one[0] != "0" or one[1].lsn > 3000]
    feed.retire("0", 5001)
    feed.retire("2", 6000)
    found = await drain(await open_reader(feed, keys=LEAVES["2"]))
    assert found == [one for one in expected(feed, LEAVES["2"]) if one[0] == "2" and one[1].lsn >= 6000]
    forgotten = Ranges(feed.id, "old", (Range("long ago", ALL_KEYS),))
    reader = await open_reader(
        feed, tokens=[token_at("long ago", 5, ALL_KEYS)], lineage=grow_lineage(None, forgotten, {})
    )
    with pytest.raises(CheckpointExpired, match="does not know range long ago any more"):
        await reader.step()


@virtual
async def test_a_route_is_told_in_words():
    """For ``feed explain``: from a checkpoint alone."""
    lineage = lineage_of(seed_tree())
    assert explain_token(lineage, token_at("3", 4999, LEAVES["3"])) == [
        "Range 0 holds LSN 4999 (0 to 5000), archived by 2, 4, 3; 2 is asked; keys 0 to 4",
        "  then, for keys 0 to 4: 1, 3",
    ]
    assert explain_token(lineage, token_at("2", 7000, LEAVES["2"])) == [
        "Range 2 holds LSN 7000 (from 5001 on), is live and is asked itself; keys 8 to the end"
    ]
