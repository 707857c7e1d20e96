"""How the rows of a frame come to tasks: ``download`` spreads them itself, unless it is told otherwise.

What precedes it decides the number of tasks else: Spark makes one task of a small result of ``distinct()`` or
of a join, as it counts bytes of rows and knows nothing of the files behind them.

The spread is by the rows themselves, so each evaluation, and each attempt after a lost executor, has the same
rows in the same task, and receipts answer. A host with a limit of its own has its rows in no more tasks than
the limit has connections: so the limit holds for the whole query without any talk between tasks.
"""

import re
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's manuals call it

from cfetch.base.config.settings import Settings
from cfetch.base.errors import ConfigError
from cfetch.manifest.signatures import CHANGING_KEYS, PROOF_KEYS
from cfetch.plugins.spark.job import count_slots_to_come

if TYPE_CHECKING:
    from pyspark.resource import ResourceProfile

# Files differ in size and hosts in speed; a task costs 50 ms, and ends with its slowest file.
TASKS_A_SLOT = 2
MOST_TASKS = 100_000  # more are no gain for any cluster, and the driver holds a record of each
# Java and Python read both alike. More goes than ``strip_signature`` takes away, which is no harm: links to
# one file come to one task in any case, and links that differ in such a key alone are few.
_SIGNED, _SIGNATURE = (
    f"(?i)[?&](?:{'|'.join(sorted(map(re.escape, keys)))})=[^&#]*" for keys in (PROOF_KEYS, CHANGING_KEYS)
)
_HOST = r"^[A-Za-z][A-Za-z0-9+.-]*://(?:[^/?#@]*@)?([^/?#]+)"


class Spread(NamedTuple):
    """``at_a_time``: how many tasks may run. ``sharers``: how many of them may ask the same host.

    ``tasks``: how many there are; None: as many as the frame has partitions.
    """

    tasks: int | None
    at_a_time: int
    sharers: int


def choose_spread(
    df: DataFrame, tasks: int | None, settings: Settings, profile: "ResourceProfile | None" = None
) -> Spread:
    """Choose for ``download``. ``tasks``: the user's number; 0: the frame's partitions; None: by the slots.

    ``profile``: of the stage that downloads, if it has its own.

    A frame whose last step is ``repartition(n)`` or ``coalesce(n)`` keeps its partitions: a user wants them.

    Raises ConfigError.
    """
    if tasks is not None and not 0 <= tasks <= MOST_TASKS:
        raise ConfigError(f"tasks must be a whole number from 0 to {MOST_TASKS:,}")
    is_limited = settings.per_host or settings.rate or settings.limit_rate or settings.limit_rate_per_host
    slots = count_slots_to_come(df.sparkSession, waits=bool(is_limited), profile=profile)
    if tasks == 0 or (tasks is None and _is_partitioned(df)):
        return Spread(None, slots, slots)
    number = tasks or min(MOST_TASKS, TASKS_A_SLOT * slots)
    at_a_time = min(number, slots)
    return Spread(number, at_a_time, min(at_a_time, settings.per_host or at_a_time))


def spread_rows(df: DataFrame, spread: Spread, columns: dict[str, str], settings: Settings) -> DataFrame:
    """The frame in ``spread.tasks`` partitions, which Spark does not join again."""
    if spread.tasks is None:
        return df
    url = df[columns["url"]].cast("string")
    own = df[columns["path"]].cast("string") if "path" in columns else _name(url, settings.name_by)
    if not settings.per_host:
        return df.repartition(spread.tasks, own)
    host = F.lower(F.regexp_extract(url, _HOST, 1))
    return df.repartition(spread.tasks, host, F.pmod(F.hash(own), F.lit(spread.sharers)))


def _name(url: Column, name_by: str | None) -> Column:
    """What decides the name of a file, as in ``make_document``: a link that is signed anew is the same."""
    if name_by == "url-path":
        return F.split(url, r"\?", 2)[0]
    return F.when(url.rlike(_SIGNED), F.regexp_replace(url, _SIGNATURE, "")).otherwise(url)


def _is_partitioned(df: DataFrame) -> bool:
    """Whether the frame's last step gives its number of partitions; False too if Spark does not tell."""
    with suppress(Exception):  # a platform may forbid to look, each in words of its own
        plan = getattr(df, "_plan", None)
        if plan is not None:  # Spark Connect
            name, number = type(plan).__name__, getattr(plan, "_num_partitions", None)
            return name in ("Repartition", "RepartitionByExpression") and number is not None
        plan = df._jdf.queryExecution().logical()  # a frame of py4j
        name = plan.getClass().getSimpleName()
        by_columns = name == "RepartitionByExpression" and plan.optNumPartitions().isDefined()
        return bool(name == "Repartition" or by_columns)
    return False
