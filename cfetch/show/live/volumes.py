"""The panel of volumes: a row for each, troubled volumes first; in a small terminal one line for all."""

from typing import NamedTuple

from rich.text import Text

from cfetch.base.events import VolumeView
from cfetch.base.secret import printable
from cfetch.show.format import cells, fit, rate, size

# sign, word, style: as with attempts, each of the three alone is enough
_TROUBLE = {"open": 0, "half-open": 1, "closed": 2}
_STATES = {
    "closed": ("●", "in use", "green"),
    "half-open": ("?", "on trial", "bold yellow"),
    "open": ("×", "out of use", "bold red"),
}
_DONE, _FREE, _RATE, _BATCHES, _STATE = 8, 8, 10, 8, 12  # "1023 GiB", "1023 MiB/s", "12/9999", "× out of use"


class _Columns(NamedTuple):
    name: int
    batches: int


def _columns(volumes: list[VolumeView], width: int) -> _Columns:
    """Narrow terminals drop the batches; names are as wide as needed."""
    batches = _BATCHES if width >= 72 else 0
    fixed = [_DONE, _FREE, _RATE, batches, _STATE]
    room = max(8, width - sum(fixed) - sum(1 for column in fixed if column))
    longest = max(cells(printable(volume.name, 4096)) for volume in volumes)
    return _Columns(min(room, max(longest, len(_title_text(volumes)))), batches)


def volumes_panel(volumes: list[VolumeView], width: int, lines: int) -> list[Text]:
    """At most ``lines`` lines, at least three: a header, rows, and one line for the rest."""
    shown, columns = by_trouble(volumes), _columns(volumes, width)
    rest = shown[lines - 2 :] if len(shown) > lines - 1 else []
    rows = [_draw_row(volume, columns) for volume in shown[: len(shown) - len(rest)]]
    return [_draw_header(volumes, columns), *rows, *([_draw_rest(rest)] if rest else [])]


def volumes_line(volumes: list[VolumeView], width: int) -> Text:
    """The number of volumes in use, and the reason for the first that is out of use."""
    worst = by_trouble(volumes)[0]
    text = Text(no_wrap=True, overflow="ellipsis")
    text.append("volumes     ", "dim")
    text.append(_in_use_text(volumes), "bold red" if worst.breaker == "open" else "")
    if worst.breaker == "open":
        text.append(f"; {_cut_left(worst.name, width // 4)}: {_reason_text(worst)}")
    return text


def _in_use_text(volumes: list[VolumeView]) -> str:
    return f"{sum(volume.breaker != 'open' for volume in volumes)} of {len(volumes)} in use"


def _title_text(volumes: list[VolumeView]) -> str:
    return f"volumes, {_in_use_text(volumes)}"


def _draw_header(volumes: list[VolumeView], columns: _Columns) -> Text:
    title = _title_text(volumes)
    parts = [
        fit(title if len(title) <= columns.name else _in_use_text(volumes), columns.name),
        "done".rjust(_DONE),
        "free".rjust(_FREE),
        "speed".rjust(_RATE),
    ]
    if columns.batches:
        parts.append("run/wait".rjust(columns.batches))
    return Text(" ".join([*parts, "state"]), style="dim", no_wrap=True, overflow="crop")


def _draw_row(volume: VolumeView, columns: _Columns) -> Text:
    sign, word, style = _STATES[volume.breaker]
    text = Text(no_wrap=True, overflow="ellipsis")
    text.append(f"{fit(_cut_left(volume.name, columns.name), columns.name)} ")
    if volume.breaker == "open":  # the reason takes the place of all other columns
        text.append(f"{sign} {word}: {_reason_text(volume)}", style)
        return text
    # no bar: nobody knows before the end how much a volume will get, as fast ones get more
    text.append(f"{size(volume.bytes_done):>{_DONE}}")
    text.append(f" {size(volume.free_bytes):>{_FREE}} {rate(volume.speed_bps):>{_RATE}} ")
    if columns.batches:
        text.append(f"{f'{volume.running}/{volume.queued}':>{columns.batches}} ")
    text.append(f"{sign} {word}", style)
    return text


def _draw_rest(volumes: list[VolumeView]) -> Text:
    troubled = sum(volume.breaker == "open" for volume in volumes)
    how = f"{troubled} of them out of use" if troubled else "all well"
    return Text(f"and {len(volumes)} more, {how}", style="bold red" if troubled else "dim", no_wrap=True)


def _reason_text(volume: VolumeView) -> str:
    return printable(volume.reason or "no reason was given")


def _cut_left(name: str, width: int) -> str:
    """The end of a name: this part distinguishes the disks of one machine."""
    text = printable(name, 4096)  # the longest path there is
    if cells(text) <= width:
        return text
    for start in range(len(text)):
        if cells(text[start:]) < width:
            return f"…{text[start:]}"
    return "…"


def by_trouble(volumes: list[VolumeView]) -> list[VolumeView]:
    """Sort the volumes: out of use first, then on trial, then the others in their order."""
    return sorted(volumes, key=lambda volume: _TROUBLE[volume.breaker])
