"""The metrics file: a header for the run, the records of entries and events, the end; one JSON object a line.

If the name ends in ``.json``, the file is one array document, with one element a line. If ``.zst`` follows,
it is compressed. All forms are written as a stream and read line by line in bounded memory; gzip is read too.
The file of a killed run can be read except for its last, torn line. Formats: ``cfetch.run/1``,
``cfetch.file/1``, ``cfetch.event/1`` and ``cfetch.end/1``; files of earlier versions have only the first two.
"""

import os
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from io import BufferedReader
from itertools import groupby
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, NoReturn, Self

import msgspec

from cfetch.base.errors import LocalFault, UsageError
from cfetch.base.events import EntriesFinished, EntryFinished, Event, RunExplained, RunFinished, RunStarted
from cfetch.base.records import NOT_DECODED, Count, EndRecord, EventRecord, FileRecord
from cfetch.base.secret import printable
from cfetch.manifest.compressed import import_zstd, is_compressed, is_zstd, open_decompressor
from cfetch.show.event_records import make_event_record
from cfetch.storage.files import input_fault
from cfetch.storage.lacking import set_mode
from cfetch.storage.patience import Call, call_within
from cfetch.storage.sharing import is_for_group

FLUSH_EVERY_S = 1.0  # a kill -9 may lose the records of this time
GROUP_RECORDS = 64  # encoded at once, which takes half the time
_OF_A_DESTINATION = Path(".cfetch", "metrics")
PACKED = ".zst"
ENDINGS = tuple(kind + packed for packed in ("", ".gz", PACKED) for kind in (".jsonl", ".json"))
MAX_LINE_BYTES = 16 << 20  # fifty times the record of a file with a hundred attempts
BUFFER_BYTES = 256 * 1024  # a write a second at 250 files/s, a few dozen at 10,000 files/s


class RunHeader(msgspec.Struct, frozen=True, kw_only=True):
    """The first object of a metrics file (``cfetch.run/1``). ``settings`` holds no secrets."""

    schema: str = "cfetch.run/1"
    instant: str
    wall_start: str
    version: str
    host: str
    files: Count = 0
    bytes_known: Count = 0
    sizes_unknown: Count = 0
    concurrency: Count = 0
    destination: str = ""
    settings: dict[str, object]


class MetricsFile:
    """A listener that writes ``path``, readable by its owner only; an older file of that name is replaced.

    If its name ends in ``.zst``, it is compressed, and whole up to each flush.

    It is flushed once a second of run time (by the events' ``t_s``) and when the run finishes.

    Raises:
        UsageError: it is to be compressed, and the library for zstd is not installed.
        LocalFault: the file cannot be created or written (disk full). Raised once; later events are ignored.
    """

    def __init__(self, path: Path, *, limit_s: float | None = None) -> None:
        """``limit_s``: how long the disk may hang. Until the end, threads write; None: it is waited for."""
        self.path = path
        self._limit_s = limit_s
        self._writing: Call | None = None
        self._encoder = msgspec.json.Encoder()
        self._records: list[msgspec.Struct] = []  # not encoded yet
        self._buffer = bytearray()
        zstd = import_zstd() if path.suffix == PACKED else None
        self._compressor = None if zstd is None else zstd.ZstdCompressor()
        self._array = path.name.removesuffix(PACKED).endswith(".json")
        self._separator = b"[\n" if self._array else b""
        self._flushed_s = 0.0
        self._is_ending = False
        self._fd = self._open()

    def __call__(self, event: Event) -> None:
        """Write the record of the event, if it has one."""
        if isinstance(event, EntryFinished):
            self._add(event.record)
        elif isinstance(event, EntriesFinished):
            self._encode()
            for text in event.block.read_lines():  # they stand in the block as they will stand here
                self._add_lines(text)
                if len(self._buffer) >= BUFFER_BYTES:  # a block may be large, and is not kept in memory
                    self.flush()
        elif isinstance(event, RunStarted):
            self._add(make_header(event))
            self.flush()
        elif isinstance(event, RunExplained):
            self._add(event.record)
            return  # ``close`` writes it, and a failure there is the run's error
        elif (kept := make_event_record(event)) is not None:
            self._add(kept)
        if len(self._buffer) >= BUFFER_BYTES or event.t_s - self._flushed_s >= FLUSH_EVERY_S:
            self._hand_over()
            self._flushed_s = event.t_s
        if isinstance(event, RunFinished):
            self.close()

    def close(self) -> None:
        """Write the rest and close the file. A second call does nothing."""
        if self._fd < 0:
            return
        self._encode()
        if self._array:
            self._buffer += (b"" if self._separator == b",\n" else self._separator) + b"\n]\n"
        self._is_ending = True
        self.flush()
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            try:
                self._ask(partial(os.close, fd))
            except OSError as error:  # a network file system may report only now that it is full
                raise self._fault(error) from None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _open(self) -> int:
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        try:
            fd = os.open(self.path, flags, 0o600)
            if stat.S_ISREG(os.fstat(fd).st_mode):
                mode = 0o660 if is_for_group(self.path.parent.stat()) else 0o600
                set_mode(fd, mode)  # an older file may have another
        except OSError as error:
            raise self._fault(error) from None
        return fd

    def _add(self, record: msgspec.Struct) -> None:
        self._records.append(record)
        if len(self._records) >= GROUP_RECORDS:
            self._encode()

    def _encode(self) -> None:
        """Encode the new records into the buffer."""
        if not self._records:
            return
        self._add_lines(self._encoder.encode_lines(self._records))
        self._records.clear()

    def _add_lines(self, text: bytes) -> None:
        if self._array:  # JSON has no line break within an element
            text = self._separator + text.rstrip(b"\n").replace(b"\n", b",\n")
            self._separator = b",\n"
        self._buffer += text

    def _hand_over(self) -> None:
        """Write all records so far, in a thread if the disk may hang. Raises LocalFault."""
        if self._limit_s is None or self._fd < 0:
            self.flush()
            return
        if self._writing is not None:
            if not self._writing.over.is_set():
                return
            self._wait()
        self._encode()
        data = self._take()
        if self._fd >= 0 and data:
            self._writing = Call(str(self.path.parent), partial(_write, self._fd, data))

    def flush(self) -> None:
        """Write all records so far. Raises LocalFault."""
        self._encode()
        self._wait()
        data = self._take()
        if self._fd < 0:
            return
        try:
            self._ask(partial(_write, self._fd, data))
        except OSError as error:
            self._give_up(error)

    def _ask(self, step: Callable[[], None]) -> None:
        call_within(self._limit_s, str(self.path.parent), step)

    def _wait(self) -> None:
        """Wait for the thread that writes. Raises LocalFault."""
        writing, self._writing = self._writing, None
        if writing is not None and self._limit_s is not None:
            try:
                writing.result(self._limit_s)
            except OSError as error:
                self._give_up(error)

    def _give_up(self, error: OSError) -> NoReturn:
        if not isinstance(error, TimeoutError):  # else a thread still uses the descriptor
            os.close(self._fd)
        self._fd = -1
        self._buffer.clear()
        raise self._fault(error) from None

    def _take(self) -> bytearray:
        """Take the bytes to write from the buffer. After a whole block a reader needs no more of the file."""
        data, self._buffer = self._buffer, bytearray()
        packer = self._compressor
        if packer is None:
            return data
        mode = packer.FLUSH_FRAME if self._is_ending else packer.FLUSH_BLOCK
        return bytearray(packer.compress(bytes(data), mode))

    def _fault(self, error: OSError) -> LocalFault:
        reason = error.strerror or type(error).__name__
        name = printable(str(self.path))
        return LocalFault(f"cannot write the metrics file {name}: {reason}; name another with --metrics")


def _write(fd: int, data: bytearray) -> None:
    while data:
        del data[: os.write(fd, data)]


def make_header(started: RunStarted) -> RunHeader:
    """The header of the run's metrics. Sizes from a hostile list may add up to more than a table takes."""
    return RunHeader(
        instant=started.instant,
        wall_start=started.wall_start,
        version=started.version,
        host=started.host,
        files=started.files,
        bytes_known=started.bytes_known,
        sizes_unknown=started.sizes_unknown,
        concurrency=started.concurrency,
        destination=started.destination,
        settings=started.settings,
    )


Record = FileRecord | EventRecord | EndRecord
Document = RunHeader | Record


class Run(NamedTuple):
    """One recorded run. ``records`` is read lazily and must be used up before the next run."""

    source: Path
    header: RunHeader
    records: Iterator[Record]

    @property
    def files(self) -> Iterator[FileRecord]:
        """The records of entries; other records are skipped."""
        return (record for record in self.records if isinstance(record, FileRecord))


def expand_metrics(paths: Iterable[Path]) -> list[Path]:
    """Replace each directory by the metrics files in it, or in its state directory if it is a destination.

    Raises:
        UsageError: a directory has no metrics files.
    """
    files: list[Path] = []
    for path in paths:
        if not os.path.isdir(path):
            files.append(path)
            continue
        own = path / _OF_A_DESTINATION
        folder = own if os.path.isdir(own) else path
        try:
            metrics = [file for file in folder.iterdir() if _is_first_copy(file)]
        except OSError as error:
            raise input_fault(error, f"cannot read {printable(str(folder))}") from None
        within = sorted(metrics, key=order_of_runs)
        if not within:
            raise UsageError(f"{printable(str(path))}: there are no metrics in this directory")
        files += within
    first = [(file.parent, order_of_runs(file)[0]) for file in files]
    return sorted(files, key=lambda file: _place_of_run(file, first))


def _is_first_copy(path: Path) -> bool:
    """Whether the file has metrics and is not the compressed copy of a file that is still there."""
    if not path.name.endswith(ENDINGS):
        return False
    return path.suffix != PACKED or not path.with_suffix("").exists()


def _place_of_run(path: Path, plans: Sequence[tuple[Path, str]]) -> tuple[int, int]:
    """Sort by plans as they were given, and the runs of a plan in their order: a shell puts X.2 before X."""
    instant, epoch, _ = order_of_runs(path)
    return plans.index((path.parent, instant)), epoch


def order_of_runs(path: Path) -> tuple[str, int, str]:
    """The sort key: a plan's later runs, ``<instant>.<epoch>.jsonl``, come after its first run."""
    plain = path.with_suffix("") if path.suffix in (PACKED, ".gz") else path
    instant, _, epoch = plain.stem.partition(".")
    return instant, int(epoch) if epoch.isascii() and epoch.isdigit() else 0, epoch


def read_metrics(paths: Iterable[Path]) -> Iterator[Run]:
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
        recorded = 0
        for record in run.files:
            recorded += 1
            ended, other = (in_place, failed) if record.is_in_place else (failed, in_place)
            ended.add(record.path)
            other.discard(record.path)
        is_whole = is_whole and recorded >= run.header.files
    return Unfinished(failed, None if is_whole else in_place)


def _read_run(path: Path, documents: Iterator[Document]) -> Run:
    header = next(documents)
    if not isinstance(header, RunHeader):
        raise _refusal(path, 1, "a run header (schema cfetch.run/1) must come first")
    return Run(path, header, (document for document in documents if not isinstance(document, RunHeader)))


def _read_documents(path: Path) -> Iterator[Document]:
    has_document = False
    for line, text, torn in _read_texts(path):
        try:
            yield decode_document(text)
            has_document = True
        except (ValueError, RecursionError) as error:
            if torn and has_document and type(error) is not ValueError:  # another schema is no torn line
                return
            raise _refusal(path, line, str(error)) from None
    if not has_document:
        raise _refusal(path, 1, "there is no run in it")


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


def _read_texts(path: Path) -> Iterator[tuple[int, bytes, bool]]:
    """Yield the line number, one JSON object, and whether it ends the file without a line break."""
    line, own_errors = 0, _NO_ERRORS
    try:
        with _find(path).open("rb") as raw:
            file, own_errors = _open_plain(raw)
            start = file.peek(3)[:3]
            if start[:1] == b"[" and start != b"[\n{":  # another tool wrote the array on one line or indented
                for index, element in enumerate(_read_array(path, file.read())):
                    yield index + 1, bytes(element), False
                return
            for line, text in enumerate(iter(partial(file.readline, MAX_LINE_BYTES + 1), b""), start=1):
                if len(text) > MAX_LINE_BYTES:
                    raise _refusal(path, line, f"the line is longer than {MAX_LINE_BYTES} bytes")
                bare = text.strip().rstrip(b",")
                if bare not in {b"", b"[", b"]"}:
                    yield line, bare, not text.endswith(b"\n")
    except EOFError:
        return  # the run was killed before it ended the compressed file
    except own_errors:
        raise _refusal(path, line + 1, "the compressed data is broken") from None
    except OSError as error:
        raise input_fault(error, f"{printable(str(path))}: cannot read the metrics") from None


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


def _read_array(path: Path, data: bytes) -> list[msgspec.Raw]:
    try:
        return msgspec.json.decode(data, type=list[msgspec.Raw])
    except NOT_DECODED as error:
        raise _refusal(path, 1, str(error)) from None


def _refusal(path: Path, line: int, why: str) -> UsageError:
    return UsageError(f"{printable(str(path))}:{line}: not cfetch metrics: {why}")
