"""Reduces events to the values that are shown: totals, rate, time left, attempts by risk, recent trouble.

Pure: no terminal, no clock; time is the events' ``t_s``. The live view and the plain lines show these values.
"""

from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from cfetch.base.events import (
    MEMORY,
    STARTING,
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
    WidthChanged,
)
from cfetch.base.records import EndRecord, FileRecord, Summary
from cfetch.show.counts import Counts, count_received
from cfetch.show.live.hosts import SlowHosts
from cfetch.show.live.pace import Pace

if TYPE_CHECKING:
    from cfetch.show.live.trouble_texts import NoteKind

RATE_WINDOW_S = 5.0  # long enough to be readable, short enough to show a change
MINUTE_S = 60
NOTES = 3
_TROUBLES = (
    RetryScheduled, HostPaused, VolumePaused, BreakerClosed, ExecutorSlow, WidthChanged, SlowdownSeen,
    SlowdownOver, RescueGivenUp, FallbackTriggered, PlanWaiting, MinRateWaived,
)  # fmt: skip


class ShownNote(NamedTuple):
    """A problem, or the reaction to a problem."""

    t_s: float
    kind: "NoteKind"
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
        self.notes: deque[ShownNote] = deque(maxlen=NOTES)
        self.fallback_at: FallbackTriggered | None = None
        self.is_slowed = False  # nothing is cancelled during a slowdown
        self._slow: set[int] = set()  # entries with a cancelled attempt
        self.counts = Counts()  # done entries are in it only if tasks report them together
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
                self.counts.add(event.record)
                self._note_failure(event.t_s, event.record)
            return
        self.pace.apply(event)
        self.counts.note(event)
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

    def option(self, name: str) -> object:
        """The value of an option of the run; None before its start."""
        return self.run.settings.get(name) if self.run else None

    @property
    def where(self) -> str:
        """Where finished files are; those of a stream are handed to a reader, and no later run has them."""
        return "handed over" if self.run is not None and self.run.destination == MEMORY else "in place"

    def _note_trouble(self, event: Event) -> None:
        if isinstance(event, StragglerCancelled):
            self._slow.add(event.id)
            self._note_straggler(event)
        elif isinstance(event, RunNoted):  # there are few, all different; the bar says what is starting
            if not event.note.startswith(STARTING):
                self.notes.append(ShownNote(event.t_s, "waiting", "", event.note))
        elif isinstance(event, _TROUBLES):
            from cfetch.show.live.trouble_texts import describe_trouble  # most runs have no trouble

            if (described := describe_trouble(event)) is not None:
                self._note_once(event.t_s, *described)
        if isinstance(event, SlowdownSeen | SlowdownOver):
            self.is_slowed = isinstance(event, SlowdownSeen)
        elif isinstance(event, FallbackTriggered):
            self.fallback_at = event

    def _note_failure(self, t_s: float, record: FileRecord) -> None:
        if record.status == "failed":
            self.notes.append(
                ShownNote(t_s, "failed", record.path, record.error or record.error_kind or "failed")
            )

    def _note_once(self, t_s: float, kind: "NoteKind", path: str, text: str) -> None:
        """Add a note; it replaces a last note of the same kind, so that failures stay visible."""
        if self.notes and self.notes[-1].kind == kind:
            self.notes.pop()
        self.notes.append(ShownNote(t_s, kind, path, text))

    def _note_straggler(self, event: StragglerCancelled) -> None:
        if event.completed:
            return
        where = "" if event.executor is None else f" on {event.executor}"
        text = f"straggler{where}, cancelled after {event.elapsed_s:.1f}s; trying again"
        if self.notes and self.notes[-1].path == event.path:
            self._note_once(event.t_s, "straggler", event.path, text)
        else:
            self.notes.append(ShownNote(event.t_s, "straggler", event.path, text))

    def _measure(self, event: Progress) -> None:
        before = self._recent[-1] if self._recent else (0.0, 0)
        # an entry that waits for its retry is not active
        received = max(before[1], count_received(event, self.counts.skipped_bytes))
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
        return self.counts.cancelled_attempts

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
            return min(1.0, (self.bytes_in_hand + self.counts.missing_bytes) / self.bytes_known)
        return min(1.0, self.count_files_had() / self.run.files) if self.run.files else 1.0

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

    def count_files_had(self) -> float:
        """Count files that have ended, and of each file under way the part that has come."""
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
    def stragglers(self) -> int:
        """Files with a cancelled attempt; where none is cancelled, the stragglers. Tasks count attempts."""
        return len(self._slow) or (self.progress.stragglers if self.progress else 0)
