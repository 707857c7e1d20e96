"""The metrics file: a header for the run, the records of entries and events, the end; one JSON object a line.

If the name ends in ``.json``, the file is one array document, with one element a line. If ``.zst`` follows,
it is compressed. All forms are written as a stream and read line by line in bounded memory; gzip is read too.
The file of a killed run can be read except for its last, torn line. Formats: ``cfetch.run/1``,
``cfetch.file/1``, ``cfetch.event/1`` and ``cfetch.end/1``; files of earlier versions have only the first two.
"""

import os
import stat
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import NoReturn, Self

import msgspec

from cfetch.base.errors import LocalFault
from cfetch.base.events import EntriesFinished, EntryFinished, Event, RunExplained, RunFinished, RunStarted
from cfetch.base.records import Count, SmallCount
from cfetch.base.secret import printable
from cfetch.show.event_records import make_event_record
from cfetch.storage.group_rights import is_for_group
from cfetch.storage.hanging_calls import Call, call_within
from cfetch.storage.lacking import set_mode

FLUSH_EVERY_S = 1.0  # a kill -9 may lose the records of this time
GROUP_RECORDS = 64  # encoded at once, which takes half the time
PACKED = ".zst"
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
    concurrency: SmallCount = 0
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
        self._compressor = None
        if path.suffix == PACKED:
            from cfetch.manifest.decompression import import_zstd  # most metrics stay as they are

            self._compressor = import_zstd().ZstdCompressor()
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
