"""Writes cfetch's Parquet files, each under a hidden name until it is whole, then under its final name.

So a task may be repeated, run twice, or die, and no reader ever sees half a file. Only the owner can read the
files, as they hold signed links.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from cfetch.plugins.spark.schemas import arrow_schema, arrow_table
from cfetch.storage.files import local_fault, open_replacement

WRITE_ROWS = 8192  # in memory at a time: some 5 MB
_FEW_VALUES = {"unit", "host", "source", "share", "sharers", "own_headers"}  # of columns that repeat them
_ENTRY = {"unit": "int", "row": "bigint", "key": "bigint", "entry": "binary"}
_STATED = {"host": "string", "size": "bigint"}
TABLES = {
    "entries": _ENTRY | _STATED | {"identity": "binary"},
    "above": _ENTRY,
    "rejected": {"source": "string", "line": "bigint", "reason": "string"},
    "shares": {"share": "int", "id": "bigint", "entry": "binary"}
    | _STATED
    | {"sharers": "int", "own_headers": "int"},
}


class TableWriter:
    """A Parquet file on its way to ``path``, with the columns of one of ``TABLES``.

    Raises LocalFault: it cannot be written.
    """

    def __init__(self, path: Path, table: str) -> None:
        import pyarrow.parquet as pq

        self._path = path
        self._columns = TABLES[table]
        self._rows: list[tuple[object, ...]] = []
        self._files = ExitStack()
        with self._writing():
            self._file = self._files.enter_context(open_replacement(path))
        few = [name for name in self._columns if name in _FEW_VALUES]
        self._writer = pq.ParquetWriter(self._file, arrow_schema(self._columns), use_dictionary=few)

    def add(self, *row: object) -> None:
        """Append a row of all columns."""
        self._rows.append(row)
        if len(self._rows) >= WRITE_ROWS:
            self._flush()

    def _flush(self) -> None:
        if self._rows:
            self.write(arrow_table(self._columns, self._rows))
            self._rows.clear()

    def write(self, rows: Any) -> None:  # noqa: ANN401 - a Table
        """Append a row group."""
        with self._writing():
            self._writer.write_table(rows, row_group_size=len(rows))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            with suppress(OSError):
                self._writer.close()
            self._files.__exit__(kind, error, trace)
            return
        with self._writing(), self._files:
            self._flush()
            self._writer.close()

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise local_fault(error, f"cannot write {self._path.parent}") from None
