"""What holds for every world of the adaptive policy."""

import random

from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.straggler.world import MIB, Stream, adaptive, at, play, teach

GRAIN = 64  # bytes; so that a world four times as large has exactly four times the bytes
rates = st.sampled_from([0, 1, 16, 256, 1 << 12, 1 << 14, 1 << 15, 1 << 16, 1 << 17])  # in grains a second
kinds = st.tuples(
    rates, rates, st.sampled_from([1 << 12, 1 << 16, 1 << 20]), st.sampled_from([0.0, 0.4, 2.0])
)
worlds = st.lists(kinds, min_size=1, max_size=12)
teachings = st.lists(st.sampled_from([0.12, 0.15, 0.3]), max_size=12)
quick = settings(max_examples=15, deadline=None)


def run(taught, kinds, scale=1, order=None, until_s=8.0, **how):
    policy = adaptive()
    end_s = teach(policy, taught, MIB * scale)
    streams = [
        Stream(
            n,
            size * GRAIN * scale,
            ((0.0, first * GRAIN * scale), (end_s + 3.0, then * GRAIN * scale)),
            start_s=end_s + start_s,
            grain=GRAIN * scale,
            **how,
        )
        for n, (first, then, size, start_s) in enumerate(kinds)
    ]
    return play(policy, streams, end_s + until_s, from_s=end_s, order=order)


@quick
@given(teachings, worlds)
def test_immune_and_unknown_are_never_flagged(taught, kinds):
    """Whatever else is the case; nobody supposes a size at a host of which no file has come."""
    assert run(taught, kinds, immune=True).flagged == []
    policy = adaptive()
    end_s = teach(policy, taught, host="other")
    unknown = [Stream(n, None, at(first * GRAIN), start_s=end_s) for n, (first, *_) in enumerate(kinds)]
    assert play(policy, unknown, end_s + 8, from_s=end_s).flagged == []


@quick
@given(teachings, worlds, st.integers(0, 2**32))
def test_the_order_of_attempts_does_not_matter(taught, kinds, seed):
    """Handed over in another order at each check."""
    dice = random.Random(seed)
    shuffled = run(taught, kinds, order=lambda live: dice.sample(live, len(live)))
    assert sorted(shuffled.flagged) == sorted(run(taught, kinds).flagged)


@quick
@given(teachings, worlds, st.integers(1, 3))
def test_scale_invariance(taught, kinds, power):
    """All files and rates so many times larger: the same decisions, at the same time."""
    assert run(taught, kinds, scale=4**power).flagged == run(taught, kinds).flagged


@quick
@given(teachings, worlds, rates, rates)
@example([0.12, 0.12], [(0, 0, 4096, 0.0)], 1, 16)  # the first piece of the slower comes between two looks
@example([0.12], [(0, 0, 4096, 0.0), (1 << 14, 0, 4096, 0.0)], 0, 1)  # the slower brings nothing at all
@example([], [(0, 0, 4096, 0.0)] * 3 + [(1 << 14, 0, 4096, 0.0)] * 2, 0, 1)  # five, and four at a check
def test_the_faster_is_never_flagged_before_the_slower(taught, kinds, one, other):
    """Of two that began together with as much to fetch."""
    slower, faster = sorted((one, other))
    twins = [(slower, slower, 1 << 20, 0.0), (faster, faster, 1 << 20, 0.0)]
    story = run(taught, [*twins, *kinds], until_s=12.0)
    when = {key: when_s for when_s, key in story.flagged}
    if 1 in when and slower < faster:
        assert 0 in when
        assert when[0] <= when[1]


@quick
@given(
    st.lists(st.sampled_from([0.12, 0.15, 0.2]), min_size=8, max_size=30),
    st.integers(4, 16),
    st.floats(0.001, 1),
)
def test_a_uniformly_slow_world_flags_nobody(taught, count, factor):
    """However fast it was before."""
    policy = adaptive()
    end_s = teach(policy, taught)
    streams = [Stream(n, 64 * MIB, at(10 * MIB * factor), start_s=end_s + 0.01 * n) for n in range(count)]
    assert play(policy, streams, end_s + 15, from_s=end_s).flagged == []
