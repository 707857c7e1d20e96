"""The panel of a cluster's executors: a row for each, slow ones first; in a small terminal one line."""

from rich.text import Text

from cfetch.base.events import ExecutorView
from cfetch.base.secret import printable
from cfetch.show.format import cells, count, fit, percent, plural, rate, shorten
from cfetch.show.live.trouble_texts import fraction_text

_TASKS, _FILES, _RATE, _STATE = 6, 10, 10, 23  # "9999", "10,000,000", "1023 MiB/s", "▲ slow: 30 % of others"


def executors_panel(executors: list[ExecutorView], width: int, lines: int) -> list[Text]:
    """At most ``lines`` lines, at least three: a header, rows, and one line for the rest."""
    shown = sort_by_trouble(executors)
    rest = shown[lines - 2 :] if len(shown) > lines - 1 else []
    longest = max(cells(printable(executor.name)) for executor in executors)
    title = _title(executors)
    name = min(max(longest, len(title)), max(8, width - _TASKS - _FILES - _RATE - _STATE - 4))
    if len(title) > name:
        title = plural(len(executors), "executor")
    header = f"{fit(title, name)} {'tasks':>{_TASKS}} {'files':>{_FILES}} {'rate':>{_RATE}} state"
    rows = [_draw_row(executor, name) for executor in shown[: len(shown) - len(rest)]]
    return [
        Text(header, style="dim", no_wrap=True, overflow="crop"),
        *rows,
        *([_draw_rest(rest)] if rest else []),
    ]


def executors_line(executors: list[ExecutorView]) -> Text:
    """The number of executors, and the slowest of the slow ones."""
    text = Text(no_wrap=True, overflow="ellipsis")
    text.append("executors   ", "dim")
    text.append(f"{count(len(executors))}, {plural(sum(executor.tasks for executor in executors), 'task')}")
    slow = [executor for executor in sort_by_trouble(executors) if executor.fraction is not None]
    if slow:
        text.append(f"; {len(slow)} slow: ", "bold yellow")
        text.append(f"{shorten(slow[0].name, 30)}, {fraction_text(slow[0].fraction)}")
    return text


def _title(executors: list[ExecutorView]) -> str:
    tasks = plural(sum(executor.tasks for executor in executors), "task")
    return f"{plural(len(executors), 'executor')}, {tasks}"


def sort_by_trouble(executors: list[ExecutorView]) -> list[ExecutorView]:
    """Sort the executors: slow ones first, the slowest at the top; the others keep their order."""
    return sorted(executors, key=lambda executor: (executor.fraction is None, executor.fraction or 0.0))


def _draw_row(executor: ExecutorView, name: int) -> Text:
    text = Text(no_wrap=True, overflow="ellipsis")
    text.append(
        f"{fit(shorten(executor.name, name), name)} {executor.tasks:>{_TASKS}} "
        f"{count(executor.files):>{_FILES}} "
    )
    text.append(f"{rate(executor.rate_bps):>{_RATE}} ")
    if executor.fraction is None:
        text.append("● ok" if executor.tasks else "◌ idle", "green" if executor.tasks else "dim")
    else:
        text.append(f"▲ slow: {percent(executor.fraction)} of others", "bold yellow")
    return text


def _draw_rest(rest: list[ExecutorView]) -> Text:
    slow = sum(executor.fraction is not None for executor in rest)
    how = f"{slow} of them slow" if slow else f"{rate(sum(executor.rate_bps for executor in rest))} together"
    return Text(f"and {len(rest)} more, {how}", style="bold yellow" if slow else "dim", no_wrap=True)
