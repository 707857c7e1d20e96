"""What a person reads of a trouble and the reaction to it. Pure; loaded with the first trouble of a run."""

from typing import Literal

from cfetch.base.events import (
    BreakerClosed,
    Event,
    ExecutorSlow,
    FallbackTriggered,
    HostPaused,
    MinRateWaived,
    PlanWaiting,
    RescueGivenUp,
    RetryScheduled,
    SlowdownOver,
    SlowdownSeen,
    VolumePaused,
    WidthChanged,
)
from cfetch.base.secret import printable
from cfetch.show.format import duration, percent, plural, rate

NoteKind = Literal[
    "failed",
    "straggler",
    "retry",
    "pause",
    "volume",
    "waiting",
    "fallback",
    "executor",
    "width",
    "slowdown",
    "rescue",
    "in use",
    "min-rate",
]


def describe_trouble(event: Event) -> tuple[NoteKind, str, str] | None:
    """The kind of the note, the name of the file or place, and the text; None if the event gets no note."""
    match event:
        case RetryScheduled():
            return "retry", event.path, event.error
        case HostPaused():
            return "pause", event.host, f"{event.reason}; no request there for {duration(event.pause_s)}"
        case VolumePaused():
            return "volume", event.volume, pause_text(event)
        case BreakerClosed():
            return "in use", event.volume or event.host or "", "in use again"
        case ExecutorSlow():
            return "executor", event.executor, f"slow: {fraction_text(event.fraction)}"
        case WidthChanged():
            return "width", event.host, f"{width_text(event)}: {event.reason}"
        case SlowdownSeen():
            return "slowdown", "", f"{event.reason}; no download is cancelled for it"
        case SlowdownOver():
            return "slowdown", "", slowdown_end_text(event)
        case RescueGivenUp():
            return "rescue", event.path, rescue_text(event)
        case FallbackTriggered():
            stragglers = plural(event.stragglers, "straggler")
            return "fallback", "", f"{stragglers}, limit {event.threshold}: from now on one at a time"
        case PlanWaiting():
            return "waiting", "", f"waiting {event.reason}"
        case MinRateWaived():
            return "min-rate", event.path or "", min_rate_text(event)
    return None


def pause_text(event: VolumePaused) -> str:
    """Why nothing is written to a volume, and for how long."""
    how_long = "the rest of the run" if event.pause_s is None else duration(event.pause_s)
    return f"out of use for {how_long}: {event.reason}"


def slowdown_end_text(event: SlowdownOver) -> str:
    """The end of a slowdown, and how long it lasted."""
    return f"downloads are as fast as usual again, after {duration(event.lasted_s)}"


def rescue_text(event: RescueGivenUp) -> str:
    """Why an entry is left alone."""
    return f"left alone from now on: {plural(event.rescues, 'rescue')} did not help"


def fraction_text(fraction: float | None) -> str:
    """The speed of a slow executor, compared with the others."""
    return f"{percent(fraction or 0.0)} of the others' speed"


def width_text(event: WidthChanged) -> str:
    """The new and the former limit of a host."""
    return f"{plural(event.slots, 'download')} at a time instead of {event.before}"


def min_rate_text(event: MinRateWaived) -> str:
    """Why downloads below ``--min-rate`` are left alone."""
    connections = plural(event.connections, "fresh connection")
    whose = "goes" if event.path is not None else f"all files of {printable(event.host)} go"
    return f"{whose} on below {rate(event.min_rate_bps)}: {connections} were no faster"
