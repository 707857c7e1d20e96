"""The panel of a cluster's executors: a row for each, slow ones first; in a small terminal one line."""

from rich.text import Text

from cfetch.dashboard.view import share_text
from cfetch.events import ExecutorView
from cfetch.report.format import cells, count, fit, percent, plural, rate, shorten
from cfetch.secret import printable

__all__ = ["executors_line", "executors_panel"]

_TASKS, _FILES, _RATE, _STATE = 6, 10, 10, 23  # "9999", "10,000,000", "1023 MiB/s", "▲ slow: 30 % of others"


def executors_panel(executors: list[ExecutorView], width: int, lines: int) -> list[Text]:
    """At most ``lines`` lines, at least three: a header, rows, and what did not fit in one line."""
    shown = _by_trouble(executors)
    rest = shown[lines - 2 :] if len(shown) > lines - 1 else []
    longest = max(cells(printable(one.name)) for one in executors)
    title = _title(executors)
    name = min(max(longest, len(title)), max(8, width - _TASKS - _FILES - _RATE - _STATE - 4))
    if len(title) > name:
        title = plural(len(executors), "executor")
    header = f"{fit(title, name)} {'tasks':>{_TASKS}} {'files':>{_FILES}} {'rate':>{_RATE}} state"
    rows = [_row(one, name) for one in shown[: len(shown) - len(rest)]]
    return [Text(header, style="dim", no_wrap=True, overflow="crop"), *rows, *([_rest(rest)] if rest else [])]


def executors_line(executors: list[ExecutorView]) -> Text:
    """How many there are, and the slowest of the slow ones."""
    text = Text(no_wrap=True, overflow="ellipsis")
    text.append("executors   ", "dim")
    text.append(f"{count(len(executors))}, {plural(sum(one.tasks for one in executors), 'task')}")
    slow = [one for one in _by_trouble(executors) if one.share is not None]
    if slow:
        text.append(f"; {len(slow)} slow: ", "bold yellow")
        text.append(f"{shorten(slow[0].name, 30)}, {share_text(slow[0].share)}")
    return text


def _title(executors: list[ExecutorView]) -> str:
    tasks = plural(sum(one.tasks for one in executors), "task")
    return f"{plural(len(executors), 'executor')}, {tasks}"


def _by_trouble(executors: list[ExecutorView]) -> list[ExecutorView]:
    """Slow ones first, the slowest of them before the others; else in their order."""
    return sorted(executors, key=lambda one: (one.share is None, one.share or 0.0))


def _row(one: ExecutorView, name: int) -> Text:
    text = Text(no_wrap=True, overflow="ellipsis")
    text.append(f"{fit(shorten(one.name, name), name)} {one.tasks:>{_TASKS}} {count(one.files):>{_FILES}} ")
    text.append(f"{rate(one.rate_bps):>{_RATE}} ")
    if one.share is None:
        text.append("● ok" if one.tasks else "◌ idle", "green" if one.tasks else "dim")
    else:
        text.append(f"▲ slow: {percent(one.share)} of others", "bold yellow")
    return text


def _rest(rest: list[ExecutorView]) -> Text:
    slow = sum(one.share is not None for one in rest)
    how = f"{slow} of them slow" if slow else f"{rate(sum(one.rate_bps for one in rest))} together"
    return Text(f"and {len(rest)} more, {how}", style="bold yellow" if slow else "dim", no_wrap=True)
