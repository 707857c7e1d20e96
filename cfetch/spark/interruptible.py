"""Work on Spark's driver that a signal may end: py4j must not be interrupted while it reads an answer."""

import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import TYPE_CHECKING, TypeVar

from cfetch.errors import Interrupted
from cfetch.run.signals import listen
from cfetch.spark.job import cancel_jobs, tag_jobs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["interruptible"]

T = TypeVar("T")
TAG = "cfetch-preparing"
LOOK_S = 0.25
STOP_LOOKS = 40  # ten seconds for its tasks to end


def interruptible(spark: "SparkSession", work: Callable[[], T]) -> T:
    """``work`` in a thread of its own. Raises what it raises, or Interrupted; a second signal ends all."""
    future: Future[T] = Future()

    def run() -> None:
        try:
            tag_jobs(spark, TAG)
            future.set_result(work())
        except BaseException as error:  # noqa: BLE001 - it is the caller's
            future.set_exception(error)

    noted: list[Interrupted] = []
    with listen(noted.append):
        threading.Thread(target=run, name="spark preparing", daemon=True).start()
        while not future.done() and not noted:
            wait([future], LOOK_S)
        if not noted:
            return future.result()
        for _ in range(STOP_LOOKS):  # a job may begin between two of them
            cancel_jobs(spark, TAG)
            if wait([future], LOOK_S).done:
                break
        raise noted[0]
