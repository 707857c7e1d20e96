"""Shows the runs of a bench live, from the metrics that they write, so that a measured process does no more.

The metrics have no attempts under way: an attempt is shown when its file has ended.
"""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from cfetch.base.events import (
    BaselineView,
    EntryFinished,
    Listener,
    Progress,
    RunExplained,
    RunFinished,
    RunStarted,
)
from cfetch.base.records import EndRecord, FileRecord
from cfetch.show.metrics import RunHeader
from cfetch.show.metrics_reading import Document, decode_document
from cfetch.show.summary import Tally

LOOK_EVERY_S = 0.5  # the file gets new lines once a second


@contextmanager
def watch_metrics(path: Path, listener: Listener) -> Iterator[None]:
    """Emit the run that another process writes to ``path`` during this block."""
    replay = _Replay(path, listener)
    over = threading.Event()

    def follow() -> None:
        while not over.wait(LOOK_EVERY_S):
            replay.go_on()

    thread = threading.Thread(target=follow, name="cfetch-bench-watch", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
    replay.go_on()
    replay.end()


class _Replay:
    """The events of a run whose metrics file grows."""

    def __init__(self, path: Path, listener: Listener) -> None:
        self._path, self._listener = path, listener
        self._read_bytes = 0
        self._tally = Tally()
        self._end: EndRecord | None = None
        self._since_s: float | None = None

    def go_on(self) -> None:
        """Emit the new lines of the file, and the run's numbers."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._read_bytes)
                new = file.read()
        except FileNotFoundError:
            return  # the process is only starting
        whole = new[: new.rfind(b"\n") + 1]
        self._read_bytes += len(whole)
        for line in whole.splitlines():
            self._emit(decode_document(line))
        if self._since_s is not None:
            self._listener(self._make_progress(time.monotonic() - self._since_s))

    def end(self) -> None:
        """Emit the end of the run, if its process has told it."""
        if self._end is not None:
            summary = self._tally.summary(self._end.t_s, end=self._end)
            self._listener(RunFinished(t_s=self._end.t_s, summary=summary))

    def _emit(self, document: Document) -> None:
        event: RunStarted | EntryFinished | RunExplained
        if isinstance(document, RunHeader):
            self._since_s = time.monotonic()
            event = _start(document)
        elif isinstance(document, FileRecord):
            event = EntryFinished(t_s=document.end_s, record=document)
        elif isinstance(document, EndRecord):
            self._end = document
            event = RunExplained(t_s=document.t_s, record=document)
        else:
            return  # the events of a run cannot be made from their records
        self._tally(event)
        self._listener(event)

    def _make_progress(self, now_s: float) -> Progress:
        counts = self._tally.counts
        return Progress(
            t_s=now_s,
            done=counts.done,
            skipped=counts.skipped,
            failed=counts.failed,
            retries=counts.retries,
            bytes_done=counts.in_place_bytes,
            bytes_active=0,
            bytes_wasted=counts.wasted_bytes,
            active=[],
            waiting=0,
            baseline=BaselineView(median_bps=None, finished=counts.done, required=0),
            stragglers=counts.stragglers,
            sequential=False,
        )


def _start(header: RunHeader) -> RunStarted:
    fields = msgspec.structs.asdict(header)
    del fields["schema"]
    return RunStarted(t_s=0.0, **fields)
