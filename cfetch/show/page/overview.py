"""The first part of a page of runs: figures of one run, of two with their differences, or of many; settings.

Pure.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec

from cfetch.base.config.settings import Settings
from cfetch.base.secret import printable
from cfetch.show.document import RunLine
from cfetch.show.format import count, duration, rate, size
from cfetch.show.metrics import RunHeader
from cfetch.show.page.document import AnySection, Card, Cards, Cell, Table, Tone


class _Figure(NamedTuple):
    """A figure of a run: its value, its text, whether more is better (1), worse (-1) or neither (0)."""

    label: str
    value: Callable[[RunLine], float | None]
    text: Callable[[float], str]
    better: int = 0


_FIGURES = (
    _Figure("files in place", lambda run: run.done + run.skipped, lambda value: count(int(value)), 1),
    _Figure("failed", lambda run: run.failed, lambda value: count(int(value)), -1),
    _Figure("received", lambda run: run.bytes, size),
    _Figure("time", lambda run: run.elapsed_s, duration, -1),
    _Figure("rate", lambda run: None if run.had_nothing_to_do else run.rate_bps, rate, 1),
    _Figure("saved by mitigation", lambda run: run.saved_s, duration, 1),
    _Figure("wasted", lambda run: run.wasted, size, -1),
    _Figure("stragglers", lambda run: run.stragglers, lambda value: count(int(value))),
    _Figure("retries", lambda run: run.retries, lambda value: count(int(value)), -1),
    _Figure("exit code", lambda run: run.exit_code, lambda value: str(int(value))),
)


def compare_runs(lines: Sequence[RunLine], names: Sequence[str]) -> AnySection:
    """Cards for one run or two, a table for more."""
    if len(lines) > 2:
        rows: list[list[Cell | str]] = [
            [name, *(_text_of(figure, line) for figure in _FIGURES)]
            for name, line in zip(names, lines, strict=True)
        ]
        return Table(title="Runs", columns=["run", *(f">{figure.label}" for figure in _FIGURES)], rows=rows)
    first, second = lines[0], lines[1] if len(lines) == 2 else None
    cards = [_make_card(figure, first, second) for figure in _FIGURES]
    return Cards(title="At a glance", cards=cards, names=list(names) if second else [])


def _make_card(figure: _Figure, first: RunLine, second: RunLine | None) -> Card:
    value = figure.value(first)
    is_bad = figure.label in ("failed", "exit code") and bool(value)
    card = Card(
        label=figure.label,
        value=_text_of(figure, first),
        note=_note_of(figure, first),
        tone="bad" if is_bad else "",
    )
    if second is None:
        return card
    other = figure.value(second)
    change, tone = "the same" if value == other else "", _tone_of(0, 0)
    if value is not None and other is not None and value != other:
        share = f" ({(other - value) / value:+.0%})" if value > 0 and figure.text is not str else ""
        sign = "+" if other > value else "−"
        change = f"{sign}{figure.text(abs(other - value))}{share}"
        tone = _tone_of(figure.better, other - value)
    return msgspec.structs.replace(
        card, note="", other=_text_of(figure, second), change=change, change_tone=tone
    )


def _tone_of(better: int, change: float) -> Tone:
    if not better or not change:
        return "dim"
    return "good" if better * change > 0 else "bad"


def _text_of(figure: _Figure, line: RunLine) -> str:
    value = figure.value(line)
    return "–" if value is None else figure.text(value)


def _note_of(figure: _Figure, line: RunLine) -> str:
    if figure.label == "files in place":
        there = f", {line.skipped:,} were there already" if line.skipped else ""
        return f"of {line.planned:,}{there}" + ("" if line.complete else "; the run is not complete")
    if figure.label == "time":
        return f"{line.concurrency} at a time, policy {line.policy or 'unknown'}"
    if figure.label == "saved by mitigation":
        return "by a replay without mitigation"
    return ""


def list_settings(headers: Sequence[RunHeader], names: Sequence[str]) -> list[AnySection]:
    """The settings that differ from the defaults or between runs, and, folded, all others."""
    defaults = {name: _show(value) for name, value in Settings().public().items()}
    keys = sorted({*defaults, *(key for header in headers for key in header.settings)})
    changed: list[list[Cell | str]] = []
    usual: list[list[Cell | str]] = []
    for key in keys:
        values = [_show(header.settings.get(key)) for header in headers]
        is_usual = all(key not in header.settings for header in headers) or all(
            value == defaults.get(key) for value in values
        )
        is_mixed = len(set(values)) > 1
        cells = [Cell(text=value, tone="bad" if is_mixed else "") for value in values]
        (usual if is_usual else changed).append([printable(key, 60), *cells, defaults.get(key, "")])
    versions: list[list[Cell | str]] = [
        ["cfetch", *(printable(header.version, 40) for header in headers), ""]
    ]
    columns = ["setting", *names, "default"]
    return [
        Table(title="Settings", note="that are not the defaults", columns=columns, rows=versions + changed),
        Table(title="All other settings", columns=columns, rows=usual, folded=True),
    ]


def _show(value: object) -> str:
    if value is None:
        return "–"
    if isinstance(value, list | tuple):
        return printable(", ".join(map(str, value)), 400)
    return printable(str(value).lower() if isinstance(value, bool) else str(value), 400)
