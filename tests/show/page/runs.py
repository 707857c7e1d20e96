"""Recorded runs for tests of the page."""

from pathlib import Path

from cfetch.show.metrics import RunHeader
from cfetch.show.metrics_reading import MetricsRun
from tests.show.live.replay import stream


def header(**more):
    fields = {
        "instant": "20260101T000000000Z-aaaa",
        "wall_start": "2026-01-01T00:00:00Z",
        "version": "0.1.0",
        "host": "worker",
        "files": 400,
        "concurrency": 16,
        "settings": {"multiplier": 1.5, "policy": "adaptive"},
    }
    return RunHeader(**{**fields, **more})


def recorded(records, **more):
    return MetricsRun(Path("m.jsonl"), header(**more), iter(list(records)))


def played(**options):
    """The records of a made-up run over three hosts, with stragglers and failures."""
    return [event.record for event in stream(straggling=0.08, **options) if hasattr(event, "record")]
