"""Replies of repositories in HAL (JSON with ``_links`` and ``_embedded``): Dryad, DSpace from version 7 on.

Dryad lists the files of a version of a data set, a page at a time; DSpace the bitstreams of a bundle, or the
bundles of an item with their bitstreams. Of an item, only the bundle ORIGINAL has files of its authors.
"""

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from cfetch.base.clock import Clock
from cfetch.base.errors import UsageError
from cfetch.base.secret import SecretUrl
from cfetch.manifest.faults import BrokenDocumentError, Faults, UrlError
from cfetch.manifest.formats.json_links import advise_queries
from cfetch.manifest.formats.whole_json import Hashes, get_object, list_objects, load_object
from cfetch.manifest.rows import Document, Row
from cfetch.manifest.source import Source
from cfetch.manifest.strict_json import decode_text
from cfetch.manifest.urls import host_of, resolve_url
from cfetch.plugins.formats.page_walk import walk_pages
from cfetch.wire.document import Answer
from cfetch.wire.network import Network

_VERSION = "stash:version"


def read_hal_files(source: Source, document: Document, faults: Faults) -> Iterator[Row]:
    """The rows: ``url``, ``path``, ``size`` and the stated hash."""
    reply = load_object(source, "the reply")
    rows, hashes = 0, Hashes()
    for fields in _list_files(reply, hashes):
        rows += 1
        yield Row(0, fields, "files")
    if not rows:
        raise BrokenDocumentError(
            0, f"it is a reply of a repository (HAL) without files{advise_queries(source)}"
        )
    document.notes += hashes.list_notes()
    if _find_href(reply, "next") is not None:
        document.note_partial("the answer goes on: its link next leads to further files, which are left out")


def find_pages(source: Source) -> "HalPages | None":
    """The rest of the reply in ``source``: the files of a data set, or further pages; None: there is none.

    Raises BrokenDocumentError.
    """
    reply, own_url = load_object(source, "the reply"), source.own_url
    goes_on = _find_href(reply, _VERSION) is not None or _find_href(reply, "next") is not None
    return HalPages(reply, own_url) if own_url is not None and goes_on else None


class HalPages:
    """The files of all pages; ``first`` was had from ``own_url``."""

    def __init__(self, first: dict[str, Any], own_url: str) -> None:
        self._first = first
        self._own_url = own_url
        self.doubt: str | None = None
        self.notes: list[str] = []
        self._hashes = Hashes()

    def list_files(self, clock: Clock, network: Network) -> Iterator[dict[str, object]]:
        """Yield the rows of all pages. Raises UsageError: a page cannot be had, or the pages have no end."""
        for page, url in walk_pages(self._first, self._own_url, self._find_next, _read, clock, network):
            for fields in _list_files(page, self._hashes):
                with suppress(UrlError):  # the reader of the rows reports it
                    fields["url"] = resolve_url(str(fields["url"]), lambda: url)  # noqa: B023 - called at once
                yield fields
        self.notes += self._hashes.list_notes()

    def _find_next(self, page: dict[str, Any], url: str) -> str | None:
        version = None if "_embedded" in page else _find_href(page, _VERSION)
        href = _find_href(page, "next") if version is None else f"{version}/files"
        return None if href is None else self._resolve(href, url)

    def _resolve(self, href: str, url: str) -> str:
        """The address of the next page; a login is for one host, so it must be the same one."""
        with suppress(UrlError):
            following = resolve_url(href, lambda: url)
            if host_of(following) == host_of(url):
                return following
        raise UsageError(f"a page of {SecretUrl(self._own_url)} names a next page that is not of its host")


def _read(what: str, answer: Answer) -> dict[str, Any]:
    if answer.status != 200:
        raise UsageError(f"cannot list {what}: HTTP {answer.status}; try again later")
    with suppress(BrokenDocumentError, UnicodeDecodeError):
        page = decode_text(answer.body.decode(), 1)
        if isinstance(page, dict) and "_links" in page:
            return page
    raise UsageError(f"{what} is no list of files; try again later")


def _list_files(reply: dict[str, Any], hashes: Hashes) -> Iterator[dict[str, object]]:
    embedded = get_object(reply, "_embedded")
    for file in list_objects(embedded, "stash:files"):
        fields = {
            "url": _find_href(file, "stash:download"),
            "path": file.get("path"),
            "size": file.get("size"),
        }
        yield fields | hashes.read_named(file.get("digestType"), file.get("digest"))
    for bundle in list_objects(embedded, "bundles"):
        if bundle.get("name") == "ORIGINAL":
            yield from _list_files(get_object(bundle, "_embedded", "bitstreams"), hashes)
    for bitstream in list_objects(embedded, "bitstreams"):
        checksum = get_object(bitstream, "checkSum")
        fields = {
            "url": _find_href(bitstream, "content"),
            "path": bitstream.get("name"),
            "size": bitstream.get("sizeBytes"),
        }
        yield fields | hashes.read_named(checksum.get("checkSumAlgorithm"), checksum.get("value"))


def _find_href(thing: dict[str, Any], relation: str) -> str | None:
    href = get_object(thing, "_links", relation).get("href")
    return href if isinstance(href, str) and href else None
