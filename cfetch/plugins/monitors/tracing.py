"""The run as an OpenTelemetry span.

The span ``cfetch.download`` has the five events of the straggler design with their original names and tags,
so that dashboards built for that system keep working. It also has the events of a feed's route cache, except
for its hits. By default, an SDK keeps 128 events a span (``OTEL_SPAN_EVENT_COUNT_LIMIT``).
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from cfetch.base.events import (
    Event,
    FallbackTriggered,
    RouteEvent,
    RunFinished,
    RunStarted,
    StragglerCancelled,
    StragglerCancelling,
    StragglerCheck,
    UrlRefreshed,
)

if TYPE_CHECKING:
    from opentelemetry.trace import Span, Tracer


Tags = Mapping[str, str | int | float]


class RunSpan:
    """A listener that makes one span for each run."""

    def __init__(self, tracer: "Tracer") -> None:
        self._tracer = tracer
        self._span: Span | None = None

    def __call__(self, event: Event) -> None:
        """Begin the span, add an event to it, or end it."""
        if isinstance(event, RunStarted):
            self._span = self._tracer.start_span("cfetch.download", attributes=_run_tags(event))
        described = _name_and_tags(event)
        if self._span is None:
            if described is not None and isinstance(event, RouteEvent):
                name, tags = described
                self._tracer.start_span(name, attributes=tags).end()  # between two runs
        elif described is not None:
            name, tags = described
            self._span.add_event(name, attributes=tags)
        elif isinstance(event, RunFinished):
            _finish(self._span, event)
            self._span = None


def _run_tags(event: RunStarted) -> Tags:
    return {
        "cfetch.instant": event.instant,
        "cfetch.version": event.version,
        "cfetch.files": event.files,
        "cfetch.bytes_known": event.bytes_known,
        "cfetch.concurrency": event.concurrency,
    }


def _finish(span: "Span", event: RunFinished) -> None:
    from opentelemetry.trace import StatusCode

    summary = event.summary
    span.set_attribute("cfetch.status", summary.status)
    span.set_attribute("cfetch.files_failed", summary.files.failed)
    span.set_attribute("cfetch.bytes_fetched", summary.bytes.fetched)
    if summary.exit_code:
        span.set_status(StatusCode.ERROR, f"{summary.status}, exit code {summary.exit_code}")
    span.end()


def _name_and_tags(event: Event) -> tuple[str, Tags] | None:
    """The name and the tags of the span's event; None if the span has none for it."""
    match event:
        case StragglerCheck():
            return "cloudfetch.straggler_check", {
                "active_downloads": event.active_downloads,
                "completed_downloads": event.completed_downloads,
                "stragglers_identified": len(event.stragglers),
            }
        case StragglerCancelling():
            return "cloudfetch.straggler_cancelling", {"offset": event.offset}
        case StragglerCancelled(completed=False):  # else its last byte came first: nothing was cancelled
            tags: dict[str, str | int | float] = {
                "offset": event.offset,
                "elapsed_seconds": event.elapsed_s,
                "attempt": event.attempt,
            }
            if event.size_bytes is not None:
                tags["file_size_mb"] = event.size_bytes / 1024 / 1024
            return "cloudfetch.straggler_cancelled", tags
        case UrlRefreshed(reason="straggler"):
            tags = {"offset": event.offset, "sanitized_url": event.url}
            return "cloudfetch.url_refreshed_for_straggler_retry", tags
        case FallbackTriggered():
            tags = {"total_stragglers_in_query": event.stragglers, "fallback_threshold": event.threshold}
            return "cloudfetch.sequential_fallback_triggered", tags
        case RouteEvent() if event.what != "hit":  # there is a hit for every page read
            return "cfetch.feed_route", {
                "feed": event.feed,
                "generation": event.generation,
                "info_requests": event.requests,
                "what": event.what,
            }
    return None
