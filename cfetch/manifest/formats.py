"""The seam between formats and the rest: a name, how to know it, and a reader that yields rows.

What the content begins with decides where it can, for endings lie; the file's ending decides what is left.
"""

import re
from collections.abc import Callable, Iterator
from pathlib import PurePosixPath

from cfetch.errors import UsageError
from cfetch.manifest.csv_table import read_csv
from cfetch.manifest.faults import Faults
from cfetch.manifest.json_document import read_json
from cfetch.manifest.json_lines import read_json_lines
from cfetch.manifest.rows import Document, Row
from cfetch.manifest.source import Source
from cfetch.manifest.sql_statement import read_sql_statement
from cfetch.manifest.url_list import read_url_list

__all__ = ["READERS", "Reader", "detected", "reader_for"]

Reader = Callable[[Source, Document, Faults], Iterator[Row]]
"""Yields rows, tells the document what holds for all of them, adds faults; raises ``BrokenDocumentError``."""

READERS: dict[str, Reader] = {
    "csv": read_csv,
    "databricks-sql": read_sql_statement,
    "json": read_json,
    "jsonl": read_json_lines,
    "urls": read_url_list,
}

_ENDINGS = {
    ".csv": "csv",
    ".json": "json",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".txt": "urls",
}

_LEXEME = re.compile(r'"(?:[^"\\]|\\.)*"|[][{}:]')
_SQL_KEYS = {"external_links", "statement_id", "result"}


def reader_for(source: Source, name: str | None) -> Reader:
    """The reader of that format, or of the detected one.

    Raises:
        UsageError: there is no format of that name.
    """
    name = name or detected(source)
    if name not in READERS:
        raise UsageError(f"no manifest format is called {name!r}; known are {', '.join(sorted(READERS))}")
    return READERS[name]


def detected(source: Source) -> str:
    """The name of the format that ``source`` seems to have."""
    head = source.head().lstrip("\ufeff \t\r\n")
    ending = _ENDINGS.get(PurePosixPath(source.name.partition("?")[0]).suffix.lower(), "")
    if head.startswith("{"):
        return _json_kind(head, ending)
    if head.startswith("["):
        return "json"
    if ending:
        return ending
    columns = [cell.strip('" ') for cell in head.partition("\n")[0].rstrip("\r").split(",")]
    return "csv" if "url" in columns else "urls"


def _json_kind(head: str, ending: str) -> str:
    keys, end = _first_object(head)
    if keys & _SQL_KEYS and "files" not in keys:
        return "databricks-sql"
    if "files" in keys:
        return "json"
    is_lines = "url" in keys or ending == "jsonl" or (end is not None and head[end:].strip())
    return "jsonl" if is_lines else "json"


def _first_object(head: str) -> tuple[set[str], int | None]:
    """The keys of the first object that ``head`` shows, and where it ends if it does."""
    keys: set[str] = set()
    depth, last = 0, ""
    for match in _LEXEME.finditer(head):
        lexeme = match.group()
        if lexeme in "{[":
            depth += 1
        elif lexeme in "}]":
            depth -= 1
            if depth == 0:
                return keys, match.end()
        elif lexeme == ":" and depth == 1:
            keys.add(last.strip('"'))
        last = lexeme
    return keys, None
