"""CSV (RFC 4180): the first row names the columns by the native keys; an empty cell is a key not given.

``headers`` and ``mirrors`` cells hold JSON; ``size`` and ``offset`` cells hold digits.
"""

import csv
import re
from collections.abc import Iterator

from cfetch.manifest.faults import MAX_KEPT, BrokenDocumentError, Faults
from cfetch.manifest.rows import KEYS, Document, Row, describe_unknown_key
from cfetch.manifest.source import MAX_ROW_CHARS, Source
from cfetch.manifest.strict_json import Misfit, decode_text

_NUMBER = re.compile(r"[0-9]{1,20}\Z")
_DECIMAL = re.compile(r"[0-9]{1,20}(?:\.[0-9]{1,30})?(?:e[+-]?[0-9]{1,3})?\Z")


def read_csv(source: Source, document: Document, faults: Faults) -> Iterator[Row]:  # noqa: ARG001 - a reader
    """The rows; one with too many or too few cells is a fault."""
    rows = _records(source, faults)
    columns = next(rows, (1, []))[1]
    if not _columns_are_known(columns, faults):
        return
    for line, cells in rows:
        if len(cells) != len(columns):
            faults.add(
                line, f"the row has {len(cells)} cells, but the first row names {len(columns)} columns"
            )
        else:
            given = zip(columns, cells, strict=True)
            yield Row(line, {column: _value(column, cell) for column, cell in given if cell})


def _records(source: Source, faults: Faults) -> Iterator[tuple[int, list[str]]]:
    """Each record with the line that it begins on."""
    line_number = chars = 0

    def lines() -> Iterator[str]:
        nonlocal line_number, chars
        for line_number, text in source.lines(faults):
            chars += len(text) + 1
            if chars > MAX_ROW_CHARS + 1:
                raise BrokenDocumentError(
                    line_number, f"a row is longer than {MAX_ROW_CHARS} characters; is a quote missing?"
                )
            yield text + "\n"

    parser = csv.reader(lines(), strict=True)
    while True:
        start, chars = line_number + 1, 0
        try:
            cells = next(parser)
        except StopIteration:
            return
        except csv.Error as error:
            faults.add(start, f"it is not CSV: {error}")
        else:
            if cells:
                yield start, cells


def _columns_are_known(columns: list[str], faults: Faults) -> bool:
    before = faults.total
    for position, column in enumerate(columns):
        if faults.total - before >= MAX_KEPT:  # to look for what is meant takes time
            break
        if column not in KEYS:
            faults.add(1, f"column {position + 1}: {describe_unknown_key(column, KEYS)}")
        elif column in columns[:position]:
            faults.add(1, f"column {position + 1}: {column!r} is named twice")
    if columns and "url" not in columns:
        faults.add(1, "the first row must name the columns, url among them")
    return faults.total == before


def _value(column: str, cell: str) -> object:
    if column in ("size", "offset"):
        return int(cell) if _NUMBER.match(cell) else Misfit("a cell that is not all digits")
    if column == "expires_at" and _DECIMAL.match(cell):
        return float(cell)
    return json_cell(cell) if column in ("headers", "mirrors") else cell


def json_cell(cell: str) -> object:
    """The value that a cell's JSON holds."""
    try:
        return decode_text(cell, 0)
    except BrokenDocumentError:
        return Misfit("a cell that is not JSON")
