"""A sitemap (sitemaps.org): the address of each page or file in it.

A list of ResourceSync is a sitemap whose ``rs:md`` state the hash, the length and what has changed.
"""

import re
from collections.abc import Iterable, Iterator
from html import unescape

from cfetch.manifest.faults import BrokenDocumentError, Faults
from cfetch.manifest.formats.whole_json import Hashes
from cfetch.manifest.rows import Document, Row
from cfetch.manifest.source import Source
from cfetch.manifest.strict_json import read_digits
from cfetch.plugins.formats.xml_elements import read_texts

MAX_URL_CHARS = 4096  # the protocol permits half of it
_PART = re.compile(
    r"<loc(?:\s[^<>]{0,200})?>"
    rf"(?:\s*<!\[CDATA\[([^<]{{1,{MAX_URL_CHARS}}}?)\]\]>\s*|([^<]{{1,{MAX_URL_CHARS}}}))</loc>"
    rf"|<(?:[a-z]{{1,20}}:)?md(\s[^<>]{{1,{MAX_URL_CHARS}}})>|(</url>)|(<image:loc|<video:content_loc)"
)
_ATTRIBUTE = re.compile(r"""([a-z]{1,20})\s*=\s*["']([^"'<>]*)["']""")
_BEGIN = re.compile(r"<loc[\s>]")
_KEPT = 2 * MAX_URL_CHARS


def read_sitemap(source: Source, document: Document, faults: Faults) -> Iterator[Row]:
    """Yield the rows: ``url``, and ``size`` and hashes where a list of ResourceSync states them."""
    if "<sitemapindex" in source.head():
        raise BrokenDocumentError(0, "it is an index of sitemaps; give one of the sitemaps that it names")
    _refuse_other_lists(source.head())
    line, rest, unread, deleted, media = 1, "", 0, 0, 0
    row: Row | None = None
    about: dict[str, str] = {}
    hashes = Hashes()
    for text in _remove_comments(read_texts(source)):
        rest += text
        end = 0
        for match in _PART.finditer(rest):
            line += rest.count("\n", end, match.start())
            end = match.start()
            if match[5]:
                media += 1
            elif match[3]:
                if row is not None:
                    about = dict(_ATTRIBUTE.findall(match[3]))
            else:
                if row is not None:
                    deleted += about.get("change") == "deleted"
                    yield from _complete(row, about, hashes)
                row, about = None, {}
                if not match[4]:
                    unread -= 1
                    row = Row(line, {"url": match[1].strip() if match[1] else unescape(match[2].strip())})
            line += rest.count("\n", end, match.end())
            end = match.end()
        cut = max(end, len(rest) - _KEPT)
        line += rest.count("\n", end, cut)
        unread += len(_BEGIN.findall(rest, 0, cut))
        rest = rest[cut:]
    if row is not None:
        yield from _complete(row, about, hashes)
    unread += len(_BEGIN.findall(rest))
    if "<urlset" in source.head() and "</urlset" not in rest:
        document.note_partial("the sitemap is cut off: it has no </urlset>")
    document.notes += hashes.list_notes()
    if deleted:
        document.notes.append(f"files that the list states as deleted, and that are left out: {deleted}")
    if media:
        way = "--from-format links reads them, and the pages"
        document.notes.append(f"images and videos of the pages, which are left out: {media}; {way}")
    if unread:
        faults.add(0, f"it has {unread} elements <loc> whose addresses cannot be read")


def _complete(row: Row, about: dict[str, str], hashes: Hashes) -> Iterator[Row]:
    if about.get("change") == "deleted":
        return
    fields: dict[str, object] = dict(row.fields) if isinstance(row.fields, dict) else {}
    for text in about.get("hash", "").split():
        fields |= hashes.read(text)
    if "length" in about:
        fields["size"] = read_digits(about["length"], "a text that is not all digits")
    yield row._replace(fields=fields)


def _refuse_other_lists(head: str) -> None:
    own = re.search(
        r"<urlset[^>]*>\s*(?:<(?:\w+:)?ln\s[^>]*>\s*)*<(?:\w+:)?md\s[^>]*capability=[\"']([a-z-]+)", head
    )
    if own is not None and own[1] in ("capabilitylist", "description"):
        raise BrokenDocumentError(
            0, f"it is a {own[1]} of ResourceSync; give one of the resource lists that it names"
        )


def _remove_comments(texts: Iterable[str]) -> Iterator[str]:
    """Yield the pieces of an XML text without its comments, whose line ends stay."""
    rest, is_inside = "", False
    for text in texts:
        rest += text
        pieces = []
        while True:
            begin = rest.find("-->" if is_inside else "<!--")
            if begin < 0:
                break
            passed, rest = rest[:begin], rest[begin + (3 if is_inside else 4) :]
            pieces.append("\n" * passed.count("\n") if is_inside else passed)
            is_inside = not is_inside
        cut = max(0, len(rest) - 3)  # a mark may go on in the next piece
        pieces.append("\n" * rest.count("\n", 0, cut) if is_inside else rest[:cut])
        rest = rest[cut:]
        if joined := "".join(pieces):
            yield joined
    if not is_inside and rest:
        yield rest
