"""Makes a recommendation from the scores of recorded runs: grid, runs that count, a ``--config`` file."""

import itertools
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

from cfetch.base.config.document import load as load_yaml
from cfetch.base.config.settings import KINDS, Settings
from cfetch.base.errors import ConfigError, LocalFault, UsageError
from cfetch.base.secret import printable
from cfetch.base.version import __version__
from cfetch.plugins.lab.tuning.choice import (
    RULE,
    SAME,
    RunResult,
    build_table,
    choose_setting,
    describe_setting,
    score_settings,
)
from cfetch.plugins.lab.tuning.replay import Setting
from cfetch.plugins.lab.tuning.runs import HOST_FILES, Policy
from cfetch.plugins.lab.views.tuning_document import (
    GRID_KEYS,
    Estimated,
    Estimates,
    HostChoice,
    LeftOutRun,
    Replayed,
    Tuning,
    TuningChoice,
    Values,
    describe_values,
    format_values,
)
from cfetch.show.format import plural
from cfetch.storage.outputs import open_output

READ_KEYS: dict[Policy, tuple[str, ...]] = {"adaptive": GRID_KEYS[:1], "cloudfetch": GRID_KEYS}
DEFAULT_GRID = tuple(
    itertools.starmap(Setting, itertools.product((1.25, 1.5, 2.0, 3.0), (0.4, 0.6, 0.8), (1.0, 5.0, 10.0)))
)
# the adaptive policy reads neither quantile nor padding
ADAPTIVE_GRID = tuple(Setting(multiplier, 0.6, 5.0) for multiplier in (1.25, 1.5, 2.0, 3.0, 5.0))
MAX_SETTINGS = 1000  # a finer grid would be more exact than the replay
MIN_RUNS = 3  # fewer give no interval, and no runs to check the choice
MIN_FINISHED = 100  # finished files of all runs together: with 2 % of stragglers, two of them are slow
RUN_FINISHED = 10  # a run with fewer has no meaningful median
LEAST_S = 5.0  # equal runs of two seconds differed by up to a second with the machine's other load
CLOSE = 1.15  # runs that differ by more show the machine or the network, not a setting
SHOWN_REASONS = 5  # of runs that were left out, in an error
MOST_HOSTS = 5  # by files; a longer table would not be read


def _make_default_setting() -> Setting:
    """The setting of `cfetch download` without options."""
    default = Settings()
    return Setting(default.multiplier, default.quantile, default.padding)


def list_columns(grid: Sequence[Setting]) -> list[Setting]:
    """The settings to replay: the grid, the default if it is not in it, and at last no mitigation at all."""
    default = _make_default_setting()
    return [*dict.fromkeys((*grid, default)), default._replace(padding_s=math.inf)]


def read_grid(path: Path, policy: Policy = "cloudfetch") -> tuple[Setting, ...]:
    """All combinations of the lists in a YAML file; a missing key has the default grid's list.

    Raises:
        ConfigError: it is unreadable, or has an unknown key or a value out of range; names the key.
    """
    document = load_yaml(path)
    name = printable(str(path))
    unknown = [key for key in document if key not in READ_KEYS[policy]]
    if unknown:
        known = f"keys of policy {policy}: {', '.join(READ_KEYS[policy])}"
        raise ConfigError(f"{name}: unknown key {printable(unknown[0])!r}; {known}")
    usual = ADAPTIVE_GRID if policy == "adaptive" else DEFAULT_GRID
    axes = []
    for position, key in enumerate(GRID_KEYS):
        given = document.get(key, [])
        try:
            numbers = {_parse_value(key, text) for text in (given if isinstance(given, list) else [given])}
        except ValueError as error:
            raise ConfigError(f"{name}: {key}: each value {error}") from None
        if key in document and not numbers:
            raise ConfigError(f"{name}: {key} is an empty list; leave it out for the usual values")
        axes.append(sorted(numbers or {setting[position] for setting in usual}))
    number = math.prod(map(len, axes))
    if number > MAX_SETTINGS:
        raise ConfigError(f"{name} makes {number:,} settings; the most is {MAX_SETTINGS:,}")
    return tuple(itertools.starmap(Setting, itertools.product(*axes)))


def _parse_value(key: str, text: object) -> float:
    if not isinstance(text, str):
        raise ValueError("must be a number")  # noqa: TRY004 - the caller reports both alike
    return float(KINDS[key].parse(text))


def recommend(
    results: Sequence[RunResult],
    grid: Sequence[Setting],
    engine: Literal["local", "spark"],
    policy: Policy = "cloudfetch",
) -> Tuning:
    """The recommendation from all runs' scores.

    Raises:
        UsageError: there are too few runs or files.
    """
    columns = list_columns(grid)
    allowed, default = len(columns) - 1, columns.index(_make_default_setting())
    used, left_out = _select_runs(results, policy)
    _require_enough(used, left_out, policy)
    table = build_table(columns, default, used, policy)
    every, (unmitigated,) = score_settings(table, allowed)
    instants = {(run.source, run.instant) for run in used}
    parts = [part for part in results if part.host is not None and (part.source, part.instant) in instants]
    once = {(part.instant, part.host, part.files, part.recorded_s): part for part in parts}
    hosts, hosts_left_out = _choose_by_host(list(once.values()), columns)
    choice, home = choose_setting(table, allowed), describe_setting(_make_default_setting(), policy)
    return Tuning(
        version=__version__,
        engine=engine,
        policy=policy,
        leave=_find_reason_to_leave(choice, home, used, policy)
        if any(any(run.flagged[:allowed]) for run in used)
        else "nothing in these runs was slow enough: no setting of the grid would have flagged an attempt",
        remarks=list(_list_doubts(used, policy)),
        rule=RULE,
        default=home,
        choice=choice,
        settings=every,
        unmitigated=unmitigated,
        runs=[_describe_run(run, policy) for run in used],
        left_out=left_out,
        estimates=Estimates(
            by_rate=sum(run.estimates.by_rate for run in used),
            by_stall_rule=sum(run.estimates.by_stall_rule for run in used),
            drawn=sum(run.estimates.drawn for run in used),
        ),
        hosts=hosts,
        hosts_left_out=hosts_left_out,
    )


def _select_runs(results: Sequence[RunResult], policy: Policy) -> tuple[list[RunResult], list[LeftOutRun]]:
    """The runs that take part, and the reasons against the others."""
    used: dict[tuple[str, int, float], RunResult] = {}
    left_out = []
    for run in results:
        if run.host is not None:
            continue
        key = run.instant, run.files, run.recorded_s
        if run.finished < RUN_FINISHED:
            reason = f"only {plural(run.finished, 'file')} finished"
        elif run.unfit:
            reason = run.unfit
        elif policy == "adaptive" and run.recorded_s < LEAST_S:
            took = f"took {run.recorded_s:.1f} s"
            reason = f"{took}; equal runs of under {LEAST_S:g} s differ by more than a setting changes"
        elif key in used:
            reason = "given twice"
        else:
            used[key] = run
            continue
        left_out.append(LeftOutRun(name=f"{run.instant} of {run.source}", reason=reason))
    return list(used.values()), left_out


def _find_reason_to_leave(
    choice: TuningChoice, home: Values, used: Sequence[RunResult], policy: Policy
) -> str:
    """Why the default, or the recorded setting, should stay; empty if the choice is certainly better."""
    if choice.recommended == home:
        return "no other setting is better than the default, as far as these runs can tell"
    if any(run.policy not in {policy, "none"} for run in used) and choice.recorded.mean > 1 - SAME:
        return (
            f"under the best setting of policy {policy} these runs would have taken "
            f"{choice.recorded.mean:.2f} times as long as they did"
        )
    errors = [abs(run.own_s / run.recorded_s - 1) for run in used if run.recorded_s > 0]
    noise = max(SAME, math.fsum(errors) / len(errors)) if policy == "adaptive" and errors else SAME
    gain = 1 - choice.ratio.mean
    if policy == "adaptive" and (gain <= noise or max(choice.ratio.high, choice.held_out.ratio.high) >= 1):
        return (
            f"{describe_values(choice.recommended)} would gain {gain:.1%}, which is within the noise: "
            f"the replay itself is {noise:.1%} off"
        )
    return ""


def _list_doubts(used: Sequence[RunResult], policy: Policy) -> Iterator[str]:
    """The limits of the recording, in sentences."""
    mitigated = [run for run in used if run.policy != "none"]
    cut = sum(run.estimates.by_rate + run.estimates.by_stall_rule for run in mitigated)
    if cut:
        names = " and ".join(sorted({run.policy for run in mitigated}))
        yield (
            f"{names} cancelled {plural(cut, 'attempt')} of the recorded runs: how long they would have "
            "taken is an estimate; record runs with --no-mitigation to measure it"
        )
    took_s = [run.recorded_s for run in used]
    if policy == "adaptive" and len({run.files for run in used}) == 1 and max(took_s) > CLOSE * min(took_s):
        yield (
            f"these runs of {plural(used[0].files, 'file')} each took {min(took_s):.1f} to "
            f"{max(took_s):.1f} s, so the time of a single run cannot be foretold more closely"
        )
    if policy == "adaptive":
        yield (
            "only the multiplier can be tuned by replay: other concurrency or pauses would have met another "
            "network than the recorded one"
        )


def _require_enough(used: Sequence[RunResult], left_out: Sequence[LeftOutRun], policy: Policy) -> None:
    stays = f"the default stays: {describe_values(describe_setting(_make_default_setting(), policy))}"
    if len(used) < MIN_RUNS:
        reasons = "".join(f"\n  {run.name}: {run.reason}" for run in left_out[:SHOWN_REASONS])
        raise UsageError(
            f"only {plural(len(used), 'run')} can be used, but {MIN_RUNS} are needed; "
            f"give the metrics of more runs; until then {stays}{reasons}"
        )
    finished = sum(run.finished for run in used)
    if finished < MIN_FINISHED:
        raise UsageError(
            f"finished files in all runs: {finished}, but {MIN_FINISHED} are needed; "
            f"give the metrics of more runs; until then {stays}"
        )


def _describe_run(run: RunResult, policy: Policy) -> Replayed:
    return Replayed(
        source=run.source,
        instant=run.instant,
        files=run.files,
        finished=run.finished,
        workers=run.workers,
        policy=run.policy,
        recorded_s=run.recorded_s,
        replayed_s=run.own_s if run.policy in {policy, "none"} else None,
    )


def _choose_by_host(
    results: Sequence[RunResult], columns: Sequence[Setting]
) -> tuple[list[HostChoice], list[LeftOutRun]]:
    """A choice for each host that has enough files, the largest first, and why the others have none."""
    allowed, default = len(columns) - 1, columns.index(_make_default_setting())
    by_host: dict[str, list[RunResult]] = {}
    for run in results:
        if run.host is not None and run.finished >= HOST_FILES:
            by_host.setdefault(run.host, []).append(run)
    hosts: list[HostChoice] = []
    left_out: list[LeftOutRun] = []
    for host, own in sorted(by_host.items(), key=lambda item: -sum(run.finished for run in item[1])):
        reason = None
        if len(own) < MIN_RUNS:
            reason = f"{HOST_FILES} finished files or more in only {len(own)} of the {MIN_RUNS} runs needed"
        elif not any(any(run.flagged[:allowed]) for run in own):
            reason = "nothing of it was slow"
        elif len(hosts) >= MOST_HOSTS:
            reason = f"not among the {MOST_HOSTS} with most files"
        if reason:
            left_out.append(LeftOutRun(name=host, reason=reason))
            continue
        table = build_table(columns, default, own)
        files = sum(run.finished for run in own)
        hosts.append(HostChoice(host=host, runs=len(own), files=files, choice=choose_setting(table, allowed)))
    return hosts, left_out


def format_config(tuning: Tuning, day: str) -> str:
    """A file for ``--config``, with its figures and data as comments.

    It names the policy that was requested, or else the one that the runs had.
    """
    choice = tuning.choice
    return "\n".join(
        (
            *_list_remarks(tuning, day),
            f"policy: {tuning.policy}  # these values are for it alone",
            *(f"{k}: {v}" for k, v in format_values(choice.recommended).items()),
            "",
        )
    )


def _list_remarks(tuning: Tuning, day: str) -> Iterator[str]:
    choice, runs, held_out = tuning.choice, tuning.runs, tuning.choice.held_out
    files = sum(run.finished for run in runs)
    yield f"# Made by cfetch {tuning.version} tune on {day}: cfetch download MANIFEST --config this-file"
    yield f"# From {len(runs)} runs with {files:,} finished files, {runs[0].instant} to {runs[-1].instant}."
    default = describe_values(tuning.default)
    yield f"# Makespans against the default's ({default}), with 95 % intervals over runs:"
    yield f"#   these values                         {_format_interval(choice.ratio)}"
    held_out_ratio = _format_interval(held_out.ratio)
    yield f"#   on runs they were not chosen on       {held_out_ratio}, {held_out.folds} folds"
    yield f"#   nobody ever flagged                  {_format_interval(tuning.unmitigated.ratio)}"
    policies = ", ".join(sorted({run.policy for run in runs}))
    yield f"# Against what was really run (policy {policies}): {_format_interval(choice.recorded)}"
    for doubt in tuning.remarks:
        yield f"# {doubt}"
    for host in tuning.hosts:
        yield f"# {printable(host.host, 80)} alone: {describe_values(host.choice.recommended)}"


def _format_interval(estimate: Estimated) -> str:
    return f"{estimate.mean:.3f} ({estimate.low:.3f} to {estimate.high:.3f})"


def write_config(path: Path, text: str) -> None:
    """Write the file, in one step. Raises as ``open_output``."""
    try:
        with open_output(path, private=False) as file:
            file.write(text)
    except LocalFault as fault:
        raise LocalFault(f"{fault}; name another with --out") from None
