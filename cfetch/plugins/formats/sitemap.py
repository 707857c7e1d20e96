"""A sitemap (sitemaps.org): the address of each page or file in it."""

import re
from collections.abc import Iterator
from html import unescape

from cfetch.manifest.faults import BrokenDocumentError, Faults
from cfetch.manifest.rows import Document, Row
from cfetch.manifest.source import Source

MAX_URL_CHARS = 4096  # the protocol permits half of it
_LOCATION = re.compile(
    r"<loc(?:\s[^<>]{0,200})?>"
    rf"(?:\s*<!\[CDATA\[([^<]{{1,{MAX_URL_CHARS}}}?)\]\]>\s*|([^<]{{1,{MAX_URL_CHARS}}}))</loc>"
)
_BEGIN = re.compile(r"<loc[\s>]")
_KEPT = 2 * MAX_URL_CHARS


def read_sitemap(source: Source, document: Document, faults: Faults) -> Iterator[Row]:
    """Yield the rows, each with only a ``url``."""
    if "<sitemapindex" in source.head():
        raise BrokenDocumentError(0, "it is an index of sitemaps; give one of the sitemaps that it names")
    line, rest, unread = 1, "", 0
    for text in source.texts():
        rest += text
        end = 0
        for match in _LOCATION.finditer(rest):
            line += rest.count("\n", end, match.start())
            end = match.start()
            unread -= 1
            yield Row(line, {"url": match[1].strip() if match[1] else unescape(match[2].strip())})
            line += rest.count("\n", end, match.end())
            end = match.end()
        cut = max(end, len(rest) - _KEPT)
        line += rest.count("\n", end, cut)
        unread += len(_BEGIN.findall(rest, 0, cut))
        rest = rest[cut:]
    unread += len(_BEGIN.findall(rest))
    if "<urlset" in source.head() and "</urlset" not in rest:
        document.note_partial("the sitemap is cut off: it has no </urlset>")
    if unread:
        faults.add(0, f"it has {unread} elements <loc> whose addresses cannot be read")
