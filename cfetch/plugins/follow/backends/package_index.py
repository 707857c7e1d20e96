"""A Python package index (PEP 691): the index states each project's serial, which grows with its changes.

The serial of the index is the cursor: projects with a later one are asked for, oldest first, and projects
that the index does not name any more have gone. Files are ``<project>/<filename>``.

Of projects that a person names, the cursor is the serial of each one's page, as a JSON object. The index,
which is long, is asked for only when such a page is not there: a 404 alone does not say that the project has
gone.
"""

import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from http import HTTPStatus
from typing import NamedTuple
from urllib.parse import quote

import msgspec

from cfetch.base.errors import Refused, StaleAnswer, Transient
from cfetch.base.schemes import WEB
from cfetch.base.secret import SecretUrl, printable
from cfetch.manifest.faults import UrlError
from cfetch.manifest.url_completion import join_url
from cfetch.plugins.follow.backends.change_log import News, Seen, interval_below
from cfetch.plugins.follow.backends.feed_kind import FeedKind, observe
from cfetch.plugins.follow.backends.web import Web, ask_together, read_json

KIND = "pypi"
JSON = {"Accept": f"application/vnd.{KIND}.simple.v1+json"}
MAX_INDEX_BYTES = 256 << 20  # the largest one has 40 MB, with 700,000 projects
MAX_PROJECT_BYTES = 64 << 20
PROJECTS = 100  # of one answer: some seconds, and some thousand files
MISSING = frozenset({404})


class _Meta(msgspec.Struct):
    serial: int | None = msgspec.field(name="_last-serial", default=None)


class _Listed(msgspec.Struct):
    name: str
    serial: int | None = msgspec.field(name="_last-serial", default=None)


class _Index(msgspec.Struct):
    projects: list[_Listed]
    meta: _Meta = msgspec.field(default_factory=_Meta)


class _File(msgspec.Struct):
    filename: str
    url: str
    hashes: dict[str, str] = {}
    size: int | None = None


class _Project(msgspec.Struct):
    files: list[_File]
    meta: _Meta = msgspec.field(default_factory=_Meta)


_INDEX = msgspec.json.Decoder(_Index)
_PROJECT = msgspec.json.Decoder(_Project)
_SERIALS = msgspec.json.Decoder(dict[str, int])
_NORMALIZED = re.compile(r"[-_.]+")  # names that differ only here, or in case, are of one project


class _Page(NamedTuple):
    """A project's page."""

    serial: int | None
    files: list[Seen]


class IndexUpstream:
    """An ``Upstream``: the index at ``url``, whose path ends in ``/simple/``.

    ``projects``: only these, which are then asked for each time.
    """

    def __init__(self, url: SecretUrl, web: Web, projects: Iterable[str] = ()) -> None:
        self.shown = str(url)
        self.account = url.origin()
        self._url = url.reveal().rstrip("/") + "/"
        self._web = web
        self._projects = tuple(projects)
        self._etag = ""
        self._index = _Index([])

    async def ask(self, cursor: str, list_directories: Callable[[], set[str]]) -> News:
        """Ask for news, as ``Upstream`` says. The cursor is a serial, or those of the named projects."""
        if self._projects:
            return await self._ask_named(_SERIALS.decode(cursor or "{}"), list_directories)
        after = int(cursor or 0)
        is_new = await self._renew_index(after)
        if None in _list_serials(self._index):
            raise Refused(
                f"the index {self.shown} states no serials, so changes cannot be told; name its projects, as "
                "?project=NAME, and give a longer --poll"
            )
        serials = {project.name: project.serial or 0 for project in self._index.projects}
        news = sorted((serial, name) for name, serial in serials.items() if serial > after)
        some = news[:PROJECTS]
        while some and len(some) < len(news) and news[len(some)][0] == some[-1][0]:
            some.append(news[len(some)])  # the cursor cannot be within a serial
        if not some and not is_new:
            return News(cursor)
        is_last = len(some) == len(news)
        end = str(max(after, self._index.meta.serial or 0) if is_last else some[-1][0])
        pages = await ask_together([partial(self._ask_listed, name, serial) for serial, name in some])
        gone = list_directories() - serials.keys() if is_last else set()
        wholes = [interval_below(name) for name in (*(name for _, name in some), *gone)]
        return News(end, [file for files in pages for file in files], wholes, is_last=is_last)

    async def close(self) -> None:
        """Close connections."""
        await self._web.close()

    async def _renew_index(self, after: int) -> bool:
        """Ask for the index, unless it is still the same; return whether it is another.

        Raises StaleAnswer: it is of a serial before ``after``, so that what came since is missing in it.
        """
        headers = {**JSON, "If-None-Match": self._etag} if self._etag else JSON
        answer = await self._web.ask(
            self._url, headers=headers, max_bytes=MAX_INDEX_BYTES, expected=frozenset({304})
        )
        is_new = answer.status != HTTPStatus.NOT_MODIFIED
        index = read_json(answer.body, _INDEX, f"the index {self.shown}") if is_new else self._index
        stated = [serial for serial in _list_serials(index) if serial is not None]
        if stated and max(stated) < after:
            raise StaleAnswer(f"the index {self.shown} has gone back, from serial {after} to {max(stated)}")
        if is_new:
            self._index, self._etag = index, next(iter(answer.headers.getall("ETag", [])), "")
        return is_new

    async def _ask_named(self, known: dict[str, int], list_directories: Callable[[], set[str]]) -> News:
        """Ask for the projects that a person has named, at least at the serials that are known."""
        asks = [partial(self._ask_page, name) for name in self._projects]
        pages = dict(zip(self._projects, await ask_together(asks), strict=True))
        gone = [name for name, page in pages.items() if page is None]
        if any(name in list_directories() for name in gone):
            await self._check_gone(gone, max(known.get(name, 0) for name in gone))
        serials, seen = known, list[Seen]()
        for name, page in pages.items():
            serial = known.get(name, 0) if page is None or page.serial is None else page.serial
            if serial < known.get(name, 0):
                raise StaleAnswer(f"{self._show(name)} has gone back, from serial {known[name]} to {serial}")
            serials = serials | {name: serial}
            seen += [] if page is None else page.files
        cursor = msgspec.json.encode(serials, order="sorted").decode()
        return News(cursor, seen, [interval_below(name) for name in pages])

    async def _check_gone(self, names: Iterable[str], after: int) -> None:
        """Ask the index whether projects have really gone. Raises Transient, StaleAnswer: perhaps not."""
        await self._renew_index(after)
        listed = {_normalize(project.name) for project in self._index.projects}
        for name in names:
            if _normalize(name) in listed:
                raise self._make_missing_error(name)

    async def _ask_listed(self, name: str, serial: int) -> list[Seen]:
        """The files of a project, which the index names at ``serial``.

        A copy that is older than the index, as of a cache, is refused.
        """
        page = await self._ask_page(name)
        if page is None:
            raise self._make_missing_error(name)
        if page.serial is not None and page.serial < serial:
            raise Transient(
                f"{self._show(name)} came from a cache, at serial {page.serial} instead of {serial}"
            )
        return page.files

    async def _ask_page(self, name: str) -> _Page | None:
        url = f"{self._url}{quote(name, safe='')}/"
        answer = await self._web.ask(url, headers=JSON, max_bytes=MAX_PROJECT_BYTES, expected=MISSING)
        if answer.status in MISSING:
            return None
        project = read_json(answer.body, _PROJECT, self._show(name))
        files = [Seen(f"{name}/{file.filename}", _make_row(file, url)) for file in project.files]
        return _Page(project.meta.serial, files)

    def _make_missing_error(self, name: str) -> Transient:
        return Transient(f"{self._show(name)} is not there, but the index names it", http_status=404)

    def _show(self, name: str) -> str:
        return f"the project {printable(name, 100)} of {self.shown}"


def _list_serials(index: _Index) -> list[int | None]:
    return [index.meta.serial, *(project.serial for project in index.projects)]


def _normalize(name: str) -> str:
    return _NORMALIZED.sub("-", name).lower()


def _make_row(file: _File, page_url: str) -> dict[str, object]:
    url = file.url.partition("#")[0]
    with suppress(UrlError):  # the row's check says what is wrong with it
        url = join_url(page_url, url)
    row: dict[str, object] = {"url": url}
    if file.size is not None:
        row["size"] = file.size
    row |= {name: value for name, value in file.hashes.items() if name in ("sha256", "blake3", "md5")}
    return row


FEED = FeedKind(f"{KIND}+http(s)://…", observe("project", IndexUpstream), WEB)
