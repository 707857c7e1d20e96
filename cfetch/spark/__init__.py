"""The same download as a job on Spark, and Spark's other uses. Nothing outside this room knows PySpark.

A *share* is the part of a plan that one Spark task brings. Spark carries neither bodies nor rows of files:
a task reads its share from disk, runs the pool of a local run over it, and leaves a *receipt* that the
driver reads. So dashboard, metrics, summary and exit codes are those of a run on one machine.

::

    driver   cut the plan into shares by expected seconds        shares.py, share_files.py, open_shares.py
             start one action, a task for each share             job.py
             until the job is over: read new receipts, emit      cluster_run.py, live_view.py
             their events, show the hub's view, sweep orphans    orphans.py
             commit the plan if every entry is in place
    task     bring the share, report, leave its receipt          task.py

Read in this order: ``shares.py`` (pure: how a plan is cut), ``share_files.py`` (shares on disk),
``cfetch/hub/receipts.py``, ``task.py``, ``job.py``, ``cluster_run.py``. ``session.py`` finds or makes the
session, ``table_writer.py`` writes Parquet. Rooms within: ``prepare/`` (manifests that no machine holds),
``frames/`` (data sources), ``tables/`` (metrics of many runs). ``replay_job.py`` is the half of ``cfetch
tune`` that runs on Spark.

When it fails: a file is published by one rename, and a share is over when its receipt is linked into place,
so whatever has no receipt is brought again and nothing else. A task that dies begins again and passes over
the files that are in place; of two copies of a task the first receipt counts; a dead driver is followed by
the same command. A run that was given up for dead can publish nothing: its directory is gone
(``cfetch/timeline/``).

Where to change: a task commits its work in ``_Reporter.leave_last`` in ``task.py``, by ``leave_receipt`` in
``cfetch/hub/receipts.py``.
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

        for source in (FilesSource, FeedSource):  # neither has a session of its own to ask
            session.dataSource.register(type(source.__name__, (source,), {"slots": count_slots(session)}))
