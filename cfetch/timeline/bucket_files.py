"""The timeline's files in an object store: the second home of ``Files``, for machines without a common disk.

All names stand in one object, the *index*, ``.cfetch/timeline.json``, with the bytes of small files. Each
operation reads the index, and puts the changed one on the condition that nobody has changed it meanwhile
(``storage/object_versions.py``); else it looks again. So a rename, a link and an exclusive create are as
atomic as in a directory, and the rules of the timeline need no word about stores. Bytes of large files, as
those of a frozen plan, are objects of their own, ``.cfetch/timeline-data/<random>``, which nobody changes.

A file's time is the store's: an index that changes a file is dated by the store when it is put, and the next
writer notes that date. The index names the last writes, so a writer whose answer was lost sees its own.
"""

import errno
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple, TypeVar

import msgspec

from cfetch.errors import NewerRecord, VolumeFault
from cfetch.records import NOT_DECODED
from cfetch.secret import printable
from cfetch.storage.files import STATE_NAME
from cfetch.storage.object_versions import MOST_FAULTS, QUICK_S, VersionedObjects
from cfetch.timeline.owner import OWNER_NAME

T = TypeVar("T")
INDEX = f"{STATE_NAME}/timeline.json"
DATA = f"{STATE_NAME}/timeline-data"
INDEX_SCHEMA = "cfetch.bucket-timeline/1"
SMALL_BYTES = 16 << 10  # larger files are objects of their own, as each beat puts the whole index
REMEMBERED = 64  # writes; so many others in the time of one request mean a store that is no longer usable
MAX_RACES = 200  # so many lost one after the other: some minutes
MAX_TRIES = 5  # to read a large file that is replaced meanwhile


class _Node(msgspec.Struct, omit_defaults=True):
    """A file: its bytes, or the object that has them. ``changed_s`` None: the index itself is as old."""

    data: bytes = b""
    blob: str | None = None
    changed_s: float | None = None


class _Index(msgspec.Struct):
    schema: str = INDEX_SCHEMA
    directories: list[str] = []
    files: dict[str, _Node] = {}
    writes: list[str] = []


class _Seen(NamedTuple):
    content: _Index
    tag: dict[str, str] | None
    changed_s: float


class BucketFiles:
    """The files below ``.cfetch`` of the store at ``url``. Raises OSError, NewerRecord."""

    def __init__(self, url: str) -> None:
        """Make the access without a request. Raises UsageError, VolumeFault."""
        self.url = url
        self._objects = VersionedObjects(url)
        self._kept: _Seen | None = None
        self._keeps = 0

    @contextmanager
    def look_once(self) -> Iterator[None]:
        """Answer all reads by one look at the index, until this context ends or this process changes it."""
        self._keeps += 1
        try:
            yield
        finally:
            self._keeps -= 1
            self._kept = None

    def forget_look(self) -> None:
        """Look anew at the next read, also within ``look_once``."""
        self._kept = None

    def changed_s(self) -> float:
        """When the index was changed last, by the store's clock."""
        return self._read_index().changed_s

    def prove(self) -> None:
        """Raise ConfigError if the store has no conditional writes; VolumeFault if it cannot be used."""
        self._objects.prove(secrets.token_hex(8))

    def has_timeline(self) -> bool:
        """Whether any machine has kept plans here."""
        return self._read_index().tag is not None

    def create(self, path: str, data: bytes, *, flush: bool = False) -> None:
        """Make a new file."""
        del flush  # what a store has taken is durable
        blob = None
        if len(data) > SMALL_BYTES:
            blob = secrets.token_hex(16)
            with self._as_os_error():
                self._objects.put(f"{DATA}/{blob}", data)

        def change(index: _Index) -> None:
            _refuse_orphan(index, path)
            if path in index.files or path in index.directories:
                raise FileExistsError(errno.EEXIST, "File exists", path)
            index.files[path] = _Node(b"" if blob else data, blob)

        try:
            self._change(change)
        except OSError:
            self._drop(blob)
            raise

    def read(self, path: str) -> bytes:
        """Read all of a file."""
        for _ in range(MAX_TRIES):
            node = _file(self._read_index().content, path)
            if node.blob is None:
                return node.data
            with self._as_os_error():
                version = self._objects.read(f"{DATA}/{node.blob}")
            if version is not None:
                return version.data
            self.forget_look()  # it was replaced since
        raise FileNotFoundError(errno.ENOENT, "its object is missing", path)

    def rewrite(self, path: str, head: bytes, data: bytes) -> None:
        """Write ``data`` over a file that begins with ``head``."""

        def change(index: _Index) -> None:
            if not _file(index, path).data.startswith(head):
                raise FileNotFoundError(errno.ENOENT, "another file has this name", path)
            index.files[path] = _Node(data)

        self._change(change)

    def rename(self, old: str, new: str) -> None:
        """Give a file another name, in one step; a file that has it is replaced."""

        def change(index: _Index) -> str | None:
            node = _file(index, old)
            _refuse_orphan(index, new)
            replaced = index.files.get(new)
            index.files[new] = node
            if old != new:
                del index.files[old]
            return None if replaced is None or replaced is node else replaced.blob

        self._drop(self._change(change))

    def link(self, old: str, new: str) -> None:
        """Give a small file a second name, in one step; raises FileExistsError."""
        self.copy(old, new)

    def copy(self, old: str, new: str) -> None:
        """Make a new file with the bytes of an old, small one."""

        def change(index: _Index) -> None:
            node = _file(index, old)
            _refuse_orphan(index, new)
            if new in index.files:
                raise FileExistsError(errno.EEXIST, "File exists", new)
            if node.blob is not None:
                raise OSError(errno.EFBIG, "it is too large to be copied here", old)
            index.files[new] = _Node(node.data)

        self._change(change)

    def unlink(self, path: str) -> None:
        """Remove a name."""

        def change(index: _Index) -> str | None:
            if path in index.directories:
                raise IsADirectoryError(errno.EISDIR, "Is a directory", path)
            node = _file(index, path)
            del index.files[path]
            return node.blob

        self._drop(self._change(change))

    def make_directory(self, path: str) -> None:
        """Make a directory and those above it, where they are missing."""
        parts = path.split("/")
        paths = ["/".join(parts[:count]) for count in range(1, len(parts) + 1)]
        if set(paths) <= set(self._read_index().content.directories):
            return

        def change(index: _Index) -> None:
            index.directories = sorted({*index.directories, *paths})

        self._change(change)

    def remove_directory(self, path: str) -> None:
        """Remove an empty directory; raises OSError if it is not."""

        def change(index: _Index) -> None:
            if path not in index.directories:
                raise FileNotFoundError(errno.ENOENT, "No such directory", path)
            if any(name.startswith(f"{path}/") for name in (*index.files, *index.directories)):
                raise OSError(errno.ENOTEMPTY, "Directory not empty", path)
            index.directories.remove(path)

        self._change(change)

    def names(self, path: str) -> list[str]:
        """List the names in a directory, in no order; empty if there is no directory."""
        index = self._read_index().content
        head = "" if path == "." else f"{path}/"
        below = [name[len(head) :] for name in (*index.files, *index.directories) if name.startswith(head)]
        return [name for name in below if "/" not in name]

    def flush_names(self, path: str) -> None:
        """Do nothing: what a store has taken is durable."""

    def modified_s(self, path: str) -> float:
        """When a file was last written: seconds since 1970, by the store's clock."""
        seen = self._read_index()
        changed_s = _file(seen.content, path).changed_s
        return seen.changed_s if changed_s is None else changed_s

    def put_directory(self, path: str, local: Path) -> None:
        """Put all files of a local directory into the directory ``path``, in one step; others there stay."""
        self.make_directory(path)
        blobs: dict[str, str] = {}
        try:
            for each in sorted(local.iterdir()):
                if each.is_file():
                    blobs[f"{path}/{each.name}"] = secrets.token_hex(16)
                    with self._as_os_error():
                        self._objects.put_file(f"{DATA}/{blobs[f'{path}/{each.name}']}", each)

            def change(index: _Index) -> list[str | None]:
                _refuse_orphan(index, f"{path}/x")
                replaced = [index.files[name].blob for name in blobs if name in index.files]
                index.files |= {name: _Node(blob=blob) for name, blob in blobs.items()}
                return replaced

            old = self._change(change)
        except OSError:
            for blob in blobs.values():
                self._drop(blob)
            raise
        for each_old in old:
            self._drop(each_old)

    def get_directory(self, path: str, local: Path) -> None:
        """Bring all files of the directory ``path`` into an empty local one, which its owner has signed."""
        for _ in range(MAX_TRIES):
            index = self._look().content
            head = f"{path}/"
            nodes = {name[len(head) :]: node for name, node in index.files.items() if name.startswith(head)}
            nodes.pop(OWNER_NAME, None)
            if not nodes:
                raise FileNotFoundError(errno.ENOENT, "there is no such plan", path)
            with self._as_os_error():
                if all(self._bring(node, local / Path(name).name) for name, node in nodes.items()):
                    return
        raise FileNotFoundError(errno.ENOENT, "its objects are missing", path)

    def _bring(self, node: _Node, path: Path) -> bool:
        if node.blob is not None:
            return self._objects.get_file(f"{DATA}/{node.blob}", path)
        path.write_bytes(node.data)
        return True

    def _read_index(self) -> _Seen:
        """The index for one who only reads it: within ``look_once`` the same again."""
        seen = self._kept or self._look()
        self._kept = seen if self._keeps else None
        return seen

    def _look(self) -> _Seen:
        with self._as_os_error():
            version = self._objects.read(INDEX)
        if version is None:
            return _Seen(_Index(), None, 0.0)
        try:
            index = msgspec.json.decode(version.data, type=_Index)
        except NOT_DECODED:
            raise OSError(
                0, f"{INDEX} in {printable(self.url)} is damaged; move it away, and look into it"
            ) from None
        if index.schema != INDEX_SCHEMA:
            raise NewerRecord(
                f"a newer version of cfetch has written {INDEX} ({printable(index.schema)}); use that "
                "version here"
            )
        return _Seen(index, version.tag, version.changed_s)

    def _change(self, change: Callable[[_Index], T]) -> T:
        """Apply ``change`` to the index, again and again until nobody else has changed it meanwhile."""
        try:
            return self._change_index(change)
        finally:
            self._kept = None

    def _change_index(self, change: Callable[[_Index], T]) -> T:
        name = secrets.token_hex(8)
        answer: T | None = None
        is_tried = False
        faults, began_s = 0, time.monotonic()
        for _ in range(MAX_RACES):
            index, tag, changed_s = self._look()
            if is_tried and name in index.writes:
                return answer  # type: ignore[return-value]  # ours, though its answer was lost
            for node in index.files.values():
                if node.changed_s is None:
                    node.changed_s = changed_s
            answer = change(index)
            index.writes = [*index.writes, name][-REMEMBERED:]
            is_tried = True
            data = msgspec.json.encode(index)
            try:
                with self._as_os_error():
                    if self._objects.swap(INDEX, data, tag):
                        return answer
            except OSError:
                faults += 1
                if faults == MOST_FAULTS or time.monotonic() - began_s > QUICK_S:
                    if name not in self._look().content.writes:
                        raise
                    return answer
        raise OSError(errno.EBUSY, f"too many others change {INDEX} in {printable(self.url)}")

    def _drop(self, blob: str | None) -> None:
        if blob is not None:
            with suppress(VolumeFault, OSError):
                self._objects.delete(f"{DATA}/{blob}")

    @contextmanager
    def _as_os_error(self) -> Iterator[None]:
        try:
            yield
        except VolumeFault as fault:
            raise OSError(0, str(fault)) from None


def _file(index: _Index, path: str) -> _Node:
    node = index.files.get(path)
    if node is None:
        raise FileNotFoundError(errno.ENOENT, "No such file", path)
    return node


def _refuse_orphan(index: _Index, path: str) -> None:
    """Raise FileNotFoundError if the directory of ``path`` is missing, as a directory's file system does."""
    above = path.rpartition("/")[0]
    if above and above not in index.directories:
        raise FileNotFoundError(errno.ENOENT, "No such directory", path)
