"""The panel of volumes: a row for each, those in trouble first; in a small terminal one line for all."""

from typing import NamedTuple

from rich.text import Text

from cfetch.dashboard.rows import bar
from cfetch.dashboard.view import by_trouble
from cfetch.events import VolumeView
from cfetch.report.format import cells, fit, rate, size
from cfetch.secret import printable

__all__ = ["volumes_line", "volumes_panel"]

# sign, word, style: as with attempts, each of the three says it alone
_STATES = {
    "closed": ("●", "in use", "green"),
    "half-open": ("?", "on trial", "bold yellow"),
    "open": ("×", "out of use", "bold red"),
}
_FREE, _RATE, _BATCHES, _STATE = 8, 10, 8, 12  # "1023 GiB", "1023 MiB/s", "12/9999", "× out of use"


class _Columns(NamedTuple):
    name: int
    bar: int
    batches: int


def _columns(volumes: list[VolumeView], width: int) -> _Columns:
    """Wide terminals have longer bars, narrow ones drop the batches; names take what they need."""
    bars = 16 if width >= 110 else 8 if width >= 72 else 6
    batches = _BATCHES if width >= 72 else 0
    fixed = [bars, _FREE, _RATE, batches, _STATE]
    room = max(8, width - sum(fixed) - sum(1 for one in fixed if one))
    longest = max(cells(printable(one.name, 4096)) for one in volumes)
    return _Columns(min(room, max(longest, len(_title(volumes)))), bars, batches)


def volumes_panel(volumes: list[VolumeView], width: int, lines: int) -> list[Text]:
    """At most ``lines`` lines, at least three: a header, rows, and what did not fit in one line."""
    shown, columns = by_trouble(volumes), _columns(volumes, width)
    rest = shown[lines - 2 :] if len(shown) > lines - 1 else []
    rows = [_row(one, columns) for one in shown[: len(shown) - len(rest)]]
    return [_header(volumes, columns), *rows, *([_rest(rest)] if rest else [])]


def volumes_line(volumes: list[VolumeView], width: int) -> Text:
    """How many are in use, and what is wrong with the first that is not."""
    worst = by_trouble(volumes)[0]
    text = Text(no_wrap=True, overflow="ellipsis")
    text.append("volumes     ", "dim")
    text.append(_in_use(volumes), "bold red" if worst.breaker == "open" else "")
    if worst.breaker == "open":
        text.append(f"; {_from_right(worst.name, width // 4)}: {_reason(worst)}")
    return text


def _in_use(volumes: list[VolumeView]) -> str:
    return f"{sum(one.breaker != 'open' for one in volumes)} of {len(volumes)} in use"


def _title(volumes: list[VolumeView]) -> str:
    return f"volumes, {_in_use(volumes)}"


def _header(volumes: list[VolumeView], columns: _Columns) -> Text:
    title = _title(volumes)
    parts = [
        fit(title if len(title) <= columns.name else _in_use(volumes), columns.name),
        fit("done", columns.bar),
        "free".rjust(_FREE),
        "speed".rjust(_RATE),
    ]
    if columns.batches:
        parts.append("run/wait".rjust(columns.batches))
    return Text(" ".join([*parts, "state"]), style="dim", no_wrap=True, overflow="crop")


def _row(one: VolumeView, columns: _Columns) -> Text:
    sign, word, style = _STATES[one.breaker]
    text = Text(no_wrap=True, overflow="ellipsis")
    text.append(f"{fit(_from_right(one.name, columns.name), columns.name)} ")
    if one.breaker == "open":  # nothing moves there: the reason has all the other columns' place
        text.append(f"{sign} {word}: {_reason(one)}", style)
        return text
    whole = one.bytes_done + one.load_bytes
    filled, empty = bar(one.bytes_done / whole if whole else 0.0, columns.bar)
    text.append(filled, style)
    text.append(empty, "dim")
    text.append(f" {size(one.free_bytes):>{_FREE}} {rate(one.speed_bps):>{_RATE}} ")
    if columns.batches:
        text.append(f"{f'{one.running}/{one.queued}':>{columns.batches}} ")
    text.append(f"{sign} {word}", style)
    return text


def _rest(volumes: list[VolumeView]) -> Text:
    troubled = sum(one.breaker == "open" for one in volumes)
    how = f"{troubled} of them out of use" if troubled else "all well"
    return Text(f"and {len(volumes)} more, {how}", style="bold red" if troubled else "dim", no_wrap=True)


def _reason(one: VolumeView) -> str:
    return printable(one.reason or "no reason was given")


def _from_right(name: str, width: int) -> str:
    """The end of a name: there is what tells disks of one machine apart."""
    text = printable(name, 4096)  # the longest path there is
    if cells(text) <= width:
        return text
    for start in range(len(text)):
        if cells(text[start:]) < width:
            return f"…{text[start:]}"
    return "…"
