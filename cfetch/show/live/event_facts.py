"""Turns a trouble, a note or a batch into a fact of the log. Pure; loaded with the first such event of a run.

Three tables say which facts there are: at most ``MAX_LINES`` of their kind (``PACED``), only with ``explain``
(``EXPLAINED``), or always (``AT_ONCE``).
"""

from collections.abc import Callable
from typing import Any

from cfetch.base.events import (
    BatchCommitted,
    BatchPlaced,
    BreakerClosed,
    EntryFinished,
    Event,
    ExecutorSlow,
    FallbackTriggered,
    HostPaused,
    MinRateWaived,
    PlanWaiting,
    RescueGivenUp,
    RunNoted,
    RunStarted,
    RunStopping,
    SlowdownOver,
    SlowdownSeen,
    StragglerCancelled,
    VolumePaused,
    WidthChanged,
)
from cfetch.base.secret import printable
from cfetch.show.format import duration, failed_where, kind_word, plural, sizes
from cfetch.show.live.fact import Fact, Level
from cfetch.show.live.trouble_texts import (
    fraction_text,
    min_rate_text,
    pause_text,
    rescue_text,
    slowdown_end_text,
    width_text,
)


def _fact(event: Event, name: str, level: Level, text: str, **data: object) -> Fact:
    return Fact(event.t_s, name, level, text, data)


def _stop_fact(event: RunStopping) -> Fact:
    reason = printable(event.reason, 1000)  # a long path must not push the cause out
    return _fact(event, "stopping", "warning", f"stopping: {reason}", reason=reason)


def _wait_fact(event: PlanWaiting) -> Fact:
    reason = printable(event.reason, 1000)
    return _fact(event, "plan_waiting", "warning", f"waiting {reason}", reason=reason)


def _note_fact(event: RunNoted) -> Fact:
    note = printable(event.note, 1000)
    return _fact(event, "note", "warning", f"note: {note}", note=note)


def make_failure_fact(event: EntryFinished) -> Fact:
    """An entry that has failed."""
    record = event.record
    path, kind = printable(record.path), record.error_kind or "unknown"
    message = printable(record.error or "no reason was recorded", 1000)
    url, line = record.url or None, record.line or None
    why = f"{message} ({kind_word(kind, record.http_status)})"
    return _fact(
        event, "failed", "error", f"failed: {path}: {why}{failed_where(url, line)}",
        id=record.id, path=path, kind=kind, message=message, attempts=len(record.attempts), url=url,
        http_status=record.http_status, line=line,
    )  # fmt: skip


def make_straggler_fact(event: StragglerCancelled) -> Fact:
    """An attempt that was cancelled, as it was far slower than others."""
    path = printable(event.path)
    age = duration(event.elapsed_s)
    where = "" if event.executor is None else f" on {printable(event.executor)}"
    text = f"straggler: {path}: attempt {event.attempt}{where} cancelled after {age}; trying again"
    executor = {} if event.executor is None else {"executor": printable(event.executor)}
    return _fact(
        event, "straggler_cancelled", "warning", text, id=event.id, path=path, attempt=event.attempt,
        elapsed_s=event.elapsed_s, kept_bytes=event.kept_bytes, **executor,
    )  # fmt: skip


def _pause_fact(event: HostPaused) -> Fact:
    host, reason = printable(event.host), printable(event.reason)
    text = f"{host}: {reason}; no request there for {duration(event.pause_s)}"
    pause_s = round(event.pause_s, 3)
    return _fact(event, "host_paused", "warning", text, host=host, pause_s=pause_s, reason=reason)


def _executor_fact(event: ExecutorSlow) -> Fact:
    name = printable(event.executor)
    text = (
        f"executor {name} is slow: {fraction_text(event.fraction)}; "
        "its files are not begun anew there, copies of its tasks elsewhere help"
    )
    return _fact(event, "executor_slow", "warning", text, executor=name, share=round(event.fraction, 3))


def _width_fact(event: WidthChanged) -> Fact:
    host, reason = printable(event.host), printable(event.reason)
    text = f"{host}: {width_text(event)}: {reason}"
    return _fact(
        event, "width_changed", "info", text,
        host=host, places=event.slots, before=event.before, reason=reason,
    )  # fmt: skip


def _min_rate_fact(event: MinRateWaived) -> Fact:
    path = None if event.path is None else printable(event.path)
    text = f"min-rate: {'' if path is None else f'{path} '}{min_rate_text(event)}"
    return _fact(
        event, "min_rate_waived", "warning", text, host=printable(event.host), path=path,
        connections=event.connections, min_rate_bps=event.min_rate_bps,
    )  # fmt: skip


def _slowdown_fact(event: SlowdownSeen) -> Fact:
    reason = printable(event.reason, 1000)
    text = f"slow: {reason}; no download is cancelled for it"
    return _fact(event, "slowdown", "warning", text, active=event.active, reason=reason)


def _slowdown_end_fact(event: SlowdownOver) -> Fact:
    return _fact(event, "slowdown_over", "info", slowdown_end_text(event), lasted_s=event.lasted_s)


def _breaker_fact(event: BreakerClosed) -> Fact:
    name = printable(event.volume or event.host or "", 1000)
    place = {"volume" if event.volume else "host": name}
    return _fact(event, "breaker_closed", "info", f"{name}: in use again", **place)


def _rescue_fact(event: RescueGivenUp) -> Fact:
    path, host = printable(event.path), printable(event.host)
    text = f"{path}: {rescue_text(event)}"
    rescues = event.rescues
    return _fact(
        event, "rescue_given_up", "warning", text, id=event.id, path=path, host=host, rescues=rescues
    )


def _volume_fact(event: VolumePaused) -> Fact:
    volume, reason = printable(event.volume, 1000), printable(event.reason, 1000)
    level: Level = "error" if event.pause_s is None else "warning"
    text = f"{volume}: {printable(pause_text(event), 1000)}"
    return _fact(event, "volume_paused", level, text, volume=volume, pause_s=event.pause_s, reason=reason)


def placed_text(event: BatchPlaced) -> str:
    """The volume that a batch goes to, and the reason; printable."""
    volume = printable(event.volume, 1000)
    moved = "" if event.moved_from is None else f", from {printable(event.moved_from, 1000)}"
    why = printable(event.why, 1000).removeprefix(f"{volume}: ")
    return f"{_batch_text(event)} to {volume}{moved}: {why}"


def explain_only_volume(event: Event, run: RunStarted | None) -> Fact | None:
    """Where all batches of a run with one volume go: the reason would be the same for each. Else None."""
    if not isinstance(event, BatchPlaced) or run is None or len(run.destinations) != 1:
        return None
    volume = printable(event.volume, 1000)
    text = f"every batch goes to {volume}, the only volume"
    return _fact(event, "batch_placed", "info", text, volume=volume)


def _batch_text(event: BatchPlaced | BatchCommitted) -> str:
    unknown = event.sizes_unknown if isinstance(event, BatchPlaced) else 0
    known = sizes(event.size_bytes, unknown, event.files)
    return f"batch {printable(event.batch)} ({plural(event.files, 'file')}, {known})"


def _placement_fact(event: BatchPlaced) -> Fact:
    moved_from = None if event.moved_from is None else printable(event.moved_from, 1000)
    data = _batch_data(event) | {"why": printable(event.why, 1000), "moved_from": moved_from}
    data["sizes_unknown"] = event.sizes_unknown
    return Fact(event.t_s, "batch_placed", "info", placed_text(event), data)


def _commit_fact(event: BatchCommitted) -> Fact:
    text = f"{_batch_text(event)} is in place on {printable(event.volume, 1000)}"
    return Fact(event.t_s, "batch_committed", "info", text, _batch_data(event))


def _batch_data(event: BatchPlaced | BatchCommitted) -> dict[str, object]:
    return {
        "batch": printable(event.batch),
        "files": event.files,
        "size_bytes": event.size_bytes,
        "volume": printable(event.volume, 1000),
    }


def _fallback_fact(event: FallbackTriggered) -> Fact:
    text = f"fallback: stragglers {event.stragglers}, at most {event.threshold}: one entry at a time now"
    return _fact(event, "fallback", "warning", text, stragglers=event.stragglers, threshold=event.threshold)


_Makers = dict[type[Event], Callable[[Any], Fact]]

PACED: _Makers = {
    HostPaused: _pause_fact,
    VolumePaused: _volume_fact,
    ExecutorSlow: _executor_fact,
    WidthChanged: _width_fact,
    SlowdownSeen: _slowdown_fact,
    SlowdownOver: _slowdown_end_fact,
    BreakerClosed: _breaker_fact,
    RescueGivenUp: _rescue_fact,
    MinRateWaived: _min_rate_fact,
}
EXPLAINED: _Makers = {BatchPlaced: _placement_fact, BatchCommitted: _commit_fact}
AT_ONCE: _Makers = {
    PlanWaiting: _wait_fact,
    FallbackTriggered: _fallback_fact,
    RunNoted: _note_fact,
    RunStopping: _stop_fact,
}
