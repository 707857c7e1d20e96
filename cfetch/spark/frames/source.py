"""``spark.read.format("cfetch")``: a manifest as a data frame, with a row for each file.

``load`` freezes the manifest, on the driver. A partition is a share of it; reading a partition brings the
share, or those of its files that ``only`` selects, unless that was done before, and then returns a row for
each of them.
"""

import re
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from cfetch.errors import ConfigError
from cfetch.run.open_manifest import is_url
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
        if "provider" not in self.options:
            return self._load(self.options)
        options = _read_table_options(self.options)
        # Spark gives a table's options to nobody but this function, and keeps the comment of a column.
        kept = urlencode(options, safe="/:", quote_via=quote)
        return self._load(options).replace("id long", f"id long COMMENT '{kept}'", 1)

    def reader(self, schema: StructType) -> "FilesReader":
        """Make a reader, for each action, of the frame that ``schema`` has kept.

        For a table of SQL, Spark has kept the columns since the table was made, and does not ask for them.
        """
        if self._frame is None:
            kept = schema.fields[0].metadata.get("comment", "") if schema.fields else ""
            columns = self._load(dict(parse_qsl(kept, keep_blank_values=True)) | dict(self.options))
            if _list_names(columns) != schema.fieldNames():
                raise ConfigError("the columns are the data source's own; leave .schema(...) out")
        assert self._frame is not None
        return FilesReader(self._frame)

    def _load(self, given: Mapping[str, str]) -> str:
        options = read_options(_name_manifest(given), "only", needed="manifest")
        self._frame = load_frame(options.own["manifest"], options, slots=self.slots)
        return COLUMNS if options.content_bytes is None else f"{COLUMNS}, {CONTENT}"


def _list_names(columns: str) -> list[str]:
    """The names of columns. Spark's own reader of such a text needs a session, which there is not here."""
    return [column.split()[0] for column in re.sub("<.*?>", "", columns).split(", ")]


def _read_table_options(properties: Mapping[str, str]) -> dict[str, str]:
    """The options of a table among its properties. Raises ConfigError: one of them may hold a secret."""
    start = "option."
    options = {key.removeprefix(start): value for key, value in properties.items() if key.startswith(start)}
    if properties.get("path"):
        options["path"] = properties["path"]
    if "header" in options or any(map(_holds_secrets, options.values())):
        raise ConfigError(
            "an option of CREATE TABLE is a header, or a URL with a query or a login, and Spark has written "
            "them all to its event log; get a new one, and make a temporary view with manifest_url or "
            "bearer_env"
        )
    return options


def _name_manifest(options: Mapping[str, str]) -> dict[str, str]:
    """The options with ``manifest``, which may be called ``manifest_url``, or be the argument of ``load``."""
    given = {name: options[name] for name in ("manifest", "manifest_url", "path") if options.get(name)}
    if len(given) > 1:
        raise ConfigError(f"options {' and '.join(given)} name the manifest twice; give one of them")
    others = {key: value for key, value in options.items() if key not in given}
    for name, value in given.items():
        if name != "manifest_url" and _holds_secrets(value):
            raise ConfigError(
                f"option {name} is a URL with a query or a login, and Spark writes this option of SQL to its "
                "event log; get a new link, and call it manifest_url, which Spark redacts"
            )
        others["manifest"] = value
    return others


def _holds_secrets(text: str) -> bool:
    """Whether it is a URL with a part that ``SecretUrl`` never shows."""
    if not is_url(text):
        return False
    try:
        parts = urlsplit(text)
    except ValueError:
        return True
    return bool(parts.query) or "@" in parts.netloc


class ShareNumber(InputPartition):
    """The number of a share of the frame, from 0."""


class FilesReader(DataSourceReader):
    """Reads one frame; it goes to the executors, with the secrets that a task needs.

    It takes no filters of queries: Spark 4.1 to 4.3 applies those of one query to others of the same frame,
    and to both sides of a union.
    """

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
        share = frame.read_share(number)
        if frame.only is not None:
            wanted = [entry for entry in share.entries if fnmatchcase(entry.path, frame.only)]
            share = share._replace(entries=wanted)
        if not share.entries:
            return
        records = bring_share_once(frame.spec, share, number, task=number)
        digests = {entry.id: entry.digest for entry in share.entries}
        rows = (FileRow(record.id, digests.get(record.id), record) for record in records)
        yield from make_arrow_batches(rows, Path(frame.spec.place.root), content_bytes=frame.content_bytes)
