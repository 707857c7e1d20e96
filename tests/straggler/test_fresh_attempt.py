"""What a fresh attempt needs: the line through samples, where it may be trusted, and whose samples count."""

import math
import random

import msgspec
import pytest

from cfetch.straggler.fresh_attempt import (
    LEAST,
    MOST_HOSTS,
    MOST_SAMPLES,
    RECENT,
    BroughtFile,
    FreshAttempts,
    fit_of,
    fit_of_running,
)
from cfetch.straggler.knowledge import NOTHING, HostKnowledge, Knowledge
from tests.straggler.world import GIB, KIB, MIB


def sample(size, latency_s=0.1, rate=10 * MIB, end_s=0.0, first=True):
    return BroughtFile(size, latency_s + size / rate, latency_s if first else None, end_s)


def fresh(samples, knowledge=NOTHING, host="h"):
    learned = FreshAttempts(knowledge)
    for one in samples:
        learned.add(host, one)
    return learned


def test_a_line_through_mixed_sizes():
    """Latency and bandwidth come out as they went in, without any first byte measured."""
    sizes = [64 * KIB, 256 * KIB, MIB, 4 * MIB, 16 * MIB] * 4
    fit = fresh([sample(size, first=False) for size in sizes]).of("h")
    assert fit.latency_s == pytest.approx(0.1, rel=0.05)
    assert 1 / fit.s_per_byte == pytest.approx(10 * MIB, rel=0.02)
    assert fit.duration_s(8 * MIB) == pytest.approx(0.9, rel=0.02)


def test_absurd_samples_do_not_bend_it():
    """A fifth of all takes ten times as long."""
    dice = random.Random(3)
    sizes = [64 * KIB, MIB, 16 * MIB] * 30
    samples = [
        msgspec.structs.replace(sample(size), duration_s=sample(size).duration_s * (10 if n % 5 == 0 else 1))
        for n, size in enumerate(sizes)
    ]
    dice.shuffle(samples)
    assert fresh(samples).of("h").duration_s(16 * MIB) == pytest.approx(1.7, rel=0.1)


def test_equal_sizes_are_told_apart_by_the_first_byte():
    """There is no slope to see."""
    fit = fresh([sample(4 * MIB)] * 8).of("h")
    assert (fit.latency_s, 1 / fit.s_per_byte) == (pytest.approx(0.1), pytest.approx(10 * MIB))
    assert fit.duration_s(MIB) == pytest.approx(0.2)


def test_of_sizes_too_like_for_a_slope_the_largest_tells_the_bandwidth():
    """The small ones came with their first byte, and tell none."""
    small, large = BroughtFile(MIB, 0.1, 0.1, 0.0), sample(3 * MIB)
    fit = fresh([small, large] * 8).of("h")
    assert 1 / fit.s_per_byte == pytest.approx(10 * MIB, rel=0.01)


def test_small_bodies_that_come_with_their_first_byte_tell_no_bandwidth():
    """Else a large file would be expected at gigabytes a second; it is expected in proportion instead."""
    at_once = BroughtFile(MIB, 0.1, 0.1, 0.0)
    fit = fresh([at_once] * 20).of("h")
    assert fit.duration_s(MIB) == pytest.approx(0.1)
    assert fit.duration_s(4 * GIB) == pytest.approx(4096 * 0.1)
    assert 1 / fit.pace_s(4 * GIB) == pytest.approx(10 * MIB, rel=0.01)


def test_a_slope_is_trusted_a_little_beyond_the_largest():
    """Four times as far, then in proportion: the curve has no step there."""
    fit = fresh([sample(size) for size in [64 * KIB, MIB, 4 * MIB] * 5]).of("h")
    assert fit.duration_s(16 * MIB) == pytest.approx(1.7, rel=0.02)
    assert fit.duration_s(160 * MIB) == pytest.approx(17, rel=0.02)
    edge = fit.reach_bytes
    assert fit.duration_s(edge + 1) == pytest.approx(fit.duration_s(edge), rel=1e-6)


def test_newer_samples_take_over():
    """A size class remembers its latest; so a network that has changed is known after one round."""
    old = [sample(MIB, end_s=n) for n in range(200)]
    new = [sample(MIB, rate=2 * MIB, end_s=200 + n) for n in range(RECENT)]
    assert 1 / fresh([*old, *new]).of("h").s_per_byte == pytest.approx(2 * MIB)


def test_large_files_are_not_forgotten_among_small_ones():
    """Each size class has its own memory."""
    samples = [sample(64 * MIB)] * 6 + [sample(16 * KIB, end_s=1.0)] * 2000
    assert fresh(samples).of("h").duration_s(64 * MIB) == pytest.approx(6.5, rel=0.02)


def test_spread_is_measured_and_wider_while_few():
    """The sigma of the logarithms; five equal samples leave a factor open."""
    dice = random.Random(1)
    many = [
        msgspec.structs.replace(sample(MIB), duration_s=0.2 * math.exp(dice.gauss(0, 0.4)))
        for _ in range(RECENT)
    ]
    assert fresh(many).of("h").spread == pytest.approx(0.4, rel=0.5)
    assert fresh([sample(MIB)] * 5).of("h").spread == pytest.approx(0.22, abs=0.01)
    assert fresh([sample(MIB)] * RECENT).of("h").spread == pytest.approx(0.09, abs=0.01)


def test_whose_samples_count():
    """A host's own; else earlier runs'; else those under way; else all hosts'; else other machines'."""
    known = Knowledge(hosts={"known": HostKnowledge(0.1, 3.0 * MIB, 0.2, 10, 0)})
    learned = fresh([sample(MIB, rate=10 * MIB)] * LEAST, known, "own")
    learned.use_median(1.0 * MIB)

    def rate(host):
        return round(1 / learned.of(host).s_per_byte / MIB, 3)

    running = fit_of_running([2.0 * MIB] * 4, [0.1] * 4)
    assert (rate("own"), rate("known"), rate("other")) == (10, 3, 10)
    learned.running({"own": running, "known": running, "other": running})
    assert (rate("own"), rate("known"), rate("other")) == (10, 3, 2)
    few = fresh([sample(MIB)] * (LEAST - 1))
    few.use_median(1.0 * MIB)
    assert 1 / few.of("other").s_per_byte == pytest.approx(MIB)
    assert fresh([sample(MIB)]).of("h") is None
    assert fresh([sample(MIB)] * 2).of("h") is not None


def test_those_under_way_tell_of_sizes_that_have_not_ended_yet():
    """Beyond the reach of the host's own samples."""
    learned = fresh([sample(64 * KIB)] * 20)
    learned.running({"h": fit_of_running([20.0 * MIB] * 5, [0.1] * 5)})
    assert 1 / learned.of("h", GIB).s_per_byte == pytest.approx(20 * MIB)
    assert learned.of("h", 64 * KIB).duration_s(64 * KIB) < 0.2


@pytest.mark.parametrize(
    ("rates", "rate"), [([5.0, 5.0], None), ([0.0, 0.0, 9.0], None), ([0.0, 9.0, 9.0], 9.0)]
)
def test_few_or_stuck_attempts_tell_nothing(rates, rate):
    """The median of three bears one that is stuck."""
    fit = fit_of_running(rates, [])
    assert (fit and 1 / fit.s_per_byte) == (rate and pytest.approx(rate))


def test_what_is_learned_for_the_next_run():
    """Of hosts with three files and more."""
    learned = fresh([sample(4 * MIB)] * 3, host="three")
    learned.add("one", sample(MIB))
    hosts = learned.collect_knowledge(1234.0).hosts
    assert hosts.keys() == {"three"}
    assert hosts["three"].rate_bps == pytest.approx(10 * MIB)
    assert (hosts["three"].latency_s, hosts["three"].weight, hosts["three"].wall_s) == (
        pytest.approx(0.1),
        3,
        1234.0,
    )


def test_memory_is_bounded():
    """However many hosts and files there are."""
    learned = FreshAttempts(NOTHING)
    for n in range(MOST_HOSTS + 10):
        learned.add(f"host{n}", sample(MIB))
    assert len(learned._hosts) == MOST_HOSTS
    assert learned.of("host0") is not None


def test_so_are_hosts_with_files_of_all_sizes():
    """All samples together, as a host may have thirty-two of each of twenty sizes."""
    learned = FreshAttempts(NOTHING)
    sizes = [1 << kind for kind in range(0, 40, 2)]
    for n in range(MOST_SAMPLES // (RECENT * len(sizes)) + 5):
        for size in sizes:
            for _ in range(RECENT + 1):
                learned.add(f"host{n}", BroughtFile(size, 1.0, 0.1, 0.0))
    kept = [sum(map(len, of_host.classes.values())) for of_host in learned._hosts.values()]
    assert MOST_SAMPLES - RECENT * len(sizes) <= sum(kept) <= MOST_SAMPLES


def test_the_measured_tail_counts_where_it_is_later():
    """A tenth of the objects are cold; of five first bytes one may be absurd."""
    cold = [sample(MIB)] * 28 + [sample(MIB, latency_s=8.0)] * 4
    assert fresh(cold).of("h").late_s == pytest.approx(8.0)
    assert fresh([sample(MIB)] * 4 + [sample(MIB, latency_s=8.0)]).of("h").late_s < 0.2


def test_no_samples_no_line():
    """Nor is there one of empty classes."""
    assert fit_of([]) is None
    assert fit_of([[]]) is None


def test_sizes_that_take_equally_long_tell_no_bandwidth():
    """4 to 64 KiB in 80 ms each: a GiB is expected in proportion to the largest, not in 80 ms."""
    flat = [BroughtFile(size * KIB, 0.08, None, 0.0) for size in (4, 16, 64)] * 5
    fit = fresh(flat).of("h")
    assert fit.duration_s(4 * KIB) == pytest.approx(0.08, rel=0.1)
    assert fit.duration_s(GIB) > 16384 * 0.08
    assert fit.pace_s(64 * KIB) == pytest.approx(0.04 / (64 * KIB))


def test_a_size_class_that_is_old_counts_less():
    """Large files came at 1 MiB/s an hour ago; since then three other sizes came at 10 MiB/s."""
    old = [sample(64 * MIB, rate=MIB)] * 30
    new = [sample(size, end_s=3600.0) for size in (MIB, 4 * MIB, 16 * MIB) for _ in range(10)]
    assert 1 / fresh([*old, *new]).of("h").s_per_byte == pytest.approx(10 * MIB, rel=0.05)


def test_sizes_that_lie_far_apart_tell_the_slope():
    """Three like sizes, of which the larger were faster by chance, are as many pairs; they say little."""
    like = [
        BroughtFile(size, duration_s, None, 0.0) for size, duration_s in ((MIB, 0.4), (3 * MIB // 2, 0.35))
    ]
    samples = [*like, BroughtFile(2 * MIB, 0.3, None, 0.0), sample(64 * MIB, first=False)]
    fit = fit_of([[one] * 10 for one in samples])
    assert fit is not None
    assert 1 / fit.s_per_byte == pytest.approx(10 * MIB, rel=0.05)


def test_a_size_with_few_samples_says_less_of_the_latency():
    """Three sizes have two late files each; two sizes have thirty files each that were not late."""
    many = [[sample(size, first=False)] * 30 for size in (64 * KIB, 16 * MIB)]
    few = [[sample(size, 0.5, first=False)] * 2 for size in (128 * KIB, 256 * KIB, 512 * KIB)]
    fit = fit_of([*many, *few])
    assert fit is not None
    assert fit.latency_s == pytest.approx(0.1)


def test_a_size_with_few_samples_says_less_of_the_slope():
    """Two sizes have thirty files each, and the largest has three, which were faster by chance."""
    many = [[sample(size, first=False)] * 30 for size in (MIB, 16 * MIB)]
    fit = fit_of([*many, [sample(64 * MIB, rate=100 * MIB, first=False)] * 3])
    assert fit is not None
    assert 1 / fit.s_per_byte == pytest.approx(10 * MIB, rel=0.01)


def test_those_under_way_are_not_taken_down_anew_for_a_trifle():
    """A tenth more or less is the same fit; what is truly other is taken."""
    learned = FreshAttempts(NOTHING)
    rates = [100.0, 105.0, 50.0]
    seen = []
    for rate in rates:
        fit = fit_of_running([rate] * 3, [0.1] * 3)
        assert fit is not None
        learned.running({"h": fit})
        known = learned.of("h")
        assert known is not None
        seen.append(round(1 / known.s_per_byte))
    assert seen == [100, 100, 50]
