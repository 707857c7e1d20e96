"""Tables as text: CSV (RFC 4180), and cells separated by tabs, semicolons or bars.

The first row names the columns: native keys, or names of a foreign table (``manifest/columns.py``). A table
without such a row is read if exactly one cell of its first row is a URL: its columns are numbered from 1. An
empty cell means that the key is not given. ``headers`` and ``mirrors`` cells hold JSON; ``size``, ``offset``
and ``length`` cells hold digits. In a table with tabs, a quote is an ordinary character, unless quotes
surround the whole cell.
"""

import csv
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING

from cfetch.base.schemes import FILES_PATTERN
from cfetch.manifest.columns import MAX_COLUMNS, ColumnError, Columns, is_url_name
from cfetch.manifest.digests import HEX_DIGITS
from cfetch.manifest.faults import BrokenDocumentError, Faults, Misfit, quoted_key
from cfetch.manifest.odd_bytes import find_odd
from cfetch.manifest.rows import Document, PlainRows, Row
from cfetch.manifest.source import HEAD_BYTES, MAX_ROW_CHARS, Source
from cfetch.manifest.strict_json import decode_text, read_digits
from cfetch.manifest.url_template import UrlTemplate

if TYPE_CHECKING:
    from cfetch.manifest.plain_rows import PlainLines

Record = tuple[int, list[str] | PlainRows]
_CONVERTED = frozenset(["size", "offset", "length", "expires_at", "headers", "mirrors", "assemble"])
_LOOKED_AT = 100  # rows, for the advice of a refusal
MOST_PLAIN_DIGITS = 16
DELIMITERS = ",\t;|"
_EXPLAINED = {"new-line": "a line ends with a lone CR; end lines with LF, for example by tr '\\r' '\\n'"}
_WHOLE = re.compile(r" *([0-9]{1,15})\.0+ *\Z")  # so pandas writes whole numbers in a column with gaps
_UNKNOWN = frozenset({"-", "-1", "n/a", "na", "nan", "none", "null", "unknown", "?"})
_RULE = re.compile(r" *(?::?-+:? *)?\Z")
_SEPARATOR = re.compile(r"sep=([,\t;|])\Z")  # so spreadsheets write the separator in a line before the table
_DECIMAL = re.compile(r"[0-9]{1,20}(?:\.[0-9]{1,30})?(?:e[+-]?[0-9]{1,3})?\Z")
_URL = re.compile(rf"{FILES_PATTERN}://[!-~]", re.IGNORECASE)


def read_csv(source: Source, document: Document, faults: Faults) -> Iterator[Row]:
    """Yield the rows; a row with too many or too few cells is a fault."""
    source = _pass_comments(source)
    first_line = next(source.lines(Faults(), "keep"), (1, ""))[1]
    stated = _SEPARATOR.match(first_line)
    delimiter = stated[1] if stated else _choose_delimiter(first_line, document)
    plain_lines = _make_lines(source, faults) if document.takes_plain else None
    rows = _records(source, faults, delimiter, plain_lines)
    if stated:
        next(rows)
    yield from read_records(rows, document, faults, plain_lines, delimiter)


def _pass_comments(source: Source) -> Source:
    """The source from the first line on that is no comment; the names of columns may begin with ``#`` too."""
    text, begin, line = source.read(source.begin, HEAD_BYTES), source.begin, source.line
    for written in text.splitlines(keepends=True) if source.begin == 0 else ():
        comment = written.decode("utf-8", "replace").removeprefix("\ufeff").strip()
        if comment[:1] != "#" or set(comment) & set(DELIMITERS) or not written.endswith(b"\n"):
            break
        begin, line = begin + len(written), line + 1
    return source if begin == source.begin else replace(source, begin=begin, line=line)


def _make_lines(source: Source, faults: Faults) -> "PlainLines":
    from cfetch.manifest.plain_rows import PlainLines  # only long lists need it

    return PlainLines(source, faults)


def read_records(
    rows: Iterable[Record],
    document: Document,
    faults: Faults,
    plain_lines: "PlainLines | None" = None,
    delimiter: str = "",
) -> Iterator[Row]:
    """Yield the rows of a table, of which each record has its line and its cells.

    ``plain_lines`` learns how plain lines look, with this ``delimiter``.
    """
    rows = iter(rows)
    columns = document.make_columns()
    line, names = next(rows, (1, []))
    if not names or isinstance(names, PlainRows):
        return
    numbered = find_url_cell(names)
    try:
        if len(names) > MAX_COLUMNS:
            raise ColumnError(f"it has more than {MAX_COLUMNS} columns")
        if numbered is not None or _has_several_urls(names):
            keys = _list_keys_by_number(names, numbered, columns)
            document.notes.append("the first row is an entry: no row names the columns")
        else:
            keys = _list_keys(names, columns)
    except ColumnError as error:
        if numbered is None and _has_several_urls(names):
            faults.add(line, str(error))
            return
        first = [
            (number, cells) for number, cells in islice(rows, _LOOKED_AT) if not isinstance(cells, PlainRows)
        ]
        looked_at = [cells for _, cells in first]
        linked = _find_linked(names, looked_at)
        more = f"; links stand in {', '.join(map(quoted_key, linked))}" if linked else ""
        if (head := next((number for number, cells in first if has_url_column(cells)), 0)) and delimiter:
            more = (
                f"; line {head} names such a column: leave out those before it, as tail -n +{head} FILE does"
            )
        faults.add(line, f"{error}{more}")
        return
    document.notes.extend(columns.notes())
    table = _Table(document, columns, keys)
    if numbered is not None or _has_several_urls(names):
        yield from table.make_rows(line, names)
    for line, cells in rows:
        if isinstance(cells, PlainRows):
            yield Row(line, cells)
        elif delimiter == "|" and all(map(_RULE.match, cells)):
            continue  # the line below the head of a table in Markdown
        elif cells == names:
            table.repeated += 1
        elif len(cells) != len(keys):
            faults.add(
                line, f"cells of this row: {len(cells)}, columns that the first row names: {len(keys)}"
            )
        else:
            yield from table.make_rows(line, cells)
            if plain_lines is not None and plain_lines.wants_lesson:
                from cfetch.manifest.plain_rows import make_csv_pattern  # its caller has loaded it

                plain_lines.learn(make_csv_pattern(plain_lines.last_line, delimiter, keys, names, document))
    table.note_oddities()


def _find_linked(names: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """The names of the columns of which a cell is a link; the first row may have gaps."""
    links = (
        place for cells in rows for place, cell in enumerate(cells[: len(names)]) if _URL.match(cell.strip())
    )
    return [names[place] for place in sorted(set(links))]


class _Table:
    """Makes rows of cells, and counts what is odd about them."""

    def __init__(self, document: Document, columns: Columns, keys: Sequence[str | None]) -> None:
        self._document = document
        self._columns = columns
        self._keys = keys
        self._converted = _CONVERTED.intersection(filter(None, keys))
        self._proofs = [key for key in keys if key == "size" or key in HEX_DIGITS]
        self._swallowing = self._unknown = 0
        self.repeated = 0

    def make_rows(self, line: int, cells: Sequence[str]) -> Sequence[Row]:
        self._swallowing += "\n" in "".join(cells) and any("\n" in cell and "://" in cell for cell in cells)
        given = zip(self._keys, cells, strict=True)
        fields: dict[str, object] = {key: cell for key, cell in given if key and cell}
        for key in self._proofs:
            if str(fields.get(key)).strip().lower() in _UNKNOWN and key in fields:
                self._unknown += 1
                del fields[key]
        for key in self._converted & fields.keys():
            fields[key] = _value(key, str(fields[key]))
        return [Row(line, each) for each in self._columns.expand(fields)]

    def note_oddities(self) -> None:
        if self.repeated:
            self._document.notes.append(
                f"rows that name the columns again, as joined tables have them: {self.repeated}"
            )
        if self._unknown:
            what = "sizes and hashes that the table states as not known, such as N/A"
            self._document.notes.append(f"{what}: {self._unknown}")
        if self._swallowing:
            self._document.notes.append(
                f"rows with a line break and a URL in one cell: {self._swallowing}; is there a quote too "
                "many?"
            )


def _choose_delimiter(first_line: str, document: Document) -> str:
    """The only delimiter that finds URLs in the first line; if none does, the most frequent; else a comma."""
    options = document.options
    wanted = set() if options is None or options.url_column is None else {options.url_column}
    if options is not None and options.url_template is not None:
        wanted.update(UrlTemplate(options.url_template).names)
    fitting = []
    for delimiter in DELIMITERS:
        cells = split_line(first_line, delimiter)
        if len(cells) > 1 and (
            wanted & set(cells) or has_url_column(cells) or find_url_cell(cells) is not None
        ):
            fitting.append(delimiter)
    if len(fitting) == 1:
        return fitting[0]
    counts = {delimiter: first_line.count(delimiter) for delimiter in DELIMITERS}
    most = max(DELIMITERS, key=lambda delimiter: counts[delimiter])
    return most if counts[most] and not fitting else ","


def split_line(line: str, delimiter: str) -> list[str]:
    """Split a first line into cells, for detection."""
    try:
        return next(csv.reader([line[:MAX_ROW_CHARS]], delimiter=delimiter), [])
    except csv.Error:
        return []


def has_url_column(cells: Sequence[str]) -> bool:
    """Whether a cell names a column of URLs."""
    return any(is_url_name(cell) for cell in cells)


def find_url_cell(cells: Sequence[str]) -> int | None:
    """The place of the only URL in a first row that names no column of URLs; None if there is none."""
    if has_url_column(cells):
        return None
    urls = [place for place, cell in enumerate(cells) if _URL.match(cell.strip())]
    return urls[0] if len(urls) == 1 else None


def _has_several_urls(cells: Sequence[str]) -> bool:
    """Whether a first row names no column of URLs, and has several of them itself."""
    return not has_url_column(cells) and sum(_URL.match(cell.strip()) is not None for cell in cells) > 1


def _list_keys_by_number(names: Sequence[str], url_place: int | None, columns: Columns) -> list[str | None]:
    numbers = [str(place + 1) for place in range(len(names))]
    if not columns.options.names_columns:
        if url_place is None:
            linked = [number for number, cell in zip(numbers, names, strict=True) if _URL.match(cell.strip())]
            ways = " or ".join(f"--url-column {number}" for number in linked[:3])
            raise ColumnError(
                f"no row names the columns, and {len(linked)} of them hold links: name one by its number, "
                f"{ways}, or repeat the option for several"
            )
        columns.left_out = {
            f"number {number}": None for place, number in enumerate(numbers) if place != url_place
        }
        return ["url" if place == url_place else None for place in range(len(names))]
    chosen = columns.choose(numbers)
    return [chosen.get(number) for number in numbers]


def _list_keys(names: Sequence[str], columns: Columns) -> list[str | None]:
    chosen = columns.choose(list(dict.fromkeys(names)))
    for place, name in enumerate(names):
        if name in chosen and name in names[:place]:
            raise ColumnError(f"column {place + 1}: {chosen[name]!r} is named twice")
    return [chosen.get(name) for name in names]


def _records(
    source: Source, faults: Faults, delimiter: str, plain_lines: "PlainLines | None"
) -> Iterator[Record]:
    """Yield each record with the number of its first line, and the plain rows that ``plain_lines`` finds."""
    lines = source.lines(faults, "keep") if plain_lines is None else iter(plain_lines.take_line, None)
    parsed: Iterator[tuple[int, list[str]]]
    if delimiter == "\t":
        parsed = ((number, [_unquote(cell) for cell in text.split("\t")]) for number, text in lines if text)
    else:
        parsed = _parse(lines, faults, delimiter)
    parser = _leave_out_odd(parsed, faults)
    while True:
        if plain_lines is not None and (plain := plain_lines.take_plain()) is not None:
            yield plain.lines[0], plain
        elif (record := next(parser, None)) is not None:
            yield record
        else:
            return


def _leave_out_odd(records: Iterator[tuple[int, list[str]]], faults: Faults) -> Iterator[Record]:
    """Yield the records that are texts.

    Raises:
        BrokenDocumentError: the first, which may name the columns, is none.
    """
    is_first = True
    for number, cells in records:
        if odd := find_odd("".join(cells)):
            if is_first:
                raise BrokenDocumentError(number, f"the first row has {odd}")
            faults.add(number, f"the row has {odd}")
        else:
            yield number, cells
        is_first = False


def _parse(
    lines: Iterator[tuple[int, str]], faults: Faults, delimiter: str
) -> Iterator[tuple[int, list[str]]]:
    """Yield each record of ``lines``, and take no line beyond it, with the number of its first line."""
    start = chars = 0

    def texts() -> Iterator[str]:
        nonlocal start, chars
        for number, text in lines:
            start = start if chars else number
            chars += len(text) + 1
            if chars > MAX_ROW_CHARS + 1:
                raise BrokenDocumentError(
                    number, f"a row is longer than {MAX_ROW_CHARS} characters; is a quote missing?"
                )
            yield text + "\n"

    parser = csv.reader(texts(), strict=True, delimiter=delimiter)
    while True:
        chars = 0
        try:
            cells = next(parser)
        except StopIteration:
            return
        except csv.Error as error:
            faults.add(start, f"it is not CSV: {_EXPLAINED.get(str(error)[:8], error)}")
        else:
            if cells:
                yield start, cells


def _unquote(cell: str) -> str:
    if len(cell) > 1 and cell[0] == '"' == cell[-1]:
        return cell[1:-1].replace('""', '"')
    return cell


def _value(column: str, cell: str) -> object:
    if column in ("size", "offset", "length"):
        if len(cell) < MOST_PLAIN_DIGITS and cell.isascii() and cell.isdigit():  # as nearly always
            return int(cell)
        return read_digits(_WHOLE.sub(r"\1", cell).strip(" "), "a cell with other characters than digits")
    if column == "expires_at" and _DECIMAL.match(cell):
        return float(cell)
    return json_cell(cell) if column in ("headers", "mirrors", "assemble") else cell


def json_cell(cell: str) -> object:
    """Decode the JSON in a cell."""
    try:
        return decode_text(cell, 0)
    except BrokenDocumentError:
        return Misfit("a cell that is not JSON")
