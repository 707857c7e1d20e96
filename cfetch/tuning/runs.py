"""Recorded runs on their way through the replay: read from metrics files, made ready, and scored.

`replay_runs` does it, in this process or in a task of Spark (``cfetch.spark.replay_job``). An item is text
that ``load`` turns into recorded runs: usually the path of a metrics file.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import numpy as np

from cfetch.config.settings import Settings
from cfetch.records import FileRecord
from cfetch.report.metrics import Run, RunHeader, read_metrics
from cfetch.tuning.choice import RunResult
from cfetch.tuning.history import History, build_history
from cfetch.tuning.replay import Censored, Group, Setting, prepare_group, replay

HOST_FILES = 100  # a host with fewer files in a run says nothing about tails
GROUP_FILES = 400_000  # replayed side by side: 50 MB of columns
MOST_GROUPS = 32  # more gain nothing: numpy's calls are no longer what takes the time
REPORT_EVERY = 20_000  # records between two reports of progress


class RecordedRun(NamedTuple):
    """One run, or one host's part of it (``host``), before it is made ready."""

    source: str
    instant: str
    host: str | None
    history: History
    workers: int
    tick_s: float
    own: Setting


Load = Callable[[str], Iterable[RecordedRun]]


def read_recorded_runs(
    path: str, on_records: Callable[[int], None] = lambda _: None
) -> Iterator[RecordedRun]:
    """The runs of a metrics file, each as a whole and then by host; ``on_records`` gets counts of records.

    Raises:
        UsageError: see ``read_metrics``.
    """
    for run in read_metrics([Path(path)]):
        yield from _split_by_host(run, on_records)


def _split_by_host(run: Run, on_records: Callable[[int], None]) -> Iterator[RecordedRun]:
    had = run.header.settings
    stall_timeout_s = _read_number(had, "stall_timeout")
    columns, hosts = build_history(_count_records(run.files, on_records), stall_timeout_s=stall_timeout_s)
    mitigated = had.get("mitigation", True) is True
    own = Setting(
        _read_number(had, "multiplier"),
        _read_number(had, "quantile"),
        _read_number(had, "padding") if mitigated else float("inf"),
    )
    run_of = partial(
        RecordedRun, str(run.source), run.header.instant, workers=_count_workers(run.header),
        tick_s=_read_number(had, "check_interval"), own=own,
    )  # fmt: skip
    yield run_of(host=None, history=columns)
    if len(hosts) > 1:
        counts = np.bincount(columns.host.astype(int), minlength=len(hosts))
        for number in np.nonzero(counts >= HOST_FILES)[0].tolist():
            yield run_of(host=hosts[number], history=columns.select(columns.host == number))


def _count_workers(header: RunHeader) -> int:
    return max(0, header.concurrency)


def _read_number(had: dict[str, object], name: str) -> float:
    """A setting of the run's header; the default where the header has no usable value."""
    value = had.get(name)
    usable = isinstance(value, int | float) and 0 < value < float("inf")
    default: float = getattr(Settings(), name)
    return float(value) if usable or (name == "padding" and value == 0) else default  # type: ignore[arg-type]


def _count_records(records: Iterable[FileRecord], on_records: Callable[[int], None]) -> Iterator[FileRecord]:
    number = 0
    for number, record in enumerate(records, start=1):
        yield record
        if number % REPORT_EVERY == 0:
            on_records(REPORT_EVERY)
    on_records(number % REPORT_EVERY)


def replay_runs(items: Iterable[str], load: Load, settings: Sequence[Setting]) -> Iterator[RunResult]:
    """Every run of every item under every setting, in order."""
    batch: list[tuple[RecordedRun, Group | None]] = []
    files = 0
    for loaded in chain.from_iterable(map(load, items)):
        ready = prepare_group(loaded.history, workers=loaded.workers, tick_s=loaded.tick_s, own=loaded.own)
        batch.append((loaded._replace(history=_NOTHING), ready))
        files += len(loaded.history.start_s)
        if files >= GROUP_FILES or len(batch) >= MOST_GROUPS:
            yield from _score_batch(batch, settings)
            batch, files = [], 0
    yield from _score_batch(batch, settings)


_NOTHING = History(*(np.empty(0) for _ in History._fields))


def _score_batch(
    batch: list[tuple[RecordedRun, Group | None]], settings: Sequence[Setting]
) -> Iterator[RunResult]:
    groups = [ready for _, ready in batch if ready is not None]
    scores = iter(replay(groups, settings) if groups else ())
    for loaded, ready in batch:
        score = next(scores) if ready is not None else None
        yield RunResult(
            source=loaded.source,
            instant=loaded.instant,
            host=loaded.host,
            files=len(ready.alone_s) if ready else 0,
            finished=len(ready.ends_s) if ready else 0,
            workers=ready.workers if ready else 0,
            recorded_s=ready.recorded_s if ready else 0.0,
            own_s=score.own_makespan_s if score else 0.0,
            estimates=ready.censored if ready else Censored(0, 0, 0),
            makespan_s=score.makespan_s.tolist() if score else [],
            flagged=score.flagged.tolist() if score else [],
            false_alarms=score.false_alarms.tolist() if score else [],
            twice_bytes=score.twice_bytes.tolist() if score else [],
        )
