"""``df.write.format("cfetch.webdataset")`` and ``"cfetch.parquet"``: a frame of URLs as shards of files.

Spark's protocol of commits in two phases: each task stages its shards, and the driver publishes all of them
when all tasks are over, or none.
"""

import hashlib
import sys
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from cfetch.base.errors import ConfigError
from cfetch.base.secret import printable
from cfetch.manifest.digests import HEX_DIGITS
from cfetch.plugins.spark.frames.frame import make_run_spec
from cfetch.plugins.spark.frames.options import Options, adopt_variables, read_options
from cfetch.plugins.spark.frames.pieces import (
    SCRATCH,
    PieceWork,
    cut_pieces,
    list_results,
    refuse_taken_names,
    refuse_unfit_columns,
)
from cfetch.plugins.spark.frames.shards import (
    ShardJob,
    finish_publishing,
    group_shards,
    open_stage,
    publish_shards,
    stage_shards,
)
from cfetch.plugins.spark.frames.task_log import TaskTally
from cfetch.plugins.spark.job import name_executor
from cfetch.plugins.spark.work import current_task
from cfetch.show.format import plural
from cfetch.tasks.hub.messages import HubAddress
from cfetch.tasks.shares.work import Turn

FILES_PER_SHARD = 1000  # some 100 MB of pictures; an executor holds a shard's files twice while it writes


@dataclass
class StagedShards(WriterCommitMessage):
    """The names of a task's shards in the stage, and what it has brought for them."""

    partition: int
    names: list[str]
    tally: TaskTally


class WebdatasetSink(DataSource):
    """The format ``cfetch.webdataset``, as docs/spark-download.md has it. ``slots``: tasks at a time.

    ``variables``: see ``adopt_variables``.
    """

    slots = 2
    hub: HubAddress | None = None
    variables: Mapping[str, str] = MappingProxyType({})
    is_tar = True

    @classmethod
    def name(cls) -> str:
        """The name for ``format``."""
        return "cfetch.webdataset"

    def writer(self, schema: StructType, overwrite: bool) -> "ShardWriter":
        """Make a writer. Raises UsageError, LocalFault."""
        adopt_variables(self.variables)
        given = dict(self.options)
        if "to" in given:
            raise ConfigError("option to means nothing here: the shards go to the path of save(path)")
        given |= {"to": given.get("path", "")}
        if not self.is_tar:
            given["content"] = "true"
        elif {"content", "content_limit"} & set(given):
            raise ConfigError("option content_limit is of cfetch.parquet; a tar file takes files of any size")
        options = read_options(
            given, "files_per_shard", "headers_column", "key", needed="path", takes_store=True
        )
        columns = _choose_columns(options, schema)
        taken = list_results(content=not self.is_tar)
        if columns.get("path") == "path":
            del taken["path"]
        refuse_taken_names(schema.names, taken)
        files = options.own.get("files_per_shard", str(FILES_PER_SHARD))
        if not (files.isascii() and files.isdecimal() and 1 <= int(files) <= 1_000_000):
            raise ConfigError("option files_per_shard must be a whole number from 1 to 1000000")
        store, root = None, options.root
        if options.is_store:
            from cfetch.plugins.spark.frames.shard_store import ShardStore  # obstore is an extra

            settings = options.settings
            store, root = ShardStore(settings.to[0], options.env, settings.write_timeout), Path(SCRATCH)
        spec = make_run_spec(
            options, root / f"shards-{uuid.uuid4().hex}", "a data frame", slots=self.slots, hub=self.hub
        )
        work = PieceWork(options, spec, columns, is_scratch=True, makes=False, sharers=self.slots)
        job = open_stage(ShardJob(work, root, self.is_tar, store))
        key = options.own.get("key")
        key = None if key is None else hashlib.sha256(key.encode()).hexdigest()
        is_over = key is not None and finish_publishing(job, key)
        return ShardWriter(job, int(files), overwrite=overwrite, key=key, is_over=is_over)


class ParquetSink(WebdatasetSink):
    """The format ``cfetch.parquet``: the bytes are a column of the table."""

    is_tar = False

    @classmethod
    def name(cls) -> str:
        """The name for ``format``."""
        return "cfetch.parquet"


def _choose_columns(options: Options, schema: StructType) -> dict[str, str]:
    """A manifest's key -> the frame's column. Raises UsageError."""
    settings = options.settings
    if isinstance(settings.url_column, tuple):
        raise ConfigError("url_column names several columns; a frame has one row for each file")
    columns = {
        "url": settings.url_column or "url",
        "path": settings.path_column,
        "size": settings.size_column,
        "headers": options.own.get("headers_column"),
    }
    chosen = {key: name for key, name in columns.items() if name is not None}
    hashes: dict[str, str] = {}
    if settings.hash_column:
        algorithm, _, column = settings.hash_column.partition("=")
        if algorithm not in HEX_DIGITS or not column:
            raise ConfigError(
                "option hash_column is ALGORITHM=COLUMN, such as sha256=digest; cfetch knows "
                f"{', '.join(HEX_DIGITS)}"
            )
        hashes[algorithm] = column
    fields = [(field.name, field.dataType.simpleString()) for field in schema]
    refuse_unfit_columns(chosen, fields, "option {0}_column")
    refuse_unfit_columns(hashes, fields, "option hash_column={0}=…")
    return chosen | hashes


class ShardWriter(DataSourceArrowWriter):
    """Writes one frame; it goes to the executors, with the secrets that a task needs."""

    def __init__(
        self, job: ShardJob, files_per_shard: int, *, overwrite: bool, key: str | None, is_over: bool
    ) -> None:
        """``is_over``: a job with the same ``key`` has written these shards, so this one writes nothing."""
        self._key = key
        self._is_over = is_over
        self._job = job
        self._files_per_shard = files_per_shard
        self._overwrite = overwrite

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Stage the shards of a partition, on an executor. Raises LocalFault."""
        context = current_task()
        partition, task = context.partitionId(), context.taskAttemptId()
        if self._is_over:
            return StagedShards(partition, [], TaskTally())
        turn = Turn(partition, task, context.attemptNumber(), name_executor())
        pieces = enumerate(cut_pieces(iterator, self._files_per_shard))
        groups = group_shards((f"{partition:05d}-{number:05d}", table) for number, table in pieces)
        tally = TaskTally()
        job = self._job._replace(work=self._job.work._replace(totals=tally))
        names = [name for group in groups for name in stage_shards(job, group, turn=turn)]
        return StagedShards(partition, names, tally)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Publish all shards, in the order of partitions, and log it. Raises LocalFault."""
        staged = [message for message in messages if isinstance(message, StagedShards)]
        staged.sort(key=lambda message: message.partition)
        names = [name for message in staged for name in message.names]
        new = 0
        if not self._is_over:
            new = publish_shards(self._job, names, overwrite=self._overwrite, key=self._key)
        tally = TaskTally()
        for message in staged:
            tally.add(message.tally)
        # Spark calls this in a process of its own, where nobody has set up logging; it keeps the stream.
        sys.stderr.write(f"cfetch: {self._sum_up(new, len(names) - new, tally)}\n")
        sys.stderr.flush()

    def _sum_up(self, new: int, empty: int, tally: TaskTally) -> str:
        """What this job has done, in a line. ``empty``: how many tables have no shard."""
        options = self._job.work.options
        shown = printable(options.settings.to[0])
        if self._is_over:
            return (
                f"no new shard in {shown}: a job with the key {printable(options.own['key'])!r} has written "
                "there before, so no row was looked at and no file asked for; other rows need another key"
            )
        taken, tally.skipped = tally.skipped, 0
        tables = f" and {plural(empty, 'table')} of rows that all failed" if empty else ""
        before = f"; {taken} of them are from a job or task that died" if taken else ""
        return f"{plural(new, 'new shard')}{tables} in {shown}; this job's files: {tally}{before}"

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Leave whole shards in the stage: the same command finds them."""
