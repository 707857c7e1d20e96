"""Decides which manifests Spark prepares, instead of the reader on one machine, and starts that."""

import shutil
from collections.abc import Callable
from concurrent.futures import wait
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import msgspec

from cfetch.app.engine_plan import LargeManifest
from cfetch.base.errors import Interrupted, UsageError
from cfetch.manifest.formats.detection import detect_format
from cfetch.manifest.source import Source
from cfetch.plugins.spark.job import SETTINGS, cancel_jobs, count_slots, start_thread
from cfetch.plugins.spark.prepare.prepared import PreparedPlan
from cfetch.plugins.spark.session import require_libraries, spark_session
from cfetch.run.signals import listen
from cfetch.storage.files import make_private, on_disk
from cfetch.storage.group_rights import give_files_to_group
from cfetch.tasks.shares.cut import ExpectedPace

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


LARGE_BYTES = 256 << 20  # a million rows and more, which cost the driver 20 s and 0.3 GB
FEW_SLOTS = 4  # Spark takes four times the processor time of one process, so with so few it is no faster,
LARGEST_BYTES = 2 << 30  # and one process prepares up to eight million rows, in 1.5 GB
TABLES = ("csv", "jsonl", "parquet")

T = TypeVar("T")
TAG = "cfetch-preparing"
LOOK_S = 0.25
STOP_LOOKS = 40  # ten seconds for the job's tasks to end


def is_large(path: Path, slots: int | None) -> bool:
    """True for a file in a format of rows, with so many rows that the driver should not hold them.

    ``slots``: how many tasks run at a time; None: it is not known yet, as on a cluster.
    """
    least_bytes = LARGEST_BYTES if slots is not None and slots <= FEW_SLOTS else LARGE_BYTES
    try:
        if path.stat().st_size < least_bytes or not path.is_file():
            return False
        with path.open("rb") as file:
            return detect_format(Source(file, str(path))) in TABLES
    except OSError:  # the reader reports it
        return False


def prepare_on_spark(stack: ExitStack, large: LargeManifest) -> PreparedPlan:
    """Validate the manifest, or all in a directory, and freeze them as shares.

    ``stack`` keeps the session, for the download too.

    Raises:
        ManifestError: the manifests have faults.
        UsageError: they cannot be read or used in a job, or ``base_url`` is no base URL.
        LocalFault: ``large.directory`` cannot be written, or Spark has failed.
        Interrupted: a signal came.
    """
    require_libraries()
    from cfetch.plugins.spark.prepare.manifests import find_manifests, prepare

    settings, directory, rejected = large.settings, large.directory, large.rejected
    state = rejected.parent.parent
    with on_disk(directory):
        make_private(directory, state=state)
    sources = find_manifests([large.manifest])
    spark = stack.enter_context(spark_session(settings.spark_master, settings=SETTINGS))
    plan = run_interruptibly(
        spark,
        lambda: prepare(
            spark,
            sources,
            directory,
            base_url=settings.base_url,
            options=settings.reading,
            slots=count_slots(spark),
            pace=ExpectedPace(concurrency=settings.concurrency),
            per_host=settings.per_host,
            progress=large.progress,
            folding=large.folding,
        ),
    )
    if plan.rejected:
        with on_disk(rejected):
            make_private(rejected.parent, state=state)
            shutil.rmtree(rejected, ignore_errors=True)
            (directory / "rejected").rename(rejected)
            give_files_to_group(rejected.parent)
        plan.raise_if_rejected(sources, kept=rejected)
    if plan.names_batches:
        raise UsageError(
            "the manifest names batches, which are published as a whole; where Spark prepares a manifest of "
            "this size, each file is published by itself: use --engine local, or smaller manifests"
        )
    return msgspec.structs.replace(plan, source=large.name)


def run_interruptibly(spark: "SparkSession", work: Callable[[], T]) -> T:
    """Run ``work`` in a thread of its own, as py4j must not be interrupted while it reads an answer.

    Raises the error of ``work``, or Interrupted; a second signal ends the process.
    """
    signals: list[Interrupted] = []
    with listen(signals.append):
        future = start_thread(spark, work, TAG, "cfetch: check the manifest and cut it")
        while not future.done() and not signals:
            wait([future], LOOK_S)
        if not signals:
            return future.result()
        for _ in range(STOP_LOOKS):  # a job may begin between two looks
            cancel_jobs(spark, TAG)
            if wait([future], LOOK_S).done:
                break
        raise signals[0]
