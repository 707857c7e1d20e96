"""Manifests of any size, validated by Spark and frozen as shares in Parquet files.

The driver cuts manifests into units; tasks check their rows by the code of the reader on one machine and
stage them in files; hashes of paths find possible collisions; and the driver divides pieces of hosts among
shares (``prepare.cut``). The driver collects nothing that grows with the entries, only with units and
shares. It uses neither RDDs nor ``sparkContext``. Only the owner can read the files: they hold signed links.
"""

import hashlib
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import accumulate, chain
from pathlib import Path
from typing import NamedTuple, TypeVar

import msgspec
from pyarrow import RecordBatch
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
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
    ReadUnit,
    UnitReport,
    count_lines,
    cut_units,
    read_identities,
    read_unit,
)
from cfetch.plugins.spark.prepare.tasks import (
    JUDGED,
    Numbering,
    judge_places,
    rewrite_units,
    write_share_files,
)
from cfetch.plugins.spark.schemas import ddl
from cfetch.plugins.spark.session import refuse_older_spark
from cfetch.plugins.spark.share_files import shares_per_file
from cfetch.plugins.spark.table_writer import TABLES
from cfetch.plugins.spark.work import explain_failure, group_into_tasks, run_tasks
from cfetch.run.open_manifest import expand_manifests
from cfetch.storage.files import input_fault, make_private, on_disk
from cfetch.storage.group_rights import is_for_group, make_directory
from cfetch.tasks.shares.cut import ExpectedPace

T = TypeVar("T")

UNIT_BYTES = 32 << 20  # some 100,000 rows: a few seconds for a task, which itself costs 50 ms
ROWS_A_TASK = 200_000
OLDEST_SPARK = (4, 1)  # the first with repartitionById, by which a share's rows come to one task
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
        UsageError: a source cannot be read, ``base_url`` is no base URL, or Spark is too old.
        LocalFault: ``directory`` cannot be written, or Spark has failed.
    """
    refuse_older_spark(OLDEST_SPARK, "a manifest that Spark checks and cuts")
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
        shutil.rmtree(preparing.stage, ignore_errors=True)


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

    @property
    def stage(self) -> Path:
        """The directory for tables that only the preparation needs."""
        return self.directory / "stage"

    def run(self, unit_bytes: int, progress: Callable[[int], None] | None) -> PreparedPlan:
        """Run all steps in order."""
        units = self._cut_units(unit_bytes)
        reports = self._read_units(units)
        if progress is not None:
            progress(sum(report.rows for report in reports))
        judged = self._judge_places(units, reports)
        rejected = self._collect_rejected()
        if rejected.rejected:
            _unpersist(judged)
            return rejected
        kept, merged = self._drop_repeats(judged, reports)
        _unpersist(judged)
        headers, own_headers, own_of = self._find_headers(units, kept)
        plan = self._sum_up(kept, headers, own_headers)
        if plan.files:
            plan = self._write_shares(plan, units, kept, own_of)
        plan = msgspec.structs.replace(plan, merged=merged, digest=self._compute_digest(kept))
        save(plan)
        return plan

    def _cut_units(self, unit_bytes: int) -> list[ReadUnit]:
        cut = [
            cut_units(number, path, self.base_url, unit_bytes, self.options)
            for number, path in enumerate(self.sources)
        ]
        units = [msgspec.structs.replace(unit, number=number) for number, unit in enumerate(chain(*cut))]
        counted = [unit for unit in units if unit.end is not None]
        counts = self._run_in_tasks(counted, count_lines, list[int])
        ends = {unit.number: count for unit, count in zip(counted, counts, strict=True)}
        source, line = -1, 1
        for index, unit in enumerate(units):
            line = line if unit.source == source else 1
            units[index], source = msgspec.structs.replace(unit, line=line), unit.source
            line += ends.get(unit.number, 0)
        return units

    def _run_in_tasks(
        self, units: Sequence[ReadUnit], work: Callable[[ReadUnit], T], kind: type[list[T]]
    ) -> list[T]:
        """What ``work`` makes of each unit, in their order."""

        def run(group: Sequence[ReadUnit]) -> list[T]:
            return [work(unit) for unit in group]

        groups = group_into_tasks(units, lambda unit: unit.size_bytes / UNIT_BYTES)
        return list(chain.from_iterable(run_tasks(self.spark, groups, run, kind)))

    def _read_units(self, units: Sequence[ReadUnit]) -> list[UnitReport]:
        """Stage all rows. If a manifest cannot be read to its end, its rest is left out."""
        rejected = self.directory / "rejected"
        read = partial(
            read_unit,
            stage=self.stage,
            rejected=rejected,
            base_url=self.base_url,
            options=self.options,
            folding=self.folding,
        )
        reports = self._run_in_tasks(units, read, list[UnitReport])
        broken: dict[int, int] = {}
        for report in reports:
            if report.usage is not None:
                raise UsageError(report.usage)
            if report.fault is not None:
                raise LocalFault(report.fault)
            source = units[report.number].source
            if source in broken:
                with on_disk(rejected):
                    (rejected / f"rows-{report.number:08d}.parquet").unlink(missing_ok=True)
            elif report.broken:
                broken[source] = report.number
        return [
            report
            for report in reports
            if report.number <= broken.get(units[report.number].source, report.number)
        ]

    def _judge_places(self, units: Sequence[ReadUnit], reports: Sequence[UnitReport]) -> DataFrame | None:
        """Rows of ``JUDGED`` for entries that repeat others or clash; None: no two may want one place."""
        columns = ["key", "unit", "row", "entry"]
        here = self._open_tables("entries", [self._locate_entries(report) for report in reports])
        beneath = [_locate(self.stage, "above", report.number) for report in reports]
        above = self._open_tables("above", beneath).select(*columns, F.lit(0).alias("here"))
        stage = here.select(*columns, F.lit(1).alias("here")).union(above)
        grouped = stage.groupBy("key").agg(F.sum("here").alias("wanted"), F.count("*").alias("total"))
        keys = grouped.where("wanted > 1 or wanted > 0 and total > wanted").select("key").persist()
        try:
            count = keys.count()
            if not count:
                return None
            names = [str(path) for path in self.sources]
            source_of = {unit.number: unit.source for unit in units}
            folding = self.folding

            def work(batches: Iterator[RecordBatch]) -> Iterator[RecordBatch]:
                yield from judge_places(batches, source_of, names, folding)

            rows = stage.join(keys, "key").select("key", "here", "unit", "row", "entry")
            parted = rows.repartition(1 + count // ROWS_A_TASK, "key")
            in_order = parted.sortWithinPartitions("key", "here", "unit", "row")
            judged = in_order.mapInArrow(work, ddl(JUDGED)).persist()
            judged.count()
        finally:
            keys.unpersist()
        return judged

    def _collect_rejected(self) -> PreparedPlan:
        """A plan that holds the number of faults, and the first of them."""
        with on_disk(self.directory):
            paths = sorted((self.directory / "rejected").iterdir())
        if not paths:
            return PreparedPlan(directory=str(self.directory))
        frame = self._open_tables("rejected", [path for path in paths if path.name[0] != "."])
        first = frame.orderBy("source", "line", "reason").limit(KEPT).collect()
        return PreparedPlan(
            directory=str(self.directory),
            rejected=frame.count(),
            first_rejected=[RejectedRow(row.source, row.line, row.reason) for row in first],
        )

    def _drop_repeats(
        self, judged: DataFrame | None, reports: Sequence[UnitReport]
    ) -> tuple[dict[int, UnitReport], int]:
        """Drop entries that repeat others, and mark those that clash.

        Returns the rest of each unit, and how many were dropped.
        """
        kept = {report.number: report for report in reports}
        if judged is None:
            return kept, 0
        units = judged.select("unit").distinct().count()
        stage = self.stage
        parted = judged.repartition(max(1, units), "unit").sortWithinPartitions("unit", "row")
        rows = parted.mapInArrow(lambda batches: rewrite_units(batches, stage), "report binary").collect()
        before = sum(report.rows for report in reports)
        for row in rows:
            report = msgspec.json.decode(row.report, type=UnitReport)
            first = kept[report.number]
            kept[report.number] = msgspec.structs.replace(
                report, headers=first.headers, names_batches=first.names_batches
            )
        return kept, before - sum(report.rows for report in kept.values())

    def _compute_digest(self, kept: dict[int, UnitReport]) -> str:
        """Hash all entries in order; SHA-256 cannot be divided among tasks, but it runs at 1 GB/s."""
        digest = hashlib.sha256()
        for number in sorted(kept):
            for text in read_identities(self._locate_entries(kept[number])):
                digest.update(text)
        return digest.hexdigest()

    def _sum_up(
        self, kept: dict[int, UnitReport], headers: Headers, own_headers: list[Headers]
    ) -> PreparedPlan:
        """What the units together have, before it is divided among shares."""
        reports = kept.values()
        return PreparedPlan(
            directory=str(self.directory),
            files=sum(report.rows for report in reports),
            total_bytes=sum(report.known_bytes for report in reports),
            sizes_unknown=sum(report.unknown for report in reports),
            names_batches=any(report.names_batches for report in reports),
            headers=headers,
            own_headers=own_headers,
        )

    def _write_shares(
        self,
        plan: PreparedPlan,
        units: Sequence[ReadUnit],
        kept: dict[int, UnitReport],
        own_of: list[int | None],
    ) -> PreparedPlan:
        """Divide the entries among shares and write them; the plan with what is known of the shares."""
        files, known, unknown = plan.files, plan.total_bytes, plan.sizes_unknown
        first = list(
            accumulate(
                (kept[number].rows if number in kept else 0 for number in range(len(units))), initial=0
            )
        )
        entries = self._open_tables("entries", [self._locate_entries(report) for report in kept.values()])
        mean = known / (files - unknown) if files > unknown else 1.0
        cutter = ManifestCutter(self.pace, mean, files, known, unknown, self.slots, self.per_host)
        cut = cutter.cut(self.spark, entries)
        per_file = shares_per_file(files, len(cut.deal.cost_s))
        numbering = Numbering(first, own_of, per_file)
        path = self.directory / PLAN
        rows = cut.entries.select("share", "unit", "row", "entry", "host", "size", "sharers")
        parts = -(-len(cut.deal.cost_s) // per_file)
        sorted_rows = rows.repartitionById(parts, (rows.share / per_file).cast("int")).sortWithinPartitions(
            "share", "unit", "row"
        )
        written = sorted_rows.mapInArrow(
            lambda batches: write_share_files(batches, path, numbering), "entries long"
        )
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
        self, units: Sequence[ReadUnit], kept: dict[int, UnitReport]
    ) -> tuple[Headers, list[Headers], list[int | None]]:
        """The headers of all entries; lists of headers that differ by manifest; and each unit's list."""
        of_source: dict[int, Headers] = {}
        for number in sorted(kept):
            of_source.setdefault(units[number].source, kept[number].headers)
        distinct = list(dict.fromkeys(of_source.values()))
        if len(distinct) <= 1:
            return distinct[0] if distinct else (), [], [None] * len(units)
        number_of = {headers: number for number, headers in enumerate(distinct)}
        return (), distinct, [number_of.get(of_source.get(unit.source, ())) for unit in units]

    def _locate_entries(self, report: UnitReport) -> Path:
        """The entries of a unit that are left."""
        kept = _locate(self.stage, "kept", report.number)
        return kept if kept.exists() else _locate(self.stage, "entries", report.number)

    def _open_tables(self, table: str, paths: Sequence[Path]) -> DataFrame:
        """Tables that tasks have written, by Spark's own reader; it takes their names for patterns."""
        names = [f"{FILE}://{_SIGNS.sub(_ESCAPED, str(path))}" for path in paths]
        return self.spark.read.schema(ddl(TABLES[table])).parquet(*names)


def _unpersist(frame: DataFrame | None) -> None:
    if frame is not None:
        frame.unpersist()


def _locate(stage: Path, table: str, number: int) -> Path:
    return stage / f"{table}-{number:08d}.parquet"
