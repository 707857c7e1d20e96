"""Events that the metrics keep."""

import pytest

from cfetch.base import events as ev
from cfetch.show.event_records import KINDS, make_event_record
from tests.show.records import progress, retry, started

KEPT = [
    ev.WidthChanged(t_s=1.0, host="h", slots=2, before=4, reason="slow"),
    ev.SlowdownSeen(t_s=1.0, active=4, reason="all are slow"),
    ev.SlowdownOver(t_s=9.0, lasted_s=8.0),
    ev.StragglerCancelling(
        t_s=1.0, id=3, offset=3, path="a/3", elapsed_s=9.0, expected_s=1.0, host="h", is_probe=True
    ),
    ev.RescueGivenUp(t_s=1.0, id=3, path="a/3", host="h", rescues=5),
    ev.MinRateWaived(t_s=1.0, path="a/3", host="h", connections=3, min_rate_bps=100),
    ev.HostPaused(t_s=1.0, host="h", pause_s=2.0, reason="HTTP 429"),
    ev.HostPaused(t_s=1.0, host="h", pause_s=2.0, reason="failed 8 times in a row", is_failing=True),
    ev.BreakerClosed(t_s=1.0, host="h"),
    ev.FallbackTriggered(t_s=1.0, stragglers=10, threshold=10),
    ev.ExecutorSlow(t_s=1.0, executor="e", fraction=0.25),
]


def test_each_kind_has_its_event():
    """In the order of the table, which the documentation repeats."""
    kinds = [record.kind for record in map(make_event_record, KEPT) if record is not None]
    assert kinds == list(KINDS)


def test_an_event_keeps_what_belongs_to_it():
    """Slots of a width, seconds of a pause, the entry of a probe."""
    records = {record.kind: record for record in map(make_event_record, KEPT) if record is not None}
    width, probe = records["width"], records["probe"]
    assert (width.host, width.places, width.before, width.reason) == ("h", 2, 4, "slow")
    assert (probe.host, probe.id, probe.path) == ("h", 3, "a/3")
    assert (records["pause"].seconds, records["slowdown over"].seconds) == (2.0, 8.0)


@pytest.mark.parametrize(("pause_s", "volume"), [(None, "/v"), (3.0, "/v")])
def test_a_volume_out_of_use_is_an_open_breaker(pause_s, volume):
    """As with hosts; without an end it is for good."""
    record = make_event_record(ev.VolumePaused(t_s=1.0, volume=volume, pause_s=pause_s, reason="gone"))
    assert record is not None
    assert (record.kind, record.volume, record.seconds) == ("breaker open", volume, pause_s)


def test_what_is_in_the_entries_records_is_not_repeated():
    """Starts, retries and cancelled stragglers, unless they were probes."""
    plain = ev.StragglerCancelling(t_s=1.0, id=3, offset=3, path="a/3", elapsed_s=9.0, expected_s=1.0)
    assert [make_event_record(event) for event in (started(), progress(1.0), retry(), plain)] == [None] * 4
