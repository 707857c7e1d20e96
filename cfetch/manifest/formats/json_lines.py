"""JSON Lines: on each line one object with the keys of the native format's ``files``, or with foreign keys.

The first line may be a header instead: an object with ``version`` or ``base_url`` and without ``url``. It may
have ``headers`` too, and holds for all lines.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from cfetch.manifest.columns import ColumnError
from cfetch.manifest.faults import MAX_KEPT, BrokenDocumentError, Faults
from cfetch.manifest.odd_bytes import find_odd
from cfetch.manifest.rows import Document, Row
from cfetch.manifest.source import Source
from cfetch.manifest.strict_json import decode_text

if TYPE_CHECKING:
    from cfetch.manifest.plain_rows import PlainLines


def read_json_lines(source: Source, document: Document, faults: Faults) -> Iterator[Row]:
    """Yield the rows; blank lines are left out, and a line that is not JSON is a fault only of that line."""
    columns = document.make_columns() if document.options is not None else None
    first = source.begin == 0
    plain_lines = _make_lines(source, faults) if document.takes_plain else None
    for line, text in source.lines(faults, "keep") if plain_lines is None else plain_lines.items():
        if not isinstance(text, str):
            yield Row(line, text)
            continue
        if not text or text.isspace():
            continue
        if text.strip() == "{":
            raise BrokenDocumentError(
                line,
                "an object begins that has no end on its line; write one on each line, as jq -c . FILE does"
                f"{_advise(source)}",
            )
        try:
            fields = decode_text(text, line)
            if odd := find_odd(text):
                faults.add(line, f"the line has {odd}")
                document.is_faulty = document.is_faulty or (first and _is_header(fields))
            elif first and _is_header(fields):
                _take_header(fields, line, document, faults)
            elif columns is None or (renamed := columns.rename(fields)) is fields:
                yield Row(line, fields)
            else:
                yield from (Row(line, each) for each in columns.expand(renamed))
            if plain_lines is not None and plain_lines.wants_lesson and columns is not None:
                from cfetch.manifest.plain_rows import make_json_pattern  # ``plain_lines`` has loaded it

                keys = columns.find_plain_keys(fields)
                plain_lines.learn(make_json_pattern(text, fields, keys, document))
        except BrokenDocumentError as error:
            faults.add(line, str(error))
        except ColumnError as error:
            faults.add(line, f"{error}{_advise(source) if first else ''}")
        first = False
    if columns is not None:
        document.notes.extend(columns.notes())


def _make_lines(source: Source, faults: Faults) -> "PlainLines":
    from cfetch.manifest.plain_rows import PlainLines  # only long lists need it

    return PlainLines(source, faults)


def _advise(source: Source) -> str:
    from cfetch.manifest.formats.json_links import advise_queries  # only a refusal advises

    return advise_queries(source)


def read_plain_lines(source: Source, faults: Faults) -> Iterator[Row]:
    """Yield the values of the lines as they are; a line that is not JSON is a fault only of that line."""
    for line, text in source.lines(faults, "leave out"):
        if text and not text.isspace():
            try:
                yield Row(line, decode_text(text, line))
            except BrokenDocumentError as error:
                faults.add(line, str(error))


def _is_header(fields: object) -> bool:
    """Whether a first line is a header and no entry."""
    return type(fields) is dict and "url" not in fields and ("version" in fields or "base_url" in fields)


def _take_header(fields: dict[str, object], line: int, document: Document, faults: Faults) -> None:
    before = faults.total
    for key, value in fields.items():
        if faults.total - before >= MAX_KEPT:  # the search for similar keys takes time
            break
        document.take(key, value, line, faults)
