"""Downloads as jobs and as data sources on Spark, and what many runs tell; nothing else knows PySpark."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["register"]


def register(spark: "SparkSession") -> None:
    """Make the formats ``cfetch`` and ``cfetch.feed`` known to a session.

    Raises:
        UsageError: PySpark is missing or too old.
    """
    from cfetch.spark.session import spark_session

    with spark_session(None, spark) as session:
        from cfetch.spark.frames.feed_source import FeedSource
        from cfetch.spark.frames.source import FilesSource
        from cfetch.spark.job import count_slots

        for source in (FilesSource, FeedSource):  # neither has a session of its own to ask
            session.dataSource.register(type(source.__name__, (source,), {"slots": count_slots(session)}))
