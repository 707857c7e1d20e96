"""The text of tables: names that stay different, columns as wide as their cells, and small graphs. Pure."""

import math
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from itertools import groupby

from cfetch.base.secret import printable
from cfetch.show.format import cells, cut, fit, shorten

_LEVELS = "▁▂▃▄▅▆▇█"


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
    short |= {text: _keep_start(text[start:], width) for text in different if uses[short[text]] > 1}
    if len({*short.values()}) < len(different):
        parts = {
            text: text.rpartition("/")[2] if len(names) == len(different) else text[start:]
            for text in different
        }
        for _, alike in groupby(
            sorted(different, key=parts.__getitem__), lambda text: parts[text][: width // 2]
        ):
            short |= _keep_difference({text: parts[text] for text in alike}, width)
    return [short[text] for text in texts]


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
    return f"{kept}{cut(shared, room - tail)}…{cut(shared[::-1], tail)[::-1]}"


def _keep_start(differing: str, width: int) -> str:
    """The beginning of the part that differs, where names are alike and their directories too long."""
    tail = width // 5
    return (
        differing if cells(differing) <= width else f"{cut(differing, width - 1 - tail)}…{differing[-tail:]}"
    )


def _keep_difference(parts: dict[str, str], width: int) -> dict[str, str]:
    """Each without the end of the beginning that all ``parts`` share: numbered names differ after it."""
    if len(parts) == 1:
        return {}
    start = len(_common_start(parts.values()).rstrip("0123456789"))
    short = {}
    for text, part in parts.items():
        rest = shorten(part[start:], width - 1)
        head = cut(part[:start].rpartition("/")[2], width - 1 - cells(rest))
        short[text] = part if cells(part) <= width else f"{head}…{rest}"
    return short


def _keep_end(path: str, width: int) -> str:
    """The name with as many of the directories before it as fit."""
    parts = path.split("/")
    for first in range(1, len(parts)):
        end = f"…/{'/'.join(parts[first:])}"
        if cells(end) <= width:
            return end
    return shorten(path, width)


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
