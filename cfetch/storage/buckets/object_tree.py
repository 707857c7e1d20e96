"""Reads the objects below a prefix of a store as a tree, for ``cfetch verify``; it changes nothing.

Sizes come from the store's listing, a thousand in each request, and so do some MD5s: the ETag of an object
that was put in one request, and not encrypted by a key of its own. Any other hash needs the bytes of the
object: they come in ranges of one version, several objects at a time, each range within a time-out.
"""

import errno
import re
from array import array
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from cfetch.base.secret import printable
from cfetch.manifest.hashing import new_hash
from cfetch.manifest.object_urls import make_listing, split_destination
from cfetch.storage.buckets.object_source import explain_fault, list_objects
from cfetch.storage.buckets.object_store import find_status, open_store
from cfetch.storage.files import STATE_NAME
from cfetch.storage.tree import FoundFile

if TYPE_CHECKING:
    from obstore import GetOptions

RANGE_BYTES = 8 << 20  # a slow way to the store brings it within the time-out; its latency counts little
RANGE_TIMEOUT_S = 120.0
CHANGED = {"412", "PreconditionFailed"}
NOT_THERE = -1
MD5_BYTES = 16
_MD5 = re.compile('"([0-9a-f]{32})"')


class ObjectTree:
    """The objects below ``url``. ``find`` gives the number of an entry by its path; there are ``entries``.

    It implements ``tree.Tree``; sizes and MD5s take 24 bytes an entry. Any thread may use it.
    """

    def __init__(self, url: str, find: Callable[[str], int | None], entries: int) -> None:
        """List the store once. Raises UsageError: it cannot be listed, or obstore is not installed."""
        self.root = printable(url)
        self._url = url
        self._find = find
        parts = split_destination(url)
        assert parts is not None
        listing = make_listing(parts._replace(key=f"{parts.key}/" if parts.key else ""))
        assert listing is not None
        self._listing = listing
        self._sizes = array("q", [NOT_THERE]) * entries
        self._md5s = bytearray(MD5_BYTES * entries)  # zeros: the store states none
        for path, size_bytes, etag in self._list():
            number = find(path)
            if number is not None:
                self._sizes[number] = size_bytes
                if md5 := _MD5.fullmatch(etag):
                    self._md5s[MD5_BYTES * number : MD5_BYTES * (number + 1)] = bytes.fromhex(md5[1])
        self._store = open_store(url, timeout_s=RANGE_TIMEOUT_S)

    def size_of(self, path: str) -> int:
        """The size in bytes of the object at ``path``. Raises FileNotFoundError: there is none."""
        number = self._find(path)
        if number is None or self._sizes[number] == NOT_THERE:
            raise FileNotFoundError
        return self._sizes[number]

    def stated_hash_of(self, path: str, algorithm: str) -> str | None:
        """The hash that the store's listing states; it may be of an encrypted object, and so another one."""
        number = self._find(path)
        if number is None or algorithm != "md5":
            return None
        md5 = self._md5s[MD5_BYTES * number : MD5_BYTES * (number + 1)]
        return md5.hex() if any(md5) else None

    def hash_of(
        self,
        path: str,
        algorithm: str,
        read: Callable[[int], None],
        *,
        start_byte: int = 0,
        most_bytes: int | None = None,
    ) -> tuple[str, int]:
        """Read an object and hash it, as ``ReadOnlyTree.hash_of``. Raises OSError: it cannot be read."""
        end = self.size_of(path) if most_bytes is None else start_byte + most_bytes
        running, position, version = new_hash(algorithm, end - start_byte), start_byte, None
        while position < end:
            data, version = self._read(path, position, min(end, position + RANGE_BYTES), version)
            if not data:
                break
            running.update(data)
            position += len(data)
            read(len(data))
        return running.hexdigest(), position - start_byte

    def _read(self, path: str, start: int, end: int, version: str | None) -> tuple[bytes, str | None]:
        """The bytes of a range, and the version of the object that they are of."""
        import obstore

        options: GetOptions = {"range": (start, end)}
        if version is not None:
            options["if_match"] = version
        try:
            reply = obstore.get(self._store, path, options=options)
            return bytes(reply.bytes()), reply.meta["e_tag"]
        except FileNotFoundError:
            raise
        except Exception as error:  # noqa: BLE001 - of many types; what they have in common is the store
            if find_status(str(error)) & CHANGED:
                raise OSError(errno.EBUSY, "another program has replaced it while it was read") from None
            why = explain_fault(self._url, error, "send its bytes")
            raise OSError(errno.EIO, str(why)) from None

    def walk(self) -> Iterator[FoundFile]:
        """Yield all objects in the listing's order; cfetch's own are left out. Raises UsageError."""
        for path, _, _ in self._list():
            yield FoundFile(path, is_file=True)

    def _list(self) -> Iterator[tuple[str, int, str]]:
        """Paths, sizes in bytes, and ETags."""
        for row, etag in list_objects(self._listing, look=False):
            path, size_bytes = row["path"], row["size"]
            assert isinstance(path, str)
            assert isinstance(size_bytes, int)
            if not path.startswith(f"{STATE_NAME}/"):
                yield path, size_bytes, etag
