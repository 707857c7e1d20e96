"""The events that the metrics keep besides the records of entries: events that affected the run's speed.

``kind`` is the event in one word, see ``KINDS``. Events of a single entry are in its own record and are not
repeated, except for probes and for entries that are left alone. Pure.
"""

from cfetch.base.events import (
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
from cfetch.base.records import EventRecord
from cfetch.base.secret import printable
from cfetch.show.format import duration, plural

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
    t_s = event.t_s
    match event:
        case WidthChanged(host=host, slots=slots, before=before, reason=reason):
            return EventRecord(kind="width", t_s=t_s, host=host, places=slots, before=before, reason=reason)
        case SlowdownSeen():
            return EventRecord(kind="slowdown", t_s=t_s, reason=event.reason)
        case SlowdownOver():
            return EventRecord(kind="slowdown over", t_s=t_s, seconds=event.lasted_s)
        case StragglerCancelling(is_probe=True, host=host, id=id_, path=path):
            return EventRecord(kind="probe", t_s=t_s, host=host, id=id_, path=path)
        case RescueGivenUp(host=host, id=id_, path=path):
            reason = f"{event.rescues} of its attempts were cancelled"
            return EventRecord(kind="rescue given up", t_s=t_s, host=host, id=id_, path=path, reason=reason)
        case MinRateWaived(host=host, path=path):
            reason = f"no faster: {plural(event.connections, 'fresh connection')}"
            return EventRecord(kind="min rate waived", t_s=t_s, host=host, path=path, reason=reason)
        case HostPaused(host=host, reason=reason):
            kind = "breaker open" if event.is_failing else "pause"
            return EventRecord(kind=kind, t_s=t_s, host=host, seconds=round(event.pause_s, 4), reason=reason)
        case VolumePaused(volume=volume, pause_s=seconds, reason=reason):
            return EventRecord(kind="breaker open", t_s=t_s, volume=volume, seconds=seconds, reason=reason)
        case BreakerClosed(host=host, volume=volume):
            return EventRecord(kind="breaker closed", t_s=t_s, host=host, volume=volume)
        case FallbackTriggered():
            return EventRecord(kind="fallback", t_s=t_s, reason=plural(event.stragglers, "straggler"))
        case ExecutorSlow():
            reason = f"{100 * event.fraction:.0f} % of the others' speed"
            return EventRecord(kind="executor", t_s=t_s, host=event.executor, reason=reason)
    return None


def describe_event(event: EventRecord) -> str:
    """The event for a person: its kind, its host or file, and its effect."""
    names = [name for name in (event.host, event.volume, event.path) if name]
    details = [
        f"{event.places} at a time instead of {event.before}" if event.places is not None else "",
        f"for {duration(event.seconds)}" if event.seconds is not None else "",
        event.reason or "",
    ]
    words = f"{event.kind}: {', '.join(names)}" if names else event.kind
    return printable("; ".join([words, *filter(None, details)]), 1000)
