"""Measures how much memory the pages of a Parquet table take, by their headers, before they are decompressed.

A few hundred bytes can claim gigabytes: a page that decompresses to any size, one dictionary value for every
row, nulls without end, one list with all values. Arrow allocates memory by a page's header and expands values
by its encoding, so these headers count here, and not the footer's sums, which may be too small.

Format: parquet-format, ``parquet.thrift`` (PageHeader), in Thrift's compact protocol.
"""

import itertools
import os
import struct
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, BinaryIO, NamedTuple

from cfetch.manifest.decompression import FREE_BYTES, MAX_RATIO
from cfetch.manifest.faults import BrokenDocumentError

FREE_ROWS = 100_000  # a second's work for rows of any kind
ROWS_PER_BYTE = 8  # of the file, beyond FREE_ROWS: numbered URLs in the densest encoding take a byte a row
FREE_VALUES = 1 << 20  # of lists
BATCH_BYTES = 32 << 20  # of one batch of rows, as Arrow holds it
LIST_BYTES = 128 << 20  # of one list, which may hold the values of a whole row group
SHORT_BYTES = BATCH_BYTES // 512  # below this, a dictionary's size is a good enough limit for its values
FIXED_BYTES = 16  # of a number or a moment
MAX_COLUMNS = 1000  # leaves; a table of entries has a dozen
_HEADER_BYTES = (1 << 12, 16 << 20)  # most headers are below 100 bytes; Arrow reads none above 16 MiB
_MAX_DEPTH = 8
_MAX_ELEMENTS = 100_000  # of one list of a header or of the footer
_TAIL = struct.Struct("<I4s")  # the footer's size, and the mark that ends the file
_DICTIONARY_PAGE = 2
_DICTIONARY_ENCODINGS = frozenset({2, 8})  # PLAIN_DICTIONARY, RLE_DICTIONARY
_DELTA_BYTE_ARRAY = 7
_KINDS = {0: 5, 2: 7, 3: 8}
"""A page's type -> the field of its header with the details: data, dictionary, data of version 2."""


def refuse_bomb(what: str) -> BrokenDocumentError:
    """The fault of a table that claims too much for its size."""
    return BrokenDocumentError(0, f"{what}; write it as JSON Lines yourself if you trust it")


class ColumnChunk(NamedTuple):
    """The pages of one column of a row group: their position, their bytes in the file, their values."""

    begin: int
    stored_bytes: int
    values: int


class RowGroup(NamedTuple):
    """Rows, bytes when decompressed (as the footer says), and columns in the schema's order."""

    rows: int
    plain_bytes: int
    chunks: list[ColumnChunk]


@dataclass(frozen=True)
class Measure:
    """The limits that a reader may rely on.

    ``row_bytes``: the most that a row takes, on average over a batch of rows, without lists.
    ``as_dictionary``: the list columns that must stay dictionaries, because a value may be repeated often.
    """

    row_bytes: int = 1
    as_dictionary: tuple[str, ...] = ()


class _Column:
    """The pages of one column of one row group. Widths are bytes of one value, on average over a batch."""

    def __init__(self) -> None:
        self.values = self.dictionary_bytes = self.delta_bytes = 0
        self.begins_with_dictionary = False
        self._plain_width = 0

    def add(self, page: dict[int, Any]) -> None:
        size, kind = page[2], page[1]
        about = _about(page)
        if kind == _DICTIONARY_PAGE:
            self.dictionary_bytes = max(self.dictionary_bytes, size)
            return
        encoding = about.get(2 if kind == 0 else 4)
        if not self.values:
            self.begins_with_dictionary = encoding in _DICTIONARY_ENCODINGS
        self.values += about.get(1, 0)
        if encoding == _DELTA_BYTE_ARRAY:  # each value can repeat the one before it without bytes
            self.delta_bytes = max(self.delta_bytes, size)
        elif encoding not in _DICTIONARY_ENCODINGS:
            self._plain_width = max(self._plain_width, -(-size // max(1, about.get(1, 0))))

    def find_width(self, find_longest: Callable[[], int]) -> int:
        """The most bytes of a value; ``find_longest`` measures the dictionary's values, if that may help."""
        longest = self.dictionary_bytes
        if longest > SHORT_BYTES and self.begins_with_dictionary:
            longest = min(longest, find_longest())
        return max(self._plain_width, self.delta_bytes, longest)


def read_row_groups(file: BinaryIO) -> list[RowGroup]:
    """The row groups of a table, as its footer describes them.

    It is read here and not by pyarrow, as an inconsistent footer makes pyarrow ``abort`` the process: 26.0
    lets a C++ exception out of ``RowGroupMetaData.column``.

    Raises:
        BrokenDocumentError: there is no such footer.
        OSError: the file cannot be read.
    """
    size_bytes = file.seek(0, os.SEEK_END)
    file.seek(max(0, size_bytes - _TAIL.size))
    try:
        footer_bytes, _ = _TAIL.unpack(file.read(_TAIL.size))
        file.seek(max(0, size_bytes - _TAIL.size - footer_bytes))
        data = file.read(footer_bytes)
        footer, _ = _read_struct(data, 0, _MAX_DEPTH)
        return [_make_group(fields) for fields in footer[4]]
    except (IndexError, KeyError, TypeError, ValueError, AttributeError, struct.error):
        raise BrokenDocumentError(0, "it is not a Parquet table (its footer cannot be read)") from None


def _make_group(fields: dict[int, Any]) -> RowGroup:
    """Make a group; fields are numbered as RowGroup, ColumnChunk, ColumnMetaData in ``parquet.thrift``."""
    chunks = []
    for column in fields[1]:
        about = column[3]
        begin, dictionary = about[9], about.get(11, 0)
        if 0 < dictionary < begin:  # as Arrow does
            begin = dictionary
        chunks.append(ColumnChunk(begin, about[7], about[5]))
    group = RowGroup(fields[3], fields[2], chunks)
    if any(type(number) is not int for number in (group.rows, group.plain_bytes, *itertools.chain(*chunks))):
        raise TypeError("a field is no number")
    return group


def measure_pages(
    schema: Any,  # noqa: ANN401 - pyarrow is not typed
    file: BinaryIO,
    groups: Iterable[int],
    find_longest: Callable[[str, int], int],
    columns: Collection[str],
) -> Measure:
    """Walk over the page headers of ``columns`` in ``groups``; ``schema`` is the ``ParquetFile``'s.

    ``find_longest`` returns the bytes of the longest value in the dictionary of a column of a row group.

    Raises:
        BrokenDocumentError: the table claims too many rows, values or bytes for its size, or a header
            cannot be read.
        OSError: the file cannot be read.
    """
    leaves = [schema.column(number) for number in range(len(schema))]
    sums = _Sums(file.seek(0, os.SEEK_END))
    wanted = set(groups)
    for number, group in enumerate(read_row_groups(file)):
        if number not in wanted:
            continue
        sums.add_rows(group.rows)
        if len(group.chunks) != len(leaves):
            raise BrokenDocumentError(0, "it is not a Parquet table (a row group lacks a column)")
        row_bytes = 0
        for leaf, chunk in zip(leaves, group.chunks, strict=True):
            if leaf.path.partition(".")[0] not in columns:  # nobody reads it
                continue
            column = _Column()
            for page in _read_pages(file, chunk, sums.size_bytes):
                column.add(page)
                sums.add_page(page[2])
            sums.add_stored(chunk.stored_bytes)
            if leaf.max_repetition_level:
                sums.add_values(column.values)
            if leaf.physical_type != "BYTE_ARRAY":
                width = FIXED_BYTES
            else:
                width = column.find_width(partial(find_longest, leaf.path, number))
            if leaf.max_repetition_level:
                sums.add_list(leaf.path, column, width)
            else:
                row_bytes += width
        sums.row_bytes = max(sums.row_bytes, row_bytes)
    return Measure(sums.row_bytes, tuple(sorted(sums.as_dictionary)))


class _Sums:
    """The claims of a file of ``size_bytes`` so far. Methods raise BrokenDocumentError if it is too much."""

    def __init__(self, size_bytes: int) -> None:
        self.size_bytes = size_bytes
        self.row_bytes = 1
        self.as_dictionary: set[str] = set()
        self._rows = self._values = self._page_bytes = self._stored_bytes = 0

    def add_rows(self, rows: int) -> None:
        self._rows += rows
        if rows < 0 or self._rows > max(FREE_ROWS, ROWS_PER_BYTE * self.size_bytes):
            raise refuse_bomb(
                f"it claims more than {FREE_ROWS} rows and more than {ROWS_PER_BYTE} for each of its bytes"
            )

    def add_page(self, size_bytes: int) -> None:
        self._page_bytes += size_bytes
        if self._page_bytes > max(FREE_BYTES, MAX_RATIO * self.size_bytes):
            raise refuse_bomb(
                f"its pages hold more than {FREE_BYTES} bytes and {MAX_RATIO} times its own size"
            )

    def add_stored(self, size_bytes: int) -> None:
        self._stored_bytes += size_bytes
        if self._stored_bytes > self.size_bytes:
            raise refuse_bomb("its columns claim more bytes than the file has")

    def add_values(self, values: int) -> None:
        self._values += values
        if self._values > max(FREE_VALUES, ROWS_PER_BYTE * self.size_bytes):
            raise refuse_bomb(
                f"its lists claim more than {FREE_VALUES} values and more than {ROWS_PER_BYTE} for each of "
                "its bytes"
            )

    def add_list(self, path: str, column: _Column, width: int) -> None:
        if column.values * column.delta_bytes > LIST_BYTES:
            raise refuse_bomb("a list is in the encoding DELTA_BYTE_ARRAY, whose size nobody can tell")
        if column.dictionary_bytes and column.values * width > LIST_BYTES:
            self.as_dictionary.add(path)


def _read_pages(file: BinaryIO, chunk: ColumnChunk, size_bytes: int) -> Iterator[dict[int, Any]]:
    """Yield the headers of a column chunk's pages, at the positions where Arrow reads them."""
    position, end, values = chunk.begin, chunk.begin + chunk.stored_bytes, 0
    if not 0 <= position <= end <= size_bytes:
        raise BrokenDocumentError(0, "it is not a Parquet table (a column lies outside of the file)")
    while position < end and values < chunk.values:
        page, header_bytes = _read_header(file, position)
        if page[2] < 0 or page[3] < 0:
            raise BrokenDocumentError(0, "it is not a Parquet table (a page of a negative size)")
        yield page
        if page[1] != _DICTIONARY_PAGE:
            values += _about(page).get(1, 0)
        position += header_bytes + page[3]


def _about(page: dict[int, Any]) -> dict[int, Any]:
    """The part of a page's header that depends on its type."""
    about = page.get(_KINDS.get(page[1], -1), {})
    if type(about) is not dict or any(
        type(number := about.get(field, 0)) is not int or number < 0 for field in (1, 2, 4)
    ):
        raise BrokenDocumentError(0, "it is not a Parquet table (a page without a number of values)")
    return about


def _read_header(file: BinaryIO, position: int) -> tuple[dict[int, Any], int]:
    for most_bytes in _HEADER_BYTES:
        file.seek(position)
        data = file.read(most_bytes)
        try:
            page, header_bytes = _read_struct(data, 0, _MAX_DEPTH)
            if not all(type(page.get(key)) is int for key in (1, 2, 3)):
                break
            return page, header_bytes
        except IndexError:  # the header is longer
            continue
        except ValueError:
            break
    raise BrokenDocumentError(0, "it is not a Parquet table (a page has no header)")


# --- Thrift's compact protocol: thrift-compact-protocol.md


def _read_struct(data: bytes, position: int, depth: int) -> tuple[dict[int, Any], int]:
    """The fields by number: integers, structs and lists of them; None for values of other types."""
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
        if kind not in (1, 2):
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
        return _read_list(data, position, depth)
    if kind == 12:
        return _read_struct(data, position, depth - 1)
    raise ValueError("no type that a header or a footer has")


def _read_list_head(data: bytes, position: int) -> tuple[int, int, int]:
    """The number of elements, their type, and the position of the first one."""
    head = data[position]
    count, position = head >> 4, position + 1
    if count == 15:
        count, position = _read_varint(data, position)
    return count, 3 if head & 15 in (1, 2) else head & 15, position  # a boolean in a list is a byte


def _read_list(data: bytes, position: int, depth: int) -> tuple[list[Any], int]:
    count, kind, position = _read_list_head(data, position)
    if depth == 0 or count > _MAX_ELEMENTS:
        raise ValueError("a list that is too long")
    values = []
    for _ in range(count):
        value, position = _read_value(data, position, kind, depth - 1)
        values.append(value)
    return values, position


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
