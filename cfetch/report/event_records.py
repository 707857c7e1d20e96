"""The events that the metrics keep besides the records of entries: events that affected the run's speed.

``kind`` is the event in one word, see ``KINDS``. Events of a single entry are in its own record and are not
repeated, except for probes and for entries that are left alone. Pure.
"""

from collections.abc import Callable
from typing import Any

from cfetch.events import (
    BreakerClosed,
    Event,
    ExecutorSlow,
    FallbackTriggered,
    HostPaused,
    MinRateWaived,
    RescueGivenUp,
    SlowdownOver,
    SlowdownSeen,
    StragglerCancelling,
    VolumePaused,
    WidthChanged,
)
from cfetch.records import EventRecord
from cfetch.report.format import duration
from cfetch.secret import printable

KINDS = {
    "width": "a host gets `places` at a time instead of `before`",
    "slowdown": "all are slow, and none is cancelled for it",
    "slowdown over": "it lasted `seconds`",
    "probe": "an attempt is cancelled to see whether a fresh one is faster while all are slow",
    "rescue given up": "an entry that was cancelled several times is left alone",
    "min rate waived": "attempts below the least rate go on: fresh ones were no faster",
    "pause": "a host throttles: nothing starts there for `seconds`",
    "breaker open": "a host or volume fails: out of use for `seconds`; null: for good",
    "breaker closed": "it is in use again",
    "fallback": "one entry at a time from now on",
    "executor": "an executor is slow as a whole; `host` is its name",
}


def make_event_record(event: Event) -> EventRecord | None:
    """The record of ``event``; None if the metrics do not keep it."""
    maker = _MAKERS.get(type(event))
    return None if maker is None else maker(event)


def describe_event(event: EventRecord) -> str:
    """The event for a person: its kind, its host or file, and what it did."""
    names = [name for name in (event.host, event.volume, event.path) if name]
    details = [
        f"{event.places} at a time instead of {event.before}" if event.places is not None else "",
        f"for {duration(event.seconds)}" if event.seconds is not None else "",
        event.reason or "",
    ]
    words = f"{event.kind}: {', '.join(names)}" if names else event.kind
    return printable("; ".join([words, *filter(None, details)]), 1000)


def _of_width(event: WidthChanged) -> EventRecord:
    return EventRecord(
        kind="width",
        t_s=event.t_s,
        host=event.host,
        places=event.places,
        before=event.before,
        reason=event.reason,
    )


def _of_slowdown(event: SlowdownSeen) -> EventRecord:
    return EventRecord(kind="slowdown", t_s=event.t_s, reason=event.reason)


def _of_slowdown_end(event: SlowdownOver) -> EventRecord:
    return EventRecord(kind="slowdown over", t_s=event.t_s, seconds=event.lasted_s)


def _of_cancelling(event: StragglerCancelling) -> EventRecord | None:
    if not event.is_probe:
        return None
    return EventRecord(kind="probe", t_s=event.t_s, host=event.host, id=event.id, path=event.path)


def _of_rescue(event: RescueGivenUp) -> EventRecord:
    reason = f"{event.rescues} of its attempts were cancelled"
    return EventRecord(
        kind="rescue given up", t_s=event.t_s, host=event.host, id=event.id, path=event.path, reason=reason
    )


def _of_min_rate(event: MinRateWaived) -> EventRecord:
    reason = f"{event.connections} fresh connections were no faster"
    return EventRecord(kind="min rate waived", t_s=event.t_s, host=event.host, path=event.path, reason=reason)


def _of_host_pause(event: HostPaused) -> EventRecord:
    kind = "breaker open" if event.is_failing else "pause"
    return EventRecord(
        kind=kind, t_s=event.t_s, host=event.host, seconds=round(event.pause_s, 4), reason=event.reason
    )


def _of_volume_pause(event: VolumePaused) -> EventRecord:
    return EventRecord(
        kind="breaker open", t_s=event.t_s, volume=event.volume, seconds=event.pause_s, reason=event.reason
    )


def _of_breaker_end(event: BreakerClosed) -> EventRecord:
    return EventRecord(kind="breaker closed", t_s=event.t_s, host=event.host, volume=event.volume)


def _of_fallback(event: FallbackTriggered) -> EventRecord:
    return EventRecord(kind="fallback", t_s=event.t_s, reason=f"{event.stragglers} slow files")


def _of_executor(event: ExecutorSlow) -> EventRecord:
    reason = f"{100 * event.share:.0f} % of the others' speed"
    return EventRecord(kind="executor", t_s=event.t_s, host=event.executor, reason=reason)


_MAKERS: dict[type[Event], Callable[[Any], EventRecord | None]] = {
    WidthChanged: _of_width,
    SlowdownSeen: _of_slowdown,
    SlowdownOver: _of_slowdown_end,
    StragglerCancelling: _of_cancelling,
    RescueGivenUp: _of_rescue,
    MinRateWaived: _of_min_rate,
    HostPaused: _of_host_pause,
    VolumePaused: _of_volume_pause,
    BreakerClosed: _of_breaker_end,
    FallbackTriggered: _of_fallback,
    ExecutorSlow: _of_executor,
}
