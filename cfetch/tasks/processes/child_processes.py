"""The processes of a run: which one gets which share, and what follows when one dies.

Each process has a thread, which hands it a share, waits for the answer, and hands it the next share. If a
process dies, or gives no sign of life for a minute, its thread kills and reaps it, starts another one and
gives it the rest of the share. A process that stands still may lose its share sooner, to one that is idle.
"""

import signal
import sys
import threading
from collections.abc import Callable

from cfetch.base.errors import CfetchError, LocalFault, VolumeFault
from cfetch.base.events import Event, VolumeView
from cfetch.run.signals import HANDLED_SIGNALS
from cfetch.straggler.knowledge import NOTHING, Knowledge, merge_knowledge
from cfetch.tasks.processes.worker import SILENT_S, Worker
from cfetch.tasks.shares.dealing import MOST_DEATHS, ShareGiver, ShareSource
from cfetch.tasks.shares.work import Order, RunSpec, Turn

LOOK_S = 1.0  # between looks for a share that another task has lost


class ChildProcesses(ShareGiver):
    """Implements ``Job``. ``bury_task`` gets the number of a task that is dead for certain.

    ``source``: where shares come from. ``name``: of this machine for people, if there are several.

    ``learned``: the processes' knowledge about hosts. ``wall`` is in seconds since 1970.
    """

    def __init__(
        self,
        spec: RunSpec,
        bury_task: Callable[[int], None],
        *,
        processes: int,
        wall: Callable[[], float],
        source: ShareSource,
        name: str = "",
    ) -> None:
        super().__init__(source)
        self._spec = spec
        self._bury_task = bury_task
        self._wall = wall
        self._name = name
        self._ended = 0  # turns that processes have ended
        self._workers: dict[int, Worker] = {}  # by the thread that holds it
        self._at_work = {
            threading.Thread(target=self._work, name=f"process {n}", daemon=True) for n in range(processes)
        }
        self._notes: list[str] = []
        self.learned = NOTHING

    def start(self) -> None:
        """Begin; called once."""
        for thread in tuple(self._at_work):
            thread.start()

    def wait(self, timeout_s: float) -> bool:
        """Implements ``Job.wait``."""
        self.note_driver_turn()
        with self._changed:
            self._changed.wait_for(lambda: not self._at_work, timeout_s)
            return not self._at_work

    def take_notes(self) -> list[str | Event]:
        """Implements ``Job.take_notes``: processes that were given up, and what became of batches."""
        with self._changed:
            notes, self._notes = self._notes, []
        return [*notes, *self._source.take_events()]

    def views(self) -> list[VolumeView]:
        """Implements ``Job.views``."""
        return self._source.views()

    def cancel(self) -> None:
        """Kill all processes, and wait for the ends of their threads."""
        self.stop()
        with self._changed:
            for worker in self._workers.values():
                worker.kill()
            left = tuple(self._at_work)
        for thread in left:
            thread.join()

    def _work(self) -> None:
        """Hold one process after the other, until no share is left."""
        signal.pthread_sigmask(signal.SIG_BLOCK, HANDLED_SIGNALS)  # a child inherits this until it is ready
        try:
            while (turn := self._take_turn()) is not None:
                self._bring(turn)
                self._note_turn()
        except BaseException as error:  # noqa: BLE001 - the driver raises it
            self.fail(error)
        try:
            self._let_go()
        except BaseException as error:  # noqa: BLE001 - the same
            self.fail(error)
        finally:
            with self._changed:
                self._at_work.discard(threading.current_thread())
                self._changed.notify_all()

    def _take_turn(self) -> Turn | None:
        """Take the next share, perhaps after another task has lost it; None: nothing is left."""
        while not self._is_stopping:
            if (turn := self._source.take()) is not None:
                return turn
            if self._source.is_over():
                if self._source.fault is not None:
                    self.fail(self._source.fault)
                self._note_turn()
                return None
            self._wait_for_end()
        return None

    def _note_turn(self) -> None:
        """Let idle processes look again: a turn has ended, or all of them."""
        with self._changed:
            self._ended += 1
            self._changed.notify_all()

    def _wait_for_end(self) -> None:
        """Wait until a process has ended a turn, but not for long."""
        with self._changed:
            ended = self._ended
            if not self._source.is_over():
                self._changed.wait_for(lambda: self._is_stopping or self._ended != ended, LOOK_S)

    def _bring(self, turn: Turn | None) -> None:
        """Let a share be brought, by one process after the other if they die."""
        deaths, shortest = 0, sys.maxsize
        while turn is not None and (worker := self._hold_worker()) is not None:
            share = self._source.fill(turn)
            deaths = 0 if len(share.entries) < shortest else deaths
            shortest = len(share.entries)
            order = Order(share, turn._replace(executor=self._name))
            answer = worker.bring(order, *self._watch(turn))
            if answer is not None:
                if answer.fault is None:
                    self._source.end(turn)
                elif self._source.is_mine(turn):
                    self._give_up(turn, answer.fault.restore())
                self._learn(answer.learned)
                return
            deaths += 1
            self._bury_worker(worker, turn.task, deaths)
            turn = None if self._is_stopping else self._source.take_again(turn)

    def _give_up(self, turn: Turn, fault: LocalFault) -> None:
        """Let other volumes take what one refuses; if there is none, as any other fault, it ends the run."""
        if isinstance(fault, VolumeFault):
            self.wait_for_receipts()
            if self._source.move(turn, fault):
                return
        self.fail(fault)

    def _watch(self, turn: Turn) -> tuple[Callable[[], None], Callable[[], bool]]:
        """What to do at a sign of life, and whether a process that stands still is not needed any more."""
        source = self._source
        return lambda: source.renew(turn), lambda: not source.is_mine(turn)

    def _hold_worker(self) -> Worker | None:
        """The process of this thread, started if there is none; None: the run is stopping."""
        thread = threading.get_ident()
        with self._changed:
            if self._is_stopping:
                return None
            if thread not in self._workers:
                self._workers[thread] = Worker(self._spec)
            return self._workers[thread]

    def _let_go(self) -> int | None:
        """Wait for the end of this thread's process. Returns its exit code; None: it cannot end now."""
        with self._changed:
            worker = self._workers.pop(threading.get_ident(), None)
        return None if worker is None else worker.close()

    def _bury_worker(self, worker: Worker, task: int, deaths: int) -> None:
        """Reap the process, and keep all that it has left for the next one. Raises CfetchError."""
        code = self._let_go()
        if code == CfetchError.exit_code:
            raise CfetchError("a process of this run met a bug in cfetch; its places are above")
        if deaths > MOST_DEATHS:
            raise LocalFault(_explain_deaths(deaths, code, is_silent=worker.is_silent))
        if worker.is_silent and not self._is_stopping:
            self._note(
                f"process {worker.pid} of this run gave no sign of life for {worker.silent_s:.0f} s and was "
                "killed; another process brings the rest of its files"
            )
        if code is not None:  # otherwise its last write may still come: what it has left is fetched again
            self._bury_task(task)
        self.wait_for_receipts()

    def _note(self, note: str) -> None:
        with self._changed:
            self._notes.append(note)

    def _learn(self, learned: Knowledge) -> None:
        with self._changed:
            self.learned = merge_knowledge(self.learned, learned, self._wall())


def _explain_deaths(deaths: int, code: int | None, *, is_silent: bool) -> str:
    """Say how processes ended one after the other, and what to do about it; ``code``: of the last one."""
    advice = "if memory is short, give a smaller --processes"
    if is_silent or code is None:
        how = f"killed, as they gave no sign of life for {SILENT_S:g} s each,"
        advice = "see whether the disk of the destination answers"
    else:
        how = f"killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
    return (
        f"{deaths} processes of this run, one after the other, were {how} over the same files; {advice}. "
        "Then run the same command again"
    )
