"""The replay against the real detector, and against figures worked out by hand."""

import heapq
import math

import numpy as np
import pytest

from cfetch.base.config.straggler import StragglerConfig
from cfetch.plugins.lab.tuning.history import CUT, ERRORS_ONLY, STALLED, WHOLE, History, build_history
from cfetch.plugins.lab.tuning.replay import Setting, prepare_group, replay
from cfetch.plugins.lab.views.tuning_document import Estimates
from cfetch.straggler.detector import Detector
from tests.show.records import attempt, record

TICK_S = 0.5
NOBODY = Setting(1.5, 0.6, math.inf)
DEFAULT = Setting(1.5, 0.6, 5.0)


def live(sizes, alone_s, fresh_s, workers, setting):
    """A run as the engine leads it: the real detector asked at every tick; ends, flagged files, starts."""
    mitigated = math.isfinite(setting.padding_s)
    padding_s = setting.padding_s if mitigated else 0.0
    detector = Detector(
        StragglerConfig(
            enabled=mitigated, multiplier=setting.multiplier, quantile=setting.quantile, padding_s=padding_s
        )
    )
    starts, ends, flagged = {}, {}, set()
    under_way: list[tuple[float, int]] = []
    tick = 0

    def begin(at, when_s):
        starts[at] = when_s
        detector.note_start(at, int(sizes[at]), when_s, immune=False, mitigations=0)
        heapq.heappush(under_way, (when_s + alone_s[at], at))

    waiting = iter(range(len(sizes)))
    for at, _ in zip(waiting, range(workers - 1), strict=False):
        begin(at, 0.0)
    begin(workers - 1, 0.0)
    while under_way:
        tick += 1
        now_s = tick * TICK_S
        while under_way and under_way[0][0] <= now_s:
            ends_s, at = heapq.heappop(under_way)
            ends[at] = ends_s
            detector.note_finish(at, int(sizes[at]), ends_s)
            following = next(waiting, None)
            if following is not None:
                begin(following, ends_s)
        for one in detector.check(now_s).stragglers:
            flagged.add(one.id)
            under_way = [(when, at) for when, at in under_way if at != one.id]
            heapq.heapify(under_way)
            detector.note_start(one.id, int(sizes[one.id]), now_s, immune=True, mitigations=1)
            heapq.heappush(under_way, (now_s + fresh_s[one.id], one.id))
    return ends, flagged, starts


def recorded(sizes, alone_s, workers, fresh_s=None, **columns):
    """The history of such a run that nobody mitigated; ``fresh_s`` as if every file had once been rescued."""
    sizes, alone_s = np.array(sizes, float), np.array(alone_s, float)
    ends, _, starts = live(sizes, alone_s, alone_s, workers, NOBODY)
    zero, none = np.zeros(len(sizes)), np.full(len(sizes), np.nan)
    order = range(len(sizes))
    given: dict[str, np.ndarray] = {
        "start_s": np.array([starts[at] for at in order]),
        "busy_s": alone_s,
        "end_s": np.array([ends[at] for at in order]),
        "before_s": zero,
        "size_bytes": sizes,
        "seen_s": alone_s,
        "got_bytes": sizes,
        "rest_s": zero,
        "ended": zero + WHOLE,
        "fresh_bps": none if fresh_s is None else sizes / fresh_s,
        "kept": zero,
        "sample_bps": sizes / alone_s,
        "host": zero,
    }
    return History(**{**given, **columns})


def ready(made, workers, own=NOBODY):
    return prepare_group(made, workers=workers, tick_s=TICK_S, own=own)


def scene(seed, files=300):
    """Sizes over two orders of magnitude, some attempts much too slow."""
    dice = np.random.default_rng(seed)
    sizes = np.exp(dice.uniform(np.log(1e6), np.log(1e8), files)).round()
    fresh_s = sizes / (20e6 * dice.lognormal(0, 0.2, files))
    alone_s = fresh_s.copy()
    slow = dice.random(files) < 0.04
    alone_s[slow] *= dice.uniform(8, 40, int(slow.sum()))
    return sizes, alone_s, fresh_s


GRID = [Setting(m, q, p) for m in (1.2, 2.0) for q in (0.3, 0.6, 0.9) for p in (0.5, 2.0, 5.0)]


@pytest.mark.parametrize("workers", [3, 16])
@pytest.mark.parametrize("seed", range(4))
def test_agrees_with_the_detector_itself(seed, workers):
    """Who is flagged, and when all is done, as the real rule would have it, under every setting."""
    sizes, alone_s, fresh_s = scene(seed)
    (found,) = replay([ready(recorded(sizes, alone_s, workers, fresh_s), workers)], GRID)
    ratios = []
    for at, setting in enumerate(GRID):
        ends, flagged, _ = live(sizes, alone_s, fresh_s, workers, setting)
        assert abs(found.flagged[at] - len(flagged)) <= 1  # medians follow the record's order of finishes
        ratios.append(found.makespan_s[at] / max(ends.values()))
    assert np.mean(np.abs(np.array(ratios) - 1)) < 0.01
    assert np.median(ratios) == pytest.approx(1, abs=0.005)


def test_without_mitigation_is_plain_scheduling():
    """The own setting of a run that nobody mitigated gives back its makespan."""
    sizes, alone_s, fresh_s = scene(9)
    made = recorded(sizes, alone_s, 8, fresh_s)
    (found,) = replay([ready(made, 8)], [NOBODY])
    assert found.makespan_s[0] == found.own_makespan_s == pytest.approx(made.end_s.max())
    assert found.flagged[0] == found.twice_bytes[0] == 0


def lone_straggler(**columns):
    """Two workers, 19 files of 1 s and one of 60 s in the middle, all of 1,000 bytes."""
    alone_s = np.ones(20)
    alone_s[8] = 60.0
    return recorded(np.full(20, 1000.0), alone_s, 2, np.ones(20), **columns)


def test_worked_by_hand():
    """Begun at 4 s, its limit is 1.5 * 1 s + 5 s: flagged at the check after 10.5 s, done at 12 s."""
    (found,) = replay([ready(lone_straggler(), 2)], [DEFAULT])
    assert found.makespan_s[0] == 14.0  # until 12 s the other worker does 8; three are left for both
    assert (found.flagged[0], found.false_alarms[0]) == (1, 0)
    assert found.twice_bytes[0] == pytest.approx(1000 * 7 / 60)
    (found,) = replay([ready(lone_straggler(), 2)], [DEFAULT._replace(padding_s=20.0)])
    assert found.makespan_s[0] == 4 + 21.5 + 0.5 + 1


def test_a_rescue_that_resumes_fetches_nothing_twice():
    """It has only the rest to bring."""
    resumes = lone_straggler(kept=np.ones(20))
    (found,) = replay([ready(resumes, 2)], [DEFAULT._replace(padding_s=20.0)])
    assert found.twice_bytes[0] == 0
    assert found.makespan_s[0] == pytest.approx(26 + 1 - 22 / 60)


def test_a_rescue_that_ends_later_is_a_false_alarm():
    """Flagged at 8 s of 8.4 s, and a second more for the fresh attempt."""
    alone_s = np.ones(20)
    alone_s[8] = 8.4
    made = recorded(np.full(20, 1000.0), alone_s, 2, np.ones(20))
    (found,) = replay([ready(made, 2)], [DEFAULT._replace(padding_s=6.0), DEFAULT._replace(padding_s=2.0)])
    assert found.false_alarms.tolist() == [1, 0]
    assert found.flagged.tolist() == [1, 1]


def test_nobody_is_judged_before_enough_have_finished():
    """Four slow first files hold all four workers; with the quantile 0.6 six have to be done first."""
    alone_s = np.array([30.0, 30, 30, 1] + [1.0] * 16)
    made = recorded(np.full(20, 1000.0), alone_s, 4, np.ones(20))
    (found,) = replay(
        [ready(made, 4)], [Setting(1.5, 0.6, 1.0), Setting(1.5, 0.8, 1.0), Setting(1.5, 1.0, 1.0)]
    )
    assert found.flagged.tolist() == [3, 3, 0]
    assert found.makespan_s.tolist() == pytest.approx([6.5 + 1 + 2, 17 + 1, 30.0], abs=1.5)


def test_scores_do_not_depend_on_who_is_replayed_beside():
    """Longer, shorter and wider neighbours change no bit."""
    groups = []
    for seed, files, workers in ((1, 50, 3), (2, 1500, 16), (3, 200, 7)):
        sizes, alone_s, _ = scene(seed, files)
        groups.append(ready(recorded(sizes, alone_s, workers), workers))
    together = replay(groups, GRID)
    for one, found in zip(groups, together, strict=True):
        (alone,) = replay([one], GRID)
        for left, right in zip(alone, found, strict=True):
            np.testing.assert_array_equal(left, right)


def test_a_fresh_attempt_is_drawn_from_normal_ones_of_its_size():
    """Never from one that was itself slow, and the same every time."""
    sizes, alone_s, fresh_s = scene(5)
    first, second = (ready(recorded(sizes, alone_s, 8), 8) for _ in range(2))
    np.testing.assert_array_equal(first.fresh_s, second.fresh_s)
    ratio = first.fresh_s / fresh_s
    assert ratio.min() > 0.3
    assert ratio.max() < 3.5
    own = ready(recorded(sizes, alone_s, 8, fresh_s), 8)
    np.testing.assert_allclose(own.fresh_s, fresh_s)


def test_failed_tries_hold_a_worker_and_are_no_finish():
    """A file that only ever failed takes its time, and is neither judged nor counted."""
    ended = np.full(20, float(WHOLE))
    ended[3] = ERRORS_ONLY
    others = np.where(np.arange(20) == 3, 0.0, 1.0)
    made = lone_straggler()
    before_s = np.where(np.arange(20) == 3, 100.0, 0.0)
    end_s = np.where(np.arange(20) == 3, np.nan, made.end_s)
    seen_s = made.seen_s * others
    size = made.size_bytes * others
    made = made._replace(before_s=before_s, ended=ended, end_s=end_s, seen_s=seen_s, size_bytes=size)
    (found,) = replay([ready(made, 2)], [DEFAULT])
    assert found.flagged[0] == 1
    assert found.makespan_s[0] == 101.0


def test_unknown_sizes_are_never_flagged():
    """And a run of which nothing came to an end cannot be replayed."""
    made = lone_straggler()
    blind = made._replace(size_bytes=np.where(made.seen_s > 1, 0.0, made.size_bytes))
    (found,) = replay([ready(blind, 2)], [DEFAULT])
    assert found.flagged[0] == 0
    assert ready(made._replace(ended=np.full(20, float(CUT))), 2) is None


def columns(*records, stall_timeout_s=30.0):
    return build_history(records, stall_timeout_s=stall_timeout_s)[0]


def test_what_was_broken_off_goes_on_at_its_last_rate():
    """100 of 1,000 bytes in 10 s, the later half at 12 B/s: 75 s more; never less than what was seen."""
    slow = attempt(end_s=10.0, size=100, outcome="straggler", samples=[(1.0, 10), (5.0, 40), (9.0, 88)])
    rescue = attempt(2, 10.0, 11.0, size=1000)
    made = columns(record(0, 1000, slow, rescue))
    assert made.ended[0] == CUT
    assert made.seen_s[0] == 10.0
    assert made.rest_s[0] == pytest.approx(900 / ((100 - 40) / 5))
    assert (made.fresh_bps[0], made.kept[0], made.sample_bps[0]) == (1000.0, 0.0, 1000.0)


def test_silence_is_ended_by_the_stall_rule():
    """40 bytes until 2 s, broken off at 10 s: the rule would have waited until 32 s. One that stalled did."""
    silent = attempt(end_s=10.0, size=40, outcome="straggler", samples=[(2.0, 40)])
    stalled = attempt(end_s=30.0, size=500, outcome="stalled", samples=[(0.5, 500)])
    made = columns(
        record(0, 1000, silent, attempt(2, 10.0, 11.0, from_byte=40, size=960)),
        record(1, 1000, stalled, attempt(2, 31.0, 33.0, size=1000)),
    )
    assert made.ended.tolist() == [STALLED, STALLED]
    assert made.rest_s.tolist() == [22.0, 0.0]
    assert made.got_bytes.tolist() == [40, 500]
    assert made.kept.tolist() == [1.0, 0.0]
    assert math.isnan(made.fresh_bps[0])  # a short rest tells no speed


def test_a_person_stopped_it_before_its_first_byte():
    """Its time is drawn from those that took longer for their size; without any it is what was seen."""
    stopped = attempt(end_s=4.0, size=0, outcome="error", error="interrupted", first_byte_s=None)
    others = [record(at, 1000, attempt(end_s=float(at))) for at in range(1, 10)]
    made = columns(*others, record(0, 1000, stopped, status="cancelled"))
    assert math.isnan(made.rest_s[-1])
    found = ready(made, 20)
    assert found.alone_s[found.alone_s == 7.0].size == 2  # of 5 to 9 s the middle one, and itself
    assert found.estimates == Estimates(by_rate=0, by_stall_rule=0, drawn=1)
    late = columns(
        *others, record(0, 1000, attempt(**{**_fields(stopped), "end_s": 40.0}), status="cancelled")
    )
    assert ready(late, 20).alone_s.max() == 40.0


def _fields(one):
    return {"outcome": one.outcome, "error": one.error, "size": one.bytes, "first_byte_s": None}


def test_errors_before_are_kept_apart():
    """Two failed tries, then the judged one; second streams that lost are nobody's time."""
    tries = [
        attempt(1, 0.0, 2.0, size=10, outcome="error", error="HTTP 500"),
        attempt(2, 5.0, 6.0, size=10, outcome="expired", error="HTTP 403"),
        attempt(3, 6.0, 8.0, size=300, outcome="lost"),
        attempt(4, 6.0, 9.0, from_byte=200, size=800),
    ]
    made = columns(
        record(0, 1000, *tries), record(1, 500, attempt(end_s=1.0, outcome="error"), status="failed")
    )
    assert made.before_s.tolist() == [3.0, 1.0]
    assert made.busy_s.tolist() == [6.0, 1.0]
    assert made.size_bytes.tolist() == [800, 0]
    assert made.ended.tolist() == [WHOLE, ERRORS_ONLY]
    assert len(columns(record(2, 10, status="skipped")).start_s) == 0


def test_workers_are_those_that_were_ever_busy():
    """A limit that was never reached is none."""
    made = lone_straggler()
    assert ready(made, 16).workers == 2
    assert ready(made, 1).workers == 1
