"""Readers of a feed that does everything it may, in any order: J1 to J9 against a list of all changes."""

import asyncio
import random

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from cfetch.base.errors import FeedReplaced
from cfetch.base.virtual_clock import VirtualClock, run_virtual
from cfetch.plugins.follow.cache import RouteCache
from cfetch.plugins.follow.checkpoint import decode_checkpoint, encode_checkpoint
from cfetch.plugins.follow.ranges import ALL_KEYS, KeyRange
from cfetch.plugins.follow.reader import Reader
from tests.plugins.follow.reader_world import check_order, drain, expected, read_on
from tests.plugins.follow.simulator import SimulatedFeed, at, between

BOUND = 2  # lineages that the cache keeps
READERS = {  # (its keys, whether it has the cache)
    "whole": (ALL_KEYS, True),
    "without cache": (ALL_KEYS, False),
    "together": (ALL_KEYS, True),  # reads several ranges at the same time
    "low": (between(0, 0x60), True),
    "high": (between(0x60, 0xFF), True),
}


class Following(RuleBasedStateMachine):
    """The feed, and readers that begin at any time, crash, and go on from what they had written down."""

    def __init__(self):
        super().__init__()
        self.feed = SimulatedFeed()
        self.saved = {}  # what a crash leaves: the checkpoint's bytes, and what had been read until then
        self.limit = 3
        self.closings = 0
        self.faults = 0
        self.troubles = 0
        run_virtual(self.make_caches())
        self.begin()

    def begin(self):
        """The same schedule with the cache and without."""
        self.readers, self.found, self.saved = {}, {}, {}
        for name in ("whole", "without cache", "together"):
            self.open_anew(name)

    def teardown(self):
        self.heal()
        run_virtual(self.drain_all())

    async def make_caches(self):
        clock = VirtualClock()
        self.caches = {on: RouteCache(clock, enabled=on, feeds=BOUND) for on in (True, False)}

    def heal(self):
        self.feed.down, self.feed.lost = set(), None
        self.feed.lagging = self.feed.unlisted = self.feed.splitting = 0

    async def open(self, name, checkpoint=None):
        keys, is_cached = READERS[name]
        clock = VirtualClock()
        self.readers[name] = await Reader.open(
            self.feed.source(),
            self.caches[is_cached],
            clock,
            checkpoint=checkpoint,
            keys=keys,
            limit=self.limit,
        )
        self.readers[name].closings_before = self.closings
        self.readers[name].faults_before = self.faults

    async def drain_all(self):
        for name, reader in list(self.readers.items()):
            self.found[name] += await drain(reader, together=name == "together")
            check_order(self.found[name], expected(self.feed, READERS[name][0]))

    @rule(count=st.integers(1, 8), seed=st.integers(0, 1 << 30))
    def append(self, count, seed):
        dice = random.Random(seed)
        for _ in range(count):
            self.feed.append(
                at(dice.choice(range(0, 0xFF, 0x08))) + dice.randrange(2), skip=dice.choice([0, 0, 3])
            )

    @rule(which=st.integers(0, 99), where=st.integers(1, 7), skip=st.sampled_from([0, 0, 5]))
    def split(self, which, where, skip):
        names = self.feed.live
        name = names[which % len(names)]
        keys = self.feed.nodes[name].keys
        if keys.high - keys.low > 8 and len(names) < 24:
            edge = keys.low + (keys.high - keys.low) * where // 8
            self.feed.split(name, edge, last=self.feed.nodes[name].head - 1 + skip)
            self.closings += 1

    @rule(which=st.integers(0, 99))
    def merge(self, which):
        names = self.feed.live
        if len(names) > 1:
            number = which % (len(names) - 1)
            self.feed.merge(*names[number : number + 2])
            self.closings += 1

    @rule(name=st.sampled_from(sorted(READERS)))
    def another(self, name):
        """A reader that begins now, whatever has become of the ranges."""
        self.open_anew(name)

    def open_anew(self, name):
        self.heal()
        self.found[name] = []
        self.saved.pop(name, None)
        run_virtual(self.open(name))

    @rule(steps=st.integers(1, 6), limit=st.sampled_from([1, 2, 3, 1000]))
    def read(self, steps, limit):
        """All readers, one after the other."""
        self.feed.page = limit
        for name, reader in self.readers.items():
            for _ in range(steps):
                self.step(name, reader)

    def step(self, name, reader):
        before = reader.checkpoint().tokens
        run_virtual(read_on(reader, self.found[name], together=name == "together"))
        for old in before:
            for new in reader.checkpoint().tokens:
                if old.keys.intersect(new.keys):  # J9
                    if old.position.range == new.position.range:
                        assert old.position.next_lsn <= new.position.next_lsn
                    assert new.position.range not in self.feed.nodes[old.position.range].ancestors

    @rule()
    def read_at_once(self):
        """J7: one refresh at a time, however many are told that a range is gone."""
        self.heal()
        under_way = [0, 0]

        def watched(source):
            original = source.ranges

            async def ranges(etag):
                under_way[0] += 1
                under_way[1] = max(under_way)
                await asyncio.sleep(0.01)
                try:
                    return await original(etag)
                finally:
                    under_way[0] -= 1

            return original, ranges

        cached = {name: one for name, one in self.readers.items() if READERS[name][1]}

        async def all_at_once():
            await asyncio.gather(*(read_on(one, self.found[name]) for name, one in cached.items()))

        originals = []
        for one in cached.values():
            original, one._source.ranges = watched(one._source)
            originals.append((one, original))
        run_virtual(all_at_once())
        for one, original in originals:
            one._source.ranges = original
        assert under_way[1] <= 1

    @rule(data=st.data())
    def checkpoint(self, data):
        name = data.draw(st.sampled_from(sorted(self.readers)))
        self.saved[name] = (encode_checkpoint(self.readers[name].checkpoint()), list(self.found[name]))

    @precondition(lambda self: self.saved)
    @rule(data=st.data())
    def crash(self, data):
        """What was read since the checkpoint is read again."""
        name = data.draw(st.sampled_from(sorted(self.saved)))
        self.heal()
        checkpoint, found = self.saved[name]
        self.found[name] = list(found)
        run_virtual(self.open(name, decode_checkpoint(checkpoint)))

    @rule()
    def drop_cache(self):
        run_virtual(self.make_caches())
        for name, reader in self.readers.items():
            reader._cache = self.caches[READERS[name][1]]

    @rule(unlisted=st.integers(0, 2), lagging=st.integers(0, 3), splitting=st.integers(0, 2))
    def delay(self, unlisted, lagging, splitting):
        """Listings from before the last change, archives that lag, splits that are not done."""
        self.feed.unlisted, self.feed.lagging, self.feed.splitting = unlisted, lagging, splitting
        self.faults += unlisted + splitting

    @rule(share=st.sampled_from([0.1, 0.5]), seed=st.integers(0, 1 << 30), which=st.integers(0, 99))
    def trouble(self, share, seed, which):
        self.troubles += 1
        self.feed.lost = (random.Random(seed), share)
        names = self.feed.live
        self.feed.down = {names[which % len(names)]} if len(names) > 1 else set()

    @rule()
    def end_of_trouble(self):
        self.heal()

    @rule(dice=st.integers(0, 4))
    def recreate(self, dice):
        """C16: nobody takes the new feed for the old one."""
        if dice:
            return
        self.heal()
        self.feed.recreate()
        for name, reader in self.readers.items():
            with pytest.raises(FeedReplaced):
                run_virtual(reader.step())
            with pytest.raises(FeedReplaced):
                run_virtual(self.open(name, reader.checkpoint()))
        self.begin()

    @invariant()
    def tokens_partition_the_keys(self):
        """J3, which a checkpoint proves as it is made."""
        for name, reader in self.readers.items():
            checkpoint = reader.checkpoint()
            assert (
                KeyRange(checkpoint.tokens[0].keys.low, checkpoint.tokens[-1].keys.high) == READERS[name][0]
            )

    @invariant()
    def nothing_is_read_twice_or_made_up(self):
        """J1, J2: what has been read of a key is how its changes begin."""
        for name, found in self.found.items():
            wanted = expected(self.feed, READERS[name][0])
            for key in {change.key for _, change in found}:
                mine = [(at_, one.lsn) for at_, one in found if one.key == key]
                assert mine == [(at_, one.lsn) for at_, one in wanted if one.key == key][: len(mine)]

    @invariant()
    def a_split_costs_a_reader_one_gone(self):
        """J4, J5: and one more at its beginning; and what the feed itself was late with."""
        for reader in self.readers.values():
            news = self.closings - reader.closings_before
            if not self.troubles:  # a lost listing leaves the reader where it was
                assert reader.gone <= news + 1 + self.faults - reader.faults_before

    @invariant()
    def the_cache_is_bounded_and_asks_once(self):
        """J7, J8: where a range ended is asked once for each time that the lineage is built."""
        assert self.caches[True].feeds <= BOUND
        counts = self.caches[True].counts
        if not self.faults and not self.troubles:
            assert counts.info_requests <= 2 * self.closings * (1 + counts.misses)  # a merge closes two


def machine(**kwargs):
    checks = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]
    run_state_machine_as_test(
        Following, settings=settings(deadline=None, suppress_health_check=checks, database=None, **kwargs)
    )


def test_readers_of_a_feed_that_does_everything():
    machine(max_examples=40, stateful_step_count=30, derandomize=True)


@pytest.mark.slow
def test_readers_of_a_feed_that_does_everything_for_long():
    machine(max_examples=5000, stateful_step_count=60)
