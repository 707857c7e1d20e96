"""How much memory the pages of a Parquet table take, by their own headers, before a byte is decompressed.

A few hundred bytes can claim gigabytes: a page that decompresses to any size, one dictionary value for every
row, nulls without end, one list with all values. Arrow allocates what a page's header says and expands what
its encoding says, so these headers count here, and not the footer's sums, which may say less.

Format: parquet-format, ``parquet.thrift`` (PageHeader), in Thrift's compact protocol.
"""

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, BinaryIO

from cfetch.manifest.compressed import FREE_BYTES, MAX_RATIO
from cfetch.manifest.faults import BrokenDocumentError

FREE_ROWS = 100_000  # a second's work, whatever they are
ROWS_PER_BYTE = 8  # of the file, beyond those: numbered URLs in the densest encoding take a byte a row
FREE_VALUES = 1 << 20  # of lists
BATCH_BYTES = 32 << 20  # of one batch of rows, as Arrow holds it
MAX_COLUMNS = 1000  # leaves; a table of entries has a dozen
_HEADER_BYTES = (1 << 12, 16 << 20)  # most headers are below 100 bytes; Arrow reads none above 16 MiB
_MAX_DEPTH = 8
_DICTIONARY_PAGE = 2
_DICTIONARY_ENCODINGS = frozenset({2, 8})  # PLAIN_DICTIONARY, RLE_DICTIONARY
_DELTA_BYTE_ARRAY = 7
_KINDS = {0: 5, 2: 7, 3: 8}
"""A page's type -> the field of its header that says more: data, dictionary, data of version 2."""


def refuse_bomb(what: str) -> BrokenDocumentError:
    """The fault of a table that claims more than its size bears."""
    return BrokenDocumentError(0, f"{what}; write it as JSON Lines yourself if you trust it")


@dataclass(frozen=True)
class Measure:
    """What a reader may rely on.

    ``row_bytes``: no row takes more, on average over a batch of rows, outside of lists. ``as_dictionary``:
    the list columns that must stay dictionaries, because one value may stand for many.
    """

    row_bytes: int = 1
    as_dictionary: tuple[str, ...] = ()


@dataclass
class _Column:
    """The pages of one column of one row group."""

    page_bytes: int = 0
    values: int = 0
    widest: int = 0  # bytes of one value, at most, on average over a batch
    dictionary_bytes: int = 0
    delta_bytes: int = 0
    seen: list[int] = field(default_factory=list)

    def add(self, page: dict[int, Any]) -> None:
        size, kind = page[2], page[1]
        about = page.get(_KINDS.get(kind, -1), {})
        values = about.get(1, 0)
        if size < 0 or values < 0:
            raise ValueError("a negative size")
        self.page_bytes += size
        if kind == _DICTIONARY_PAGE:
            self.dictionary_bytes = max(self.dictionary_bytes, size)
            self.widest = max(self.widest, size)
            return
        self.values += values
        encoding = about.get(2 if kind == 0 else 4)
        if encoding == _DELTA_BYTE_ARRAY:  # each value repeats the one before it for nothing
            self.delta_bytes = max(self.delta_bytes, size)
            self.widest = max(self.widest, size)
        elif encoding not in _DICTIONARY_ENCODINGS:
            self.widest = max(self.widest, -(-size // max(1, values)))


def measure_pages(table: Any, file: BinaryIO, groups: Iterable[int]) -> Measure:  # noqa: ANN401 - pyarrow is not typed
    """Walk over the page headers of the row groups ``groups`` of a ``ParquetFile``.

    Raises:
        BrokenDocumentError: it claims more rows, values or bytes than a file of its size bears, or a header
            cannot be read.
        OSError: the file cannot be read.
    """
    metadata, size_bytes = table.metadata, file.seek(0, os.SEEK_END)
    most_bytes = max(FREE_BYTES, MAX_RATIO * size_bytes)
    rows, values, page_bytes, stored_bytes, row_bytes = 0, 0, 0, 0, 1
    as_dictionary: set[str] = set()
    for group in groups:
        about = metadata.row_group(group)
        rows += about.num_rows
        if about.num_rows < 0 or rows > max(FREE_ROWS, ROWS_PER_BYTE * size_bytes):
            raise refuse_bomb(
                f"it claims more than {FREE_ROWS} rows and more than {ROWS_PER_BYTE} for each of its bytes"
            )
        group_row_bytes = 0
        for number in range(about.num_columns):
            chunk = about.column(number)
            stored_bytes += chunk.total_compressed_size
            column = _Column()
            for page in _read_pages(file, chunk, size_bytes):
                column.add(page)
                if page_bytes + column.page_bytes > most_bytes:
                    raise refuse_bomb(
                        f"its pages hold more than {FREE_BYTES} bytes and {MAX_RATIO} times its own size"
                    )
            page_bytes += column.page_bytes
            if table.schema.column(number).max_repetition_level == 0:
                group_row_bytes += column.widest
                continue
            values += column.values
            if values > max(FREE_VALUES, ROWS_PER_BYTE * size_bytes):
                raise refuse_bomb(
                    f"its lists claim more than {FREE_VALUES} values and more than {ROWS_PER_BYTE} for each "
                    "of its bytes"
                )
            if column.values * column.delta_bytes > BATCH_BYTES:
                raise refuse_bomb("a list is in the encoding DELTA_BYTE_ARRAY, whose size nobody can tell")
            if column.values * column.dictionary_bytes > BATCH_BYTES:
                as_dictionary.add(chunk.path_in_schema)
        row_bytes = max(row_bytes, group_row_bytes)
        if stored_bytes > size_bytes:
            raise refuse_bomb("its columns claim more bytes than the file has")
    return Measure(row_bytes, tuple(sorted(as_dictionary)))


def _read_pages(file: BinaryIO, chunk: Any, size_bytes: int) -> Iterator[dict[int, Any]]:  # noqa: ANN401
    """The headers of a column chunk's pages, found where Arrow finds them."""
    position = chunk.data_page_offset
    if chunk.has_dictionary_page and 0 < chunk.dictionary_page_offset < position:
        position = chunk.dictionary_page_offset
    end = position + chunk.total_compressed_size
    if not 0 <= position <= end <= size_bytes:
        raise BrokenDocumentError(0, "it is not a Parquet table (a column lies outside of the file)")
    values = 0
    while position < end and values < chunk.num_values:
        page, header_bytes = _read_header(file, position)
        if page[3] < 0:
            raise BrokenDocumentError(0, "it is not a Parquet table (a page of a negative size)")
        yield page
        if page[1] != _DICTIONARY_PAGE:
            values += page.get(_KINDS.get(page[1], -1), {}).get(1, 0)
        position += header_bytes + page[3]


def _read_header(file: BinaryIO, position: int) -> tuple[dict[int, Any], int]:
    for most_bytes in _HEADER_BYTES:
        file.seek(position)
        data = file.read(most_bytes)
        try:
            page, header_bytes = _read_struct(data, 0, _MAX_DEPTH)
            if not all(type(page.get(key)) is int for key in (1, 2, 3)):
                break
            return page, header_bytes
        except IndexError:  # it goes on
            continue
        except ValueError:
            break
    raise BrokenDocumentError(0, "it is not a Parquet table (a page has no header)")


# --- Thrift's compact protocol: thrift-compact-protocol.md


def _read_struct(data: bytes, position: int, depth: int) -> tuple[dict[int, Any], int]:
    """The fields by number: integers, and structs of them; what else there is is passed over."""
    if depth == 0:
        raise ValueError("nested too deeply")
    fields: dict[int, Any] = {}
    number = 0
    while head := data[position]:
        position += 1
        kind = head & 15
        if head >> 4:
            number += head >> 4
        else:
            number, position = _read_integer(data, position)
        if kind in (1, 2):
            continue
        fields[number], position = _read_value(data, position, kind, depth)
    return fields, position + 1


def _read_value(data: bytes, position: int, kind: int, depth: int) -> tuple[Any, int]:
    if kind == 3:
        return data[position], position + 1
    if kind in (4, 5, 6):
        return _read_integer(data, position)
    if kind == 7:
        return None, position + 8
    if kind == 8:
        size, position = _read_varint(data, position)
        return None, position + size
    if kind in (9, 10):
        return None, _skip_list(data, position, depth)
    if kind == 12:
        return _read_struct(data, position, depth - 1)
    raise ValueError("no type that a page header has")


def _skip_list(data: bytes, position: int, depth: int) -> int:
    head = data[position]
    count, position = head >> 4, position + 1
    if count == 15:
        count, position = _read_varint(data, position)
    if depth == 0 or count > len(data):
        raise ValueError("a list that is too long")
    for _ in range(count):
        if head & 15 in (1, 2):
            position += 1
        else:
            _, position = _read_value(data, position, head & 15, depth - 1)
    return position


def _read_integer(data: bytes, position: int) -> tuple[int, int]:
    number, position = _read_varint(data, position)
    return number >> 1 ^ -(number & 1), position


def _read_varint(data: bytes, position: int) -> tuple[int, int]:
    number = 0
    for shift in range(0, 70, 7):
        byte = data[position]
        position += 1
        number |= (byte & 127) << shift
        if byte < 128:
            return number, position
    raise ValueError("a number that is too long")
