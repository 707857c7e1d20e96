"""A Delta Lake table in an object store: each version of its log adds and removes files.

The mirror is a table too: a version's file of the log comes when all files that it adds are in place, and
files that it removes are deleted after that. So a reader of the mirror finds whole versions only. The cursor
is the last version.

The protocol: https://github.com/delta-io/delta/blob/master/PROTOCOL.md
"""

import base64
import re
import uuid
from collections.abc import Callable, Iterable, Iterator
from io import BytesIO
from typing import Any, NamedTuple
from urllib.parse import unquote

import msgspec

from cfetch.base.errors import HostileFeed, Refused, UsageError
from cfetch.base.records import NOT_DECODED
from cfetch.base.schemes import OBJECT_STORES
from cfetch.base.secret import printable
from cfetch.manifest.digests import missing_library
from cfetch.plugins.follow.backends.change_log import News, Seen, see_object
from cfetch.plugins.follow.backends.feed_kind import FeedContext, FeedKind, FeedName, check_table_url
from cfetch.plugins.follow.source import FeedSource
from cfetch.storage.buckets.object_reader import ObjectReader

LOG = "_delta_log"
MAX_COMMIT_BYTES = 256 << 20
MAX_CHECKPOINT_BYTES = 2 << 30
VERSIONS = 100  # of one answer
_COMMIT = re.compile(r"(\d{20})\.json")
_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint(?:\.\d{10}\.(\d{10}))?\.parquet")
_Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_PYTHON85 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
_TO_PYTHON85 = str.maketrans(_Z85, _PYTHON85)
_UUID_CHARS = 20  # of Z85, at the end of a deletion vector's name


class _Vector(msgspec.Struct, rename="camel"):
    storage_type: str
    path_or_inline_dv: str


class _Add(msgspec.Struct, rename="camel"):
    path: str
    size: int | None = None
    deletion_vector: _Vector | None = None


class _Action(msgspec.Struct):
    add: _Add | None = None
    remove: _Add | None = None
    cdc: _Add | None = None


_ACTION = msgspec.json.Decoder(_Action)


class _Point(NamedTuple):
    """A checkpoint of the log: the names of its parts."""

    version: int
    names: tuple[str, ...]


class DeltaUpstream:
    """An ``Upstream``: the table at ``url``, as ``s3://bucket/table``."""

    def __init__(self, url: str) -> None:
        self.shown = printable(url)
        self.account = url
        self._url = url.rstrip("/")
        self._reader = ObjectReader(self._url)

    async def ask(self, cursor: str, list_directories: Callable[[], set[str]]) -> News:
        """Ask for news, as ``Upstream`` says."""
        if not cursor:
            return await self._begin(await self._reader.list_after(LOG, ""), 0)
        last = int(cursor)
        names = await self._reader.list_after(LOG, f"{last:020}.json")
        versions = _list_versions(names)
        if versions and versions[0] != last + 1:  # the table has dropped what came between
            return await self._begin(names, last + 1)
        seen: list[Seen] = []
        some = [version for n, version in enumerate(versions[:VERSIONS]) if version == last + 1 + n]
        for version in some:
            seen += await self._read_version(version)
        return News(str(some[-1] if some else last), seen, is_last=len(some) == len(versions))

    async def close(self) -> None:
        """Nothing is open between requests."""

    async def _begin(self, names: list[str], first: int) -> News:
        """The table as of its last checkpoint, or else its first version, where that is ``first``."""
        point = _find_checkpoint(names)
        versions = _list_versions(names)
        if point is None and (first > 0 or versions[:1] != [0]):
            raise Refused(
                f"{self.shown} cannot be followed as a Delta table: its {LOG} has no version {first}, and no "
                "checkpoint behind it that cfetch reads (those of format v2 are none)"
            )
        if point is None:
            return News("0", await self._read_version(0), [("", "")], is_last=False)
        seen = []
        for name in point.names:
            seen += [self._make_seen(path, size) for path, size in await self._read_checkpoint(name)]
        seen += [self._make_seen(f"{LOG}/{name}", None, waits=True) for name in point.names]
        return News(str(point.version), seen, [("", "")], is_last=False)

    async def _read_version(self, version: int) -> list[Seen]:
        """The files that a version adds, its own, and those that it removes."""
        name = f"{LOG}/{version:020}.json"
        body = await self._reader.read(name, MAX_COMMIT_BYTES)
        try:
            actions = [_ACTION.decode(line) for line in body.splitlines() if line.strip()]
        except NOT_DECODED:
            raise HostileFeed(f"{name} of {self.shown} is no commit of Delta's log") from None
        added = dict(_list_files(action.add or action.cdc for action in actions))
        removed = dict(_list_files(action.remove for action in actions))
        seen = [self._make_seen(path, size) for path, size in added.items()]
        seen.append(self._make_seen(name, len(body), waits=True))
        return [*seen, *(Seen(path, None, waits=True) for path in removed if path not in added)]

    async def _read_checkpoint(self, name: str) -> list[tuple[str, int | None]]:
        body = await self._reader.read(f"{LOG}/{name}", MAX_CHECKPOINT_BYTES)
        try:
            from pyarrow import parquet
        except ImportError:
            raise UsageError(missing_library("delta+…", "pyarrow", "parquet")) from None
        try:
            rows: list[dict[str, Any]] = parquet.read_table(BytesIO(body), columns=["add"]).to_pylist()
            adds = [msgspec.convert(row["add"], _Add) for row in rows if row["add"] is not None]
        except Exception as error:  # noqa: BLE001 - of many types of the library; all mean that it is damaged
            raise HostileFeed(
                f"{LOG}/{name} of {self.shown} is no checkpoint of Delta's log: {type(error).__name__}"
            ) from None
        return list(_list_files(adds))

    def _make_seen(self, path: str, size: int | None, *, waits: bool = False) -> Seen:
        if "://" in path or path.startswith("/"):
            raise Refused(
                f"{self.shown} is a shallow clone: it names {printable(path, 200)}, a file of another table; "
                "follow that table"
            )
        return see_object(path, size, base_url=self._url, waits=waits)


def _list_versions(names: Iterable[str]) -> list[int]:
    return [int(match[1]) for name in names if (match := _COMMIT.fullmatch(name))]


def _find_checkpoint(names: Iterable[str]) -> _Point | None:
    """The last checkpoint of which all parts are there."""
    points: dict[tuple[int, int], list[str]] = {}
    for name in names:
        if match := _CHECKPOINT.fullmatch(name):
            points.setdefault((int(match[1]), int(match[2] or 1)), []).append(name)
    whole = [key for key, parts in points.items() if len(parts) == key[1]]
    return _Point(max(whole)[0], tuple(points[max(whole)])) if whole else None


def _list_files(actions: Iterable[_Add | None]) -> Iterator[tuple[str, int | None]]:
    """Path and size of the files that actions name; the size of a deletion vector's file is not stated."""
    for action in actions:
        if action is None:
            continue
        yield unquote(action.path), action.size
        vector = action.deletion_vector
        if vector is not None and vector.storage_type == "u":
            yield _name_vector(vector.path_or_inline_dv), None


def _name_vector(text: str) -> str:
    """The path of a deletion vector's file: an optional directory, and an UUID in Z85."""
    directory, encoded = text[:-_UUID_CHARS], text[-_UUID_CHARS:]
    try:
        name = uuid.UUID(bytes=base64.b85decode(encoded.translate(_TO_PYTHON85)))
    except ValueError:
        raise HostileFeed("a deletion vector has a name that is none") from None
    return f"{directory}{'/' if directory else ''}deletion_vector_{name}.bin"


def _open_table(name: FeedName, context: FeedContext) -> FeedSource:
    return context.open_log(DeltaUpstream(check_table_url(name)))


FEED = FeedKind("delta+s3://BUCKET/TABLE", _open_table, OBJECT_STORES, is_owners=True)
