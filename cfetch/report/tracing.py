"""The run as an OpenTelemetry span.

The span ``cfetch.download`` has the five events of the straggler design with their original names and tags,
so that dashboards built for that system keep working. It also has the events of a feed's route cache, except
for its hits. By default, an SDK keeps 128 events a span (``OTEL_SPAN_EVENT_COUNT_LIMIT``).
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from cfetch.events import (
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
        if self._span is None:
            if isinstance(event, RouteEvent) and (tags := _tag_route(event)) is not None:
                self._tracer.start_span("cfetch.feed_route", attributes=tags).end()  # between two runs
            return
        name_and_tags = _EVENTS.get(type(event))
        if name_and_tags is not None:
            name, tags_of = name_and_tags
            tags = tags_of(event)
            if tags is not None:
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


def _tag_check(event: StragglerCheck) -> Tags:
    return {
        "active_downloads": event.active_downloads,
        "completed_downloads": event.completed_downloads,
        "stragglers_identified": len(event.stragglers),
    }


def _tag_cancelling(event: StragglerCancelling) -> Tags:
    return {"offset": event.offset}


def _tag_cancelled(event: StragglerCancelled) -> Tags | None:
    if event.completed:  # its last byte won the race: there was no cancelled download
        return None
    tags: dict[str, str | int | float] = {
        "offset": event.offset,
        "elapsed_seconds": event.elapsed_s,
        "attempt": event.attempt,
    }
    if event.size_bytes is not None:
        tags["file_size_mb"] = event.size_bytes / 1024 / 1024
    return tags


def _tag_refreshed(event: UrlRefreshed) -> Tags | None:
    return {"offset": event.offset, "sanitized_url": event.url} if event.reason == "straggler" else None


def _tag_fallback(event: FallbackTriggered) -> Tags:
    return {"total_stragglers_in_query": event.stragglers, "fallback_threshold": event.threshold}


def _tag_route(event: RouteEvent) -> Tags | None:
    if event.what == "hit":  # one for every page read
        return None
    return {
        "feed": event.feed,
        "generation": event.generation,
        "info_requests": event.requests,
        "what": event.what,
    }


_EVENTS: dict[type[Event], tuple[str, Callable[[Any], Tags | None]]] = {
    StragglerCheck: ("cloudfetch.straggler_check", _tag_check),
    StragglerCancelling: ("cloudfetch.straggler_cancelling", _tag_cancelling),
    StragglerCancelled: ("cloudfetch.straggler_cancelled", _tag_cancelled),
    UrlRefreshed: ("cloudfetch.url_refreshed_for_straggler_retry", _tag_refreshed),
    FallbackTriggered: ("cloudfetch.sequential_fallback_triggered", _tag_fallback),
    RouteEvent: ("cfetch.feed_route", _tag_route),
}
