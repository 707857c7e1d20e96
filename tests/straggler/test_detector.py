"""Where the detector decides what the table leaves open: retries, failures, sizes, immunity, gaps, cost."""

import tracemalloc
from types import SimpleNamespace

import pytest

from cfetch.straggler.detector import limit_s
from tests.straggler.scenes import MIB, flagged_ids, scene, start

TWENTY = 20 * MIB
NORMAL = [(TWENTY, 0.4)] * 5  # 50 MiB/s: the limit for 20 MiB is 1.5 * 0.4 + 5 = 5.6 s


def test_last_wave_is_judged_however_long_ago_the_others_finished():
    """X1: two of three files end at 0.4 s; the third, which never sends, is found at 5.6 s."""
    detector = scene([(TWENTY, 0.4)] * 2, [(TWENTY, 0.0)])
    ticks = [i / 2 for i in range(1, 20)]
    assert [t for t in ticks if flagged_ids(detector, t)] == [6.0]


def test_elapsed_counts_from_the_attempts_own_start():
    """X4: 8 s of a stalled attempt and the back-off are no part of the good attempt's throughput."""
    detector = scene([], [(TWENTY, 0.0)])
    detector.note_pause(0)
    start(detector, 0, TWENTY, 8.5, mitigations=1)
    detector.note_finish(0, TWENTY, 8.9)
    assert detector.median_bps == pytest.approx(50 * MIB)


def test_new_attempt_is_judged_by_its_own_clock():
    """A fresh attempt of a flagged entry is not flagged for the time of the earlier one."""
    detector = scene(NORMAL, [(TWENTY, 0.0)])
    assert flagged_ids(detector, 5.7) == [5]
    start(detector, 5, TWENTY, 5.7, immune=False, mitigations=1)
    assert flagged_ids(detector, 6.0) == []


def test_second_stall_is_flagged_behind_a_higher_bar():
    """X12: the limit's first term doubles with each rescue; the entry counts once."""
    detector = scene(NORMAL, [(TWENTY, 0.0)])
    assert [detector.expected_s(5), *flagged_ids(detector, 5.7)] == [pytest.approx(5.6), 5]
    start(detector, 5, TWENTY, 6.0, mitigations=1)
    assert detector.expected_s(5) == pytest.approx(6.2)
    flagged = {t: flagged_ids(detector, t) for t in (9.0, 12.1, 12.3, 12.5)}
    assert [t for t, ids in flagged.items() if ids] == [12.3]
    assert detector.total_stragglers == 1


def test_bar_stays_a_number_after_any_number_of_rescues():
    """Absurdly many mitigations give an absurdly high limit, not an overflow."""
    detector = scene(NORMAL)
    start(detector, 5, TWENTY, 0.0, mitigations=100_000)
    assert flagged_ids(detector, 1e9) == []


def test_immune_attempt_is_never_flagged():
    """X11: the last permitted attempt may take as long as it likes; its limit is still shown."""
    detector = scene(NORMAL)
    start(detector, 5, TWENTY, 0.0, immune=True)
    assert flagged_ids(detector, 1e6) == []
    assert detector.expected_s(5) == pytest.approx(5.6)


@pytest.mark.parametrize("size_bytes", [None, 0, -1])
def test_without_a_size_no_sample_and_no_flag(size_bytes):
    """X6: an unknown or empty size neither breaks nor feeds the median, and has no limit."""
    detector = scene(NORMAL, [(size_bytes, 0.0), (size_bytes, 0.0)])
    before = detector.median_bps
    detector.note_finish(5, size_bytes, 100.0)
    assert (detector.median_bps, detector.total_finished) == (before, 6)
    assert detector.expected_s(6) is None
    assert flagged_ids(detector, 1e6) == []


def test_size_told_by_the_reply_brings_a_limit():
    """An attempt without a declared size is judged like any other once its reply told it."""
    detector = scene(NORMAL, [(None, 0.0)])
    detector.note_size(5, TWENTY)
    detector.note_size(99, TWENTY)
    assert detector.expected_s(5) == pytest.approx(5.6)
    assert (detector.known, flagged_ids(detector, 5.7)) == (6, [5])


def test_only_files_without_size_finished_judges_nobody():
    """Enough finished entries without one sample are no baseline."""
    detector = scene([(0, 0.01)] * 9, [(MIB, 0.0)])
    assert detector.total_finished > detector.required
    assert flagged_ids(detector, 1e6) == []


def test_failed_entries_leave_the_denominator():
    """X8: two of ten failed for good leave ceil(0.6 * 8) = 5 to wait for."""
    detector = scene([(MIB, 0.01)] * 5, [(MIB, 0.0)] * 5)
    assert flagged_ids(detector, 4.0) == []
    detector.note_failure(5)
    detector.note_pause(6)
    detector.note_failure(6)
    assert (detector.known, detector.required) == (8, 5)
    assert flagged_ids(detector, 6.0) == [7, 8, 9]


def test_paused_entry_stays_known_but_is_not_judged():
    """Between two attempts an entry is known but not in flight; pausing an unknown one does nothing."""
    detector = scene(NORMAL, [(TWENTY, 0.0)])
    detector.note_pause(5)
    detector.note_pause(99)
    assert (detector.known, detector.check(100.0).active) == (6, 0)
    assert detector.expected_s(5) is None
    start(detector, 5, TWENTY, 100.0)
    assert detector.known == 6


def test_finished_entry_that_starts_again_is_known_once():
    """An entry fetched anew is in flight and no longer finished; its first sample stays."""
    detector = scene(NORMAL)
    start(detector, 0, TWENTY, 1.0)
    assert (detector.known, detector.total_finished) == (5, 4)
    detector.note_finish(0, TWENTY, 2.0)
    assert (detector.known, detector.total_finished) == (5, 5)


def test_two_entries_of_one_size_and_time_are_two():
    """X9: identity is the id alone, so like entries have records of their own."""
    detector = scene([(MIB, 0.01)] * 6, [(MIB, 0.0), (MIB, 0.0)])
    assert flagged_ids(detector, 6.0) == [6, 7]


def test_straggler_that_completes_is_finished():
    """X15: when the last byte arrives while it is being cancelled, the entry is finished, and counted."""
    detector = scene(NORMAL, [(TWENTY, 0.0)])
    assert flagged_ids(detector, 5.7) == [5]
    detector.note_finish(5, TWENTY, 5.8)
    assert (detector.total_finished, detector.total_stragglers) == (6, 1)


def test_late_check_flags_nobody_and_forgives_the_gap():
    """X10: after an hour without a check nobody is judged, then only for the time outside the gap."""
    detector = scene(NORMAL, [(TWENTY, 0.0)])
    assert flagged_ids(detector, 4.0) == []
    late = detector.check(3604.0)
    assert (late.stragglers, late.gap_s) == ((), 3600.0)
    assert flagged_ids(detector, 3605.5) == []
    (found,) = detector.check(3605.7).stragglers
    assert (found.id, found.elapsed_s) == (5, pytest.approx(5.7))


def test_late_check_flags_nobody_even_on_a_new_baseline():
    """Files that finish in a gap may complete the baseline; only the check after the late one judges."""
    detector = scene([], [(TWENTY, 0.0)])
    detector.check(20.0)
    for entry_id in range(1, 6):
        start(detector, entry_id, TWENTY, 59.0)
        detector.note_finish(entry_id, TWENTY, 59.4)
    assert flagged_ids(detector, 60.0) == []
    assert flagged_ids(detector, 60.5) == [0]


def test_attempt_started_within_a_gap_starts_when_it_ends():
    """Waking up, the engine may start an attempt before the late check: it neither gains nor loses time."""
    detector = scene(NORMAL)
    detector.check(0.5)
    start(detector, 5, TWENTY, 99.0)
    detector.check(100.0)
    assert flagged_ids(detector, 104.0) == []
    (found,) = detector.check(105.7).stragglers
    assert found.elapsed_s == pytest.approx(5.7)


def test_fallback_does_not_end_detection():
    """In sequential mode slow attempts are flagged as before."""
    detector = scene(NORMAL, [(TWENTY, 0.0)], max_stragglers_before_fallback=1, sequential_fallback=True)
    assert detector.check(5.7).fell_back
    start(detector, 6, TWENTY, 5.7)
    assert flagged_ids(detector, 10.0) == []
    assert flagged_ids(detector, 11.5) == [6]
    assert detector.sequential


def test_threshold_zero_is_sequential_before_any_check():
    """With a threshold of 0 the first entry already has to wait its turn."""
    assert scene(max_stragglers_before_fallback=0, sequential_fallback=True).sequential


def test_one_at_a_time_a_fresh_connection_is_tried_now_and_then():
    """All files come over one connection then, and if it is slow, nothing else would show it."""
    alone = scene([], [(TWENTY, 0.0)], max_stragglers_before_fallback=0, sequential_fallback=True)
    attempts = [SimpleNamespace(key=0, held_s=lambda _: 0.0)]
    lame = {tick / 2: alone.check(tick / 2, attempts).lame for tick in range(1, 50)}
    assert {now_s: keys for now_s, keys in lame.items() if keys} == {10.0: (0,), 20.0: (0,)}
    parallel = scene([], [(TWENTY, 0.0)])
    assert [parallel.check(tick / 2, attempts).lame for tick in range(1, 50)] == [()] * 49


def test_disabled_knows_the_baseline_and_flags_nobody():
    """Without mitigation the dashboard still has its median, and no attempt has a limit."""
    detector = scene(NORMAL, [(TWENTY, 0.0)], enabled=False)
    check = detector.check(1000.0)
    assert (check.median_bps, check.finished) == (pytest.approx(50 * MIB), 5)
    assert check.stragglers == ()
    assert detector.expected_s(5) is None


def test_limit_formula():
    """The limit is multiplier * size / median + padding, its first term doubled by each mitigation."""
    config = scene(multiplier=3.0, padding_s=2.0)._config
    assert limit_s(config, 10 * MIB, 5.0 * MIB) == 8.0
    assert limit_s(config, 10 * MIB, 5.0 * MIB, mitigations=2) == 26.0


def test_finished_entries_cost_little_memory():
    """Thirty thousand finished entries take under 45 bytes each: a sample and a mark, no record."""
    tracemalloc.start()
    try:
        detector = scene()
        for entry_id in range(30_000):
            start(detector, entry_id, MIB, 0.0)
            detector.note_finish(entry_id, MIB, 1.0 + entry_id)
        assert tracemalloc.get_traced_memory()[0] < 1_350_000
    finally:
        tracemalloc.stop()
    assert detector.total_finished == 30_000


def test_a_larger_runs_baseline_is_in_force_from_the_first_file_on():
    """Nothing has finished here, and the one under way takes far longer than elsewhere: limit 6.5 s."""
    detector = scene([], [(MIB, 0.0)])
    assert flagged_ids(detector, 6.6) == []
    detector.use_median(float(MIB))
    assert detector.expected_s(0) == 6.5
    check = detector.check(6.6)
    assert ([found.id for found in check.stragglers], check.median_bps) == ([0], MIB)


def test_a_larger_runs_baseline_goes_before_ones_own_until_it_is_taken_back():
    """Here files come at a tenth of that: by their own measure nobody is slow."""
    detector = scene([(MIB, 10.0)] * 3, [(MIB, 10.0)], quantile=0.5)
    detector.use_median(float(MIB))
    assert detector.expected_s(3) == 6.5
    detector.use_median(None)
    assert (detector.expected_s(3), flagged_ids(detector, 18.0)) == (20.0, [])


def test_a_larger_runs_baseline_flags_nobody_where_mitigation_is_off():
    """It is a measure, not an order."""
    detector = scene([], [(MIB, 0.0)], enabled=False)
    detector.use_median(float(MIB))
    assert flagged_ids(detector, 100.0) == []
