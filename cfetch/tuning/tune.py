"""`cfetch tune` as one call: metrics of past runs in, the best straggler options for such runs out."""

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec

from cfetch import __version__
from cfetch.clock import Clock
from cfetch.config.document import load as load_yaml
from cfetch.config.settings import KINDS, Settings
from cfetch.errors import ConfigError, LocalFault, UsageError
from cfetch.report.tuning_document import (
    Estimated,
    Estimates,
    HostChoice,
    LeftOut,
    Replayed,
    Tuning,
    Values,
)
from cfetch.secret import printable
from cfetch.spark.session import spark_session
from cfetch.tuning.choice import RULE, Result, choose, scored, table, values
from cfetch.tuning.engines import HOST_FILES, Load, metrics_runs, replayed, replayed_by_spark
from cfetch.tuning.replay import Setting

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["DEFAULT_GRID", "GRID_KEYS", "TuneOptions", "as_config", "read_grid", "tune", "write_config"]

GRID_KEYS = ("multiplier", "quantile", "padding")
DEFAULT_GRID = tuple(
    itertools.starmap(Setting, itertools.product((1.25, 1.5, 2.0, 3.0), (0.4, 0.6, 0.8), (1.0, 5.0, 10.0)))
)
MAX_SETTINGS = 1000  # a finer grid tells more than the replay knows
MIN_RUNS = 3  # fewer give no interval, and nothing to check the choice on
MIN_FINISHED = 100  # finished files of all runs together: 2 % of stragglers are two files
RUN_FINISHED = 10  # a run with fewer has no median to speak of
MOST_HOSTS = 5  # by files; more is a table that nobody reads
SAY_EVERY_S = 2.0


class TuneOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What to replay, and where. ``grid`` None is `DEFAULT_GRID`; the default setting always takes part."""

    metrics: tuple[Path, ...]
    grid: Path | None = None
    engine: Literal["local", "spark"] = "local"
    spark_master: str | None = None


def tune(
    options: TuneOptions,
    clock: Clock,
    say: Callable[[str], None] = lambda _: None,
    *,
    spark: "SparkSession | None" = None,
) -> Tuning:
    """Replay the runs under every setting and choose; ``say`` gets a line for a person every two seconds.

    Raises:
        ConfigError: the grid is wrong.
        UsageError: metrics cannot be read, there are too few, or nothing in them was slow; says which.
        LocalFault: Spark could not carry it out.
    """
    grid = read_grid(options.grid) if options.grid else DEFAULT_GRID
    if options.engine == "spark":
        items = [(str(path.absolute()), _size(path)) for path in options.metrics]
        say(f"replaying {len(items):,} metrics files on Spark")
        with spark_session(options.spark_master, spark) as session:
            results = replayed_by_spark(session, items, metrics_runs, _columns(grid))
    else:
        load: Load = partial(metrics_runs, heard=_Progress(clock, say))
        results = list(replayed(map(str, options.metrics), load, _columns(grid)))
    return chosen(results, grid, options.engine)


class _Progress:
    """Says how many files have been read, not more often than a person reads."""

    def __init__(self, clock: Clock, say: Callable[[str], None]) -> None:
        self._clock, self._say = clock, say
        self._files, self._said_s = 0, clock.monotonic()

    def __call__(self, files: int) -> None:
        self._files += files
        if self._clock.monotonic() - self._said_s >= SAY_EVERY_S:
            self._said_s = self._clock.monotonic()
            self._say(f"{self._files:,} files read and replayed")


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError as error:
        raise UsageError(f"{printable(str(path))}: cannot read the metrics: {error.strerror}") from None


def default_setting() -> Setting:
    """What `cfetch download` does if nothing is said."""
    default = Settings()
    return Setting(default.multiplier, default.quantile, default.padding)


def _columns(grid: Sequence[Setting]) -> list[Setting]:
    """What is replayed: the grid, the default if it is not in it, and at last no mitigation at all."""
    default = default_setting()
    return [*dict.fromkeys((*grid, default)), default._replace(padding_s=math.inf)]


def read_grid(path: Path) -> tuple[Setting, ...]:
    """All combinations of the lists in a YAML file; a key that is missing has the default grid's.

    Raises:
        ConfigError: unreadable, an unknown key, or a value that is out of range; names the key.
    """
    document = load_yaml(path)
    name = printable(str(path))
    unknown = [key for key in document if key not in GRID_KEYS]
    if unknown:
        raise ConfigError(
            f"{name}: unknown key {printable(unknown[0])!r}; known keys: {', '.join(GRID_KEYS)}"
        )
    axes = []
    for at, key in enumerate(GRID_KEYS):
        given = document.get(key, [])
        try:
            found = {_value(key, one) for one in (given if isinstance(given, list) else [given])}
        except ValueError as error:
            raise ConfigError(f"{name}: {key}: each value {error}") from None
        if key in document and not found:
            raise ConfigError(f"{name}: {key} is an empty list; leave it out for the usual values")
        axes.append(sorted(found or {one[at] for one in DEFAULT_GRID}))
    number = math.prod(map(len, axes))
    if number > MAX_SETTINGS:
        raise ConfigError(f"{name} makes {number:,} settings; the most is {MAX_SETTINGS:,}")
    return tuple(itertools.starmap(Setting, itertools.product(*axes)))


def _value(key: str, text: object) -> float:
    if not isinstance(text, str):
        raise ValueError("must be a number")  # noqa: TRY004 - the caller tells both alike
    return float(KINDS[key].parse(text))


def chosen(results: Sequence[Result], grid: Sequence[Setting], engine: Literal["local", "spark"]) -> Tuning:
    """The answer that follows from all runs' scores.

    Raises:
        UsageError: too few runs or files, or nothing slow.
    """
    columns = _columns(grid)
    allowed, default = len(columns) - 1, columns.index(default_setting())
    used, left_out = _used(results)
    _require_enough(used, allowed)
    found = table(columns, default, used)
    every, (unmitigated,) = scored(found, allowed)
    instants = {(one.source, one.instant) for one in used}
    parts = [one for one in results if one.host is not None and (one.source, one.instant) in instants]
    once = {(one.instant, one.host, one.files, one.recorded_s): one for one in parts}
    hosts, hosts_left_out = _hosts(list(once.values()), columns)
    return Tuning(
        version=__version__,
        engine=engine,
        rule=RULE,
        default=values(default_setting()),
        choice=choose(found, allowed),
        settings=every,
        unmitigated=unmitigated,
        runs=[_replayed(one) for one in used],
        left_out=left_out,
        estimates=Estimates(
            by_rate=sum(one.estimates[0] for one in used),
            by_stall_rule=sum(one.estimates[1] for one in used),
            drawn=sum(one.estimates[2] for one in used),
        ),
        hosts=hosts,
        hosts_left_out=hosts_left_out,
    )


def _used(results: Sequence[Result]) -> tuple[list[Result], list[LeftOut]]:
    """The runs that take part, and why the others do not."""
    used: dict[tuple[str, int, float], Result] = {}
    left_out = []
    for one in results:
        if one.host is not None:
            continue
        key = one.instant, one.files, one.recorded_s
        if one.finished < RUN_FINISHED:
            reason = f"only {one.finished} files finished"
        elif key in used:
            reason = "given twice"
        else:
            used[key] = one
            continue
        left_out.append(LeftOut(name=f"{one.instant} of {one.source}", reason=reason))
    return list(used.values()), left_out


def _require_enough(used: Sequence[Result], allowed: int) -> None:
    stays = f"the default stays: {words(values(default_setting()))}"
    if len(used) < MIN_RUNS:
        raise UsageError(
            f"{len(used)} runs with {RUN_FINISHED} finished files are too few, {MIN_RUNS} are needed; "
            f"give the metrics of more runs; until then {stays}"
        )
    finished = sum(one.finished for one in used)
    if finished < MIN_FINISHED:
        raise UsageError(
            f"{finished} finished files in all runs are too few, {MIN_FINISHED} are needed; "
            f"give the metrics of more runs; until then {stays}"
        )
    if not any(any(one.flagged[:allowed]) for one in used):
        raise UsageError(
            "nothing in these runs was slow enough: no setting of the grid would have flagged an attempt, so "
            f"there is nothing to learn from; {stays}"
        )


def words(one: Values) -> str:
    """As flags are written: ``multiplier 1.5, quantile 0.6, padding 5s``."""
    return ", ".join(f"{key} {text}" for key, text in _texts(one).items())


def _texts(one: Values) -> dict[str, str]:
    given = msgspec.structs.astuple(one)
    return {key: KINDS[key].show(value) for key, value in zip(GRID_KEYS, given, strict=True)}


def _replayed(one: Result) -> Replayed:
    return Replayed(
        source=one.source,
        instant=one.instant,
        files=one.files,
        finished=one.finished,
        workers=one.workers,
        recorded_s=one.recorded_s,
        replayed_s=one.own_s,
    )


def _hosts(results: Sequence[Result], columns: Sequence[Setting]) -> tuple[list[HostChoice], list[LeftOut]]:
    """A choice for each host that has enough, the largest first, and why the others have none."""
    allowed, default = len(columns) - 1, columns.index(default_setting())
    by_host: dict[str, list[Result]] = {}
    for one in results:
        if one.host is not None and one.finished >= HOST_FILES:
            by_host.setdefault(one.host, []).append(one)
    hosts: list[HostChoice] = []
    left_out: list[LeftOut] = []
    for host, own in sorted(by_host.items(), key=lambda item: -sum(one.finished for one in item[1])):
        reason = None
        if len(own) < MIN_RUNS:
            reason = f"{HOST_FILES} finished files or more in only {len(own)} of the {MIN_RUNS} runs needed"
        elif not any(any(one.flagged[:allowed]) for one in own):
            reason = "nothing of it was slow"
        elif len(hosts) >= MOST_HOSTS:
            reason = f"not among the {MOST_HOSTS} with most files"
        if reason:
            left_out.append(LeftOut(name=host, reason=reason))
            continue
        found = table(columns, default, own)
        files = sum(one.finished for one in own)
        hosts.append(HostChoice(host=host, runs=len(own), files=files, choice=choose(found, allowed)))
    return hosts, left_out


def as_config(found: Tuning, day: str) -> str:
    """A file for ``--config``, with the figures and the data that it rests on as comments."""
    choice = found.choice
    return "\n".join(
        (
            *_remarks(found, day),
            "policy: cloudfetch  # whose formula these values are for",
            *(f"{k}: {v}" for k, v in _texts(choice.recommended).items()),
            "",
        )
    )


def _remarks(found: Tuning, day: str) -> Iterator[str]:
    choice, runs, held_out = found.choice, found.runs, found.choice.held_out
    files = sum(run.finished for run in runs)
    yield f"# Made by cfetch {found.version} tune on {day}: cfetch download MANIFEST --config this-file"
    yield f"# From {len(runs)} runs with {files:,} finished files, {runs[0].instant} to {runs[-1].instant}."
    yield f"# Makespans against the default's ({words(found.default)}), with 95 % intervals over runs:"
    yield f"#   these values                         {_interval(choice.ratio)}"
    yield f"#   on runs they were not chosen on       {_interval(held_out.ratio)}, {held_out.folds} folds"
    yield f"#   nobody ever flagged                  {_interval(found.unmitigated.ratio)}"
    for host in found.hosts:
        yield f"# {printable(host.host, 80)} alone: {words(host.choice.recommended)}"


def _interval(one: Estimated) -> str:
    return f"{one.mean:.3f} ({one.low:.3f} to {one.high:.3f})"


def write_config(path: Path, text: str) -> None:
    """Raises LocalFault if it cannot be written."""
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise LocalFault(
            f"cannot write {printable(str(path))}: {error.strerror}; name another with --out"
        ) from None
