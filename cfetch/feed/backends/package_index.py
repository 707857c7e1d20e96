"""A Python package index (PEP 691): the index states each project's serial, which grows with its changes.

The serial of the index is the cursor: projects with a later one are asked for, oldest first, and projects
that the index does not name any more have gone. Files are ``<project>/<filename>``.
"""

from collections.abc import Callable, Iterable
from functools import partial
from http import HTTPStatus
from urllib.parse import quote, urljoin

import msgspec

from cfetch.errors import Refused, Transient
from cfetch.feed.backends.change_log import News, Seen, interval_below
from cfetch.feed.backends.web import Web, ask_together, read_json
from cfetch.secret import SecretUrl, printable

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


class IndexUpstream:
    """An ``Upstream``: the index at ``url``, whose path ends in ``/simple/``.

    ``projects``: only these, which are then asked for each time, without the index.
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
        """Ask for news, as ``Upstream`` says. The cursor is a serial."""
        if self._projects:
            return await self._ask_projects(dict.fromkeys(self._projects, 0), cursor)
        is_new = await self._renew_index()
        after = int(cursor or 0)
        serials = {project.name: project.serial or 0 for project in self._index.projects}
        news = sorted((serial, name) for name, serial in serials.items() if serial > after)
        some = news[:PROJECTS]
        while some and len(some) < len(news) and news[len(some)][0] == some[-1][0]:
            some.append(news[len(some)])  # the cursor cannot be within a serial
        if not some and not is_new:
            return News(cursor)
        is_last = len(some) == len(news)
        end = str(max(after, self._index.meta.serial or 0) if is_last else some[-1][0])
        news_of_some = await self._ask_projects({name: serial for serial, name in some}, end)
        gone = [interval_below(name) for name in list_directories() - serials.keys()] if is_last else []
        return news_of_some._replace(wholes=(*news_of_some.wholes, *gone), is_last=is_last)

    async def close(self) -> None:
        """Close connections."""
        await self._web.close()

    async def _renew_index(self) -> bool:
        """Ask for the index, unless it is still the same; return whether it is another."""
        headers = {**JSON, "If-None-Match": self._etag} if self._etag else JSON
        answer = await self._web.get(
            self._url, headers=headers, max_bytes=MAX_INDEX_BYTES, expected=frozenset({304})
        )
        if answer.status == HTTPStatus.NOT_MODIFIED:
            return False
        index = read_json(answer.body, _INDEX, f"the index {self.shown}")
        if any(project.serial is None for project in index.projects):
            raise Refused(
                f"the index {self.shown} states no serials, so changes cannot be told; name its projects, as "
                "?project=NAME, and give a longer --poll"
            )
        self._index, self._etag = index, next(iter(answer.headers.getall("ETag", [])), "")
        return True

    async def _ask_projects(self, serials: dict[str, int], cursor: str) -> News:
        asks = [partial(self._ask_project, name, serial) for name, serial in serials.items()]
        by_project = await ask_together(asks)
        seen = [file for files in by_project for file in files]
        return News(cursor, seen, [interval_below(name) for name in serials])

    async def _ask_project(self, name: str, serial: int) -> list[Seen]:
        """The files of a project, which the index names at ``serial``; 0: a person has named it.

        A copy that is older than the index, as of a cache, is refused.
        """
        url = f"{self._url}{quote(name, safe='')}/"
        answer = await self._web.get(url, headers=JSON, max_bytes=MAX_PROJECT_BYTES, expected=MISSING)
        what = f"the project {printable(name, 100)} of {self.shown}"
        if answer.status in MISSING and serial:
            raise Transient(f"{what} is not there, but the index names it", http_status=answer.status)
        if answer.status in MISSING:
            return []
        project = read_json(answer.body, _PROJECT, what)
        if project.meta.serial is not None and project.meta.serial < serial:
            raise Transient(f"{what} came from a cache, at serial {project.meta.serial} instead of {serial}")
        return [Seen(f"{name}/{file.filename}", _make_row(file, url)) for file in project.files]


def _make_row(file: _File, page_url: str) -> dict[str, object]:
    row: dict[str, object] = {"url": urljoin(page_url, file.url.partition("#")[0])}
    if file.size is not None:
        row["size"] = file.size
    row |= {name: value for name, value in file.hashes.items() if name in ("sha256", "blake3", "md5")}
    return row
