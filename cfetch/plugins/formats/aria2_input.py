"""Input files of ``aria2c -i``: a line with the URLs of one file, tab separated, then its indented options.

The reader takes ``out``, ``dir``, ``checksum``, ``header``, ``referer`` and ``user-agent``. It refuses other
options that a request needs (a password, cookies, a client's certificate). All others tune aria2 and are left
out.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from cfetch.manifest.columns import NO_COLUMN
from cfetch.manifest.digests import ARIA2_NAMES
from cfetch.manifest.faults import BrokenDocumentError, Faults, UrlError
from cfetch.manifest.odd_bytes import find_odd
from cfetch.manifest.rows import Document, Row
from cfetch.manifest.source import Source
from cfetch.manifest.urls import last_segment

MAX_OPTIONS = 1000  # options of one download; they are in memory until the last of them

_INDENTED = re.compile(r"^(?:https?://\S+)(?:\t\S+)*[ \t]*\r?\n[ \t]+[a-z0-9][a-z0-9-]*=", re.MULTILINE)
_MIRRORS = re.compile(r"^https?://\S+\t+[a-z]+://\S+", re.MULTILINE)
_OPTION = re.compile(r"[ \t]+(?P<name>[a-z0-9-]+)=(?P<value>.*)\Z")
_REQUEST_HEADERS = {"referer": "Referer", "user-agent": "User-Agent"}
_NEEDED = frozenset({"certificate", "http-passwd", "http-user", "load-cookies", "private-key"})


def is_aria2_input(head: str) -> bool:
    """Whether a text has an indented option after a URL, or a line of several URLs."""
    return _INDENTED.search(head) is not None or _MIRRORS.search(head) is not None


@dataclass
class _Download:
    """A line of URLs and the options that followed it."""

    line: int
    urls: list[str]
    options: dict[str, str] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)


def read_aria2_input(source: Source, document: Document, faults: Faults) -> Iterator[Row]:
    """Yield the rows; each has the line number of its URLs."""
    download: _Download | None = None
    before = faults.total
    leaves_out = document.options is not None and document.options.path_column == NO_COLUMN
    for line, text in source.lines(faults, "keep"):
        if not text or text.isspace() or text[0] == "#":
            continue
        odd = find_odd(text)
        if text[0] not in " \t":
            if download is not None:
                yield from _list_rows(download, faults, before, leaves_out=leaves_out)
            before = faults.total
            download = _Download(line, [url for url in text.rstrip(" \t").split("\t") if url])
        elif download is None:
            faults.add(line, "an option stands before the first URL")
        else:
            _take_option(download, line, text, faults)
        if odd:
            faults.add(line, f"the line has {odd}")
    if download is not None:
        yield from _list_rows(download, faults, before, leaves_out=leaves_out)


def _list_rows(download: _Download, faults: Faults, before: int, *, leaves_out: bool) -> Iterator[Row]:
    """Yield the row, unless a line of it is a fault: without that line it would be another file."""
    row = _row(download, faults, leaves_out_directories=leaves_out)
    if faults.total == before:
        yield row


def _take_option(download: _Download, line: int, text: str, faults: Faults) -> None:
    match = _OPTION.match(text)
    if match is None:
        faults.add(line, "it is not an option: a name, = and a value are expected after the blanks")
        return
    name, value = match["name"], match["value"].strip(" \t")
    if name in _NEEDED:
        faults.add(line, f"{name}: cfetch has no such option; state what the request needs as a header")
    elif name == "header":
        key, colon, content = value.partition(":")
        if not colon or not key:
            faults.add(line, "header: it must be NAME: VALUE")
        else:
            _put(download.headers, key.strip(), content.strip(" \t"), "header", line, faults)
    elif name in _REQUEST_HEADERS:
        _put(download.headers, _REQUEST_HEADERS[name], value, name, line, faults)
    elif name in ("out", "dir", "checksum"):
        _put(download.options, name, value, name, line, faults)


def _put(into: dict[str, str], key: str, value: str, option: str, line: int, faults: Faults) -> None:
    if key in into:
        faults.add(line, f"{option}: it is given twice")
    elif len(into) >= MAX_OPTIONS:
        raise BrokenDocumentError(line, f"{option}: one download has more than {MAX_OPTIONS} of them")
    into[key] = value


def _row(download: _Download, faults: Faults, *, leaves_out_directories: bool) -> Row:
    url, *mirrors = download.urls
    fields: dict[str, object] = {"url": url, "mirrors": mirrors, "headers": download.headers}
    path = download.options.get("out")
    directory = download.options.get("dir")
    if directory and directory.startswith("/"):
        if not leaves_out_directories:
            way = "--path-column none leaves such directories out"
            faults.add(download.line, f"dir: it is absolute, and all files come below --to; {way}")
    elif directory:
        try:
            path = f"{directory.rstrip('/')}/{path or last_segment(url)}"
        except UrlError as error:
            faults.add(download.line, f"out: it is not given, and {error}")
    if path is not None:
        fields["path"] = path
    if (checksum := download.options.get("checksum")) is not None:
        kind, _, digits = checksum.partition("=")
        algorithm = ARIA2_NAMES.get(kind.lower())
        if algorithm is None:
            known = ", ".join(ARIA2_NAMES)
            faults.add(download.line, f"checksum: cfetch knows {known}, each as TYPE=HEX")
        else:
            fields[algorithm] = digits
    return Row(download.line, fields)
