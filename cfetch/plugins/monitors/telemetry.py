"""Runs for OpenTelemetry: a span and metrics, by the SDK of this process or by the standard variables."""

import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from cfetch.base.errors import UsageError
from cfetch.base.events import Listener, fan_out
from cfetch.plugins.monitors.run_numbers import COUNTERS, GAUGES, HISTOGRAMS, SECONDS, RunNumbers
from cfetch.plugins.monitors.tracing import RunSpan

if TYPE_CHECKING:
    from opentelemetry.metrics import Meter
    from opentelemetry.sdk.resources import Resource

_UNITS = {"_bytes": "By", "_seconds": "s"}


def telemetry_listener() -> Listener | None:
    """A listener for this process's providers of spans and metrics, or None if no SDK is configured.

    A process that has configured an SDK has imported it; the SDK brings the API (extra ``otel``).
    """
    spans = span_listener()
    listeners: list[Listener] = [] if spans is None else [spans]
    numbers: Any = sys.modules.get("opentelemetry.sdk.metrics")
    if numbers is not None:
        from opentelemetry import metrics

        meters = metrics.get_meter_provider()
        if isinstance(meters, numbers.MeterProvider):
            listeners.append(RunNumbers(_Instruments(meters.get_meter("cfetch"))))
    return fan_out(*listeners) if listeners else None


def span_listener() -> Listener | None:
    """A listener for this process's provider of spans, or None if no SDK is configured."""
    spans: Any = sys.modules.get("opentelemetry.sdk.trace")
    if spans is None:
        return None
    from opentelemetry import trace

    tracers = trace.get_tracer_provider()
    return RunSpan(tracers.get_tracer("cfetch")) if isinstance(tracers, spans.TracerProvider) else None


@contextmanager
def send_telemetry(environ: Mapping[str, str]) -> Iterator[None]:
    """Send spans and metrics of runs in this block by OTLP over HTTP, if the standard variables ask for it.

    They are OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_EXPORTER_OTLP_TRACES_ENDPOINT and …_METRICS_ENDPOINT, the other
    variables of the exporters (headers, timeout, certificate, OTEL_METRIC_EXPORT_INTERVAL),
    OTEL_SERVICE_NAME, OTEL_SDK_DISABLED, OTEL_TRACES_EXPORTER=none and OTEL_METRICS_EXPORTER=none. If the
    process has configured an SDK, its SDK is used.

    Raises:
        UsageError: they ask for it, but the extra is not installed.
    """
    wanted = [signal for signal in ("TRACES", "METRICS") if _is_asked_for(signal, environ)]
    if not wanted or {"opentelemetry.sdk.trace", "opentelemetry.sdk.metrics"} & sys.modules.keys():
        yield
        return
    with ExitStack() as stack:
        try:
            from opentelemetry.sdk.resources import Resource

            name = environ.get("OTEL_SERVICE_NAME", "cfetch")
            resource = Resource.create({"service.name": name})
            if "TRACES" in wanted:
                _send_spans(resource, stack)
            if "METRICS" in wanted:
                _send_metrics(resource, stack)
        except ImportError:
            raise UsageError(
                "OTEL_EXPORTER_OTLP_ENDPOINT asks for traces and metrics: pip install 'cfetch[otel]', "
                "or set OTEL_SDK_DISABLED=true"
            ) from None
        yield


def _is_asked_for(signal: str, environ: Mapping[str, str]) -> bool:
    endpoints = ("OTEL_EXPORTER_OTLP_ENDPOINT", f"OTEL_EXPORTER_OTLP_{signal}_ENDPOINT")
    is_off = environ.get("OTEL_SDK_DISABLED", "").lower() == "true"
    return (
        any(environ.get(name) for name in endpoints)
        and not is_off
        and environ.get(f"OTEL_{signal}_EXPORTER") != "none"
    )


def _send_spans(resource: "Resource", stack: ExitStack) -> None:
    from opentelemetry import trace
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    provider = TracerProvider(resource=resource)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    trace.set_tracer_provider(provider)
    stack.callback(provider.shutdown)  # sends the rest


def _send_metrics(resource: "Resource", stack: ExitStack) -> None:
    from opentelemetry import metrics
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader

    provider = MeterProvider([PeriodicExportingMetricReader(OTLPMetricExporter())], resource)
    metrics.set_meter_provider(provider)
    stack.callback(provider.shutdown)


class _Instruments:
    """The metrics of runs by names and units that a collector turns into those of ``/metrics``."""

    def __init__(self, meter: "Meter") -> None:
        self._counters = {
            name: meter.create_counter(*_name(name), help_) for name, (help_, _) in COUNTERS.items()
        }
        self._histograms = {
            name: meter.create_histogram(*_name(name), help_, explicit_bucket_boundaries_advisory=SECONDS)
            for name, help_ in HISTOGRAMS.items()
        }
        self._gauges = {name: meter.create_gauge(*_name(name), help_) for name, help_ in GAUGES.items()}

    def add(self, name: str, number: int, label: str = "") -> None:
        """Add to a counter."""
        self._counters[name].add(number, {COUNTERS[name][1]: label} if label else None)

    def observe(self, name: str, seconds: float, host: str) -> None:
        """Add a value to a histogram."""
        self._histograms[name].record(seconds, {"host": host})

    def set(self, name: str, value: float) -> None:
        """Set a gauge."""
        self._gauges[name].set(value)


def _name(name: str) -> tuple[str, str]:
    """The name and the unit: ``cfetch.run_duration`` in ``s`` for ``cfetch_run_duration_seconds``."""
    dotted = name.replace("_", ".", 1)
    for ending, unit in _UNITS.items():
        if dotted.endswith(ending):
            return dotted.removesuffix(ending), unit
    return dotted, ""
