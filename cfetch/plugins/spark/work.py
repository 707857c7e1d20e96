"""Work in Spark's tasks: a task for each item, without a shuffle, and no RDD, so that Connect works too."""

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

import msgspec

from cfetch.base.errors import LocalFault
from cfetch.base.secret import printable

if TYPE_CHECKING:
    from pyarrow import RecordBatch
    from pyspark import TaskContext
    from pyspark.sql import DataFrame, SparkSession


T = TypeVar("T")
R = TypeVar("R")
MOST_OF_A_TASK = 256  # small files: on a network disk it takes a second to open so many
_REMEDY = (
    "set PYSPARK_PYTHON to the path of the executors' Python, which has the driver's version and "
    "`pip install 'cfetch[spark]'`"
)
_MISMATCH = re.compile(
    r"PYTHON_VERSION_MISMATCH.*?worker has different version:? (\S+?)[:,]? than", re.DOTALL
)
_NO_PYTHON = re.compile(r'Cannot run program "([^"]+)"')
_NO_MODULE = re.compile(r"No module named '?([\w.]+)'?|PACKAGE_NOT_INSTALLED\] (\w+)")
_PLACE = re.compile(r"\(TID \d+\) \((\S+) executor (\w+)\)")
_FULL = "No space left on device"  # as Java says it
_OWN_WORDS = re.compile(rf"{re.escape(LocalFault.__module__)}\.LocalFault: (.+)")


def group_into_tasks(items: Iterable[T], weight: Callable[[T], float]) -> list[list[T]]:
    """Group neighbours until their weights are 1 together: a task costs 50 ms, however little it does."""
    tasks: list[list[T]] = []
    left = 0.0
    for item in items:
        if left <= 0 or len(tasks[-1]) >= MOST_OF_A_TASK:
            tasks.append([])
            left = 1.0
        tasks[-1].append(item)
        left -= weight(item)
    return tasks


def make_frame(
    spark: "SparkSession",
    items: Sequence[T],
    work: "Callable[[T], Iterable[RecordBatch]]",
    schema: str,
) -> "DataFrame":
    """The batches that ``work`` yields for the items, in their order; each item is a task."""

    def cfetch_task(batches: "Iterator[RecordBatch]") -> "Iterator[RecordBatch]":  # as Spark's plans name it
        for batch in batches:
            for position in batch.column(0).to_pylist():
                yield from work(items[position])

    return spark.range(0, len(items), 1, numPartitions=max(1, len(items))).mapInArrow(cfetch_task, schema)


def run_tasks(spark: "SparkSession", items: Sequence[T], work: Callable[[T], R], kind: type[R]) -> list[R]:
    """What ``work`` makes of each item, in their order; it travels as JSON, of which ``kind`` is decoded."""

    def report(item: T) -> "Iterator[RecordBatch]":
        import pyarrow as pa

        yield pa.RecordBatch.from_pydict({"report": [msgspec.json.encode(work(item))]})

    rows = make_frame(spark, items, report, "report binary").collect() if items else []
    return [msgspec.json.decode(row.report, type=kind) for row in rows]


def current_task() -> "TaskContext":
    """The facts that Spark knows of the task in which this code runs."""
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None
    return context


def explain_failure(error: BaseException, what: str, remedy: str) -> LocalFault:
    """Spark's error in words for a person, without Spark's own text: it could not do ``what``."""
    from cfetch.plugins.spark.session import name_condition

    if (cause := explain_python(str(error))) is not None:
        return LocalFault(cause)
    if (said := find_task_fault(error)) is not None:
        place = _PLACE.search(str(error))
        who = f"executor {place[2]} on {place[1]}" if place else "an executor"
        return LocalFault(f"{who} cannot work: {said}")
    if _FULL in str(error):
        return LocalFault(
            f"Spark could not {what}: the disk of the state, or of spark.local.dir, is full; {remedy}"
        )
    kind = name_condition(error) or type(error).__name__
    return LocalFault(f"Spark could not {what} ({kind}); its logs say why, {remedy}")


def explain_python(said: str) -> str | None:
    """The cause and the remedy if ``said``, Spark's text, tells of a Python that cannot work; else None."""
    place = _PLACE.search(said)
    where = f" of executor {place[2]} on {place[1]}" if place else " of the executors"
    own = f"{sys.version_info.major}.{sys.version_info.minor}"
    if match := _MISMATCH.search(said):
        return f"the Python{where} is {match[1].strip('()')}, and the driver's {own}; {_REMEDY}"
    if match := _NO_PYTHON.search(said):
        return f"the Python{where} is not there: {printable(match[1])}; {_REMEDY}"
    if match := _NO_MODULE.search(said):
        return f"the Python{where} lacks the library {match[1] or match[2]}; {_REMEDY}"
    return None


def find_task_fault(failure: BaseException) -> str | None:
    """The message of a task that could not even leave a receipt, from Spark's error; None: there is none."""
    match = _OWN_WORDS.search(str(failure))
    return None if match is None else printable(match[1], 1000)
