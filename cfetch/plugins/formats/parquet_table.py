"""Parquet: the columns are native or foreign keys, and only the columns that are needed are read.

``manifest/columns.py`` chooses them. A null means that the key is not given. Faults name the row, from 0.

``headers`` may be a map, a struct or JSON in a string; ``mirrors`` a list or JSON in a string; ``expires_at``
a timestamp with a time zone too. Rows are read in small batches, however large the row groups are. No value
becomes a Python object before ``parquet_pages`` has measured it and its bytes are counted in Arrow.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from cfetch.base.errors import UsageError
from cfetch.manifest.columns import ColumnError, Columns
from cfetch.manifest.decompression import FREE_BYTES, MAX_RATIO
from cfetch.manifest.digests import missing_library
from cfetch.manifest.faults import BrokenDocumentError, Faults, Misfit, quoted_key
from cfetch.manifest.formats.csv_table import json_cell
from cfetch.manifest.rows import KEYS, Document, Row
from cfetch.manifest.source import MAX_ROW_CHARS, Source
from cfetch.plugins.formats.parquet_pages import BATCH_BYTES, MAX_COLUMNS, measure_pages, refuse_bomb

MAGIC = b"PAR1"
BATCH_ROWS = 512
CELL_BYTES = 8  # for a cell that is no text, and in addition for each value of a list


def read_parquet(source: Source, document: Document, faults: Faults) -> Iterator[Row]:
    """The rows.

    Raises:
        UsageError: the library pyarrow is not installed.
    """
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise UsageError(missing_library("Parquet", "pyarrow", "parquet")) from None
    pa.set_memory_pool(pa.system_memory_pool())  # Arrow's own pool keeps some 30 MiB more
    try:
        table = pq.ParquetFile(source.file, pre_buffer=False)
        metadata = table.metadata
        chooser = document.make_columns()
        keys = _choose_columns(table.schema_arrow, metadata.num_columns, chooser, document, faults)
        if not keys:
            return
        groups = list(range(metadata.num_row_groups) if source.row_groups is None else source.row_groups)

        def find_longest(column: str, group: int) -> int:
            own = pq.ParquetFile(source.file, metadata=metadata, read_dictionary=[column], pre_buffer=False)
            return _find_longest(own, column, group)

        measure = measure_pages(table.schema, source.file, groups, find_longest, set(keys))
        if measure.as_dictionary:
            dictionaries = list(measure.as_dictionary)
            table = pq.ParquetFile(
                source.file, metadata=metadata, read_dictionary=dictionaries, pre_buffer=False
            )
        most_rows = max(1, min(BATCH_ROWS, BATCH_BYTES // measure.row_bytes))
        batches = table.iter_batches(
            batch_size=most_rows, row_groups=groups, columns=list(keys), use_threads=False
        )
        kinds = [table.schema_arrow.field(column).type for column in keys]
        for row in _read_batches(
            batches, source.file.seek(0, 2), keys, has_dictionaries=_has_dictionaries(kinds)
        ):
            yield from (row._replace(fields=each) for each in chooser.expand(row.fields))
    except (pa.ArrowException, OSError, ValueError) as error:
        raise BrokenDocumentError(0, f"it is not a Parquet table ({type(error).__name__})") from None
    finally:
        pa.default_memory_pool().release_unused()


def _find_longest(table: Any, column: str, group: int) -> int:  # noqa: ANN401 - pyarrow is not typed
    """The bytes of the longest value of a dictionary; the first row brings the whole dictionary."""
    import pyarrow as pa
    import pyarrow.compute as pc

    top = column.partition(".")[0]
    batch = next(table.iter_batches(batch_size=1, row_groups=[group], columns=[top], use_threads=False))
    values = batch.column(0)
    if pa.types.is_list(values.type) or pa.types.is_large_list(values.type):
        values = values.values
    if not pa.types.is_dictionary(values.type) or not len(values.dictionary):
        return BATCH_BYTES  # a map or a struct, which is not measured
    longest: int = pc.max(_widths(values.dictionary)).as_py()
    return longest


def _has_dictionaries(kinds: Sequence[Any]) -> bool:
    """Whether a batch may hold one value for many rows."""
    return "dictionary<" in " ".join(map(str, kinds))


def _read_batches(
    batches: Any,  # noqa: ANN401
    size_bytes: int,
    keys: Mapping[str, str],
    *,
    has_dictionaries: bool,
) -> Iterator[Row]:
    """Yield the rows by native keys; ``keys`` has the key of each column."""
    text_bytes = 0
    for batch in batches:
        names = [keys[name] for name in batch.schema.names]
        is_small = not has_dictionaries and batch.nbytes <= MAX_ROW_CHARS  # then all of its rows are
        widths = [batch.nbytes] if is_small else _row_widths(batch)
        pieces = [(0, len(batch))] if is_small else _cut_batch(widths)
        for begin, end in pieces:
            if end is None:
                text = f"a row of more than {MAX_ROW_CHARS} bytes; a URL has some thousand characters"
                yield Row(0, Misfit(text), "rows")
                continue
            text_bytes += sum(widths[begin:end])
            if text_bytes > max(FREE_BYTES, MAX_RATIO * size_bytes):
                raise refuse_bomb(
                    f"its rows hold more than {FREE_BYTES} bytes and {MAX_RATIO} times its own size"
                )
            piece = batch.slice(begin, end - begin)
            columns = [read_cells(name, piece.column(place)) for place, name in enumerate(names)]
            for cells in zip(*columns, strict=True):
                yield Row(0, dict(zip(names, cells, strict=True)), "rows")


def _cut_batch(widths: Sequence[int]) -> Iterator[tuple[int, int | None]]:
    """Yield runs of rows that fit into memory together; None as the end marks a row that is too long."""
    begin, size_bytes = 0, 0
    for row, width in enumerate(widths):
        if width > MAX_ROW_CHARS or size_bytes + width > BATCH_BYTES:
            if row > begin:
                yield begin, row
            begin, size_bytes = row, 0
        if width > MAX_ROW_CHARS:
            yield row, None
            begin = row + 1
        else:
            size_bytes += width
    if begin < len(widths):
        yield begin, len(widths)


def _row_widths(batch: Any) -> list[int]:  # noqa: ANN401
    """The approximate bytes of each row as Python objects."""
    import pyarrow.compute as pc

    total = _widths(batch.column(0))
    for column in batch.columns[1:]:
        total = pc.add(total, _widths(column))
    widths: list[int] = total.to_pylist()
    return widths


def _widths(column: Any) -> Any:  # noqa: ANN401
    """The bytes of each cell, as an Arrow array."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = column.type
    if pa.types.is_string_view(kind) or pa.types.is_binary_view(kind):  # binary_length knows no views
        column = column.cast(pa.large_string() if pa.types.is_string_view(kind) else pa.large_binary())
    if pa.types.is_dictionary(kind):
        return pc.fill_null(_widths(column.dictionary).take(column.indices), 0)
    if _is_text(kind):
        return pc.fill_null(pc.cast(pc.binary_length(column), pa.int64()), 0)
    if pa.types.is_struct(kind):
        total = _constant_widths(len(column))
        for part in column.flatten():
            total = pc.add(total, _widths(part))
        return total
    if pa.types.is_map(kind):
        return pc.add(_list_widths(column, _widths(column.keys)), _list_widths(column, _widths(column.items)))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _list_widths(column, _widths(column.values))
    return _constant_widths(len(column))


def _constant_widths(rows: int) -> Any:  # noqa: ANN401
    import pyarrow as pa

    return pa.repeat(pa.scalar(CELL_BYTES, pa.int64()), rows)


def _list_widths(column: Any, values: Any) -> Any:  # noqa: ANN401
    import pyarrow as pa
    import pyarrow.compute as pc

    sums = pc.cumulative_sum(pc.add(values, CELL_BYTES))
    sums = pa.concat_arrays([pa.array([0], pa.int64()), sums])
    ends = sums.take(column.offsets)
    return pc.fill_null(pc.subtract(ends.slice(1), ends.slice(0, len(column))), 0)


def _choose_columns(
    schema: Any,  # noqa: ANN401
    leaves: int,
    columns: Columns,
    document: Document,
    faults: Faults,
) -> dict[str, str]:
    """Column -> native key, for the columns that are read; empty if there are faults."""
    if leaves > MAX_COLUMNS:
        raise BrokenDocumentError(0, f"it has more than {MAX_COLUMNS} columns; known are {', '.join(KEYS)}")
    try:
        keys = columns.choose(list(dict.fromkeys(schema.names)))
    except ColumnError as error:
        faults.add(0, str(error))
        return {}
    before = faults.total
    for name, key in keys.items():
        if schema.names.count(name) > 1:
            faults.add(0, f"the column {quoted_key(name)} is there twice")
        elif "." in name:  # pyarrow takes it for a field of a struct
            faults.add(0, f"the column {quoted_key(name)} has a full stop in its name; rename it")
        elif not _is_readable(key, schema.field(name).type):
            import pyarrow as pa

            kind = schema.field(name).type
            held = "nested values" if pa.types.is_nested(kind) else f"values of the type {kind}"
            faults.add(0, f"the column {quoted_key(name)} holds {held}, which {key} cannot be")
    document.notes.extend(columns.notes())
    return {} if faults.total != before else keys


def _is_text(kind: Any) -> bool:  # noqa: ANN401
    import pyarrow as pa

    types = pa.types
    return bool(
        types.is_string(kind)
        or types.is_large_string(kind)
        or types.is_binary(kind)
        or types.is_large_binary(kind)
        or types.is_string_view(kind)
        or types.is_binary_view(kind)
    )


def _is_readable(name: str, kind: Any) -> bool:  # noqa: ANN401
    """Whether a column's type is allowed for its key, so that its bytes can be measured."""
    import pyarrow as pa

    types = pa.types
    if types.is_dictionary(kind):
        kind = kind.value_type
    if types.is_map(kind):
        return name == "headers" and _is_plain(kind.key_type) and _is_plain(kind.item_type)
    if types.is_struct(kind):
        return name == "headers" and all(_is_plain(part.type) for part in kind)
    if types.is_list(kind) or types.is_large_list(kind):
        return name in ("mirrors", "headers") and _is_plain(kind.value_type)
    return _is_plain(kind) or (types.is_timestamp(kind) and name == "expires_at")


def _is_plain(kind: Any) -> bool:  # noqa: ANN401
    import pyarrow as pa

    types = pa.types
    if types.is_dictionary(kind):
        kind = kind.value_type
    return bool(
        _is_text(kind)
        or types.is_integer(kind)
        or types.is_floating(kind)
        or types.is_boolean(kind)
        or types.is_null(kind)
    )


def read_cells(name: str, column: Any) -> Iterable[object]:  # noqa: ANN401
    """The cells of an Arrow column as values of a manifest's key ``name``, which ``check_row`` judges.

    JSON is decoded only when its row is read, as it may be large.
    """
    values = _values(name, column)
    return map(partial(_value, name), values) if name in ("headers", "mirrors") else values


def _values(name: str, column: Any) -> list[Any]:  # noqa: ANN401
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if name == "expires_at" and pa.types.is_timestamp(column.type):
        if column.type.tz is None:
            return [None if cell is None else _ZONELESS for cell in column.cast(pa.int64()).to_pylist()]
        unit = {"s": 1, "ms": 1e3, "us": 1e6, "ns": 1e9}[column.type.unit]
        moments = pc.divide(pc.cast(column.cast(pa.int64()), pa.float64(), safe=False), float(unit))
        return list(moments.to_pylist())
    values: list[Any] = column.to_pylist()
    if name in ("size", "offset", "length") and pa.types.is_floating(column.type):
        return [int(cell) if _is_whole(cell) else cell for cell in values]
    return values


def _is_whole(cell: float | None) -> bool:
    """Whether a float is a whole number without doubt: so pandas writes a column of them with gaps."""
    return cell is not None and abs(cell) < _MOST_EXACT and cell.is_integer()


_MOST_EXACT = 2**53


_ZONELESS = Misfit("a timestamp without a time zone")


def _value(name: str, cell: object) -> object:
    if isinstance(cell, str):
        return json_cell(cell)
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
