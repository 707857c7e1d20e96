"""A project of a package index: the page ``/simple/NAME/`` in HTML or JSON (PEP 503, 691), and PyPI's own.

In HTML the hash of a file is the fragment of its link.
"""

import re
from collections.abc import Iterator
from contextlib import suppress

from cfetch.manifest.digests import HEX_DIGITS
from cfetch.manifest.faults import Faults, UrlError
from cfetch.manifest.formats.whole_json import get_object, list_objects, load_object, load_text
from cfetch.manifest.rows import Document, Row
from cfetch.manifest.source import Source
from cfetch.manifest.urls import decode_last_segment, resolve_url

_TITLE = re.compile(r"<(?:title|h1)[^<>]{0,200}>\s{0,100}Links for\s", re.IGNORECASE)
_SIGN = re.compile(
    r"\bpypi:repository-version\b|#(?:sha256|md5|sha1|sha512)=|\bdata-requires-python=", re.IGNORECASE
)


def is_project_page(head: str) -> bool:
    """Whether an HTML page lists the files of a project; the title alone might be that of any page."""
    return _SIGN.search(head) is not None and ("pypi:" in head or _TITLE.search(head) is not None)


def read_package_index(source: Source, document: Document, faults: Faults) -> Iterator[Row]:
    """The rows: ``url``, ``path``, ``size`` and the hashes."""
    if source.head().startswith("<"):
        yield from _read_page(load_text(source, "the page"), document)
        return
    index = load_object(source, "the index")
    array = "files" if "files" in index else "urls"
    for file in list_objects(index, array):
        hashes = get_object(file, "hashes") or get_object(file, "digests")
        fields = {"url": file.get("url"), "path": file.get("filename"), "size": file.get("size")}
        yield Row(0, fields | {name: hashes[name] for name in HEX_DIGITS if name in hashes}, array)


def _read_page(text: str, document: Document) -> Iterator[Row]:
    from cfetch.plugins.formats.html_links import read_links  # few lists need Python's parser of HTML

    links = read_links(text)
    if links.base:
        with suppress(UrlError):
            document.base_url = resolve_url(links.base, document.base)
    for doubt in links.doubts:
        document.note_partial(doubt)
    for line, link in links.targets:
        url, _, fragment = link.partition("#")
        algorithm, _, digits = fragment.partition("=")
        fields: dict[str, object] = {"url": url}
        if algorithm in HEX_DIGITS:
            fields[algorithm] = digits
        with suppress(UrlError):  # ``check_row`` reports a row without a path
            fields["path"] = decode_last_segment(url)
        yield Row(line, fields)
