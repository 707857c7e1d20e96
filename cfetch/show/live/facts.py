"""The facts that a log has about a run: the start, progress now and then, trouble at once, the end.

Plain lines, JSON lines and quiet mode share these facts; they only write them in different ways. Facts about
troubles, notes and batches are in ``event_facts.py``.
"""

from collections import Counter
from collections.abc import Iterable, Iterator

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
from cfetch.base.secret import printable
from cfetch.show.ending import RunLimits, describe_setup
from cfetch.show.format import duration, plural, rate, size, sizes
from cfetch.show.live.closing import closing_lines
from cfetch.show.live.fact import Fact
from cfetch.show.live.view import View

FIRST_PROGRESS_S = 2.0  # a short run needs none
PROGRESS_EVERY_S = 10.0
STATED = (
    BreakerClosed, ExecutorSlow, FallbackTriggered, HostPaused, MinRateWaived, PlanWaiting,
    RescueGivenUp, RunNoted, RunStopping, SlowdownOver, SlowdownSeen, VolumePaused, WidthChanged,
    StragglerCancelled, BatchPlaced, BatchCommitted,
)  # fmt: skip
EXPLAINED_ONLY = (BatchPlaced, BatchCommitted)
NAMED = 5  # failures of one cause, for a person; the last lines count them
MAX_CAUSES = 1000  # so that hostile messages do not fill the memory
MAX_LINES = 20  # lines of each kind; ten thousand equal lines help nobody, and the metrics have all


class Facts:
    """Turns events into facts, not more than a log needs; with ``explain``, also facts about each batch.

    ``joins``: of failures of one cause only the first are facts, as a person needs no more.
    """

    def __init__(self, *, explain: bool = False, joins: bool = False) -> None:
        self.view = View()
        self._explain = explain
        self._next_progress_s = FIRST_PROGRESS_S
        self._joins = joins
        self._causes: Counter[str] = Counter()  # of failures that were stated
        self._emitted: Counter[str] = Counter()  # facts by their names
        self._longest_pause_s: dict[str, float] = {}  # of the stated pauses, by failing host

    def reduce(self, event: Event) -> Iterable[Fact]:
        """The facts that ``event`` adds: mostly none."""
        self.view.apply(event)
        if isinstance(event, EntryFinished):
            return self._make_failure_facts(event) if event.record.status == "failed" else ()
        return self._make_facts(event)

    def _make_failure_facts(self, event: EntryFinished) -> Iterator[Fact]:
        """The failure, unless enough of its cause were stated; of a fault of this machine that is one."""
        from cfetch.show.live.event_facts import make_failure_fact  # most runs have no failure

        before, most = 0, NAMED
        if self._joins:
            from cfetch.show.causes import find_cause

            record = event.record
            most = 1 if record.error_kind == LocalFault.kind else NAMED
            cause = f"{record.error_kind} {find_cause(record.error or '', record.path)}"
            before = self._causes[cause]
            if before or len(self._causes) < MAX_CAUSES:
                self._causes[cause] += 1
        if before < most:
            yield from self._limit(make_failure_fact(event))
        elif before == most == NAMED and self._emitted["failed"] <= MAX_LINES:
            text = "failed: more files, for the same reason as the last ones; the metrics name all"
            yield Fact(event.t_s, "counted_only", "error", text, {"fact": "failed"})

    def _make_facts(self, event: Event) -> Iterator[Fact]:
        if isinstance(event, Progress):
            if event.t_s >= self._next_progress_s:
                self._next_progress_s = event.t_s + PROGRESS_EVERY_S
                yield self._progress_fact(event)
        elif isinstance(event, RunFinished):
            yield self._finish_fact(event)
        elif isinstance(event, RunStarted):
            yield _start_fact(event)
        elif isinstance(event, STATED) and (self._explain or not isinstance(event, EXPLAINED_ONLY)):
            yield from self._make_rare_facts(event)

    def _make_rare_facts(self, event: Event) -> Iterator[Fact]:
        # a plain run has none of these events
        from cfetch.show.live.event_facts import (
            AT_ONCE,
            EXPLAINED,
            PACED,
            explain_only_volume,
            make_straggler_fact,
        )

        if isinstance(event, StragglerCancelled):
            if not event.completed:
                yield from self._limit(make_straggler_fact(event))
        elif isinstance(event, HostPaused) and self._is_stated(event):
            return
        elif type(event) in PACED:
            if isinstance(event, BreakerClosed):
                self._longest_pause_s.pop(event.host or "", None)
            yield from self._limit(PACED[type(event)](event))
        elif self._joins and (only := explain_only_volume(event, self.view.run)) is not None:
            if not self._emitted[only.name]:
                yield only
            self._emitted[only.name] = 1
        elif type(event) in EXPLAINED:
            yield EXPLAINED[type(event)](event)
        elif isinstance(event, RunStopping) and self._joins and self._is_known(event.reason):
            yield Fact(event.t_s, "stopping", "warning", "stopping: this failure concerns every file", {})
        else:
            yield AT_ONCE[type(event)](event)

    def _is_known(self, reason: str) -> bool:
        """Whether the log has just stated this reason, with the file for which it came."""
        return any(note.kind == "failed" and note.text == reason for note in self.view.notes)

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
        from cfetch.show.live.prediction import percent_text, predict, starting_text, total_text

        time_left = predict(view)
        slow = sum(executor.fraction is not None for executor in event.executors)
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
            f"{starting_text(view) or percent_text(view)}, "
            f"{view.files_in_place:,} of {plural(files, 'file')} {view.where}, "
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
                printable(executor.name) for executor in event.executors if executor.fraction is not None
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
            refetches=self.view.option("existing") == "refetch",
            failures=self.view.option("failures"),
            streamed=self.view.where != "in place",
        )
        return Fact(event.t_s, "finished", "error" if summary.exit_code else "info", "\n".join(lines), data)


def _count_active(event: Progress) -> int:
    return len(event.active) + event.unshown


def _start_fact(event: RunStarted) -> Fact:
    destination = printable(event.destination)
    known = sizes(event.bytes_known, event.sizes_unknown, event.files)
    limits = RunLimits.of(event.settings, event.concurrency)
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


def _volume_data(volume: VolumeView) -> dict[str, object]:
    reason = None if volume.reason is None else printable(volume.reason, 1000)
    return {**msgspec.structs.asdict(volume), "name": printable(volume.name, 1000), "reason": reason}
