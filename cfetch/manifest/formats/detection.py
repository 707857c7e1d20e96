"""The names of formats, their detection and their readers.

The beginning of the content decides if it can, as endings may be wrong; else the file's ending decides. If
two readings are possible, none is chosen: the user has to name the format.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import BinaryIO, NamedTuple

from cfetch.base.config.reading import ReadingOptions
from cfetch.base.schemes import GS, S3, WEB_PATTERN
from cfetch.manifest.compressed import ENDINGS as COMPRESSED
from cfetch.manifest.faults import BrokenDocumentError, Faults
from cfetch.manifest.formats.not_lists import MESSAGES, find_kind
from cfetch.manifest.formats.table import (
    FORMATS,
    INDEX,
    Format,
    Reader,
    ask_sign,
    find_reader,
    list_foreign_formats,
    parse_endings,
    parse_signs,
)
from cfetch.manifest.rows import Document, Row
from cfetch.manifest.source import HEAD_BYTES, MAX_DOCUMENT_BYTES, Source

_NO_LINES_OF_URLS = frozenset({"json", "jsonl", "metalink", "parquet"})
_BARE_URL = re.compile(rf"{WEB_PATTERN}://[^\s,;|\"']+\Z")
_LINK = re.compile(f"{WEB_PATTERN}://")

_LEXEME = re.compile(rb'"([^"\\]*+(?:\\.[^"\\]*+)*+)(?:"(?:\s*+(:))?)?|([\[{])|([\]}])', re.DOTALL)
"""A string or a bracket; ``lastindex`` tells which. A string without an end is one too, and repetitions give
nothing back: so no byte is looked at again and again, and no place is remembered for each."""

_KEY, _OPENING, _CLOSING = 2, 3, 4  # groups of it; a string that is no key is 1
_NO_SPACE = re.compile(rb"\S")
_DEEPEST = 1000  # Python's reader of JSON goes no deeper, so the rest of such a document is of no use
_SQL_KEYS = {"external_links", "statement_id", "result"}
_STATEMENT_ID = re.compile(r'"statement_id"\s*:\s*"([A-Za-z0-9_-]{1,100})"')
_TELLING_KEYS = {*_SQL_KEYS, "url"}


_KNOWN_OBJECTS = parse_signs("objects", FORMATS) | {
    "inventory-manifest": [frozenset({"sourceBucket", "fileSchema"})]
}
_KNOWN_ARRAYS = parse_signs("arrays", FORMATS)
_KNOWN_FILES = parse_signs("files", FORMATS)  # a native manifest has ``url`` there
_KNOWN_LINES = parse_signs("lines", FORMATS)
_ENDINGS = parse_endings()
_PARQUET = b"PAR1"
_STORAGE_TRANSFER = "TsvHttpData-1.0"
_PROJECT = "cfetch.plugins.formats.package_index:is_project_page"
_DIRECTORY = "cfetch.plugins.formats.html_index:is_directory_index"

_GOOGLE = re.compile(
    rb'"url":\s*"%(start)s[^"]*",\s*"type":\s*"(?:cloud_object|prefix)"'
    rb'|"type":\s*"cloud_object"[^{}]{0,1000}"url":\s*"%(start)s' % {b"start": f"(?:{GS}|{S3})://".encode()}
)
"""What ``gcloud storage ls --json`` writes; its keys alone may be those of any table."""

_KNOWN = (_KNOWN_OBJECTS, _KNOWN_ARRAYS, _KNOWN_FILES, _KNOWN_LINES)
_WATCHED = {"files", *_TELLING_KEYS}.union(
    *(sign for known in _KNOWN for signs in known.values() for sign in signs)
)

_HTML = re.compile(
    r"(?:<\?xml[^>]{0,200}>|<!--[^>]{0,1000}-->|\s){0,4}<(?:!doctype\s+html|html|head|body|h1|pre)\b",
    re.IGNORECASE,
)
_BUCKET = re.compile(r"<(?:ListBucketResult|EnumerationResults)\b")
_SITEMAP = re.compile(r"<(?:urlset|sitemapindex)\b")
_LOOKED_AT = 20  # lines, if one line is not enough to decide


def reader_for(source: Source, options: ReadingOptions) -> Reader:
    """The reader of the format that ``options`` name, or else of the detected format.

    Raises:
        UsageError: there is no format of that name.
    """
    name = options.from_format or detect_format(source, options)
    if name in MESSAGES or name == AMBIGUOUS:
        return _make_refusal(name)
    return find_reader(name)


def statement_id_of(file: BinaryIO) -> str | None:
    """The ``statement_id`` at the beginning of a statement's reply; None for any other document."""
    file.seek(0)
    head = file.read(HEAD_BYTES).decode("utf-8", "replace")
    match = _STATEMENT_ID.search(head) if head.lstrip().startswith("{") else None
    return match[1] if match else None


AMBIGUOUS = "url-and-more"
URL_AND_MORE = re.compile(r"(?P<url>[A-Za-z][A-Za-z0-9+.-]*://[^ ]+) (?P<path>[^ ].*)\Z")
"""A line of a URL, a space and more text; it may also be a URL with a space in it."""


def _make_refusal(name: str) -> Reader:
    message = MESSAGES.get(name) or (
        "its lines are a URL, a space and more, which may be a path or belong to the URL; say which by "
        "--from-format annex or --from-format urls"
    )

    def refuse(source: Source, document: Document, faults: Faults) -> Iterator[Row]:
        # a table of patterns that only a page of a browser needs
        from cfetch.manifest.formats.landing_pages import find_list_address

        address = find_list_address(source.own_url) if name == "html" and source.own_url else None
        way = f"; its list of files is {address}: give that" if address else ""
        raise BrokenDocumentError(0, f"{message}{way}")

    return refuse


def detect_format(source: Source, options: ReadingOptions | None = None) -> str:
    """The name of the format that ``source`` seems to have; it may be a format that cfetch refuses."""
    start = source.read(0, HEAD_BYTES)
    if start.startswith(_PARQUET):
        return "parquet"
    if kind := find_kind(start):
        return kind
    head = source.head()
    ending = _ENDINGS.get(_suffix(source.name), "")
    if head.startswith("{"):
        return _json_kind(start, ending, source, options)
    if head.startswith("["):
        if _GOOGLE.search(start):
            return "bucket-json"
        keys = _first_object(start.partition(b"[")[2]).keys
        known = _find_known(keys, _KNOWN_ARRAYS)
        is_table = "url" in keys or (options is not None and options.names_columns)
        return "json" if not known or (known == "bucket-json" and is_table) else known
    if head.startswith("<"):
        return _markup_kind(head)
    if head.startswith(_STORAGE_TRANSFER):
        return "tsv-http-data"
    lines = [line.rstrip("\r") for line in head.split("\n")]
    content = [line for line in lines if line and line[0] != "#"][:_LOOKED_AT]
    if ending in ("", "urls") and content and all(map(_BARE_URL.match, content)):
        return "csv" if options is not None and options.url_column is not None else "urls"
    first = content[0] if content else ""
    return (
        _kind_by_signs(FORMATS, first, head, content)
        or _kind_of_table(first, ending, options)
        or (AMBIGUOUS if content and ending != "csv" and all(map(URL_AND_MORE.match, content)) else "")
        or ("urls" if ending in _NO_LINES_OF_URLS and _LINK.match(first) else "")
        or _kind_by_signs(list_foreign_formats(), first, head, content)
        or ending
        or ("text" if _is_prose(content) else "urls")
    )


def _kind_by_signs(formats: Mapping[str, Format], first: str, head: str, content: Sequence[str]) -> str:
    """The first of the formats that a sign in the text tells; empty if there is none."""
    asked = (("first_line", first), ("head", head), ("content", content))
    for name, format_ in formats.items():
        for kind, text in asked:
            place = getattr(format_, kind)
            if place and text and ask_sign(place, text):
                return name
    return ""


def _is_prose(lines: Sequence[str]) -> bool:
    """Whether no line is an absolute link, and one line has a space or none has a dot or a slash."""
    if not lines or any("://" in line for line in lines):
        return False
    return any(" " in line.strip() for line in lines) or not any(set(line) & set("./") for line in lines)


def _markup_kind(head: str) -> str:
    if _HTML.match(head):
        return (
            "package-index" if ask_sign(_PROJECT, head) else INDEX if ask_sign(_DIRECTORY, head) else "html"
        )
    if _BUCKET.search(head):
        return "bucket-xml"
    return "sitemap" if _SITEMAP.search(head) else "metalink"


def _suffix(name: str) -> str:
    """The ending that tells the format, in lower case; ``.gz`` and similar endings are skipped."""
    path = PurePosixPath(name.partition("?")[0].lower())
    return PurePosixPath(path.stem).suffix if path.suffix in COMPRESSED else path.suffix


def _kind_of_table(first: str, ending: str, options: ReadingOptions | None) -> str:
    """``csv`` if the first line names a column of URLs, or has tabs and one URL as a cell; else empty."""
    if ending == "csv" or (options is not None and options.url_column is not None):
        return "csv"
    # the reader of tables: a plain list of URLs is told without it
    from cfetch.manifest.formats.csv_table import DELIMITERS, find_url_cell, has_url_column, split_line

    for delimiter in DELIMITERS:
        cells = split_line(first, delimiter)
        if has_url_column(cells) and "://" not in first:
            return "csv"
        if "url" in [cell.strip() for cell in cells] and delimiter == "," and ending != "urls":
            return "csv"
        if delimiter == "\t" and len(cells) > 1 and find_url_cell(cells) is not None:
            return "csv"
    return ""


def _json_kind(data: bytes, ending: str, source: Source, options: ReadingOptions | None) -> str:
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
    if "files" in keys:
        return ("" if names_columns else _find_known(first.listed, _KNOWN_FILES)) or "json"
    is_on_a_line = "url" in keys and b"\n" not in data[: first.end]
    is_lines = is_on_a_line or ending == "jsonl" or not is_alone
    return "jsonl" if is_lines else "json"


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
