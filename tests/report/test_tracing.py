"""The run as an OpenTelemetry span."""

import subprocess
import sys

from opentelemetry import trace
from opentelemetry.trace import StatusCode

from cfetch import events as ev
from cfetch.errors import LocalFault
from cfetch.report.summary import Tally
from cfetch.report.tracing import tracing_listener
from tests.report.records import MIB, cancelled, started


def run(*events, error=None):
    tell = tracing_listener()
    assert tell is not None
    tally = Tally()
    for event in (started(files=0), *events):
        tally(event)
        tell(event)
    tell(ev.RunFinished(t_s=9.0, summary=tally.summary(9.0, error=error)))


def test_the_five_events_with_their_tags(spans):
    """Names and tags are exactly those of the straggler design's table."""
    run(
        ev.StragglerCheck(
            t_s=1.0, active_downloads=4, completed_downloads=6, stragglers=[3, 5], median_bps=1e6
        ),
        ev.StragglerCancelling(t_s=1.0, id=3, offset=7, path="a/3", elapsed_s=9.5, expected_s=8.0),
        cancelled(),
        ev.UrlRefreshed(t_s=1.2, id=3, offset=7, url="https://h/x?<redacted 2 keys>", reason="straggler"),
        ev.FallbackTriggered(t_s=2.0, stragglers=10, threshold=10),
    )
    (span,) = spans()
    assert span.name == "cfetch.download"
    assert [(event.name, dict(event.attributes)) for event in span.events] == [
        (
            "cloudfetch.straggler_check",
            {"active_downloads": 4, "completed_downloads": 6, "stragglers_identified": 2},
        ),
        ("cloudfetch.straggler_cancelling", {"offset": 7}),
        (
            "cloudfetch.straggler_cancelled",
            {"offset": 7, "elapsed_seconds": 9.5, "attempt": 1, "file_size_mb": 2.0},
        ),
        (
            "cloudfetch.url_refreshed_for_straggler_retry",
            {"offset": 7, "sanitized_url": "https://h/x?<redacted 2 keys>"},
        ),
        (
            "cloudfetch.sequential_fallback_triggered",
            {"total_stragglers_in_query": 10, "fallback_threshold": 10},
        ),
    ]


def test_what_is_no_straggler_event_is_left_out(spans):
    """Neither a refresh for expiry nor a won race is a straggler event; an unknown size has no tag."""
    run(
        ev.UrlRefreshed(t_s=1.0, id=3, offset=7, url="https://h/x", reason="expired"),
        cancelled(completed=True, size_bytes=MIB),
        cancelled(size_bytes=None),
    )
    (span,) = spans()
    assert [dict(event.attributes) for event in span.events] == [
        {"offset": 7, "elapsed_seconds": 9.5, "attempt": 1}
    ]


def test_a_run_that_ended_badly_marks_its_span(spans):
    """The span's status is an error when the exit code is not 0, and unset when it is."""
    run()
    run(error=LocalFault("disk full"))
    good, bad = spans()
    assert good.status.status_code is StatusCode.UNSET
    assert (bad.status.status_code, bad.status.description) == (StatusCode.ERROR, "failed, exit code 3")


def test_no_listener_without_an_sdk(monkeypatch):
    """Without an SDK in the process, or with one that is not in use, there is nothing to trace to."""
    monkeypatch.setattr(trace, "get_tracer_provider", trace.ProxyTracerProvider)
    assert tracing_listener() is None
    monkeypatch.delitem(sys.modules, "opentelemetry.sdk.trace")
    assert tracing_listener() is None


def test_asking_costs_no_import():
    """A process that has no SDK does not import the OpenTelemetry API for the question."""
    code = (
        "import sys; from cfetch.report.tracing import tracing_listener; assert tracing_listener() is None; "
        "import cfetch.report.summary, cfetch.report.metrics, cfetch.dashboard.open; "
        "sys.exit(any(name.split('.')[0] in {'opentelemetry', 'rich', 'numpy'} for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
