"""Feeds (RSS, Atom), such as podcasts: the files that their items enclose.

The lengths that feeds state are often wrong or 0, so they are left out.
"""

from collections.abc import Iterator

from cfetch.manifest.faults import BrokenDocumentError, Faults
from cfetch.manifest.formats.link_text import advise_links
from cfetch.manifest.rows import Document, Row
from cfetch.manifest.source import Source
from cfetch.plugins.formats.xml_elements import Element, join_base, read_elements


def read_feed(source: Source, document: Document, faults: Faults) -> Iterator[Row]:
    """The rows: ``url``."""
    lengths = without = rows = 0
    for item in read_elements(source, ("item", "entry")):
        enclosures = list(_list_enclosures(item, has_base=document.given_base_url is not None))
        without += not enclosures
        for url, length in enclosures:
            lengths += length not in ("", "0")
            rows += 1
            yield Row(item.line, {"url": url})
    if not rows:
        raise BrokenDocumentError(
            0,
            f"it is a feed (RSS or Atom) without enclosures: its items are pages{advise_links(source)}",
        )
    if lengths:
        document.notes.append(
            f"lengths that the feed states, which are often wrong and are left out: {lengths}"
        )
    if without:
        document.notes.append(f"items without a file, which are left out: {without}")


def _list_enclosures(item: Element, *, has_base: bool) -> Iterator[tuple[str, str]]:
    """Yield addresses and lengths; a base that the user has given counts in place of ``xml:base``."""
    lengths: dict[str, str] = {}
    for element in item.walk():
        about, base = element.attributes, "" if has_base else element.base
        if element.name == "enclosure" and (url := about.get("url") or about.get("resource")):
            lengths[join_base(base, url)] = about.get("length", "")
        elif element.name == "link" and about.get("rel") == "enclosure" and "href" in about:
            lengths[join_base(base, about["href"])] = about.get("length", "")
    if not lengths:
        media = [
            element for element in item.walk() if element.name == "content" and "url" in element.attributes
        ]
        lengths = {element.attributes["url"]: element.attributes.get("fileSize", "") for element in media}
    yield from lengths.items()
