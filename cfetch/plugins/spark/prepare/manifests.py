"""Manifests of any size, validated by Spark and frozen as shares in Parquet files.

The driver cuts manifests into units; tasks check their rows by the code of the reader on one machine, and
Spark stages them as one table; hashes of paths find possible collisions; and the driver divides pieces of
hosts among shares (``prepare.cut``). The driver reads columns of the table, but keeps nothing that grows with
the entries, only with units and shares. It uses neither RDDs nor ``sparkContext``. Only the owner can enter
the directories, and read the files of the plan: they hold signed links.
"""

import hashlib
import re
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from heapq import nsmallest
from itertools import accumulate, chain
from pathlib import Path
from typing import NamedTuple

import msgspec
from pyarrow import RecordBatch
from pyarrow.parquet import ParquetFile, ParquetWriter
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's manuals call it

from cfetch.base.config.reading import STANDARD, ReadingOptions
from cfetch.base.errors import LocalFault, UsageError
from cfetch.base.schemes import FILE
from cfetch.base.secret import printable
from cfetch.manifest.fields import Headers
from cfetch.manifest.folding import KEEPS_NAMES, Folding
from cfetch.manifest.names import refuse_server_names
from cfetch.manifest.plan import PREPARED_NAME
from cfetch.manifest.reading import check_base_url
from cfetch.plugins.spark.prepare.cut import ManifestCutter
from cfetch.plugins.spark.prepare.prepared import PLAN, PreparedPlan, RejectedRow, save
from cfetch.plugins.spark.prepare.rows import (
    ENTRIES,
    STAGED,
    WRITE_ROWS,
    ReadUnit,
    UnitReport,
    count_lines,
    cut_units,
    read_unit,
)
from cfetch.plugins.spark.prepare.tasks import JUDGED, judge_places, write_share_files
from cfetch.plugins.spark.schemas import arrow_table, ddl
from cfetch.plugins.spark.share_files import SHARES, open_table, shares_per_file
from cfetch.plugins.spark.work import explain_failure, group_into_tasks, make_frame, run_tasks
from cfetch.run.open_manifest import expand_manifests
from cfetch.storage.files import input_fault, make_private, on_disk
from cfetch.storage.group_rights import is_for_group, make_directory
from cfetch.tasks.shares.cut import ExpectedPace

UNIT_BYTES = 32 << 20  # some 100,000 rows: a few seconds for a task, which itself costs 50 ms
ROWS_A_TASK = 200_000
NUMBERS = {"unit": "int", "first": "bigint", "own_headers": "int"}
REJECTED = {"source": "string", "line": "bigint", "reason": "string"}
KEPT = 100  # as many faults as a person reports
_SIGNS, _ESCAPED = re.compile(r"[\\*?{}\[\]]"), r"\\\g<0>"  # of Hadoop's patterns


def find_manifests(names: Iterable[str | Path]) -> list[Path]:
    """The files for the names, each once, as ``expand_manifests`` has it: directories are opened.

    Raises:
        UsageError: a name stands for no manifest.
    """
    manifests: dict[Path, None] = {}
    for name in expand_manifests([str(name) for name in names]).manifests:
        try:
            manifests[Path(name).resolve(strict=True)] = None
        except OSError as error:
            raise input_fault(error, f"cannot read the manifest {printable(name)}") from None
    return list(manifests)


def prepare(
    spark: SparkSession,
    sources: Sequence[Path],
    directory: Path,
    *,
    base_url: str | None = None,
    options: ReadingOptions = STANDARD,
    slots: int,
    pace: ExpectedPace = ExpectedPace(),  # noqa: B008 - a tuple
    per_host: int | None = None,
    progress: Callable[[int], None] | None = None,
    unit_bytes: int = UNIT_BYTES,
    folding: Folding = KEEPS_NAMES,
) -> PreparedPlan:
    """Validate manifests as if they were joined in order, and freeze them in ``directory``.

    Of entries whose names clash at the destination, the later one fails in the run.

    Args:
        spark: its executors must see ``sources`` and ``directory`` under these names.
        sources: as in ``find_manifests``; several tasks read JSON Lines and Parquet, one reads other formats.
        directory: is made, or is empty.
        base_url: the base of relative URLs; takes precedence over the documents' own.
        options: the meaning of columns, and the names of files.
        slots: how many tasks download at a time.
        pace: the expected speed of each task.
        per_host: the most connections to a host; for ``floors_s``.
        progress: gets the number of good rows, once all have been read.
        unit_bytes: larger manifests are read by several tasks.
        folding: which names are one file at the destination.

    Raises:
        UsageError: a source cannot be read, ``base_url`` is no base URL, or its format needs a library.
        LocalFault: ``directory`` cannot be written, or Spark has failed.
    """
    base_url = None if base_url is None else check_base_url(base_url)
    _check_options(options)
    preparing = _Preparation(
        spark, sources, directory.absolute(), base_url, options, slots, pace, per_host, folding
    )
    _make_directories(preparing.directory)
    try:
        return preparing.run(unit_bytes, progress)
    except PySparkException as error:
        raise explain_failure(error, "prepare the plan", "then try again") from None
    finally:
        shutil.rmtree(preparing.directory / "stage", ignore_errors=True)


def _make_directories(directory: Path) -> None:
    with on_disk(directory):
        make_private(directory)
        if not is_for_group(directory.stat()):
            directory.chmod(0o700)
        if (directory / PREPARED_NAME).exists():
            raise UsageError(
                f"{printable(str(directory))} has a prepared plan already; name another directory"
            )
        for name in (PLAN, "rejected", "stage"):
            shutil.rmtree(directory / name, ignore_errors=True)  # a dead preparation may have left it
            make_directory(directory / name, 0o700)


def _check_options(options: ReadingOptions) -> None:
    if options.bad_rows != "fail":
        raise UsageError(
            "--bad-rows skip is for --engine local; Spark lists all faulty rows in a table instead"
        )
    if options.clash != "fail":
        raise UsageError(
            f"--clash {options.clash} is for --engine local; on Spark the later of two that clash fails"
        )
    if options.keep_columns:
        raise UsageError("--keep-columns is for --engine local; Spark keeps no columns of a large manifest")
    refuse_server_names(options.name_by)
    if options.name_by == "row":
        raise UsageError(
            "--name-by row is for --engine local: Spark reads parts of a manifest, whose rows have no number "
            "yet; name files by hash"
        )


class _Preparation(NamedTuple):
    """The steps of one ``prepare``."""

    spark: SparkSession
    sources: Sequence[Path]
    directory: Path
    base_url: str | None
    options: ReadingOptions
    slots: int
    pace: ExpectedPace
    per_host: int | None
    folding: Folding

    def run(self, unit_bytes: int, progress: Callable[[int], None] | None) -> PreparedPlan:
        """Run all steps in order."""
        units = self._cut_units(unit_bytes)
        staged, reports = self._read_units(units)
        read = sum(report.rows for report in reports)
        if progress is not None:
            progress(read)
        if any(report.faults for report in reports):
            return self._collect_rejected(staged, units, reports)
        folder = self._settle_places(staged, units)
        headers, own_headers, own_of = self._find_headers(units, reports)
        plan, rows_of = self._sum_up(folder)
        plan = msgspec.structs.replace(
            plan,
            merged=read - plan.files,
            names_batches=any(report.names_batches for report in reports),
            headers=headers,
            own_headers=own_headers,
        )
        if plan.files:
            firsts = accumulate((rows_of[unit.number] for unit in units), initial=0)
            numbers = list(zip(range(len(units)), firsts, own_of, strict=False))
            plan = self._write_shares(plan, folder, numbers)
        save(plan)
        return plan

    def _cut_units(self, unit_bytes: int) -> list[ReadUnit]:
        cut = [
            cut_units(number, path, self.base_url, unit_bytes, self.options)
            for number, path in enumerate(self.sources)
        ]
        units = [msgspec.structs.replace(unit, number=number) for number, unit in enumerate(chain(*cut))]
        counted = _group([unit for unit in units if unit.end is not None])
        counts = run_tasks(
            self.spark, counted, lambda group: [count_lines(unit) for unit in group], list[int]
        )
        ends = dict(zip((unit.number for unit in chain(*counted)), chain(*counts), strict=True))
        source, line = -1, 1
        for index, unit in enumerate(units):
            line = line if unit.source == source else 1
            units[index], source = msgspec.structs.replace(unit, line=line), unit.source
            line += ends.get(unit.number, 0)
        return units

    def _read_units(self, units: Sequence[ReadUnit]) -> tuple[Path, list[UnitReport]]:
        """Stage what the units are made of. The files, in their order, have the rows of units in order."""
        base_url, options, folding = self.base_url, self.options, self.folding

        def read(group: Sequence[ReadUnit]) -> Iterator[RecordBatch]:
            for unit in group:
                yield from read_unit(unit, base_url, options, folding)

        rows = make_frame(self.spark, _group(units), read, ddl(STAGED))
        staged = self._stage(rows, "units")
        texts = chain.from_iterable(
            batch.column(0).drop_null().to_pylist() for batch in _read_staged(staged, ["report"])
        )
        reports = [msgspec.json.decode(text, type=UnitReport) for text in texts]
        for report in reports:
            if report.usage is not None:
                raise UsageError(report.usage)
            if report.fault is not None:
                raise LocalFault(report.fault)
        return staged, reports

    def _stage(self, rows: DataFrame, name: str) -> Path:
        path = self.directory / "stage" / name
        rows.write.option("compression", "zstd").parquet(f"{FILE}://{path}")
        return path

    def _open(self, staged: Path) -> DataFrame:
        """What was staged, by Spark's own reader; it takes names for patterns."""
        name = f"{FILE}://{_SIGNS.sub(_ESCAPED, str(staged))}"
        return self.spark.read.schema(ddl(STAGED)).parquet(name)

    def _collect_rejected(
        self, staged: Path, units: Sequence[ReadUnit], reports: Sequence[UnitReport]
    ) -> PreparedPlan:
        """Write the table of all faults; a plan that holds their number, and the first of them.

        If a manifest cannot be read to its end, its rest is left out.
        """
        broken: dict[int, int] = {}
        for report in reports:
            if report.broken:
                broken.setdefault(units[report.number].source, report.number)
        wanted = {unit.number for unit in units if unit.number <= broken.get(unit.source, unit.number)}
        names = [printable(unit.path) for unit in units]

        def keep(table: ParquetWriter) -> Iterator[tuple[str, int, str]]:
            for batch in _read_staged(staged, ["unit", "line", "reason"]):
                faults = batch.filter(batch.column("reason").is_valid())
                columns = (column.to_pylist() for column in faults.columns)
                every = zip(*columns, strict=True)
                rows = [(names[unit], line, reason) for unit, line, reason in every if unit in wanted]
                if rows:
                    table.write_table(arrow_table(REJECTED, rows))
                    yield from rows

        with open_table(self.directory / "rejected" / "rows.parquet", REJECTED) as table:
            first = nsmallest(KEPT, keep(table))
        return PreparedPlan(
            directory=str(self.directory),
            rejected=sum(report.faults for report in reports if report.number in wanted),
            first_rejected=[RejectedRow(*fault) for fault in first],
        )

    def _settle_places(self, staged: Path, units: Sequence[ReadUnit]) -> Path:
        """Drop entries that repeat others, and mark those that clash. Returns the stage of those left."""
        rows = self._open(staged)
        placed = rows.where("key is not null").select(
            "key", F.col("host").isNotNull().cast("int").alias("here"), "unit", "row", "entry"
        )
        grouped = placed.groupBy("key").agg(F.sum("here").alias("wanted"), F.count("*").alias("total"))
        keys = grouped.where("wanted > 1 or wanted > 0 and total > wanted").select("key").persist()
        try:
            count = keys.count()
            if not count:
                return staged
            folding, source_of = self.folding, [unit.path for unit in units]
            judged = (
                placed.join(keys, "key")
                .repartition(1 + count // ROWS_A_TASK, "key")
                .sortWithinPartitions("key", "here", "unit", "row")
                .mapInArrow(lambda batches: judge_places(batches, source_of, folding), ddl(JUDGED))
                .groupBy("unit", "row")  # what repeats another one may also clash with a third
                .agg(*(F.max(name).alias(name) for name in ("is_repeated", "marked", "marked_as")))
            )
            number = F.row_number().over(Window.partitionBy("unit").orderBy("row")) - 1
            kept = (
                rows.where("host is not null")
                .join(judged, ["unit", "row"], "left")
                .where("is_repeated is null or not is_repeated")
                .repartitionByRange("unit")  # the files are in the order of units
                .withColumn("row", number.cast("long"))
                .withColumn("entry", F.coalesce("marked", "entry"))
                .withColumn("identity", F.coalesce("marked_as", "identity"))
            )
            return self._stage(kept.select(*ENTRIES), "kept")
        finally:
            keys.unpersist()

    def _sum_up(self, folder: Path) -> tuple[PreparedPlan, Counter[int]]:
        """What the entries have together, and the number of each unit's.

        SHA-256 cannot be divided among tasks, but it runs at 1 GB/s.
        """
        digest, rows_of = hashlib.sha256(), Counter[int]()
        total_bytes, unknown = 0, 0
        for batch in _read_staged(folder, ["unit", "size", "identity"]):
            units, sizes, identities = batch.filter(batch.column("identity").is_valid()).columns
            digest.update(b"".join(identities.to_pylist()))
            rows_of.update(units.to_pylist())
            total_bytes += sum(sizes.drop_null().to_pylist())  # the sum may need more than 64 bits
            unknown += sizes.null_count
        plan = PreparedPlan(
            directory=str(self.directory),
            files=rows_of.total(),
            total_bytes=total_bytes,
            sizes_unknown=unknown,
            digest=digest.hexdigest(),
        )
        return plan, rows_of

    def _write_shares(
        self, plan: PreparedPlan, folder: Path, numbers: list[tuple[int, int, int | None]]
    ) -> PreparedPlan:
        """Divide the entries among shares and write them; the plan with what is known of the shares.

        ``numbers``: of each unit, the id of its first entry, and the number of its headers.
        """
        files, known, unknown = plan.files, plan.total_bytes, plan.sizes_unknown
        mean = known / (files - unknown) if files > unknown else 1.0
        cutter = ManifestCutter(self.pace, mean, files, known, unknown, self.slots, self.per_host)
        cut = cutter.cut(self.spark, self._open(folder).where("host is not null"))
        per_file = shares_per_file(files, len(cut.deal.cost_s))
        first = F.broadcast(self.spark.createDataFrame(numbers, ddl(NUMBERS)))
        rows = (
            cut.entries.join(first, "unit")
            .withColumn("id", F.col("first") + F.col("row"))
            .select(*SHARES)
            .repartition(-(-len(cut.deal.cost_s) // per_file), (F.col("share") / per_file).cast("int"))
            .sortWithinPartitions("share", "id")
        )
        path = self.directory / PLAN
        written = rows.mapInArrow(lambda batches: write_share_files(batches, path, per_file), "entries long")
        if sum(row.entries for row in written.collect()) != files:
            raise LocalFault(f"the plan in {path} is not whole; prepare the manifest again")
        return msgspec.structs.replace(
            plan,
            hosts=cut.hosts,
            host_files=cut.host_files,
            shares_per_file=per_file,
            cost_s=cut.deal.cost_s,
            floors_s=cut.floors_s,
        )

    def _find_headers(
        self, units: Sequence[ReadUnit], reports: Sequence[UnitReport]
    ) -> tuple[Headers, list[Headers], list[int | None]]:
        """The headers of all entries; lists of headers that differ by manifest; and each unit's list."""
        of_source: dict[int, Headers] = {}
        for report in reports:
            of_source.setdefault(units[report.number].source, report.headers)
        distinct = list(dict.fromkeys(of_source.values()))
        if len(distinct) <= 1:
            return distinct[0] if distinct else (), [], [None] * len(units)
        number_of = {headers: number for number, headers in enumerate(distinct)}
        return (), distinct, [number_of[of_source[unit.source]] for unit in units]


def _group(units: Iterable[ReadUnit]) -> list[list[ReadUnit]]:
    return group_into_tasks(units, lambda unit: unit.size_bytes / UNIT_BYTES)


def _read_staged(staged: Path, columns: list[str]) -> Iterator[RecordBatch]:
    """The rows of the files that Spark's tasks have written, in their order."""
    for path in sorted(staged.glob("part-*.parquet")):
        with on_disk(path), path.open("rb") as file:
            yield from ParquetFile(file).iter_batches(WRITE_ROWS, columns=columns)
