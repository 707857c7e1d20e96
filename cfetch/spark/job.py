"""The job on Spark: a task for each share, one action, no shuffle, and no RDD, so that Connect works too."""

import os
import re
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from cfetch.secret import printable
from cfetch.shares.task import RunSpec, Share, TaskCopy, bring_share
from cfetch.spark.share_files import ShareFiles

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession


SETTINGS = {
    # A task on a slow machine gets a copy: copies share the work, and all end when the share is done.
    "spark.speculation": "true",
    "spark.speculation.quantile": "0.75",
    "spark.speculation.multiplier": "2",
    "spark.speculation.minTaskRuntime": "60s",  # the task itself handles a single slow file (a straggler)
    "spark.speculation.interval": "1s",
    "spark.task.maxFailures": "8",  # a task continues its work; executors on spare machines are lost often
    "spark.excludeOnFailure.enabled": "true",  # a full disk fails every task at once: it gets no more tasks
    "spark.decommission.enabled": "true",  # a machine that will be taken away gets no new tasks
}
ADVISED = ("spark.speculation", "spark.excludeOnFailure.enabled")
MANY = 1 << 20  # more than any cluster has slots
EXECUTORS_COME_S = 15.0  # a cluster's executors start within this, or the cluster is full
STEADY_S = 1.0
_OWN_WORDS = re.compile(r"cfetch\.errors\.LocalFault: (.+)")


def list_missing_settings(spark: "SparkSession") -> list[str]:
    """Settings that matter for a download and that a given session lacks."""
    master = spark.conf.get("spark.master", "") or ""
    if master.startswith("local"):  # there is no other machine for a copy
        return []
    return [f"{name}={SETTINGS[name]}" for name in ADVISED if spark.conf.get(name, "false") != SETTINGS[name]]


def count_slots(spark: "SparkSession") -> int:
    """How many tasks run at a time, as far as is known now; waits a little for a cluster's executors."""
    from pyspark.errors import PySparkException
    from pyspark.sql.functions import spark_partition_id

    try:
        context = spark.sparkContext
    except PySparkException:  # Connect has no context, but its server cuts a range into as many parts
        return max(1, spark.range(MANY).select(spark_partition_id()).distinct().count())
    if not str(context.master).startswith("local"):
        _wait_for_executors(context)
    return max(1, context.defaultParallelism)


def find_driver_address(spark: "SparkSession") -> tuple[str, str | None] | None:
    """The name by which executors reach this machine, and the address to listen at, if it is another.

    None with Connect, whose server does not know the client's address.
    """
    from pyspark.errors import PySparkException

    try:
        settings = spark.sparkContext.getConf()
    except PySparkException:
        return None
    name = settings.get("spark.driver.host")
    return None if name is None else (name, settings.get("spark.driver.bindAddress"))


def _wait_for_executors(context: Any) -> None:  # noqa: ANN401 - of py4j
    end_s, before = time.monotonic() + EXECUTORS_COME_S, 1  # the driver counts as one
    while time.monotonic() < end_s:
        now = context._jsc.sc().getExecutorMemoryStatus().size()
        if now == before > 1:
            return
        before = now
        time.sleep(STEADY_S)


def find_task_fault(failure: BaseException) -> str | None:
    """The message of a task that could not even leave a receipt, from Spark's error; None: there is none."""
    match = _OWN_WORDS.search(str(failure))
    return None if match is None else printable(match[1], 1000)


def tag_jobs(spark: "SparkSession", tag: str) -> None:
    """Tag the jobs that this thread begins from now on, for ``cancel_jobs``."""
    context = _find_context(spark)
    if context is None:
        spark.addTag(tag)
    else:
        context.addJobTag(tag)


def cancel_jobs(spark: "SparkSession", tag: str) -> None:
    """End the jobs with ``tag``, from any thread; with Connect, only the session that gave it knows a tag."""
    context = _find_context(spark)
    with suppress(Exception):  # Spark raises errors of its own when it is gone itself
        if context is None:
            spark.interruptTag(tag)
        else:
            context.cancelJobsWithTag(tag)


def _find_context(spark: "SparkSession") -> Any:  # noqa: ANN401 - None with Connect
    from pyspark.errors import PySparkException

    try:
        return spark.sparkContext
    except PySparkException:
        return None


def start_job(
    spark: "SparkSession", spec: RunSpec, files: ShareFiles, numbers: Sequence[int], tag: str
) -> "Future[None]":
    """Bring the shares ``numbers`` of ``files``, in a thread of its own.

    The future ends when all tasks have, with the error that ended them early.
    """
    future: Future[None] = Future()
    task = _make_task(spec, files, numbers)
    threading.Thread(
        target=_run_job, args=(spark, task, len(numbers), tag, future), name="spark job", daemon=True
    ).start()
    return future


def _run_job(spark: "SparkSession", task: Any, tasks: int, tag: str, future: "Future[None]") -> None:  # noqa: ANN401
    try:
        tag_jobs(spark, tag)
        positions = spark.range(0, tasks, 1, numPartitions=tasks)
        positions.mapInArrow(task, "share int, files int, failed int").collect()
    except BaseException as error:  # noqa: BLE001 - the future passes it on
        future.set_exception(error)
    else:
        future.set_result(None)


def _make_task(spec: RunSpec, files: ShareFiles, numbers: Sequence[int]) -> Any:  # noqa: ANN401 - what mapInArrow takes
    def read_share(number: int) -> Share:
        share = files.read_share(number)
        return share._replace(sharers=min(share.sharers, spec.at_a_time))

    def task(rows: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        import pyarrow as pa
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        executor = f"{os.uname().nodename.partition('.')[0]}:{os.getppid()}"  # its workers have one parent
        schema = pa.schema([("share", pa.int32()), ("files", pa.int32()), ("failed", pa.int32())])
        for batch in rows:
            for position in batch.column(0).to_pylist():
                number = numbers[position]
                copy = TaskCopy(number, context.taskAttemptId(), context.attemptNumber(), executor)
                outcome = bring_share(spec, read_share(number), copy)
                row = {"share": number, "files": outcome.files, "failed": outcome.failed}
                yield pa.RecordBatch.from_pylist([row], schema=schema)

    return task
