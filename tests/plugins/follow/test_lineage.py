"""What a lineage takes for true, and what it refuses."""

import random

import pytest

from cfetch.base.errors import CheckpointExpired, FeedReplaced, HostileFeed
from cfetch.plugins.follow.lineage import check_ranges, grow_lineage, list_closed_ids
from cfetch.plugins.follow.ranges import ALL_KEYS, KeyRange, Position, Range, Span
from cfetch.plugins.follow.route import make_first_tokens, settle_token
from cfetch.plugins.follow.source import FeedId, Ranges
from tests.plugins.follow.reader_world import lineage_of, token_at
from tests.plugins.follow.simulator import SimulatedFeed, at, between, ealsur_tree, seed_tree


def live(name, low, high, *ancestors):
    return Range(name, between(low, high), frozenset(ancestors))


SEED = (live("2", 0x80, 0xFF, "0"), live("4", 0x40, 0x80, "0", "1"), live("3", 0, 0x40, "1", "0"))
SPANS = {"0": Span(0, 5000), "1": Span(5001, 7500)}
FEED = FeedId("https://feeds.example", "one")


def listing(*ranges, etag="a"):
    return Ranges(FEED, etag, ranges)


def test_keys_and_order_come_from_a_flat_list():
    lineage = grow_lineage(None, listing(*SEED), SPANS)
    assert [one.id for one in lineage.live] == ["3", "4", "2"]
    assert {name: one.keys for name, one in lineage.closed.items()} == {
        "0": ALL_KEYS,
        "1": between(0, 0x80),
    }
    three, _, two = lineage.live
    assert lineage.path(three, three.keys) == ("0", "1", "3")
    assert lineage.path(two, two.keys) == ("0", "2")
    assert [lineage.first_lsn(name) for name in "01234"] == [0, 5001, 5001, 7501, 7501]


def test_only_the_ends_of_closed_ranges_are_asked_for():
    assert list_closed_ids(SEED, None) == ("0", "1")
    assert list_closed_ids(SEED, grow_lineage(None, listing(*SEED), SPANS)) == ()
    feed = seed_tree()
    known = lineage_of(feed)
    feed.split("4")
    assert list_closed_ids(feed.present.ranges, known) == ("4",)


@pytest.mark.parametrize(
    ("ranges", "fault"),
    [
        ((), "end before the last key"),
        ((live("a", 0, 0x80),), "end before the last key"),
        ((live("a", 0x10, 0xFF),), "gap before range a"),
        ((live("a", 0, 0x40), live("b", 0x41, 0xFF)), "gap before range b"),
        ((live("a", 0, 0x41), live("b", 0x40, 0xFF)), "overlap before range b"),
        ((live("a", 0, 0xFF), live("b", 0, 0xFF)), "overlap before range b"),
        ((live("a", 0, 0), live("b", 0, 0xFF)), "overlap before range a"),
        ((live("a", 0, 0x80, "b"), live("b", 0x80, 0xFF, "a")), "end before the last key"),
        ((live("a", 0, 0xFF, "a"),), "end before the last key"),
    ],
)
def test_live_ranges_cover_all_keys_once(ranges, fault):
    with pytest.raises(HostileFeed, match=fault):
        check_ranges(ranges)


@pytest.mark.parametrize(
    ("spans", "fault"),
    [
        ({"0": Span(0, 5000)}, "the feed does not say which LSNs range 1 had"),
        ({"0": Span(0, 5000), "1": Span(5001, None)}, "range 1 has ended, but"),
        ({"0": Span(0, 5000), "1": Span(5001, 4999)}, "range 1 has ended, but"),
        ({"0": Span(-1, 5000), "1": Span(5001, 7500)}, "range 0 has ended, but"),
        ({"0": Span(0, 5000), "1": Span(5002, 7500)}, "range 1 begins at LSN 5002"),
        ({"0": Span(0, 5000), "1": Span(5000, 7500)}, "range 1 begins at LSN 5000"),
        ({"0": Span(0, 5000), "1": Span(0, 7500)}, "begins at LSN 0"),
    ],
)
def test_a_child_begins_where_its_parent_ended(spans, fault):
    with pytest.raises(HostileFeed, match=fault):
        grow_lineage(None, listing(*SEED), spans)


@pytest.mark.parametrize(
    ("ranges", "spans", "fault"),
    [
        ((live("0", 0, 0xFF),), {}, "goes back: range 0"),
        ((live("1", 0, 0x80, "0"), live("2", 0x80, 0xFF, "0")), {}, "goes back: range 1"),
        ((live("2", 0x40, 0xFF, "0"), live("3", 0, 0x40, "1", "0")), {}, "range 2 has other keys"),
        (
            (*SEED[:2], live("5", 0, 0x20, "3"), live("6", 0x20, 0x40, "1")),
            {"3": Span(7501, 8000)},
            "not its child",
        ),
        ((*SEED[1:], live("5", 0x80, 0xFF, "2")), {"2": Span(5002, 6000)}, "range 2 begins at LSN 5002"),
        (SEED, {"1": Span(5001, 7600)}, "forks: range 1 ended at LSN 7500"),
    ],
)
def test_what_is_known_is_not_contradicted(ranges, spans, fault):
    known = grow_lineage(None, listing(*SEED), SPANS)
    with pytest.raises(HostileFeed, match=fault):
        grow_lineage(known, listing(*ranges, etag="b"), spans)


def test_another_feed_and_a_forgotten_range_are_told_apart():
    known = grow_lineage(None, listing(*SEED), SPANS)
    with pytest.raises(FeedReplaced):
        grow_lineage(known, Ranges(FEED._replace(id="two"), "b", SEED), {})
    with pytest.raises(CheckpointExpired, match="range 2"):
        grow_lineage(known, listing(*SEED[1:], live("9", 0x80, 0xFF), etag="b"), {})


def test_a_backend_may_forget_the_ancestors_that_are_known():
    known = grow_lineage(None, listing(*SEED), SPANS)
    lineage = grow_lineage(
        known, listing(*SEED[:2], live("5", 0, 0x40, "3"), etag="b"), {"3": Span(7501, 9000)}
    )
    assert lineage.path(lineage.live[0], between(0, 0x40)) == ("0", "1", "3", "5")
    assert lineage.closed["3"].keys == between(0, 0x40)
    assert lineage.generation == "b"


def test_a_range_that_never_had_an_entry():
    feed = SimulatedFeed()
    (one, _) = feed.split("0", at(0x80))
    (_, two) = feed.split(one, at(0x40))
    lineage = lineage_of(feed)
    (leaf,) = (one for one in lineage.live if one.id == two)
    assert lineage.path(leaf, leaf.keys) == ("0", one, two)
    (token,) = make_first_tokens(lineage, leaf.keys)
    assert [moved.position for moved in settle_token(lineage, token)] == [Position(two, 0)]


def test_merged_ranges_may_have_been_at_different_lsns():
    """Seen from the first, each of the two has its own keys; seen later, both may have had all of them."""
    feed = ealsur_tree()
    known = lineage_of(feed)
    feed.fill("5", 6000, 100)
    feed.merge("6", "3")
    merged = lineage_of(feed)
    assert merged.closed["6"].keys == merged.closed["3"].keys == between(0x40, 0xC0)
    spans = {name: feed.nodes[name].span for name in ("6", "3")}
    lineage = grow_lineage(known, feed.present, spans)
    assert (lineage.closed["6"].keys, lineage.closed["3"].keys) == (between(0x40, 0x80), between(0x80, 0xC0))
    (leaf,) = lineage.leaves(between(0x40, 0x41))
    assert leaf.keys == between(0x40, 0xC0)
    assert lineage.path(leaf, between(0x40, 0x80)) == ("0", "1", "6", leaf.id)
    assert lineage.path(leaf, between(0x80, 0xC0)) == ("0", "2", "3", leaf.id)
    divided = settle_token(lineage, token_at("0", 1001, leaf.keys))
    assert divided == (
        token_at("1", 1001, between(0x40, 0x80)),
        token_at("2", 1001, between(0x80, 0xC0)),
    )
    assert settle_token(merged, token_at("0", 1001, leaf.keys)) == (token_at("1", 1001, leaf.keys),)
    assert merged.path(leaf, between(0x40, 0x41)) == ("0", "1", "2", "6", "3", leaf.id)


def test_tokens_that_move_on_have_the_same_keys():
    lineage = lineage_of(seed_tree())
    moved = settle_token(lineage, token_at("0", 5001, between(0x20, 0xA0)))
    assert moved == (token_at("1", 5001, between(0x20, 0x80)), token_at("2", 5001, between(0x80, 0xA0)))
    moved = settle_token(lineage, token_at("1", 7501, between(0x20, 0x60)))
    assert moved == (token_at("3", 7501, between(0x20, 0x40)), token_at("4", 7501, between(0x40, 0x60)))


def test_an_lsn_from_before_all_others_is_where_the_root_begins():
    feed = SimulatedFeed(first=100)
    feed.fill("0", 200)
    for name in feed.split("0"):
        feed.fill(name, 300)
    lineage = lineage_of(feed)
    for next_lsn, owner in ((5, "0"), (100, "0"), (200, "0"), (201, "2")):
        (token,) = settle_token(lineage, token_at("2", next_lsn, between(0x80, 0xFF)))
        assert token.position == Position(owner, next_lsn)


def test_a_range_that_was_read_beyond_its_end_is_a_fork():
    lineage = lineage_of(seed_tree())
    with pytest.raises(HostileFeed, match="forks: range 1 ended at LSN 7500, but was read to 7600"):
        settle_token(lineage, token_at("1", 7601, between(0, 0x80)))
    with pytest.raises(HostileFeed, match="not its child"):
        settle_token(lineage, token_at("1", 6000, ALL_KEYS))


def test_the_indexes_say_what_a_look_at_all_ranges_says():
    """For any keys and any range, after splits and merges."""
    feed, dice = SimulatedFeed(), random.Random(5)
    for _ in range(30):
        names = feed.live
        number = dice.randrange(len(names))
        if dice.random() < 0.3 and number:
            feed.merge(*names[number - 1 : number + 1])
        else:
            feed.split(names[number])
    lineage = lineage_of(feed)
    live = lineage.live
    for name in feed.nodes:
        heirs = tuple(leaf for leaf in live if name == leaf.id or name in leaf.ancestors)
        assert lineage.heirs(name) == heirs
        assert lineage.leaf(name) == next((leaf for leaf in live if leaf.id == name), None)
        assert lineage.first_lsn(name) == feed.nodes[name].first
    for _ in range(100):
        low, high = sorted(dice.randrange(ALL_KEYS.high + 1) for _ in range(2))
        keys = KeyRange(low, max(high, low + 1))
        assert lineage.leaves(keys) == tuple(leaf for leaf in live if leaf.keys.intersect(keys))
