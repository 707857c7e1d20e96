"""A report on a terminal: headline, slowest files, hosts, throughput, mitigations one by one, failures.

Rendering only; every number comes from the `Report` value. Names are shown printable, never read as markup.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.text import Text

from cfetch.report.document import Mitigation, Mitigations, Percentiles, Report, RunLine
from cfetch.report.format import cells, count, duration, fit, plural, rate, shorten, size
from cfetch.secret import printable

__all__ = ["show", "tables"]

BAR = 40  # columns of the longest bar
LEAST_NAME = 16  # a name with fewer columns tells nothing

Cell = tuple[str, str]  # words, style
Row = Sequence[str | Cell]


def show(renderable: RenderableType) -> None:
    """Print on stdout, in colours where that is a terminal."""
    Console(markup=False, emoji=False, highlight=False).print(renderable, soft_wrap=False)


def tables(report: Report) -> RenderableType:
    """The whole report, as wide as the console that prints it."""
    return _Tables(report)


class _Tables:
    def __init__(self, report: Report) -> None:
        self._report = report

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        first = True
        for part in (_runs, _slowest, _hosts, _throughput, _mitigations, _failures):
            for index, line in enumerate(part(self._report, options.max_width)):
                if index == 0 and not first:
                    yield Text()
                first = False
                line.no_wrap, line.overflow = True, "ellipsis"
                yield line


def _heading(words: str, remark: str = "") -> Text:
    return Text.assemble((words, "bold"), (f"  {remark}" if remark else "", "dim"))


def _grid(columns: str, rows: Iterable[Row], width: int) -> Iterator[Text]:
    """A header and a line for each row. ``>`` aligns a column right; the first one gives way."""
    names = columns.split("|")
    body = [[cell if isinstance(cell, tuple) else (cell, "") for cell in row] for row in rows]
    head = [(name.removeprefix(">"), "dim") for name in names]
    widths = [max(cells(row[at][0]) for row in (head, *body)) for at in range(len(names))]
    widths[0] = min(widths[0], max(LEAST_NAME, width - sum(widths[1:]) - 2 * len(widths[1:])))
    for row in (head, *body):
        line = Text()
        for name, wide, (words, style) in zip(names, widths, row, strict=True):
            padded = f"{words:>{wide}}" if name.startswith(">") else fit(shorten(words, wide), wide)
            line.append(padded, style).append("  ")
        line.rstrip()
        yield line


def _runs(report: Report, _width: int) -> Iterator[Text]:
    for number, run in enumerate(report.runs, start=1):
        where = f"{printable(run.wall_start, 40)} on {printable(run.host, 60)}"
        yield _heading(f"run {f'{number}: ' * _several(report)}{printable(run.instant, 40)}", where)
        for line in _headline(run):
            yield Text(f"  {line}")


def _several(report: Report) -> bool:
    return len(report.runs) > 1


def _headline(run: RunLine) -> Iterator[str]:
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
        (run.wasted, f"{size(run.wasted)} in vain"),
    ]
    told = [words for present, words in rest if present]
    if told:
        yield ", ".join(told)


def _slowest(report: Report, width: int) -> Iterator[Text]:
    if not report.slowest:
        return
    yield _heading("slowest files", "from the first attempt to the end")
    numbers = {run.instant: str(number) for number, run in enumerate(report.runs, start=1)}
    rows: list[Row] = [
        (
            file.path,
            *([numbers.get(file.instant, "?")] if _several(report) else []),
            size(file.size_bytes),
            duration(file.elapsed_s),
            rate(file.rate_bps),
            str(file.attempts),
            file.why,
        )
        for file in report.slowest
    ]
    run = "|>run" if _several(report) else ""
    yield from _grid(f"file{run}|>size|>time|>rate|>tries|why", rows, width)


def _hosts(report: Report, _width: int) -> Iterator[Text]:
    if not report.hosts:
        return
    more = report.hosts_total - len(report.hosts)
    remark = (
        f"and {count(more)} more with fewer files" if more else "percentiles over the files that are done"
    )
    yield _heading("hosts", remark)
    for host in report.hosts:
        named = f"{shorten(host.host, 60)}, {plural(host.files, 'file')}, {size(host.bytes)}"
        yield Text(named)
        yield Text(f"{'':10}" + "".join(f"{name:>14}" for name in ("p5", "p50", "p95", "p99")), "dim")
        yield _four("rate", host.rate_bps, rate)
        yield _four("time", host.elapsed_s, duration)
        if host.first_byte_s:
            yield _four("1st byte", host.first_byte_s, duration)


def _four(name: str, values: Percentiles, words: Callable[[float], str]) -> Text:
    shown = (values.p05, values.p50, values.p95, values.p99)
    return Text.assemble((f"  {name:<8}", "dim"), "".join(f"{words(value):>14}" for value in shown))


def _throughput(report: Report, width: int) -> Iterator[Text]:
    if not report.throughput:
        return
    yield _heading("throughput", "files by their own rate")
    most = max(one.files for one in report.throughput)
    columns = max(10, min(BAR, width - 40))
    for one in report.throughput:
        label = f"{rate(one.from_bps):>10} to {rate(one.to_bps):>10} {count(one.files):>9} "
        halves = max(1, round(2 * columns * one.files / most)) if one.files else 0
        yield Text.assemble(label, ("━" * (halves // 2) + "╸" * (halves % 2), "cyan"))


def _mitigations(report: Report, width: int) -> Iterator[Text]:
    sums = report.mitigations
    if not sums.cancelled:
        return
    yield _heading("mitigations", "what cancelling each straggler was worth")
    yield from (Text(f"  {line}") for line in _balance(sums))
    rows: list[Row] = [
        (
            one.path,
            str(one.attempt),
            duration(one.elapsed_s),
            rate(one.rate_bps),
            "never" if one.projected_s is None else duration(one.projected_s),
            "never" if one.finish_s is None else duration(one.finish_s),
            _saved(one),
            size(one.wasted_bytes),
        )
        for one in sums.shown
    ]
    yield from _grid("file|>try|>ran|>at rate|>alone by|>done by|>saved|>in vain", rows, width)
    more = sums.cancelled - len(sums.shown)
    tail = f"; {count(more)} more of less effect" if more else ""
    yield Text(f"  alone by: when it would have been done, left alone, at its last rate{tail}", "dim")


def _balance(sums: Mitigations) -> tuple[str, str]:
    verb = "saved" if sums.saved_s >= 0 else "lost"
    return (
        (
            f"{plural(sums.cancelled, 'attempt')} cancelled: {sums.better:,} better, {sums.worse:,} worse, "
            f"{sums.unknown:,} unknown"
        ),
        f"{verb} {duration(abs(sums.saved_s))} summed over the files, {size(sums.wasted_bytes)} in vain",
    )


def _saved(one: Mitigation) -> Cell:
    if one.saved_s is None:
        return ("?", "dim")
    return (f"{'+' if one.saved_s > 0 else ''}{duration(one.saved_s)}", "green" if one.saved_s > 0 else "red")


def _failures(report: Report, width: int) -> Iterator[Text]:
    if not report.failures:
        return
    yield _heading("failures", "by kind, each with an example")
    for kind in report.failures:
        example = f"{shorten(kind.path, max(LEAST_NAME, width // 3))}: {printable(kind.message)}"
        yield Text.assemble((f"{printable(kind.kind, 20):<12}", "red"), f"{count(kind.files):>7}  ", example)
