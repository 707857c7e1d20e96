"""Reduces the events of a run under way to its page and to a few live numbers.

Pure: time is the events' ``t_s``.
"""

from collections.abc import Callable, Sequence

import msgspec

from cfetch.base.events import (
    BaselineView,
    EntriesFinished,
    EntryFinished,
    Event,
    Progress,
    RunExplained,
    RunFinished,
    RunStarted,
)
from cfetch.base.records import Summary
from cfetch.base.secret import printable
from cfetch.base.version import __version__
from cfetch.plugins.monitors.page_tables import list_places
from cfetch.show.event_records import make_event_record
from cfetch.show.format import duration, plural, rate, size
from cfetch.show.live.prediction import predict
from cfetch.show.live.time_left import TimeLeft
from cfetch.show.live.view import View
from cfetch.show.metrics import make_header
from cfetch.show.page.document import PageDocument
from cfetch.show.page.run_part import RunPart
from cfetch.show.page.runs_page import make_live_page, make_parts

MOST_FAULTS = 10  # lines; what goes wrong more often says nothing new


class LiveDocument(msgspec.Struct, frozen=True, kw_only=True):
    """What ``/summary`` answers (``cfetch.live/1``). ``summary`` is the document of a run that has ended.

    ``left_s``: the estimated time until the end; None: unknown. ``text`` is for a person. Before the first
    run, ``state`` is waiting, and all else is empty.
    """

    schema: str = "cfetch.live/1"
    state: str
    instant: str = ""
    elapsed_s: float = 0.0
    files: int = 0
    done: int = 0
    skipped: int = 0
    failed: int = 0
    active: int = 0
    bytes: int = 0
    rate_bps: float = 0.0
    left_s: float | None = None
    text: str = ""
    notes: list[str] = []
    summary: Summary | None = None


class PageState:
    """The latest run: ``apply`` every event in order.

    ``names`` are those of runs that follow one another and are shown side by side, as a bench does.

    Whatever the data is, nothing here raises: a reader would take the lost connection for the end of the run.
    A fault is a line on the page; ``on_fault`` gets it too, once.
    """

    def __init__(self, names: Sequence[str] = (), on_fault: Callable[[str], object] = lambda _: None) -> None:
        self._names = names
        self._on_fault = on_fault
        self._faults: set[str] = set()
        self._view = View()
        self._part: RunPart | None = None
        self._before: list[RunPart] = []  # with names: the runs that have ended
        self._changes = 0

    @property
    def changes(self) -> int:
        """A number that grows with every event that the page shows."""
        return self._changes

    def apply(self, event: Event) -> None:
        """Update the state by one event."""
        try:
            self._apply(event)
        except Exception as error:  # noqa: BLE001 - the picture of a run is not worth its loss
            self._note_fault(f"{type(event).__name__} cannot be shown", error)

    def _note_fault(self, what: str, error: Exception) -> str:
        line = f"{what} ({type(error).__name__}: {printable(str(error), 200)}); the run goes on"
        if line not in self._faults and len(self._faults) < MOST_FAULTS:
            self._faults.add(line)
            self._on_fault(line)
        return line

    def _apply(self, event: Event) -> None:
        if isinstance(event, RunStarted):  # a follower has one run after another
            if self._names and self._part is not None:
                self._before.append(self._part)
            self._view, self._part = View(), RunPart(make_header(event), "")
        self._changes += 1
        self._view.apply(event)
        if self._part is None:
            return
        if isinstance(event, RunFinished):
            self._part.source = event.summary.metrics or ""
        if isinstance(event, EntryFinished | RunExplained):
            self._part.add(event.record)
        elif isinstance(event, EntriesFinished):
            for record in event.block.read_records():
                self._part.add(record)
        elif (kept := make_event_record(event)) is not None:
            self._part.add(kept)

    def make_page(self) -> PageDocument:
        """The page of the run so far."""
        try:
            return self._draw()
        except Exception as error:  # noqa: BLE001 - the picture of a run is not worth its loss
            note = self._note_fault("the charts cannot be drawn now", error)
            return PageDocument(title="cfetch: live", note=note, version=__version__, parts=[])

    def _draw(self) -> PageDocument:
        if self._part is None:
            return PageDocument(title="cfetch: waiting for a run", note="", version=__version__, parts=[])
        if self._names:
            runs = [*self._before, self._part]
            title, names = "cfetch bench: live", self._names[: len(runs)]
            return PageDocument(title=title, note="", version=__version__, parts=make_parts(runs, names))
        progress, is_over = self._view.progress, self._view.summary is not None
        active = progress.active if progress is not None and not is_over else []
        return make_live_page(
            self._part,
            active,
            self._view.t_s,
            list_places(progress),
            is_over=is_over,
            received_bytes=self._view.received_bytes,
        )

    def make_live(self) -> LiveDocument:
        """The live numbers."""
        view = self._view
        if view.run is None:
            return LiveDocument(state="waiting", text="waiting for a run")
        progress = view.progress or _NOTHING
        left = self._time_left
        return LiveDocument(
            state="running" if view.summary is None else "finished",
            instant=view.run.instant,
            elapsed_s=round(view.t_s, 3),
            files=view.run.files,
            done=progress.done,
            skipped=progress.skipped,
            failed=progress.failed,
            active=len(progress.active) + progress.unshown,
            bytes=view.bytes_in_hand,
            rate_bps=round(view.rate_bps, 1),
            left_s=None if left is None or view.summary is not None else round(left.seconds, 1),
            text=self._prefix + _describe(view, progress, left),
            notes=[printable(" ".join(filter(None, (note.path, note.text))), 300) for note in view.notes],
            summary=view.summary,
        )

    @property
    def _time_left(self) -> TimeLeft | None:
        if self._names:  # these runs are seen through their metrics, which have no attempts under way
            return None
        return predict(self._view)

    @property
    def _prefix(self) -> str:
        return f"{self._names[len(self._before)]}: " if self._names else ""


def _describe(view: View, progress: Progress, time_left: TimeLeft | None) -> str:
    assert view.run is not None
    if view.summary is not None:
        files = view.summary.files
        ended = f"{files.done + files.skipped:,} of {plural(files.total, 'file')} in place"
        return f"{view.summary.status}: {ended}, exit code {view.summary.exit_code}"
    left = "" if time_left is None else f", about {duration(time_left.seconds)} left"
    failed = f", {progress.failed:,} failed" if progress.failed else ""
    in_place = f"{progress.done + progress.skipped:,} of {plural(view.run.files, 'file')} in place"
    return f"{in_place}{failed}, {size(view.bytes_in_hand)}, {rate(view.rate_bps)}{left}"


_NOTHING = Progress(
    t_s=0.0,
    done=0,
    skipped=0,
    failed=0,
    retries=0,
    bytes_done=0,
    bytes_active=0,
    bytes_wasted=0,
    active=[],
    waiting=0,
    baseline=BaselineView(median_bps=None, finished=0, required=0),
    stragglers=0,
    sequential=False,
)
