"""Reduces events to the values that are shown: totals, rate, time left, attempts by risk, recent trouble.

Pure: no terminal, no clock; time is the events' ``t_s``. The live view and the plain lines show these values.
"""

from collections import deque
from typing import TYPE_CHECKING, Literal, NamedTuple

from msgspec.structs import replace

from cfetch.base.events import (
    ActiveAttempt,
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
    RetryScheduled,
    RunExplained,
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
from cfetch.base.records import EndRecord, FileRecord, Summary
from cfetch.base.secret import printable
from cfetch.show.counts import Counts, count_received
from cfetch.show.format import duration, percent, plural, rate, size
from cfetch.show.live.hosts import SlowHosts
from cfetch.show.live.pace import Pace

if TYPE_CHECKING:
    from cfetch.show.live.time_left import TimeLeft

RATE_WINDOW_S = 5.0  # long enough to be readable, short enough to show a change
MINUTE_S = 60
NOTES = 3
ENOUGH_FILES = 10  # for a mean of their sizes, and for a prediction
ENOUGH_SHARE = 0.05  # of the run, for a prediction

_SEVERITY = {"straggler": 3, "slow": 2, "last try": 1, "retrying": 1, "segment": 0, "ok": 0}
_TROUBLE = {"open": 0, "half-open": 1, "closed": 2}

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


class Note(NamedTuple):
    """A problem, or the reaction to a problem."""

    t_s: float
    kind: NoteKind
    path: str
    text: str


class View:
    """The state of one run: ``apply`` every event, and read the properties when a frame is drawn."""

    def __init__(self) -> None:
        self.run: RunStarted | None = None
        self.progress: Progress | None = None
        self.summary: Summary | None = None
        self.end: EndRecord | None = None
        self.hosts = SlowHosts()
        self.pace = Pace()
        self.stopping: str | None = None
        self.notes: deque[Note] = deque(maxlen=NOTES)
        self.fallback_at: FallbackTriggered | None = None
        self._is_slowed = False  # nothing is cancelled during a slowdown
        self._slow: set[int] = set()  # entries with a cancelled attempt
        self._counts = Counts()  # done entries are in it only if tasks report them together
        self._recent: deque[tuple[float, int]] = deque()  # (t_s, bytes received), the last RATE_WINDOW_S
        # bytes in each second of the last minute, and in the present one
        self._seconds: deque[float] = deque([0.0], maxlen=MINUTE_S + 1)
        self._second = 0

    def apply(self, event: Event) -> None:
        """Update the state by one event."""
        if isinstance(event, EntryFinished):
            if event.record.status != "skipped":
                self.pace.apply(event)
            if event.record.status != "done":  # Progress counts done entries, which are nearly all
                self._counts.add(event.record)
                self._note_failure(event.t_s, event.record)
            return
        self.pace.apply(event)
        self._counts.note(event)
        self.hosts.apply(event)
        if isinstance(event, Progress):
            self._measure(event)
            self.progress = event
        elif isinstance(event, RunStarted):
            self.run = event
        elif isinstance(event, RunStopping):
            self.stopping = event.reason
        elif isinstance(event, RunExplained):
            self.end = event.record
        elif isinstance(event, RunFinished):
            self.summary = event.summary
        else:
            self._note_trouble(event)

    @property
    def refetches(self) -> bool:
        """Whether files in place are fetched again."""
        return self.run is not None and self.run.settings.get("existing") == "refetch"

    def _note_trouble(self, event: Event) -> None:
        if isinstance(event, StragglerCancelled):
            self._slow.add(event.id)
            self._note_straggler(event)
        elif isinstance(event, RunNoted):
            self.notes.append(Note(event.t_s, "waiting", "", event.note))  # there are few, all different
        elif (described := _describe_trouble(event)) is not None:
            self._note_once(event.t_s, *described)
        if isinstance(event, SlowdownSeen | SlowdownOver):
            self._is_slowed = isinstance(event, SlowdownSeen)
        elif isinstance(event, FallbackTriggered):
            self.fallback_at = event

    def _note_failure(self, t_s: float, record: FileRecord) -> None:
        if record.status == "failed":
            self.notes.append(Note(t_s, "failed", record.path, record.error or record.error_kind or "failed"))

    def _note_once(self, t_s: float, kind: NoteKind, path: str, text: str) -> None:
        """Add a note; it replaces a last note of the same kind, so that failures stay visible."""
        if self.notes and self.notes[-1].kind == kind:
            self.notes.pop()
        self.notes.append(Note(t_s, kind, path, text))

    def _note_straggler(self, event: StragglerCancelled) -> None:
        if event.completed:
            return
        where = "" if event.executor is None else f" on {event.executor}"
        text = f"straggler{where}, cancelled after {event.elapsed_s:.1f}s; trying again"
        if self.notes and self.notes[-1].path == event.path:
            self._note_once(event.t_s, "straggler", event.path, text)
        else:
            self.notes.append(Note(event.t_s, "straggler", event.path, text))

    def _measure(self, event: Progress) -> None:
        before = self._recent[-1] if self._recent else (0.0, 0)
        # an entry that waits for its retry is not active
        received = max(before[1], count_received(event, self._counts.skipped_bytes))
        self._recent.append((event.t_s, received))
        while len(self._recent) > 2 and self._recent[1][0] <= event.t_s - RATE_WINDOW_S:
            self._recent.popleft()
        gap = int(event.t_s) - self._second
        share = (received - before[1]) / max(gap, 1)
        for _ in range(min(gap, MINUTE_S)):
            self._seconds.append(share)
        self._second = int(event.t_s)
        if gap <= 0:
            self._seconds[-1] += share

    @property
    def t_s(self) -> float:
        """The run's age in seconds."""
        return self.progress.t_s if self.progress else 0.0

    @property
    def cancelled(self) -> int:
        """Attempts that were cancelled as stragglers."""
        return self._counts.cancelled_attempts

    @property
    def files_in_place(self) -> int:
        """Entries whose file stands at the destination; those that failed do not count."""
        return self.progress.done + self.progress.skipped if self.progress else 0

    @property
    def settled_files(self) -> int:
        """Entries that are in place or have failed, or have come whole and only wait for their names."""
        progress = self.progress
        return progress.done + progress.whole + progress.skipped + progress.failed if progress else 0

    @property
    def bytes_in_hand(self) -> int:
        """Bytes of the plan that have arrived, including those of attempts under way."""
        return self.progress.bytes_done + self.progress.bytes_active if self.progress else 0

    @property
    def received_bytes(self) -> int:
        """Bytes that came over the network, those of attempts under way included."""
        return self._recent[-1][1] if self._recent else 0

    @property
    def fraction(self) -> float:
        """How much of the run is done: by bytes if all sizes are known, else by files and parts of files."""
        if self.run is None:
            return 0.0
        if self.bytes_known and not self.sizes_unknown:
            return min(1.0, (self.bytes_in_hand + self._counts.missing_bytes) / self.bytes_known)
        return min(1.0, self._count_files_had() / self.run.files) if self.run.files else 1.0

    @property
    def bytes_known(self) -> int:
        """The sizes that the manifest or a reply has stated until now, added up."""
        if self.progress is not None and self.progress.files:
            return self.progress.bytes_known
        return self.run.bytes_known if self.run else 0

    @property
    def sizes_unknown(self) -> int:
        """Entries whose size neither the manifest nor a reply has stated until now."""
        if self.progress is not None and self.progress.files:
            return self.progress.sizes_unknown
        return self.run.sizes_unknown if self.run else 0

    @property
    def bytes_expected(self) -> int | None:
        """An estimate of all bytes where some sizes are unknown, by the mean of the others; None: too few."""
        files = self.run.files if self.run else 0
        known = files - self.sizes_unknown - self._counts.unstated.sizeless
        if known < ENOUGH_FILES or not self.bytes_known:
            return None
        return round(self.bytes_known * (1 + self.sizes_unknown / known))

    def _count_files_had(self) -> float:
        """Files that have ended, and of each file under way the part that has come."""
        under_way = {
            attempt.id: attempt.file_bytes / attempt.file_size_bytes
            for attempt in (self.progress.active if self.progress else ())
            if attempt.file_size_bytes
        }
        return self.settled_files + sum(min(1.0, had) for had in under_way.values())

    @property
    def rate_bps(self) -> float:
        """Bytes per second over the last few seconds."""
        if not self._recent:
            return 0.0
        (since, before), (now, received) = self._recent[0], self._recent[-1]
        if now <= since:
            since, before = 0.0, 0
        return (received - before) / (now - since) if now > since else 0.0

    def rates(self, columns: int) -> list[float]:
        """Rates of the last minute, each over a ``columns``-th of it (a divisor of 60), the oldest first.

        A run younger than a minute has fewer.
        """
        full = list(self._seconds)[:-1]  # the newest second is not over
        span = MINUTE_S // columns
        full = full[len(full) % span :]
        return [sum(full[start : start + span]) / span for start in range(0, len(full), span)]

    @property
    def slow_files(self) -> int:
        """Files with a cancelled attempt; where none is cancelled, the stragglers. Tasks count attempts."""
        return len(self._slow) or (self.progress.stragglers if self.progress else 0)

    @property
    def time_left(self) -> "TimeLeft | None":
        """How long the run still takes; None if there is no data for an estimate, or too little of it."""
        progress, run = self.progress, self.run
        if progress is None or run is None or not progress.t_s or not self._is_predictable(progress):
            return None
        # a run of a moment shows no such estimate
        from cfetch.show.live.time_left import LEAST_BPS, Rest, estimate_time_left

        expected = self.bytes_expected if self.sizes_unknown else self.bytes_known
        missing = (expected or 0) - self.bytes_in_hand - self._counts.missing_bytes
        stands_still = self.rate_bps < LEAST_BPS and not self.pace.files_per_s
        had = self._count_files_had() - progress.skipped - progress.failed
        rest = Rest(
            active=fold_segments(progress.active),
            waiting=progress.waiting,
            left_bytes=None if expected is None else max(0, missing),
            rate_bps=self.rate_bps,
            left_files=run.files - self.settled_files,
            files_per_s=0.0 if stands_still else had / progress.t_s,
            is_rough=self.sizes_unknown > 0,
            connections=_count_connections(run),
            median_bps=progress.baseline.median_bps,
            cancels=not self._is_slowed and run.settings.get("mitigation") is not False,
        )
        return estimate_time_left(rest)

    def _is_predictable(self, progress: Progress) -> bool:
        """Whether enough has come for a prediction: the first numbers of a run are far too high.

        That is a twentieth of what this run has to bring, or ten files once the rate has its whole window.
        """
        had = self._count_files_had() - progress.skipped - progress.failed
        to_do = self.run.files - progress.skipped - progress.failed if self.run else 0
        if progress.done + progress.whole >= ENOUGH_FILES and progress.t_s >= RATE_WINDOW_S:
            return True
        if not self.sizes_unknown:
            before = self._counts.skipped_bytes + self._counts.missing_bytes
            had, to_do = self.bytes_in_hand - self._counts.skipped_bytes, self.bytes_known - before
        return had >= ENOUGH_SHARE * to_do


def _describe_trouble(event: Event) -> tuple[NoteKind, str, str] | None:
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
            return "executor", event.executor, f"slow: {share_text(event.share)}"
        case WidthChanged():
            return "width", event.host, f"{width_text(event)}: {event.reason}"
        case SlowdownSeen():
            return "slowdown", "", f"{event.reason}; no download is cancelled for it"
        case SlowdownOver():
            return "slowdown", "", slowdown_end_text(event)
        case RescueGivenUp():
            return "rescue", event.path, rescue_text(event)
        case FallbackTriggered():
            slow = plural(event.stragglers, "slow file")
            return "fallback", "", f"{slow}, limit {event.threshold}: from now on one at a time"
        case PlanWaiting():
            return "waiting", "", f"waiting {event.reason}"
        case MinRateWaived():
            return "min-rate", event.path or "", min_rate_text(event)
    return None


def _count_connections(run: RunStarted) -> int:
    """How many connections a file may have where slots are idle; 1: the policy knows no segments."""
    settings = run.settings
    segments = settings.get("segments")
    is_adaptive = settings.get("policy") == "adaptive" and settings.get("mitigation") is not False
    if not is_adaptive or settings.get("rate") is not None or not isinstance(segments, int):
        return 1
    return max(1, min(segments, run.concurrency))


def fold_segments(active: list[ActiveAttempt]) -> list[ActiveAttempt]:
    """One row for each file: the attempts that bring segments of it become one, as fast as all together.

    A single attempt that brings the last segment is shown as its whole file, too.
    """
    by_file: dict[tuple[int, str | None], list[ActiveAttempt]] = {}
    for attempt in active:  # two executors that bring one file are two rows
        by_file.setdefault((attempt.id, attempt.executor), []).append(attempt)
    return [_fold(each) if len(each) > 1 or _is_part(each[0]) else each[0] for each in by_file.values()]


def _is_part(attempt: ActiveAttempt) -> bool:
    is_range = attempt.file_size_bytes is not None and attempt.size_bytes != attempt.file_size_bytes
    return is_range or attempt.state == "segment"


def _fold(attempts: list[ActiveAttempt]) -> ActiveAttempt:
    first = min(attempts, key=lambda attempt: attempt.n)
    worst = max(attempts, key=_rank_state)
    return replace(
        first,
        size_bytes=first.file_size_bytes or first.size_bytes,
        bytes=first.file_bytes or sum(attempt.bytes for attempt in attempts),
        rate_bps=sum(attempt.rate_bps for attempt in attempts),
        elapsed_s=max(attempt.elapsed_s for attempt in attempts),
        expected_s=None,  # limits are those of segments, and idle slots take over what is late
        state="ok" if worst.state == "segment" else worst.state,
        connections=len(attempts),
    )


def _rank_state(attempt: ActiveAttempt) -> int:
    return _SEVERITY[attempt.state]


def by_risk(active: list[ActiveAttempt]) -> list[ActiveAttempt]:
    """Sort the attempts: those nearest to or past their limit first.

    The order is by quarters of the limit, then by age, so that rows keep their places between frames.
    """
    return sorted(active, key=_rank_risk)


def total_text(view: View) -> str:
    """The size of all files, as far as it is known: in full, as an estimate, or as a lower limit."""
    if not view.sizes_unknown:
        return f" of {size(view.bytes_known)}"
    if view.bytes_expected is not None:
        return f" of ~{size(view.bytes_expected)}"
    return f" of over {size(view.bytes_known)}" if view.bytes_known else ""


def pause_text(event: VolumePaused) -> str:
    """Why nothing is written to a volume, and for how long."""
    how_long = "the rest of the run" if event.pause_s is None else duration(event.pause_s)
    return f"out of use for {how_long}: {event.reason}"


def slowdown_end_text(event: SlowdownOver) -> str:
    """The end of a slowdown, and how long it lasted."""
    return f"no download is far too slow any more, after {duration(event.lasted_s)}"


def rescue_text(event: RescueGivenUp) -> str:
    """Why an entry is left alone."""
    return f"left alone from now on: {plural(event.rescues, 'rescue')} did not help"


def share_text(share: float | None) -> str:
    """The speed of a slow executor, compared with the others."""
    return f"{percent(share or 0.0)} of the others' speed"


def width_text(event: WidthChanged) -> str:
    """The new and the former limit of a host."""
    return f"{plural(event.places, 'download')} at a time instead of {event.before}"


def min_rate_text(event: MinRateWaived) -> str:
    """Why downloads below ``--min-rate`` are left alone."""
    connections = plural(event.connections, "fresh connection")
    whose = "goes" if event.path is not None else f"all files of {printable(event.host)} go"
    return f"{whose} on below {rate(event.min_rate_bps)}: {connections} were no faster"


def by_trouble(volumes: list[VolumeView]) -> list[VolumeView]:
    """Sort the volumes: out of use first, then on trial, then the others in their order."""
    return sorted(volumes, key=lambda volume: _TROUBLE[volume.breaker])


def _rank_risk(attempt: ActiveAttempt) -> tuple[int, int, float, int]:
    used = attempt.elapsed_s / attempt.expected_s if attempt.expected_s else 0.0
    return (-_SEVERITY[attempt.state], -int(4 * used) if used >= 0.5 else 0, -attempt.elapsed_s, attempt.id)
