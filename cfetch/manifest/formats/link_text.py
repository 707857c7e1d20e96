"""Finds links within a text of any kind: scripts, Markdown, YAML, mail, quoted lists."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from cfetch.base.errors import UsageError
from cfetch.base.schemes import FILES_PATTERN
from cfetch.manifest.faults import BrokenDocumentError, Faults
from cfetch.manifest.source import Source

_LINK = re.compile(rf"(?<![A-Za-z0-9+.-]){FILES_PATTERN}://[^\s\"'<>`|\\^]+", re.IGNORECASE)
_CLOSING = {")": "(", "]": "[", "}": "{"}
_ENDS = ".,;:!?*_)]}"
_MOST_MARKS = 20  # behind a link
_MOST_COUNTED_BYTES = 16 << 20


def find_links(text: str) -> Iterator[tuple[int, str]]:
    """Yield the place and the text of each link; a mark after it, or a bracket around it, is no part."""
    for match in _LINK.finditer(text):
        link = match[0]
        for _ in range(_MOST_MARKS):
            if link[-1] not in _ENDS:
                break
            opening = _CLOSING.get(link[-1])
            if opening is not None and link.count(opening) >= link.count(link[-1]):
                break
            link = link[:-1]
        if not link.endswith(":/") and "://" in link:
            yield match.start(), link


def _count_links(source: Source) -> int:
    """How many links ``--from-format links`` would read; of a long text, in its first 16 MiB."""
    # the table imports no reader by itself; only a refusal counts
    from cfetch.manifest.formats.table import find_reader
    from cfetch.manifest.rows import Document

    faults, links = Faults(), 0
    try:
        for _ in find_reader("links")(replace(source, end=_cut(source)), Document(), faults):
            links += 1
    except (BrokenDocumentError, UsageError):  # what follows is not UTF-8; or there are no plug-ins
        pass
    return links


def _cut(source: Source) -> int:
    end = source.begin + _MOST_COUNTED_BYTES
    return end if source.end is None else min(end, source.end)


def advise_links(source: Source) -> str:
    """The words of a refusal about the links that the text has; empty if it has none."""
    links = _count_links(source)
    if not links:
        return ""
    return f"; it has {links} link{'s' if links > 1 else ''} within it, which --from-format links reads"


def has_links_within(lines: Sequence[str]) -> bool:
    """Whether the lines of a text hold links within other text: quotes, dashes, commands, prose."""
    linked = [line.strip() for line in lines if "://" in line]
    within = [line for line in linked if _is_within(line)]
    return bool(within) and (3 * len(within) >= len(linked) or within[0] == lines[0].strip())


def _is_within(line: str) -> bool:
    place = line.find("://")
    begin = line.rfind(" ", 0, place), *(line.rfind(mark, 0, place) for mark in "\t\"'(<[>`")
    return max(begin) >= 0 and next(find_links(line[max(begin) :]), None) is not None
