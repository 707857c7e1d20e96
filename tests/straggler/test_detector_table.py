"""The detector against the conformance table D1-D21: known numbers in, known decisions out."""

import asyncio
from typing import Any, NamedTuple

import pytest

from cfetch.base.config.straggler import StragglerConfig
from cfetch.base.virtual_clock import VirtualClock, run_virtual
from cfetch.straggler.detector import Detector
from tests.straggler.scenes import MIB, flagged_ids, scene, start

TEN = 10 * MIB
TWENTY = 20 * MIB


class Row(NamedTuple):
    """One check of a fresh detector. ``counts`` is known/required/finished; ``median`` in MiB/s."""

    done: list[tuple[int, float]]
    active: list[tuple[int, float]]
    at_s: float
    counts: tuple[int, int, int]
    ids: list[int]
    median: float | None = None
    expected_s: float | None = None
    options: dict[str, Any] = {}  # noqa: RUF012 - never changed


def at_rates(size, *mib_per_s):
    return [(size, size / (rate * MIB)) for rate in mib_per_s]


SIXTEEN: dict[str, Any] = {
    "done": [(64 * MIB, 4.0)] * 3,
    "active": [(64 * MIB, 0.0)],
    "counts": (4, 3, 3),
    "median": 16,
}
MIXED: dict[str, Any] = {
    "done": [(TWENTY, 0.4), (TWENTY, 0.5), (TWENTY, 0.8)],
    "active": [(TWENTY, 0.0), (5 * MIB, 0.0)],
}
WIDE = {"quantile": 0.2, "padding_s": 0.01, "max_stragglers_before_fallback": 10_000}
HALF = {"quantile": 0.5}
ACTIVE = (MIB, 0.0)
QUICK = (MIB, 0.01)

SLOWER: dict[str, Any] = {"quantile": 0.5, "percentile": 75}
ROWS = {
    "D1": Row([], [], 100.0, (0, 0, 0), []),
    "D2": Row([], [ACTIVE], 100.0, (1, 1, 0), []),
    "D3": Row([QUICK] * 5, [ACTIVE] * 5, 100.0, (10, 6, 5), [], median=100),
    "D4": Row([QUICK] * 6, [ACTIVE] * 4, 100.0, (10, 6, 6), [6, 7, 8, 9], 100, 5.015),
    "D5": Row([QUICK] * 5, [], 100.0, (5, 3, 5), [], median=100),
    "D7": Row([QUICK] * 10, [ACTIVE] * 5, 12.0, (15, 9, 10), [10, 11, 12, 13, 14], 100, 5.015),
    "D8-at-limit": Row(**SIXTEEN, at_s=11.0, ids=[], expected_s=11.0),
    "D8-beyond": Row(**SIXTEEN, at_s=11.000001, ids=[3], expected_s=11.0),
    "D10": Row(
        [(MIB, 0.001)] * 250, [ACTIVE] * 750, 0.3, (1000, 200, 250), [*range(250, 1000)], 1000, 0.0115, WIDE
    ),
    "D11": Row([(MIB, 0.001)] * 199, [ACTIVE] * 801, 0.3, (1000, 200, 199), [], median=1000, options=WIDE),
    "D12": Row(at_rates(TEN, 10, 20, 30), [(TEN, 0.0)], 5.76, (4, 2, 3), [3], 20, 5.75, HALF),
    "D13": Row(at_rates(TEN, 10, 20, 30, 40), [(TEN, 0.0)], 5.61, (5, 3, 4), [4], 25, 5.6, HALF),
    "three in four are as fast": Row(
        at_rates(TEN, 10, 20, 30, 40), [(TEN, 0.0)], 5.86, (5, 3, 4), [4], 17.5, 5.857142857, SLOWER
    ),
    "D15-early": Row(**MIXED, at_s=5.3, counts=(5, 3, 3), ids=[4], median=40, expected_s=5.75),
    "D15-late": Row(**MIXED, at_s=5.9, counts=(5, 3, 3), ids=[3, 4], median=40, expected_s=5.75),
    "D16": Row(
        [(MIB, 0.0), (MIB, 0.0005), (MIB, 0.001)],
        [ACTIVE],
        0.0016,
        (4, 3, 3),
        [3],
        1000,
        0.0015,
        {"padding_s": 0.0},
    ),
    "D17": Row(
        [(TWENTY, 0.4)] * 5, [(TWENTY, 0.0), (TWENTY, 6.0), (TWENTY, 6.5)], 7.0, (8, 5, 5), [5], 50, 5.6
    ),
    "D18": Row([(TWENTY, 0.4)] * 4, [(TWENTY, 0.0), (TWENTY, 6.0), (TWENTY, 6.5)], 7.0, (7, 5, 4), [], 50),
    "D20": Row(
        [QUICK] * 55, [ACTIVE] * 45, 100.0, (100, 55, 55), [*range(55, 100)], 100, 5.015, {"quantile": 0.55}
    ),
}


@pytest.mark.parametrize("row", [pytest.param(row, id=name) for name, row in ROWS.items()])
def test_detector_table(row):
    """Counts, median, limit and decisions are those of the table; each straggler is counted once."""
    detector = scene(row.done, row.active, **row.options)
    expected_s = detector.expected_s(len(row.done))
    check = detector.check(row.at_s)
    assert (detector.known, check.required, check.finished) == row.counts
    assert check.active == len(row.active)
    assert check.median_bps == (None if row.median is None else pytest.approx(row.median * MIB))
    assert expected_s == (None if row.expected_s is None else pytest.approx(row.expected_s))
    assert [found.id for found in check.stragglers] == row.ids
    assert detector.total_stragglers == len(row.ids)
    assert not detector.sequential


def test_flagged_value_tells_the_grounds():
    """D4: what is flagged carries how long it took and how long it had."""
    found = scene([QUICK] * 6, [(MIB, 2.0)]).check(100.0).stragglers
    assert [(f.id, f.elapsed_s, f.expected_s) for f in found] == [(6, 98.0, pytest.approx(5.015))]


def test_detector_table_d6_nothing_finished_nothing_judged():
    """D6: five cancelled attempts that wait for their retry are known, and nobody is judged."""
    detector = scene([], [ACTIVE] * 5)
    for entry_id in range(5):
        detector.note_pause(entry_id)
    check = detector.check(100.0)
    assert (detector.known, check.required, check.finished, check.active) == (5, 3, 0, 0)
    assert check.stragglers == ()


@pytest.mark.parametrize("permitted", [True, False])
def test_detector_table_d7_fallback(permitted):
    """D7: five stragglers of three permitted end parallel downloads, if that is permitted; told once."""
    detector = scene(
        [QUICK] * 10, [ACTIVE] * 5, max_stragglers_before_fallback=3, sequential_fallback=permitted
    )
    assert [detector.check(t).fell_back for t in (1.0, 5.5, 6.0)] == [False, permitted, False]
    assert detector.sequential is permitted
    assert detector.total_stragglers == 5


def test_detector_table_d9_flagged_once_per_attempt():
    """D9: five checks that see the same slow attempt return it once and count it once."""
    detector = Detector(StragglerConfig(padding_s=0.05))
    for entry_id in (100, *range(10)):
        start(detector, entry_id)
    for entry_id in range(10):
        detector.note_finish(entry_id, MIB, 0.005)
    assert detector.expected_s(100) == pytest.approx(0.0575)
    assert [flagged_ids(detector, 0.56 + i / 10) for i in range(5)] == [[100], [], [], [], []]
    assert (detector.known, detector.required, detector.total_stragglers) == (11, 7, 1)


def test_detector_table_d14_retried_entry_is_a_sample():
    """D14: an entry that finished at its second attempt is in the median with that attempt's own speed."""
    detector = scene([(TEN, 0.1)] * 3, [(TEN, 0.0), (TEN, 0.0)], quantile=0.5)
    detector.note_pause(3)
    start(detector, 3, TEN, 1.0, mitigations=1)
    detector.note_finish(3, TEN, 3.0)
    assert (detector.known, detector.required, detector.total_finished) == (5, 3, 4)
    assert detector.median_bps == pytest.approx(100 * MIB)
    assert detector.expected_s(4) == pytest.approx(5.15)
    assert flagged_ids(detector, 5.16) == [4]


def test_detector_table_d19_an_entry_is_known_once():
    """D19: an entry reported finished twice counts once, so one of two is still too few."""
    detector = scene([QUICK], [ACTIVE])
    detector.note_finish(0, MIB, 0.02)
    assert (detector.known, detector.required, detector.total_finished) == (2, 2, 1)
    assert flagged_ids(detector, 10.0) == []


def test_detector_table_d21_many_tasks_one_loop():
    """D21: tasks that check while others finish see every straggler once, and count one slow file as one.

    The original shares its detector between threads. This one belongs to an event loop, where a call runs to
    its end before the next begins; so the tasks of a loop are what can interleave, and what is tried here.
    """
    detector = Detector(StragglerConfig(padding_s=1.0))

    async def finish(entry_id, clock):
        start(detector, entry_id)
        await clock.sleep(0.01 * (entry_id % 7 + 1))
        detector.note_finish(entry_id, MIB, clock.monotonic())

    async def watch(clock):
        found = []
        while clock.monotonic() < 4.0:
            found += flagged_ids(detector, clock.monotonic())
            await clock.sleep(0.01)
        return found

    async def run():
        start(detector, 1000)
        clock = VirtualClock()
        watchers = [asyncio.create_task(watch(clock)) for _ in range(2)]
        await asyncio.gather(*(finish(entry_id, clock) for entry_id in range(200)))
        return await asyncio.gather(*watchers)

    first, second = run_virtual(run())
    assert first + second == [1000]
    assert detector.total_stragglers == 1
