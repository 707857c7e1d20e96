"""A plan with its destination: ready to be put on the timeline, and to be run under a heartbeat."""

import shlex
import signal
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from cfetch.app.engine_plan import EnginePlan, RunContext
from cfetch.app.engines import choose_engine, count_processes
from cfetch.app.plan_on_timeline import Patience, PlanOnTimeline
from cfetch.base.config.settings import Settings
from cfetch.base.errors import CfetchError, Interrupted, LocalFault, UsageError
from cfetch.base.events import Listener, RunNoted, fan_out
from cfetch.base.records import Summary
from cfetch.base.registry import load
from cfetch.base.secret import printable
from cfetch.run.directories import find_timeline
from cfetch.run.frame import Engine, Guard, RunFrame
from cfetch.run.host_baseline import keep_baseline, read_baseline
from cfetch.run.result_files import (
    check_metrics_library,
    find_metrics_path,
    refuse_wanted_place,
)
from cfetch.run.threads import prove_threads
from cfetch.show.metrics import MetricsFile
from cfetch.storage.hanging_calls import call_within
from cfetch.straggler.knowledge import NOTHING, Knowledge
from cfetch.timeline.execution import Execution
from cfetch.timeline.files import name_disk
from cfetch.timeline.frozen_plans import forget_frozen
from cfetch.timeline.states import Kind
from cfetch.timeline.table import Table, ignore_note, open_table
from cfetch.timeline.tidying import tidy_up

if TYPE_CHECKING:
    from cfetch.run.stream_run import Outbox
    from cfetch.run.traces import Traces
    from cfetch.show.plan_view import Preview, Scheduled
    from cfetch.tasks.nodes.board import SharedJob
    from cfetch.tasks.nodes.engine import NodesEngine

KEEP_S = 30 * 86_400.0  # completed plans stay on the timeline for a month, then in its archive


class Prepared:
    """A validated plan with its destination, ready to run; it is on the timeline if it ``is_scheduled``."""

    def __init__(
        self, instant: str, plan: EnginePlan, context: RunContext, *, is_scheduled: bool = False
    ) -> None:
        self.plan = plan.frozen
        self._for_engines = plan
        self._on_timeline = PlanOnTimeline(instant, plan, context, is_scheduled=is_scheduled)
        self._context = context
        self._volumes = context.volumes
        self._settings = context.settings
        self._state = context.state
        self._clock = context.clock
        self.traces: Traces | None = None  # what to remove at the end
        self._frame: RunFrame | None = None
        self._interrupted: Interrupted | None = None
        self._unseen: Sequence[Path] = ()  # volumes of a run that this one has joined

    @property
    def notes(self) -> Sequence[str]:
        """Notes for the user about the manifest that was read just now."""
        here = self._for_engines.here
        return () if here is None else here.notes

    def preview(self) -> "Preview":
        """Tell what a run would do."""
        from cfetch.app.previews import make_preview  # a download shows none

        destination = join_roots(self._volumes.roots)
        return make_preview(self.plan, self._volumes, self.notes, self._settings, destination)

    def schedule(self, *, removable: bool = False, note: Callable[[str], None] = ignore_note) -> "Scheduled":
        """Put the plan on the timeline, or find it pending there. Raises LocalFault."""
        from cfetch.show.plan_view import Scheduled  # a download shows none

        with self._table(note) as table:
            instant = self._on_timeline.put(table, Kind.REMOVABLE if removable else Kind.IMMUTABLE)
        return Scheduled(
            instant=instant,
            was_pending=instant != self._on_timeline.instant,
            files=len(self.plan),
            bytes_known=self.plan.total_bytes,
        )

    def run(self, listener: Listener, *, removable: bool = False, together: bool = False) -> Summary | None:
        """Download; the summary tells what happened to entries, and the exit code.

        None: the plan was scheduled before, and another run has completed it meanwhile. ``removable``: only
        the caller needs the plan, and knows how to make it again. ``together``: other machines may join.

        Raises:
            Held: another live run has this plan.
            UsageError: the plan is removable, and its only run has already been made; or the metrics
                are to be compressed without the library for it, or put into tables where something else is.
            LocalFault: the timeline, the metrics or the parts cannot be written.
            Interrupted: ``interrupt`` was called while the run waited for another one.
            ConfigError: the system does not permit what a run needs.
        """
        prove_threads(len(self._volumes.roots))
        check_metrics_library(self._settings)
        _refuse_tables(self._settings, self._volumes.roots)
        with self._table(_make_note(listener)) as table:
            knowledge, note = self._earlier_runs()
            engine: Engine
            if together:
                engine, about_engine = self._make_node(table, knowledge), None
            else:
                engine, about_engine = choose_engine(self._for_engines, self._context, knowledge)
            kind = Kind.REMOVABLE if removable else Kind.IMMUTABLE
            with ExitStack() as stack:
                with closing(Patience(self._interruption, listener, waits=self._settings.wait)) as patience:
                    execution = self._on_timeline.take(stack, table, kind, engine.lose, patience)
                self._interrupted = self._interrupted or patience.interrupted
                if execution is None:
                    return None
                for line in (note, about_engine):
                    if line is not None:
                        listener(RunNoted(t_s=0.0, note=line))
                summary = self._bring(engine, execution, listener)
                with suppress(OSError):  # the next run tries again
                    self._on_state(lambda: self._keep_for_later(engine.learned))
            if summary.exit_code == 0:  # the plan is completed, though a few files may have failed
                with suppress(LocalFault, OSError):  # all is in place; a later run tidies up what failed
                    self._on_state(lambda: forget_frozen(table, self._state, execution.instant))
                    tidy_up(table, KEEP_S)
                if self.traces is not None:
                    self.traces.is_over = not summary.files.failed
            return summary

    def stream(self, outbox: "Outbox", most_bytes: int, listener: Listener) -> Summary:
        """Bring the files into ``outbox``; those that wait and those under way have at most ``most_bytes``.

        Nothing is put on a timeline, and no file comes to the destination.

        Raises:
            UsageError: a file is larger, or the settings are for files at a destination.
            LocalFault: as ``run``.
        """
        from cfetch.app.stream import make_stream_engine, make_stream_guard  # most runs keep their files

        prove_threads(1)
        check_metrics_library(self._settings)
        engine, name = make_stream_engine(self._for_engines, self._context, outbox, most_bytes)
        guard, metrics = make_stream_guard(self._on_timeline.instant), None
        if self._settings.metrics is not None:
            metrics = MetricsFile(self._metrics_path(guard), limit_s=self._limit_s)
        try:
            return self._go(self._make_frame(engine, (name,)), guard, metrics, listener)
        finally:
            outbox.close()

    def join(self, listener: Listener) -> Summary | None:
        """Bring a part of the plan, which another run shares; None: there is no such run now.

        Raises:
            Held: a run has the plan and does not share it.
            LocalFault: as ``run``.
        """
        from cfetch.tasks.nodes.asking import find_over
        from cfetch.tasks.nodes.engine import JoinedGuard
        from cfetch.tasks.nodes.joining import wait_for_board

        with self._table(_make_note(listener)) as table:
            joined = wait_for_board(table, self._state, self._on_timeline.instant, listener)
            if joined is None:
                return None
            epoch, job = joined
            engine = self._make_node(table, self._earlier_runs()[0], job)
            self._unseen = engine.unseen
            over = find_over(self._state / "plans" / self._on_timeline.instant / "receipts", epoch)
            return self._make_frame(engine).go(
                JoinedGuard(table, self._on_timeline.instant, epoch, over), None, listener
            )

    def may_take_part(self, listener: Listener) -> bool:
        """Whether to lead the plan, or to join its run again; False: it is completed.

        A machine that did not see all volumes of the run that it joined waits here until another one leads.

        Raises:
            LocalFault: nobody leads for ``--placement-deadline``, or the timeline cannot be read.
        """
        if not self._unseen:
            return True
        from cfetch.tasks.nodes.joining import wait_for_leader

        with self._table(_make_note(listener)) as table:
            patience_s = self._settings.placement_deadline
            return wait_for_leader(table, self._on_timeline.instant, self._unseen, patience_s, listener)

    def _bring(self, engine: Engine, execution: Execution, listener: Listener) -> Summary:
        """Download, and write what a run leaves besides its files: metrics, failures, tables."""
        metrics = MetricsFile(self._metrics_path(execution), limit_s=self._limit_s)
        return self._go(self._make_frame(engine), execution, metrics, listener)

    def _go(self, frame: RunFrame, guard: Guard, metrics: MetricsFile | None, listener: Listener) -> Summary:
        if failures := self._failures_path():
            from cfetch.run.failed_manifest import FailedEntries  # only --failures asks for it

            failed = FailedEntries()
            summary = frame.go(guard, metrics, fan_out(listener, failed))
            failed.write(failures, self.plan)
        else:
            summary = frame.go(guard, metrics, listener)
        if metrics is not None:
            self._fill_tables(metrics.path, listener, summary.elapsed_s)
        return summary

    def _make_frame(self, engine: Engine, roots: Sequence[str | Path] | None = None) -> RunFrame:
        """Make the frame that ``interrupt`` ends from now on."""
        keeps_metrics = self.traces is None or self.traces.are_wanted or self._settings.metrics is not None
        frame = RunFrame(
            engine,
            self.plan,
            roots or self._volumes.roots,
            self._settings,
            self._clock,
            keeps_metrics=keeps_metrics,
        )
        self._frame = frame
        if self._interrupted is not None:
            frame.interrupt(self._interrupted)
        return frame

    def _make_node(
        self, table: Table, knowledge: Knowledge, joined: "SharedJob | None" = None
    ) -> "NodesEngine":
        from cfetch.app.task_engines import make_nodes_engine  # only --together has several machines

        return make_nodes_engine(
            self._for_engines, self._context, knowledge, table, joined, count_processes=count_processes
        )

    def _keep_for_later(self, learned: Knowledge) -> None:
        keep_baseline(self._state, learned, self._clock.wall())
        if self._settings.keep_metrics is not None and self._settings.metrics is None:
            from cfetch.run.metrics_rotation import rotate_metrics  # only --keep-metrics asks for it

            rotate_metrics(self._state, self._settings.keep_metrics)

    @property
    def _limit_s(self) -> float | None:
        """The time for which a call on the state may hang; None: it is waited for, as on a single volume."""
        return self._settings.write_timeout if len(self._volumes.roots) > 1 else None

    def _on_state(self, step: Callable[[], None]) -> None:
        """Carry out a last step on the state. Raises OSError if it hangs."""
        call_within(self._limit_s, name_disk(self._state), step)

    def interrupt(self) -> None:
        """End the run as Ctrl-C does, from any thread; also before ``run``, which then ends soon."""
        self._interrupted = Interrupted(signal.SIGINT)
        if self._frame is not None:
            self._frame.interrupt(self._interrupted)

    def _earlier_runs(self) -> tuple[Knowledge, str | None]:
        settings = self._settings
        if not settings.is_adaptive or settings.engine != "local":
            return NOTHING, None
        return read_baseline(self._state)

    def _table(self, note: Callable[[str], None]) -> AbstractContextManager[Table]:
        state, _, heartbeats, bucket = find_timeline(self._settings)
        return open_table(
            state, self._volumes.states, heartbeats, limit_s=self._limit_s, bucket=bucket, note=note
        )

    def _interruption(self) -> Interrupted | None:
        return self._interrupted

    def _metrics_path(self, execution: Guard) -> Path:
        path = find_metrics_path(self._settings, self._state, execution.instant, execution.epoch)
        refuse_wanted_place("metrics", path, self._volumes, self.plan)
        return path

    def _fill_tables(self, metrics: Path, listener: Listener, end_s: float) -> None:
        """Put the metrics into tables, if that is wanted; the files are in place whatever comes of it."""
        if self._settings.metrics_tables is None:
            return
        to = Path(self._settings.metrics_tables)
        try:
            load("parts", "metrics-tables")(metrics, to)
        except CfetchError as error:
            command = shlex.join(["cfetch", "metrics", "load", str(metrics), "--to", str(to)])
            listener(RunNoted(t_s=end_s, note=f"the metrics are not in the tables: {error}; {command}"))

    def _failures_path(self) -> Path | None:
        if self._settings.failures is None:
            return None
        from cfetch.run.failed_manifest import find_failures_path  # only --failures asks for it

        path = find_failures_path(self._settings.failures, self.plan.source)
        refuse_wanted_place("failures", path, self._volumes, self.plan)
        return path


def _make_note(listener: Listener) -> Callable[[str], None]:
    """Make the function that shows a line to ``listener``, which only this thread may call."""
    here = threading.get_ident()

    def note(text: str) -> None:
        if threading.get_ident() == here:
            listener(RunNoted(t_s=0.0, note=text))

    return note


def join_roots(roots: Sequence[str | Path]) -> str:
    """Join the destinations, for messages."""
    return ", ".join(map(str, roots))


def _refuse_tables(settings: Settings, roots: Sequence[str | Path]) -> None:
    """Raise UsageError if the directory for the tables holds something else, or will: the destination."""
    if settings.metrics_tables is None:
        return
    to = Path(settings.metrics_tables)
    if any(root.resolve().is_relative_to(to.resolve()) for root in roots if isinstance(root, Path)):
        name = printable(str(to), 1000)
        raise UsageError(f"metrics_tables: {name} is where the files go; name another")
    with suppress(OSError):  # there is no such directory yet; what else is wrong is told at the end
        load("parts", "metrics-tables-place")(to)
