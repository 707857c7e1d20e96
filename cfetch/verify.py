"""``cfetch verify``: a tree hashed again and compared with its manifest, file by file and both ways.

Only reading: nothing is created, no symlink followed. Several threads hash, for hashing and reading both let
others run. What is wrong comes as it is found, so that memory does not grow with it.
"""

import errno
import os
import threading
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import msgspec

from cfetch.intake import frozen, is_url
from cfetch.manifest.entry import Entry
from cfetch.manifest.plan import Plan
from cfetch.placement.tree import ReadOnlyTree, Stopped
from cfetch.transfer.network import DIRECT, Network

__all__ = ["Difference", "Verification", "verification"]

NOWHERE = "https://nowhere.invalid/"  # where a list's relative URLs lead: only their paths matter here
CHUNK_FILES = 64  # handing work to a thread costs as much as hashing a small file
CHUNK_BYTES = 16 << 20  # but a thread must not be left alone with several large ones
UNKNOWN_BYTES = 1 << 20  # what a file counts for whose size the manifest does not state
AHEAD_PER_THREAD = 4

Kind = Literal["missing", "wrong size", "wrong hash", "not regular", "unreadable", "excess"]


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that is not as the manifest says."""

    kind: Kind
    path: str
    message: str


class Verification:
    """One comparison. Iterate ``differences`` to its end; the counts are complete then.

    ``good`` counts files by what vouches for them: a hash's name, ``size`` or ``none``. ``found`` counts
    differences by kind.
    """

    def __init__(self, plan: Plan, tree: ReadOnlyTree, *, quick: bool, ignored: str | None) -> None:
        self.good: Counter[str] = Counter()
        self.found: Counter[str] = Counter()
        self.files = len(plan)
        self.quick = quick
        self.total_bytes = 0 if quick else plan.total_bytes
        self._plan = plan
        self._tree = tree
        self._ignored = ignored
        self._stop = threading.Event()

    def differences(self, advance: Callable[[int, int], None]) -> Generator[Difference, None, None]:
        """First the entries in their order, then what the manifest does not name.

        ``advance`` is told the files and bytes that are done, from any thread. Closing the generator ends the
        threads.

        Raises:
            LocalFault: a directory cannot be read.
        """
        for verdict in self._verdicts(advance):
            if isinstance(verdict, str):
                self.good[verdict] += 1
            else:
                self.found[verdict.kind] += 1
                yield verdict
        for found in self._tree.walk():
            if self._plan.find(found.path) is None and found.path != self._ignored:
                self.found["excess"] += 1
                yield Difference(
                    kind="excess", path=_text(found.path), message="the manifest does not name it"
                )

    def _verdicts(self, advance: Callable[[int, int], None]) -> Iterator[str | Difference]:
        threads = min(32, (os.cpu_count() or 1) + 4)  # as many as Python's own default: disks like a queue
        waiting: deque[Future[list[str | Difference]]] = deque()
        executor = ThreadPoolExecutor(threads)
        try:
            for indexes in self._chunks():
                if len(waiting) >= threads * AHEAD_PER_THREAD:
                    yield from waiting.popleft().result()
                waiting.append(executor.submit(self._judged, indexes, advance))
            while waiting:
                yield from waiting.popleft().result()
        finally:
            self._stop.set()
            executor.shutdown(cancel_futures=True)

    def _chunks(self) -> Iterator[range]:
        first, size_bytes = 0, 0
        for index, stated in enumerate(self._plan.sizes):
            size_bytes += stated if stated >= 0 else UNKNOWN_BYTES
            if index + 1 - first >= CHUNK_FILES or size_bytes >= CHUNK_BYTES:
                yield range(first, index + 1)
                first, size_bytes = index + 1, 0
        yield range(first, len(self._plan))

    def _judged(self, indexes: range, advance: Callable[[int, int], None]) -> list[str | Difference]:
        return [self._judge(self._plan.entry(index), advance) for index in indexes]

    def _judge(self, entry: Entry, advance: Callable[[int, int], None]) -> str | Difference:
        hashed = 0

        def read(size_bytes: int) -> None:
            nonlocal hashed
            if self._stop.is_set():
                raise Stopped
            hashed += size_bytes
            advance(0, size_bytes)

        try:
            return self._compared(entry, read)
        except FileNotFoundError:
            return _difference("missing", entry, "it is not there")
        except OSError as error:
            if error.errno in (errno.ENOTDIR, errno.ELOOP):
                return _difference(
                    "not regular", entry, "a file or a symlink stands where a directory should be"
                )
            return _difference("unreadable", entry, error.strerror or type(error).__name__)
        finally:
            advance(1, max(0, (entry.size_bytes or 0) - hashed) if not self.quick else 0)

    def _compared(self, entry: Entry, read: Callable[[int], None]) -> str | Difference:
        size_bytes = self._tree.size_of(entry.path)
        if size_bytes is None:
            return _difference("not regular", entry, "a directory, a symlink or a special file stands there")
        if entry.size_bytes is not None and size_bytes != entry.size_bytes:
            return _wrong_size(entry, size_bytes)
        if entry.digest is None or self.quick:
            return "none" if entry.size_bytes is None else "size"
        digits, size_bytes = self._tree.hash_of(entry.path, entry.digest.algorithm, read)
        if digits == entry.digest.hex:
            return entry.digest.algorithm
        if entry.size_bytes is not None and size_bytes != entry.size_bytes:  # it changed meanwhile
            return _wrong_size(entry, size_bytes)
        message = f"its {entry.digest.algorithm} is {digits}, and {entry.digest.hex} in the manifest"
        return _difference("wrong hash", entry, message)


def _wrong_size(entry: Entry, size_bytes: int) -> Difference:
    message = f"it has {size_bytes} bytes, and {entry.size_bytes} in the manifest"
    return _difference("wrong size", entry, message)


def _difference(kind: Kind, entry: Entry, message: str) -> Difference:
    return Difference(kind=kind, path=entry.path, message=message)


def _text(path: str) -> str:
    """A name found on disk as valid Unicode: bytes that are not UTF-8 are spelled out."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


@contextmanager
def verification(
    manifest: str,
    to: Path,
    *,
    quick: bool = False,
    progress: Callable[[int], None] | None = None,
    network: Network = DIRECT,
) -> Iterator[Verification]:
    """A comparison of the tree at ``to`` with ``manifest``: a path, an http(s) URL, or ``-``.

    A manifest that lies in the tree is not in excess there. ``quick`` compares sizes alone. ``progress`` is
    told how many entries of the manifest have been read.

    Raises:
        UsageError: the manifest has faults, or there is no such directory.
    """
    with (
        ReadOnlyTree(to) as tree,
        frozen(manifest, base_url=NOWHERE, progress=progress, network=network) as plan,
    ):
        yield Verification(plan, tree, quick=quick, ignored=_path_within(manifest, to))


def _path_within(manifest: str, root: Path) -> str | None:
    """The manifest's own path below ``root``, if it lies there."""
    if manifest == "-" or is_url(manifest):
        return None
    try:
        return Path(manifest).resolve().relative_to(root.resolve()).as_posix()
    except ValueError:
        return None
