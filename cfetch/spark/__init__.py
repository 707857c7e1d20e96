"""The same download as a job on Spark, and other uses of Spark. Only this room knows PySpark.

The plan is cut, followed and settled by ``cfetch/shares/``, as for processes of one machine. Spark carries
neither bodies nor rows of files: a task reads its share from disk and leaves a receipt.

::

    driver   write the open shares                  share_files.py, open_shares.py
             start one action, a task for each      job.py
             implement the port of ``cfetch/shares/driver.py``      cluster_run.py

Read in this order: ``share_files.py`` (shares on disk), ``open_shares.py``, ``job.py``, ``cluster_run.py``.
``session.py`` finds or makes the session, ``table_writer.py`` writes Parquet. Rooms within: ``prepare/``
(manifests that no machine holds), ``frames/`` (data sources), ``tables/`` (metrics of many runs).
``replay_job.py`` is the half of ``cfetch tune`` that runs on Spark.

When it fails: a task that dies begins again on any executor and skips the files that are in place; after a
dead driver, the same command continues the plan.
"""

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

        for source in (FilesSource, FeedSource):  # neither can ask a session for its slots
            session.dataSource.register(type(source.__name__, (source,), {"slots": count_slots(session)}))
