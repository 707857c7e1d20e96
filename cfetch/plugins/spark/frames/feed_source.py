"""``spark.readStream.format("cfetch.feed")``: the changes of a feed as rows, which ``download`` takes.

Spark has no source for feeds. It runs the reader in a process of its own beside the driver, for as long as
the query lives. An offset is the number of the newest manifest that the feed's changes were written to
(``feed_pull.py``). A manifest never changes, so a trigger that Spark repeats has the same rows.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from cfetch.base.config.wire import NetworkOptions
from cfetch.base.errors import ConfigError
from cfetch.base.secret import printable
from cfetch.plugins.follow.journal import locate_journal
from cfetch.plugins.follow.server.segments.index import INDEX_NAME
from cfetch.plugins.spark.frames.feed_pull import COLUMNS, FeedPuller, FeedRow
from cfetch.plugins.spark.frames.options import adopt_variables, name_source, read_options

MOST_CHANGES = "10000"  # of a trigger, if no limit is given: they are in the memory of the driver
ROWS = 1000  # of a partition: Spark warns of tasks with more than a mebibyte
_OWN = ("feed", "state", "maxfilespertrigger")
_KNOWN = {*_OWN, *NetworkOptions.__struct_fields__}
Offset = dict[str, int]


class FeedDataSource(DataSource):
    """The format ``cfetch.feed``, as docs/data-source.md has it. ``variables``: see ``adopt_variables``."""

    variables: Mapping[str, str] = MappingProxyType({})

    @classmethod
    def name(cls) -> str:
        """The name for ``format``."""
        return "cfetch.feed"

    def schema(self) -> str:
        """The columns. Raises ConfigError."""
        self._make_puller()
        return COLUMNS

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: ARG002, N802 - Spark's names
        """Make the reader."""
        return FeedReader(self._make_puller())

    def _make_puller(self) -> FeedPuller:
        adopt_variables(self.variables)
        given = name_source(self.options, "feed", "path")
        for key in given:
            if key.removesuffix("_url") not in _KNOWN:
                raise ConfigError(
                    f"option {printable(key)} means nothing to cfetch.feed, which only gives rows: known are "
                    f"{', '.join(_OWN)} and the settings of the network; give those of a download to "
                    "cfetch.spark.download, which takes the rows"
                )
        state = given.pop("state", "")
        if not state.startswith("/"):
            raise ConfigError(
                "option state must be the absolute path of a directory of the driver's, which keeps how far "
                "the feed was read"
            )
        options = read_options({**given, "to": state}, "maxfilespertrigger", needed="feed")
        feed, most = options.own["feed"], options.own.get("maxfilespertrigger", MOST_CHANGES)
        if not re.fullmatch("[1-9][0-9]{0,8}", most):
            raise ConfigError("option maxFilesPerTrigger must be a whole number from 1")
        if "://" not in feed and not (Path(feed) / INDEX_NAME).is_file():
            raise ConfigError(
                f"{printable(feed)} is not a feed: of a directory of manifests Spark's own stream makes rows "
                "(spark.readStream.schema(…).json(directory)), which cfetch.spark.download takes"
            )
        directory = locate_journal(Path(state), feed, ())
        return FeedPuller(directory, feed, options.settings, options.env, int(most))


class FeedRows(InputPartition):
    """Some rows of a trigger. They travel in the job, so that only the driver needs to see the manifests."""


class FeedReader(DataSourceStreamReader):
    """Reads what ``puller`` brings."""

    def __init__(self, puller: FeedPuller) -> None:
        self._puller = puller

    def initialOffset(self) -> Offset:  # noqa: N802 - as all of these, Spark's name
        """The offset before any change was read."""
        return {"manifest": 0}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Nothing is to be done: such a run ends when a trigger brings nothing new."""

    def latestOffset(self, start: Offset | None = None, limit: object = None) -> Offset:  # noqa: ARG002, N802
        """The offset after the feed's news. Spark 4.0 and 4.1 give no ``start``, so it is not needed.

        Raises UsageError, SourceError, FeedError, Held, LocalFault.
        """
        return {"manifest": self._puller.pull_next()}

    def partitions(self, start: Offset, end: Offset) -> list[InputPartition]:
        """The rows between two offsets, always the same ones. Raises UsageError, LocalFault."""
        rows = self._puller.read_rows(start["manifest"], end["manifest"])
        return [FeedRows(rows[first : first + ROWS]) for first in range(0, len(rows), ROWS)]

    def read(self, partition: InputPartition) -> Iterator[FeedRow]:
        """The rows of a partition."""
        return iter(partition.value)

    def commit(self, end: Offset) -> None:
        """Remove the manifests before ``end``."""
        self._puller.forget(end["manifest"])


with suppress(ImportError):  # before Spark 4.2 a run of availableNow is one trigger
    from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow

    SupportsTriggerAvailableNow.register(FeedReader)
