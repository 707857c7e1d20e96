"""Laws of the cut: whatever the manifest, nothing is lost, no share is too long, and hosts stay together."""

from collections import Counter
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from cfetch.tasks.shares.cut import (
    LONGEST_S,
    MOST_FILES,
    SHORTEST_S,
    ExpectedPace,
    count_sharers,
    cut_shares,
    find_floors,
)

PACE = ExpectedPace(latency_s=0.05, rate_bps=30e6, concurrency=16)
MIB = 1 << 20

manifests = st.lists(
    st.tuples(st.one_of(st.just(-1), st.integers(0, 4 << 30)), st.integers(0, 5)), min_size=1, max_size=200
)


def cut_of(rows, slots=4):
    sizes, hosts = [size for size, _ in rows], [host for _, host in rows]
    return cut_shares(sizes, hosts, pace=PACE, slots=slots), sizes, hosts


@given(manifests, st.integers(1, 50))
def test_every_entry_is_in_one_share_and_no_share_is_empty(rows, slots):
    """Shares are numbered from 0 without a gap; their costs add up to the whole."""
    cut, sizes, _ = cut_of(rows, slots)
    assert len(cut.share_of) == len(rows)
    assert set(cut.share_of) == set(range(len(cut.cost_s)))
    known = [size for size in sizes if size >= 0]
    mean = sum(known) / len(known) if known else 1.0
    total_s = sum(PACE.cost_s(1, size if size >= 0 else mean) for size in sizes)
    assert abs(sum(cut.cost_s) - total_s) < 1e-5 * len(rows)


@given(manifests, st.integers(1, 50))
def test_the_longest_shares_are_the_first(rows, slots):
    """Graham's rule for the tasks themselves, but for hosts' turns among shares of about the same length."""
    cut, _, _ = cut_of(rows, slots)
    longest_after_s = 0.0
    for cost_s in reversed(cut.cost_s):
        assert cost_s >= 0.49 * longest_after_s - 1e-6
        longest_after_s = max(longest_after_s, cost_s)


def test_hosts_take_turns():
    """Each round of tasks has all large hosts in it, so a host that throttles holds its part of the slots."""
    rows = [(100 * MIB, host) for host in range(4) for _ in range(400)]
    cut, _, hosts = cut_of(rows, slots=8)
    host_of_share = dict(zip(cut.share_of, hosts, strict=True))
    assert len(cut.cost_s) >= 16
    for first in range(0, len(cut.cost_s) - 7, 8):
        counted = Counter(host_of_share[share] for share in range(first, first + 8))
        assert counted == dict.fromkeys(range(4), 2)


@given(manifests, st.integers(1, 50))
def test_no_share_is_much_longer_than_the_others_but_for_a_single_file(rows, slots):
    """What the loss of an executor costs is bounded."""
    cut, _, _ = cut_of(rows, slots)
    files = Counter(cut.share_of)
    target_s = min(max(sum(cut.cost_s) / slots, 1e-6), 1.5 * LONGEST_S)
    assert all(cost_s <= 2.6 * target_s for share, cost_s in enumerate(cut.cost_s) if files[share] > 1)


def test_a_giant_is_a_share_of_its_own():
    """Nobody waits behind it."""
    for size_bytes, beside, elsewhere in ((100 << 30, 1000, 0), (450 * MIB, 10, 2000)):
        cut, _, _ = cut_of([(size_bytes, 0), *[(MIB, 0)] * beside, *[(MIB, 1)] * elsewhere])
        assert list(cut.share_of).count(cut.share_of[0]) == 1
        assert cut.share_of[0] == 0


def test_a_host_that_one_share_can_bear_stays_in_one():
    """Its limits are then the matter of one task."""
    rows = [(10 * MIB, host) for host in range(40) for _ in range(20)]
    cut, _, hosts = cut_of(rows)
    shares = {(host, share) for host, share in zip(hosts, cut.share_of, strict=True)}
    assert len(shares) == 40
    assert len(cut.cost_s) < 40


def test_a_large_host_is_dealt_evenly():
    """Shares of one host differ by no more than a file."""
    cut, _, _ = cut_of([(100 * MIB, 0)] * 1000, slots=8)
    assert max(cut.cost_s) - min(cut.cost_s) <= PACE.cost_s(1, 100 * MIB) + 1e-4


def test_every_slot_has_work_and_the_last_round_is_full():
    """Equal shares in a number that the slots divide: none of them idles while another is at its second."""
    for slots, files in ((1, 4000), (2, 4000), (3, 4000), (8, 4000), (8, 40_000)):
        cut, _, _ = cut_of([(16 << 10, 0)] * files, slots=slots)
        assert len(cut.cost_s) % slots == 0
    cut, _, _ = cut_of([(1000, 0)] * 10, slots=4)
    assert len(cut.cost_s) == 4


def test_shares_are_worth_their_start_and_not_too_long():
    """Where there is enough to do: a few for each slot, seconds to minutes, no more files than fit."""
    for files, slots in ((2_000, 2), (60_000, 4), (300_000, 16)):
        cut, _, _ = cut_of([(MIB, n % 3) for n in range(files)], slots=slots)
        assert len(cut.cost_s) >= slots
        assert 0.5 * SHORTEST_S <= max(cut.cost_s) <= 1.5 * LONGEST_S
    cut, _, _ = cut_of([(1000, 0)] * 300_000, slots=1)
    assert max(Counter(cut.share_of).values()) <= 1.1 * MOST_FILES


def test_unknown_sizes_count_as_the_mean():
    """They may not all land in one share as if they were nothing."""
    cut, _, _ = cut_of([(-1, 0)] * 500 + [(200 * MIB, 0)] * 500, slots=4)
    unknown = Counter(cut.share_of[:500])
    assert max(unknown.values()) - min(unknown.values()) <= 2 + len(cut.cost_s)


def test_many_entries():
    """Cut in one go, with their hosts as in a real crawl; the memory is a few lists."""
    random = Random(7)
    sizes = [random.randrange(10 << 10, 10 << 20) for _ in range(200_000)]
    hosts = [min(int(random.paretovariate(0.6)), 2000) - 1 for _ in range(200_000)]
    cut = cut_shares(sizes, hosts, pace=PACE, slots=8)
    assert len(set(cut.share_of)) == len(cut.cost_s) >= 32
    assert max(cut.cost_s) <= 1.5 * LONGEST_S


def test_sharers_of_a_host():
    """A host in one share is that task's alone; one in many is shared by as many tasks as run at a time."""
    rows = [(100 * MIB, 0)] * 400 + [(1000, 1)] * 3
    cut, _, hosts = cut_of(rows, slots=4)
    found = count_sharers(cut, hosts, slots=4)
    alone = {share for share, host in zip(cut.share_of, hosts, strict=True) if host == 1}
    assert {found[share] for share in range(len(found)) if share not in alone} == {4}
    assert {found[share] for share in alone} == {1}


def test_the_floor_of_a_host():
    """A file is one task's, and what a host bears divides its bytes, however many executors there are."""
    cut, sizes, hosts = cut_of([(300 << 30, 0), *[(MIB, 1)] * 1600], slots=100)
    found = find_floors(cut, sizes, hosts, pace=PACE, per_host=None)
    assert found[0] == cut.cost_s[0] > 1e4
    found = find_floors(cut, sizes, hosts, pace=PACE, per_host=1)
    assert abs(found[1] - 1600 * (0.05 + 16 * MIB / 30e6)) < 1
