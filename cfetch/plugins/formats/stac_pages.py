"""The pages of a STAC search, requested one after the other: each page names the next one.

Only pages of the same host are requested, since a login is for one host. A page that cannot be had is an
error, because a list without this page would look complete.
"""

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from cfetch.base.clock import Clock
from cfetch.base.errors import UsageError
from cfetch.base.secret import SecretUrl
from cfetch.manifest.faults import BrokenDocumentError, UrlError
from cfetch.manifest.formats.whole_json import load_object
from cfetch.manifest.source import Source
from cfetch.manifest.strict_json import decode_text
from cfetch.manifest.urls import resolve_url
from cfetch.plugins.formats.page_walk import walk_pages
from cfetch.plugins.formats.stac import describe_left_out, describe_rest, find_next_page, list_assets
from cfetch.wire.document import Answer
from cfetch.wire.network import Network


class StacPages:
    """The pages that follow ``first``, which was had from ``own_url``."""

    def __init__(self, first: dict[str, Any], own_url: str) -> None:
        self._first = first
        self._own_url = own_url
        self._left_out: list[str] = []
        self.doubt: str | None = None
        self.notes: list[str] = []

    def list_files(self, clock: Clock, network: Network) -> Iterator[dict[str, object]]:
        """Yield the rows of all pages. ``doubt`` is set afterwards, if files are missing.

        Raises:
            UsageError: a page cannot be had, or the pages have no end.
        """
        page = self._first
        for page, url in walk_pages(self._first, self._own_url, _find_next, _read, clock, network):
            yield from self._list_assets(page, url)
        if self._left_out:
            self.doubt = describe_left_out(self._left_out)
        if page.get("features"):  # there may be a link to an empty page
            self.doubt = describe_rest(page) or self.doubt
        if self.doubt:
            self.notes.append(self.doubt)

    def _list_assets(self, page: dict[str, Any], url: str) -> Iterator[dict[str, object]]:
        try:
            for fields in list_assets(page, self._left_out):
                with suppress(UrlError):  # the reader of the rows reports it
                    fields["url"] = resolve_url(str(fields["url"]), lambda: url)
                yield fields
        except BrokenDocumentError as error:
            raise UsageError(f"{SecretUrl(url)}: {error}") from None


def _find_next(page: dict[str, Any], url: str) -> str | None:
    return find_next_page(page, url) if page.get("features") else None


def _read(what: str, answer: Answer) -> dict[str, Any]:
    body = answer.body if answer.status == 200 else b""
    with suppress(BrokenDocumentError, UnicodeDecodeError):
        page = decode_text(body.decode(), 1)
        if isinstance(page, dict) and page.get("type") == "FeatureCollection":
            return page
    raise UsageError(f"{what} is no page of a STAC search; try again, or give a search with a greater limit")


def find_pages(source: Source) -> StacPages | None:
    """The further pages of the search whose answer is in ``source``; None: there are none.

    Raises BrokenDocumentError.
    """
    first, own_url = load_object(source, "the answer"), source.own_url
    return None if own_url is None or find_next_page(first, own_url) is None else StacPages(first, own_url)
