"""Runs through the replay: in this process, or in Spark's tasks. Both call the one function `replayed`.

An item is text that ``load`` turns into recorded runs: here the path of a metrics file. Spark carries items
to the tasks and scores back, never rows of metrics: the tasks read the files themselves.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec
import numpy as np

from cfetch.config.settings import Settings
from cfetch.errors import CfetchError, LocalFault, UsageError
from cfetch.records import FileRecord
from cfetch.report.metrics import Run, RunHeader, read_metrics
from cfetch.tuning.choice import Result
from cfetch.tuning.history import History, history
from cfetch.tuning.replay import Censored, Group, Setting, group, replay

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

__all__ = ["HOST_FILES", "Load", "Loaded", "metrics_runs", "replayed", "replayed_by_spark"]

HOST_FILES = 100  # a host with fewer files in a run tells nothing about tails
BATCH_FILES = 400_000  # replayed side by side: 50 MB of columns
BATCH_GROUPS = 32  # more gain nothing: numpy's calls are no longer what takes the time
CHUNK_BYTES = 8 << 20  # of metrics for a task: 10,000 files or more; a task itself costs 50 ms
HEARD_EVERY = 20_000  # records between two words of progress


class Loaded(NamedTuple):
    """One run, or one host's part of it (``host``), before it is made ready."""

    source: str
    instant: str
    host: str | None
    history: History
    workers: int
    tick_s: float
    own: Setting


Load = Callable[[str], Iterable[Loaded]]


def metrics_runs(path: str, heard: Callable[[int], None] = lambda _: None) -> Iterator[Loaded]:
    """The runs of a metrics file, each as a whole and then by host; ``heard`` gets the number of new records.

    Raises:
        UsageError: see ``read_metrics``.
    """
    for run in read_metrics([Path(path)]):
        yield from _loaded(run, heard)


def _loaded(run: Run, heard: Callable[[int], None]) -> Iterator[Loaded]:
    had = run.header.settings
    stall_timeout_s = _number(had, "stall_timeout")
    found, hosts = history(_counted(run.files, heard), stall_timeout_s=stall_timeout_s)
    mitigated = had.get("mitigation", True) is True
    own = Setting(
        _number(had, "multiplier"),
        _number(had, "quantile"),
        _number(had, "padding") if mitigated else float("inf"),
    )
    loaded = partial(
        Loaded, str(run.source), run.header.instant, workers=_workers(run.header),
        tick_s=_number(had, "check_interval"), own=own,
    )  # fmt: skip
    yield loaded(host=None, history=found)
    if len(hosts) > 1:
        counts = np.bincount(found.host.astype(int), minlength=len(hosts))
        for number in np.nonzero(counts >= HOST_FILES)[0].tolist():
            yield loaded(host=hosts[number], history=found.only(found.host == number))


def _workers(header: RunHeader) -> int:
    return max(0, header.concurrency)


def _number(had: dict[str, object], name: str) -> float:
    """What the run's header says; the default where it says nothing that can be used."""
    value = had.get(name)
    usable = isinstance(value, int | float) and 0 < value < float("inf")
    default: float = getattr(Settings(), name)
    return float(value) if usable or (name == "padding" and value == 0) else default  # type: ignore[arg-type]


def _counted(records: Iterable[FileRecord], heard: Callable[[int], None]) -> Iterator[FileRecord]:
    number = 0
    for number, record in enumerate(records, start=1):
        yield record
        if number % HEARD_EVERY == 0:
            heard(HEARD_EVERY)
    heard(number % HEARD_EVERY)


def replayed(items: Iterable[str], load: Load, settings: Sequence[Setting]) -> Iterator[Result]:
    """Every run of every item under every setting, in order."""
    batch: list[tuple[Loaded, Group | None]] = []
    files = 0
    for loaded in chain.from_iterable(map(load, items)):
        ready = group(loaded.history, workers=loaded.workers, tick_s=loaded.tick_s, own=loaded.own)
        batch.append((loaded._replace(history=_NOTHING), ready))
        files += len(loaded.history.start_s)
        if files >= BATCH_FILES or len(batch) >= BATCH_GROUPS:
            yield from _results(batch, settings)
            batch, files = [], 0
    yield from _results(batch, settings)


_NOTHING = History(*(np.empty(0) for _ in History._fields))


def _results(batch: list[tuple[Loaded, Group | None]], settings: Sequence[Setting]) -> Iterator[Result]:
    groups = [ready for _, ready in batch if ready is not None]
    scores = iter(replay(groups, settings) if groups else ())
    for loaded, ready in batch:
        one = next(scores) if ready is not None else None
        yield Result(
            source=loaded.source,
            instant=loaded.instant,
            host=loaded.host,
            files=len(ready.alone_s) if ready else 0,
            finished=len(ready.ends_s) if ready else 0,
            workers=ready.workers if ready else 0,
            recorded_s=ready.recorded_s if ready else 0.0,
            own_s=one.own_makespan_s if one else 0.0,
            estimates=ready.censored if ready else Censored(0, 0, 0),
            makespan_s=one.makespan_s.tolist() if one else [],
            flagged=one.flagged.tolist() if one else [],
            false_alarms=one.false_alarms.tolist() if one else [],
            twice_bytes=one.twice_bytes.tolist() if one else [],
        )


def replayed_by_spark(
    spark: "SparkSession", items: Sequence[tuple[str, int]], load: Load, settings: Sequence[Setting]
) -> list[Result]:
    """The same on Spark; of each item the size in bytes, by which they are shared out.

    Raises:
        UsageError: an item cannot be read, by the task that got it.
        LocalFault: Spark could not carry the job out.
    """
    import pyarrow as pa
    from pyspark.errors import PySparkException

    chunks = _chunks(items)
    texts = [msgspec.json.encode(one) for one in chunks]
    numbers = pa.array(range(len(chunks)), pa.int32())  # repartitionById takes no longer ones
    plan = pa.table({"number": numbers, "items": texts})
    try:
        rows = (
            spark.createDataFrame(plan)
            .repartitionById(len(chunks), "number")
            .mapInArrow(_task(load, tuple(settings)), "number int, results binary, error string")
            .collect()
        )
    except PySparkException as error:
        kind = error.getCondition() or type(error).__name__
        raise LocalFault(
            f"Spark could not replay the runs ({kind}); its log says why; --engine local does the same here"
        ) from None
    for row in sorted(rows):
        if row.error is not None:
            raise UsageError(row.error)
    decoder = msgspec.json.Decoder(list[Result])
    return [result for row in sorted(rows) for result in decoder.decode(bytes(row.results))]


def _chunks(items: Sequence[tuple[str, int]]) -> list[list[str]]:
    """Neighbours together, until there is enough for a task."""
    chunks: list[list[str]] = []
    room = 0
    for item, size in items:
        if room <= 0:
            chunks.append([])
            room = CHUNK_BYTES
        chunks[-1].append(item)
        room -= size
    return chunks


def _task(
    load: Load, settings: tuple[Setting, ...]
) -> "Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]":
    def task(batches: "Iterable[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        import pyarrow as pa

        for number, raw in ((row["number"], row["items"]) for batch in batches for row in batch.to_pylist()):
            error, results = None, b"[]"
            try:
                results = msgspec.json.encode(list(replayed(msgspec.json.decode(raw), load, settings)))
            except CfetchError as failure:  # a row: an exception would only be tried again
                error = str(failure)
            yield pa.RecordBatch.from_arrays(
                [pa.array([number], pa.int32()), pa.array([results]), pa.array([error], pa.string())],
                names=["number", "results", "error"],
            )

    return task
