"""Input of ``git annex addurl --batch --with-files``, also by DataLad: ``URL PATH`` on each line."""

from collections.abc import Iterator

from cfetch.manifest.faults import Faults
from cfetch.manifest.formats.text_kind import URL_AND_MORE
from cfetch.manifest.rows import Document, Row
from cfetch.manifest.source import Source


def read_annex_batch(source: Source, document: Document, faults: Faults) -> Iterator[Row]:
    """The rows: ``url`` and ``path``."""
    for line, text in source.lines(faults, "leave out"):
        if not text or text.isspace():
            continue
        match = URL_AND_MORE.match(text)
        if match is None:
            faults.add(line, "it is not a URL, a space and a path")
        else:
            yield Row(line, {"url": match["url"], "path": match["path"]})
