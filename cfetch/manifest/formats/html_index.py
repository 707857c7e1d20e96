"""The page that a web server makes of a directory: Apache, nginx, lighttpd, Python's http.server and others.

Links that sort the page are left out. As a manifest, a page means only the files of its own directory;
``run/index_tree.py`` reads the pages of its directories too.
"""

import re
from collections.abc import Iterator
from html import unescape
from typing import NamedTuple
from urllib.parse import unquote, urljoin

from cfetch.manifest.faults import Faults
from cfetch.manifest.formats.whole_json import load_text
from cfetch.manifest.rows import Document, Row
from cfetch.manifest.source import Source

_INDEX = re.compile(
    r"<(?:title|h1)[^<>]{0,200}>\s{0,100}(?:Index of|Directory listing for|Directory:)\s", re.IGNORECASE
)
_LINK = re.compile(
    r"<a\s[^<>]{0,200}?href\s?=\s?(?:\"([^\"<>]{1,4096})\"|'([^'<>]{1,4096})'|([^\s\"'<>]{1,4096}))",
    re.IGNORECASE,
)
_BEGIN, _END = (re.compile(pattern, re.IGNORECASE) for pattern in (r"<html[\s>]", r"</html\s*>"))
_PLACE = re.compile(r"[^:/?#]+://[^/?#]+(?:[^?#]*/)?")
CUT = "the page is cut off: it has no </html>"


def is_directory_index(head: str) -> bool:
    """Whether the title or heading of an HTML page says that it is the listing of a directory."""
    return _INDEX.search(head) is not None


class Page(NamedTuple):
    """The links of a page, relative to its directory and encoded as there; directories end with a slash.

    Each of ``files`` comes with the number of its line. ``is_cut``: the end of the page is missing.
    """

    files: list[tuple[int, str]]
    directories: list[str]
    is_cut: bool


def find_place(url: str) -> str | None:
    """The URL of the directory whose page is at ``url``, with a slash at its end."""
    match = _PLACE.match(url)
    return match[0] if match else None


def read_page(text: str, place: str | None) -> Page:
    """Read the page of the directory at ``place``, which is None if the page's address is unknown."""
    page = Page([], [], bool(_BEGIN.search(text) and not _END.search(text)))
    line, end = 1, 0
    seen: set[str] = set()
    for match in _LINK.finditer(text):
        line += text.count("\n", end, match.start())
        end = match.start()
        name = _name_within(unescape(match[1] or match[2] or match[3]).strip(), place)
        if not name or name in seen:
            continue
        seen.add(name)
        if name.endswith("/"):
            page.directories.append(f"{name.rstrip('/')}/")
        else:
            page.files.append((line, f"./{name}" if ":" in name else name))  # else it would end a scheme
    return page


def read_html_index(source: Source, document: Document, faults: Faults) -> Iterator[Row]:  # noqa: ARG001 - a reader
    """Yield the rows, each with only a ``url``, relative to the page's directory."""
    page = read_page(load_text(source, "the page"), find_place(document.base() or ""))
    if page.is_cut:
        document.note_partial(CUT)
    for line, name in page.files:
        yield Row(line, {"url": name})
    if page.directories:
        document.notes.append(
            f"directories that the index names and that are left out: {len(page.directories)}"
        )


def _name_within(link: str, place: str | None) -> str | None:
    """The link relative to its directory; None if it leads out of the directory or below it."""
    if place is not None:
        try:
            link = urljoin(place, link)
        except ValueError:
            return None
        if not link.startswith(place):
            return None
        link = link[len(place) :]
    elif ":" in link and not link.startswith("./"):
        return None
    name = link.removeprefix("./")
    stem = name.rstrip("/")
    is_elsewhere = unquote(stem) in ("", ".", "..") or "/" in stem or "?" in name or "#" in name
    return None if is_elsewhere else name
