"""The names of formats, their detection and their readers.

The beginning of the content decides if it can, as endings may be wrong; else the file's ending decides. If
two readings are possible, none is chosen: the user has to name the format.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import BinaryIO

from cfetch.base.config.reading import ReadingOptions
from cfetch.base.registry import import_object
from cfetch.base.schemes import GS, S3, WEB_PATTERN
from cfetch.manifest.compressed import ENDINGS as COMPRESSED
from cfetch.manifest.faults import BrokenDocumentError, Faults
from cfetch.manifest.formats.not_lists import MESSAGES, find_kind, find_text_kind, is_workbook
from cfetch.manifest.formats.table import (
    FORMATS,
    INDEX,
    QUERY,
    Format,
    Reader,
    ask_sign,
    find_reader,
    list_foreign_formats,
    parse_endings,
)
from cfetch.manifest.rows import Document, Row
from cfetch.manifest.source import HEAD_BYTES, Source

_NO_LINES_OF_URLS = frozenset({"json", "jsonl", "metalink", "parquet"})
_TOML = re.compile(r"\[\[?(?!true|false|null)[A-Za-z][\w.-]*\]\]?[ \t]*\r?\n")  # a table and no array
_BARE_URL = re.compile(rf"{WEB_PATTERN}://[^\s,;|\"']+\Z")
_LINK = re.compile(f"{WEB_PATTERN}://")

_STATEMENT_ID = re.compile(r'"statement_id"\s*:\s*"([A-Za-z0-9_-]{1,100})"')

_ENDINGS = parse_endings()
_PARQUET = b"PAR1"
_PLAYLIST = "#EXTM3U"
_STORAGE_TRANSFER = "TsvHttpData-1.0"
_PROJECT = "cfetch.plugins.formats.package_index:is_project_page"
_DIRECTORY = "cfetch.plugins.formats.html_index:is_directory_index"

_GOOGLE = re.compile(
    rb'"url":\s*"%(start)s[^"]*",\s*"type":\s*"(?:cloud_object|prefix)"'
    rb'|"type":\s*"cloud_object"[^{}]{0,1000}"url":\s*"%(start)s' % {b"start": f"(?:{GS}|{S3})://".encode()}
)
"""What ``gcloud storage ls --json`` writes; its keys alone may be those of any table."""

_HTML = re.compile(
    r"(?:<\?xml[^>]{0,200}>|<!--[^>]{0,1000}-->|\s){0,4}<(?:!doctype\s+html|html|head|body|h1|pre)\b",
    re.IGNORECASE,
)
_BUCKET = re.compile(r"<(?:ListBucketResult|EnumerationResults)\b")
_SITEMAP = re.compile(r"<(?:urlset|sitemapindex)\b")
_ROOT = re.compile(
    r"(?:\s|<\?[^>]{0,1000}>|<!--.{0,4000}?-->|<!doctype[^>]{0,1000}>)*+<([A-Za-z][\w:.-]*)",
    re.DOTALL | re.IGNORECASE,
)
_HTML_TAGS = frozenset({
    "a", "b", "br", "center", "div", "dl", "font", "form", "h2", "h3", "header", "hr", "i", "img", "li",
    "link", "main", "meta", "nav", "ol", "p", "script", "section", "span", "strong", "style", "table",
    "tbody", "td", "th", "title", "tr", "tt", "ul",
})  # fmt: skip
_MARKUP = {root: name for name, format_ in FORMATS.items() for root in format_.roots.split()}
"""Formats by the name of an XML document's root."""

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
_LINKED = frozenset({"html", "xml", "text", "within"})
"""Kinds of texts that may hold links, of which a refusal tells the number."""


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
        if name == "foreign-json":
            from cfetch.manifest.formats.json_links import advise_queries  # only a refusal advises

            if not (way := advise_queries(source)):
                yield from find_reader("json")(source, document, faults)
                return
        if name in _LINKED and not address:
            from cfetch.manifest.formats.link_text import advise_links  # the same

            way += advise_links(source)
        raise BrokenDocumentError(0, f"{message}{way}")

    return refuse


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
    if head.startswith("{"):
        from cfetch.manifest.formats.json_kind import find_json_kind  # most lists are no JSON

        return find_json_kind(start, ending, source, options)
    if head.startswith("[") and not _TOML.match(head):
        if _GOOGLE.search(start):
            return "bucket-json"
        from cfetch.manifest.formats.json_kind import find_kind_of_array  # the same

        known, has_url = find_kind_of_array(start)
        is_table = has_url or (options is not None and options.names_columns)
        return "json" if not known or (known == "bucket-json" and is_table) else known
    if head.startswith("<"):
        return _markup_kind(head, ending)
    if head.startswith(_STORAGE_TRANSFER):
        return "tsv-http-data"
    lines = [line.rstrip("\r") for line in head.split("\n")]
    content = [line for line in lines if line and line[0] != "#" and line != "@EXPLICIT"][:_LOOKED_AT]
    if ending in ("", "urls") and content and all(map(_BARE_URL.match, content)) and head[:7] != _PLAYLIST:
        return "csv" if _names_urls(options) else "urls"
    first = content[0] if content else ""
    return (
        find_text_kind(content)
        or _kind_by_signs(FORMATS, first, head, content)
        or _kind_of_table(first, content, ending, options)
        or (AMBIGUOUS if content and ending != "csv" and all(map(URL_AND_MORE.match, content)) else "")
        or ("urls" if ending in _NO_LINES_OF_URLS and _LINK.match(first) else "")
        or _kind_by_signs(list_foreign_formats(), first, head, content)
        or ("within" if ending in ("", "urls") and _has_links_within(content) else "")
        or ("text" if ending == "urls" and _is_only_words(content) else "")
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


def _is_only_words(lines: Sequence[str]) -> bool:
    """Whether lines with spaces have no full stop and no slash in them, as a path nearly always has."""
    return any(" " in line.strip() for line in lines) and not any(set(line) & set("./") for line in lines)


def _is_prose(lines: Sequence[str]) -> bool:
    """Whether no line is an absolute link, and one line has a space or none has a dot or a slash."""
    if not lines or any("://" in line for line in lines):
        return False
    return any(" " in line.strip() for line in lines) or not any(set(line) & set("./") for line in lines)


def _markup_kind(head: str, ending: str) -> str:
    if _HTML.match(head):
        return (
            "package-index" if ask_sign(_PROJECT, head) else INDEX if ask_sign(_DIRECTORY, head) else "html"
        )
    if _BUCKET.search(head):
        return "bucket-xml"
    root = _ROOT.match(head)
    if root is None or ending == "metalink":
        return "metalink"
    if _SITEMAP.search(head):
        return "sitemap"
    name = root[1].rpartition(":")[2].lower()
    return _MARKUP.get(name) or ("html" if name in _HTML_TAGS else "xml")


def _suffix(name: str) -> str:
    """The ending that tells the format, in lower case; ``.gz`` and similar endings are skipped."""
    path = PurePosixPath(name.partition("?")[0].lower())
    return PurePosixPath(path.stem).suffix if path.suffix in COMPRESSED else path.suffix


def _kind_of_table(first: str, content: Sequence[str], ending: str, options: ReadingOptions | None) -> str:
    """``csv`` if the first line names a column of URLs, or has tabs and one URL as a cell; else empty."""
    if ending == "csv" or _names_urls(options):
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
    return "csv" if ending in ("", "urls") and _is_table(content) else ""


def _has_links_within(content: list[str]) -> bool:
    from cfetch.manifest.formats.link_text import has_links_within  # few lists are none of the known kinds

    return has_links_within(content)


def _names_urls(options: ReadingOptions | None) -> bool:
    """Whether the user says which columns of a table have the URLs."""
    return options is not None and (options.url_column or options.url_template) is not None


def _is_table(content: Sequence[str]) -> bool:
    """Whether lines have at least three cells each, as many as the first, which are names and no links."""
    if len(content) < 2 or "://" in content[0]:
        return False
    from cfetch.manifest.formats.csv_table import split_line  # a plain list of URLs is told without it

    for delimiter in "\t,;":
        counts = {len(split_line(line, delimiter)) for line in content}
        if len(counts) == 1 and min(counts) > 2 and (delimiter == "\t" or "://" in content[1]):
            return True
    return False
