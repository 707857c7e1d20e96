"""The page that a web server makes of a directory: Apache, nginx, lighttpd, Python's http.server and others.

Only files of that very directory are read. Directories are left out, and so are links to sort it.
"""

import re
from collections.abc import Iterator
from html import unescape
from urllib.parse import urljoin

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


def is_directory_index(head: str) -> bool:
    """Whether an HTML page says of itself that it is the listing of a directory."""
    return _INDEX.search(head) is not None


def read_html_index(source: Source, document: Document, faults: Faults) -> Iterator[Row]:  # noqa: ARG001 - a reader
    """The rows, each with a ``url`` alone; relative ones where nobody knows where the page was had."""
    text = load_text(source, "the page")
    base = document.base()
    place = _PLACE.match(base) if base else None
    if _BEGIN.search(text) and not _END.search(text):
        document.note_partial("the page is cut off: it has no </html>")
    directories, line, end = 0, 1, 0
    seen: set[str] = set()
    for match in _LINK.finditer(text):
        line += text.count("\n", end, match.start())
        end = match.start()
        link = unescape(match[1] or match[2] or match[3]).strip()
        name = _name_within(link, place[0] if place else None)
        if not name or name in seen:
            continue
        seen.add(name)
        if name.endswith("/"):
            directories += 1
        else:
            yield Row(line, {"url": f"./{name}" if ":" in name else name})  # else it would be a scheme's
    if directories:
        document.notes.append(f"directories that the index names and that are left out: {directories}")


def _name_within(link: str, place: str | None) -> str | None:
    """The link relative to its directory; None for what lies elsewhere."""
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
    return None if stem in ("", ".", "..") or "/" in stem or "?" in name or "#" in name else name
