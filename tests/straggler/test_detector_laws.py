"""What holds for every history: the detector against a naive model, and laws of the formula."""

import math
import statistics

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from cfetch.base.config.straggler import StragglerConfig
from cfetch.straggler.detector import Detector
from tests.straggler.scenes import MIB, flagged_ids, scene, start

sizes = st.one_of(st.none(), st.just(0), st.integers(1, 1 << 40))
positive = st.integers(1, 1 << 40)
durations = st.floats(0.0, 1000.0)
done = st.lists(st.tuples(positive, durations), max_size=12)
active = st.lists(st.tuples(sizes, st.floats(0.0, 100.0)), max_size=8)
moments = st.floats(100.0, 1e5)
options = st.fixed_dictionaries(
    {
        "multiplier": st.floats(1.01, 10.0),
        "quantile": st.floats(0.01, 1.0),
        "padding_s": st.floats(0.0, 60.0),
    }
)


@given(done, active, options, moments, st.floats(0.0, 1e5))
def test_monotone_in_elapsed(done, active, options, now_s, more_s):
    """Whoever is a straggler now would be one later too."""
    early = flagged_ids(scene(done, active, **options), now_s)
    late = flagged_ids(scene(done, active, **options), now_s + more_s)
    assert set(early) <= set(late)


@given(done, active, options, moments, st.integers(1, 20))
def test_scale_invariance(done, active, options, now_s, power):
    """All files so many times larger, in the same times, give the same decisions (powers of two: exact)."""
    scale = 2**power
    large_done = [(size * scale, duration) for size, duration in done]
    large_active = [(size and size * scale, at_s) for size, at_s in active]
    plain = flagged_ids(scene(done, active, **options), now_s)
    assert flagged_ids(scene(large_done, large_active, **options), now_s) == plain


@given(st.data(), done, active, options, moments)
def test_order_of_reports_does_not_matter(data, done, active, options, now_s):
    """Starts and ends told in another order lead to the same stragglers."""
    detector = Detector(StragglerConfig(**options))
    everyone = list(enumerate([*((size, 0.0) for size, _ in done), *active]))
    for entry_id, (size, at_s) in data.draw(st.permutations(everyone)):
        start(detector, entry_id, size, at_s)
    for entry_id, (size, duration) in data.draw(st.permutations(list(enumerate(done)))):
        detector.note_finish(entry_id, size, duration)
    assert set(flagged_ids(detector, now_s)) == set(flagged_ids(scene(done, active, **options), now_s))


@given(done, active, options, moments, st.integers(0, 5))
def test_higher_bar_flags_no_more(done, active, options, now_s, mitigations):
    """An entry with mitigations behind it is never flagged where one without is not."""
    detector = scene(done, active, **options)
    for entry_id, (size, at_s) in enumerate(active, len(done)):
        start(detector, entry_id, size, at_s, mitigations=mitigations)
    assert set(flagged_ids(detector, now_s)) <= set(flagged_ids(scene(done, active, **options), now_s))


@given(options, st.integers(1, 30), st.floats(0.001, 100.0))
def test_equal_files_in_equal_time_are_never_stragglers(options, count, duration_s):
    """A file that takes as long as all the others is normal, whatever the options."""
    detector = scene([(MIB, duration_s)] * count, [(MIB, 0.0)], **options)
    assert flagged_ids(detector, duration_s) == []


class DetectorAgainstModel(RuleBasedStateMachine):
    """After any reports and checks the detector agrees with sets, a list of rates and the formula."""

    ids = st.integers(0, 9)

    def __init__(self):
        super().__init__()
        self.config = StragglerConfig(
            padding_s=1.0, max_stragglers_before_fallback=2, sequential_fallback=True
        )
        self.detector = Detector(self.config)
        self.now_s = 0.0
        self.active, self.paused, self.finished, self.failed = {}, set(), set(), set()
        self.rates, self.counted, self.flagged = [], set(), set()

    def required(self):
        known = len(self.active) + len(self.paused) + len(self.finished)
        return math.ceil(self.config.quantile * known - 1e-9)

    @rule(entry_id=ids, size=sizes, immune=st.booleans(), mitigations=st.integers(0, 2))
    def start(self, entry_id, size, immune, mitigations):
        start(self.detector, entry_id, size, self.now_s, immune=immune, mitigations=mitigations)
        for others in (self.paused, self.finished, self.flagged):
            others.discard(entry_id)
        self.active[entry_id] = (size, self.now_s, immune, mitigations)

    @rule(entry_id=ids, size=sizes)
    def finish(self, entry_id, size):
        self.detector.note_finish(entry_id, size, self.now_s)
        if attempt := self.active.pop(entry_id, None):
            self.finished.add(entry_id)
            if size:
                self.rates.append(size / max(self.now_s - attempt[1], 0.001))

    @rule(entry_id=ids)
    def pause(self, entry_id):
        self.detector.note_pause(entry_id)
        if self.active.pop(entry_id, None):
            self.paused.add(entry_id)

    @rule(entry_id=ids)
    def fail(self, entry_id):
        self.detector.note_failure(entry_id)
        self.active.pop(entry_id, None)
        self.paused.discard(entry_id)
        self.finished.discard(entry_id)

    @rule(step_s=st.floats(0.0, 5.0))
    def check(self, step_s):
        self.now_s += step_s
        judged = bool(self.rates) and len(self.finished) >= self.required()
        expected = {i for i, attempt in self.active.items() if judged and self.is_straggler(i, *attempt)}
        assert set(flagged_ids(self.detector, self.now_s)) == expected
        self.flagged |= expected
        self.counted |= expected

    def is_straggler(self, entry_id, size, start_s, immune, mitigations):
        if immune or not size or entry_id in self.flagged:
            return False
        normal_s = self.config.multiplier * size / statistics.median(self.rates)
        return self.now_s - start_s > normal_s * 2.0**mitigations + self.config.padding_s

    @invariant()
    def agrees(self):
        assert self.detector.known == len(self.active) + len(self.paused) + len(self.finished)
        assert self.detector.total_finished == len(self.finished)
        assert self.detector.required == self.required()
        assert self.detector.median_bps == (statistics.median(self.rates) if self.rates else None)
        assert self.detector.total_stragglers == len(self.counted)
        assert self.detector.sequential == (len(self.counted) >= 2)


TestDetectorAgainstModel = DetectorAgainstModel.TestCase
