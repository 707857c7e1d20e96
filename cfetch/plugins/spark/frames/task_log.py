"""What can be seen of a ``download``: lines in the logs of executors, and totals on the driver.

Spark's pages count the rows that come out of a task, and a task gives none before its piece is over, which
may take an hour. So a task writes a line a minute to its executor's log, and names files that have failed.
The totals come with each task that ends, by an accumulator: the driver logs them as ``cfetch.spark``.
"""

import logging
import os
import sys
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from cfetch.base.events import EntryFinished, Event, RunNoted
from cfetch.base.secret import printable
from cfetch.plugins.spark.job import name_executor
from cfetch.show.counts import Counts
from cfetch.show.format import plural, size

if TYPE_CHECKING:
    from pyspark import Accumulator, SparkContext

EVERY_S = 60.0
MOST_NAMED = 5  # failed files of a piece, whose rows name all of them; kinds of notes
MOST_KINDS = 100  # of notes that are told apart, as in a run
MOST_HOSTS = 1000  # that are told apart
LOG = logging.getLogger("cfetch.spark")


@dataclass
class TaskTally:
    """Totals of tasks that have ended. ``mitigations``: attempts that were cancelled as stragglers.

    ``notes``: of how many files something is to be known, by what it is, and the first note of it.
    """

    tasks: int = 0
    files: int = 0
    failed: int = 0
    skipped: int = 0
    size_bytes: int = 0
    mitigations: int = 0
    hosts: set[str] = field(default_factory=set)
    notes: dict[str, tuple[int, str]] = field(default_factory=dict)

    def add(self, other: "TaskTally") -> None:
        """Add what another task has done."""
        for name in ("tasks", "files", "failed", "skipped", "size_bytes", "mitigations"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        if len(self.hosts) < MOST_HOSTS:
            self.hosts |= other.hosts
        for kind, (files, note) in other.notes.items():
            self.take_note(kind, files, note)

    def take_note(self, kind: str, files: int, note: str) -> None:
        """Count a note about files; ``note`` names one of them."""
        if kind in self.notes or len(self.notes) < MOST_KINDS:
            before, first = self.notes.get(kind, (0, note))
            self.notes[kind] = before + files, first

    def __str__(self) -> str:
        words = [f"{plural(self.files, 'file')} in place ({size(self.size_bytes)} fetched)"]
        words += [f"{self.skipped} of them before"] if self.skipped else []
        words += [f"{self.failed} failed"] if self.failed else []
        words += [plural(self.mitigations, "straggler") + " cancelled"] if self.mitigations else []
        said = [f"{', '.join(words)}, from {plural(len(self.hosts), 'host')}"]
        for files, note in list(self.notes.values())[:MOST_NAMED]:
            said += [note, f"so in all for {files} files"] if files > 1 else [note]
        left = len(self.notes) - MOST_NAMED
        return "; ".join(said + ([f"{left} further kinds of notes"] if left > 0 else []))


class TaskLog:
    """Listens to the pool of a task, on an executor; its lines go to standard error, which Spark keeps."""

    def __init__(self) -> None:
        self.tally = TaskTally()
        self._counts = Counts()
        self._next_s = time.monotonic() + EVERY_S
        self._executor = name_executor()

    def __call__(self, event: Event) -> None:
        """Count a file that has ended, name it if it failed, and say each minute how far the task is."""
        self._counts.note(event)
        if isinstance(event, EntryFinished):
            record = event.record
            if len(self.tally.hosts) < MOST_HOSTS:
                self.tally.hosts.add(record.host)
            if record.status == "failed":
                if self._counts.failed <= MOST_NAMED:
                    self._say(f"{printable(record.path)} from {record.host} failed: {record.error}")
                elif self._counts.failed == MOST_NAMED + 1:
                    self._say("further failed files are named in the rows only")
        elif isinstance(event, RunNoted) and event.kind:
            self.tally.take_note(event.kind, event.files, event.note)
            self._say(event.note)  # Spark Connect has no totals
        if time.monotonic() >= self._next_s:
            self._next_s = time.monotonic() + EVERY_S
            self._say(str(self.sum_up()))

    def sum_up(self) -> TaskTally:
        """The totals of this task."""
        tally, counts = self.tally, self._counts
        tally.files, tally.failed, tally.skipped = counts.in_place, counts.failed, counts.skipped
        tally.size_bytes, tally.mitigations = counts.fetched_bytes, counts.stragglers
        return tally

    def _say(self, text: str) -> None:
        sys.stderr.write(f"cfetch on {self._executor}: {text}\n")  # in one call: workers share the stream
        sys.stderr.flush()


class _Adder:
    """Adds up on the driver, as ``AccumulatorParam`` says, and logs what is new.

    ``tasks``: of one evaluation; None: it is not known. A task that is retried counts once, as Spark drops
    the updates of failed attempts.
    """

    def __init__(self, tasks: int | None) -> None:
        self._tasks = tasks
        self._driver = os.getpid()
        self._logged_s = time.monotonic()
        self._query = TaskTally()

    def zero(self, _: TaskTally) -> TaskTally:
        """Nothing yet."""
        return TaskTally()

    def addInPlace(self, value: TaskTally, other: TaskTally) -> TaskTally:  # noqa: N802 - Spark's name
        """Add, in a task as on the driver."""
        value.add(other)
        if os.getpid() == self._driver:
            self._query.add(other)
            if other.tasks:
                self._log()
        return value

    def _log(self) -> None:
        done, now_s = self._query, time.monotonic()
        if done.tasks == self._tasks:
            level = logging.WARNING if done.failed or done.notes else logging.INFO
            LOG.log(level, "download is over: %s", done)
            self._query = TaskTally()
        elif now_s - self._logged_s >= EVERY_S:
            of = "" if self._tasks is None else f" of {self._tasks}"
            LOG.info("%d%s tasks are over: %s", done.tasks, of, done)
        else:
            return
        self._logged_s = now_s


def make_accumulator(context: "SparkContext | None", tasks: int | None) -> "Accumulator[TaskTally] | None":
    """Where tasks leave their totals; None with Connect, which has no accumulators."""
    if context is None:
        return None
    adder: Any = _Adder(tasks)
    return context.accumulator(TaskTally(), adder)
