"""One execution of a plan, whichever engine brings its entries: signals, metrics, settling, the summary.

::

    listen to signals                   the first ends the run in good order, the second ends the process
    a timer for the deadline            ends the run in the same way
    open the engine -> RunStarted
    engine.bring                        emits what happens to entries; returns what ended it early
    flush the metrics                   a disk that is full now fails the run, not its reader
    settle                              all in place: commit the plan; a fault: does this run still have it?
    RunExplained                        how it ended, and what decided the end: the last line of the metrics
    RunFinished                         with the summary, which is made from the same events

The failure of an entry is never raised: the summary tells it, with the exit code. An error that nobody has
foreseen, in the engine or in a listener, stops the engine in good order. It is raised after the last event,
so that ``RunFinished`` has a summary of such a run too.
"""

import signal
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from msgspec.structs import replace

from cfetch.base.clock import Clock, RunClock
from cfetch.base.config.settings import Settings
from cfetch.base.config.units import duration_text
from cfetch.base.errors import CfetchError, DeadlinePassed, Interrupted, LocalFault, explain_bug
from cfetch.base.events import (
    Event,
    Listener,
    RunExplained,
    RunFinished,
    RunNoted,
    RunStarted,
    RunStopping,
    fan_out,
)
from cfetch.base.records import Summary
from cfetch.base.registry import load_shipped
from cfetch.base.version import __version__
from cfetch.run.collector import collect_seldom
from cfetch.run.signals import listen
from cfetch.show.counts import LiveCounts
from cfetch.show.metrics import MetricsFile
from cfetch.show.summary import Tally
from cfetch.storage import descriptors
from cfetch.storage.lacking import take_losses
from cfetch.straggler.knowledge import Knowledge

if TYPE_CHECKING:
    from cfetch.manifest.entries import Frozen

ENDING_S = 15.0  # after a signal, beside what disks take: supervisors kill a process after 90 s


class Guard(Protocol):
    """The port that keeps other runs away from the plan; ``timeline.execution.Execution`` implements it."""

    @property
    def instant(self) -> str:
        """The plan's instant."""

    @property
    def epoch(self) -> int:
        """The number of this execution of the plan."""

    @property
    def run_id(self) -> str:
        """The id of this execution, and of no other."""

    def confirm(self) -> None:
        """Raise Held or LocalFault if the plan is no longer this run's."""

    def commit(self, *, files: int, size_bytes: int) -> None:
        """Complete the plan: all required files are in place and durable. Raises Held, LocalFault."""


@dataclass(frozen=True)
class Run:
    """The part of a run that an engine gets; ``counts`` are the entries whose ends it has emitted."""

    guard: Guard
    emit: Listener
    counts: LiveCounts
    clock: RunClock


class Engine(Protocol):
    """The port that brings the entries of one plan to their end: a pool, processes or a job. Used once."""

    @property
    def learned(self) -> Knowledge:
        """The knowledge of hosts, complete when ``bring`` is over, however it ended.

        It is empty if each share learns by itself.
        """

    def open(self) -> AbstractContextManager[None]:
        """Open what the engine needs while the run lasts. Raises UsageError, LocalFault."""

    def bring(self, run: Run) -> CfetchError | None:
        """Bring all entries to their end, or until a stop; return the error that ended it early.

        An error that is returned has been emitted as ``RunStopping``; an error that is raised has not.

        Raises:
            CfetchError: it cannot go on.
        """

    def stop(self, reason: str) -> None:
        """Start nothing new, emit the reason, close all attempts; from any thread or signal handler.

        The call may come before ``bring``, which then ends soon.
        """

    def lose(self, why: str) -> None:
        """The guard may have lost the plan: ``bring`` asks it, and ends if that is so. From any thread."""


class RunFrame:
    """A run of ``plan`` to ``roots`` by ``engine``. Used once."""

    def __init__(
        self,
        engine: Engine,
        plan: "Frozen",
        roots: Sequence[str | Path],
        settings: Settings,
        clock: Clock,
        *,
        keeps_metrics: bool = True,
    ) -> None:
        """``keeps_metrics``: False if they are removed after a run without a failure."""
        self._engine = engine
        self._keeps_metrics = keeps_metrics
        self._plan = plan
        self._roots = roots
        self._settings = settings
        self._clock = clock
        self._error: CfetchError | None = None  # what ended the run, unless the engine itself returns it
        self._metrics_fault: LocalFault | None = None
        self._bug: Exception | None = None  # of a listener
        self._stated: set[str] = set()  # why the run stops

    def go(self, guard: Guard, metrics: MetricsFile | None, listener: Listener) -> Summary:
        """Download. ``metrics``: None if another machine writes them.

        Raises:
            UsageError: the engine cannot be had.
            LocalFault: it cannot begin.
        """
        tally = Tally()

        def emit(event: Event) -> None:
            if isinstance(event, RunStopping):
                self._stated.add(event.reason)
            for hear in (keep, listener):  # what is wrong with one does not keep the event from the other
                try:
                    hear(event)
                except LocalFault as fault:  # the metrics file cannot grow any more
                    self._metrics_fault = fault
                    self._error = self._error or fault
                    self._engine.stop(str(fault))
                except Exception as bug:  # noqa: BLE001 - it is raised when all that is under way is closed
                    self._break_down(bug)

        others = [make() for make in load_shipped("listeners")]
        if self._settings.listener:
            from cfetch.run.listeners import open_listeners

            others += open_listeners(self._settings.listener, emit)
        keep = fan_out(*(member for member in (tally, metrics, *others) if member is not None))
        try:
            end_s = self._settings.write_timeout + ENDING_S
            hangs = str(self._roots[0] if len(self._roots) == 1 or metrics is None else metrics.path.parent)
            with listen(self.interrupt, end_s=end_s, hangs=hangs), self._engine.open(), collect_seldom():
                run = Run(guard, emit, tally.live, RunClock(self._clock))
                emit(self._make_start_event(guard.instant))
                with self._end_at_deadline():
                    error = self._bring(run)
                if metrics is not None:
                    error = self._write(metrics.flush, run, error)
                _note_losses(run)
                error = self._settle(run, tally, error) if self._bug is None else explain_bug(self._bug)
                end = tally.end(run.clock.now(), error=error)
                emit(RunExplained(t_s=end.t_s, record=end))
                if metrics is not None:
                    error = self._write(metrics.close, run, error)
                    self._note_cut_metrics(run)
                path = None if metrics is None else str(metrics.path)
                summary = tally.summary(run.clock.now(), error=error, metrics=path, end=end)
                if not self._keeps_metrics and not summary.exit_code and not summary.files.failed:
                    summary = replace(summary, metrics=None)
                emit(RunFinished(t_s=run.clock.now(), summary=summary))
                if self._bug is not None:
                    raise self._bug
                return summary
        finally:
            if metrics is not None:
                metrics.close()

    def interrupt(self, interrupted: Interrupted) -> None:
        """End the run in good order; from any thread or signal handler, also before ``go``."""
        self._error = self._error or interrupted
        name = signal.Signals(interrupted.signal_number).name
        self._engine.stop(f"{name}: closing what is under way; once more to leave at once")

    def _break_down(self, bug: Exception) -> None:
        """End the run in good order, as a listener has failed; its text may hold a secret."""
        if self._bug is None:
            self._bug = bug
            self._engine.stop(str(explain_bug(bug)))

    @contextmanager
    def _end_at_deadline(self) -> Iterator[None]:
        """Stop the engine at the deadline, if the run has one."""
        timer = threading.Timer(self._settings.deadline or 0.0, self._pass_deadline)
        timer.daemon = True
        if self._settings.deadline is None:
            yield
            return
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
            timer.join()

    def _pass_deadline(self) -> None:
        assert self._settings.deadline is not None
        passed = DeadlinePassed(
            f"the deadline of {duration_text(self._settings.deadline)} is over; "
            "what is not in place is left for the next run"
        )
        self._error = self._error or passed
        self._engine.stop(str(passed))

    def _make_start_event(self, instant: str) -> RunStarted:
        roots = tuple(map(str, self._roots))
        return RunStarted(
            t_s=0.0,
            instant=instant,
            wall_start=datetime.fromtimestamp(self._clock.wall(), UTC).isoformat(timespec="milliseconds"),
            version=__version__,
            host=socket.gethostname(),
            files=len(self._plan),
            bytes_known=self._plan.total_bytes,
            sizes_unknown=self._plan.sizes_unknown,
            concurrency=self._settings.concurrency,
            destination=", ".join(roots),
            destinations=roots,
            settings=self._settings.public(),
        )

    def _bring(self, run: Run) -> CfetchError | None:
        try:
            error = self._engine.bring(run)
        except CfetchError as fault:
            run.emit(RunStopping(t_s=run.clock.now(), reason=str(fault)))
            error = fault
        except Exception as bug:  # noqa: BLE001 - it is raised when the summary has been told
            self._bug, error = self._bug or bug, explain_bug(bug)
            if str(error) not in self._stated:
                run.emit(RunStopping(t_s=run.clock.now(), reason=str(error)))
        if isinstance(self._error, DeadlinePassed) and run.counts.ended.in_place == len(self._plan):
            self._error = None  # the last file was faster than the stop
        return self._error or error

    def _write(self, write: Callable[[], None], run: Run, error: CfetchError | None) -> CfetchError | None:
        """Write lines of the metrics; return the run's error, which is a fault if they cannot be written."""
        try:
            write()
        except LocalFault as fault:
            self._metrics_fault = fault
            if error is None:
                run.emit(RunStopping(t_s=run.clock.now(), reason=str(fault)))
            return error or fault
        except Exception as bug:  # noqa: BLE001 - it is raised when the summary has been told
            self._bug = self._bug or bug
            return error or explain_bug(bug)
        return error

    def _note_cut_metrics(self, run: Run) -> None:
        """Tell that a disk which stopped the run for another file has cut the metrics too."""
        if self._metrics_fault is not None and str(self._metrics_fault) not in self._stated:
            note = f"the metrics are not whole: {self._metrics_fault}"
            run.emit(RunNoted(t_s=run.clock.now(), note=note))

    def _settle(self, run: Run, tally: Tally, error: CfetchError | None) -> CfetchError | None:
        """Complete the plan if all required files are in place; return the run's error."""
        try:
            if isinstance(error, LocalFault):
                run.guard.confirm()  # another run that tidies up after this one may have caused the fault
            elif error is None and tally.is_enough:
                self._commit(run, self._plan.total_bytes - tally.failed_bytes)
        except CfetchError as lost:
            if str(lost) != str(error):  # otherwise it has been emitted already
                run.emit(RunStopping(t_s=run.clock.now(), reason=str(lost)))
            return lost
        return error

    @staticmethod
    def _commit(run: Run, size_bytes: int) -> None:
        """Complete the plan; again, if a run that stood still just now has lost only its heartbeat."""
        files = run.counts.ended.in_place
        try:
            run.guard.commit(files=files, size_bytes=size_bytes)
        except LocalFault:
            run.guard.confirm()
            run.guard.commit(files=files, size_bytes=size_bytes)


def _note_losses(run: Run) -> None:
    """Tell what the file systems of this run were found to lack, and what this machine permits less of."""
    while descriptors.notes:
        run.emit(RunNoted(t_s=run.clock.now(), note=descriptors.notes.pop()))
    for loss in take_losses():
        run.emit(RunNoted(t_s=run.clock.now(), note=f"a file system of this run {loss}"))
