"""The links of an HTML page as its tags state them. The standard library's tolerant parser reads the tags.

A link whose text ends with a slash means a directory, also if the link itself has lost its slash: else the
page of that directory would be taken for a file.

If a part of the page cannot be read, ``doubts`` says so: else it would look like a page with fewer links. The
parser reads a tag that has not ended again whenever more text comes, so the text is fed in pieces, and the
length of a tag is limited.
"""

from html.parser import HTMLParser
from typing import NamedTuple

CUT = "the page is cut off: it does not end with </html>"
_LONG = "the page has a tag or a script that is too long to read"
_NEXT = "the page says that a further page follows it"
_PIECE_CHARS = 1 << 16
_MOST_UNREAD_CHARS = 1 << 20  # of scripts and images within a page; the worst takes two seconds


class LinkParser(NamedTuple):
    """``targets`` are as written, each with the number of its line; ``base`` is that of ``<base href>``.

    ``doubts`` are reasons why links may be missing.
    """

    targets: list[tuple[int, str]]
    base: str
    doubts: list[str]


def read_links(text: str) -> LinkParser:
    """Read all links of a page."""
    parser = _Parser()
    for begin in range(0, len(text), _PIECE_CHARS):
        parser.feed(text[begin : begin + _PIECE_CHARS])
        if len(parser.rawdata) > _MOST_UNREAD_CHARS:
            break
    reasons = (
        (_LONG, len(parser.rawdata) > _MOST_UNREAD_CHARS),
        (CUT, "<" in parser.rawdata or not parser.has_ended),
        (_NEXT, parser.has_next),
    )
    return LinkParser(parser.targets, parser.base or "", [reason for reason, holds in reasons if holds])


class _Parser(HTMLParser):
    """``has_ended``: there was ``</html>``, and no link after it; a text within the page may have its own.

    A page without the tag ``<html>``, such as that of Go's file server, ends with ``</pre>``.
    """

    def __init__(self) -> None:
        super().__init__()
        self.targets: list[tuple[int, str]] = []
        self.base: str | None = None
        self._last_character = ""  # of the text of the link that was read last
        self.has_ended = self.has_next = self._has_root = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._has_root = self._has_root or tag == "html"
        if tag not in ("a", "base", "link"):
            return
        values = dict(reversed(attrs))  # the first of several counts
        link = (values.get("href") or "").strip()
        if tag != "base" and "next" in (values.get("rel") or "").lower().split():
            self.has_next = True
        if tag == "base" and self.base is None and link:
            self.base = link
        elif tag == "a" and link:
            self.targets.append((self.getpos()[0], link))
            self._last_character = ""
            self.has_ended = False

    def handle_data(self, data: str) -> None:
        self._last_character = data.rstrip()[-1:] or self._last_character

    def handle_endtag(self, tag: str) -> None:
        self.has_ended = self.has_ended or tag == "html" or (tag == "pre" and not self._has_root)
        if tag == "a" and self._last_character == "/" and self.targets:
            line, link = self.targets[-1]
            if link[-1] != "/" and "?" not in link and "#" not in link:
                self.targets[-1] = (line, f"{link}/")

    def parse_marked_section(self, i: int, report: bool = True) -> int:  # noqa: ARG002 - the parser's
        """Pass over ``<![…>`` as HTML says; the parser's own method raises an error for unknown words."""
        end = self.rawdata.find(">", i)
        return end + 1 if end >= 0 else -1
