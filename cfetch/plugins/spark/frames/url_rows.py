"""The rows of a user's data frame as entries: each row is checked as a row of a manifest is.

A fault of a row becomes its result, and never ends the query. Entries are in the order of their paths, so the
same rows are the same piece of work in whatever order Spark brings them.
"""

from collections.abc import Callable, Mapping
from functools import partial
from hashlib import sha256
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from cfetch.base.config.reading import ReadingOptions
from cfetch.manifest.digests import find_stated
from cfetch.manifest.entry import Entry
from cfetch.manifest.faults import Faults, Misfit
from cfetch.manifest.plan_file import identity_of
from cfetch.manifest.repository_hub import find_endpoint
from cfetch.manifest.rows import Document, Row, check_row
from cfetch.manifest.strict_json import read_digits
from cfetch.plugins.formats.parquet_table import read_cells

SAME_PATH = "another row has the same path with another url, size or hash; give it another path"


class UrlRows(NamedTuple):
    """A piece of a frame: ``entries``, and for each row the path of its entry, or its fault."""

    entries: list[Entry]
    paths: list[str | None]
    faults: dict[int, str]

    @property
    def number(self) -> int:
        """A number for these entries, the same wherever they are read; links may be signed anew."""
        digest = sha256()
        for entry in self.entries:
            digest.update(identity_of(entry))
        return int(digest.hexdigest()[:14], 16)


def read_url_rows(table: pa.Table, columns: Mapping[str, str], document: Document) -> UrlRows:
    """Read the rows of ``table``; ``columns``: the key of a manifest -> the column that holds it.

    Of rows with equal contents one entry is made.
    """
    first: dict[str, Entry] = {}
    paths: list[str | None] = []
    faults: dict[int, str] = {}
    for index, fields in enumerate(_list_fields(table, columns)):
        messages: list[str] = []
        entry = check_row(Row(0, fields), index, document, Faults(lambda _, text: messages.append(text)))  # noqa: B023
        if entry is not None and identity_of(first.setdefault(entry.path, entry)) != identity_of(entry):
            entry, messages = None, [f"{columns.get('path', 'path')}: {SAME_PATH}"]
        if entry is None:
            faults[index] = "; ".join(messages)
        paths.append(None if entry is None else entry.path)
    ordered = sorted(first.values(), key=lambda entry: entry.path)
    entries = [msgspec.structs.replace(entry, id=number) for number, entry in enumerate(ordered)]
    return UrlRows(entries, paths, faults)


def make_document(reading: ReadingOptions, base_url: str | None) -> Document:
    """The values for all rows. A file without a path is named by the hash of its URL, or by its whole path.

    The last segment of the URL would not do: rows of other tasks may have the same one, and nobody would see.
    """
    name_by = reading.name_by if reading.name_by == "url-path" else "hash"
    return Document(given_base_url=base_url, options=ReadingOptions(name_by=name_by), hub=find_endpoint)


def list_cells(
    column: pa.ChunkedArray, misfit: object, read: Callable[[Any], list[Any]] = pa.ChunkedArray.to_pylist
) -> list[Any]:
    """The cells as ``read`` has them; ``misfit`` for each that Python cannot hold: no UTF-8, a far year."""
    try:
        return read(column)
    except (ValueError, OverflowError):
        if len(column) == 1:
            return [misfit]
        return [cell for n in range(len(column)) for cell in list_cells(column.slice(n, 1), misfit, read)]


def _list_fields(table: pa.Table, columns: Mapping[str, str]) -> list[dict[str, Any]]:
    cells = [
        list_cells(table.column(name), _NO_TEXT, partial(_read_column, key)) for key, name in columns.items()
    ]
    return [_name_hash(dict(zip(columns, row, strict=True))) for row in zip(*cells, strict=True)]


def _name_hash(fields: dict[str, Any]) -> dict[str, Any]:
    """The fields with the hash under its own algorithm, as rows of a feed state it: ``md5:…``."""
    text = fields.get("sha256")
    stated = find_stated(text) if isinstance(text, str) else None
    if stated is not None:
        del fields["sha256"]
        fields[stated[0]] = text
    return fields


def _read_column(key: str, column: pa.ChunkedArray) -> list[object]:
    """The cells as a manifest's Parquet table has them; sizes may be text, as in frames of CSV files."""
    if key == "size" and pa.types.is_floating(column.type):  # so pandas writes a size that is not known
        column = pc.if_else(pc.is_nan(column), None, column)
    cells = list(read_cells(key, column))
    if key != "size":
        return cells
    return [read_digits(cell.strip(), _NO_DIGITS) if isinstance(cell, str) else cell for cell in cells]


_NO_DIGITS = "a text with other characters than digits"
_NO_TEXT = Misfit("bytes that are not UTF-8")
