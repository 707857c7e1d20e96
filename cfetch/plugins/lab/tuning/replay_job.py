"""The replay of recorded runs in Spark's tasks.

Spark carries items to the tasks and scores back, but no rows of metrics: the tasks read the files themselves,
and call the same function that replays runs in one process.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from cfetch.base.errors import CfetchError, UsageError
from cfetch.plugins.lab.tuning.choice import RunResult
from cfetch.plugins.lab.tuning.replay import Setting
from cfetch.plugins.lab.tuning.runs import Load, replay_runs
from cfetch.plugins.spark.work import explain_failure, group_into_tasks, run_tasks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


CHUNK_BYTES = 8 << 20  # of metrics for a task, which are 10,000 files or more; a task itself costs 50 ms


class _Outcome(NamedTuple):
    """The results of a task, or why it could not read its item."""

    results: list[RunResult]
    error: str | None = None


def replay_on_spark(
    spark: "SparkSession", items: Sequence[tuple[str, int]], load: Load, settings: Sequence[Setting]
) -> list[RunResult]:
    """Every run of every item under every setting, in order; items come with their size in bytes.

    Raises:
        UsageError: a task cannot read its item.
        LocalFault: Spark could not carry the job out.
    """
    from pyspark.errors import PySparkException

    def work(chunk: Sequence[tuple[str, int]]) -> _Outcome:
        try:
            return _Outcome(list(replay_runs([item for item, _ in chunk], load, settings)))
        except CfetchError as failure:  # returned, as Spark would only repeat the task after an exception
            return _Outcome([], str(failure))

    tasks = group_into_tasks(items, lambda item: item[1] / CHUNK_BYTES)
    try:
        outcomes = run_tasks(spark, tasks, work, _Outcome)
    except PySparkException as error:
        raise explain_failure(error, "replay the runs", "and --engine local does the same here") from None
    for outcome in outcomes:
        if outcome.error is not None:
            raise UsageError(outcome.error)
    return [result for outcome in outcomes for result in outcome.results]
