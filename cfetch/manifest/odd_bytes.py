"""Bytes that no text has, NUL and what is not UTF-8: ``Source`` puts marks in their place for some readers.

So one such byte is a fault of its row, and the rows before and behind it are read.
"""

import re
from collections.abc import Iterable, Iterator

from cfetch.manifest.faults import Faults

NUL_MARK = "\udc00"  # beside the marks of ``surrogateescape``, which no UTF-8 has either
_ODD = re.compile("[\udc00-\udcff]")


def find_odd(text: str) -> str:
    """What is odd about a text with marks, such as "a byte that is not UTF-8"; empty: nothing is."""
    if text.isascii() or (mark := _ODD.search(text)) is None:
        return ""
    return "a byte that is NUL" if mark[0] == NUL_MARK else "a byte that is not UTF-8; save the list as UTF-8"


def leave_out_odd(blocks: Iterable[tuple[int, list[str]]], faults: Faults) -> Iterator[tuple[int, list[str]]]:
    """Yield the blocks of lines without such as have marks, each of which is a fault."""
    for number, lines in blocks:
        if not any(map(find_odd, lines)):
            yield number, lines
            continue
        for place, line in enumerate(lines, number):
            if why := find_odd(line):
                faults.add(place, f"the line has {why}")
            else:
                yield place, [line]
