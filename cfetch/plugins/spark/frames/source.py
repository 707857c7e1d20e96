"""``spark.read.format("cfetch")``: a manifest as a data frame, with a row for each file.

``load`` freezes the manifest, on the driver. A partition is a share of it; reading a partition brings the
share, or those of its files that ``only`` selects, unless that was done before, and then returns a row for
each of them.
"""

from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from types import MappingProxyType
from urllib.parse import parse_qsl, quote, urlencode

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from cfetch.base.errors import ConfigError
from cfetch.plugins.spark.frames.frame import FrameState, load_frame
from cfetch.plugins.spark.frames.once import bring_share_once
from cfetch.plugins.spark.frames.options import (
    adopt_variables,
    holds_secrets,
    may_hold_secrets,
    name_source,
    read_options,
)
from cfetch.plugins.spark.frames.rows import FileRow, list_columns, make_arrow_batches
from cfetch.plugins.spark.schemas import ddl
from cfetch.tasks.hub.messages import HubAddress


class FilesSource(DataSource):
    """The format ``cfetch``, as docs/data-source.md has it. ``slots``: how many tasks run at a time.

    ``variables``: of the program's environment, see ``adopt_variables``.
    """

    slots = 2
    hub: HubAddress | None = None
    variables: Mapping[str, str] = MappingProxyType({})
    _frame: FrameState | None = None

    @classmethod
    def name(cls) -> str:
        """The name for ``format``."""
        return "cfetch"

    def schema(self) -> str:
        """The columns. Spark asks once, in ``load``, so this freezes the manifest and raises its faults.

        Raises UsageError, LocalFault.
        """
        if "provider" not in self.options:
            return ddl(self._load(self.options))
        options = _read_table_options(self.options)
        # Spark gives a table's options to nobody but this function, and keeps the comment of a column.
        kept = urlencode(options, safe="/:", quote_via=quote)
        columns = self._load(options)
        columns["id"] += f" COMMENT '{kept}'"
        return ddl(columns)

    def reader(self, schema: StructType) -> "FilesReader":
        """Make a reader, for each action, of the frame that ``schema`` has kept.

        For a table of SQL, Spark has kept the columns since the table was made, and does not ask for them.
        """
        if self._frame is None:
            kept = schema.fields[0].metadata.get("comment", "") if schema.fields else ""
            columns = self._load(dict(parse_qsl(kept, keep_blank_values=True)) | dict(self.options))
            if list(columns.items()) != [(field.name, field.dataType.simpleString()) for field in schema]:
                raise ConfigError("the columns are the data source's own; leave .schema(...) out")
        assert self._frame is not None
        return FilesReader(self._frame)

    def _load(self, given: Mapping[str, str]) -> dict[str, str]:
        """Freeze the manifest. Returns the columns with their types."""
        adopt_variables(self.variables)
        options = read_options(name_source(given, "manifest", "path"), "only", needed="manifest")
        self._frame = load_frame(options.own["manifest"], options, slots=self.slots, hub=self.hub)
        return list_columns(content=options.content_bytes is not None)


def _read_table_options(properties: Mapping[str, str]) -> dict[str, str]:
    """The options of a table among its properties. Raises ConfigError: one of them may hold a secret."""
    start = "option."
    options = {key.removeprefix(start): value for key, value in properties.items() if key.startswith(start)}
    if properties.get("path"):
        options["path"] = properties["path"]
    named = {key.removesuffix("_url"): value for key, value in options.items()}
    if any(may_hold_secrets(*item) for item in named.items()) or any(map(holds_secrets, options.values())):
        raise ConfigError(
            "an option of CREATE TABLE is a header, a refresh command, or a URL with a query or a login, and "
            "Spark has written them all to its event log; get a new one, and make a temporary view with "
            "manifest_url, header_url or bearer_env"
        )
    return options


class ShareNumber(InputPartition):
    """The number of a share of the frame, from 0."""


class FilesReader(DataSourceReader):
    """Reads one frame; it goes to the executors, with the secrets that a task needs.

    It takes no filters of queries: Spark 4.1 to 4.3 applies those of one query to others of the same frame,
    and to both sides of a union.
    """

    def __init__(self, frame: FrameState) -> None:
        self._frame = frame

    def partitions(self) -> list[InputPartition]:
        """One partition for each share."""
        return [ShareNumber(number) for number in range(self._frame.shares.count)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read on an executor.

        No row is returned before the share is over, so a reader that stops early does not interrupt it.

        Raises:
            LocalFault: this executor cannot do the work.
        """
        frame, number = self._frame, partition.value
        if number is None:  # Spark passes this if there are no partitions
            return
        share = frame.read_share(number)
        if frame.only is not None:
            wanted = [entry for entry in share.entries if fnmatchcase(entry.path, frame.only)]
            share = share._replace(entries=wanted)
        if not share.entries:
            return
        records = bring_share_once(frame.spec, share, number)
        digests = {entry.id: entry.digest for entry in share.entries}
        rows = (FileRow(record.id, digests.get(record.id), record) for record in records)
        yield from make_arrow_batches(
            rows, Path(frame.spec.destination.root), content_bytes=frame.content_bytes
        )
