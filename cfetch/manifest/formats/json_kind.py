"""Tells the format of a document of JSON by its keys; a list that is no JSON needs none of this."""

import re
from typing import NamedTuple

from cfetch.base.config.reading import ReadingOptions
from cfetch.manifest.formats.table import FORMATS, parse_signs
from cfetch.manifest.source import MAX_DOCUMENT_BYTES, Source

_LEXEME = re.compile(rb'"([^"\\]*+(?:\\.[^"\\]*+)*+)(?:"(?:\s*+(:))?)?|([\[{])|([\]}])', re.DOTALL)
"""A string or a bracket; ``lastindex`` tells which. A string without an end is one too, and repetitions give
nothing back: so no byte is looked at again and again, and no place is remembered for each."""

_KEY, _OPENING, _CLOSING = 2, 3, 4  # groups of it; a string that is no key is 1
_NO_SPACE = re.compile(rb"\S")
_DEEPEST = 1000  # Python's reader of JSON goes no deeper, so the rest of such a document is of no use
_SQL_KEYS = {"external_links", "statement_id", "result"}
_TELLING_KEYS = {*_SQL_KEYS, "url"}


_KNOWN_OBJECTS = parse_signs("objects", FORMATS) | {
    "inventory-manifest": [frozenset({"sourceBucket", "fileSchema"})],
    "image-index": [frozenset({"schemaVersion", "manifests"}), frozenset({"schemaVersion", "layers"})],
}
_KNOWN_ARRAYS = parse_signs("arrays", FORMATS)
_KNOWN_FILES = parse_signs("files", FORMATS)  # a native manifest has ``url`` there
_KNOWN_LINES = parse_signs("lines", FORMATS)

_KNOWN = (_KNOWN_OBJECTS, _KNOWN_ARRAYS, _KNOWN_FILES, _KNOWN_LINES)
_NATIVE_KEYS = {"version", "base_url", "url"}
_WATCHED = {"files", *_NATIVE_KEYS, *_TELLING_KEYS}.union(
    *(sign for known in _KNOWN for signs in known.values() for sign in signs)
)


def find_json_kind(data: bytes, ending: str, source: Source, options: ReadingOptions | None) -> str:
    """The format of a document that is an object; the key that decides may come after all its files.

    So more than the beginning ``data`` is read, unless that tells. A native manifest, which may be of any
    size, is told by ``url`` in its first file. The readers of the others take no more than is read here.
    """
    first = _first_object(data)
    is_told = "url" in first.listed or first.keys & _TELLING_KEYS or _find_known(first.keys, _KNOWN_OBJECTS)
    if first.end is None and not is_told and ending != "jsonl":
        data = source.read(0, MAX_DOCUMENT_BYTES)
        first = _first_object(data)
    keys = first.keys
    is_sql = keys & _SQL_KEYS and (keys & _SQL_KEYS != {"result"} or b'"external_links"' in data)
    if is_sql and "files" not in keys:
        return "databricks-sql"
    is_alone = first.end is None or not _NO_SPACE.search(data, first.end)
    if is_alone and ending != "jsonl" and (known := _find_known(keys, _KNOWN_OBJECTS)):
        return known
    names_columns = options is not None and options.names_columns
    is_table = names_columns or ("url" in keys and "etag" not in keys)
    if (known := _find_known(keys, _KNOWN_LINES)) and not is_table:
        return known
    if "files" in keys and ("url" not in keys or is_alone):
        return ("" if names_columns else _find_known(first.listed, _KNOWN_FILES)) or "json"
    is_on_a_line = "url" in keys and b"\n" not in data[: first.end]
    is_lines = is_on_a_line or ending == "jsonl" or not is_alone
    if is_lines:
        return "jsonl"
    return "json" if keys & _NATIVE_KEYS else "foreign-json"


def _find_known(keys: set[str], known: dict[str, list[frozenset[str]]]) -> str:
    return next((name for name, signs in known.items() if any(sign <= keys for sign in signs)), "")


class _First(NamedTuple):
    """The first object of a document: where it ends, if it does, and its keys; of both, those that may tell.

    ``listed``: the keys of the first object in its array ``files``.
    """

    keys: set[str]
    end: int | None
    listed: set[str]


def _first_object(data: bytes) -> _First:
    """Look at each byte once, and keep no more than the keys that may tell."""
    keys: set[str] = set()
    listed: set[str] = set()
    is_listed = False
    depth, top_key = 0, ""
    for match in _LEXEME.finditer(data):
        kind = match.lastindex
        if kind == _OPENING:
            depth += 1
            if depth > _DEEPEST:
                break
        elif kind == _CLOSING:
            depth -= 1
            if depth == 0:
                return _First(keys, match.end(), listed)
            is_listed = is_listed or (depth == 2 and bool(listed))
        elif kind == _KEY and (depth == 1 or (depth == 3 and top_key == "files" and not is_listed)):
            key = match[1].decode("utf-8", "replace")
            if depth == 1:
                top_key = key
            if key in _WATCHED:
                (keys if depth == 1 else listed).add(key)
    return _First(keys, None, listed)


def find_kind_of_array(start: bytes) -> tuple[str, bool]:
    """The format of an array by the keys of its first object, or empty; and whether these name a URL."""
    keys = _first_object(start.partition(b"[")[2]).keys
    return _find_known(keys, _KNOWN_ARRAYS), "url" in keys
