"""``cfetch tune`` as one call: it takes metrics of past runs, and gives the best options for such runs."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Literal

import msgspec

from cfetch.base.clock import Clock
from cfetch.base.secret import printable
from cfetch.plugins.lab.tuning.recommendation import (
    ADAPTIVE_GRID,
    DEFAULT_GRID,
    list_columns,
    read_grid,
    recommend,
)
from cfetch.plugins.lab.tuning.replay_job import replay_on_spark
from cfetch.plugins.lab.tuning.runs import Load, Policy, read_recorded_policy, read_recorded_runs, replay_runs
from cfetch.plugins.lab.views.tuning_document import Tuning
from cfetch.plugins.spark.session import spark_session
from cfetch.show.format import plural
from cfetch.show.metrics_reading import expand_metrics
from cfetch.storage.files import input_fault

SAY_EVERY_S = 2.0


class TuneOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Runs, grid, policy and engine. ``grid`` None is the usual grid; the default setting always takes part.

    ``policy`` None is the policy of the first recorded run that had one, or else the default.
    """

    metrics: tuple[Path, ...]
    grid: Path | None = None
    policy: Policy | None = None
    engine: Literal["local", "spark"] = "local"
    spark_master: str | None = None


def tune(
    options: TuneOptions,
    clock: Clock,
    say: Callable[[str], None] = lambda _: None,
) -> Tuning:
    """Replay the runs under every setting and choose; ``say`` gets a line for a person every two seconds.

    Raises:
        ConfigError: the grid is wrong.
        UsageError: metrics cannot be read, there are too few, or nothing in them was slow (it says which).
        LocalFault: Spark failed.
    """
    metrics = expand_metrics(options.metrics, say)
    policy = options.policy or _find_recorded_policy(metrics)
    usual = ADAPTIVE_GRID if policy == "adaptive" else DEFAULT_GRID
    grid = read_grid(options.grid, policy) if options.grid else usual
    if options.engine == "spark":
        items = [(str(path.absolute()), _read_size(path)) for path in metrics]
        say(f"replaying {plural(len(items), 'metrics file')} on Spark")
        with spark_session(options.spark_master) as session:
            read: Load = partial(read_recorded_runs, policy=policy)
            results = replay_on_spark(session, items, read, list_columns(grid))
    else:
        load: Load = partial(read_recorded_runs, on_records=_Progress(clock, say), policy=policy)
        results = list(replay_runs(map(str, metrics), load, list_columns(grid)))
    return recommend(results, grid, options.engine, policy)


def _find_recorded_policy(metrics: Sequence[Path]) -> Policy:
    for path in metrics:
        if (policy := read_recorded_policy(path)) != "none":
            return "adaptive" if policy == "adaptive" else "cloudfetch"
    return "adaptive"


class _Progress:
    """Says how many files have been read, at most every two seconds."""

    def __init__(self, clock: Clock, say: Callable[[str], None]) -> None:
        self._clock, self._say = clock, say
        self._files, self._said_s = 0, clock.monotonic()

    def __call__(self, files: int) -> None:
        self._files += files
        if self._clock.monotonic() - self._said_s >= SAY_EVERY_S:
            self._said_s = self._clock.monotonic()
            self._say(f"{plural(self._files, 'file')} read and replayed")


def _read_size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError as error:
        raise input_fault(error, f"{printable(str(path))}: cannot read the metrics") from None
