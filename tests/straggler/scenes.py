"""Detectors with a history, as the tables describe them."""

from cfetch.base.config.straggler import StragglerConfig
from cfetch.straggler.detector import Detector

MIB = 1 << 20


def start(detector, entry_id, size_bytes=MIB, at_s=0.0, *, immune=False, mitigations=0):
    detector.note_start(entry_id, size_bytes, at_s, immune=immune, mitigations=mitigations)


def scene(done=(), active=(), **options):
    """A detector told of ``done`` (size, duration) and then of ``active`` (size, start) entries."""
    detector = Detector(StragglerConfig(**options))
    sizes = [size for size, _ in (*done, *active)]
    starts = [0.0] * len(done) + [at_s for _, at_s in active]
    for entry_id, (size, at_s) in enumerate(zip(sizes, starts, strict=True)):
        start(detector, entry_id, size, at_s)
    for entry_id, (size, duration_s) in enumerate(done):
        detector.note_finish(entry_id, size, duration_s)
    return detector


def flagged_ids(detector, now_s):
    return [found.id for found in detector.check(now_s).stragglers]
