"""A manifest frozen: validated as a whole, sealed in a file, indexed in memory.

``freeze`` reads every row of a manifest once; ``freeze_entries`` takes entries that were checked where they
came from. The rules that need all entries are checked at the end, in both: no two entries for one file, none
that only case or Unicode form keeps apart, none that is a file where another needs a directory.
"""

from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, NamedTuple, Self

import msgspec

from cfetch.config.reading import ReadingOptions
from cfetch.errors import LocalFault
from cfetch.manifest.collisions import compare_entries
from cfetch.manifest.compressed import open_decompressed
from cfetch.manifest.entry import Entry
from cfetch.manifest.faults import Faults
from cfetch.manifest.fields import Headers
from cfetch.manifest.plan_file import PlanFile
from cfetch.manifest.reading import STANDARD, Reading
from cfetch.manifest.rows import Document
from cfetch.manifest.source import FetchChunk, Source
from cfetch.records import NOT_DECODED

FILE_NAME = "entries.msgpack"
PROGRESS_ENTRIES = 10_000  # about a tenth of a second


class _About(msgspec.Struct, array_like=True):
    """What a plan's file says about all entries."""

    source: str
    headers: Headers
    merged: int


class Plan:
    """A frozen manifest. ``plan.entry(i)`` is entry ``i``; sizes and hosts of all are in memory.

    ``headers`` go with every request, ``merged`` is how many repeated entries were dropped, ``source`` is the
    manifest's name for messages. ``notes`` are for a person and ``skipped`` are faults of rows that were left
    out, both of a manifest that was read just now. Close it, or use it in a ``with``.
    """

    def __init__(
        self,
        file: PlanFile,
        *,
        source: str,
        headers: Headers,
        merged: int,
        notes: Sequence[str] = (),
        skipped: int = 0,
    ) -> None:
        self._file = file
        self.source = source
        self.headers = headers
        self.merged = merged
        self.notes = tuple(notes)
        self.skipped = skipped
        self.hosts: tuple[str, ...] = tuple(file.hosts)
        self.digest: str = file.digest
        self.total_bytes: int = file.total_bytes
        self.sizes_unknown: int = file.sizes_unknown
        self.expires_at: float | None = file.expires_at

    def __len__(self) -> int:
        return len(self._file)

    @property
    def sizes(self) -> Sequence[int]:
        """Bytes by entry; -1 is unknown."""
        return self._file.sizes

    @property
    def host_of(self) -> Sequence[int]:
        """Index into ``hosts`` by entry."""
        return self._file.host_of

    @property
    def host_files(self) -> dict[str, int]:
        """Files by host, in the order of their first entries."""
        counts = Counter(self.host_of)
        return {host: counts[number] for number, host in enumerate(self.hosts)}

    @property
    def more_hosts(self) -> int:
        """None: ``host_files`` has them all."""
        return 0

    @property
    def batch_of(self) -> Sequence[int] | None:
        """Number of the named batch by entry, -1 for none; None if no entry has one."""
        return self._file.batch_of

    @property
    def names_mirrors(self) -> bool:
        """Whether an entry has mirrors."""
        return self._file.names_mirrors

    @property
    def names_batches(self) -> bool:
        """Whether an entry has a batch with a name."""
        return self._file.batch_of is not None

    @property
    def tasks(self) -> int | None:
        """None: it has not been cut into tasks."""
        return None

    @property
    def floors_s(self) -> Mapping[str, float]:
        """Nobody has estimated how long its hosts take."""
        return {}

    def entry(self, index: int) -> Entry:
        """Read entry ``index`` from the plan's file; a few microseconds.

        Raises:
            IndexError: there is no such entry.
        """
        return self._file.entry(index)

    def entries(self) -> Iterator[Entry]:
        """All of them, in their order."""
        return map(self.entry, range(len(self)))

    def find(self, path: str) -> int | None:
        """The index of the entry with exactly this path."""
        candidates = self._file.paths.find(path)
        return next((index for index in candidates if self.entry(index).path == path), None)

    def save(self, directory: Path) -> None:
        """Put the plan into another directory of its file system as well, for ``load_plan``."""
        self._file.save(directory / FILE_NAME)

    def forget_others(self, directory: Path) -> None:
        """Nothing is left to remove: ``save`` has replaced what it found there."""

    def close(self) -> None:
        """Close the plan's file, which stays."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def freeze(
    source: BinaryIO,
    *,
    name: str,
    format: str | None = None,  # noqa: A002 - the command line's word
    directory: Path,
    fetch_chunk: FetchChunk | None = None,
    progress: Callable[[int], None] | None = None,
    base_url: str | None = None,
    own_url: str | None = None,
    options: ReadingOptions = STANDARD,
    report: Callable[[int, str], None] | None = None,
    only: Container[str] | None = None,
) -> Plan:
    """Validate a manifest and seal it in ``directory``.

    Args:
        source: a seekable binary file.
        name: what messages call it; without secrets.
        format: a name from ``READERS`` in ``formats/detection.py``; None detects it.
        directory: exists, and holds no other plan.
        fetch_chunk: asks for further links of a SQL statement.
        progress: is told the number of entries read so far, every ``PROGRESS_ENTRIES``.
        base_url: what relative URLs are joined to; outweighs the document's own.
        own_url: where the manifest was had; what relative URLs are joined to if nothing else is stated.
        options: which columns are what, how files are named, and whether faulty rows are skipped.
        report: gets the line and the reason of each fault, if such rows are skipped.
        only: the paths of the entries that the plan is to have; they keep their ids. None is all.

    Raises:
        ManifestError: with all faults; nothing is left in ``directory``.
        UsageError: an unknown ``format``, an invalid ``base_url``, a library that the format needs.
        LocalFault: ``source`` cannot be read or ``directory`` not be written.
    """
    with open_decompressed(source, name) as plain:
        manifest = Source(plain, name, fetch_chunk, own_url=own_url)
        reading = Reading(manifest, format, base_url, options=options, report=report)
        return _freeze(
            reading,
            reading.faults,
            reading.document,
            name=name,
            directory=directory,
            progress=progress,
            only=only,
        )


class Opened(NamedTuple):
    """A manifest as a seekable binary file; ``own_url`` is where it was had, if from a server."""

    file: BinaryIO
    own_url: str | None = None


class Part(NamedTuple):
    """One of several manifests, by its name for messages."""

    name: str
    open: Callable[[], AbstractContextManager[Opened]]


def freeze_parts(
    parts: Sequence[Part],
    *,
    name: str,
    directory: Path,
    fetch_chunk: FetchChunk | None = None,
    progress: Callable[[int], None] | None = None,
    base_url: str | None = None,
    options: ReadingOptions = STANDARD,
    report: Callable[[int, str], None] | None = None,
    only: Container[str] | None = None,
) -> Plan:
    """Validate manifests as if they stood one behind the other. Arguments and errors as ``freeze``.

    ``fetch_chunk`` is for a manifest that is alone.
    """
    if len(parts) == 1:
        [part] = parts
        with part.open() as opened:
            return freeze(
                opened.file,
                name=name,
                directory=directory,
                fetch_chunk=fetch_chunk,
                progress=progress,
                base_url=base_url,
                own_url=opened.own_url,
                options=options,
                report=report,
                only=only,
            )
    faults, document = Faults(report if options.bad_rows == "skip" else None), Document()
    begins: list[int] = []  # of each manifest, the number of its first row

    def read() -> Iterator[Entry]:
        first = 0
        for part in parts:
            faults.source = part.name
            begins.append(first)
            with part.open() as opened, open_decompressed(opened.file, part.name) as plain:
                manifest = Source(plain, part.name, own_url=opened.own_url)
                reading = Reading(manifest, None, base_url, options=options, first=first, faults=faults)
                yield from reading
            if first and reading.document.headers != document.headers:
                faults.add(0, "its headers are not those of the manifests before it; give it by itself")
            document.headers = reading.document.headers
            document.notes += [f"{part.name}: {note}" for note in reading.document.notes]
            first = reading.rows
        faults.source = None

    def find_place(entry: Entry) -> str:
        number = bisect_right(begins, entry.id) - 1
        where = f":{entry.line}" if entry.line else f", entry {entry.id - begins[number]}, counted from 0"
        return f"{parts[number].name}{where}"

    return _freeze(
        read(),
        faults,
        document,
        name=name,
        directory=directory,
        progress=progress,
        only=only,
        find_place=find_place,
    )


def freeze_entries(entries: Iterable[Entry], *, name: str, directory: Path) -> Plan:
    """Seal entries in ``directory`` that were checked one by one where they came from, as a feed's are.

    Their ids and line numbers count for nothing; ``name`` is what messages call them, without secrets.

    Raises:
        ManifestError: two of them want one place; nothing is left in ``directory``.
        LocalFault: ``directory`` cannot be written.
    """
    numbered = (msgspec.structs.replace(entry, id=index, line=0) for index, entry in enumerate(entries))
    return _freeze(numbered, Faults(), Document(), name=name, directory=directory)


def _freeze(
    entries: Iterable[Entry],
    faults: Faults,
    document: Document,
    *,
    name: str,
    directory: Path,
    progress: Callable[[int], None] | None = None,
    only: Container[str] | None = None,
    find_place: Callable[[Entry], str] | None = None,
) -> Plan:
    """``faults`` and ``document`` are complete once ``entries`` have been walked over.

    ``find_place``: in which of several manifests an entry stands, and where.
    """
    files: list[PlanFile] = []
    try:
        file, merged = _seal_entries(entries, faults, directory, files, progress, only, find_place)
        faults.raise_if_any(name)
        file.end(msgspec.msgpack.encode(_About(name, document.headers, merged)))
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
    )


def load_plan(directory: Path) -> Plan:
    """The plan that ``freeze`` has sealed in ``directory``. Raises LocalFault."""
    file, text = PlanFile.load(directory / FILE_NAME)
    try:
        about = msgspec.msgpack.decode(text, type=_About)
    except NOT_DECODED:
        file.close()
        raise LocalFault(f"the plan in {directory} is damaged; schedule the manifest again") from None
    return Plan(file, source=about.source, headers=about.headers, merged=about.merged)


def _seal_entries(
    entries: Iterable[Entry],
    faults: Faults,
    directory: Path,
    files: list[PlanFile],
    progress: Callable[[int], None] | None,
    only: Container[str] | None,
    find_place: Callable[[Entry], str] | None,
) -> tuple[PlanFile, int]:
    """The sealed file and how many entries were merged. ``files`` gets every file opened, for cleaning up."""
    file = PlanFile(directory / FILE_NAME)
    files.append(file)
    for entry in entries:
        file.append(entry)
        if progress is not None and len(file) % PROGRESS_ENTRIES == 0:
            progress(len(file))
    file.seal()
    repeated = _find_repeats(file, faults, find_place)
    # rows that were skipped had numbers too, and equal plans must have equal ids
    if faults.total or not (repeated or only is not None or faults.skipped):
        return file, 0
    smaller = PlanFile(directory / f"{FILE_NAME}.smaller")
    files.append(smaller)
    _copy_wanted(repeated, only, file, smaller)
    smaller.take_place_of(file)
    return smaller, len(repeated)


def _copy_wanted(
    repeated: Sequence[int], only: Container[str] | None, file: PlanFile, smaller: PlanFile
) -> None:
    dropped = iter(sorted(repeated))
    next_dropped, entry_id = next(dropped, -1), 0
    for index in range(len(file)):
        if index == next_dropped:
            next_dropped = next(dropped, -1)
            continue
        entry = file.entry(index)
        if only is None or entry.path in only:
            smaller.append(msgspec.structs.replace(entry, id=entry_id))
        entry_id += 1
    smaller.seal()


def _find_repeats(file: PlanFile, faults: Faults, find_place: Callable[[Entry], str] | None) -> Sequence[int]:
    """The indexes of entries that only repeat an earlier one; real collisions become faults."""
    repeated = array("q")
    for same_key, beneath in file.paths.candidates():
        inner = file.entry(beneath[0]) if beneath else None
        for result in compare_entries(map(file.entry, same_key), inner):
            if isinstance(result, int):
                repeated.append(same_key[result])
            else:
                first, second = result.first, result.second
                if find_place is None:
                    faults.add(max(first.line, second.line), result.message(places(first, second)))
                else:
                    faults.add(0, result.message(f"{find_place(first)} and {find_place(second)}"))
    return repeated


def places(first: Entry, second: Entry) -> str:
    """Where two entries stand: by line, or by number where the manifest has them all on one line."""
    if first.line != second.line:
        return f"lines {first.line} and {second.line}"
    return f"entries {first.id} and {second.id}, counted from 0"
