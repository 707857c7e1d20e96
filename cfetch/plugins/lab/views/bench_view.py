"""A bench on a terminal: when files finished in each run, side by side, then the numbers.

The picture has one line for each run, on one time axis. A column's height is the number of files that
finished in it (as a logarithm, so that a single late file is visible); dots are time in which no file
finished. Green is the time that the ideal run took, yellow is up to twice that time, and red is the tail.
"""

import math
from bisect import bisect_right
from collections.abc import Callable
from itertools import pairwise

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from cfetch.base.secret import printable
from cfetch.plugins.lab.views.bench_document import Comparison, Contender, Figures
from cfetch.show.format import count, duration, plural, size

NAME_WIDTH = 14
LEVEL = 1.05  # times: a smaller gain is noise
WIDTH = 58  # of the axis; with name and time a line has 80 columns
_LEVELS = "▁▂▃▄▅▆▇█"
_LEGEND = (
    "files finished over time, up to the slowest run's last: █ most, ▁ few, · none;",
    "green: within the ideal run's time, yellow: up to twice that, red: later",
)
NAMES = {"ideal": "ideal", "none": "no mitigation"}


def view(comparison: Comparison) -> RenderableType:
    """The whole bench, for ``Console.print``."""
    parts: list[RenderableType] = [
        _draw_heading(comparison),
        Text(),
        *picture(comparison.runs, comparison.policy),
        Text(),
    ]
    parts.append(_draw_table(comparison))
    if comparison.contenders:
        parts += [Text(), _draw_contenders(comparison), *_list_commands(comparison.contenders)]
    return Group(*parts, Text(), Text(sum_up(comparison)))


def sum_up(comparison: Comparison) -> str:
    """What mitigation was worth and how it helped, in one sentence."""
    ideal, alone, mitigated = (duration(run.wall_s) for run in comparison.runs)
    policy = printable(comparison.policy, 40)
    times = f"{mitigated} with policy {policy}, {alone} without, {ideal} from a server without faults"
    if comparison.gain < LEVEL:
        return f"Mitigation did not make this workload faster: {times}."
    ways, run = [], comparison.runs[-1]
    if run.mitigations:
        ways.append(f"cancelled {plural(run.mitigations, 'slow attempt')} and went on over fresh connections")
    if run.in_segments:
        ways.append(f"let further connections bring parts of {plural(run.in_segments, 'file')}")
    helped = f". It {', and it '.join(ways)}" if ways else ""
    return f"Mitigation made this workload {comparison.gain:.1f} times faster: {times}{helped}."


def picture(runs: list[Figures], policy: str) -> list[Text]:
    """One line for each run, the axis and a legend. A column is the same time in all lines.

    The mitigated run has the name of its ``policy``.
    """
    ends_s = {run.name: run.finishes_s[-1] for run in runs if run.finishes_s}
    span_s = max(ends_s.values(), default=0.0) or 1.0
    ideal_s = ends_s.get("ideal", span_s)
    axis = f"{'':{NAME_WIDTH}}0{duration(span_s):>{WIDTH - 1}}"
    return [
        *(_draw_run(run, NAMES.get(run.name, policy), span_s, ideal_s) for run in runs),
        *(Text(line, style="dim", no_wrap=True) for line in (axis, *_LEGEND)),
    ]


def _draw_run(run: Figures, name: str, span_s: float, ideal_s: float) -> Text:
    line = Text(f"{name:<{NAME_WIDTH}}")
    columns = _count_finishes(run.finishes_s, span_s)
    top = max(columns, default=0)
    for position, number in enumerate(columns):
        since_s = span_s * position / WIDTH
        style = "green" if since_s < ideal_s else "yellow" if since_s < 2 * ideal_s else "red"
        line.append(_draw_level(number, top), style=style if number else f"dim {style}")
    line.append(" " * (WIDTH - len(columns)))
    line.append(f" {duration(run.wall_s):>7}", style="bold")
    return line


def _count_finishes(finishes_s: list[float], span_s: float) -> list[int]:
    """The number of files that finished in each column, up to the end of the run."""
    if not finishes_s:
        return []
    used = min(WIDTH, max(1, math.ceil(WIDTH * finishes_s[-1] / span_s)))
    edges = [span_s * (column + 1) / WIDTH for column in range(used - 1)]
    marks = [0, *(bisect_right(finishes_s, edge) for edge in edges), len(finishes_s)]
    return [right - left for left, right in pairwise(marks)]


def _draw_level(number: int, top: int) -> str:
    if not number:
        return "·"
    return _LEVELS[math.ceil(len(_LEVELS) * math.log1p(number) / math.log1p(top)) - 1]


def _draw_heading(comparison: Comparison) -> Text:
    machine = comparison.machine
    own = {"policy": comparison.policy} | comparison.options
    options = "".join(f", {key} {value}" for key, value in own.items())
    workload = (
        f"{plural(comparison.files, 'file')}, {size(comparison.size_bytes)}, {comparison.faulty} faulty, "
        f"{plural(comparison.concurrency, 'connection')}{options}; seed {comparison.seed}; "
        f"cfetch {comparison.version}, Python {machine.python}, {plural(machine.cpus, 'CPU')}"
    )
    description = f": {comparison.description}" if comparison.description else ""
    return Text.assemble((comparison.scenario, "bold"), description, "\n", (workload, "dim"))


ROWS: tuple[tuple[str, Callable[[Figures], str]], ...] = (
    ("wall", lambda run: f"{run.wall_s:.2f} s"),
    ("slowdown against ideal", lambda run: f"{run.slowdown:.1f}x"),
    ("time per file, p50", lambda run: duration(run.p50_s)),
    ("                 p95", lambda run: duration(run.p95_s)),
    ("                 p99", lambda run: duration(run.p99_s)),
    ("                 max", lambda run: duration(run.max_s)),
    ("files in segments", lambda run: count(run.in_segments)),
    ("attempts cancelled", lambda run: count(run.mitigations)),
    ("false alarms", lambda run: count(run.false_alarms)),
    ("retries", lambda run: count(run.retries)),
    ("bytes wasted", lambda run: size(run.wasted_bytes)),
    ("CPU", lambda run: f"{run.cpu_s:.2f} s"),
)


def _draw_table(comparison: Comparison) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("")
    for run in comparison.runs:
        table.add_column(NAMES.get(run.name, comparison.policy), justify="right")
    for label, cell in ROWS:
        table.add_row(label, *map(cell, comparison.runs))
    table.add_row("files done", *(_draw_done(run) for run in comparison.runs))
    return table


def _draw_done(run: Figures) -> Text:
    bad = [
        f"{count(files)} {word}" for files, word in ((run.failed, "failed"), (run.wrong, "wrong")) if files
    ]
    return Text(", ".join([count(run.done), *bad]), style="bold red" if bad else "")


def _draw_contenders(comparison: Comparison) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for label in ("", "version", "wall, median", "all rounds", "CPU", "whole"):
        table.add_column(label, justify="left" if label in {"", "version"} else "right", no_wrap=True)
    for contender in comparison.contenders:
        walls = [trial.wall_s for trial in contender.trials]
        killed = "killed, >" if any(trial.killed for trial in contender.trials) else ""
        right = min(trial.right for trial in contender.trials)
        whole = f"{count(right)}/{count(comparison.files)}"
        table.add_row(
            Text(contender.name, style="bold" if contender.name == "cfetch" else ""),
            contender.version,
            f"{killed}{contender.wall_s:.2f} s",
            f"{min(walls):.1f}-{max(walls):.1f}",
            f"{contender.cpu_s:.2f} s",
            Text(whole, style="bold red" if right < comparison.files else ""),
        )
    return table


def _list_commands(contenders: list[Contender]) -> list[Text]:
    """The command line of each contender, as a comparison without them is worth nothing."""
    return [Text()] + [Text(contender.command, style="dim", overflow="fold") for contender in contenders]
