"""The run for OpenTelemetry: a span, and metrics; what the command sends to a collector."""

import gzip
import json
import os
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from opentelemetry import metrics, trace
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.trace import StatusCode

from cfetch.base import events as ev
from cfetch.base.errors import LocalFault
from cfetch.plugins.lab.bench.content import Group
from cfetch.plugins.lab.bench.process import OriginProcess
from cfetch.plugins.lab.bench.spec import OriginSpec
from cfetch.plugins.monitors.run_numbers import SECONDS
from cfetch.plugins.monitors.telemetry import telemetry_listener
from cfetch.show.summary import Tally
from tests.plugins.follow.follow_world import open_world
from tests.show.records import MIB, attempt, cancelled, finished, record, started


def run(*events, error=None):
    tell = telemetry_listener()
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


def test_counters_of_a_process_add_up_over_its_runs(spans, monkeypatch):
    """As in /metrics: a follower has one run after another, and each asks for the same instruments."""
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader])
    monkeypatch.setattr(metrics, "get_meter_provider", lambda: provider)
    for _ in range(2):
        run(*finished(record(0, 100, attempt())))
    data = reader.get_metrics_data()
    assert data is not None
    told = json.loads(data.to_json())
    (scope,) = told["resource_metrics"][0]["scope_metrics"]
    (received,) = [metric for metric in scope["metrics"] if metric["name"] == "cfetch.received"]
    assert [point["value"] for point in received["data"]["data_points"]] == [200]
    assert len(spans()) == 2
    provider.shutdown()


def test_no_listener_without_an_sdk(monkeypatch):
    """Without an SDK in the process, or with one that is not in use, there is nothing to trace to."""
    monkeypatch.setattr(trace, "get_tracer_provider", trace.ProxyTracerProvider)
    assert telemetry_listener() is None
    monkeypatch.delitem(sys.modules, "opentelemetry.sdk.trace")
    monkeypatch.delitem(sys.modules, "opentelemetry.sdk.metrics")
    assert telemetry_listener() is None


def test_asking_costs_no_import():
    """A process that has no SDK does not import the OpenTelemetry API for the question."""
    code = (
        "import sys; from cfetch.plugins.monitors.telemetry import telemetry_listener as ask; "
        "assert ask() is None; "
        "import cfetch.show.summary, cfetch.show.metrics, cfetch.show.live.open; "
        "sys.exit(any(name.split('.')[0] in {'opentelemetry', 'rich', 'numpy'} for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


class _Collector(ThreadingHTTPServer):
    """An OTLP collector: keeps path and body of each request."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.received = []
        threading.Thread(target=self.serve_forever, daemon=True).start()


class _Handler(BaseHTTPRequestHandler):
    server: _Collector

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.received.append((self.path, gzip.decompress(body) if body[:2] == b"\x1f\x8b" else body))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_):
        pass


def download_traced(folder, **variables):
    """Download one file with a collector; return the bodies that it was sent, by path."""
    server = _Collector()
    with OriginProcess(OriginSpec(groups=(Group("g-", 1, 1000),))) as origin:
        (folder / "urls.txt").write_text(f"{origin.url}g-0000000.bin\n")
        endpoint = f"http://127.0.0.1:{server.server_port}"
        done = subprocess.run(
            [sys.executable, "-m", "cfetch", "download", "urls.txt", "--to", "to"],
            cwd=folder,
            env={**os.environ, "OTEL_EXPORTER_OTLP_ENDPOINT": endpoint, **variables},
            capture_output=True,
            text=True,
            check=False,
        )
    server.shutdown()
    server.server_close()
    assert done.returncode == 0, done.stderr
    return dict(server.received)


def test_the_command_sends_a_span_and_metrics_by_the_standard_variables(tmp_path):
    """Before it ends, to any collector; the numbers are those of the run, by the names of /metrics."""
    received = download_traced(tmp_path, OTEL_SERVICE_NAME="nightly")
    assert received.keys() == {"/v1/traces", "/v1/metrics"}
    assert b"cfetch.download" in received["/v1/traces"]
    (resource,) = ExportMetricsServiceRequest.FromString(received["/v1/metrics"]).resource_metrics
    assert [a.value.string_value for a in resource.resource.attributes if a.key == "service.name"] == [
        "nightly"
    ]
    metrics = {metric.name: metric for scope in resource.scope_metrics for metric in scope.metrics}
    files = {
        point.attributes[0].value.string_value: point.as_int
        for point in metrics["cfetch.files"].sum.data_points
    }
    assert files == {"done": 1, "skipped": 0, "failed": 0, "cancelled": 0}
    (got,) = metrics["cfetch.received"].sum.data_points
    assert (metrics["cfetch.received"].unit, got.as_int) == ("By", 1000)
    (took,) = metrics["cfetch.file"].histogram.data_points
    assert (took.count, list(took.explicit_bounds), metrics["cfetch.file"].unit) == (1, [*SECONDS], "s")
    (code,) = metrics["cfetch.run_exit_code"].gauge.data_points
    assert code.as_int == 0


def test_each_signal_can_be_left_out(tmp_path):
    """By its exporter's variable, and both at once."""
    assert download_traced(tmp_path, OTEL_TRACES_EXPORTER="none").keys() == {"/v1/metrics"}
    assert download_traced(tmp_path, OTEL_SDK_DISABLED="true") == {}


def test_what_becomes_of_the_ranges_of_a_feed_is_a_span(tmp_path, spans):
    """One for each refresh of the lineage, which is requested between two runs."""
    with open_world(tmp_path) as world:
        world.served.write({"a": "1"})
        world.follow()
        world.served.split()
        world.served.write({"a": "2"})
        world.follow()
    routes = [span.attributes["what"] for span in spans() if span.name == "cfetch.feed_route"]
    assert routes == ["stale", "miss", "build"]
