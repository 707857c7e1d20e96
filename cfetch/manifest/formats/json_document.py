"""JSON: the native document, ``{"version": 1, "base_url": …, "headers": {…}, "files": […]}``, or an array.

An array holds only the entries: URLs, or objects, which may have foreign keys (``manifest/columns.py``).

The document is never in memory as a whole: a window slides over it, and each element of ``files`` is decoded
as soon as the window holds it. The keys may come in any order.
"""

import json
import re
from collections.abc import Collection, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from cfetch.manifest.columns import ColumnError, Columns
from cfetch.manifest.faults import BrokenDocumentError, Faults, Misfit, quoted_key
from cfetch.manifest.odd_bytes import find_odd
from cfetch.manifest.rows import HEADER_KEYS, KEYS, Document, PlainRows, Row
from cfetch.manifest.source import MAX_ROW_CHARS, Source
from cfetch.manifest.strict_json import DECODER, NESTED_TOO_DEEP

if TYPE_CHECKING:
    from cfetch.manifest.plain_rows import PlainElements

_SPACE = re.compile(r"[ \t\r\n]*")
TOO_LONG = f"a value is longer than {MAX_ROW_CHARS} characters"
_TOP_KEYS = (*HEADER_KEYS, "files")


def read_json(source: Source, document: Document, faults: Faults) -> Iterator[Row]:
    """Yield the rows of ``files``, or of the document itself if it is an array."""
    window = _Window(source, marks_odd=True)
    if window.peek() == "[":
        columns = document.make_columns()
        rows = _list_rows(window, _make_plain(document, columns))
        yield from _rename_rows(rows, columns, source, document, faults)
        return
    if window.peek() == '"':
        raise BrokenDocumentError(1, "it is one text of JSON; write it in an array, as jq '[.]' FILE does")
    document.look_ahead = lambda: _find_base_url(source)
    window.expect("{")
    seen: set[str] = set()
    while window.peek() != "}" or seen:  # after a comma, "}" is read as a key and refused
        line = window.line()
        key = window.value()
        if type(key) is not str:
            raise BrokenDocumentError(line, "a key must be a string")
        window.expect(":")
        if key in seen:
            faults.add(line, f"the key {quoted_key(key)} is given twice")
        seen.add(key)
        if key == "files" and window.peek() == "[":
            own_keys = document.options is None or not document.options.names_columns
            foreign = None if own_keys else document.make_columns()
            rows = _elements(window, "files", _make_plain(document, foreign))
            if document.options is not None and own_keys:
                rows = _refuse_foreign(rows, source)
            yield from rows if foreign is None else _rename_rows(rows, foreign, source, document, faults)
        else:
            window.peek()
            value = window.value()
            _take(key, value, line, document, faults, is_behind="files" in seen)
        if window.peek() != ",":
            break
        window.expect(",")
    window.expect("}")
    if window.peek():
        raise BrokenDocumentError(window.line(), "there is text after the document's end")
    if "files" not in seen:
        single = "; if it is one entry, write it on one line, as jq -c . FILE does" if "url" in seen else ""
        faults.add(0, f"the key 'files' is missing; it holds the entries{single}{_advise(source)}")


def _refuse_foreign(rows: Iterator[Row], source: Source) -> Iterator[Row]:
    """Yield the rows. Raises BrokenDocumentError: the first states no ``url`` but other keys, and links."""
    for row in rows:
        is_foreign = (
            isinstance(row.fields, dict) and "url" not in row.fields and row.fields.keys() - set(KEYS)
        )
        if is_foreign and (advice := _advise(source)):
            what = "its 'files' are those of another program, without a url"
            raise BrokenDocumentError(row.line, f"{what}{advice}")
        yield row
        break
    yield from rows


def _take(key: str, value: object, line: int, document: Document, faults: Faults, *, is_behind: bool) -> None:
    """Take a key of the document; ``is_behind``: it stands behind the files."""
    if key == "files":
        faults.add(line, "files: it must be an array")
    elif key == "assemble" and value is True and is_behind:
        faults.add(line, "assemble: it has to stand before 'files', as it says what the entries are")
        document.is_faulty = True
    else:
        document.take(key, value, line, faults, _TOP_KEYS)


def read_elements(source: Source) -> Iterator[Row]:
    """Yield the elements of a document that is an array. Raises BrokenDocumentError: it is no array."""
    yield from _list_rows(_Window(source))


def _list_rows(window: "_Window", plain: "PlainElements | None" = None) -> Iterator[Row]:
    yield from _elements(window, "rows", plain)
    if window.peek():
        raise BrokenDocumentError(window.line(), "there is text after the document's end")


def read_array(source: Source, name: str, others: dict[str, Any]) -> Iterator[Row]:
    """Yield the elements of the array ``name`` of an object; ``others`` gets the object's other values.

    Raises:
        BrokenDocumentError: the document is no object.
    """
    window = _Window(source)
    window.expect("{")
    while window.peek() != "}":
        key = window.value()
        window.expect(":")
        if key == name and window.peek() == "[":
            yield from _elements(window, name)
        else:
            window.peek()
            others[str(key)] = window.value()
        if window.peek() != ",":
            break
        window.expect(",")
        window.peek()
    window.expect("}")


def read_members(
    source: Source, names: Collection[str], others: dict[str, Any]
) -> Iterator[tuple[int, str, Any]]:
    """Yield line, key and value of each member of the objects that are called ``names`` at the top.

    ``others`` gets the document's other values.

    Raises:
        BrokenDocumentError: the document is no object, or a value is too long.
    """
    window = _Window(source)
    window.expect("{")
    while window.peek() == '"':
        key = window.value()
        window.expect(":")
        if key in names and window.peek() == "{":
            window.expect("{")
            while window.peek() == '"':
                line, name = window.line(), window.value()
                window.expect(":")
                window.peek()
                yield line, str(name), window.value()
                if window.peek() != ",":
                    break
                window.expect(",")
            window.expect("}")
        else:
            window.peek()
            others[str(key)] = window.value()
        if window.peek() != ",":
            break
        window.expect(",")
    window.expect("}")


def _make_plain(document: Document, columns: Columns | None) -> "PlainElements | None":
    if not document.takes_plain:
        return None
    from cfetch.manifest.plain_rows import PlainElements  # only long lists need it

    return PlainElements(document, _take_keys if columns is None else columns.find_plain_keys)


def _take_keys(fields: object) -> dict[str, str]:
    return {name: name for name in fields} if isinstance(fields, dict) else {}


def _rename_rows(
    rows: Iterable[Row], columns: Columns, source: Source, document: Document, faults: Faults
) -> Iterator[Row]:
    """Give rows native keys; a row that is a text is a URL. The notes name the columns that are left out."""
    for row in rows:
        try:
            renamed = columns.rename(row.fields)
            if renamed is row.fields:
                yield row
            else:
                yield from (row._replace(fields=each) for each in columns.expand(renamed))
        except ColumnError as error:
            advice = "" if faults.total else _advise(source)
            faults.add(row.line, f"{error}{advice}")
    document.notes.extend(columns.notes())


def _elements(window: "_Window", array: str, plain: "PlainElements | None" = None) -> Iterator[Row]:
    window.expect("[")
    if window.peek() == "]":
        window.expect("]")
        return
    while True:
        window.peek()
        line, value = window.line(), window.value(is_row=True)
        yield Row(line, value, array)
        if window.peek() != ",":
            break
        window.pos += 1
        while plain is not None and (rows := window.take(plain, value)) is not None:
            yield Row(rows.lines[0], rows, array)
    window.expect("]")


def _find_base_url(source: Source) -> str | None:
    """Walk the document once more for a ``base_url`` after its entries; the main walk reports the faults."""
    document = Document()
    try:
        for _ in read_json(source, document, Faults()):
            pass
    except BrokenDocumentError:
        pass
    return document.base_url


class _Window:
    """The part of the text that is being read; ``pos`` is the current position in it."""

    def __init__(self, source: Source, *, marks_odd: bool = False) -> None:
        self._texts = source.texts(marks_odd=marks_odd)
        self._text = ""
        self._is_odd = False  # whether a byte that no text has was read
        self._line = 1
        self._counted = 0
        self._dropped = 0
        self._line_begin = 0  # where the window's first line begins, in characters of the document
        self.pos = 0

    def line(self) -> int:
        """The line, from 1, at ``pos``."""
        self._line += self._text.count("\n", self._counted, self.pos)
        self._counted = self.pos
        return self._line

    def peek(self) -> str:
        """The next character that is no space, and set ``pos`` to it; empty at the end."""
        if self.pos < len(self._text) and (char := self._text[self.pos]) > " ":
            return char
        while True:
            match = _SPACE.match(self._text, self.pos)
            self.pos = match.end() if match else self.pos
            if self.pos < len(self._text):
                return self._text[self.pos]
            if not self._more():
                return ""

    def expect(self, char: str) -> None:
        """Step over ``char``.

        Raises:
            BrokenDocumentError: the next character is another one.
        """
        character = self.peek()
        if character != char:
            what = "the document ends" if not character else "something else stands there"
            wanted = f"',' or {char!r}" if char in "]}" else repr(char)  # an end comes after a value
            raise self._make_broken_error(self.pos, f"expected {wanted}, but {what}")
        self.pos += 1

    def value(self, *, is_row: bool = False) -> Any:  # noqa: ANN401 - JSON is any value
        """Decode the value at ``pos``, where ``peek`` has put it, and step over it.

        ``is_row``: a value with a byte that no text has is a ``Misfit``, which is a fault of that row.

        Raises:
            BrokenDocumentError: it is not JSON, too long or nested too deeply; or such a byte is in no row.
        """
        while True:
            try:
                value, end = DECODER.raw_decode(self._text, self.pos)
            except json.JSONDecodeError as error:
                broken = self._make_broken_error(error.pos, f"it is not JSON: {error.msg}")
                if self._too_long(len(self._text)):
                    raise self._make_broken_error(self.pos, TOO_LONG) from None
                if not self._more():
                    raise broken from None
            except RecursionError:
                raise self._make_broken_error(self.pos, NESTED_TOO_DEEP) from None
            else:
                if end < len(self._text) or not self._more():  # a number at the edge may go on
                    if self._is_odd and (odd := find_odd(self._text[self.pos : end])):
                        if not is_row:
                            raise self._make_broken_error(self.pos, f"the value has {odd}")
                        value = Misfit(f"one that has {odd}")
                    return self._step(end, value)

    def take(self, plain: "PlainElements", last: object) -> PlainRows | None:
        """Step over the plain elements that come next, each with its comma; None: there is none."""
        if (taken := plain.take(self._text, self.pos, self.line(), last)) is None:
            return None
        rows, self.pos = taken
        return rows

    def _step(self, end: int, value: object) -> object:
        if self._too_long(end):
            raise self._make_broken_error(self.pos, TOO_LONG)
        self.pos = end
        return value

    def _too_long(self, end: int) -> bool:
        return end - self.pos > MAX_ROW_CHARS

    def _more(self) -> bool:
        """Drop the text already read, and at least double the rest: so a long value takes linear time."""
        self.line()
        self._line_begin = self._find_line_begin(self.pos)
        self._text = self._text[self.pos :]
        self._dropped += self.pos
        self.pos = self._counted = 0
        wanted = 2 * len(self._text) + 1
        pieces = [self._text]
        while wanted > 0 and (text := next(self._texts, "")):
            pieces.append(text)
            self._is_odd = self._is_odd or bool(find_odd(text))
            wanted -= len(text)
        self._text = "".join(pieces)
        return len(pieces) > 1

    def _make_broken_error(self, pos: int, message: str) -> BrokenDocumentError:
        line = self.line() + self._text.count("\n", self.pos, pos)
        place = self._dropped + pos
        column = place - self._find_line_begin(pos) + 1
        return BrokenDocumentError(
            line, f"{message} (column {column}, character {place + 1} of the document)"
        )

    def _find_line_begin(self, pos: int) -> int:
        line_end = self._text.rfind("\n", 0, pos)
        return self._line_begin if line_end < 0 else self._dropped + line_end + 1


def _advise(source: Source) -> str:
    from cfetch.manifest.formats.json_links import advise_queries  # only a refusal advises

    return advise_queries(source)
