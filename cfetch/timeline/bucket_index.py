"""The index of a timeline in an object store: one object that names all files, changed by one at a time.

A change is put on the condition that nobody has changed the index meanwhile; else the writer looks again. The
index names the last writes, so a writer whose answer was lost sees its own.
"""

import errno
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple, TypeVar

import msgspec

from cfetch.base.errors import NewerRecord, VolumeFault
from cfetch.base.records import NOT_DECODED
from cfetch.base.secret import printable
from cfetch.storage.buckets.object_versions import MOST_FAULTS, QUICK_S, StoodStill, Version, VersionedObjects
from cfetch.storage.files import STATE_NAME

T = TypeVar("T")
INDEX = f"{STATE_NAME}/timeline.json"
INDEX_SCHEMA = "cfetch.bucket-timeline/1"
REMEMBERED = 64  # writes; so many others in the time of one request mean a store that is no longer usable
MAX_RACES = 200  # so many lost one after the other: some minutes


class IndexedFile(msgspec.Struct, omit_defaults=True):
    """A file: its bytes, or the object that has them. ``changed_s`` None: the index itself is as old."""

    data: bytes = b""
    blob: str | None = None
    changed_s: float | None = None


class Index(msgspec.Struct):
    """All names, and the last writes."""

    schema: str = INDEX_SCHEMA
    directories: list[str] = []
    files: dict[str, IndexedFile] = {}
    writes: list[str] = []


class IndexVersion(NamedTuple):
    """A version of the index; ``tag`` None: there is none yet."""

    content: Index
    tag: dict[str, str] | None
    changed_s: float


class BucketIndex:
    """The index among ``objects``. Raises OSError, NewerRecord."""

    def __init__(self, objects: VersionedObjects) -> None:
        self._objects = objects
        self._version: Version | None = None  # the last that was read
        self._kept: IndexVersion | None = None
        self._keeps = 0

    @contextmanager
    def read_once(self) -> Iterator[None]:
        """Answer all reads by one look, until this context ends or this process changes the index."""
        self._keeps += 1
        try:
            yield
        finally:
            self._keeps -= 1
            self.forget_look()

    def forget_look(self) -> None:
        """Look anew at the next read, also within ``read_once``."""
        self._kept = None

    def read(self) -> IndexVersion:
        """The index for one who only reads it."""
        seen = self._kept or self._read()
        self._kept = seen if self._keeps else None
        return seen

    def change(self, change: Callable[[Index], T]) -> T:
        """Apply ``change``, again and again until nobody else has changed the index meanwhile."""
        try:
            return self._change(change)
        finally:
            self.forget_look()

    def _read(self) -> IndexVersion:
        with as_os_error():
            version = self._version = self._objects.read(INDEX, self._version)
        if version is None:
            return IndexVersion(Index(), None, 0.0)
        shown = printable(self._objects.url)
        try:
            index = msgspec.json.decode(version.data, type=Index)
        except NOT_DECODED:
            raise OSError(0, f"{INDEX} in {shown} is damaged; move it away, and look into it") from None
        if index.schema != INDEX_SCHEMA:
            raise NewerRecord(
                f"a newer version of cfetch has written {INDEX} ({printable(index.schema)}); use that "
                "version here"
            )
        return IndexVersion(index, version.tag, version.changed_s)

    def _change(self, change: Callable[[Index], T]) -> T:
        name = secrets.token_hex(8)
        answer: T | None = None
        is_tried = False
        faults, began_s = 0, time.monotonic()
        for _ in range(MAX_RACES):
            index, tag, changed_s = self._read()
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
                with as_os_error():
                    if self._objects.swap(INDEX, data, tag):
                        return answer
            except OSError as error:
                faults += 1
                if isinstance(error.__cause__, StoodStill):
                    began_s = time.monotonic()
                if faults == MOST_FAULTS or time.monotonic() - began_s > QUICK_S:
                    if name not in self._read().content.writes:
                        raise
                    return answer
        raise OSError(errno.EBUSY, f"too many others change {INDEX} in {printable(self._objects.url)}")


@contextmanager
def as_os_error() -> Iterator[None]:
    """Convert a store's fault to the error of a disk, which this room handles."""
    try:
        yield
    except VolumeFault as fault:
        raise OSError(0, str(fault)) from (fault if isinstance(fault, StoodStill) else None)
