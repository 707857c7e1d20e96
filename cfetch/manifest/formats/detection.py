"""The names of formats, their detection and their readers.

The beginning of the content decides if it can, as endings may be wrong; else the file's ending decides. If
two readings are possible, none is chosen: the user has to name the format.
"""

import re
from pathlib import PurePosixPath
from typing import BinaryIO

from cfetch.base.config.reading import ReadingOptions
from cfetch.base.registry import import_object
from cfetch.base.schemes import GS, S3, WEB_PATTERN
from cfetch.manifest.compressed import ENDINGS as COMPRESSED
from cfetch.manifest.formats.not_lists import find_kind, is_workbook
from cfetch.manifest.formats.table import FORMATS, QUERY, Reader, find_reader, parse_endings
from cfetch.manifest.source import HEAD_BYTES, Source

_TOML = re.compile(r"\[\[?(?!true|false|null)[A-Za-z][\w.-]*\]\]?[ \t]*\r?\n")  # a table and no array
_OBJECT = re.compile(r"\{\s*(?:[\"}]|\Z)")
_ARRAY = re.compile(r"\[\s*(?:[\[{\"\]0-9-]|true|false|null|\Z)")
"""How JSON begins; templates, Markdown, PowerShell, INI and other languages begin with a bracket too."""

_BARE_URL = re.compile(rf"{WEB_PATTERN}://[^\s,;|\"']+\Z")

_STATEMENT_ID = re.compile(r'"statement_id"\s*:\s*"([A-Za-z0-9_-]{1,100})"')

_ENDINGS = parse_endings()
_PARQUET = b"PAR1"
_PLAYLIST = "#EXTM3U"
_STORAGE_TRANSFER = "TsvHttpData-1.0"

_GOOGLE = re.compile(
    rb'"url":\s*"%(start)s[^"]*",\s*"type":\s*"(?:cloud_object|prefix)"'
    rb'|"type":\s*"cloud_object"[^{}]{0,1000}"url":\s*"%(start)s' % {b"start": f"(?:{GS}|{S3})://".encode()}
)
"""What ``gcloud storage ls --json`` writes; its keys alone may be those of any table."""

_LOOKED_AT = 20  # lines, if one line is not enough to decide


def reader_for(source: Source, options: ReadingOptions) -> Reader:
    """The reader of the format that ``options`` name, or else of the detected format.

    Raises:
        UsageError: there is no format of that name.
    """
    if options.query is not None:
        reader: Reader = import_object(QUERY)
        return reader
    name = options.from_format or detect_format(source, options)
    if name not in FORMATS:
        from cfetch.manifest.formats.advice import MESSAGES, make_refusal  # of lists that cannot be read

        if name in MESSAGES:
            return make_refusal(name)
    return find_reader(name)


def statement_id_of(file: BinaryIO) -> str | None:
    """The ``statement_id`` at the beginning of a statement's reply; None for any other document."""
    file.seek(0)
    head = file.read(HEAD_BYTES).decode("utf-8", "replace")
    match = _STATEMENT_ID.search(head) if head.lstrip().startswith("{") else None
    return match[1] if match else None


def detect_format(source: Source, options: ReadingOptions | None = None) -> str:
    """The name of the format that ``source`` seems to have; it may be a format that cfetch refuses."""
    start = source.read(0, HEAD_BYTES)
    if start.startswith(_PARQUET):
        return "parquet"
    if is_workbook(start):
        return "workbook"
    if kind := find_kind(start):
        return kind
    head = source.head()
    ending = _ENDINGS.get(_suffix(source.name), "")
    if head.startswith("{") and (_OBJECT.match(head) or ending in ("json", "jsonl")):
        from cfetch.manifest.formats.json_kind import find_json_kind  # most lists are no JSON

        return find_json_kind(start, ending, source, options)
    if head.startswith("[") and (_ARRAY.match(head) or ending == "json") and not _TOML.match(head):
        if _GOOGLE.search(start):
            return "bucket-json"
        from cfetch.manifest.formats.json_kind import find_kind_of_array  # the same

        known, has_url = find_kind_of_array(start)
        is_table = has_url or (options is not None and options.names_columns)
        return "json" if not known or (known == "bucket-json" and is_table) else known
    if head.startswith("<"):
        from cfetch.manifest.formats.text_kind import find_kind_of_markup  # most lists are none

        return find_kind_of_markup(head, ending)
    if head.startswith(_STORAGE_TRANSFER):
        return "tsv-http-data"
    lines = [line.rstrip("\r") for line in head.split("\n")]
    content = [line for line in lines if line and line[0] != "#" and line != "@EXPLICIT"][:_LOOKED_AT]
    if ending in ("", "urls") and content and all(map(_BARE_URL.match, content)) and head[:7] != _PLAYLIST:
        return "csv" if options is not None and options.names_urls else "urls"
    from cfetch.manifest.formats.text_kind import find_kind_of_lines  # a plain list of URLs needs no more

    return find_kind_of_lines(content, head, ending, options)


def _suffix(name: str) -> str:
    """The ending that tells the format, in lower case; ``.gz`` and similar endings are skipped."""
    path = PurePosixPath(name.partition("?")[0].lower())
    return PurePosixPath(path.stem).suffix if path.suffix in COMPRESSED else path.suffix
