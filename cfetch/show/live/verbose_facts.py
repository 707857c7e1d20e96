"""Facts that only ``--verbose`` asks for: each file in place, and each try again. Pure."""

from collections.abc import Iterable

from cfetch.base.events import EntryFinished, Event, RetryScheduled
from cfetch.base.secret import printable
from cfetch.show.format import duration, rate, size
from cfetch.show.live.fact import Fact
from cfetch.show.live.facts import Facts


class VerboseFacts(Facts):
    """All that ``--explain`` says, and these facts too."""

    def __init__(self, *, joins: bool = False) -> None:
        super().__init__(explain=True, joins=joins)

    def reduce(self, event: Event) -> Iterable[Fact]:
        """The facts that ``event`` adds: one for most files."""
        others = super().reduce(event)
        more = describe_more(event)
        return others if more is None else (more,)


def describe_more(event: Event) -> Fact | None:
    """A file in place, or a try again; None for all others."""
    if isinstance(event, EntryFinished) and event.record.is_in_place:
        record = event.record
        path, host = printable(record.path), printable(record.host)
        if record.status == "skipped":
            text = f"already there: {path}"
        else:
            took = duration(record.end_s - record.start_s)
            text = f"done: {path}: {size(record.bytes)} in {took} ({rate(record.rate_bps)}) from {host}"
        data = {"id": record.id, "path": path, "status": record.status, "bytes": record.bytes}
        return Fact(event.t_s, "file", "info", text, data)
    if isinstance(event, RetryScheduled):
        path, error = printable(event.path), printable(event.error, 1000)
        text = f"try {event.n} of {path} in {duration(event.delay_s)}: {error} ({event.error_kind})"
        data = {
            "id": event.id,
            "path": path,
            "n": event.n,
            "kind": event.error_kind,
            "delay_s": round(event.delay_s, 3),
            "message": error,
        }
        return Fact(event.t_s, "retry", "info", text, data)
    return None
