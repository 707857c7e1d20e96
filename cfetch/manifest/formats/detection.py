"""The names of formats, their detection and their readers.

The beginning of the content decides if it can, as endings may be wrong; else the file's ending decides. If
two readings are possible, none is chosen: the user has to name the format.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import PurePosixPath
from typing import NamedTuple

from cfetch.base.config.reading import ReadingOptions
from cfetch.base.errors import UsageError
from cfetch.manifest.compressed import ENDINGS as COMPRESSED
from cfetch.manifest.faults import BrokenDocumentError, Faults
from cfetch.manifest.formats.csv_table import DELIMITERS, find_url_cell, has_url_column, read_csv, split_line
from cfetch.manifest.formats.json_document import read_json
from cfetch.manifest.formats.json_lines import read_json_lines
from cfetch.manifest.formats.landing_pages import find_list_address
from cfetch.manifest.formats.not_lists import MESSAGES, find_kind
from cfetch.manifest.formats.sql_statement import read_sql_statement
from cfetch.manifest.formats.url_list import read_url_list
from cfetch.manifest.formats.whole_json import MAX_DOCUMENT_BYTES
from cfetch.manifest.rows import Document, Row
from cfetch.manifest.source import HEAD_BYTES, Source
from cfetch.plugins.formats.annex_batch import is_annex_line, read_annex_batch
from cfetch.plugins.formats.annex_whereis import read_annex_whereis
from cfetch.plugins.formats.aria2_input import looks_like_aria2, read_aria2_input
from cfetch.plugins.formats.bagit_fetch import is_fetch_line, read_bagit_fetch
from cfetch.plugins.formats.bucket_json import read_bucket_json
from cfetch.plugins.formats.bucket_ls import is_bucket_listing, read_bucket_ls
from cfetch.plugins.formats.checksum_list import is_checksum_line, read_checksum_list
from cfetch.plugins.formats.croissant import read_croissant
from cfetch.plugins.formats.curl_config import is_url_option, read_curl_config
from cfetch.plugins.formats.datapackage import read_datapackage
from cfetch.plugins.formats.dataverse import read_dataverse
from cfetch.plugins.formats.ena_report import KINDS, is_report_head, read_ena_report
from cfetch.plugins.formats.figshare import read_figshare
from cfetch.plugins.formats.github_release import read_github_release
from cfetch.plugins.formats.html_index import is_directory_index, read_html_index
from cfetch.plugins.formats.huggingface_tree import read_huggingface_tree
from cfetch.plugins.formats.lfs_files import read_lfs_files
from cfetch.plugins.formats.package_index import is_project_page, read_package_index
from cfetch.plugins.formats.parquet_table import MAGIC, read_parquet
from cfetch.plugins.formats.pooch_registry import is_registry_line, read_pooch_registry
from cfetch.plugins.formats.rclone_lsjson import read_rclone_lsjson
from cfetch.plugins.formats.ro_crate import read_ro_crate
from cfetch.plugins.formats.s3_listing import (
    is_inventory,
    is_listing_line,
    read_s3_inventory,
    read_s3_listing,
)
from cfetch.plugins.formats.sitemap import read_sitemap
from cfetch.plugins.formats.stac import read_stac
from cfetch.plugins.formats.tsv_http_data import FIRST_LINE, read_tsv_http_data
from cfetch.plugins.formats.zenodo import read_zenodo

Reader = Callable[[Source, Document, Faults], Iterator[Row]]
"""Yields rows, sets the document's values for all rows, adds faults; raises ``BrokenDocumentError``."""

INDEX = "html-index"


def _read_metalink(source: Source, document: Document, faults: Faults) -> Iterator[Row]:
    from cfetch.plugins.formats.metalink import read_metalink  # few lists need a parser of XML

    return read_metalink(source, document, faults)


READERS: dict[str, Reader] = {
    "annex": read_annex_batch,
    "annex-whereis": read_annex_whereis,
    "aria2": read_aria2_input,
    "aws-s3-ls": read_s3_listing,
    "bagit": read_bagit_fetch,
    "bucket-json": read_bucket_json,
    "bucket-ls": read_bucket_ls,
    "croissant": read_croissant,
    "csv": read_csv,
    "curl": read_curl_config,
    "databricks-sql": read_sql_statement,
    "datapackage": read_datapackage,
    "dataverse": read_dataverse,
    "ena": read_ena_report,
    "figshare": read_figshare,
    "github-release": read_github_release,
    INDEX: read_html_index,
    "huggingface-tree": read_huggingface_tree,
    "json": read_json,
    "jsonl": read_json_lines,
    "lfs": read_lfs_files,
    "metalink": _read_metalink,
    "package-index": read_package_index,
    "parquet": read_parquet,
    "pooch": read_pooch_registry,
    "rclone-lsjson": read_rclone_lsjson,
    "ro-crate": read_ro_crate,
    "s3-inventory": read_s3_inventory,
    "sha256sum": read_checksum_list,
    "sitemap": read_sitemap,
    "stac": read_stac,
    "tsv-http-data": read_tsv_http_data,
    "urls": read_url_list,
    "zenodo": read_zenodo,
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
    ".tsv": "csv",
    ".txt": "urls",
}

_NO_LINES_OF_URLS = frozenset({"json", "jsonl", "metalink", "parquet"})
_LINK = re.compile(r"https?://", re.IGNORECASE)

_LEXEME = re.compile(rb'"([^"\\]*+(?:\\.[^"\\]*+)*+)(?:"(?:\s*+(:))?)?|([\[{])|([\]}])', re.DOTALL)
"""A string or a bracket; ``lastindex`` tells which. A string without an end is one too, and repetitions give
nothing back: so no byte is looked at again and again, and no place is remembered for each."""

_KEY, _OPENING, _CLOSING = 2, 3, 4  # groups of it; a string that is no key is 1
_NO_SPACE = re.compile(rb"\S")
_DEEPEST = 1000  # Python's reader of JSON goes no deeper, so the rest of such a document is of no use
_SQL_KEYS = {"external_links", "statement_id", "result"}
_TELLING_KEYS = {*_SQL_KEYS, "url"}


def _parse_signs(**known: str) -> dict[str, list[frozenset[str]]]:
    """Sets of keys by format. A comma separates the sets; an underscore in a name is a dash."""
    return {
        name.replace("_", "-"): [frozenset(keys.split()) for keys in signs.split(",")]
        for name, signs in known.items()
    }


_KNOWN_OBJECTS = _parse_signs(
    zenodo="conceptrecid, conceptdoi, recid files, entries enabled, hits links, parent pids files",
    figshare="figshare_url, url_public_api",
    github_release="assets_url upload_url, assets tag_name, browser_download_url content_type",
    package_index="meta files, info urls releases, info urls last_serial",
    stac="stac_version, type features",
    ro_crate="@context @graph",
    croissant="@context distribution",
    dataverse="status data",
    datapackage="resources",
    bucket_json="Contents",
    huggingface_tree="siblings id",
    inventory_manifest="sourceBucket fileSchema",
)
"""A document that is an object has the first format of which it has all keys of one set."""

_KNOWN_ARRAYS = _parse_signs(
    figshare="computed_md5 download_url, url_public_api doi",
    github_release="assets_url upload_url, browser_download_url content_type",
    zenodo="checksum filename filesize links",
    ena=",".join(f"run_accession {kind}_ftp" for kind in KINDS),
    bucket_json="Key LastModified, Key Size, storage_url, name container properties",
    huggingface_tree="type oid path",
    rclone_lsjson="Path Name IsDir",
)
"""Formats of documents that are arrays, by the keys of the first object in the array."""

_KNOWN_FILES = _parse_signs(
    package_index="filename hashes",
    zenodo="key links, checksum links",
    figshare="computed_md5 download_url",
    lfs="name oid oid_type",
)
"""Formats by the keys of the first file in ``files``; a native manifest has ``url`` there."""

_KNOWN_LINES = _parse_signs(
    annex_whereis="file key whereis",
    bucket_json="key type last_modified, key status type lastModified etag",
)
"""Formats of lines of JSON, by the keys of the object on the first line."""

_GOOGLE = re.compile(
    rb'"url":\s*"(?:gs|s3)://[^"]*",\s*"type":\s*"(?:cloud_object|prefix)"'
    rb'|"type":\s*"cloud_object"[^{}]{0,1000}"url":\s*"(?:gs|s3)://'
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
    if name not in READERS:
        raise UsageError(f"no manifest format is called {name!r}; known are {', '.join(sorted(READERS))}")
    return READERS[name]


AMBIGUOUS = "url-and-more"


def _make_refusal(name: str) -> Reader:
    message = MESSAGES.get(name) or (
        "its lines are a URL, a space and more, which may be a path or belong to the URL; say which by "
        "--from-format annex or --from-format urls"
    )

    def refuse(source: Source, document: Document, faults: Faults) -> Iterator[Row]:
        address = find_list_address(source.own_url) if name == "html" and source.own_url else None
        way = f"; its list of files is {address}: give that" if address else ""
        raise BrokenDocumentError(0, f"{message}{way}")

    return refuse


def detect_format(source: Source, options: ReadingOptions | None = None) -> str:
    """The name of the format that ``source`` seems to have; it may be a format that cfetch refuses."""
    start = source.read(0, HEAD_BYTES)
    if start.startswith(MAGIC):
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
    if head.startswith(FIRST_LINE):
        return "tsv-http-data"
    lines = [line.rstrip("\r") for line in head.split("\n")]
    content = [line for line in lines if line and line[0] != "#"][:_LOOKED_AT]
    first = content[0] if content else ""
    return (
        _kind_of_lines(first, head)
        or ("curl" if any(map(is_url_option, content)) else "")
        or ("s3-inventory" if is_inventory(content) else "")
        or ("bucket-ls" if is_bucket_listing(content) else "")
        or _kind_of_table(first, ending, options)
        or (AMBIGUOUS if content and all(map(is_annex_line, content)) and ending != "csv" else "")
        or ("urls" if ending in _NO_LINES_OF_URLS and _LINK.match(first) else "")
        or ending
        or ("text" if _is_prose(content) else "urls")
    )


def _is_prose(lines: Sequence[str]) -> bool:
    """Whether no line is an absolute link, and one line has a space or none has a dot or a slash."""
    if not lines or any("://" in line for line in lines):
        return False
    return any(" " in line.strip() for line in lines) or not any(set(line) & set("./") for line in lines)


def _markup_kind(head: str) -> str:
    if _HTML.match(head):
        return "package-index" if is_project_page(head) else INDEX if is_directory_index(head) else "html"
    if _BUCKET.search(head):
        return "bucket-xml"
    return "sitemap" if _SITEMAP.search(head) else "metalink"


def _suffix(name: str) -> str:
    """The ending that tells the format, in lower case; ``.gz`` and similar endings are skipped."""
    path = PurePosixPath(name.partition("?")[0].lower())
    return PurePosixPath(path.stem).suffix if path.suffix in COMPRESSED else path.suffix


def _kind_of_lines(first: str, head: str) -> str:
    """The format, if the first line that is no comment tells it for sure; else empty."""
    signs = (
        ("sha256sum", is_checksum_line(first)),
        ("aria2", looks_like_aria2(head)),
        ("bagit", is_fetch_line(first)),
        ("pooch", is_registry_line(first)),
        ("aws-s3-ls", is_listing_line(first)),
        ("ena", is_report_head(first)),
    )
    return next((name for name, holds in signs if holds), "")


def _kind_of_table(first: str, ending: str, options: ReadingOptions | None) -> str:
    """``csv`` if the first line names a column of URLs, or has tabs and one URL as a cell; else empty."""
    if ending == "csv" or (options is not None and options.url_column is not None):
        return "csv"
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
