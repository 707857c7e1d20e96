"""The facts that a log has about a run: the start, progress now and then, trouble at once, the end.

Plain lines, JSON lines and quiet mode share these facts; they only write them in different ways. Three tables
at the end of the file turn an event into a fact: at most ``MAX_LINES`` of its kind (``_PACED``), only with
``explain`` (``_EXPLAINED``), or always (``_AT_ONCE``).
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal, NamedTuple

import msgspec

from cfetch.base.errors import LocalFault
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
    Progress,
    RescueGivenUp,
    RunFinished,
    RunNoted,
    RunStarted,
    RunStopping,
    SlowdownOver,
    SlowdownSeen,
    StragglerCancelled,
    VolumePaused,
    VolumeView,
    WidthChanged,
)
from cfetch.base.records import FileRecord
from cfetch.base.secret import printable
from cfetch.show.ending import Limits, describe_setup
from cfetch.show.format import duration, failed_where, kind_word, plural, rate, size, sizes
from cfetch.show.live.closing import closing_lines
from cfetch.show.live.view import (
    View,
    min_rate_text,
    pause_text,
    rescue_text,
    share_text,
    slowdown_end_text,
    width_text,
)

FIRST_PROGRESS_S = 2.0  # a short run needs none
PROGRESS_EVERY_S = 10.0
_COUNTED = (
    "failed",
    "straggler_cancelled",
    "host_paused",
    "volume_paused",
    "executor_slow",
    "width_changed",
    "slowdown",
    "slowdown_over",
    "breaker_closed",
    "rescue_given_up",
    "min_rate_waived",
)
MAX_LINES = 20  # lines of each kind; ten thousand equal lines help nobody, and the metrics have all


Level = Literal["info", "warning", "error"]


class Fact(NamedTuple):
    """One line of the log: ``text`` for people, ``data`` for machines; both printable."""

    t_s: float
    name: str
    level: Level
    text: str
    data: dict[str, object]


class Facts:
    """Turns events into facts, not more than a log needs; with ``explain``, also facts about each batch.

    ``joins``: failures of one cause, as a full disk, are one fact.
    """

    def __init__(self, *, explain: bool = False, joins: bool = False) -> None:
        self.view = View()
        self._explain = explain
        self._next_progress_s = FIRST_PROGRESS_S
        self._joins = joins
        self._stated: set[str] = set()  # causes
        self._emitted = dict.fromkeys(_COUNTED, 0)
        self._longest_pause_s: dict[str, float] = {}  # of the stated pauses, by failing host

    def reduce(self, event: Event) -> Iterable[Fact]:
        """The facts that ``event`` adds: mostly none."""
        self.view.apply(event)
        if isinstance(event, EntryFinished):
            is_new = event.record.status == "failed" and not self._join(event.record)
            return self._limit(_failure_fact(event)) if is_new else ()
        return self._make_facts(event)

    def _join(self, record: FileRecord) -> bool:
        """Whether a fault of this machine, as a full disk, has been stated with another file."""
        if not self._joins or record.error_kind != LocalFault.kind:
            return False
        from cfetch.show.causes import find_cause  # most runs have no such failure

        cause = find_cause(record.error or "", record.path)
        is_known = cause in self._stated
        self._stated.add(cause)
        return is_known

    def _make_facts(self, event: Event) -> Iterator[Fact]:
        if isinstance(event, Progress):
            if event.t_s >= self._next_progress_s:
                self._next_progress_s = event.t_s + PROGRESS_EVERY_S
                yield self._progress_fact(event)
        elif isinstance(event, StragglerCancelled):
            if not event.completed:
                yield from self._limit(_straggler_fact(event))
        elif isinstance(event, HostPaused) and self._is_stated(event):
            return
        elif type(event) in _PACED:
            if isinstance(event, BreakerClosed):
                self._longest_pause_s.pop(event.host or "", None)
            yield from self._limit(_PACED[type(event)](event))
        elif type(event) in _EXPLAINED:
            if self._explain:
                yield _EXPLAINED[type(event)](event)
        elif type(event) in _AT_ONCE:
            yield _AT_ONCE[type(event)](event)
        elif isinstance(event, RunFinished):
            yield self._finish_fact(event)

    def _is_stated(self, event: HostPaused) -> bool:
        """Whether the log has stated such a pause since the host began to fail: nothing has changed."""
        if not event.is_failing:
            return False
        pause_s = round(event.pause_s, 3)
        if pause_s <= self._longest_pause_s.get(event.host, 0.0):
            return True
        self._longest_pause_s[event.host] = pause_s
        return False

    def _limit(self, fact: Fact) -> Iterator[Fact]:
        self._emitted[fact.name] += 1
        if self._emitted[fact.name] <= MAX_LINES:
            yield fact
        elif self._emitted[fact.name] == MAX_LINES + 1:
            text = f"{fact.name.replace('_', ' ')}: counted only from here on; the metrics name all"
            yield Fact(fact.t_s, "counted_only", fact.level, text, {"fact": fact.name})

    def _progress_fact(self, event: Progress) -> Fact:
        view = self.view
        files = view.run.files if view.run else 0
        # a run of a moment shows no estimate
        from cfetch.show.live.prediction import percent_text, predict, total_text

        time_left = predict(view)
        slow = sum(executor.share is not None for executor in event.executors)
        resting = sum(volume.breaker == "open" for volume in event.volumes)
        counters = [
            (event.failed, f"{event.failed:,} failed"),
            (event.retries, plural(event.retries, "retry")),
            (view.cancelled, plural(view.cancelled, "straggler")),
            (event.sequential, "one at a time"),
            (resting, f"{resting} of {plural(len(event.volumes), 'volume')} out of use"),
            (slow, f"{slow} of {plural(len(event.executors), 'executor')} slow"),
        ]
        text = (
            f"{percent_text(view)}, "
            f"{view.files_in_place:,} of {plural(files, 'file')} in place, "
            f"{size(view.bytes_in_hand)}{total_text(view)}, {rate(view.rate_bps)}, "
            f"{_count_active(event)} active"
            + (f", about {duration(time_left.seconds)} left" if time_left else "")
            + "".join(f", {word}" for present, word in counters if present)
        )
        data: dict[str, object] = {
            "files": files,
            "done": event.done,
            "skipped": event.skipped,
            "failed": event.failed,
            "retries": event.retries,
            "stragglers": event.stragglers,
            "active": _count_active(event),
            "waiting": event.waiting,
            "bytes_in_hand": view.bytes_in_hand,
            "bytes_total": None if view.sizes_unknown else view.bytes_known,
            "bytes_wasted": event.bytes_wasted,
            "rate_bps": round(view.rate_bps),
            "eta_s": round(time_left.seconds, 1) if time_left else None,
            "median_bps": event.baseline.median_bps,
            "sequential": event.sequential,
        }
        if event.volumes:
            data["volumes"] = [_volume_data(volume) for volume in event.volumes]
        if event.executors:
            data["tasks"] = sum(executor.tasks for executor in event.executors)
            data["executors"] = len(event.executors)
            data["executors_slow"] = [
                printable(executor.name) for executor in event.executors if executor.share is not None
            ]
        return Fact(event.t_s, "progress", "info", text, data)

    def _finish_fact(self, event: RunFinished) -> Fact:
        summary = event.summary
        data: dict[str, object] = {
            "status": summary.status,
            "exit_code": summary.exit_code,
            "files": summary.files,
            "bytes": summary.bytes,
            "elapsed_s": summary.elapsed_s,
            "retries": summary.retries,
            "stragglers": summary.stragglers,
            "metrics": printable(summary.metrics, 1000) if summary.metrics else None,
        }
        if self.view.end is not None:
            data["tail"] = self.view.end.tail
        named = min(self._emitted["failed"], MAX_LINES)
        lines = closing_lines(
            summary,
            self.view.stopping,
            failures_named=named,
            end=self.view.end,
            refetches=self.view.refetches,
        )
        return Fact(event.t_s, "finished", "error" if summary.exit_code else "info", "\n".join(lines), data)


def _count_active(event: Progress) -> int:
    return len(event.active) + event.unshown


def _start_fact(event: RunStarted) -> Fact:
    destination = printable(event.destination)
    known = sizes(event.bytes_known, event.sizes_unknown, event.files)
    limits = Limits.of(event.settings, event.concurrency)
    setup = describe_setup(limits, event.concurrency)
    text = f"{plural(event.files, 'file')} ({known}) to {destination}, {setup}"
    data: dict[str, object] = {
        "instant": event.instant,
        "files": event.files,
        "bytes_known": event.bytes_known,
        "sizes_unknown": event.sizes_unknown,
        "concurrency": event.concurrency,
        "policy": limits.policy,
        "destination": destination,
    }
    if len(event.destinations) > 1:
        data["destinations"] = [printable(volume, 1000) for volume in event.destinations]
    return Fact(event.t_s, "started", "info", text, data)


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


def _failure_fact(event: EntryFinished) -> Fact:
    record = event.record
    path, kind = printable(record.path), record.error_kind or "unknown"
    message = printable(record.error or "no reason was recorded", 1000)
    url, line = record.url or None, record.line or None
    return _fact(
        event, "failed", "error", f"failed: {path}: {message} ({kind_word(kind)}){failed_where(url, line)}",
        id=record.id, path=path, kind=kind, message=message, attempts=len(record.attempts), url=url,
        http_status=record.http_status, line=line,
    )  # fmt: skip


def _straggler_fact(event: StragglerCancelled) -> Fact:
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
        f"executor {name} is slow: {share_text(event.share)}; "
        "its files are not begun anew there, copies of its tasks elsewhere help"
    )
    return _fact(event, "executor_slow", "warning", text, executor=name, share=round(event.share, 3))


def _width_fact(event: WidthChanged) -> Fact:
    host, reason = printable(event.host), printable(event.reason)
    text = f"{host}: {width_text(event)}: {reason}"
    return _fact(
        event, "width_changed", "info", text,
        host=host, places=event.places, before=event.before, reason=reason,
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


def _volume_data(volume: VolumeView) -> dict[str, object]:
    reason = None if volume.reason is None else printable(volume.reason, 1000)
    return {**msgspec.structs.asdict(volume), "name": printable(volume.name, 1000), "reason": reason}


def placed_text(event: BatchPlaced) -> str:
    """The volume that a batch goes to, and the reason; printable."""
    volume = printable(event.volume, 1000)
    moved = "" if event.moved_from is None else f", from {printable(event.moved_from, 1000)}"
    why = printable(event.why, 1000).removeprefix(f"{volume}: ")
    return f"{_batch_text(event)} to {volume}{moved}: {why}"


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
    text = f"fallback: slow files {event.stragglers}, at most {event.threshold}: one entry at a time now"
    return _fact(event, "fallback", "warning", text, stragglers=event.stragglers, threshold=event.threshold)


_Makers = dict[type[Event], Callable[[Any], Fact]]

_PACED: _Makers = {
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
_EXPLAINED: _Makers = {BatchPlaced: _placement_fact, BatchCommitted: _commit_fact}
_AT_ONCE: _Makers = {
    PlanWaiting: _wait_fact,
    FallbackTriggered: _fallback_fact,
    RunNoted: _note_fact,
    RunStarted: _start_fact,
    RunStopping: _stop_fact,
}
