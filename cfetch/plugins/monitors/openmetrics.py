"""The numbers of runs as metrics for Prometheus, by prometheus_client (extra `serve`).

The same numbers are served live (``--serve``) and written for node_exporter's textfile collector
(``--metrics-textfile``).
"""

from functools import partial
from pathlib import Path

from cfetch.base.errors import LocalFault, UsageError
from cfetch.base.events import Event, RunFinished
from cfetch.plugins.monitors.run_numbers import COUNTERS, GAUGES, HISTOGRAMS, SECONDS, RunNumbers
from cfetch.storage.outputs import find_output, open_output


class RunMetrics:
    """A listener that keeps the metrics of runs in a registry of its own.

    Raises:
        UsageError: prometheus_client is not installed.
    """

    def __init__(self) -> None:
        try:
            from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
        except ImportError:
            raise UsageError(
                "metrics for Prometheus need prometheus_client: pip install 'cfetch[serve]'"
            ) from None
        self.registry = CollectorRegistry()
        counter = partial(Counter, registry=self.registry)
        histogram = partial(Histogram, labelnames=["host"], buckets=SECONDS, registry=self.registry)
        self._counters = {
            name: counter(name, help_, [label] if label else ()) for name, (help_, label) in COUNTERS.items()
        }
        self._histograms = {name: histogram(name, help_) for name, help_ in HISTOGRAMS.items()}
        self._gauges = {name: Gauge(name, help_, registry=self.registry) for name, help_ in GAUGES.items()}
        self._numbers = RunNumbers(self)

    def __call__(self, event: Event) -> None:
        """Count an event."""
        self._numbers(event)

    def add(self, name: str, number: int, label: str = "") -> None:
        """Add to a counter."""
        counter = self._counters[name]
        (counter.labels(label) if label else counter).inc(number)

    def observe(self, name: str, seconds: float, host: str) -> None:
        """Add a value to a histogram."""
        self._histograms[name].labels(host).observe(seconds)

    def set(self, name: str, value: float) -> None:
        """Set a gauge."""
        self._gauges[name].set(value)

    def render(self) -> tuple[bytes, str]:
        """The metrics in OpenMetrics text, and its content type."""
        from prometheus_client.openmetrics.exposition import CONTENT_TYPE_LATEST, generate_latest

        return generate_latest(self.registry), CONTENT_TYPE_LATEST  # type: ignore[no-untyped-call]


class MetricsTextfile:
    """A listener that writes the metrics to ``path`` at the end of each run, in one step.

    A run that ends without a summary leaves the file of the run before: its age tells.

    Raises:
        UsageError: prometheus_client is not installed, or ``path`` is a device, a pipe or a directory.
        LocalFault: the file cannot be written.
    """

    def __init__(self, path: Path) -> None:
        find_output(path)  # before anything is downloaded
        self._path = path
        self._metrics = RunMetrics()

    def __call__(self, event: Event) -> None:
        """Count an event; write at the end of a run."""
        self._metrics(event)
        if not isinstance(event, RunFinished):
            return
        from prometheus_client import generate_latest

        try:
            with open_output(self._path, private=False) as file:
                file.write(generate_latest(self._metrics.registry).decode())
        except LocalFault as fault:
            raise LocalFault(f"{fault}; the metrics of this run are not there") from None
