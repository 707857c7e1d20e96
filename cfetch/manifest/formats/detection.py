"""The seam between formats and the rest: a name, how to know it, and a reader that yields rows.

What the content begins with decides where it can, for endings lie; the file's ending decides what is left.
"""

import re
from collections.abc import Callable, Iterator
from pathlib import PurePosixPath

from cfetch.errors import UsageError
from cfetch.manifest.compressed import ENDINGS as COMPRESSED
from cfetch.manifest.faults import Faults
from cfetch.manifest.formats.aria2_input import looks_like_aria2, read_aria2_input
from cfetch.manifest.formats.bagit_fetch import is_fetch_line, read_bagit_fetch
from cfetch.manifest.formats.checksum_list import is_checksum_line, read_checksum_list
from cfetch.manifest.formats.csv_table import read_csv
from cfetch.manifest.formats.json_document import read_json
from cfetch.manifest.formats.json_lines import read_json_lines
from cfetch.manifest.formats.metalink import read_metalink
from cfetch.manifest.formats.parquet_table import MAGIC, read_parquet
from cfetch.manifest.formats.sql_statement import read_sql_statement
from cfetch.manifest.formats.tsv_http_data import FIRST_LINE, read_tsv_http_data
from cfetch.manifest.formats.url_list import read_url_list
from cfetch.manifest.rows import Document, Row
from cfetch.manifest.source import Source

Reader = Callable[[Source, Document, Faults], Iterator[Row]]
"""Yields rows, tells the document what holds for all of them, adds faults; raises ``BrokenDocumentError``."""

READERS: dict[str, Reader] = {
    "aria2": read_aria2_input,
    "bagit": read_bagit_fetch,
    "csv": read_csv,
    "databricks-sql": read_sql_statement,
    "json": read_json,
    "jsonl": read_json_lines,
    "metalink": read_metalink,
    "parquet": read_parquet,
    "sha256sum": read_checksum_list,
    "tsv-http-data": read_tsv_http_data,
    "urls": read_url_list,
}

_ENDINGS = {
    ".csv": "csv",
    ".json": "json",
    ".jsonl": "jsonl",
    ".md5": "sha256sum",
    ".meta4": "metalink",
    ".metalink": "metalink",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
    ".sha1": "sha256sum",
    ".sha256": "sha256sum",
    ".sha512": "sha256sum",
    ".txt": "urls",
}

_LEXEME = re.compile(r'"(?:[^"\\]|\\.)*"|[][{}:]')
_SQL_KEYS = {"external_links", "statement_id", "result"}


def reader_for(source: Source, name: str | None) -> Reader:
    """The reader of that format, or of the detected one.

    Raises:
        UsageError: there is no format of that name.
    """
    name = name or detect_format(source)
    if name not in READERS:
        raise UsageError(f"no manifest format is called {name!r}; known are {', '.join(sorted(READERS))}")
    return READERS[name]


def detect_format(source: Source) -> str:
    """The name of the format that ``source`` seems to have."""
    if source.read(0, len(MAGIC)) == MAGIC:
        return "parquet"
    head = source.head().lstrip("\ufeff \t\r\n")
    ending = _ENDINGS.get(_suffix(source.name), "")
    if head.startswith("{"):
        return _json_kind(head, ending)
    if head.startswith("["):
        return "json"
    if head.startswith("<"):
        return "metalink"
    if head.startswith(FIRST_LINE):
        return "tsv-http-data"
    lines = (line.rstrip("\r") for line in head.split("\n"))
    first = next((line for line in lines if line and line[0] != "#"), "")
    return _kind_of_lines(first, head) or ending or ("csv" if _has_url_column(first) else "urls")


def _suffix(name: str) -> str:
    """The ending that tells the format, in lower case: what stands before ``.gz`` and the like."""
    path = PurePosixPath(name.partition("?")[0].lower())
    return PurePosixPath(path.stem).suffix if path.suffix in COMPRESSED else path.suffix


def _kind_of_lines(first: str, head: str) -> str:
    """What the first line that is no comment tells beyond doubt; empty where the ending decides."""
    if is_checksum_line(first):
        return "sha256sum"
    if looks_like_aria2(head):
        return "aria2"
    if is_fetch_line(first):
        return "bagit"
    return ""


def _has_url_column(first: str) -> bool:
    return "url" in [cell.strip('" ') for cell in first.split(",")]


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
