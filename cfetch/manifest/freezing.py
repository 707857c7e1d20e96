"""Freezes manifests: validates them as a whole and seals their entries in a file.

``freeze`` reads every row of one manifest or of several once (``checked_entries.py`` has entries that are
checked already). At the end come the rules that need all entries. The pieces of a file have to fit
together. Of two entries for one file one gives way, as of a file and a directory of one name: it fails when
its turn comes, unless ``clash`` says otherwise, and all others are brought.
"""

from array import array
from bisect import bisect_right
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

import msgspec

from cfetch.base.config.reading import ASKING, STANDARD, ReadingOptions
from cfetch.manifest.compressed import open_decompressed
from cfetch.manifest.entry import Clash, Collision, Entry, Piece, PlainEntries
from cfetch.manifest.faults import Faults, ignore_fault
from cfetch.manifest.folding import KEEPS_NAMES, Folding
from cfetch.manifest.plan import FILE_NAME, Plan, PlanAbout
from cfetch.manifest.plan_file import BLOCK, PlanFile
from cfetch.manifest.reading import Reading
from cfetch.manifest.rows import Document
from cfetch.manifest.source import FetchChunk, Source

if TYPE_CHECKING:
    from cfetch.base.config.path_filter import PathFilter
    from cfetch.manifest.settled_clashes import Settled

_find_piece = attrgetter("piece")
PROGRESS_ENTRIES = 20 * BLOCK  # about a tenth of a second
_NO_CLASH: tuple[int, Clash | None] = (-1, None)


class Opened(NamedTuple):
    """A manifest as a seekable binary file.

    ``own_url`` is its address, and ``content_type`` the header of its reply, if it comes from a server.
    ``partial`` is as in ``Document``, and ``notes`` are for the user: both are about the way in which it was
    fetched. ``fetch_chunk`` asks for further links, if it is the result of a SQL statement.
    """

    file: BinaryIO
    own_url: str | None = None
    partial: str | None = None
    notes: Sequence[str] = ()
    fetch_chunk: FetchChunk | None = None
    content_type: str | None = None


class ManifestPart(NamedTuple):
    """One manifest of those that are frozen together, with its name for messages, without secrets."""

    name: str
    open: Callable[[], AbstractContextManager[Opened]]


def freeze(
    parts: Sequence[ManifestPart],
    *,
    name: str,
    directory: Path,
    progress: Callable[[int], None] | None = None,
    base_url: str | None = None,
    options: ReadingOptions = STANDARD,
    report: Callable[[int, str], None] | None = None,
    only: Container[str] | None = None,
    folding: Folding = KEEPS_NAMES,
) -> Plan:
    """Validate a manifest, or several as one list, and seal their entries in ``directory``.

    Args:
        parts: the manifests.
        name: the name of all of them for messages, without secrets.
        directory: exists, and holds no other plan.
        progress: gets the number of entries read so far, every ``PROGRESS_ENTRIES``.
        base_url: the base of relative URLs; takes precedence over the document's own.
        options: the format, the meaning of columns, the way to name files, and whether faulty rows are
            skipped.
        report: gets the line and the reason of each fault, if such rows are skipped.
        only: the paths of the entries that the plan is to have; they keep their ids. None is all.
        folding: which names are one file at the destination. Of entries that clash there, the later one
            fails in the run, unless the options say otherwise.

    Raises:
        ManifestError: the manifests have faults (all are named); nothing is left in ``directory``.
        UsageError: there is no such format, ``base_url`` is invalid, or a library is missing.
        LocalFault: a manifest cannot be read or ``directory`` cannot be written.
    """
    walk = _Walk(parts, base_url, options, report)
    paths = None if options.name_by in ASKING else options.paths  # the paths are not known yet if it asks
    return freeze_blocks(
        walk.read(),
        walk.faults,
        walk.document,
        name=name,
        directory=directory,
        progress=progress,
        only=only,
        find_place=walk.find_place if len(parts) > 1 else None,
        folding=folding,
        clash=options.clash,
        paths=paths,
    )


class _Walk:
    """Reads manifests one after the other; ``faults`` and ``document`` are shared by all."""

    def __init__(
        self,
        parts: Sequence[ManifestPart],
        base_url: str | None,
        options: ReadingOptions,
        report: Callable[[int, str], None] | None,
    ) -> None:
        self._parts = parts
        self._base_url = base_url
        self._options = options
        self._begins: list[int] = []  # of each manifest, the number of its first row
        self.faults = Faults(report or ignore_fault) if options.bad_rows == "skip" else Faults(gives_up=True)
        self.document = Document()

    def read(self) -> Iterator[Sequence[Entry]]:
        """Yield the entries of all manifests in blocks; their ids go on from one manifest to the next."""
        first, document, has_several = 0, self.document, len(self._parts) > 1
        for part in self._parts:
            self.faults.source = part.name if has_several else None
            self._begins.append(first)
            with part.open() as opened, open_decompressed(opened.file, part.name) as plain:
                manifest = Source(
                    plain,
                    part.name,
                    opened.fetch_chunk,
                    own_url=opened.own_url,
                    content_type=opened.content_type,
                )
                reading = Reading(
                    manifest, self._base_url, options=self._options, first=first, faults=self.faults
                )
                reading.document.partial = opened.partial
                yield from reading.blocks()
            if first and reading.document.headers != document.headers:
                self.faults.add(0, "its headers are not those of the manifests before it; give it by itself")
            document.headers = reading.document.headers
            notes = (*opened.notes, *reading.document.notes)
            document.notes += [f"{part.name}: {note}" for note in notes] if has_several else notes
            document.partial = document.partial or reading.document.partial
            first = reading.rows
        self.faults.source = None

    def find_place(self, entry: Entry) -> str:
        """Name the manifest of an entry, and its line or number there."""
        number = bisect_right(self._begins, entry.id) - 1
        where = (
            f":{entry.line}" if entry.line else f", entry {entry.id - self._begins[number]}, counted from 0"
        )
        return f"{self._parts[number].name}{where}"


def freeze_blocks(
    blocks: Iterable[Sequence[Entry]],
    faults: Faults,
    document: Document,
    *,
    name: str,
    directory: Path,
    progress: Callable[[int], None] | None = None,
    only: Container[str] | None = None,
    find_place: Callable[[Entry], str] | None = None,
    folding: Folding = KEEPS_NAMES,
    clash: str = "fail",
    paths: "PathFilter | None" = None,
) -> Plan:
    """Seal the entries of ``blocks``; ``faults`` and ``document`` are complete when all have been read.

    ``find_place`` names the manifest of an entry, if there are several, and its place there. ``paths``: what
    is taken; an entry does not clash with one that is not.
    """
    files: list[PlanFile] = []
    try:
        file, has_pieces = _seal_entries(blocks, directory, files, progress, folding)
        faults.end_of_rows()
        comparison = _Comparison(file, faults, find_place, folding, clash, paths)
        comparison.compare_all()
        if comparison.settled is not None:
            document.notes += comparison.settled.notes()
        merged = len(comparison.repeated)
        # rows that were skipped had numbers too, and equal plans must have equal ids
        chooses = only is not None or paths is not None
        if not faults.total and (
            merged or chooses or faults.skipped or has_pieces or comparison.settled is not None
        ):
            smaller = PlanFile(directory / f"{FILE_NAME}.smaller", folding)
            files.append(smaller)
            for block in _join_small(_list_wanted(comparison, only, paths, file)):
                smaller.extend(block)
            smaller.seal()
            smaller.take_place_of(file)
            file = smaller
        faults.raise_if_any(name)
        file.end(msgspec.msgpack.encode(PlanAbout(name, document.headers, merged)))
    except BaseException:
        for file in files:
            file.discard()
        raise
    return Plan(
        file,
        source=name,
        headers=document.headers,
        merged=merged,
        notes=document.notes,
        skipped=faults.skipped,
        partial=document.partial,
    )


def _seal_entries(
    blocks: Iterable[Sequence[Entry]],
    directory: Path,
    files: list[PlanFile],
    progress: Callable[[int], None] | None,
    folding: Folding,
) -> tuple[PlanFile, bool]:
    """Return the sealed file of all entries, and whether pieces are among them; ``files`` gets the file."""
    file = PlanFile(directory / FILE_NAME, folding)
    files.append(file)
    has_pieces, reported = False, 0
    for block in _join_small(blocks):
        file.extend(block)
        has_pieces = has_pieces or (not isinstance(block, PlainEntries) and any(map(_find_piece, block)))
        if progress is not None and len(file) - reported >= PROGRESS_ENTRIES:
            reported = len(file)
            progress(reported)
    file.seal()
    return file, has_pieces


def _join_small(blocks: Iterable[Sequence[Entry]]) -> Iterator[Sequence[Entry]]:
    """Join blocks to such as have half of ``BLOCK`` entries or more, but for a few."""
    joined: list[Entry] = []
    for block in blocks:
        if len(block) >= BLOCK // 2:
            if joined:
                yield joined
                joined = []
            yield block
            continue
        joined += block
        if len(joined) >= BLOCK:
            yield joined
            joined = []
    if joined:
        yield joined


class _Comparison:
    """Compares entries that want the same path: which repeat another, and what becomes of those that clash.

    ``repeated``: the indexes of entries that only repeat an earlier one; ``left_out``: those that collide
    with another, if faulty rows are skipped. ``settled``: all others that collide, if there are any.
    ``placed``: by index, the places of pieces in their files.
    """

    def __init__(
        self,
        file: PlanFile,
        faults: Faults,
        find_place: Callable[[Entry], str] | None,
        folding: Folding,
        clash: str,
        paths: "PathFilter | None",
    ) -> None:
        self._file = file
        self._faults = faults
        self._find_place = find_place
        self._folding = folding
        self._clash = clash
        # new names depend on the list alone, so that they stay when less of it is taken
        self._paths = None if clash == "rename" else paths
        self.settled: Settled | None = None
        self.left_out: set[int] = set()
        self.repeated = array("q")
        self.placed: dict[int, Piece] = {}

    def compare_all(self) -> None:
        """Compare all entries of the sealed file."""
        for same_key, beneath in self._file.paths.candidates():
            from cfetch.manifest.clashes import compare_entries  # few lists want a path twice

            group, inner = self._take(same_key), self._take(beneath)
            results = compare_entries(
                map(self._file.entry, group), map(self._file.entry, inner), self._folding
            )
            for result in results:
                if isinstance(result, int):
                    self.repeated.append(group[result])
                else:
                    self._settle(result, group, inner)
            pieces: dict[str, list[int]] = {}
            for index in same_key:
                entry = self._file.entry(index)
                if entry.piece is not None and index not in self.left_out:
                    pieces.setdefault(entry.path, []).append(index)
            for indexes in pieces.values():
                self._note_positions(indexes)

    def _take(self, indexes: Sequence[int]) -> Sequence[int]:
        """The entries whose paths are taken."""
        paths = self._paths
        return indexes if paths is None else [n for n in indexes if paths.takes(self._file.entry(n).path)]

    def _settle(self, collision: Collision, same_key: Sequence[int], beneath: Sequence[int]) -> None:
        if self.settled is None:
            from cfetch.manifest.settled_clashes import Settled  # few lists have names that clash

            self.settled = Settled(self._file, self._clash)
        if self.settled.settle(collision, same_key):
            return
        if not self._faults.are_skipped:
            self.settled.let_fail(collision, same_key, beneath)
            return
        self._report(collision)
        self._faults.forgive(self._faults.total - 1)
        assert collision.position is not None
        self.left_out.add(same_key[collision.position])

    def make_clashes(self) -> Iterator[tuple[int, Clash]]:
        """The clash of each entry that fails by it, with its index, in their order."""
        if self.settled is None:
            return
        from cfetch.manifest.clashes import collide

        for index, other_index in self.settled.list_failing():
            entry, other = self._file.entry(index), self._file.entry(other_index)
            yield index, Clash(other.path, self._describe(collide(entry, other, self._folding)))

    def find_piece(self, index: int) -> Piece | None:
        """The place of a piece; None if the piece has a fault."""
        if index not in self.placed:  # no other entry has its path
            self._note_positions([index])
        return self.placed.get(index)

    def _note_positions(self, indexes: Sequence[int]) -> None:
        from cfetch.manifest.assembly import find_positions  # few manifests have pieces

        placed = find_positions([self._file.entry(index) for index in indexes])
        if isinstance(placed, Collision):
            self._report(placed)
        else:
            self.placed.update(zip(indexes, placed, strict=True))

    def _report(self, collision: Collision) -> None:
        is_single = self._find_place is None
        line = max(collision.first.line, collision.second.line) if is_single else 0
        self._faults.add(line, self._describe(collision))

    def _describe(self, collision: Collision) -> str:
        first, second = collision.first, collision.second
        if self._find_place is None:
            return collision.message(name_lines(first, second))
        return collision.message(f"{self._find_place(first)} and {self._find_place(second)}")


def _list_wanted(
    comparison: _Comparison,
    only: Container[str] | None,
    paths: "PathFilter | None",
    file: PlanFile,
) -> Iterator[Sequence[Entry]]:
    settled = comparison.settled
    left_out = () if settled is None else settled.left_out
    dropped = iter(sorted({*comparison.repeated, *comparison.left_out, *left_out}))
    clashes = comparison.make_clashes()
    next_dropped, (next_clash, clash), entry_id = next(dropped, -1), next(clashes, _NO_CLASH), 0
    for index in range(len(file)):
        own_clash = None
        if index == next_clash:
            own_clash, (next_clash, clash) = clash, next(clashes, _NO_CLASH)
        if index == next_dropped:
            next_dropped = next(dropped, -1)
            continue
        entry = file.entry(index)
        if entry.piece is not None and (piece := comparison.find_piece(index)) is not None:
            from cfetch.manifest.assembly import put_in_place  # few manifests have pieces

            entry = put_in_place(entry, piece)
        stated = entry.path
        if settled is not None and (path := settled.renamed.get(index)) is not None:
            # Nobody has stated the new name, so a file of the user's that has it stays.
            entry = msgspec.structs.replace(entry, path=path, is_named_by_server=True)
        if own_clash is not None and entry.clash is None:  # else an earlier check knew its line too
            entry = msgspec.structs.replace(entry, clash=own_clash)
        is_left = only is None or entry.path in only or stated in only  # it may have failed by its old name
        if is_left and (paths is None or paths.takes(entry.path)):
            yield (msgspec.structs.replace(entry, id=entry_id),)
        entry_id += 1


def name_lines(first: Entry, second: Entry) -> str:
    """The places of two entries: by line, or by number if they are on the same line."""
    if first.line != second.line:
        return f"lines {first.line} and {second.line}"
    if first is second:
        return f"line {first.line}, entry {first.id}, counted from 0"
    return f"entries {first.id} and {second.id}, counted from 0"
