"""Workbooks of spreadsheets (.xlsx, .xls, .ods): the first sheet is a table, as a CSV file is."""

from collections.abc import Iterator
from typing import Any

from cfetch.base.errors import UsageError
from cfetch.manifest.digests import missing_library
from cfetch.manifest.faults import BrokenDocumentError, Faults
from cfetch.manifest.formats.csv_table import read_records
from cfetch.manifest.rows import Document, Row
from cfetch.manifest.source import Source

MAX_BYTES = 64 << 20  # a sheet is in memory as a whole


def read_workbook(source: Source, document: Document, faults: Faults) -> Iterator[Row]:
    """The rows of the first sheet.

    Raises:
        UsageError: the library python-calamine is not installed.
    """
    try:
        from python_calamine import CalamineError, CalamineWorkbook
    except ImportError:
        message = missing_library("A workbook", "python-calamine", "sheets")
        raise UsageError(f"{message}, or save the sheet as CSV") from None
    if len(source.read(MAX_BYTES, 1)):
        raise BrokenDocumentError(0, f"the workbook is longer than {MAX_BYTES} bytes; save its sheet as CSV")
    try:
        source.file.seek(0)
        book = CalamineWorkbook.from_filelike(source.file)
        sheet = book.get_sheet_by_index(0)
        rows = sheet.to_python(skip_empty_area=True)
    except (CalamineError, OSError, ValueError, IndexError) as error:
        reason = " ".join(str(error).split())[:200]
        raise BrokenDocumentError(
            0, f"the workbook of a spreadsheet cannot be read ({reason}); save its sheet as CSV"
        ) from None
    if len(book.sheet_names) > 1:
        document.notes.append(
            f"sheets that are left out, as only the first is read: {len(book.sheet_names) - 1}"
        )
    records = ((number, [_write(cell) for cell in row]) for number, row in enumerate(rows, 1))
    yield from read_records((record for record in records if any(record[1])), document, faults)


def _write(cell: Any) -> str:  # noqa: ANN401 - text, numbers, times
    if isinstance(cell, float) and cell.is_integer():
        return str(int(cell))
    return str(cell)
