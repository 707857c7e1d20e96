"""A plan on the timeline of its destination: put there with its frozen manifest, and started there."""

import shutil
from collections.abc import Callable
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue

import msgspec

from cfetch.app.engine_plan import EnginePlan, RunContext
from cfetch.base.errors import Held, Interrupted, LocalFault
from cfetch.base.events import Listener, PlanWaiting
from cfetch.base.records import NOT_DECODED
from cfetch.base.secret import printable
from cfetch.run.directories import is_shared
from cfetch.run.fresh_links import ManifestRef
from cfetch.run.signals import listen
from cfetch.storage.files import local_fault, make_private, replace_file
from cfetch.storage.group_rights import give_files_to_group
from cfetch.storage.resume import useful_parts
from cfetch.timeline.execution import Completed, Execution, schedule, start
from cfetch.timeline.frozen_plans import forget_frozen
from cfetch.timeline.owner import sign
from cfetch.timeline.records import PlanRecord
from cfetch.timeline.states import Kind, State
from cfetch.timeline.table import Table, when_free

ORIGIN_NAME = "origin.json"


class Patience:
    """Waits for another run: for one that may be dead, and if ``waits`` for one that is alive.

    While it waits, a signal ends the wait; ``interrupted`` then, and afterwards.
    """

    def __init__(
        self, interruption: Callable[[], Interrupted | None], listener: Listener, *, waits: bool
    ) -> None:
        self.interrupted: Interrupted | None = None
        self._interruption = interruption
        self._listener = listener
        self._waits = waits
        self._announced: set[tuple[str, int]] = set()
        self._signals = ExitStack()
        self._heard: SimpleQueue[None] = SimpleQueue()  # a handler may put in the midst of get

    def pause(self, held: Held, pause_s: float = 0.0) -> None:
        """Wait for ``pause_s``. Raises Held if the run is not waited for; Interrupted."""
        if held.is_certain and not self._waits:
            raise held
        if not self._announced:
            self._signals.enter_context(listen(self._hear))
        if (held.host, held.pid) not in self._announced:
            self._announced.add((held.host, held.pid))
            self._listener(PlanWaiting(t_s=0.0, reason=_reason(held)))
        with suppress(Empty):
            if self.interrupted is None:
                self._heard.get(timeout=pause_s)
        interrupted = self._interruption() or self.interrupted
        if interrupted is not None:
            raise interrupted

    def close(self) -> None:
        """Listen no more."""
        self._signals.close()

    def _hear(self, interrupted: Interrupted) -> None:
        self.interrupted = interrupted
        self._heard.put(None)


class PlanOnTimeline:
    """Puts a plan on the timeline under its ``instant``, and starts it in a new epoch.

    ``is_scheduled``: it is there already. Else it may get another instant: that of the same plan which is
    pending there, or a new one if another run has completed that one meanwhile.
    """

    def __init__(self, instant: str, plan: EnginePlan, context: RunContext, *, is_scheduled: bool) -> None:
        self.instant = instant
        self._engine_plan = plan
        self._plan = plan.frozen
        self._context = context
        self._is_scheduled = is_scheduled

    def take(
        self,
        stack: ExitStack,
        table: Table,
        kind: Kind,
        on_lost: Callable[[str], None],
        patience: Patience,
    ) -> Execution | None:
        """Start the plan, and have its parts staged until ``stack`` ends."""
        while True:
            execution = self._start(table, kind, on_lost, patience)
            if execution is None:
                return None
            self._plan.forget_others(self._context.state / "plans" / execution.instant)
            with ExitStack() as own:
                own.callback(execution.release)
                try:
                    own.enter_context(
                        self._context.volumes.stage_parts(
                            execution.staging,
                            execution.instant,
                            execution.epoch,
                            self._context.state,
                            self._plan.digest,
                        )
                    )
                except Held as held:
                    own.close()  # the other run may be waiting for this one
                    patience.pause(held)
                else:
                    stack.push(own.pop_all())
                    return execution
            when_free(
                table, partial(self._context.volumes.refuse_same_plan, self._plan.digest), patience.pause
            )

    def _start(
        self, table: Table, kind: Kind, on_lost: Callable[[str], None], patience: Patience
    ) -> Execution | None:
        while True:
            instant = self.instant if self._is_scheduled else self.put(table, kind)
            execution = start(
                table,
                instant,
                on_lost=on_lost,
                salvage=lambda dead: useful_parts(dead.names),
                pause=patience.pause,
            )
            if not isinstance(execution, Completed):
                return execution
            if self._is_scheduled:
                return None
            self.instant = table.new_instant()  # another run was faster: see what it has left to do

    def put(self, table: Table, kind: Kind) -> str:
        """Put the plan on the timeline, with its frozen manifest beside it; return its instant."""
        roots = tuple(map(str, self._context.volumes.roots))
        where = f" {' '.join(sorted(roots))}" if is_shared(self._context.settings) else ""
        record = PlanRecord(
            kind=kind,
            fingerprint=self._plan.digest + where,
            manifest=printable(self._plan.source, 1000),
            destinations=roots,
            files=len(self._plan),
            bytes=self._plan.total_bytes,
        )
        directory = self._context.state / "plans"
        try:
            with ExitStack() as stack:
                stack.callback(self._tidy_unless_scheduled, table)
                self._lay_down(table, self.instant)  # first: a scheduled plan has its manifest
                instant = schedule(table, self.instant, record)
                if instant != self.instant:
                    self._lay_down_anew(table, instant)
        except OSError as error:
            raise local_fault(error, f"cannot keep the plan in {directory}") from None
        return instant

    def _tidy_unless_scheduled(self, table: Table) -> None:
        """Remove the frozen manifest, unless the plan is on the timeline: an error may come after that."""
        with suppress(OSError, LocalFault):
            if table.store.entry(self.instant) is None:
                forget_frozen(table, self._context.state, self.instant)

    def _lay_down_anew(self, table: Table, instant: str) -> None:
        """Save the same plan with newly signed links, unless another run has just completed it."""
        try:
            self._lay_down(table, instant)
        except (OSError, LocalFault):
            entry = table.store.entry(instant)
            if entry is not None and entry.state is not State.COMPLETED:
                raise

    def _lay_down(self, table: Table, instant: str) -> None:
        directory = self._context.state / "plans" / instant
        make_private(directory, state=self._context.state)
        sign(directory)
        self._plan.save(directory)
        self._engine_plan.forget_other_kind(directory)
        replace_file(directory / ORIGIN_NAME, msgspec.json.encode(self._context.renewal.origin))
        give_files_to_group(directory)
        if table.bucket is not None:
            table.bucket.put_directory(f"plans/{instant}", directory)
            shutil.rmtree(directory, ignore_errors=True)  # it holds signed links, and others end the plan


def _reason(held: Held) -> str:
    if not held.is_certain:
        return f"to see whether it is alive: {held}"
    if not held.pid:
        return "until cfetch volume has moved its batches"
    return f"until another run has ended: process {held.pid} on {printable(held.host)}"


def read_origin(path: Path) -> ManifestRef:
    """Read where the fresh links of a saved plan come from. Raises LocalFault."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=ManifestRef)
    except (OSError, *NOT_DECODED):
        raise LocalFault(f"cannot read {path}; schedule the manifest again") from None
