"""Finds the plain rows of a long list, many at once: each in a small part of the time of ``check_row``.

Nearly all rows of a long list are like the row before them. So a row that has gone the usual way teaches a
pattern: the same keys in the same order, an http(s) URL, a path, a size and a hash in which no check can find
a fault, and any values in columns that are left out. Rows that match it need no other check. Every other row
goes the usual way, in its place. So entries, faults, lines and notes are the same as without patterns, which
``tests/manifest/test_plain_rows.py`` shows with random lists.

A pattern never reads a character twice, but for a few at the beginning of a host, so that a hostile list
takes no more time than any other list.
"""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any

from cfetch.base.schemes import FILES_PATTERN, WEB
from cfetch.manifest.digests import HEX_DIGITS, needs_library
from cfetch.manifest.entry import PLAIN_PART, PLAIN_PATH, Digest
from cfetch.manifest.faults import Faults
from cfetch.manifest.rows import Document, PlainRows
from cfetch.manifest.source import Source

_HASHES = HEX_DIGITS.keys() - {"git_sha1"}  # which is right only beside a size
_KEYS = _HASHES | {"url", "path", "size"}
MOST_LESSONS = 8  # patterns of one list, as each takes milliseconds to make
MOST_CHARS = 100_000  # of a plain line; a cell of 131,073 characters is a fault of CSV
MOST_COLUMNS = 100  # of a pattern: a third of a millisecond for each
TAUGHT_CHARS = 10_000  # of a value that teaches a pattern
ELEMENTS_CHARS = 1 << 16  # of an array that are looked at together
MOST_MISSES = 100  # in a row: then the elements have another form, which another lesson may teach

_OCTET = "(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
_PORT = "(?::(?:[1-9][0-9]{0,3}|[1-5][0-9]{4}))?"
_HOST = (
    rf"(?:{'|'.join(WEB)})://"
    rf"(?:(?:[A-Za-z0-9_-]++\.)*+[A-Za-z][A-Za-z0-9_-]*+|{_OCTET}(?:\.{_OCTET}){{3}}){_PORT}"
)
_FIND_HOST = re.compile(_HOST)
_ODD = r"\x00\udc00-\udcff"  # a text with such a mark is a fault: ``odd_bytes.py``
_IN_STRING = rf'[^"\\\x00-\x1f{_ODD}]*+'
_STRING = rf'"{_IN_STRING}(?:\\(?:["\\/bfnrt]|u[0-9A-Fa-f]{{4}}){_IN_STRING})*+"'
_SCALAR = rf"(?:{_STRING}|-?(?:0|[1-9][0-9]*+)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?|true|false|null)"
_NO_SPACE = re.compile(r"[^ \t\r\n]")
_MEMBER = re.compile(rf'([ \t]*)("[^"\\\x00-\x1f]*+")([ \t]*:[ \t]*)({_SCALAR})([ \t]*)([,}}])')

Columns = dict[str, list[Any]]
"""The values of each key, in the order of the rows; None where a row is not plain."""


class Pattern:
    """A regular expression whose groups are the values of a plain row.

    ``take`` makes the part of each value, in their order; then one of the two ``compile`` methods is called.
    """

    def __init__(self, excluded: str, text: str, *, names: bool) -> None:
        """``excluded``: characters that end a URL in this list. ``names``: the URLs name the files.

        ``text`` has a row: most URLs of a list have the same host, and are searched for that one first.
        """
        host = _FIND_HOST.search(text)
        self._host = rf"(?:{re.escape(host[0])}(?=[/?])|{_HOST})" if host else _HOST
        self._names = names
        self._groups: list[str] = []
        self._query = _write_run(f"{excluded}#")
        self._segment = _write_run(f"{excluded}#?/")
        self._algorithm = ""
        self.regex = re.compile("")

    def take(self, key: str, *, is_optional: bool = False) -> str:
        """The pattern of a value; ``is_optional``: the value may be empty, unless it is the URL or path."""
        self._groups.append(key)
        if key == "url" and self._names:
            self._groups.append("path")
            return rf"({self._host}/(?:{self._segment}/)*+({PLAIN_PART})(?:\?{self._query})?)"
        if key == "url":
            return f"({self._host}(?:[/?]{self._query})?)"
        if key == "path":
            return f"({PLAIN_PATH})"
        if key == "size":
            return "([0-9]{0,15})" if is_optional else "(0|[1-9][0-9]{0,17})"
        self._algorithm = key
        return (
            f"((?:[0-9A-Fa-f]{{{HEX_DIGITS[key]}}})?)"
            if is_optional
            else f"([0-9A-Fa-f]{{{HEX_DIGITS[key]}}})"
        )

    def compile_lines(self, body: str) -> "Pattern":
        """Compile it for whole lines: each line is one match."""
        self.regex = re.compile(rf"^(?:{body}|.*+)$", re.MULTILINE)
        return self

    def compile_elements(self, body: str) -> "Pattern":
        """Compile it for elements of an array: the last match has no element, and takes the rest."""
        self._groups = ["element", "spaces", *self._groups]
        self.regex = re.compile(rf"(([ \t\r\n]*+){body}[ \t]*+,)|.+", re.DOTALL)
        return self

    def find(self, text: str) -> Columns:
        """The values of all matches."""
        parts, step = self.regex.split(text), len(self._groups) + 1  # no tuples, which Python would count
        return {group: parts[place::step] for place, group in enumerate(self._groups, 1)}

    def make_rows(self, lines: Sequence[int], columns: Columns, begin: int, end: int) -> PlainRows:
        """Make the rows of the matches from ``begin`` to ``end``, all of which are plain."""
        sizes, digests = columns.get("size"), columns.get(self._algorithm)
        return PlainRows(
            lines,
            columns["url"][begin:end],
            columns["path"][begin:end],
            None if sizes is None else [int(text) if text else None for text in sizes[begin:end]],
            None
            if digests is None
            else [Digest(self._algorithm, text.lower()) if text else None for text in digests[begin:end]],
        )


def _write_run(excluded: str) -> str:
    """Characters of a URL, up to a mark between it and a second one, which a table's cell may hold."""
    marks = "".join(char for char in "|;," if char not in excluded)
    run = f"{_write_class(excluded + marks)}*+"
    return f"{run}(?:[{marks}](?!{FILES_PATTERN}://){run})*+" if marks else run


def _write_class(excluded: str) -> str:
    """The class of all visible characters of ASCII but these."""
    return f"[{''.join(re.escape(char) for char in map(chr, range(33, 127)) if char not in excluded)}]"


def _start_pattern(keys: Collection[str], document: Document, excluded: str, text: str) -> Pattern | None:
    """Begin the pattern of rows with these keys, like the one in ``text``.

    None: such a row may need what no pattern knows.
    """
    hashes = _HASHES.intersection(keys)
    options = document.options
    if options is None or document.assemble or options.keep_columns or options.more_url_columns:
        return None
    if options.url_template is not None or "url" not in keys or not _KEYS.issuperset(keys):
        return None
    if len(keys) > len(set(keys)) or len(hashes) > 1 or any(map(needs_library, hashes)):
        return None
    if options.path_column is not None and options.path_column == options.url_column:
        return None
    if "path" not in keys and options.name_by != "last":
        return None
    return Pattern(excluded, text[:TAUGHT_CHARS], names="path" not in keys)


def make_url_pattern(document: Document, text: str) -> Pattern | None:
    """The pattern of a plain list of URLs that begins with ``text``."""
    pattern = _start_pattern(["url"], document, "", text)
    return pattern and pattern.compile_lines(pattern.take("url"))


def make_csv_pattern(
    line: str, delimiter: str, keys: Sequence[str | None], names: Sequence[str], document: Document
) -> Pattern | None:
    """The pattern of lines of a table like ``line``: either all cells that are read have quotes, or none.

    A row that repeats the names of the columns is not plain, even if they look like a URL.
    """
    stated = [key for key in keys if key is not None]
    inside = rf'\r\n{_ODD}"' + (r"\t" if delimiter == "\t" else "")
    left_out = rf'(?:"[^{inside}]*+(?:""[^{inside}]*+)*+"|(?!")[^{delimiter}"\r\n{_ODD}]*+)'
    for quote in ("", '"') if len(keys) <= MOST_COLUMNS else ():
        pattern = _start_pattern(stated, document, f'{delimiter}"', line)
        if pattern is None:
            return None
        cells = []
        for key, name in zip(keys, names, strict=True):
            other = f"(?!{re.escape(name)})" if key == "url" and "://" in name else ""
            cells.append(
                left_out if key is None else f"{quote}{other}{pattern.take(key, is_optional=True)}{quote}"
            )
        pattern.compile_lines(re.escape(delimiter).join(cells))
        if any(pattern.find(line)["url"]):
            return pattern
    return None


def make_json_pattern(
    text: str, fields: object, keys: Mapping[str, str], document: Document
) -> Pattern | None:
    """The pattern of lines that are objects like ``text``, which has these ``fields``.

    ``keys``: the native key of each column that is read; all others are left out.
    """
    if (written := _write_object(text, 0, fields, keys, document)) is None:
        return None
    pattern = written[0].compile_lines(written[1])
    return pattern if any(pattern.find(text)["url"]) else None


def _write_object(
    text: str, position: int, fields: object, keys: Mapping[str, str], document: Document
) -> tuple[Pattern, str] | None:
    """Write the pattern of objects like the one at ``position``; None: it has other keys than ``fields``."""
    pattern = _start_pattern(list(keys.values()), document, '"\\', text[position : position + TAUGHT_CHARS])
    if pattern is None or not isinstance(fields, dict) or text[position] != "{":
        return None
    pieces, position, names = [r"\{"], position + 1, []
    while (member := _MEMBER.match(text, position, position + TAUGHT_CHARS)) is not None:
        before, name, colon, _, after, end = member.groups()
        names.append(name[1:-1])
        key = keys.get(names[-1])
        value = _SCALAR if key is None else pattern.take(key)
        quote = "" if key is None or key == "size" else '"'
        pieces += [before, re.escape(name), colon, quote, value, quote, after, re.escape(end)]
        position = member.end()
        if end == "}" or len(names) > MOST_COLUMNS:
            return (pattern, "".join(pieces)) if names == list(fields) else None
    return None


class PlainLines:
    """The lines of a source, and in place of plain ones ``PlainRows``."""

    def __init__(self, source: Source, faults: Faults, pattern: Pattern | None = None) -> None:
        """Take lines of ``source``; if there is a ``pattern`` from the beginning, there is no other."""
        self._blocks = source.blocks(faults, "keep")
        self._pattern = pattern
        self._lessons = 0 if pattern else MOST_LESSONS
        self._number, self._place = 1, 0
        self._lines: Sequence[str] = ()
        self._columns: Columns | None = None  # of the lines from ``_begin`` on, if they have been looked at
        self._begin = 0

    @property
    def wants_lesson(self) -> bool:
        """Whether there is no pattern now, and may be one."""
        return self._pattern is None and self._lessons > 0

    @property
    def last_line(self) -> str:
        """The line that was taken last."""
        return self._lines[self._place - 1]

    def learn(self, pattern: Pattern | None) -> None:
        """Take the pattern that the last line has taught; it counts for the lines after it."""
        self._lessons -= 1
        self._pattern, self._columns = pattern, None

    def items(self) -> Iterator[tuple[int, str | PlainRows]]:
        """All lines, of which each is a row by itself, with their numbers; plain ones as rows."""
        while True:
            if (plain := self.take_plain()) is not None:
                yield plain.lines[0], plain
            elif (line := self.take_line()) is not None:
                yield line
            else:
                return

    def take_line(self) -> tuple[int, str] | None:
        """The next line; None: there is none."""
        if not self._has_line():
            return None
        self._place += 1
        return self._number + self._place - 1, self._lines[self._place - 1]

    def take_plain(self) -> PlainRows | None:
        """The plain rows that come next, up to one that is not plain; None: the next line is not plain."""
        if not self._has_line() or self._pattern is None:
            return None
        if self._columns is None:
            self._columns, self._begin = self._match_block(self._pattern), self._place
        urls, begin = self._columns["url"], self._place - self._begin
        if urls[begin] is None:
            return None
        try:
            end = urls.index(None, begin)
        except ValueError:
            end = len(urls)
        lines = range(self._number + self._place, self._number + self._begin + end)
        self._place = self._begin + end
        return self._pattern.make_rows(lines, self._columns, begin, end)

    def _has_line(self) -> bool:
        while self._place >= len(self._lines):
            block = next(self._blocks, None)
            if block is None:
                return False
            (self._number, self._lines), self._place, self._columns = block, 0, None
        return True

    def _match_block(self, pattern: Pattern) -> Columns:
        """Match the rest of the block; if none is plain, the next row teaches another pattern."""
        lines = self._lines[self._place :] if self._place else self._lines
        text = "\n".join(lines)
        if len(text) > MOST_CHARS and max(map(len, lines)) > MOST_CHARS:
            return {"url": [None] * len(lines)}
        columns = pattern.find(text)
        if self._lessons and not any(columns["url"]):
            self._pattern = None
        return columns


class PlainElements:
    """Takes plain elements of an array that is read from a window of text."""

    def __init__(self, document: Document, find_keys: Callable[[object], Mapping[str, str]]) -> None:
        """``find_keys``: column -> native key, for a row that has gone the usual way."""
        self._document = document
        self._find_keys = find_keys
        self._pattern: Pattern | None = None
        self._lessons = MOST_LESSONS
        self._misses = 0

    def take(self, text: str, position: int, line: int, last: object) -> tuple[PlainRows, int] | None:
        """The plain elements from ``position`` on, which is in ``line``, and the position behind them.

        ``last`` is the element before them, which teaches the pattern.
        """
        if self._pattern is None:
            if not self._lessons:
                return None
            self._lessons -= 1
            begin = _NO_SPACE.search(text, position)
            keys = self._find_keys(last)
            written = begin and _write_object(text, begin.start(), last, keys, self._document)
            if written is None:
                return None
            self._pattern = written[0].compile_elements(written[1])
        columns = self._pattern.find(text[position : position + ELEMENTS_CHARS])
        elements = columns["element"]
        if not elements or elements[0] is None:
            self._misses += 1
            if self._misses >= MOST_MISSES:
                self._pattern, self._misses = None, 0
            return None
        self._misses, end = 0, len(elements) - elements.count(None)
        lines = [*accumulate((spaces.count("\n") for spaces in columns["spaces"][:end]), initial=line)][1:]
        rows = self._pattern.make_rows(lines, columns, 0, end)
        return rows, position + sum(map(len, elements[:end]))
