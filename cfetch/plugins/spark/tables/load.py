"""``cfetch metrics load``: turns metrics files into Parquet tables, which many programs can read.

Spark's tasks read chunks of the files and write their rows (``writing.py``); they report to the driver, which
makes each run's new rows current by one rename (``store.py``).
"""

import glob
import hashlib
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from uuid import uuid4

import msgspec

from cfetch.base.errors import Held, LocalFault, UsageError
from cfetch.base.secret import printable
from cfetch.plugins.spark.tables.chunks import CHUNK_BYTES, cut_chunks, parse_start
from cfetch.plugins.spark.tables.store import TableStore
from cfetch.plugins.spark.tables.writing import (
    MOST_REJECTED,
    ChunkReport,
    ChunkWork,
    Rejected,
    RunInChunk,
    make_run_key,
    write_chunk,
)
from cfetch.plugins.spark.work import explain_failure, group_into_tasks, run_tasks
from cfetch.show.analysis import run_line
from cfetch.show.metrics_reading import ENDINGS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


SHOWN_REJECTED = 20  # in the document; the table has more
POLL_S = 0.5  # between looks at the tasks' marks, or at another load; both take some seconds
LONGEST_WAIT_S = 30.0  # for other runs' loads; more than a hundred small runs may end at once
_MOST = (1 << 63) - 1

Advance = Callable[[int, int], None]
Run = Callable[[Sequence[Sequence[ChunkWork]], Path, Path], list[ChunkReport]]
"""Does the work of tasks in a directory of tables, and marks each chunk that is done in a folder."""


class LoadedRun(msgspec.Struct, frozen=True, kw_only=True):
    """One run that was loaded into the tables; ``replaced``: it was there before."""

    instant: str
    wall_start: str
    source: str
    files: int
    attempts: int
    rejected: int
    complete: bool
    replaced: bool


class Loaded(msgspec.Struct, frozen=True, kw_only=True):
    """The document of ``cfetch metrics load --json`` (``cfetch.metrics_load/1``).

    ``rejected`` counts lines that are no metrics; ``first_rejected`` are some of them. ``doubles``: runs with
    several copies, of which the one with most records was taken.
    """

    class Line(msgspec.Struct, frozen=True, kw_only=True):
        source: str
        line: int
        reason: str

    schema: str = "cfetch.metrics_load/1"
    directory: str
    sources: int
    runs: list[LoadedRun]
    files: int
    attempts: int
    rejected: int
    first_rejected: list[Line]
    doubles: int


def find_sources(names: Sequence[str]) -> list[Path]:
    """The metrics files for ``names``: files, directories (with the files directly in them), patterns.

    Raises:
        UsageError: there is no file for a name.
    """
    sources: dict[Path, None] = {}
    for name in names:
        paths = [name] if Path(name).exists() else sorted(glob.glob(name, recursive=True))  # noqa: PTH207 - may be absolute
        files = [
            file for path in map(Path, paths) for file in (_list_directory(path) if path.is_dir() else [path])
        ]
        if not files:
            raise UsageError(
                f"{printable(name)}: there are no metrics; name files, or directories or patterns of files "
                f"that end in {', '.join(ENDINGS)}"
            )
        sources |= dict.fromkeys(file.resolve() for file in files)
    for path in sources:
        if not _is_utf8(str(path)):
            raise UsageError(f"{printable(str(path))}: its name is not UTF-8, which tables need; rename it")
    return list(sources)


def _is_utf8(name: str) -> bool:
    return name.encode(errors="replace") == name.encode(errors="surrogateescape")


def _list_directory(folder: Path) -> list[Path]:
    try:
        return sorted(file for file in folder.iterdir() if file.name.endswith(ENDINGS) and file.is_file())
    except OSError as error:
        raise UsageError(f"{printable(str(folder))}: cannot read the directory: {error.strerror}") from None


def load(
    sources: Sequence[Path],
    to: Path,
    spark: "SparkSession",
    *,
    advance: Advance | None = None,
    chunk_bytes: int = CHUNK_BYTES,
) -> Loaded:
    """Put the runs of ``sources`` into the tables below ``to``; a run that is already there is replaced.

    All executors must see ``sources`` and ``to`` under these names. ``advance`` gets the numbers of sources
    and bytes that were done since its last call.

    Raises:
        UsageError: a source cannot be read, or ``to`` holds something else.
        LocalFault: the tables cannot be written; they have the old or the new version of each run.
        Held: another load writes there.
    """
    return load_by(partial(_run_on_spark, spark), sources, to, advance=advance, chunk_bytes=chunk_bytes)


def load_here(source: Path, to: Path) -> Loaded:
    """Do the work of ``load`` for one file of metrics in this process, without Spark. Raises as ``load``.

    Another load there is waited for, as runs end at once.
    """

    def run(tasks: Sequence[Sequence[ChunkWork]], to: Path, folder: Path) -> list[ChunkReport]:  # noqa: ARG001
        return [write_chunk(work, to) for task in tasks for work in task]

    until_s = time.monotonic() + LONGEST_WAIT_S
    while True:
        try:
            return load_by(run, [source], to, advance=None, chunk_bytes=CHUNK_BYTES)
        except Held:
            if time.monotonic() > until_s:
                raise
        time.sleep(POLL_S)


def load_by(
    run: Run, sources: Sequence[Path], to: Path, *, advance: Advance | None, chunk_bytes: int
) -> Loaded:
    """Do the work of ``load``; ``run`` runs the tasks."""
    to, command = to.absolute(), uuid4().hex[:12]
    chunks = [
        (source, chunk) for source, path in enumerate(sources) for chunk in cut_chunks(path, chunk_bytes)
    ]
    works = [ChunkWork(number, chunk, f"{command}-{source}") for number, (source, chunk) in enumerate(chunks)]
    with TableStore.open_exclusively(to) as store, store.begin_load(command) as folder:
        with _watch_marks(folder, works, advance):
            reports = run(group_into_tasks(works, lambda work: _size_bytes(work) / chunk_bytes), to, folder)
        for report in reports:
            if report.fault is not None:
                raise LocalFault(
                    f"a task could not read or write: {report.fault}; the tables are as they were"
                )
        return _make_current(store, to, _Findings(sources, works, reports))


def _size_bytes(work: ChunkWork) -> int:
    chunk = work.chunk
    return Path(chunk.source).stat().st_size if chunk.end is None else chunk.end - chunk.begin


def _run_on_spark(
    spark: "SparkSession", tasks: Sequence[Sequence[ChunkWork]], to: Path, folder: Path
) -> list[ChunkReport]:
    def run_task(works: Sequence[ChunkWork]) -> list[ChunkReport]:
        reports = []
        for work in works:
            reports.append(write_chunk(work, to))
            (folder / str(work.number)).touch()
        return reports

    try:
        reports = run_tasks(spark, tasks, run_task, list[ChunkReport])
    except Exception as error:  # noqa: BLE001 - Spark's, py4j's and gRPC's have no root in common
        raise explain_failure(error, "finish the job", "and the tables are as they were") from None
    return list(chain.from_iterable(reports))


@contextmanager
def _watch_marks(folder: Path, works: Sequence[ChunkWork], advance: Advance | None) -> Iterator[None]:
    """Report each chunk whose mark appears in ``folder`` to ``advance``, as Spark reports only tasks."""
    if advance is None:
        yield
        return
    over = threading.Event()
    chunks = Counter(work.chunk.source for work in works)
    left = {str(work.number): work for work in works}

    def watch() -> None:
        while not over.wait(POLL_S):
            for name in [mark.name for mark in folder.iterdir() if mark.name in left]:
                work = left.pop(name)
                chunks[work.chunk.source] -= 1
                advance(int(not chunks[work.chunk.source]), _size_bytes(work))

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


class _RunCopy(NamedTuple):
    """The copy of a run in one source: from one header to the next."""

    source: Path
    segment: RunInChunk

    def count_records(self) -> int:
        return self.segment.counts.ended


class _Findings:
    """Joins the reports of all tasks."""

    def __init__(
        self, sources: Sequence[Path], works: Sequence[ChunkWork], reports: Sequence[ChunkReport]
    ) -> None:
        copies: dict[str, _RunCopy] = {}
        self.rejected: dict[Path, list[Rejected]] = {source: [] for source in sources}
        for report in sorted(reports, key=lambda report: report.number):
            source = Path(works[report.number].chunk.source)
            self.rejected[source] += report.rejected
            for segment in report.segments:
                known = copies.setdefault(segment.load, _RunCopy(source, segment)).segment
                if known is not segment:
                    known.counts.include(segment.counts)
                    known.attempts += segment.attempts
                    known.rejected += segment.rejected
                    known.end = known.end or segment.end
        self.rejected_total = sum(report.rejected_total for report in reports)
        self.runs: dict[str, _RunCopy] = {}
        for copy in copies.values():
            key = make_run_key(copy.segment.header)
            if key not in self.runs or copy.count_records() > self.runs[key].count_records():
                self.runs[key] = copy
        self.doubles = len(copies) - len(self.runs)


def _make_current(store: TableStore, to: Path, findings: _Findings) -> Loaded:
    now = datetime.now(UTC)
    runs = []
    for key, copy in sorted(findings.runs.items(), key=lambda item: parse_start(item[1].segment.header)):
        segment = copy.segment
        row = _make_run_row(copy, now)
        replaced = store.put_run(f"{parse_start(segment.header).date()}", key, row)
        runs.append(
            LoadedRun(
                instant=segment.header.instant,
                wall_start=segment.header.wall_start,
                source=str(copy.source),
                files=copy.count_records(),
                attempts=segment.attempts,
                rejected=segment.rejected,
                complete=bool(row["complete"]),
                replaced=replaced,
            )
        )
    first: list[Loaded.Line] = []
    for source, lines in findings.rejected.items():
        name = str(source)
        lines.sort(key=lambda line: line.line)
        rows = [msgspec.structs.asdict(line) | {"source": name, "loaded_at": now} for line in lines]
        store.put_rejected(hashlib.sha256(name.encode()).hexdigest()[:20], rows[:MOST_REJECTED])
        first += [Loaded.Line(source=name, line=line.line, reason=line.reason) for line in lines]
    store.sweep(findings.runs)
    return Loaded(
        directory=str(to),
        sources=len(findings.rejected),
        runs=runs,
        files=sum(run.files for run in runs),
        attempts=sum(run.attempts for run in runs),
        rejected=findings.rejected_total,
        first_rejected=first[:SHOWN_REJECTED],
        doubles=findings.doubles,
    )


def _make_run_row(copy: _RunCopy, now: datetime) -> dict[str, object]:
    header, counts, end = copy.segment.header, copy.segment.counts, copy.segment.end
    line = msgspec.structs.asdict(run_line(str(copy.source), header, counts))
    return line | {
        "wall_start": parse_start(header),
        "load": copy.segment.load,
        "wasted_bytes": min(counts.wasted_bytes, _MOST),
        "bytes": min(counts.fetched_bytes, _MOST),
        "destination": header.destination,
        "settings": msgspec.json.encode(header.settings).decode(),
        "bytes_known": header.bytes_known,
        "sizes_unknown": header.sizes_unknown,
        "rejected": copy.segment.rejected,
        "policy": None if end is None else end.policy,  # killed, or of an older version
        "exit_code": None if end is None else end.exit_code,
        "saved_s": None if end is None else end.saved_s,
        "set_by": None if end is None else end.tail.bound,
        "set_s": None if end is None else end.tail.seconds,
        "set_path": None if end is None else end.tail.path,
        "set_host": None if end is None else end.tail.host,
        "loaded_at": now,
    }
