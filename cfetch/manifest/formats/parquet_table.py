"""Parquet: the columns are the native keys, a null is a key not given. Faults name the row, counted from 0.

``headers`` may be a map, a struct or JSON in a string; ``mirrors`` a list or JSON in a string; ``expires_at``
a timestamp with a time zone too. Rows come in small batches, however large the row groups are.
"""

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from cfetch.errors import UsageError
from cfetch.manifest.digests import missing_library
from cfetch.manifest.faults import BrokenDocumentError, Faults
from cfetch.manifest.formats.csv_table import json_cell
from cfetch.manifest.rows import KEYS, Document, Row, describe_unknown_key
from cfetch.manifest.source import MAX_ROW_CHARS, Source
from cfetch.manifest.strict_json import Misfit

MAGIC = b"PAR1"
BATCH_ROWS = (
    512  # a hostile table repeats one long text in a few bytes: 512 of the longest that pass are 512 MiB
)


def read_parquet(source: Source, document: Document, faults: Faults) -> Iterator[Row]:  # noqa: ARG001 - a reader
    """The rows.

    Raises:
        UsageError: the library pyarrow is not installed.
    """
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise UsageError(missing_library("Parquet", "pyarrow", "parquet")) from None
    try:
        table = pq.ParquetFile(source.file, pre_buffer=False)
        if not _columns_are_known(table.schema_arrow.names, faults):
            return
        groups = None if source.row_groups is None else list(source.row_groups)
        for batch in table.iter_batches(batch_size=BATCH_ROWS, row_groups=groups, use_threads=False):
            names = batch.schema.names
            columns = [_values(name, batch.column(name), pa) for name in names]
            for cells in zip(*columns, strict=True):
                yield Row(
                    0, {name: _value(name, cell) for name, cell in zip(names, cells, strict=True)}, "rows"
                )
    except (pa.ArrowException, OSError, ValueError) as error:
        raise BrokenDocumentError(0, f"it is not a Parquet table ({type(error).__name__})") from None


def _columns_are_known(columns: list[str], faults: Faults) -> bool:
    before = faults.total
    for column in columns:
        if column not in KEYS:
            faults.add(0, describe_unknown_key(column, KEYS))
        elif columns.count(column) > 1:
            faults.add(0, f"the column {column!r} is there twice")
    if "url" not in columns:
        faults.add(0, "the column url is missing; the columns are named by the native keys")
    return faults.total == before


def _values(name: str, column: Any, pa: Any) -> list[Any]:  # noqa: ANN401 - pyarrow is not typed
    if name == "expires_at" and pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("us", tz=column.type.tz), safe=False)  # Python has no nanoseconds
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    values: list[Any] = column.to_pylist()
    return values


def _value(name: str, cell: object) -> object:
    if isinstance(cell, str):
        if len(cell) > MAX_ROW_CHARS:
            return Misfit(f"a text of more than {MAX_ROW_CHARS} characters")
        return json_cell(cell) if name in ("headers", "mirrors") else cell
    if isinstance(cell, datetime):
        return cell.timestamp() if cell.tzinfo else Misfit("a timestamp without a time zone")
    if name == "headers" and isinstance(cell, list):  # a map comes as pairs
        return _object(cell)
    if name == "headers" and isinstance(cell, dict):  # a struct has all of its fields in every row
        return {key: value for key, value in cell.items() if value is not None}
    return cell


def _object(pairs: list[Any]) -> object:
    if not all(isinstance(pair, tuple) and len(pair) == 2 and isinstance(pair[0], str) for pair in pairs):
        return pairs
    fields = dict(pairs)
    return fields if len(fields) == len(pairs) else Misfit("a map with a key given twice")
