"""Numbers and names as people read them: `1.5 MiB`, `12.3 MiB/s`, `1m 05s`, `a/b/part-…17.arrow`.

Shared by report and dashboard, so that a size looks the same everywhere. Nothing here imports rich or numpy.
"""

import math
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from functools import lru_cache

from cfetch.base.secret import printable

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
_LEVELS = "▁▂▃▄▅▆▇█"
UNKNOWN = "-"
LEAST_SAVING_S = 0.1


def size(size_bytes: float | None) -> str:
    """Bytes with a binary unit, at most eight characters.

    >>> size(1_572_864), size(0), size(None)
    ('1.5 MiB', '0 B', '-')
    """
    if size_bytes is None or not math.isfinite(size_bytes):
        return UNKNOWN
    value, unit = float(size_bytes), 0
    while round(value) >= 1024 and unit < len(_UNITS) - 1:
        value /= 1024
        unit += 1
    digits = 1 if unit and value < 99.95 else 0
    return f"{value:.{digits}f} {_UNITS[unit]}"


def sizes(bytes_known: int, sizes_unknown: int, files: int) -> str:
    """The size of all files together, as far as it is known.

    >>> sizes(2048, 0, 3), sizes(2048, 1, 3), sizes(0, 3, 3)
    ('2.0 KiB', '2.0 KiB and 1 of unknown size', 'sizes unknown')
    """
    if not sizes_unknown:
        return size(bytes_known)
    if sizes_unknown == files:
        return "size unknown" if files == 1 else "sizes unknown"
    return f"{size(bytes_known)} and {sizes_unknown:,} of unknown size"


def rate(rate_bps: float | None) -> str:
    """Bytes per second: ``12.3 MiB/s``."""
    text = size(rate_bps)
    return text if text == UNKNOWN else f"{text}/s"


def duration(seconds: float | None) -> str:
    """Seconds in the two units that matter.

    >>> duration(0), duration(0.012), duration(3.21), duration(65), duration(7380), duration(273600)
    ('0.0s', '12ms', '3.2s', '1m 05s', '2h 03m', '3d 04h')
    """
    if seconds is None or not math.isfinite(seconds):
        return UNKNOWN
    if seconds < 0:
        return f"-{duration(-seconds)}"
    if 0.0005 <= seconds < 0.0995:
        return f"{seconds * 1000:.0f}ms"
    if seconds < 9.95:
        return f"{seconds:.1f}s"
    whole = round(seconds)
    for long, short, step, per in (("d", "h", 3600, 24), ("h", "m", 60, 60), ("m", "s", 1, 60)):
        if whole >= step * per:
            big, small = divmod(whole // step, per)
            return f"{big}{long} {small:02d}{short}"
    return f"{whole}s"


def saving_text(saved_s: float) -> str:
    """How much time mitigation saved the run; empty if it is too little for the replay's precision.

    >>> saving_text(58.04), saving_text(-2.0), saving_text(0.04)
    ('58s shorter by mitigation', '2.0s longer by mitigation', '')
    """
    if abs(saved_s) < LEAST_SAVING_S:
        return ""
    return f"{duration(abs(saved_s))} {'shorter' if saved_s > 0 else 'longer'} by mitigation"


def count(number: int) -> str:
    """A whole number with thousands separated: ``10,000``."""
    return f"{number:,}"


def plural(number: int, noun: str) -> str:
    """``1 file``, ``10,000 files``; a noun in ``y`` gets ``ies``, a noun in ``ch`` gets ``es``."""
    many = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}es" if noun.endswith("ch") else f"{noun}s"
    return f"{number:,} {noun if number == 1 else many}"


def percent(fraction: float) -> str:
    """A share in per cent, rounded down, so that only the whole is 100 %.

    >>> percent(0.9999), percent(1.0)
    ('99 %', '100 %')
    """
    return f"{math.floor(max(0.0, min(fraction, 1.0)) * 100)} %"


def cells(text: str) -> int:
    """How many columns of a terminal ``text`` takes."""
    if text.isascii():
        return len(text)
    return sum(map(_char_width, text))


@lru_cache(4096)  # a frame asks for the same signs thousands of times
def _char_width(char: str) -> int:
    if unicodedata.category(char) in {"Mn", "Me", "Cf"}:
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def shorten(path: str, width: int) -> str:
    """``path`` printable and at most ``width`` columns wide.

    Inner directories are dropped first, then all directories, then the later middle of the name: the text in
    which neighbours differ (``part-00017``) comes before the text that they share (``-c000.snappy.parquet``).

    >>> shorten("data/2026/06/part-00017.arrow", 24)
    'data/…/part-00017.arrow'
    >>> shorten("data/2026/06/part-00017-c000.arrow", 16)
    'part-00017-c…row'
    """
    text = printable(path, 4096)  # the longest path there is
    if cells(text) <= width:
        return text
    first, _, _ = text.partition("/")
    _, _, name = text.rpartition("/")
    for candidate in (f"{first}/…/{name}", f"…/{name}", name):
        if cells(candidate) <= width:
            return candidate
    tail = (width - 1) // 4
    head = width - 1 - tail
    return f"{_cut(name, head)}…{_cut(name[::-1], tail)[::-1]}"[:width]


def shorten_apart(paths: Sequence[str], width: int) -> list[str]:
    """Each path at most ``width`` columns wide; the text in which it differs from the others is kept.

    Names that are all different need no directories. Else, directories that all share are dropped first, then
    the middle of the ending that all share.

    >>> shorten_apart(["lake/m=01/part-1-c000.parquet", "lake/m=02/part-1-c000.parquet"], 18)
    ['…/m=01/part-1-c…et', '…/m=02/part-1-c…et']
    """
    texts = [printable(path, 4096) for path in paths]
    different = set(texts)
    names = {text.rpartition("/")[2] for text in different}
    if len(names) == len(different) and all(cells(name) <= width for name in names):
        return [shorten(text, width) for text in texts]
    start = _common_start(different).rfind("/") + 1
    ending = _common_start({text[:start:-1] for text in different})[::-1]
    while ending and ending[0].isalnum():  # a number that all files end with belongs to the part that differs
        ending = ending[1:]
    short = {text: _shorten_between(text, start, len(ending), width) for text in different}
    uses = Counter(short.values())
    short = {text: name if uses[name] == 1 else _keep_end(text, width) for text, name in short.items()}
    uses = Counter(short.values())
    return [short[text] if uses[short[text]] == 1 else _keep_start(text[start:], width) for text in texts]


def _common_start(texts: Collection[str]) -> str:
    first, last = min(texts), max(texts)
    different = (index for index, pair in enumerate(zip(first, last, strict=False)) if pair[0] != pair[1])
    return first[: next(different, min(len(first), len(last)))]


def _shorten_between(text: str, start: int, ending: int, width: int) -> str:
    """Shorten ``text`` outside the part between its first ``start`` and its last ``ending`` characters."""
    if cells(text) <= width:
        return text
    rest = f"…/{text[start:]}" if start else text
    if cells(rest) <= width:
        return rest
    kept = rest[: len(rest) - ending]
    room = width - cells(kept) - 1
    if not ending or room < 0:
        return shorten(text[start:], width)
    tail = room // 4
    shared = rest[len(kept) :]
    return f"{kept}{_cut(shared, room - tail)}…{_cut(shared[::-1], tail)[::-1]}"


def _keep_start(differing: str, width: int) -> str:
    """The beginning of the part that differs, where names are alike and their directories too long."""
    tail = width // 5
    return (
        differing if cells(differing) <= width else f"{_cut(differing, width - 1 - tail)}…{differing[-tail:]}"
    )


def _keep_end(path: str, width: int) -> str:
    """The name with as many of the directories before it as fit."""
    parts = path.split("/")
    for first in range(1, len(parts)):
        end = f"…/{'/'.join(parts[first:])}"
        if cells(end) <= width:
            return end
    return shorten(path, width)


def _cut(text: str, width: int) -> str:
    used = 0
    for index, char in enumerate(text):
        used += _char_width(char)
        if used > width:
            return text[:index]
    return text


def fit(text: str, width: int) -> str:
    """``text`` padded or cut to exactly ``width`` columns."""
    kept = text if cells(text) <= width else _cut(text, width)
    return kept + " " * (width - cells(kept))


def align(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """A line for each row; each column is as wide as its widest cell.

    >>> list(align([("a", "b"), ("long", "c")]))
    ['a     b', 'long  c']
    """
    widths = [max(map(cells, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  ".join(map(fit, row, widths)).rstrip()


def sparkline(values: list[float]) -> str:
    """One column for each value; the largest has full height, and 0 is the lowest bar."""
    top = max(values, default=0.0)
    return "".join(_LEVELS[max(0, math.ceil(8 * value / top) - 1) if top > 0 else 0] for value in values)
