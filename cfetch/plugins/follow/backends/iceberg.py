"""An Iceberg table in an object store: each metadata file names a snapshot, which names all files.

The mirror has the files of the present snapshot in the layout of the table: data and delete files first, then
manifests, their list, and the metadata file; what no snapshot needs any more is deleted behind that. All of
them name each other by the locations that they have at the origin. The cursor is the metadata file's name.

The format: https://iceberg.apache.org/spec
"""

import re
from collections.abc import Callable, Iterable, Iterator
from io import BytesIO
from typing import Any

import msgspec

from cfetch.base.errors import HostileFeed, Refused, StaleAnswer, UsageError
from cfetch.base.schemes import OBJECT_STORES
from cfetch.base.secret import printable
from cfetch.manifest.digests import missing_library
from cfetch.plugins.follow.backends.change_log import News, see_object
from cfetch.plugins.follow.backends.feed_kind import FeedContext, FeedKind, FeedName, check_table_url
from cfetch.plugins.follow.backends.web import read_json
from cfetch.plugins.follow.source import FeedSource
from cfetch.storage.buckets.object_reader import ObjectReader

METADATA = "metadata"
MAX_METADATA_BYTES = 256 << 20
MAX_MANIFEST_BYTES = 1 << 30
DELETED = 2  # the status of a file that a manifest names for the last time
_NAME = re.compile(r"v?(\d{1,18})(?:-[0-9a-f-]+)?\.metadata\.json")


class _Snapshot(msgspec.Struct, rename="kebab"):
    snapshot_id: int
    manifest_list: str = ""


class _Metadata(msgspec.Struct, rename="kebab"):
    location: str
    current_snapshot_id: int | None = None
    snapshots: list[_Snapshot] = []


_METADATA = msgspec.json.Decoder(_Metadata)
Files = dict[str, int | None]  # size by path below the table; None: it is not stated


class IcebergUpstream:
    """An ``Upstream``: the table at ``url``, as ``s3://bucket/table``."""

    def __init__(self, url: str) -> None:
        self.shown = printable(url)
        self.account = url
        self._url = url.rstrip("/")
        self._reader = ObjectReader(self._url)
        self._manifests: dict[str, Files] = {}  # of the last snapshot; a manifest never changes

    async def ask(self, cursor: str, list_directories: Callable[[], set[str]]) -> News:
        """Ask for news, as ``Upstream`` says."""
        names = await self._reader.list_after(METADATA, "")
        versions = {int(match[1]): name for name in names if (match := _NAME.fullmatch(name))}
        if not versions:
            raise Refused(f"there is no Iceberg table at {self.shown}: {METADATA}/ has no *.metadata.json")
        name = versions[max(versions)]
        if name == cursor:
            return News(cursor)
        known = _NAME.fullmatch(cursor)
        if known and int(known[1]) > max(versions):
            raise StaleAnswer(f"{self.shown} has gone back, from {cursor} to {name}")
        body = await self._reader.read(f"{METADATA}/{name}", MAX_METADATA_BYTES)
        metadata = read_json(body, _METADATA, f"{METADATA}/{name} of {self.shown}")
        lists, manifests = await self._read_snapshot(metadata)
        data = {path: size for files in manifests.values() for path, size in files.items()}
        seen = [see_object(path, size, base_url=self._url) for path, size in data.items()]
        about = (*manifests, *lists, f"{METADATA}/{name}")
        seen += [see_object(path, None, base_url=self._url, waits=True) for path in about]
        self._manifests = manifests
        return News(name, seen, [("", "")])

    async def close(self) -> None:
        """Nothing is open between requests."""

    async def _read_snapshot(self, metadata: _Metadata) -> tuple[list[str], dict[str, Files]]:
        """The path of the present snapshot's list of manifests, and the files of each manifest."""
        present = [each for each in metadata.snapshots if each.snapshot_id == metadata.current_snapshot_id]
        if not present:  # a table without rows
            return [], {}
        path = self._path_below(present[0].manifest_list, metadata.location)
        rows = await self._read_avro(path)
        names = [self._path_below(row.get("manifest_path"), metadata.location) for row in rows]
        manifests: dict[str, Files] = {}
        for name in names:
            known = self._manifests.get(name)
            manifests[name] = known or self._list_files(await self._read_avro(name), metadata.location)
        return [path], manifests

    def _list_files(self, rows: Iterable[dict[str, Any]], location: str) -> Files:
        files: Files = {}
        for row in rows:
            about = row.get("data_file")
            if not isinstance(about, dict):
                raise HostileFeed(f"a manifest of {self.shown} has an entry without a file")
            if row.get("status") != DELETED:
                size = about.get("file_size_in_bytes")
                files[self._path_below(about.get("file_path"), location)] = (
                    size if type(size) is int else None
                )
        return files

    async def _read_avro(self, path: str) -> list[dict[str, Any]]:
        try:
            import fastavro
        except ImportError:
            raise UsageError(missing_library("iceberg+…", "fastavro", "iceberg")) from None
        body = await self._reader.read(path, MAX_MANIFEST_BYTES)
        try:
            return list(_check_rows(fastavro.reader(BytesIO(body))))
        except Exception as error:  # noqa: BLE001 - of many types of the library; all mean that it is damaged
            raise HostileFeed(f"{path} of {self.shown} cannot be read: {type(error).__name__}") from None

    def _path_below(self, location: object, table: str) -> str:
        """The path of a file below its table, by the locations that the table itself uses."""
        base = f"{table.rstrip('/')}/"
        if not isinstance(location, str) or not location.startswith(base):
            raise Refused(
                f"{self.shown} names {printable(str(location), 200)}, a file beside the table; such a table "
                "cannot be followed"
            )
        return location.removeprefix(base)


def _check_rows(rows: Iterable[object]) -> Iterator[dict[str, Any]]:
    for row in rows:
        if not isinstance(row, dict):
            raise TypeError("not a record")
        yield row


def _open_table(name: FeedName, context: FeedContext) -> FeedSource:
    return context.open_log(IcebergUpstream(check_table_url(name)))


FEED = FeedKind("iceberg+s3://BUCKET/TABLE", _open_table, OBJECT_STORES, is_owners=True)
