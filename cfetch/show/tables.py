"""A report on a terminal: headline, slowest files, hosts, throughput, mitigations one by one, failures.

Rendering only; every number comes from the `Report` value. Names are shown printable, never read as markup.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import PurePath

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.text import Text

from cfetch.base.secret import printable
from cfetch.show.document import Mitigation, Percentiles, Report, RunLine
from cfetch.show.ending_text import MitigationSetup, explain_tail
from cfetch.show.event_records import describe_event
from cfetch.show.format import (
    cells,
    count,
    duration,
    fit,
    plural,
    rate,
    saving_text,
    shorten,
    size,
)
from cfetch.show.table_text import shorten_apart

BAR = 40  # columns of the longest bar
LEAST_NAME = 16  # a name in fewer columns is not recognisable

Cell = tuple[str, str]  # words, style
Row = Sequence[str | Cell]
Tables = RenderableType


def show(renderable: Tables) -> None:
    """Print on stdout, in colours if that is a terminal."""
    Console(markup=False, emoji=False, highlight=False).print(renderable, soft_wrap=False)


class ReportTables:
    """The whole report, as wide as the console that prints it."""

    def __init__(self, report: Report) -> None:
        self._report = report

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        first = True
        for part in (
            _draw_runs,
            _draw_events,
            _draw_slowest,
            _draw_hosts,
            _draw_throughput,
            _draw_mitigations,
            _draw_failures,
        ):
            for index, line in enumerate(part(self._report, options.max_width)):
                if index == 0 and not first:
                    yield Text()
                first = False
                line.no_wrap, line.overflow = True, "ellipsis"
                yield line


def _draw_heading(words: str, remark: str = "") -> Text:
    return Text.assemble((words, "bold"), (f"  {remark}" if remark else "", "dim"))


def _draw_grid(columns: str, rows: Iterable[Row], width: int) -> Iterator[Text]:
    """A header, and a line for each row. ``>`` aligns a column right; the first column shrinks if needed."""
    names = columns.split("|")
    body = [[cell if isinstance(cell, tuple) else (cell, "") for cell in row] for row in rows]
    head = [(name.removeprefix(">"), "dim") for name in names]
    widths = [max(cells(row[column][0]) for row in (head, *body)) for column in range(len(names))]
    widths[0] = min(widths[0], max(LEAST_NAME, width - sum(widths[1:]) - 2 * len(widths[1:])))
    first = [head[0][0], *shorten_apart([row[0][0] for row in body], widths[0])]
    for name_cell, row in zip(first, (head, *body), strict=True):
        line = Text(fit(name_cell, widths[0]), row[0][1]).append("  ")
        for name, wide, (words, style) in zip(names[1:], widths[1:], row[1:], strict=True):
            padded = f"{words:>{wide}}" if name.startswith(">") else fit(shorten(words, wide), wide)
            line.append(padded, style).append("  ")
        line.rstrip()
        yield line


def _draw_runs(report: Report, _width: int) -> Iterator[Text]:
    for number, run in enumerate(report.runs, start=1):
        where = f"{printable(run.wall_start, 40)} on {printable(run.host, 60)}"
        if _has_several(report) and not PurePath(run.source).name.startswith(run.instant):
            where += f", {printable(PurePath(run.source).name, 60)}"
        place = f"{number}: " if _has_several(report) else ""
        yield _draw_heading(f"run {place}{printable(run.instant, 40)}", where)
        for line in _describe_run(run):
            yield Text(f"  {line}")


def _has_several(report: Report) -> bool:
    return len(report.runs) > 1


def _describe_run(run: RunLine) -> Iterator[str]:
    received = f"{size(run.bytes)} in {duration(run.elapsed_s)} ({rate(run.rate_bps)})"
    if not run.bytes:
        received = f"nothing received in {duration(run.elapsed_s)}"
    in_place = f"{run.done + run.skipped:,} of {plural(run.planned, 'file')} in place"
    yield f"{in_place}, {received}, {run.concurrency} at a time"
    if not run.complete:
        left = run.planned - run.done - run.skipped - run.failed - run.cancelled
        yield f"incomplete: {plural(left, 'file')} without a record; the run was stopped or still goes on"
    rest = [
        (run.skipped, f"{run.skipped:,} already there"),
        (run.failed, f"{run.failed:,} failed"),
        (run.cancelled, f"{run.cancelled:,} cancelled"),
        (run.retries, plural(run.retries, "retry")),
        (run.stragglers, plural(run.stragglers, "straggler")),
        (run.wasted, f"{size(run.wasted)} wasted"),
        (saving_text(run.saved_s), saving_text(run.saved_s)),
    ]
    notes = [words for present, words in rest if present]
    if notes:
        yield ", ".join(notes)
    yield from explain_tail(run.tail, MitigationSetup(run.policy, run.widths, run.most))


def _draw_events(report: Report, _width: int) -> Iterator[Text]:
    for number, run in enumerate(report.runs, start=1):
        if not run.events:
            continue
        more = run.events_total - len(run.events)
        of_run = f" of run {number}" if _has_several(report) else ""
        yield _draw_heading(f"events{of_run}", f"and {count(more)} more" if more else "")
        for event in run.events:
            yield Text.assemble((f"{duration(event.t_s):>8}  ", "dim"), describe_event(event))


def _draw_slowest(report: Report, width: int) -> Iterator[Text]:
    if not report.slowest:
        return
    yield _draw_heading("slowest files", "from the first attempt to the end")
    rows: list[Row] = [
        (
            file.path,
            *([str(file.run)] if _has_several(report) else []),
            size(file.size_bytes),
            duration(file.elapsed_s),
            rate(file.rate_bps),
            str(file.attempts),
            file.why,
        )
        for file in report.slowest
    ]
    run = "|>run" if _has_several(report) else ""
    yield from _draw_grid(f"file{run}|>size|>time|>rate|>tries|why", rows, width)


def _draw_hosts(report: Report, _width: int) -> Iterator[Text]:
    if not report.hosts:
        return
    more = report.hosts_total - len(report.hosts)
    remark = (
        f"and {count(more)} more with fewer files" if more else "percentiles over the files that are done"
    )
    yield _draw_heading("hosts", remark)
    for host in report.hosts:
        named = f"{shorten(host.host, 60)}, {plural(host.files, 'file')}, {size(host.bytes)}"
        yield Text(named)
        yield Text(f"{'':10}" + "".join(f"{name:>14}" for name in ("p5", "p50", "p95", "p99")), "dim")
        yield _draw_percentiles("rate", host.rate_bps, rate)
        yield _draw_percentiles("time", host.elapsed_s, duration)
        if host.first_byte_s:
            yield _draw_percentiles("1st byte", host.first_byte_s, duration)


def _draw_percentiles(name: str, values: Percentiles, words: Callable[[float], str]) -> Text:
    shown = (values.p05, values.p50, values.p95, values.p99)
    return Text.assemble((f"  {name:<8}", "dim"), "".join(f"{words(value):>14}" for value in shown))


def _draw_throughput(report: Report, width: int) -> Iterator[Text]:
    if not report.throughput:
        return
    yield _draw_heading("throughput", "files by their own rate")
    most = max(rates.files for rates in report.throughput)
    columns = max(10, min(BAR, width - 40))
    for rates in report.throughput:
        label = f"{rate(rates.from_bps):>10} to {rate(rates.to_bps):>10} {count(rates.files):>9} "
        halves = max(1, round(2 * columns * rates.files / most)) if rates.files else 0
        yield Text.assemble(label, ("━" * (halves // 2) + "╸" * (halves % 2), "cyan"))


def _draw_mitigations(report: Report, width: int) -> Iterator[Text]:
    sums = report.mitigations
    if not sums.cancelled:
        return
    yield _draw_heading("mitigations", "what cancelling each straggler was worth to its file")
    yield Text(
        f"  {plural(sums.cancelled, 'attempt')} cancelled: {sums.better:,} better, {sums.worse:,} worse, "
        f"{sums.unknown:,} unknown; {size(sums.wasted_bytes)} wasted"
    )
    rows: list[Row] = [
        (
            mitigation.path,
            str(mitigation.attempt),
            duration(mitigation.elapsed_s),
            rate(mitigation.rate_bps),
            "never" if mitigation.projected_s is None else duration(mitigation.projected_s),
            "never" if mitigation.finish_s is None else duration(mitigation.finish_s),
            _saved_cell(mitigation),
            size(mitigation.wasted_bytes),
        )
        for mitigation in sums.shown
    ]
    yield from _draw_grid("file|>try|>ran|>at rate|>alone by|>done by|>saved|>wasted", rows, width)
    more = sums.cancelled - len(sums.shown)
    tail = f"; {count(more)} more of less effect" if more else ""
    yield Text(f"  alone by, done by: since the run's start{tail}; alone: at its last rate, or faster", "dim")
    yield Text("  where slow attempts were seen to become fast again by themselves", "dim")


def _saved_cell(mitigation: Mitigation) -> Cell:
    if mitigation.saved_s is None:
        return ("?", "dim")
    return (
        f"{'+' if mitigation.saved_s > 0 else ''}{duration(mitigation.saved_s)}",
        "green" if mitigation.saved_s > 0 else "red",
    )


def _draw_failures(report: Report, width: int) -> Iterator[Text]:
    if not report.failures:
        return
    yield _draw_heading("failures", "by cause, each with an example")
    for kind in report.failures:
        example = f"{shorten(kind.path, max(LEAST_NAME, width // 3))}: {printable(kind.message)}"
        yield Text.assemble((f"{printable(kind.kind, 20):<12}", "red"), f"{count(kind.files):>7}  ", example)
