"""``cfetch verify``: hash trees again and compare them with their manifest, file by file and both ways.

A tree is a directory, or the objects below a prefix of a store (``cfetch/storage/buckets/object_tree.py``).
This only reads: it creates nothing, and follows no symlink. Several threads hash, as hashing and reading both
release the GIL. Each difference is reported when it is found, so that memory does not grow with their number.
"""

import errno
import os
import threading
from array import array
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec

from cfetch.app.work_ahead import work_ahead
from cfetch.base.errors import UsageError
from cfetch.base.secret import printable
from cfetch.manifest.entry import Entry
from cfetch.manifest.folding import KEEPS_NAMES, Folding, join_foldings
from cfetch.manifest.plan import Plan
from cfetch.run.manifest_reader import STANDARD_READER, ManifestReader
from cfetch.run.open_manifest import expand_manifests, is_elsewhere
from cfetch.show.format import plural
from cfetch.storage.name_folding import read_folding
from cfetch.storage.tree import ReadOnlyTree, Stopped, Tree

NOWHERE = "https://nowhere.invalid/"  # base URL of a list in a file: only the paths of its URLs matter here
CHUNK_FILES = 64  # handing work to a thread costs as much as hashing a small file
CHUNK_BYTES = 16 << 20  # but a thread must not be left alone with several large ones
UNKNOWN_BYTES = 1 << 20  # assumed for a file whose size the manifest does not state

Kind = Literal["missing", "wrong size", "wrong hash", "not regular", "unreadable", "excess", "clash"]


class Difference(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One thing that is not as the manifest says; ``volume`` is set if several volumes are compared."""

    kind: Kind
    path: str
    message: str
    volume: str | None = None


class Duplicate(msgspec.Struct, frozen=True, kw_only=True):
    """A file that is on several volumes, with the same content."""

    path: str
    volumes: tuple[str, ...]


class _Verdict(NamedTuple):
    """The result for one entry: ``vouched`` is the proof for the file on the volumes ``right``."""

    vouched: str
    right: tuple[int, ...]
    wrong: Sequence[Difference]


class Verification:
    """One comparison. Iterate ``differences`` to its end; the counts and ``duplicates`` are complete then.

    ``good`` counts files by the proof that they are right: a hash's name, ``size`` or ``none``. ``found``
    counts differences by kind.
    """

    def __init__(
        self,
        plan: Plan,
        trees: Sequence[Tree],
        *,
        quick: bool,
        ignored: Sequence[frozenset[str]],
        list_name: str = "the manifest",
        folding: Folding = KEEPS_NAMES,
    ) -> None:
        self.good: Counter[str] = Counter()
        self.found: Counter[str] = Counter()
        self.files = len(plan)
        self.quick = quick
        self.total_bytes = 0 if quick else plan.total_bytes
        self._plan = plan
        self._folding = folding
        self._trees = trees
        self._ignored = ignored
        self._list_name = list_name
        self._names = tuple(_show_path(str(tree.root)) for tree in trees)
        self._twice = array("I")  # entries, by index: there may be millions
        self._twice_on = array("I")  # for each of them, the position of its volumes in ``_sets``
        self._sets: dict[tuple[int, ...], int] = {}
        self._stop = threading.Event()

    def differences(self, advance: Callable[[int, int], None]) -> Generator[Difference, None, None]:
        """Yield differences of entries, in their order, then files that the manifest does not name.

        ``advance`` is called with the files and bytes that are done, from any thread. Closing the generator
        ends the threads.

        Raises:
            LocalFault: a directory cannot be read.
        """
        for index, verdict in enumerate(self._judge_all(advance)):
            if verdict.right:
                self.good[verdict.vouched] += 1
            if len(verdict.right) > 1:
                self._twice.append(index)
                self._twice_on.append(self._sets.setdefault(verdict.right, len(self._sets)))
            for difference in verdict.wrong:
                self.found[difference.kind] += 1
                yield difference
        for volume_index, tree in enumerate(self._trees):
            for standing in tree.walk():
                if (
                    standing.path not in self._ignored[volume_index]
                    and self._plan.find(standing.path, folding=self._folding) is None
                ):
                    self.found["excess"] += 1
                    yield self._report(
                        "excess",
                        _show_path(standing.path),
                        f"{self._list_name} does not name it",
                        volume_index,
                    )

    @property
    def without_hash(self) -> int:
        """How many of the good files no hash vouches for: they have the stated size, or are only there."""
        return self.good["size"] + self.good["none"]

    @property
    def duplicates(self) -> Iterator[Duplicate]:
        """The files that are on several volumes, in the manifest's order."""
        sets = [tuple(self._names[volume_index] for volume_index in right) for right in self._sets]
        for index, on in zip(self._twice, self._twice_on, strict=True):
            yield Duplicate(path=self._plan.entry(index).path, volumes=sets[on])

    def _judge_all(self, advance: Callable[[int, int], None]) -> Iterator[_Verdict]:
        def judge(indexes: range) -> list[_Verdict]:
            return [self._judge_entry(self._plan.entry(index), advance) for index in indexes]

        for verdicts in work_ahead(judge, self._split_indexes(), self._stop):
            yield from verdicts

    def _split_indexes(self) -> Iterator[range]:
        first, size_bytes = 0, 0
        for index, stated in enumerate(self._plan.sizes):
            size_bytes += stated if stated >= 0 else UNKNOWN_BYTES
            if index + 1 - first >= CHUNK_FILES or size_bytes >= CHUNK_BYTES:
                yield range(first, index + 1)
                first, size_bytes = index + 1, 0
        yield range(first, len(self._plan))

    def _judge_entry(self, entry: Entry, advance: Callable[[int, int], None]) -> _Verdict:
        hashed = 0

        def read(size_bytes: int) -> None:
            nonlocal hashed
            if self._stop.is_set():
                raise Stopped
            if entry.size_bytes is not None:  # further copies do not count in the total
                size_bytes = min(size_bytes, entry.size_bytes - hashed)
            hashed += size_bytes
            advance(0, size_bytes)

        try:
            return self._search_volumes(entry, read)
        finally:
            advance(1, max(0, (entry.size_bytes or 0) - hashed) if not self.quick else 0)

    def _search_volumes(self, entry: Entry, read: Callable[[int], None]) -> _Verdict:
        if entry.clash is not None:  # what is under its name is the other entry's file
            clash = Difference(kind="clash", path=entry.path, message=entry.clash.message)
            return _Verdict("", (), [clash])
        vouched, right, wrong, blocked = "", [], [], None
        for volume_index in range(len(self._trees)):
            try:
                verdict = self._compare(entry, volume_index, read)
            except FileNotFoundError:
                continue
            except OSError as error:
                if error.errno in (errno.ENOTDIR, errno.ELOOP):
                    message = "a file or a symlink stands where a directory should be"
                    blocked = blocked or self._report("not regular", entry.path, message, volume_index)
                    continue
                message = error.strerror or type(error).__name__
                verdict = self._report("unreadable", entry.path, message, volume_index)
            if isinstance(verdict, str):
                vouched = verdict
                right.append(volume_index)
            else:
                wrong.append(verdict)
        if not right and not wrong:
            wrong = [blocked or self._report_missing(entry)]
        return _Verdict(vouched, tuple(right), wrong)

    def _compare(self, entry: Entry, volume_index: int, read: Callable[[int], None]) -> str | Difference:
        tree = self._trees[volume_index]
        size_bytes = tree.size_of(entry.path)
        if size_bytes is None:
            message = "a directory, a symlink or a special file stands there"
            return self._report("not regular", entry.path, message, volume_index)
        if entry.file_bytes is not None and size_bytes != entry.file_bytes:
            return self._report_wrong_size(entry, size_bytes, volume_index)
        if entry.digest is None or self.quick:
            return "none" if entry.size_bytes is None else "size"
        start_byte, most_bytes, what = 0, None, "its"
        if entry.piece is not None:
            start_byte, most_bytes = entry.piece.start_byte, entry.size_bytes
            what = f"of its {most_bytes:,} bytes from byte {start_byte:,} on, the"
        algorithm = entry.digest.algorithm
        if entry.piece is None and tree.stated_hash_of(entry.path, algorithm) == entry.digest.hex:
            return algorithm
        digits, size_bytes = tree.hash_of(
            entry.path, algorithm, read, start_byte=start_byte, most_bytes=most_bytes
        )
        if digits == entry.digest.hex:
            return algorithm
        if entry.size_bytes is not None and size_bytes != entry.size_bytes:  # it changed meanwhile
            return self._report_wrong_size(entry, start_byte + size_bytes, volume_index)
        message = f"{what} {algorithm} is {digits}, and {entry.digest.hex} in {self._list_name}"
        return self._report("wrong hash", entry.path, message, volume_index)

    def _report_wrong_size(self, entry: Entry, size_bytes: int, volume_index: int) -> Difference:
        message = f"it has {plural(size_bytes, 'byte')}, and {entry.file_bytes:,} in {self._list_name}"
        return self._report("wrong size", entry.path, message, volume_index)

    def _report_missing(self, entry: Entry) -> Difference:
        message = "it is not there" if len(self._trees) == 1 else "it is on none of the volumes"
        return Difference(kind="missing", path=entry.path, message=message)

    def _report(self, kind: Kind, path: str, message: str, volume_index: int) -> Difference:
        volume = self._names[volume_index] if len(self._trees) > 1 else None
        return Difference(kind=kind, path=path, message=message, volume=volume)


def _show_path(path: str) -> str:
    """Show a name found on disk as valid Unicode; bytes that are not UTF-8 are escaped."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


@contextmanager
def open_verification(
    manifest: str,
    to: Sequence[Path | str],
    *,
    more: Sequence[str] = (),
    quick: bool = False,
    reader: ManifestReader = STANDARD_READER,
) -> Iterator[Verification]:
    """Compare the trees at ``to`` with ``manifest`` and ``more`` manifests: paths, URLs, or ``-``.

    ``to`` has directories, and URLs of prefixes of object stores as text. Each file must be in one of the
    trees; a file in several trees is a duplicate, not a difference. A manifest that lies in a tree does not
    count as excess. ``quick`` compares only sizes.

    Raises:
        UsageError: the manifest has faults, there is no such directory, or a store cannot be listed.
    """
    with ExitStack() as stack:
        directories = {
            root: stack.enter_context(_open_directory(root, is_only=len(to) == 1))
            for root in to
            if isinstance(root, Path)
        }
        folding = join_foldings([read_folding(root) for root in directories])
        plan = stack.enter_context(reader.freeze(manifest, *more, own_url=NOWHERE, folding=folding))
        manifests = expand_manifests([manifest, *more]).manifests
        ignored = [frozenset(_find_paths_within(manifests, root)) for root in to]
        trees = [
            directories[root] if isinstance(root, Path) else _list_store(root, plan, reader) for root in to
        ]
        yield Verification(plan, trees, quick=quick, ignored=ignored, folding=folding)


def _open_directory(root: Path, *, is_only: bool) -> ReadOnlyTree:
    """Open a directory. Without one of several nothing is compared: its files would count as missing."""
    try:
        return ReadOnlyTree(root)
    except UsageError as error:
        if is_only:
            raise
        way_out = f"mount it, or leave --to {printable(str(root))} out to compare the others"
        raise UsageError(f"{error} (if it is a volume, {way_out})") from None


def _list_store(url: str, plan: Plan, reader: ManifestReader) -> Tree:
    from cfetch.storage.buckets.object_tree import ObjectTree

    reader.emit_line(f"listing the objects below {printable(url)}")
    return ObjectTree(url, plan.find, len(plan))


def _find_paths_within(manifests: Iterable[str], root: Path | str) -> Iterator[str]:
    """The manifests' own paths below ``root``, if it is a directory and they lie there."""
    if not isinstance(root, Path):
        return
    for manifest in manifests:
        if manifest != "-" and not is_elsewhere(manifest):
            with suppress(ValueError):
                yield Path(manifest).resolve().relative_to(root.resolve()).as_posix()
