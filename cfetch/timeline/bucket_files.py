"""The timeline's files in an object store: the second home of ``Files``, for machines without a common disk.

All names stand in one object, the *index* (``bucket_index.py``), ``.cfetch/timeline.json``, with the bytes of
small files. Each operation is one change of the index. So a rename, a link and an exclusive create are as
atomic as in a directory, and the rules of the timeline need no word about stores. Bytes of large files, as
those of a frozen plan, are objects of their own, ``.cfetch/timeline-data/<random>``, which nobody changes.

A file's time is the store's: an index that changes a file is dated by the store when it is put, and the next
writer notes that date.
"""

import errno
import secrets
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from cfetch.base.errors import VolumeFault
from cfetch.storage.buckets.object_versions import VersionedObjects
from cfetch.storage.files import STATE_NAME
from cfetch.timeline.bucket_index import BucketIndex, Index, IndexedFile, as_os_error
from cfetch.timeline.owner import OWNER_NAME

DATA = f"{STATE_NAME}/timeline-data"
SMALL_BYTES = 16 << 10  # larger files are objects of their own, as each beat puts the whole index
MAX_TRIES = 5  # to read a large file that is replaced meanwhile


class BucketFiles:
    """The files below ``.cfetch`` of the store at ``url``. Raises OSError, NewerRecord."""

    def __init__(self, url: str) -> None:
        """Make the access without a request. Raises UsageError, VolumeFault."""
        self.url = url
        self._objects = VersionedObjects(url)
        self.index = BucketIndex(self._objects)

    def prove(self) -> None:
        """Raise ConfigError if the store has no conditional writes; VolumeFault if it cannot be used."""
        self._objects.prove(secrets.token_hex(8))

    def has_timeline(self) -> bool:
        """Whether any machine has kept plans here."""
        return self.index.read().tag is not None

    def create(self, path: str, data: bytes, *, flush: bool = False) -> None:
        """Make a new file."""
        del flush  # what a store has taken is durable
        blob = None
        if len(data) > SMALL_BYTES:
            blob = secrets.token_hex(16)
            with as_os_error():
                self._objects.put(f"{DATA}/{blob}", data)

        def change(index: Index) -> None:
            _refuse_orphan(index, path)
            if path in index.files or path in index.directories:
                raise FileExistsError(errno.EEXIST, "File exists", path)
            index.files[path] = IndexedFile(b"" if blob else data, blob)

        try:
            self.index.change(change)
        except OSError:
            self._drop(blob)
            raise

    def read(self, path: str) -> bytes:
        """Read all of a file."""
        for _ in range(MAX_TRIES):
            node = _file(self.index.read().content, path)
            if node.blob is None:
                return node.data
            with as_os_error():
                version = self._objects.read(f"{DATA}/{node.blob}")
            if version is not None:
                return version.data
            self.index.forget_look()  # it was replaced since
        raise FileNotFoundError(errno.ENOENT, "its object is missing", path)

    def rewrite(self, path: str, head: bytes, data: bytes) -> None:
        """Write ``data`` over a file that begins with ``head``."""

        def change(index: Index) -> None:
            if not _file(index, path).data.startswith(head):
                raise FileNotFoundError(errno.ENOENT, "another file has this name", path)
            index.files[path] = IndexedFile(data)

        self.index.change(change)

    def rename(self, old: str, new: str) -> None:
        """Give a file another name, in one step; a file that has it is replaced."""

        def change(index: Index) -> str | None:
            node = _file(index, old)
            _refuse_orphan(index, new)
            replaced = index.files.get(new)
            index.files[new] = node
            if old != new:
                del index.files[old]
            return None if replaced is None or replaced is node else replaced.blob

        self._drop(self.index.change(change))

    def link(self, old: str, new: str) -> None:
        """Give a small file a second name, in one step; raises FileExistsError."""
        self.copy(old, new)

    def copy(self, old: str, new: str) -> None:
        """Make a new file with the bytes of an old, small one."""

        def change(index: Index) -> None:
            node = _file(index, old)
            _refuse_orphan(index, new)
            if new in index.files:
                raise FileExistsError(errno.EEXIST, "File exists", new)
            if node.blob is not None:
                raise OSError(errno.EFBIG, "it is too large to be copied here", old)
            index.files[new] = IndexedFile(node.data)

        self.index.change(change)

    def unlink(self, path: str) -> None:
        """Remove a name."""

        def change(index: Index) -> str | None:
            if path in index.directories:
                raise IsADirectoryError(errno.EISDIR, "Is a directory", path)
            node = _file(index, path)
            del index.files[path]
            return node.blob

        self._drop(self.index.change(change))

    def unlink_all(self, paths: Sequence[str]) -> None:
        """Remove names, those of them that are there: in one step."""

        def change(index: Index) -> list[str | None]:
            return [index.files.pop(path).blob for path in paths if path in index.files]

        for blob in self.index.change(change) if paths else ():
            self._drop(blob)

    def make_directory(self, path: str) -> None:
        """Make a directory and those above it, where they are missing."""
        parts = path.split("/")
        paths = ["/".join(parts[:count]) for count in range(1, len(parts) + 1)]
        if set(paths) <= set(self.index.read().content.directories):
            return

        def change(index: Index) -> None:
            index.directories = sorted({*index.directories, *paths})

        self.index.change(change)

    def lock(self, path: str) -> None:
        """Lock nothing: a store has no locks that end with a process."""

    def has_lost_lock(self, path: str, device: int) -> bool:  # noqa: ARG002 - the port's
        """Prove nothing."""
        return False

    def remove_directory(self, path: str) -> None:
        """Remove an empty directory; raises OSError if it is not."""

        def change(index: Index) -> None:
            if path not in index.directories:
                raise FileNotFoundError(errno.ENOENT, "No such directory", path)
            if any(name.startswith(f"{path}/") for name in (*index.files, *index.directories)):
                raise OSError(errno.ENOTEMPTY, "Directory not empty", path)
            index.directories.remove(path)

        self.index.change(change)

    def names(self, path: str) -> list[str]:
        """List the names in a directory, in no order; empty if there is no directory."""
        index = self.index.read().content
        head = "" if path == "." else f"{path}/"
        below = [name[len(head) :] for name in (*index.files, *index.directories) if name.startswith(head)]
        return [name for name in below if "/" not in name]

    def flush_names(self, path: str) -> None:
        """Do nothing: what a store has taken is durable."""

    def modified_s(self, path: str) -> float:
        """When a file was last written: seconds since 1970, by the store's clock."""
        seen = self.index.read()
        changed_s = _file(seen.content, path).changed_s
        return seen.changed_s if changed_s is None else changed_s

    def put_directory(self, path: str, local: Path) -> None:
        """Put all files of a local directory into the directory ``path``, in one step; others there stay."""
        self.make_directory(path)
        nodes: dict[str, IndexedFile] = {}
        try:
            for each in sorted(local.iterdir()):
                if each.name == OWNER_NAME:  # a cleaner reads those of all plans
                    nodes[f"{path}/{each.name}"] = IndexedFile(each.read_bytes())
                elif each.is_file():
                    blob = secrets.token_hex(16)
                    nodes[f"{path}/{each.name}"] = IndexedFile(blob=blob)
                    with as_os_error():
                        self._objects.put_file(f"{DATA}/{blob}", each)

            def change(index: Index) -> list[str | None]:
                _refuse_orphan(index, f"{path}/x")
                replaced = [index.files[name].blob for name in nodes if name in index.files]
                index.files |= {name: IndexedFile(node.data, node.blob) for name, node in nodes.items()}
                return replaced

            old = self.index.change(change)
        except OSError:
            for node in nodes.values():
                self._drop(node.blob)
            raise
        for each_old in old:
            self._drop(each_old)

    def get_directory(self, path: str, local: Path) -> None:
        """Bring all files of the directory ``path`` into an empty local one, which its owner has signed."""
        for _ in range(MAX_TRIES):
            index = self.index.read().content
            head = f"{path}/"
            nodes = {name[len(head) :]: node for name, node in index.files.items() if name.startswith(head)}
            nodes.pop(OWNER_NAME, None)
            if not nodes:
                raise FileNotFoundError(errno.ENOENT, "there is no such plan", path)
            with as_os_error():
                if all(self._bring(node, local / Path(name).name) for name, node in nodes.items()):
                    return
            self.index.forget_look()  # one was replaced since
        raise FileNotFoundError(errno.ENOENT, "its objects are missing", path)

    def _bring(self, node: IndexedFile, path: Path) -> bool:
        if node.blob is not None:
            return self._objects.get_file(f"{DATA}/{node.blob}", path)
        path.write_bytes(node.data)
        return True

    def _drop(self, blob: str | None) -> None:
        if blob is not None:
            with suppress(VolumeFault, OSError):
                self._objects.delete(f"{DATA}/{blob}")


def _file(index: Index, path: str) -> IndexedFile:
    node = index.files.get(path)
    if node is None:
        raise FileNotFoundError(errno.ENOENT, "No such file", path)
    return node


def _refuse_orphan(index: Index, path: str) -> None:
    """Raise FileNotFoundError if the directory of ``path`` is missing, as a directory's file system does."""
    above = path.rpartition("/")[0]
    if above and above not in index.directories:
        raise FileNotFoundError(errno.ENOENT, "No such directory", path)
