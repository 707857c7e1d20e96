"""Reads metrics files: the runs in them, and the entries that a run has left to do."""

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from io import BufferedReader
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from cfetch.base.errors import UsageError
from cfetch.base.records import NOT_DECODED, EndRecord, EventRecord, FileRecord
from cfetch.base.secret import hide_login, printable
from cfetch.manifest.compressed import is_compressed, is_zstd
from cfetch.manifest.decompression import FREE_BYTES, MAX_RATIO, open_decompressor
from cfetch.show.metrics import PACKED, RunHeader
from cfetch.storage.files import input_fault

_WHERE = "name the destination of a download, or a file of its .cfetch/metrics"

_OF_A_DESTINATION = Path(".cfetch", "metrics")
ENDINGS = tuple(kind + packed for packed in ("", ".gz", PACKED) for kind in (".jsonl", ".json"))
MAX_LINE_BYTES = 16 << 20  # fifty times the record of a file with a hundred attempts

Record = FileRecord | EventRecord | EndRecord
Document = RunHeader | Record


class MetricsLine(NamedTuple):
    """One line: its content, or why it is no metrics. ``is_torn``: its writer was killed while writing it."""

    number: int
    content: Document | str
    is_torn: bool = False


class MetricsRun(NamedTuple):
    """One recorded run. ``records`` is read lazily and must be used up before the next run."""

    source: Path
    header: RunHeader
    records: Iterator[Record]

    @property
    def files(self) -> Iterator[FileRecord]:
        """The records of entries; other records are skipped."""
        return (record for record in self.records if isinstance(record, FileRecord))


def expand_metrics(paths: Iterable[Path], note: Callable[[str], None] | None = None) -> list[Path]:
    """Replace each directory by the metrics files in it, or in its state directory if it is a destination.

    ``note``: a file of a directory which is no metrics, such as one that a power cut emptied, is left out,
    and ``note`` gets the reason. Without it, such a file is one more to be read.

    Raises:
        UsageError: a directory has no metrics files.
    """
    files: list[Path] = []
    for path in paths:
        if not os.path.isdir(path):
            files.append(path)
            continue
        metrics = [file for file in _list_folder(path) if _is_first_copy(file)]
        within = sorted(_leave_out_damaged(metrics, note) if note else metrics, key=order_of_runs)
        if not within:
            raise UsageError(f"{printable(str(path))}: there are no metrics in this directory; {_WHERE}")
        files += within
    plans: dict[tuple[Path, str], int] = {}
    for file in files:
        plans.setdefault(_plan_of(file), len(plans))
    return sorted(files, key=lambda file: (plans[_plan_of(file)], order_of_runs(file)[1]))


def _list_folder(path: Path) -> list[Path]:
    try:
        with suppress(FileNotFoundError, NotADirectoryError):  # one that may not be read is no absent one
            return list((path / _OF_A_DESTINATION).iterdir())
        return list(path.iterdir())
    except OSError as error:
        raise input_fault(error, f"cannot read {printable(str(error.filename or path))}") from None


def _leave_out_damaged(metrics: Sequence[Path], note: Callable[[str], None]) -> Iterator[Path]:
    """Yield the files that begin with a run; ``note`` gets why others do not, unless all do not."""
    faults = []
    for path in metrics:
        try:
            next(read_metrics([path]))
        except UsageError as error:
            faults.append(error)
        else:
            yield path
    if faults and len(faults) == len(metrics):
        raise faults[0]
    for fault in faults:
        note(f"left out: {fault}")


def _is_first_copy(path: Path) -> bool:
    """Whether the file has metrics and is not the compressed copy of a file that is still there."""
    if not path.name.endswith(ENDINGS):
        return False
    return path.suffix != PACKED or not path.with_suffix("").exists()


def _plan_of(path: Path) -> tuple[Path, str]:
    """Plans stay as they were given, and the runs of each come in their order: a shell puts X.2 before X."""
    return path.parent, order_of_runs(path)[0]


def order_of_runs(path: Path) -> tuple[str, int, str]:
    """The sort key: a plan's later runs, ``<instant>.<epoch>.jsonl``, come after its first run."""
    plain = path.with_suffix("") if path.suffix in (PACKED, ".gz") else path
    instant, _, epoch = plain.stem.partition(".")
    return instant, int(epoch) if epoch.isascii() and epoch.isdigit() else 0, epoch


def read_metrics(paths: Iterable[Path]) -> Iterator[MetricsRun]:
    """Read the runs of metrics files, in order. A file may hold several runs, one after the other.

    Raises:
        UsageError: a file cannot be read or is no metrics file; the message names file and line.
    """
    for path in paths:
        seen = 0

        def number(document: Document) -> int:
            nonlocal seen
            seen += isinstance(document, RunHeader)
            return seen

        for _, group in groupby(_read_documents(path), key=number):
            yield _read_run(path, group)


@dataclass(frozen=True, slots=True)
class Unfinished:
    """The paths of the entries that the runs of a metrics file have left to do, for the operator ``in``.

    ``failed``: entries that failed or were cancelled. If a run ended before all of its entries had ended,
    every entry that is not ``in_place`` is left to do; else ``in_place`` is None.
    """

    failed: set[str]
    in_place: set[str] | None

    def __contains__(self, path: object) -> bool:
        return path in self.failed or (self.in_place is not None and path not in self.in_place)


def read_unfinished(path: Path) -> Unfinished:
    """Find the entries left to do; a later run in the file counts more. Raises as ``read_metrics``."""
    failed: set[str] = set()
    in_place: set[str] = set()
    is_whole = True
    for run in read_metrics([path]):
        recorded, stand, lack = 0, set[str](), set[str]()
        for record in run.files:
            recorded += 1
            (stand if record.is_in_place else lack).add(record.path)
        # of entries whose names clash, one may stand under the name of one that failed
        failed, in_place = (failed - stand) | lack, (in_place | stand) - lack
        is_whole = is_whole and recorded >= run.header.files
    return Unfinished(failed, None if is_whole else in_place)


def _read_run(path: Path, documents: Iterator[Document]) -> MetricsRun:
    header = next(documents)
    if not isinstance(header, RunHeader):
        raise _refusal(path, 1, "a run header (schema cfetch.run/1) must come first")
    return MetricsRun(
        path, header, (document for document in documents if not isinstance(document, RunHeader))
    )


def _read_documents(path: Path) -> Iterator[Document]:
    has_document = False
    for number, content, is_torn in read_lines(path):
        if isinstance(content, str):
            if is_torn and has_document:
                return
            raise _refusal(path, number, content)
        has_document = True
        yield content
    if not has_document:
        raise _refusal(path, 1, "there is no run in it")


def read_lines(path: Path) -> Iterator[MetricsLine]:
    """The lines of a metrics file; blank ones and the brackets of an array are skipped.

    Raises:
        UsageError, LocalFault: the file cannot be read.
    """
    number, own_errors = 0, _NO_ERRORS
    try:
        with _find(path).open("rb") as raw:
            file, own_errors = _open_plain(raw)
            left_bytes = _count_believable(raw) if own_errors else sys.maxsize
            start = file.peek(3)[:3]
            if start[:1] == b"[" and start != b"[\n{":  # another tool wrote the array on one line or indented
                data = file.read(left_bytes if left_bytes < sys.maxsize else -1)
                yield from [_too_large(1)] if len(data) >= left_bytes else _read_array(data)
                return
            for number, text in enumerate(iter(partial(file.readline, MAX_LINE_BYTES + 1), b""), start=1):
                left_bytes -= len(text)
                if left_bytes <= 0:
                    yield _too_large(number)
                    return
                bare = text.strip().rstrip(b",")
                if len(text) > MAX_LINE_BYTES:
                    yield MetricsLine(number, f"the line is longer than {MAX_LINE_BYTES} bytes")
                elif bare not in {b"", b"[", b"]"}:
                    yield _read_line(number, bare, is_last=not text.endswith(b"\n"))
    except EOFError:  # the run was killed before it ended the compressed file
        yield MetricsLine(number + 1, "the compressed data ends too early", is_torn=True)
    except own_errors:
        yield MetricsLine(number + 1, "the compressed data is broken")
    except OSError as error:
        raise input_fault(error, f"{printable(hide_login(str(path)))}: cannot read the metrics") from None


def _count_believable(raw: BufferedReader) -> int:
    """How many bytes a compressed file may hold; a pipe, whose size is not known, any number."""
    size_bytes = os.fstat(raw.fileno()).st_size
    return max(FREE_BYTES, MAX_RATIO * size_bytes) if size_bytes else sys.maxsize


def _too_large(number: int) -> MetricsLine:
    return MetricsLine(number, f"it holds more than {FREE_BYTES} bytes and {MAX_RATIO} times its own size")


def _read_array(data: bytes) -> Iterator[MetricsLine]:
    try:
        elements = msgspec.json.decode(data, type=list[msgspec.Raw])
    except NOT_DECODED as error:
        yield MetricsLine(1, str(error))
        return
    for number, element in enumerate(elements, start=1):
        yield _read_line(number, bytes(element))


def _read_line(number: int, text: bytes, *, is_last: bool = False) -> MetricsLine:
    try:
        return MetricsLine(number, decode_document(text))
    except (ValueError, RecursionError) as error:
        is_torn = is_last and type(error) is not ValueError  # another schema is no torn line
        return MetricsLine(number, str(error), is_torn)


def decode_document(text: bytes) -> Document:
    """Decode one object of a metrics file.

    Raises:
        ValueError: the text is no such object; the message says why.
    """
    schema = _FILE if text.startswith(_FILE_START) else _SCHEMA.decode(text).schema
    decoder = _DECODERS.get(schema)
    if decoder is None:
        raise ValueError(f"the schema is {printable(schema, 60)!r}, not {_RUN} or {_FILE}")
    return decoder.decode(text)


class _Schema(msgspec.Struct):
    schema: str


_RUN, _FILE = "cfetch.run/1", "cfetch.file/1"
_NO_ERRORS: tuple[type[Exception], ...] = ()
_HEAD_BYTES = 200  # a run header begins with its schema
_FILE_START = b'{"schema":"cfetch.file/1"'
_SCHEMA = msgspec.json.Decoder(_Schema)
_DECODERS: dict[str, msgspec.json.Decoder[Document]] = {
    _RUN: msgspec.json.Decoder(RunHeader),
    _FILE: msgspec.json.Decoder(FileRecord),
    "cfetch.event/1": msgspec.json.Decoder(EventRecord),
    "cfetch.end/1": msgspec.json.Decoder(EndRecord),
}


def _find(path: Path) -> Path:
    """The file, or its compressed copy if only that is left."""
    packed = path.with_name(path.name + PACKED)
    return packed if packed.is_file() and not path.exists() else path


def _open_plain(raw: BufferedReader) -> tuple[Any, tuple[type[Exception], ...]]:
    """The file as it was before it was compressed, and the errors that mean broken data."""
    start = raw.peek(4)[:4]
    return open_decompressor(raw, as_zstd=is_zstd(start)) if is_compressed(start) else (raw, _NO_ERRORS)


def is_metrics(path: Path) -> bool:
    """Whether the file may be replaced by metrics: it is empty or holds some. Raises OSError."""
    with path.open("rb") as raw:
        file, own_errors = _open_plain(raw)
        errors: tuple[type[Exception], ...] = (*own_errors, EOFError)
        try:
            head = file.read(_HEAD_BYTES)
        except errors:
            return False
    return not head or b'"cfetch.run/1"' in head


def _refusal(path: Path, line: int, why: str) -> UsageError:
    next_step = f"; {_WHERE}" if line == 1 else ""  # what begins as metrics do is the right file
    return UsageError(f"{printable(str(path))}:{line}: not cfetch metrics: {why}{next_step}")
