"""A plain list: one URL a line. Blank lines, and lines that begin with ``#``, are left out.

So is a comment behind an absolute URL (a blank, ``#`` and more), and the word that ``conda list --explicit``
writes above its URLs, whose hashes are in their fragments.

A relative line without a query, as in the path lists of web archives, keeps its path, as in a checksum list.
"""

from collections.abc import Iterator

from cfetch.manifest.faults import Faults
from cfetch.manifest.rows import Document, PlainRows, Row
from cfetch.manifest.source import Source

LOOKED_AT_BYTES = 1000  # are searched for the host of the list
_BLANKS = " \t\u00a0\u200b\u3000\ufeff"  # such as a web page or a word processor puts around links


def read_url_list(source: Source, document: Document, faults: Faults) -> Iterator[Row]:
    """The rows: ``url``, and ``path`` if it is relative, unless the user names files in another way."""
    keeps_paths = document.options is not None and document.options.name_by == "last"
    for line, text in _read_lines(source, document, faults):
        if not isinstance(text, str):
            yield Row(line, text)
            continue
        if not text.isascii():
            from cfetch.manifest.odd_bytes import find_odd  # most URLs are ASCII

            if odd := find_odd(text):
                faults.add(line, f"the line has {odd}")
                continue
        url = text.strip(_BLANKS)
        if "#" in url and "://" in url:
            url = _drop_comment(url)
        if url and url[0] != "#" and url != "@EXPLICIT":
            path = _find_path(url) if keeps_paths and "://" not in url else None
            yield Row(line, {"url": url} if path is None else {"url": url, "path": path})


def _read_lines(source: Source, document: Document, faults: Faults) -> Iterator[tuple[int, str | PlainRows]]:
    if not document.takes_plain:
        return source.lines(faults, "keep")
    from cfetch.manifest.plain_rows import PlainLines, make_url_pattern  # only long lists need it

    begin = source.read(source.begin, LOOKED_AT_BYTES).decode("ascii", "replace")
    return PlainLines(source, faults, make_url_pattern(document, begin)).items()


def _drop_comment(url: str) -> str:
    """The URL without what follows a blank and ``#``, unless that is the hash of the file."""
    import re  # few lists have a comment behind a URL

    address, *comment = re.split(r"[ \t]+#[ \t]*", url, maxsplit=1)
    is_hash = comment and re.match(r"[a-z0-9_]+[=:][0-9A-Fa-f]{32,}\Z|[0-9A-Fa-f]{32}\Z", comment[0])
    return f"{address}#{comment[0]}" if is_hash else address


def _find_path(url: str) -> str | None:
    from cfetch.manifest.names import find_relative_path  # most lists have absolute links

    return find_relative_path(url)
