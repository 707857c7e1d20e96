"""Executes a plan under RFC-79's guard: schedule, start, commit, release, fail.

Start, under the table lock (the RFC's steps, but *completed* is looked at first)::

    find the instant              completed: its record is the answer, and nothing is started
    look at its heartbeat         live: Held, which names the owner
    removable, and inflight or    UsageError: it can only be rolled back
      named by a pending rollback
    claim it in a new epoch       one rename, which succeeds for one only, even if the lock was lost
    first heartbeat               exists before the lock is given back

and outside it: roll back what dead epochs have left (an unfinished rollback is continued), make the epoch's
own directory, move to inflight. That last move fails if another run has claimed the plan meanwhile, and
nothing has been written by then. Commit is a rename from a name that holds the epoch, so a stopped owner that
wakes up after its successor's claim cannot commit; ``attempts`` keeps it from publishing.
"""

from collections.abc import Callable
from contextlib import ExitStack, suppress
from typing import NamedTuple

import msgspec

from cfetch.base.errors import Held, LocalFault, NewerRecord, UsageError
from cfetch.timeline.attempts import ATTEMPTS, Salvage
from cfetch.timeline.heartbeat import OwnerVerdict, Pulse
from cfetch.timeline.records import PlanRecord, RollbackRecord
from cfetch.timeline.rules import InstantView, Start, may_start
from cfetch.timeline.states import Action, InstantFile, Kind, State, Transition
from cfetch.timeline.table import Beating, Pause, Table, existing, find, on_this_machine, when_free

OnLost = Callable[[str], None]
"""Told once, from another thread, why the execution has lost its plan: stop all work at once."""


TAKEN_OVER = "another run has taken it over"


class Completed(NamedTuple):
    """A plan that was completed before. ``record`` says by which owner; None if it cannot be read."""

    instant: str
    record: PlanRecord | None


class _Claim(NamedTuple):
    entry: InstantFile
    record: PlanRecord
    pulse: Pulse
    rollbacks: list[tuple[InstantFile, RollbackRecord]]
    gone_epoch: int | None


def schedule(table: Table, instant: str, record: PlanRecord) -> str:
    """Put a plan on the timeline, unless one with its fingerprint and kind is pending there.

    Returns the instant to start: ``instant``, or that of the plan that was there before. Raises LocalFault.
    """
    pending, read = _find_pending(table, record, set())
    if pending is not None:
        return pending
    with on_this_machine("cannot schedule the plan"), table.lock.hold():
        pending, _ = _find_pending(table, record, read)  # only new instants, so that the lock is held briefly
        if pending is not None:
            return pending
        table.store.put(InstantFile(instant, Action.DOWNLOAD, State.REQUESTED), record)
    return instant


def _find_pending(table: Table, record: PlanRecord, passed: set[str]) -> tuple[str | None, set[str]]:
    """Find a pending plan with the same fingerprint; also the instants that were read and do not match."""
    seen = set(passed)
    with on_this_machine("cannot read the timeline"), table.read_once():
        entries = table.store.entries()
        for entry in entries:
            is_pending = entry.action is Action.DOWNLOAD and entry.state is not State.COMPLETED
            if not is_pending or entry.instant in passed:
                continue
            with suppress(FileNotFoundError):  # it has changed its state: look at it again under the lock
                other = table.store.read_plan(entry)
                seen.add(entry.instant)
                if other is None or (other.kind, other.fingerprint) != (record.kind, record.fingerprint):
                    continue
                if record.kind is Kind.IMMUTABLE or not table.rollbacks_of(entry.instant, entries):
                    return entry.instant, seen
    return None, seen


def start(
    table: Table,
    instant: str,
    *,
    on_lost: OnLost,
    salvage: Salvage | None = None,
    pause: Pause | None = None,
) -> "Execution | Completed":
    """Claim a plan for this process, clear up after dead attempts, and begin.

    A heartbeat that looks dead without proof is watched until its count changes, or has stood still for as
    long as it states; ``pause`` is called each time, and decides whether to wait for a live run too.

    Raises:
        Held: another live run has the plan.
        UsageError: there is no such plan, or it can only be rolled back.
        LocalFault: a file operation failed on this machine.
    """
    claim = when_free(table, lambda: _claim(table, instant), pause)
    if isinstance(claim, Completed):
        return claim
    execution = Execution(table, claim, on_lost)
    try:
        execution._clear_up(salvage, needs_all=False)  # one of several volumes may have become read-only
        execution._begin()
    except BaseException:
        execution.release()
        raise
    return execution


def roll_back(table: Table, instant: str, *, remove: bool = False) -> None:
    """Undo a plan's dead attempts and keep nothing: an immutable plan stays requested, a removable one goes.

    ``remove``: an immutable plan leaves the timeline too, as nobody wants it any more.

    Raises:
        Held: a live run has the plan.
        UsageError: there is no such plan, or it is completed.
        LocalFault: a file operation failed on this machine.
    """
    with on_this_machine("cannot read the timeline"):
        entry = existing(table, table.store.entries(), instant)
        record = None
        with suppress(FileNotFoundError):
            record = table.store.read_plan(entry)
    if record is not None and record.kind is Kind.REMOVABLE and entry.state is not State.COMPLETED:
        from cfetch.timeline.rollback import condemn, execute  # few plans are removable

        rollback = condemn(table, instant)
        if rollback is not None:
            execute(table, rollback.instant)
        return
    claim = when_free(table, lambda: _claim(table, instant))
    if isinstance(claim, Completed):
        raise UsageError(f"plan {instant} is completed; there is nothing to roll back")
    execution = Execution(table, claim, lambda _: None)
    try:
        execution._clear_up(None, needs_all=True)
        table.attempts.unmark(instant)
        if remove:
            execution.abandon()
    finally:
        execution.release()


def _claim(table: Table, instant: str) -> _Claim | Completed:
    with on_this_machine(f"cannot start plan {instant}"), table.lock.hold() as now_s, table.read_once():
        entries = table.store.entries()
        entry = existing(table, entries, instant)
        record = table.store.read_plan(entry)
        verdict = table.verdict(entry, now_s)
        pending = table.rollbacks_of(instant, entries)
        kind = record.kind if record is not None else None
        view = InstantView(
            entry.action, kind, entry.state, verdict.is_live, bool(pending), table.age_s(entry)
        )
        answer = may_start(view)
        if answer is Start.COMPLETED:
            return Completed(instant, record)
        if answer is not Start.YES or record is None:
            raise _refusal(table, entry, answer, verdict)
        claimed = table.store.move(entry, Transition.CLAIM, record.kind)
        pulse = table.first_beat(claimed)
        left_something = entry.state is State.INFLIGHT or table.attempts.exist(instant, claimed.epoch)
        if left_something and not pending:
            from cfetch.timeline.rollback import schedule_rollback  # only what a dead run has left

            pending = [schedule_rollback(table, instant, record.kind)]
    gone_epoch = verdict.beat.epoch if verdict.is_gone and verdict.beat is not None else None
    return _Claim(claimed, record, pulse, pending, gone_epoch)


def _refusal(table: Table, entry: InstantFile, answer: Start, verdict: OwnerVerdict) -> Held | UsageError:
    if answer is Start.HELD:
        return table.make_held_error(entry.instant, verdict)
    if answer is Start.ONLY_ROLLBACK:
        return UsageError(
            f"plan {entry.instant} is removable and its only attempt is over; `cfetch plan rollback "
            f"{entry.instant}` removes it, then schedule it anew"
        )
    return UsageError(f"the record of plan {entry.instant} cannot be read; move away timeline/{entry.name}")


class Execution:
    """A plan in this process's hands, until ``commit``, ``release`` or ``fail``. Made by ``start``."""

    def __init__(self, table: Table, claim: _Claim, on_lost: OnLost) -> None:
        self._table = table
        self._entry, self.record, self._pulse, self._rollbacks, self._gone_epoch = claim
        self._on_lost = on_lost
        self._beating: Beating = table.keep_beating(self._pulse, on_lost)
        self._looked_s = table.node.monotonic()  # when the timeline has last shown the plan to be ours
        self._commit_fault: LocalFault | None = None

    @property
    def instant(self) -> str:
        """The plan's instant."""
        return self._entry.instant

    @property
    def epoch(self) -> int:
        """The fencing number, from 1."""
        return self._entry.epoch

    @property
    def run_id(self) -> str:
        """The unique name of this execution."""
        return f"{self.instant}.{self.epoch}"

    @property
    def staging(self) -> str:
        """The directory of the parts, below each volume's state directory; it exists already."""
        return f"{ATTEMPTS}/{self.instant}/{self.epoch}"

    def check(self) -> None:
        """Raises Held or LocalFault if the plan is not this execution's any more; touches no file."""
        lost = self._pulse.lost
        if lost is not None:
            raise self._explain_loss(lost)

    def confirm(self) -> None:
        """Look whether the plan is still this execution's, and claim it again if only its heartbeat was lost.

        A run that stood still, as on a laptop that slept, has lost its heartbeat and not its plan, unless
        another run has claimed the plan meanwhile. That one holds the table lock while it looks at the
        heartbeat, so it sees the new one, or has changed the entry before.

        Raises:
            Held: another run has claimed the plan.
            LocalFault: the timeline cannot be read.
        """
        table = self._table
        began_s = table.node.monotonic()
        if self._pulse.lost is None and began_s - self._looked_s < table.look_every_s:
            return
        with on_this_machine(f"cannot look at plan {self.instant}"), ExitStack() as stack:
            stood_still = self._pulse.lost is not None
            if stood_still:
                stack.enter_context(table.lock.hold())
            is_mine = find(table.store.entries(), self.instant) == self._entry
            if stood_still and is_mine:
                self._pulse = table.first_beat(self._entry)
                self._beating = table.keep_beating(self._pulse, self._on_lost)
        if not is_mine:
            raise self._explain_loss(TAKEN_OVER)
        self._looked_s = began_s

    def commit(self, *, files: int, size_bytes: int) -> None:
        """Complete the plan, whose files are all published and durable. After this the execution is over.

        Raises:
            Held: another run has taken the plan over.
            LocalFault: the heartbeat was lost, or the disk failed; the plan stays pending, unless the disk
                failed after the rename.
        """
        table = self._table
        completion = table.completion(self.epoch, files=files, size_bytes=size_bytes)
        done: InstantFile | None = None
        try:
            with on_this_machine(f"cannot complete plan {self.instant}"), table.lock.hold():
                self.check()
                done = self._complete()
                with suppress(OSError):  # the plan is completed anyway; the record is only for people
                    table.store.enrich(done, msgspec.structs.replace(self.record, completion=completion))
        except FileNotFoundError:
            raise self._explain_loss(TAKEN_OVER) from None
        except LocalFault:
            if done is None:
                raise
            # Only the lock could not be removed. Other runs break it when this process has ended.
        self._beating.stop()
        self._pulse.remove()
        self._tidy_up()

    def _complete(self) -> InstantFile:
        """Rename the plan to completed. If the disk fails, keep the fault: the rename may have been made."""
        try:
            with on_this_machine(f"cannot complete plan {self.instant}"):
                return self._table.store.move(self._entry, Transition.COMMIT, self.record.kind)
        except LocalFault as fault:
            self._commit_fault = fault
            raise

    def abandon(self) -> None:
        """Take the plan off the timeline before it has begun. Raises Held, LocalFault."""
        try:
            with on_this_machine(f"cannot remove plan {self.instant}"), self._table.lock.hold():
                self.check()
                self._table.store.move(self._entry, Transition.ABANDON, self.record.kind)
        except FileNotFoundError:
            raise self._explain_loss(TAKEN_OVER) from None
        self._beating.stop()
        self._pulse.remove()

    def release(self) -> None:
        """Give the plan back; any run may start it at once, as nothing of this process writes any more."""
        self._beating.stop()
        self._pulse.end(released=True)
        self._tidy_up()

    def fail(self) -> None:
        """Give up while parts of this execution may still write: the heartbeat is left to expire."""
        self._beating.stop()
        self._pulse.end()

    def _clear_up(self, salvage: Salvage | None, *, needs_all: bool) -> None:
        """Roll back what dead epochs have left."""
        if not self._rollbacks:
            return
        from cfetch.timeline.rollback import finish  # only what a dead run has left

        try:
            for rollback in self._rollbacks:
                with on_this_machine(f"cannot roll back what a dead run of plan {self.instant} has left"):
                    finish(
                        self._table,
                        rollback,
                        below=self.epoch,
                        salvage=salvage,
                        gone_epoch=self._gone_epoch,
                        needs_all=needs_all,
                    )
        except FileNotFoundError:
            raise self._explain_loss(TAKEN_OVER) from None
        self._rollbacks = []

    def _begin(self) -> None:
        """Move to inflight; from then on files may be written."""
        table = self._table
        try:
            with on_this_machine(f"cannot begin plan {self.instant}"):
                table.attempts.make(self.instant, self.epoch)
                self._entry = table.store.move(self._entry, Transition.WORK, self.record.kind)
        except FileNotFoundError:
            raise self._explain_loss(TAKEN_OVER) from None

    def _tidy_up(self) -> None:
        with suppress(OSError):
            self._table.attempts.remove(self.instant, self.epoch)

    def _count_completed(self, entry: InstantFile) -> int | None:
        """Count the files in place, by the record of the run that has completed the plan."""
        with suppress(NewerRecord):
            record = self._table.store.read_plan(entry)
            if record is not None and record.completion is not None:
                return record.completion.files
        return None

    def _explain_loss(self, why: str) -> Held | LocalFault:
        """End this execution, and find out who has the plan now. Returns the error to raise."""
        self.fail()
        table = self._table
        with suppress(OSError):
            entries = table.store.entries()
            if not entries:  # a rollback would stand there
                return LocalFault(
                    f"something removed the timeline with plan {self.instant} while cfetch was running; run "
                    "the same command again"
                )
            entry = find(entries, self.instant)
            if self._commit_fault and entry is not None and entry.state is State.COMPLETED:
                return self._commit_fault  # the rename was made and could not be flushed
            if entry is None or entry.state is State.COMPLETED:
                end = "rolled back" if entry is None else "completed"
                text = f"plan {self.instant} was {end} by another run while this one stood still"
                return Held(text, in_place=None if entry is None else self._count_completed(entry))
            if entry.epoch > self.epoch:
                beat = table.verdict(entry, table.node.wall()).beat
                by = beat.owner.shown if beat else "another run"
                return Held(
                    f"plan {self.instant} was taken over by {by} while this one stood still",
                    host=beat.owner.host if beat else "",
                    pid=beat.owner.pid if beat else 0,
                )
        return LocalFault(f"plan {self.instant} was given up: {why}; run the same command again")
