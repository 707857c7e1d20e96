"""A job on Spark: its settings, slots, address and tag. No RDD is used, so that Connect works too."""

import math
import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from cfetch.base.errors import UsageError
from cfetch.base.secret import printable
from cfetch.plugins.spark.session import count_local_slots
from cfetch.tasks.hub.server import HubPlace
from cfetch.tasks.shares.work import RunSpec

if TYPE_CHECKING:
    from pyspark.resource import ResourceProfile
    from pyspark.sql import SparkSession


T = TypeVar("T")
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
HUB_PORT = "spark.cfetch.tasks.hub.port"  # for networks that let executors reach named ports only
MOST_PORT = 65535
MANY = 1 << 20  # more than any cluster has slots
EXECUTORS_COME_S = 15.0  # a cluster's executors start within this, or the cluster is full
STEADY_S = 1.0
MOST_TASKS = 1000  # whose errors are looked for


def name_executor() -> str:
    """Name this executor as the pages of Spark do, with its host; on one machine, by the host alone.

    Only the command line of the executor's JVM says its number; the Python process is a child of its child.
    """
    host = os.uname().nodename.partition(".")[0]
    with suppress(OSError, ValueError, IndexError):
        jvm = Path(f"/proc/{os.getppid()}/stat").read_text().rpartition(")")[2].split()[1]
        words = Path(f"/proc/{jvm}/cmdline").read_text(errors="replace").split("\0")
        number, name = words[words.index("--executor-id") + 1], words[words.index("--hostname") + 1]
        return f"executor {number} on {name}"
    return host


def is_one_machine(spark: "SparkSession") -> bool:
    """Whether the driver is the only executor."""
    return count_local_slots(spark.conf.get("spark.master", "") or "") is not None


def note_missing_settings(spark: "SparkSession") -> list[str]:
    """A note of the settings that matter for a download and that a given session lacks."""
    if is_one_machine(spark):  # there is no other for a copy
        return []
    unset = [f"{key}={SETTINGS[key]}" for key in ADVISED if spark.conf.get(key, "false") != SETTINGS[key]]
    return [f"the Spark session lacks {', '.join(unset)}; see docs/spark.md"] if unset else []


def count_slots(spark: "SparkSession") -> int:
    """How many tasks run at a time, as far as is known now; waits a little for a cluster's executors."""
    from pyspark.sql.functions import spark_partition_id

    context = find_context(spark)
    if context is None:  # Connect, but its server cuts a range into as many parts
        return max(1, spark.range(MANY).select(spark_partition_id()).distinct().count())
    if not is_one_machine(spark):
        _wait_for_executors(spark)
    return _count_slots_now(context)


def count_slots_to_come(
    spark: "SparkSession", *, waits: bool, profile: "ResourceProfile | None" = None
) -> int:
    """How many tasks may run at a time while a query runs, by the settings and by what is there now.

    ``waits``: wait a little for executors. ``profile``: of the stage that is counted, if it has its own.
    """
    context = find_context(spark)
    now = count_slots(spark) if waits or context is None else _count_slots_now(context)
    cores, cpus = _read_profile(profile)
    return estimate_slots(now, lambda name: spark.conf.get(f"spark.{name}", None), cores=cores, cpus=cpus)


def _read_profile(profile: "ResourceProfile | None") -> tuple[float | None, float | None]:
    """The cores of an executor and of a task that a profile asks for; None: the settings say it."""
    if profile is None:
        return None, None
    task, executor = profile.taskResources.get("cpus"), profile.executorResources.get("cores")
    cores, cpus = (None if each is None else float(each.amount) for each in (executor, task))
    return cores, cpus


def estimate_slots(
    now: int,
    read: Callable[[str], str | None],
    *,
    cores: float | None = None,
    cpus: float | None = None,
) -> int:
    """Estimate how many tasks may run at a time. Pure.

    ``now``: the tasks that may run at a time now, by the settings. ``read`` gives a setting of Spark's by its
    name, None if it is not set. ``cores`` and ``cpus``: of an executor and of a task, by the stage's profile.

    Dynamic allocation has few executors, or none, before a query begins: its upper bound counts, or, where it
    has none, as many slots as Spark would use for a shuffle.
    """

    def number(name: str, standard: float) -> float:
        with suppress(ValueError):
            return float(read(name) or standard)
        return standard

    own_cpus = number("task.cpus", 1)
    needed = cpus or own_cpus
    a_executor = max(1, int((cores or number("executor.cores", 1)) // needed))
    wanted = number("executor.instances", 0) * a_executor
    if read("dynamicAllocation.enabled") == "true":
        most = number("dynamicAllocation.maxExecutors", math.inf)
        wanted = most * a_executor if most < MANY else number("sql.shuffle.partitions", 200)
    elif cores is None:  # the executors that are there run the stage
        now = max(1, int(now * own_cpus / needed))
    return max(now, int(min(wanted, MANY)))


def _count_slots_now(context: Any) -> int:  # noqa: ANN401 - PySpark's
    core = context._jsc.sc()  # the default parallelism may be set to anything
    profile = core.resourceProfileManager().defaultResourceProfile()
    return max(1, int(core.maxNumConcurrentTasks(profile)))


def find_driver_address(spark: "SparkSession") -> HubPlace | None:
    """Find where the hub listens; None with Connect, whose server does not know the client's address."""
    context = find_context(spark)
    if context is None:
        return None
    settings = context.getConf()
    name = settings.get("spark.driver.host")
    if name is None:
        return None
    port = settings.get(HUB_PORT, "0")
    if not port.isdecimal() or int(port) > MOST_PORT:
        raise UsageError(f"{HUB_PORT} is {printable(port)}; give a port from 0 (any) to {MOST_PORT}")
    return HubPlace(name, settings.get("spark.driver.bindAddress"), int(port))


def sends_encrypted(spark: "SparkSession") -> bool:
    """Whether Spark encrypts what it sends between its machines."""
    names = ("spark.network.crypto.enabled", "spark.ssl.rpc.enabled", "spark.ssl.enabled")
    return any(spark.conf.get(name, "false") == "true" for name in names)


def _wait_for_executors(spark: "SparkSession") -> None:
    end_s, before = time.monotonic() + EXECUTORS_COME_S, 0
    while time.monotonic() < end_s:
        now = count_executors(spark)
        if now and now == before:
            return
        before = now or 0
        time.sleep(STEADY_S)


def count_executors(spark: "SparkSession") -> int | None:
    """How many executors there are besides the driver; None: it is the only one, or Connect does not tell."""
    context = find_context(spark)
    if context is None or is_one_machine(spark):
        return None
    return len(context._jsc.sc().statusTracker().getExecutorInfos()) - 1  # the driver is one of them


def find_task_error(spark: "SparkSession", tag: str) -> str | None:
    """Spark's text about a task of the jobs with ``tag`` that has failed; None: no task has, or Connect.

    The error of a job comes only when Spark tries no more, which may take minutes.
    """
    context = find_context(spark)
    if context is None:
        return None
    with suppress(Exception):  # py4j's, if the stage is not known yet or any more
        tracker, store = context._jsc.sc().statusTracker(), context._jsc.sc().statusStore()
        for job in tracker.getJobIdsForTag(tag):
            for stage in tracker.getJobInfo(job).get().stageIds():
                tasks = store.taskList(stage, 0, MOST_TASKS)
                errors = (tasks.apply(number).errorMessage() for number in range(tasks.size()))
                text = next((error.get() for error in errors if error.isDefined()), None)
                if text is not None:
                    return str(text)
    return None


def _tag_jobs(spark: "SparkSession", tag: str, what: str) -> None:
    """Tag the jobs that this thread begins for ``cancel_jobs``. Spark's pages name them ``what``."""
    context = find_context(spark)
    if context is None:
        spark.addTag(tag)
    else:
        context.addJobTag(tag)
        context.setJobDescription(what)  # of its stages too


def cancel_jobs(spark: "SparkSession", tag: str) -> None:
    """End the jobs with ``tag``, from any thread; with Connect, only the session that gave it knows a tag."""
    context = find_context(spark)
    with suppress(Exception):  # Spark raises errors of its own when it is gone itself
        if context is None:
            spark.interruptTag(tag)
        else:
            context.cancelJobsWithTag(tag)


def find_context(spark: "SparkSession") -> Any:  # noqa: ANN401 - PySpark's
    """The context of a session; None with Connect."""
    from pyspark.errors import PySparkException

    try:
        return spark.sparkContext
    except PySparkException:
        return None


def name_job(spec: RunSpec, what: str) -> str:
    """The job of a run as Spark's pages name it; ``what``: its tasks."""
    return f"cfetch: download to {printable(', '.join(spec.settings.to))}, {what} of run {spec.instant}"


def start_thread(spark: "SparkSession", work: Callable[[], T], tag: str, what: str) -> Future[T]:
    """Do the work in a thread of its own; the future has its end. ``tag``, ``what``: as in ``_tag_jobs``."""
    future: Future[T] = Future()

    def run() -> None:
        try:
            _tag_jobs(spark, tag, what)
            future.set_result(work())
        except BaseException as error:  # noqa: BLE001 - the future passes it on
            future.set_exception(error)

    threading.Thread(target=run, name="spark job", daemon=True).start()
    return future
