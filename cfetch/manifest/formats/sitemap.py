"""A sitemap (sitemaps.org): the address of each page or file in it."""

import re
from collections.abc import Iterator
from html import unescape

from cfetch.manifest.faults import BrokenDocumentError, Faults
from cfetch.manifest.rows import Document, Row
from cfetch.manifest.source import Source

MAX_URL_CHARS = 4096  # the protocol permits half of it
_LOCATION = re.compile(rf"<loc>\s*(?:<!\[CDATA\[)?([^<\]]{{1,{MAX_URL_CHARS}}}?)(?:\]\]>)?\s*</loc>")
_KEPT = 2 * MAX_URL_CHARS


def read_sitemap(source: Source, document: Document, faults: Faults) -> Iterator[Row]:  # noqa: ARG001 - a reader
    """The rows, each with a ``url`` alone."""
    if "<sitemapindex" in source.head():
        raise BrokenDocumentError(0, "it is an index of sitemaps; give one of the sitemaps that it names")
    line, rest = 1, ""
    for text in source.texts():
        rest += text
        end = 0
        for match in _LOCATION.finditer(rest):
            line += rest.count("\n", end, match.start())
            end = match.start()
            yield Row(line, {"url": unescape(match[1].strip())})
            line += rest.count("\n", end, match.end())
            end = match.end()
        cut = max(end, len(rest) - _KEPT)
        line += rest.count("\n", end, cut)
        rest = rest[cut:]
