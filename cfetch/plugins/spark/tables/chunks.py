"""Cuts metrics files into chunks for tasks, and reads a chunk's lines.

A plain file is cut at line ends, and each chunk has the run header that is valid where it begins. A file that
is compressed, or is an array that another tool wrote on one line, is one chunk, read from its start.
"""

import io
import os
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import BinaryIO, NamedTuple

import msgspec

from cfetch.base.records import NOT_DECODED
from cfetch.base.secret import printable
from cfetch.manifest.compressed import is_compressed, is_zstd
from cfetch.manifest.decompression import FREE_BYTES, MAX_RATIO, open_decompressor
from cfetch.show.metrics import RunHeader
from cfetch.show.metrics_reading import MAX_LINE_BYTES, Document, decode_document
from cfetch.storage.files import input_fault

CHUNK_BYTES = 64 << 20  # some 100,000 files: a few seconds for a task, which itself costs 50 ms
_RUN_MARK = b"cfetch.run/1"


class FileChunk(msgspec.Struct, frozen=True):
    """Bytes [``begin``, ``end``) of ``source``; ``end`` None: to its end, decompressed or as one array.

    ``line`` is the number of its first line. ``header`` is valid there, and is on ``header_line``.
    """

    source: str
    begin: int
    end: int | None
    line: int
    header: RunHeader | None
    header_line: int


class MetricsLine(NamedTuple):
    """One line: its content, or its fault. ``torn``: it ends the file without a line break."""

    number: int
    content: Document | str
    torn: bool = False


def cut_chunks(path: Path, chunk_bytes: int = CHUNK_BYTES) -> Iterator[FileChunk]:
    """The chunks of a metrics file at its present length, at least one.

    Raises:
        UsageError, LocalFault: it cannot be read.
    """
    try:
        with path.open("rb") as file:
            start = file.read(4)
            if is_compressed(start) or _is_foreign_array(start):
                yield FileChunk(str(path), 0, None, 1, None, 0)
                return
            file.seek(0)
            yield from _cut_at_lines(str(path), file, chunk_bytes)
    except OSError as error:
        raise input_fault(error, f"{printable(str(path))}: cannot read the metrics") from None


def _is_foreign_array(start: bytes) -> bool:
    return start[:1] == b"[" and start[:3] != b"[\n{"


def _cut_at_lines(source: str, file: BinaryIO, chunk_bytes: int) -> Iterator[FileChunk]:
    begin, line = 0, 1
    header: RunHeader | None = None
    header_line = 0
    while (text := file.read(chunk_bytes) + file.readline(MAX_LINE_BYTES)) or not begin:
        end = begin + len(text)
        yield FileChunk(source, begin, end, line, header, header_line)
        if not text:
            return
        header, header_line = _find_last_header(text, line) or (header, header_line)
        begin, line = end, line + text.count(b"\n")


def _find_last_header(text: bytes, line: int) -> tuple[RunHeader, int] | None:
    """The run header that is valid after ``text``, and its line."""
    position = text.rfind(_RUN_MARK)
    while position >= 0:
        begin = text.rfind(b"\n", 0, position) + 1
        content = _decode(text[begin : text.find(b"\n", position) + 1 or len(text)])
        if isinstance(content, RunHeader):
            return content, line + text.count(b"\n", 0, begin)
        position = text.rfind(_RUN_MARK, 0, begin)
    return None


def read_lines(chunk: FileChunk) -> Iterator[MetricsLine]:
    """The lines of ``chunk``; blank ones and the brackets of an array are skipped.

    A compressed file that is cut short or broken ends with a line that says so.

    Raises:
        OSError: the file cannot be read.
    """
    with Path(chunk.source).open("rb") as file:
        if chunk.end is not None:
            file.seek(chunk.begin)
            text = file.read(chunk.end - chunk.begin)
            yield from _read_lines(io.BytesIO(text), chunk.line, len(text))
        elif is_compressed(file.peek(4)):
            yield from _read_decompressed_lines(file)
        else:
            yield from _read_array_lines(file.read())


def _read_lines(file: BinaryIO, number: int, most_bytes: int) -> Iterator[MetricsLine]:
    for line, text in enumerate(iter(partial(file.readline, MAX_LINE_BYTES + 1), b""), start=number):
        if len(text) > MAX_LINE_BYTES:
            yield MetricsLine(line, f"the line is longer than {MAX_LINE_BYTES} bytes")
        elif file.tell() > most_bytes:
            yield _too_large(line)
            return
        elif text.strip().rstrip(b",") not in {b"", b"[", b"]"}:
            yield MetricsLine(line, _decode(text), not text.endswith(b"\n"))


def _read_decompressed_lines(file: io.BufferedReader) -> Iterator[MetricsLine]:
    number = 1
    most_bytes = max(FREE_BYTES, MAX_RATIO * os.fstat(file.fileno()).st_size)
    plain, own_errors = open_decompressor(file, as_zstd=is_zstd(file.peek(4)))
    errors: tuple[type[Exception], ...] = (*own_errors, EOFError)
    try:
        with plain:
            if _is_foreign_array(plain.peek(3)[:3]):
                data = plain.read(most_bytes + 1)
                yield from [_too_large(1)] if len(data) > most_bytes else _read_array_lines(data)
                return
            for line in _read_lines(plain, number, most_bytes):
                number = line.number + 1
                yield line
    except errors:
        yield MetricsLine(number, "the compressed data ends too early, or is broken")


def _too_large(number: int) -> MetricsLine:
    return MetricsLine(number, f"it holds more than {FREE_BYTES} bytes and {MAX_RATIO} times its own size")


def _read_array_lines(data: bytes) -> Iterator[MetricsLine]:
    try:
        elements = msgspec.json.decode(data, type=list[msgspec.Raw])
    except NOT_DECODED as error:
        yield MetricsLine(1, str(error))
        return
    for number, element in enumerate(elements, start=1):
        yield MetricsLine(number, _decode(bytes(element)))


def _decode(text: bytes) -> Document | str:
    try:
        content = decode_document(text.strip().rstrip(b","))
        if isinstance(content, RunHeader):
            parse_start(content)
    except (ValueError, RecursionError) as error:
        return str(error)
    return content


def parse_start(header: RunHeader) -> datetime:
    """Parse when the run started, in UTC.

    Raises:
        ValueError: the header does not state it, or has numbers that do not fit the tables.
    """
    if header.concurrency >= 1 << 31:
        raise ValueError("the concurrency in the run header is out of range")
    try:
        start = datetime.fromisoformat(header.wall_start)
        if start.tzinfo is not None:
            return start.astimezone(UTC)
    except (ValueError, OverflowError):  # OverflowError: in the year 1, east of Greenwich
        pass
    raise ValueError("wall_start is no time with a time zone, such as 2026-01-01T00:00:00Z")
