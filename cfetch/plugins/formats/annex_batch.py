"""Input of ``git annex addurl --batch --with-files``, also by DataLad: ``URL PATH`` on each line."""

import re
from collections.abc import Iterator

from cfetch.manifest.faults import Faults
from cfetch.manifest.rows import Document, Row
from cfetch.manifest.source import Source

_LINE = re.compile(r"(?P<url>[A-Za-z][A-Za-z0-9+.-]*://[^ ]+) (?P<path>[^ ].*)\Z")


def is_annex_line(line: str) -> bool:
    """Whether a line is a URL, a space and more text; it may also be a URL with a space in it."""
    return _LINE.match(line) is not None


def read_annex_batch(source: Source, document: Document, faults: Faults) -> Iterator[Row]:
    """The rows: ``url`` and ``path``."""
    for line, text in source.lines(faults):
        if not text or text.isspace():
            continue
        match = _LINE.match(text)
        if match is None:
            faults.add(line, "it is not a URL, a space and a path")
        else:
            yield Row(line, {"url": match["url"], "path": match["path"]})
