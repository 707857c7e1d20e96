"""The processes of a run: which one gets which share, and what follows when one dies.

Each process has a thread, which hands it a share, waits for the answer, and hands it the next share. If a
process dies, its thread reaps it, starts another one and gives it the rest of the share.
"""

import signal
import threading
from collections import deque
from collections.abc import Callable, Sequence
from itertools import count
from typing import NamedTuple

from cfetch.errors import CfetchError, LocalFault
from cfetch.hub.receipts import Account
from cfetch.manifest.entry import Entry
from cfetch.manifest.plan import Plan
from cfetch.processes.messages import Order
from cfetch.processes.worker import Worker
from cfetch.run.signals import HANDLED_SIGNALS
from cfetch.shares.task import RunSpec
from cfetch.straggler.knowledge import NOTHING, Knowledge, merge_knowledge

MOST_DEATHS = 4  # over one share without progress: then the share itself seems to kill its processes
TURNS = 2  # of the driver, after which it has read all receipts that were there before


class LocalShares(NamedTuple):
    """A plan's entries by share; ``sharers`` as in ``Share``."""

    plan: Plan
    members: Sequence[Sequence[int]]
    sharers: Sequence[int]

    def list_entries(self, number: int, account: Account) -> list[Entry]:
        """The entries of a share that have not ended."""
        entries = map(self.plan.entry, self.members[number])
        return [entry for entry in entries if entry.id not in account]


class Crew:
    """Implements ``Job``. ``bury_task`` gets the number of a task that is dead for certain.

    ``learned``: the processes' knowledge about hosts. ``wall`` is in seconds since 1970.
    """

    def __init__(
        self,
        shares: LocalShares,
        spec: RunSpec,
        account: Account,
        bury_task: Callable[[int], None],
        *,
        processes: int,
        wall: Callable[[], float],
    ) -> None:
        self._shares = shares
        self._spec = spec
        self._account = account
        self._bury_task = bury_task
        self._wall = wall
        self._left = deque(range(len(shares.members)))
        self._tasks = count(1)
        self._changed = threading.Condition()
        self._turns = 0
        self._is_stopping = False
        self._workers: dict[int, Worker] = {}  # by the thread that holds it
        self._threads = [
            threading.Thread(target=self._work, name=f"process {n}", daemon=True) for n in range(processes)
        ]
        self._working = processes
        self.learned = NOTHING
        self.failure: BaseException | None = None

    def start(self) -> None:
        """Begin; called once."""
        for thread in self._threads:
            thread.start()

    def wait(self, timeout_s: float) -> bool:
        """Implements ``Job.wait``."""
        with self._changed:
            self._turns += 1
            self._changed.notify_all()
            self._changed.wait_for(lambda: not self._working, timeout_s)
            return not self._working

    def take_notes(self) -> list[str]:
        """Implements ``Job.take_notes``: there are none."""
        return []

    def stop(self) -> None:
        """Hand out no more shares."""
        with self._changed:
            self._is_stopping = True
            self._changed.notify_all()

    def cancel(self) -> None:
        """Kill all processes, and wait for the ends of their threads."""
        self.stop()
        with self._changed:
            for worker in self._workers.values():
                worker.kill()
        for thread in self._threads:
            thread.join()

    def _work(self) -> None:
        """Hold one process after the other, until no share is left."""
        signal.pthread_sigmask(signal.SIG_BLOCK, HANDLED_SIGNALS)  # a child inherits this until it is ready
        try:
            while (share := self._take_share()) is not None:
                self._bring(share)
        except BaseException as error:  # noqa: BLE001 - the driver raises it
            self._fail(error)
        finally:
            self._let_go()
            with self._changed:
                self._working -= 1
                self._changed.notify_all()

    def _take_share(self) -> int | None:
        with self._changed:
            return self._left.popleft() if self._left and not self._is_stopping else None

    def _bring(self, share: int) -> None:
        """Let a share be brought, by one process after the other if they die."""
        deaths, shortest = 0, len(self._shares.members[share])
        while (worker := self._hold_worker()) is not None:
            entries = self._shares.list_entries(share, self._account)
            deaths = 0 if len(entries) < shortest else deaths
            shortest = len(entries)
            task = next(self._tasks)
            order = Order(share=share, task=task, sharers=self._shares.sharers[share], entries=entries)
            answer = worker.bring(order)
            if answer is not None:
                if answer.fault is not None:
                    self._fail(LocalFault(answer.fault))
                self._learn(answer.learned)
                return
            deaths += 1
            self._bury_worker(task, deaths)

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
        """Wait for the end of this thread's process. Returns its exit code."""
        with self._changed:
            worker = self._workers.pop(threading.get_ident(), None)
        return None if worker is None else worker.close()

    def _bury_worker(self, task: int, deaths: int) -> None:
        """Reap the process, and keep all that it has left for the next one. Raises CfetchError."""
        code = self._let_go()
        assert code is not None
        if code == CfetchError.exit_code:
            raise CfetchError("a process of this run met a bug in cfetch; its places are above")
        if deaths > MOST_DEATHS:
            how = f"killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
            raise LocalFault(
                f"{deaths} processes of this run, one after the other, were {how} over the same files; if "
                "memory is short, give a smaller --processes. Then run the same command again"
            )
        self._bury_task(task)
        with self._changed:
            end = self._turns + TURNS
            self._changed.wait_for(lambda: self._turns >= end or self._is_stopping)

    def _learn(self, learned: Knowledge) -> None:
        with self._changed:
            self.learned = merge_knowledge(self.learned, learned, self._wall())

    def _fail(self, error: BaseException) -> None:
        with self._changed:
            self.failure = self.failure or error
            self._is_stopping = True
            self._changed.notify_all()
