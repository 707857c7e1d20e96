"""A plain list: one absolute URL a line. Blank lines, and lines that begin with ``#``, are left out."""

from collections.abc import Iterator

from cfetch.manifest.faults import Faults
from cfetch.manifest.rows import Document, Row
from cfetch.manifest.source import Source


def read_url_list(source: Source, document: Document, faults: Faults) -> Iterator[Row]:  # noqa: ARG001 - a reader
    """The rows, each with a ``url`` alone."""
    for line, text in source.lines(faults):
        url = text.strip(" \t")
        if url and url[0] != "#":
            yield Row(line, {"url": url})
