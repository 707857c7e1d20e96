"""Which manifests Spark prepares in place of the reader on one machine, and how a run starts that."""

import shutil
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import msgspec

from cfetch.config.settings import Settings
from cfetch.errors import UsageError
from cfetch.manifest.formats.detection import detect_format
from cfetch.manifest.source import Source
from cfetch.spark.interruptible import interruptible
from cfetch.spark.job import SETTINGS, count_slots
from cfetch.spark.prepare.manifests import find_manifests, prepare
from cfetch.spark.prepare.prepared import PreparedPlan
from cfetch.spark.session import spark_session
from cfetch.spark.shares import Pace
from cfetch.storage.files import on_disk

__all__ = ["LARGE_BYTES", "is_large", "prepare_on_spark"]

LARGE_BYTES = 256 << 20  # a million rows and more: 20 s of the driver, and 0.3 GB of it to deal them out
TABLES = ("csv", "jsonl", "parquet")


def is_large(path: Path) -> bool:
    """True for a file in a format of rows, with so many rows that the driver should not hold them."""
    try:
        if path.stat().st_size < LARGE_BYTES or not path.is_file():
            return False
        with path.open("rb") as file:
            return detect_format(Source(file, str(path))) in TABLES
    except OSError:  # the reader reports it
        return False


def prepare_on_spark(
    stack: ExitStack,
    manifest: str,
    name: str,
    settings: Settings,
    directory: Path,
    rejected: Path,
    progress: Callable[[int], None] | None = None,
) -> PreparedPlan:
    """The manifest, or all of a directory of them, validated and frozen as shares in ``directory``.

    ``stack`` keeps the session, for the download too. ``name`` is what messages call it, ``rejected`` where
    the table of all faults is put, if there are any.

    Raises:
        ManifestError: the manifests have faults.
        UsageError: they cannot be read, have no place in a job, or ``base_url`` is none.
        LocalFault: ``directory`` cannot be written, or Spark has failed.
        Interrupted: by a signal.
    """
    sources = find_manifests([manifest])
    spark = stack.enter_context(spark_session(settings.spark_master, settings=SETTINGS))
    plan = interruptible(
        spark,
        lambda: prepare(
            spark,
            sources,
            directory,
            base_url=settings.base_url,
            slots=count_slots(spark),
            pace=Pace(concurrency=settings.concurrency),
            per_host=settings.per_host,
            progress=progress,
        ),
    )
    if plan.rejected:
        with on_disk(rejected):
            rejected.parent.mkdir(0o700, exist_ok=True)
            shutil.rmtree(rejected, ignore_errors=True)
            (directory / "rejected").rename(rejected)
        plan.raise_if_rejected(sources, kept=rejected)
    if plan.names_batches:
        raise UsageError(
            "the manifest names batches, which are published as a whole; --engine spark publishes each file "
            "by itself: use --engine local"
        )
    return msgspec.structs.replace(plan, source=name)
