"""The table of active attempts: columns that fit the width, a row for each attempt."""

from collections.abc import Sequence
from typing import NamedTuple

from rich.text import Text

from cfetch.base.events import ActiveAttempt
from cfetch.show.format import cells, duration, fit, rate, shorten, size
from cfetch.show.table_text import shorten_apart

# sign, style: readable without colour, and without knowing the signs, since the word is beside them
_STATES = {
    "ok": ("●", "green"),
    "slow": ("▲", "yellow"),
    "straggler": ("×", "bold red"),
    "retrying": ("↻", "magenta"),
    "last try": ("!", "bold yellow"),
    "segment": ("┄", "green"),
}
_RATE, _TIME, _STATE, _SIZE = 10, 15, 12, 8  # "1023 KiB/s", "12m 39s/15m 20s", "● 16 at once", "1023 KiB"
_TRY, _HOST = 3, 20  # an executor's column is as wide as a host's
_ELAPSED = 7  # "12m 39s"
NARROW = 56  # below this width, bars and limits give way to the states


class _Columns(NamedTuple):
    name: int
    executor: int
    host: int
    size: int
    bar: int
    tries: int


def _columns(width: int, cluster: bool) -> _Columns:
    """Wide terminals add host, try and longer bars; narrow ones drop the size, then bars and limits.

    On a cluster the executor is more useful than the host, and comes before it.
    """
    first = _HOST if width >= 110 else 0
    second = _HOST if width >= 110 + _HOST else 0
    executor, host = (first, second) if cluster else (0, first)
    tries = _TRY if width >= 110 else 0
    sizes = _SIZE if width >= 72 else 0
    bars = 16 if width >= 110 else 8 if width >= 72 else 6 if width >= NARROW else 0
    fixed = [executor, host, sizes, bars, _RATE, _TIME if bars else _ELAPSED, tries, _STATE]
    return _Columns(
        max(8, width - sum(fixed) - sum(1 for column in fixed if column)), executor, host, sizes, bars, tries
    )


def header(title: str, more: str, width: int, cluster: bool) -> Text:
    """The line above the rows; ``title`` is above the names, with ``more`` if there is room."""
    columns = _columns(width, cluster)
    parts = []
    if columns.executor:
        parts.append(fit("executor", columns.executor))
    if columns.host:
        parts.append(fit("host", columns.host))
    if columns.size:
        parts.append("size".rjust(columns.size))
    if columns.bar:
        parts.append(fit("done", columns.bar))
    parts.append("rate".rjust(_RATE))
    parts.append(fit(f"{'time':>{_ELAPSED}}/limit", _TIME) if columns.bar else "time".rjust(_ELAPSED))
    if columns.tries:
        parts.append("try")
    return heading(title, more, columns.name, " ".join([*parts, "state"]))


def heading(title: str, more: str, name: int, rest: str) -> Text:
    """A header over names of ``name`` columns; a longer title takes the blanks before the next word."""
    blanks = name + len(rest) - len(rest.lstrip())
    words = title + more if len(title + more) <= blanks else title
    taken = max(0, cells(words) - name)
    line = f"{fit(words, max(name, min(blanks, cells(words))))} {rest[taken:]}"
    return Text(line, style="dim", no_wrap=True, overflow="crop")


def rows(attempts: Sequence[ActiveAttempt], width: int, cluster: bool) -> list[Text]:
    """A line for each attempt; a name that is too long keeps the part that tells it from its neighbours."""
    columns = _columns(width, cluster)
    names = shorten_apart([attempt.path for attempt in attempts], columns.name)
    return [_draw_row(attempt, name, columns) for attempt, name in zip(attempts, names, strict=True)]


def _draw_row(attempt: ActiveAttempt, name: str, columns: _Columns) -> Text:
    sign, style = _STATES[attempt.state]
    text = Text(no_wrap=True, overflow="crop")
    text.append(f"{fit(name, columns.name)} ")
    if columns.executor:
        text.append(f"{fit(shorten(attempt.executor or '', columns.executor), columns.executor)} ", "dim")
    if columns.host:
        text.append(f"{fit(shorten(attempt.host, columns.host), columns.host)} ", "dim")
    if columns.size:
        text.append(f"{size(attempt.size_bytes) if attempt.size_bytes is not None else '?':>{columns.size}} ")
    if columns.bar:
        _append_bar(text, attempt, columns.bar, style)
        text.append(" ")
    text.append(f"{rate(attempt.rate_bps):>{_RATE}} ")
    _append_time(text, attempt, has_limit=columns.bar > 0)
    if columns.tries:
        text.append(f" {attempt.n:>{_TRY}}", "" if attempt.n == 1 else "yellow")
    text.append(f" {sign} {_describe_state(attempt)}", style)
    return text


def _describe_state(attempt: ActiveAttempt) -> str:
    return (
        f"{attempt.connections} at once"
        if attempt.connections > 1 and attempt.state == "ok"
        else attempt.state
    )


def _append_bar(text: Text, attempt: ActiveAttempt, width: int, style: str) -> None:
    if attempt.size_bytes is None:
        text.append(fit(size(attempt.bytes), width), style)  # only the received bytes are known
        return
    filled, empty = bar(attempt.bytes / attempt.size_bytes if attempt.size_bytes else 1.0, width)
    text.append(filled, style)
    text.append(empty, "dim")


def _append_time(text: Text, attempt: ActiveAttempt, *, has_limit: bool) -> None:
    elapsed = f"{duration(attempt.elapsed_s):>{_ELAPSED}}"
    if attempt.expected_s is None:
        text.append(fit(elapsed, _TIME if has_limit else _ELAPSED))
        return
    used = attempt.elapsed_s / attempt.expected_s
    text.append(elapsed, "bold red" if used >= 1 else "yellow" if used >= 0.5 else "")
    if has_limit:
        text.append(fit(f"/{duration(attempt.expected_s)}", _TIME - cells(elapsed)), "dim")


def bar(fraction: float, width: int) -> tuple[str, str]:
    """A bar's filled and empty parts, in steps of half a column."""
    halves = round(max(0.0, min(fraction, 1.0)) * 2 * width)
    filled = "━" * (halves // 2) + ("╸" if halves % 2 else "")
    return filled, "─" * (width - len(filled))
