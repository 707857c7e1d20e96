"""Manifests of any size, validated by Spark and frozen as shares in Parquet files.

The driver cuts manifests into units; tasks check their rows by the code of the reader on one machine and
stage them in files; hashes of paths find what may collide; and the driver deals pieces of hosts out to
shares (``prepare.queues``). Nothing that the driver collects grows with the entries, only with units and
shares. No RDDs and no ``sparkContext``. All files are their owner's alone: they hold signed links.
"""

import hashlib
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import accumulate, chain
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import msgspec

from cfetch.errors import LocalFault, UsageError
from cfetch.manifest.fields import Headers
from cfetch.manifest.reading import check_base_url
from cfetch.secret import printable
from cfetch.spark.job import find_task_fault
from cfetch.spark.prepare.cut import ManifestCutter
from cfetch.spark.prepare.prepared import ABOUT, PLAN, PreparedPlan, RejectedRow, save
from cfetch.spark.prepare.rows import (
    Read,
    Unit,
    count_lines,
    first_of,
    identities,
    read_unit,
    units_of,
)
from cfetch.spark.prepare.tasks import Numbering, judge, rewrite, write_share_files
from cfetch.spark.share_files import shares_per_file
from cfetch.spark.shares import Pace
from cfetch.spark.table_writer import WRITE_ROWS
from cfetch.storage.files import on_disk

if TYPE_CHECKING:
    from pyarrow import RecordBatch
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["manifests_of", "prepare"]

T = TypeVar("T")

UNIT_BYTES = 32 << 20  # some 100,000 rows and a few seconds of a task, which itself costs 50 ms
MOST_FILES_A_TASK = 256  # opening so many takes a second on a network disk
ROWS_A_TASK = 200_000
KEPT = 100  # as many faults as a person reads


def manifests_of(names: Iterable[str | Path]) -> list[Path]:
    """Files, and those that lie directly in directories, by name; what begins with a dot or _ is passed over.

    Raises:
        UsageError: a name stands for no manifest.
    """
    found: dict[Path, None] = {}
    for name in names:
        path = Path(name)
        shown = printable(str(path))
        try:
            within = sorted(path.iterdir()) if path.is_dir() else [path]
            some = [one for one in within if one == path or (one.name[0] not in "._" and one.is_file())]
            found |= dict.fromkeys(one.resolve(strict=True) for one in some)
        except OSError as error:
            raise UsageError(f"cannot read the manifest {shown}: {error.strerror}") from None
        if not some:
            raise UsageError(f"there are no manifests in {shown}")
    return list(found)


def prepare(
    spark: "SparkSession",
    sources: Sequence[Path],
    directory: Path,
    *,
    base_url: str | None = None,
    headers: Headers = (),
    slots: int,
    pace: Pace = Pace(),  # noqa: B008 - a tuple
    per_host: int | None = None,
    progress: Callable[[int], None] | None = None,
    unit_bytes: int = UNIT_BYTES,
) -> PreparedPlan:
    """Validate manifests as if they stood one behind the other, and freeze them in ``directory``.

    Args:
        spark: its executors must see ``sources`` and ``directory`` under these names.
        sources: see ``manifests_of``; JSON Lines and Parquet are read by several tasks, other formats by one.
        directory: is made, or is empty.
        base_url: what relative URLs are joined to; outweighs the documents' own.
        headers: go with every request; a document's own outweigh them.
        slots: how many tasks download at a time.
        pace: what each of them is expected to do.
        per_host: connections that a host is asked for at most; for ``floors``.
        progress: is told how many good rows there are, once all have been read.
        unit_bytes: larger manifests are read by several tasks.

    Raises:
        UsageError: a source cannot be read, or ``base_url`` is none.
        LocalFault: ``directory`` cannot be written, or Spark has failed.
    """
    from pyspark.errors import PySparkException

    base_url = None if base_url is None else check_base_url(base_url)
    preparing = _Preparing(spark, sources, directory.absolute(), base_url, headers, slots, pace, per_host)
    stage = directory / "stage"
    with on_disk(directory):
        directory.mkdir(0o700, parents=True, exist_ok=True)
        directory.chmod(0o700)
        shutil.rmtree(stage, ignore_errors=True)  # of one that died
        if (directory / ABOUT).exists():
            raise UsageError(
                f"{printable(str(directory))} has a prepared plan already; name another directory"
            )
        for name in (PLAN, "rejected"):
            shutil.rmtree(directory / name, ignore_errors=True)
        for name in (PLAN, "rejected", "stage"):
            (directory / name).mkdir(0o700)
    try:
        return preparing.run(unit_bytes, progress)
    except PySparkException as error:
        said = find_task_fault(error)
        if said is not None:
            raise LocalFault(f"an executor cannot work: {said}") from None
        kind = error.getCondition() or type(error).__name__
        raise LocalFault(
            f"Spark could not prepare the plan ({kind}); its logs say why, then try again"
        ) from None
    finally:
        shutil.rmtree(stage, ignore_errors=True)


class _Staged(NamedTuple):
    """A unit whose rows are staged: its number, how many rows, and the file that has them."""

    unit: int
    rows: int
    path: str


class _Preparing:
    """One ``prepare``."""

    def __init__(
        self,
        spark: "SparkSession",
        sources: Sequence[Path],
        directory: Path,
        base_url: str | None,
        headers: Headers,
        slots: int,
        pace: Pace,
        per_host: int | None,
    ) -> None:
        self._spark = spark
        self._sources = sources
        self._directory = directory
        self._stage = directory / "stage"
        self._base_url = base_url
        self._headers = headers
        self._slots = slots
        self._pace = pace
        self._per_host = per_host

    def run(self, unit_bytes: int, progress: Callable[[int], None] | None) -> PreparedPlan:
        """The work in its order."""
        units = self._units(unit_bytes)
        reads = self._read(units)
        if progress is not None:
            progress(sum(one.rows for one in reads))
        repeats = self._judge(units, reads)
        rejected = self._rejected()
        if rejected.rejected:
            _forget(repeats)
            return rejected
        kept, merged = self._merge(repeats, reads)
        _forget(repeats)
        plan = self._freeze(units, kept)
        plan = msgspec.structs.replace(plan, merged=merged, digest=self._digest(kept))
        save(plan)
        return plan

    def _units(self, unit_bytes: int) -> list[Unit]:
        cut = [units_of(at, path, self._base_url, unit_bytes) for at, path in enumerate(self._sources)]
        units = [msgspec.structs.replace(one, number=n) for n, one in enumerate(chain(*cut))]
        counted = [one for one in units if one.end is not None]
        work = partial(_told, lambda unit: (unit.number, count_lines(unit)))
        tasks = _tasks(counted, _unit_weight)
        told = self._frame(tasks, work, "told binary").collect() if tasks else []
        ends: dict[int, int] = dict(msgspec.json.decode(row.told) for row in told)
        source, line = -1, 1
        for at, unit in enumerate(units):
            line = line if unit.source == source else 1
            units[at], source = msgspec.structs.replace(unit, line=line), unit.source
            line += ends.get(unit.number, 0)
        return units

    def _read(self, units: Sequence[Unit]) -> list[Read]:
        """Stage all rows. Of a manifest that cannot be read to its end, what comes later is left out."""
        rejected = self._directory / "rejected"
        read = partial(read_unit, stage=self._stage, rejected=rejected, base_url=self._base_url)
        rows = self._frame(_tasks(units, _unit_weight), partial(_told, read), "told binary").collect()
        reads = sorted((msgspec.json.decode(row.told, type=Read) for row in rows), key=lambda one: one.number)
        broken: dict[int, int] = {}
        for one in reads:
            if one.usage is not None:
                raise UsageError(one.usage)
            if one.fault is not None:
                raise LocalFault(one.fault)
            source = units[one.number].source
            if source in broken and one.rejected:
                with on_disk(rejected):
                    (rejected / f"rows-{one.number:08d}.parquet").unlink()
            broken |= {source: one.number} if one.broken and source not in broken else {}
        return [one for one in reads if one.number <= broken.get(units[one.number].source, one.number)]

    def _judge(self, units: Sequence[Unit], reads: Sequence[Read]) -> "DataFrame | None":
        """Rows (unit, row) of entries that repeat others, and (-1, …) for collisions; None: no such."""
        from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's manuals call it

        def staged(columns: Sequence[str]) -> "DataFrame":
            here = self._staged([_entries_of(one, self._stage) for one in reads], columns)
            above = self._staged([_entries_of(one, self._stage, "above") for one in reads], columns)
            return here.withColumn("here", F.lit(1)).union(above.withColumn("here", F.lit(0)))

        grouped = (
            staged(["key"]).groupBy("key").agg(F.sum("here").alias("wanted"), F.count("*").alias("total"))
        )
        keys = grouped.where("wanted > 1 or wanted > 0 and total > wanted").select("key").persist()
        try:
            count = keys.count()
            if not count:
                return None
            names = [str(path) for path in self._sources]
            source_of = {one.number: one.source for one in units}
            folder = self._directory / "rejected"

            def work(batches: "Iterator[RecordBatch]") -> "Iterator[RecordBatch]":
                from pyspark import TaskContext

                context = TaskContext.get()
                assert context is not None
                partition = context.partitionId()
                yield from judge(
                    batches, source_of, names, folder / f"places-{partition:08d}.parquet", partition
                )

            rows = (
                staged(["key", "row", "entry"])
                .join(keys, "key")
                .select("key", "here", "unit", "row", "entry")
            )
            parted = rows.repartition(1 + count // ROWS_A_TASK, "key")
            judged = parted.sortWithinPartitions("key", "here", "unit", "row").mapInArrow(
                work, "unit int, row long"
            )
            judged = judged.persist()
            judged.count()
        finally:
            keys.unpersist()
        return judged

    def _rejected(self) -> PreparedPlan:
        """How many faults there are, and the first of them."""
        with on_disk(self._directory):
            paths = sorted((self._directory / "rejected").iterdir())
        if not paths:
            return PreparedPlan(directory=str(self._directory), rejected=0, shares_per_file=1)
        files = [_Staged(0, 0, str(path)) for path in paths if not path.name.startswith(".")]
        frame = self._staged(files, ["source", "line", "reason"]).select("source", "line", "reason")
        first = frame.orderBy("source", "line", "reason").limit(KEPT).collect()
        return PreparedPlan(
            directory=str(self._directory),
            rejected=frame.count(),
            shares_per_file=1,
            first_rejected=[RejectedRow(row.source, row.line, row.reason) for row in first],
        )

    def _merge(self, judged: "DataFrame | None", reads: Sequence[Read]) -> tuple[dict[int, Read], int]:
        """What is left of each unit without the entries that repeat others, and how many they are."""
        kept = {one.number: one for one in reads}
        if judged is None:
            return kept, 0
        units = judged.select("unit").distinct().count()
        stage = self._stage
        parted = judged.repartition(max(1, units), "unit").sortWithinPartitions("unit", "row")
        told = parted.mapInArrow(lambda batches: rewrite(batches, stage), "told binary").collect()
        before = sum(one.rows for one in reads)
        for row in told:
            one = msgspec.json.decode(row.told, type=Read)
            before_it = kept[one.number]
            kept[one.number] = msgspec.structs.replace(
                one, headers=before_it.headers, names_batches=before_it.names_batches
            )
        return kept, before - sum(one.rows for one in kept.values())

    def _digest(self, kept: dict[int, Read]) -> str:
        """SHA-256 goes from the first entry to the last; but it is 1 GB/s, and the bytes are at hand."""
        digest = hashlib.sha256()
        for number in sorted(kept):
            for text in identities(Path(_entries_of(kept[number], self._stage).path)):
                digest.update(text)
        return digest.hexdigest()

    def _freeze(self, units: Sequence[Unit], kept: dict[int, Read]) -> PreparedPlan:
        files = sum(one.rows for one in kept.values())
        known = sum(one.known_bytes for one in kept.values())
        unknown = sum(one.unknown for one in kept.values())
        headers, own_headers, own_of = self._headers_of(units, kept)
        plan = PreparedPlan(
            directory=str(self._directory),
            rejected=0,
            shares_per_file=1,
            files=files,
            total_bytes=known,
            sizes_unknown=unknown,
            names_batches=any(one.names_batches for one in kept.values()),
            headers=headers,
            own_headers=own_headers,
            expires_at=first_of(*(one.expires_at for one in kept.values())),
        )
        if not files:
            return plan
        first = list(accumulate((kept[at].rows if at in kept else 0 for at in range(len(units))), initial=0))
        staged = [_entries_of(kept[number], self._stage) for number in sorted(kept) if kept[number].rows]
        mean = known / (files - unknown) if files > unknown else 1.0
        cutter = ManifestCutter(self._pace, mean, files, known, unknown, self._slots, self._per_host)
        light = self._staged(staged, ["row", "key", "host", "size"])
        cut = cutter.cut(self._spark, light)
        full = self._staged(staged, ["row", "key", "entry", "host", "size"])
        per_file = shares_per_file(files, len(cut.deal.cost_s))
        numbering = Numbering(first, own_of, per_file)
        path = self._directory / PLAN
        rows = cut.assign_shares(full).select("share", "unit", "row", "entry", "host", "size", "sharers")
        parts = -(-len(cut.deal.cost_s) // per_file)
        sorted_rows = rows.repartitionById(parts, (rows.share / per_file).cast("int")).sortWithinPartitions(
            "share", "unit", "row"
        )
        told = sorted_rows.mapInArrow(lambda some: write_share_files(some, path, numbering), "entries long")
        if sum(row.entries for row in told.collect()) != files:
            raise LocalFault(f"the plan in {path} is not whole; prepare the manifest again")
        return msgspec.structs.replace(
            plan,
            hosts=cut.hosts,
            host_files=cut.host_files,
            shares_per_file=per_file,
            cost_s=cut.deal.cost_s,
            files_of=cut.deal.files,
            floors=cut.floors,
        )

    def _headers_of(
        self, units: Sequence[Unit], kept: dict[int, Read]
    ) -> tuple[Headers, list[Headers], list[int | None]]:
        """The headers of all entries; those of some, where manifests differ in them; and by unit which."""
        of_source: dict[int, Headers] = {}
        for number in sorted(kept):
            of_source.setdefault(units[number].source, kept[number].headers)
        distinct = list(dict.fromkeys(of_source.values()))
        if len(distinct) <= 1:
            own = distinct[0] if distinct else ()
            return tuple((dict(self._headers) | dict(own)).items()), [], [None] * len(units)
        number_of = {headers: at for at, headers in enumerate(distinct)}
        return self._headers, distinct, [number_of.get(of_source.get(one.source, ())) for one in units]

    def _staged(self, files: Sequence[_Staged], columns: Sequence[str]) -> "DataFrame":
        """Columns of staged files, after ``unit``."""
        types = {"entry": "binary", "host": "string", "source": "string", "reason": "string"}
        schema = ", ".join(["unit int", *(f"{one} {types.get(one, 'long')}" for one in columns)])
        return self._frame(
            _tasks(files, lambda one: one.rows / ROWS_A_TASK), partial(_rows_of, columns), schema
        )

    def _frame(
        self, tasks: Sequence[Sequence[T]], work: "Callable[[T], Iterator[RecordBatch]]", schema: str
    ) -> "DataFrame":
        """What ``work`` yields for each item of ``tasks``, each of which is one of Spark's."""

        def run(batches: "Iterator[RecordBatch]") -> "Iterator[RecordBatch]":
            for batch in batches:
                for number in batch.column(0).to_pylist():
                    for one in tasks[number]:
                        yield from work(one)

        return self._spark.range(0, len(tasks), 1, numPartitions=max(1, len(tasks))).mapInArrow(run, schema)


def _forget(frame: "DataFrame | None") -> None:
    if frame is not None:
        frame.unpersist()


def _tasks(items: Sequence[T], weight: Callable[[T], float]) -> list[list[T]]:
    """Small items share a task."""
    tasks: list[list[T]] = []
    left = 0.0
    for one in items:
        if left <= 0 or len(tasks[-1]) >= MOST_FILES_A_TASK:
            tasks.append([])
            left = 1.0
        tasks[-1].append(one)
        left -= weight(one)
    return tasks


def _unit_weight(unit: Unit) -> float:
    return unit.size_bytes / UNIT_BYTES


def _entries_of(read: Read, stage: Path, table: str = "") -> _Staged:
    kept = stage / f"kept-{read.number:08d}.parquet"
    table = table or ("kept" if kept.exists() else "entries")
    return _Staged(read.number, read.rows, str(stage / f"{table}-{read.number:08d}.parquet"))


def _told(work: Callable[[T], object], item: T) -> "Iterator[RecordBatch]":
    import pyarrow as pa

    yield pa.RecordBatch.from_pydict({"told": [msgspec.json.encode(work(item))]})


def _rows_of(columns: Sequence[str], file: _Staged) -> "Iterator[RecordBatch]":
    import pyarrow as pa
    import pyarrow.parquet as pq

    with Path(file.path).open("rb") as opened:
        for batch in pq.ParquetFile(opened).iter_batches(batch_size=WRITE_ROWS, columns=list(columns)):
            unit = pa.repeat(pa.scalar(file.unit, pa.int32()), len(batch))
            arrays = [unit, *(batch.column(name) for name in columns)]
            yield pa.RecordBatch.from_arrays(arrays, names=["unit", *columns])
