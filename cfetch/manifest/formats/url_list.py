"""A plain list: one URL a line. Blank lines, and lines that begin with ``#``, are left out.

A relative line without a query, as in the path lists of web archives, keeps its path, as in a checksum list.
"""

import re
from collections.abc import Iterator

from cfetch.manifest.faults import Faults
from cfetch.manifest.rows import Document, Row
from cfetch.manifest.source import Source
from cfetch.manifest.urls import UrlError

_RELATIVE = re.compile(r"(?![A-Za-z][A-Za-z0-9+.-]*:)(?:\./)?([^/?#.][^?#]*[^/?#]|[^/?#.])\Z")


def read_url_list(source: Source, document: Document, faults: Faults) -> Iterator[Row]:
    """The rows: ``url``, and ``path`` if it is relative, unless the user names files in another way."""
    keeps_paths = document.options is not None and document.options.name_by == "last"
    for line, text in source.lines(faults):
        url = text.strip(" \t")
        if url and url[0] != "#":
            match = _RELATIVE.match(url) if keeps_paths and "://" not in url else None
            yield Row(line, {"url": url} if match is None else _relative_fields(url, match[1]))


def _relative_fields(url: str, path: str) -> dict[str, object]:
    from cfetch.manifest.names import decode_path  # most lists have absolute links

    try:
        return {"url": url, "path": decode_path(path)}
    except UrlError:
        return {"url": url}
