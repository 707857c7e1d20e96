"""``spark.readStream.format("cfetch.feed")``: a feed, or a directory of manifests, as a stream of files.

An offset states for each manifest how many of its lines, and bytes, were read. A trigger takes all new lines,
or a fair part of them for each manifest; spans of lines are the partitions, and the same offsets give the
same spans. A span is a share that is brought once (``once``), so a trigger that Spark repeats after a crash
downloads nothing again. Its receipt is removed when Spark has committed it.
"""

import re

from pyspark.sql.datasource import DataSource, DataSourceStreamReader
from pyspark.sql.types import StructType

from cfetch.base.errors import ConfigError
from cfetch.plugins.spark.frames.feed_spans import is_feed, open_feed_state
from cfetch.plugins.spark.frames.options import Options, name_source, read_options
from cfetch.plugins.spark.frames.rows import list_columns
from cfetch.plugins.spark.schemas import ddl
from cfetch.plugins.spark.session import refuse_older_spark
from cfetch.tasks.hub.messages import HubAddress

OLDEST_SPARK = (4, 2)  # the first version that limits what a trigger takes from a Python source


class FeedDataSource(DataSource):
    """The format ``cfetch.feed``, as docs/data-source.md has it. ``slots``: how many tasks run at a time."""

    slots = 2
    hub: HubAddress | None = None

    @classmethod
    def name(cls) -> str:
        """The name for ``format``."""
        return "cfetch.feed"

    def schema(self) -> str:
        """The columns. Raises ConfigError."""
        content = self._read_options().content_bytes is not None
        return ddl(list_columns(content=content, manifest=True))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: ARG002, N802 - Spark's names
        """Make the reader. Raises UsageError, LocalFault."""
        refuse_older_spark(OLDEST_SPARK, self.name())
        from cfetch.plugins.spark.frames.feed_pull import FeedPuller
        from cfetch.plugins.spark.frames.feed_reader import FeedReader, PulledReader

        options = self._read_options()
        text = options.own.get("maxfilespertrigger")
        most = None if text is None else int(text)
        feed = open_feed_state(options, slots=self.slots, hub=self.hub)
        if is_feed(options.own["feed"]):
            puller = FeedPuller(feed.path, options.own["feed"], options.settings, options.env)
            return PulledReader(feed, most, puller)
        return FeedReader(feed, most)

    def _read_options(self) -> Options:
        given = name_source(self.options, "feed", "path")
        options = read_options(given, "maxfilespertrigger", needed="feed")
        most = options.own.get("maxfilespertrigger", "1")
        if not re.fullmatch("[1-9][0-9]{0,8}", most):
            raise ConfigError("option maxFilesPerTrigger must be a whole number from 1")
        if not (options.own["feed"].startswith("/") or is_feed(options.own["feed"])):
            raise ConfigError(
                "option feed must name a feed, or the absolute path of a directory that all executors see"
            )
        return options
