"""The files below a directory index: the pages of its directories are requested, a few at a time.

Servers follow symlinks, so a directory may contain itself, and its tree may have no end: a tree that is too
deep or too wide is an error. If the page of a directory cannot be had, the list may not be complete.
"""

import asyncio
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

from cfetch.base.clock import Clock
from cfetch.base.errors import UsageError
from cfetch.base.secret import SecretUrl, printable
from cfetch.manifest.faults import UrlError
from cfetch.manifest.folding import is_state_name
from cfetch.manifest.source import HEAD_BYTES, Source
from cfetch.manifest.urls import decode_last_segment
from cfetch.plugins.formats.html_index import IndexPage, find_place, is_directory_index, load_page, read_page
from cfetch.plugins.formats.page_names import read_text
from cfetch.run.listings import REFUSALS, ask_list, find_further_page, leads_away
from cfetch.run.request_connections import open_loop
from cfetch.wire.document import Answer
from cfetch.wire.network import Network
from cfetch.wire.transport import Transport

MOST_DIRECTORIES = 100_000  # some 30 MiB of names
MOST_LEVELS = 64
AT_ONCE = 8  # pages; a server makes each anew from its disk


class _Directory(NamedTuple):
    """A directory: ``url`` is for requests; ``path``, relative to the tree's root, for its files' names."""

    url: str
    path: str = ""


class IndexTree:
    """The files below ``place``, whose own page is ``page``. ``notes`` are for the user."""

    def __init__(self, place: str, page: IndexPage) -> None:
        self._place = place
        self._page = page
        self._directories = 0
        self._waiting: deque[_Directory] = deque()
        self._doubts: list[str] = []
        self.notes: list[str] = []

    def list_files(self, clock: Clock, network: Network) -> Iterator[dict[str, object]]:
        """Ask for all pages, and yield the ``url`` and the ``path`` of each file.

        Raises:
            UsageError: a page cannot be had, or the tree has no end.
        """
        yield from self._take(_Directory(self._place), self._page)
        with open_loop(network) as (runner, transport):
            while self._waiting:
                block = [self._waiting.popleft() for _ in range(min(AT_ONCE, len(self._waiting)))]
                answers = runner.run(self._ask_all(block, transport, clock))
                for directory, answer in zip(block, answers, strict=True):
                    page = self._read(directory, answer)  # not in the loop: a long page takes seconds
                    if isinstance(page, str):
                        self._doubts.append(f"the directory {printable(directory.path)}: {page}")
                    else:
                        yield from self._take(directory, page)

    @property
    def doubt(self) -> str | None:
        """The reason why files may be missing from the list; None: there is no such reason."""
        more = f" (and {len(self._doubts) - 1} more like it)" if len(self._doubts) > 1 else ""
        return f"{self._doubts[0]}{more}" if self._doubts else None

    def _take(self, directory: _Directory, page: IndexPage) -> Iterator[dict[str, object]]:
        """Yield the files of a page, and queue its directories. Raises UsageError."""
        for doubt in page.doubts:
            self._doubts.append(f"{printable(directory.path) or 'the directory'}: {doubt}")
        self.notes += [note for note in page.notes if note not in self.notes]
        url = page.moved_to or directory.url
        for _, name in page.files:
            row: dict[str, object] = {"url": url + name.removeprefix("./")}
            with suppress(UrlError):  # then the row has a fault, which says why
                row["path"] = directory.path + (page.names.get(name) or decode_last_segment(name))
            yield row
        for link in page.directories:
            try:
                name = page.names.get(link) or decode_last_segment(link.rstrip("/"))
            except UrlError as error:
                self._doubts.append(f"the directory {printable(directory.path + link)}: {error}")
                continue
            path = f"{directory.path}{name}/"
            if not directory.path and is_state_name(path.rstrip("/")):
                self.notes.append(
                    f"{printable(path)} is left out: it is cfetch's own, as the source is a mirror"
                )
                continue
            self._directories += 1
            if self._directories > MOST_DIRECTORIES or path.count("/") > MOST_LEVELS:
                raise UsageError(
                    f"cannot list all below {SecretUrl(self._place)}: there are more than {MOST_DIRECTORIES} "
                    f"directories or {MOST_LEVELS} levels, such as {printable(path)}; is a directory linked "
                    "within itself? If so, sync the directories beside it one by one"
                )
            self._waiting.append(_Directory(url + link, path))

    async def _ask_all(self, block: Sequence[_Directory], transport: Transport, clock: Clock) -> list[Answer]:
        asked = (self._ask(directory, transport, clock) for directory in block)
        return list(await asyncio.gather(*asked))

    async def _ask(self, directory: _Directory, transport: Transport, clock: Clock) -> Answer:
        """Ask for the page of a directory. Raises UsageError: the server fails."""
        what = f"the directory {printable(directory.path)} of {SecretUrl(self._place)}"
        return await ask_list(what, SecretUrl(directory.url), transport, clock)

    def _read(self, directory: _Directory, answer: Answer) -> IndexPage | str:
        """Return the page of a directory, or why there is none."""
        url = directory.url
        if answer.status in REFUSALS:
            return f"its page is refused with HTTP {answer.status}"
        if leads_away(SecretUrl(url), answer.source):
            return f"its server redirects to {answer.source}"
        text = read_text(answer.body)
        if not is_directory_index(text[:HEAD_BYTES]):
            return "it has a page of its own instead of a list of its files"
        page = read_page(text, url, answer.content_type)
        if (doubt := find_further_page(answer.headers)) is not None:
            page.doubts.append(doubt)
        return page


def find_tree(source: Source) -> IndexTree | None:
    """The tree below the directory index in ``source``; None: its address is unknown.

    Raises BrokenDocumentError.
    """
    own_url = source.own_url
    place = None if own_url is None else find_place(own_url)
    if own_url is None or place is None:
        return None
    page = load_page(source, place)
    page.refuse_leading_away()
    tree = IndexTree(place, page)
    tree.notes += _note_lost_slash(own_url)
    return tree


def _note_lost_slash(own_url: str) -> list[str]:
    """Return a note if the links of a directory's page do not lead into that directory."""
    stem, _, name = own_url.partition("?")[0].rpartition("/")
    if not name or "." in name or stem.endswith("/"):
        return []
    note = (
        f"{SecretUrl(own_url)} does not end with a slash, so its links lead to files beside it; if it is a "
        "directory, add the slash"
    )
    return [note]
