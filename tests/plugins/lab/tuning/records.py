"""Metrics files, made without a download."""

from cfetch.show.metrics import MetricsFile
from tests.show.records import attempt, finished, record, started

__all__ = ["FIRST", "MORE", "metrics_file"]

FIRST = "2026-03-01T23:30:00+00:00"
MORE = "2026-03-02T01:00:00+02:00"  # the same day in UTC


def metrics_file(path, instant="i1", wall_start=FIRST, records=None, planned=None):
    """A run of five files unless ``records`` are given; the path."""
    if records is None:
        records = [
            record(n, 100, attempt(samples=[(0.5, 50), (1.0, 100)]), instant=instant) for n in range(5)
        ]
    with MetricsFile(path) as metrics:
        metrics(started(len(records) if planned is None else planned, instant=instant, wall_start=wall_start))
        for event in finished(*records):
            metrics(event)
    return path
