"""The same download as a job on Spark, and other uses of Spark. Only this room knows PySpark.

The plan is cut, followed and settled by ``tasks/shares/``, as for processes of one machine. Spark carries
neither bodies nor rows of files: a task reads its share from disk and leaves a receipt.

::

    driver   write the open shares                  share_files.py, open_shares.py
             look at all executors of a cluster     preflight.py
             count slots, tag and end jobs          job.py
             implement the port of ``tasks/shares/driver.py``: one        cluster_run.py
             action, a task for each share
             with several volumes: deal shares out  dealer.py, placed_run.py
    task     with several volumes: ask for shares   claiming.py

Read in this order: ``share_files.py`` (shares on disk), ``open_shares.py``, ``work.py`` (a task for each
item), ``job.py``, ``cluster_run.py``, ``dealer.py``, ``claiming.py``, ``placed_run.py``. ``session.py`` finds
or makes the session, ``schemas.py`` has columns as Spark and pyarrow take them, ``pack.py`` makes the archive
for workers. Rooms within: ``prepare/`` (manifests that no machine holds), ``frames/`` (data sources,
``download``), ``tables/`` (metrics of runs). ``engine.py`` is what the core asks for when it is told
``--engine spark``; ``verb_spark.py`` and ``verb_metrics.py`` are its verbs.

When it fails: a task that dies begins again on any executor and skips the files that are in place; with
several volumes its connection to the driver tells its death, and its share is dealt out again. After a dead
driver, the same command continues the plan.
"""

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from cfetch.plugins.spark.frames.download import download

__all__ = ["download", "register"]


def __getattr__(name: str) -> object:
    """Import ``download`` when it is used first: other parts of this room load without the engine."""
    if name == "download":
        from cfetch.plugins.spark.session import require_libraries

        require_libraries()
        from cfetch.plugins.spark.frames.download import download

        return download
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def register(spark: "SparkSession") -> None:
    """Make the formats of docs/data-source.md and docs/spark-download.md known to a session.

    Spark looks the format of a write up in the session that is active in the writing thread, and a thread
    begins without one. So a thread that writes calls this too: it makes ``spark`` the active session there.

    The formats have the variables of stores, proxies and settings (``CFETCH_…``) that the environment has
    now; call this again after a change.

    Raises:
        UsageError: PySpark is missing or too old, or the Python that Spark starts has no cfetch.
    """
    from cfetch.plugins.spark.preflight import check_planning_python
    from cfetch.plugins.spark.session import OLDEST_SOURCES, refuse_older_spark, spark_session

    with spark_session(None, spark) as session:
        refuse_older_spark(OLDEST_SOURCES, "a data source of cfetch")
        from cfetch.plugins.spark.frames.feed_source import FeedDataSource
        from cfetch.plugins.spark.frames.frame_hub import open_frame_hub
        from cfetch.plugins.spark.frames.options import pick_variables
        from cfetch.plugins.spark.frames.shard_sink import ParquetSink, WebdatasetSink
        from cfetch.plugins.spark.frames.source import FilesSource
        from cfetch.plugins.spark.job import count_slots, find_context

        hub = open_frame_hub(session)
        given: dict[str, object] = {
            "slots": count_slots(session),
            "hub": None if hub is None else hub.address,
        }
        is_here = find_context(session) is not None  # with Connect the sources are planned on a server
        given["variables"] = dict(pick_variables(os.environ)) if is_here else {}
        for source in (FilesSource, FeedDataSource, WebdatasetSink, ParquetSink):
            # with what no source can ask a session for
            _register_source(session, type(source.__name__, (source,), given))
        if is_here:
            session.createDataFrame([], "id long")  # the only public call that makes a session active
        check_planning_python(session)


def _register_source(session: "SparkSession", source: type) -> None:
    """Register a format, in place of what the session has under its name.

    Spark 4.0 does not replace the one that it has found by itself, which does the same with fewer shares.
    """
    from cfetch.plugins.spark.session import name_condition

    try:
        session.dataSource.register(source)
    except Exception as error:
        if name_condition(error) != "DATA_SOURCE_ALREADY_EXISTS":
            raise
