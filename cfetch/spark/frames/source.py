"""``spark.read.format("cfetch")``: a manifest as a data frame, with a row for each file.

``load`` freezes the manifest, on the driver. A partition is a share of it; reading a partition brings the
share, unless that was done before, and then returns a row for each of its files.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from cfetch.errors import ConfigError
from cfetch.spark.frames.frame import Frame, load_frame
from cfetch.spark.frames.once import bring_share_once
from cfetch.spark.frames.options import read_options
from cfetch.spark.frames.rows import COLUMNS, CONTENT, FileRow, make_arrow_batches

if TYPE_CHECKING:
    import pyarrow as pa


class FilesSource(DataSource):
    """The format ``cfetch``, as docs/data-source.md has it. ``slots``: how many tasks run at a time."""

    slots = 2
    _frame: Frame | None = None

    @classmethod
    def name(cls) -> str:
        """The name for ``format``."""
        return "cfetch"

    def schema(self) -> str:
        """The columns. Spark asks once, in ``load``, so this freezes the manifest and raises its faults.

        Raises UsageError, LocalFault.
        """
        options = read_options(_name_manifest(self.options), needed="manifest")
        self._frame = load_frame(options.own["manifest"], options, slots=self.slots)
        return COLUMNS if options.content_bytes is None else f"{COLUMNS}, {CONTENT}"

    def reader(self, schema: StructType) -> "FilesReader":
        """Make a reader, for each action, of the frame that ``schema`` has kept.

        For a table of SQL, Spark has kept the columns since the table was made, and does not ask for them.
        """
        if self._frame is None and _list_names(self.schema()) != schema.fieldNames():
            raise ConfigError("the columns are the data source's own; leave .schema(...) out")
        assert self._frame is not None
        return FilesReader(self._frame)


def _list_names(columns: str) -> list[str]:
    """The names of columns. Spark's own reader of such a text needs a session, which there is not here."""
    return [column.split()[0] for column in re.sub("<.*?>", "", columns).split(", ")]


def _name_manifest(options: Mapping[str, str]) -> dict[str, str]:
    """The options with ``manifest``, which may be called ``manifest_url``, or be the argument of ``load``."""
    given = {name: options[name] for name in ("manifest", "manifest_url", "path") if options.get(name)}
    if len(given) > 1:
        raise ConfigError(f"options {' and '.join(given)} name the manifest twice; give one of them")
    others = {key: value for key, value in options.items() if key not in given}
    for value in given.values():
        others["manifest"] = value
    return others


class ShareNumber(InputPartition):
    """The number of a share of the frame, from 0."""


class FilesReader(DataSourceReader):
    """Reads one frame; it goes to the executors, with the secrets that a task needs."""

    def __init__(self, frame: Frame) -> None:
        self._frame = frame

    def partitions(self) -> list[InputPartition]:
        """One partition for each share."""
        return [ShareNumber(number) for number in range(self._frame.shares.count)]

    def read(self, partition: InputPartition) -> Iterator["pa.RecordBatch"]:
        """Read on an executor.

        No row is returned before the share is over, so a reader that stops early does not interrupt it.

        Raises:
            LocalFault: this executor cannot do the work.
        """
        frame, number = self._frame, partition.value
        if number is None:  # Spark passes this if there are no partitions
            return
        share = frame.shares.read_share(number)
        records = bring_share_once(frame.spec, share, number, task=number)
        digests = {entry.id: entry.digest for entry in share.entries}
        rows = (FileRow(record.id, digests.get(record.id), record) for record in records)
        yield from make_arrow_batches(rows, Path(frame.spec.place.root), content_bytes=frame.content_bytes)
