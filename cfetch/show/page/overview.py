"""The first part of a page of runs: figures of one run, of two with their differences, or of many; settings.

Pure.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from cfetch.base.config.settings import Settings
from cfetch.base.secret import printable
from cfetch.show.document import RunLine
from cfetch.show.format import count, duration, rate, size
from cfetch.show.metrics import RunHeader
from cfetch.show.page.document import AnySection, Card, Cards, Cell, PageTable, Tone


class _Figure(NamedTuple):
    """A figure of a run: its value, its text, whether more is better (1), worse (-1) or neither (0)."""

    label: str
    value: Callable[[RunLine], float | None]
    text: Callable[[float], str]
    better: int = 0


_FIGURES = (
    _Figure("time", lambda run: run.elapsed_s, duration, -1),
    _Figure("rate", lambda run: None if run.had_nothing_to_do else run.rate_bps, rate, 1),
    _Figure("received", lambda run: run.bytes, size),
    _Figure("files in place", lambda run: run.done + run.skipped, lambda value: count(int(value)), 1),
    _Figure("failed", lambda run: run.failed, lambda value: count(int(value)), -1),
    _Figure("saved by mitigation", lambda run: run.saved_s, duration, 1),
    _Figure("wasted", lambda run: run.wasted, size, -1),
    _Figure("stragglers", lambda run: run.stragglers, lambda value: count(int(value))),
    _Figure("retries", lambda run: run.retries, lambda value: count(int(value)), -1),
    _Figure("exit code", lambda run: run.exit_code, lambda value: str(int(value))),
)
_BYTE_RATES = frozenset({"limit_rate", "limit_rate_per_host", "min_rate"})  # settings, in bytes per second
MAIN = 4  # figures that every run has; of the others those that are not 0 are shown
_UNWANTED = ("failed", "exit code")


def compare_runs(
    lines: Sequence[RunLine], names: Sequence[str], *, is_comparable: bool = False
) -> AnySection:
    """Figures of one run, or a table of several; with the changes, if two are comparable."""
    if len(lines) == 1:
        return Cards(title="At a glance", cards=list(_make_cards(lines[0])))
    if len(lines) == 2:
        return _compare_two(lines[0], lines[1], names, is_comparable=is_comparable)
    rows: list[list[Cell | str]] = [
        [name, *(_text_of(figure, line) for figure in _FIGURES)]
        for name, line in zip(names, lines, strict=True)
    ]
    return PageTable(title="Runs", columns=["run", *(f">{figure.label}" for figure in _FIGURES)], rows=rows)


def _make_cards(line: RunLine) -> Iterator[Card]:
    for number, figure in enumerate(_FIGURES):
        value = figure.value(line)
        if number >= MAIN and not value:
            continue
        yield Card(
            label=figure.label,
            value=_text_of(figure, line),
            note=_note_of(figure, line),
            tone="bad" if figure.label in _UNWANTED else "",
            minor=number >= MAIN,
        )


def _compare_two(first: RunLine, second: RunLine, names: Sequence[str], *, is_comparable: bool) -> PageTable:
    """A row for each figure that is not 0 in both runs."""
    shown = [
        figure
        for number, figure in enumerate(_FIGURES)
        if number < MAIN or figure.value(first) or figure.value(second)
    ]
    rows: list[list[Cell | str]] = [
        [figure.label, _text_of(figure, first), _text_of(figure, second)]
        + ([_change_of(figure, first, second)] if is_comparable else [])
        for figure in shown
    ]
    columns = ["", *(f">{name}" for name in names), *([">change"] if is_comparable else [])]
    return PageTable(title="At a glance", columns=columns, rows=rows, small=True)


def _change_of(figure: _Figure, first: RunLine, second: RunLine) -> Cell:
    value, other = figure.value(first), figure.value(second)
    if value is None or other is None:
        return Cell(text="")
    if value == other:
        return Cell(text="the same", tone="dim")
    is_counted = figure.label == "exit code"
    share = f" ({(other - value) / value:+.0%})" if value > 0 and not is_counted else ""
    sign = "+" if other > value else "−"
    return Cell(
        text=f"{sign}{figure.text(abs(other - value))}{share}",
        tone=_tone_of(figure.better, other - value),
    )


def _tone_of(better: int, change: float) -> Tone:
    if not better:
        return "dim"
    return "good" if better * change > 0 else "bad"


def _text_of(figure: _Figure, line: RunLine) -> str:
    value = figure.value(line)
    return "–" if value is None else figure.text(value)


def _note_of(figure: _Figure, line: RunLine) -> str:
    if figure.label == "files in place":
        return f"of {line.planned:,}" + (f", {line.skipped:,} before" if line.skipped else "")
    if figure.label == "time":
        return f"{line.concurrency} at a time"
    if figure.label == "rate":
        return "on average"
    if figure.label == "received":
        return "over the wire"
    return ""


def list_settings(headers: Sequence[RunHeader], names: Sequence[str]) -> list[AnySection]:
    """The settings that differ from the defaults or between runs, and, folded, all others."""
    defaults = {name: _show(value, name) for name, value in Settings().public().items()}
    keys = sorted({*defaults, *(key for header in headers for key in header.settings)})
    changed: list[list[Cell | str]] = []
    usual: list[list[Cell | str]] = []
    for key in keys:
        values = [_show(header.settings.get(key), key) for header in headers]
        is_usual = all(key not in header.settings for header in headers) or all(
            value == defaults.get(key) for value in values
        )
        is_mixed = len(set(values)) > 1
        cells = [Cell(text=value, tone="apart" if is_mixed else "") for value in values]
        (usual if is_usual else changed).append([printable(key, 60), *cells, defaults.get(key, "")])
    versions: list[list[Cell | str]] = [
        ["cfetch", *(printable(header.version, 40) for header in headers), ""]
    ]
    columns = ["setting", *names, "default"]
    return [
        PageTable(
            title="Settings", note="that are not the defaults", columns=columns, rows=versions + changed
        ),
        PageTable(title="All other settings", columns=columns, rows=usual, folded=True),
    ]


def _show(value: object, key: str) -> str:
    if value is None:
        return "–"
    if key in _BYTE_RATES and isinstance(value, int | float):
        return rate(value)
    if isinstance(value, list | tuple):
        return printable(", ".join(map(str, value)), 400)
    return printable(str(value).lower() if isinstance(value, bool) else str(value), 400)
