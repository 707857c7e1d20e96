"""The table of formats: for each its reader, and the signs by which it is recognised. One row is one format.

A reader, or a sign that is a function, is written as ``module:function`` and imported when it is asked for:
a plain list of URLs imports none of them. Another distribution adds a format by an entry point of the group
``cfetch.formats`` whose object is a ``Format``; its signs in text are asked where no format of cfetch is
sure. JSON of such a format is read where ``--from-format`` names it.
"""

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, NamedTuple, Protocol

from cfetch.base.clock import Clock
from cfetch.base.errors import CfetchError, UsageError
from cfetch.base.registry import has_plugins, import_object, import_part, list_foreign
from cfetch.manifest.faults import BrokenDocumentError, Faults
from cfetch.manifest.rows import Document, Row
from cfetch.manifest.source import Source

Reader = Callable[[Source, Document, Faults], Iterator[Row]]
"""Yields rows, sets the document's values for all rows, adds faults; raises ``BrokenDocumentError``."""


class Format(NamedTuple):
    """How a format is read and recognised; all but ``reader`` may be left out.

    Signs in JSON are sets of keys: a comma separates the sets, a blank the keys of a set. ``objects``: the
    document is an object with all keys of one set; ``arrays``: so is its first element; ``files``: so is the
    first object in its ``files``; ``lines``: so is the object on its first line. ``roots`` are names
    of the root of an XML document, in lower case. Signs in text are functions:
    ``first_line`` takes the first line that is no comment, ``head`` the beginning of the text, ``content``
    the first lines. ``endings`` decide where no sign does. ``more`` finds what a document had from a server
    leaves to others, such as further pages: it takes the source and gives a ``Continued``, or None.
    """

    reader: str
    objects: str = ""
    arrays: str = ""
    files: str = ""
    lines: str = ""
    roots: str = ""
    first_line: str = ""
    head: str = ""
    content: str = ""
    endings: str = ""
    more: str = ""


class Continued(Protocol):
    """A list whose rest has to be asked for; ``notes`` for the user are complete after ``list_files``."""

    notes: list[str]

    @property
    def doubt(self) -> str | None:
        """Why files may be missing; None: none are."""

    def list_files(self, clock: Clock, network: Any) -> Iterator[dict[str, object]]:  # noqa: ANN401 - the wire's
        """Yield the rows of the whole list. Raises UsageError: a part of it cannot be had."""


_HERE = "cfetch.manifest.formats."
_PLUGIN = "cfetch.plugins.formats."

INDEX = "html-index"
QUERY = f"{_PLUGIN}json_query:read_query"
"""The reader of any JSON, by an expression of the user."""

FORMATS: dict[str, Format] = {
    "json": Format(f"{_HERE}json_document:read_json", endings=".json"),
    "jsonl": Format(f"{_HERE}json_lines:read_json_lines", endings=".jsonl .ndjson"),
    "csv": Format(f"{_HERE}csv_table:read_csv", endings=".csv .tsv"),
    "urls": Format(f"{_HERE}url_list:read_url_list", endings=".txt"),
    "databricks-sql": Format(f"{_HERE}sql_statement:read_sql_statement"),
    "hls": Format(f"{_PLUGIN}hls_playlist:read_playlist", head=f"{_PLUGIN}hls_playlist:is_playlist"),
    "sha256sum": Format(
        f"{_PLUGIN}checksum_list:read_checksum_list",
        first_line=f"{_PLUGIN}checksum_list:is_checksum_line",
        endings=".md5 .sha1 .sha224 .sha256 .sha384 .sha512 .b2 .b3",
    ),
    "aria2": Format(f"{_PLUGIN}aria2_input:read_aria2_input", head=f"{_PLUGIN}aria2_input:is_aria2_input"),
    "bagit": Format(
        f"{_PLUGIN}bagit_fetch:read_bagit_fetch", first_line=f"{_PLUGIN}bagit_fetch:is_fetch_line"
    ),
    "pooch": Format(
        f"{_PLUGIN}pooch_registry:read_pooch_registry", first_line=f"{_PLUGIN}pooch_registry:is_registry_line"
    ),
    "apt-uris": Format(f"{_PLUGIN}apt_uris:read_apt_uris", first_line=f"{_PLUGIN}apt_uris:is_uri_line"),
    "aws-s3-ls": Format(
        f"{_PLUGIN}s3_listing:read_s3_listing", first_line=f"{_PLUGIN}s3_listing:is_listing_line"
    ),
    "ena": Format(
        f"{_PLUGIN}ena_report:read_ena_report",
        arrays=", ".join(f"run_accession {kind}_ftp" for kind in ("fastq", "submitted", "sra", "bam")),
        first_line=f"{_PLUGIN}ena_report:is_report_head",
    ),
    "curl": Format(f"{_PLUGIN}curl_config:read_curl_config", content=f"{_PLUGIN}curl_config:has_url_option"),
    "s3-inventory": Format(
        f"{_PLUGIN}s3_listing:read_s3_inventory", content=f"{_PLUGIN}s3_listing:is_inventory"
    ),
    "hashdeep": Format(f"{_PLUGIN}hashdeep:read_hashdeep", first_line=f"{_PLUGIN}hashdeep:is_hashdeep"),
    "sfv": Format(f"{_PLUGIN}crc_list:read_sfv", content=f"{_PLUGIN}crc_list:is_sfv", endings=".sfv"),
    "bucket-ls": Format(
        f"{_PLUGIN}bucket_ls:read_bucket_ls", content=f"{_PLUGIN}bucket_ls:is_bucket_listing"
    ),
    "links": Format(f"{_PLUGIN}links:read_links"),
    "annex": Format(f"{_PLUGIN}annex_batch:read_annex_batch"),
    "tsv-http-data": Format(f"{_PLUGIN}tsv_http_data:read_tsv_http_data"),
    "zenodo": Format(
        f"{_PLUGIN}zenodo:read_zenodo",
        objects="conceptrecid, conceptdoi, recid files, entries enabled, hits links, parent pids files, "
        "created files links metadata",
        arrays="checksum filename filesize links",
        files="key links, checksum links",
    ),
    "figshare": Format(
        f"{_PLUGIN}figshare:read_figshare",
        objects="figshare_url, url_public_api",
        arrays="computed_md5 download_url, url_public_api doi",
        files="computed_md5 download_url",
    ),
    "github-release": Format(
        f"{_PLUGIN}github_release:read_github_release",
        objects="assets_url upload_url, assets tag_name, browser_download_url content_type",
        arrays="assets_url upload_url, browser_download_url content_type",
    ),
    "package-index": Format(
        f"{_PLUGIN}package_index:read_package_index",
        objects="meta files, info urls releases, info urls last_serial",
        files="filename hashes",
    ),
    "stac": Format(
        f"{_PLUGIN}stac:read_stac",
        objects="stac_version, type features",
        more=f"{_PLUGIN}stac_pages:find_pages",
    ),
    "internet-archive": Format(f"{_PLUGIN}internet_archive:read_item", objects="files files_count item_size"),
    "ro-crate": Format(f"{_PLUGIN}ro_crate:read_ro_crate", objects="@context @graph"),
    "croissant": Format(
        f"{_PLUGIN}croissant:read_croissant",
        objects="@context distribution, @context hasPart, @context @type",
        arrays="@context @type",
    ),
    "ckan": Format(f"{_PLUGIN}catalogue_json:read_ckan", objects="success result"),
    "osf": Format(f"{_PLUGIN}catalogue_json:read_osf", objects="data links"),
    "dataverse": Format(f"{_PLUGIN}dataverse:read_dataverse", objects="status data"),
    "datapackage": Format(f"{_PLUGIN}datapackage:read_datapackage", objects="resources"),
    "annex-whereis": Format(f"{_PLUGIN}annex_whereis:read_annex_whereis", lines="file key whereis"),
    "bucket-json": Format(
        f"{_PLUGIN}bucket_json:read_bucket_json",
        objects="Contents, kind items",
        arrays="Key LastModified, Key Size, storage_url, name container properties",
        lines="key type last_modified, key status type lastModified etag",
    ),
    "huggingface-tree": Format(
        f"{_PLUGIN}huggingface_tree:read_huggingface_tree", objects="siblings id", arrays="type oid path"
    ),
    "rclone-lsjson": Format(f"{_PLUGIN}rclone_lsjson:read_rclone_lsjson", arrays="Path Name IsDir"),
    "web-json": Format(f"{_PLUGIN}rclone_lsjson:read_index", arrays="name type mtime, name mod_time is_dir"),
    "lfs": Format(f"{_PLUGIN}lfs_files:read_lfs_files", files="name oid oid_type"),
    INDEX: Format(f"{_PLUGIN}html_index:read_html_index", more=f"{_PLUGIN}index_tree:find_tree"),
    "metalink": Format(f"{_PLUGIN}metalink:read_metalink", roots="metalink", endings=".meta4 .metalink"),
    "parquet": Format(f"{_PLUGIN}parquet_table:read_parquet", endings=".parquet"),
    "feed": Format(f"{_PLUGIN}feed:read_feed", roots="rss feed rdf"),
    "internet-archive-files": Format(f"{_PLUGIN}internet_archive:read_files", roots="files"),
    "repomd": Format(f"{_PLUGIN}repository_xml:read_repomd", roots="repomd"),
    "rpm-primary": Format(f"{_PLUGIN}repository_xml:read_primary", roots="metadata"),
    "nltk": Format(f"{_PLUGIN}repository_xml:read_nltk", roots="nltk_data"),
    "webdav": Format(f"{_PLUGIN}repository_xml:read_webdav", roots="multistatus"),
    "debian": Format(f"{_PLUGIN}debian_index:read_index", head=f"{_PLUGIN}debian_index:is_index"),
    "toml-lock": Format(f"{_PLUGIN}package_lock:read_toml_lock", head=f"{_PLUGIN}package_lock:is_lock"),
    "yarn-lock": Format(f"{_PLUGIN}package_lock:read_yarn_lock", head=f"{_PLUGIN}package_lock:is_yarn_lock"),
    "gem-lock": Format(f"{_PLUGIN}package_lock:read_gem_lock", head=f"{_PLUGIN}package_lock:is_gem_lock"),
    "npm-lock": Format(
        f"{_PLUGIN}package_lock:read_npm_lock",
        objects="lockfileVersion packages, lockfileVersion dependencies",
    ),
    "deno-lock": Format(f"{_PLUGIN}package_lock:read_deno_lock", objects="version remote"),
    "conda-repodata": Format(
        f"{_PLUGIN}conda_repodata:read_repodata", objects="packages packages.conda, packages repodata_version"
    ),
    "cmr": Format(f"{_PLUGIN}catalogue_json:read_cmr", objects="feed"),
    "mendeley": Format(f"{_PLUGIN}catalogue_json:read_mendeley", arrays="content_details filename"),
    "dspace": Format(f"{_PLUGIN}catalogue_json:read_dspace", arrays="retrieveLink sizeBytes"),
    "hal": Format(
        f"{_PLUGIN}hal_files:read_hal_files",
        objects="_links _embedded, _links identifier versionNumber",
        more=f"{_PLUGIN}hal_files:find_pages",
    ),
    "modrinth": Format(f"{_PLUGIN}catalogue_json:read_modrinth", objects="formatVersion game files"),
    "workbook": Format(f"{_PLUGIN}workbook:read_workbook", endings=".xlsx .xlsm .xlsb .xls .ods"),
    "sitemap": Format(f"{_PLUGIN}sitemap:read_sitemap"),
}
"""Name -> format. Where the signs of several hold, the first one counts."""


_ENDINGS_MEANT = {
    "excel": "workbook",
    "xlsx": "workbook",
    "txt": "urls",
    "html": "html-index",
    "ndjson": "jsonl",
}


def find_reader(name: str) -> Reader:
    """The reader of the format called ``name``. Raises UsageError: there is none, or it is not installed."""
    format_ = FORMATS.get(name) or list_foreign_formats().get(name)
    if format_ is None:
        from difflib import get_close_matches  # only a wrong name needs it

        near = get_close_matches(name, {*FORMATS, *_ENDINGS_MEANT, *list_foreign_formats()}, n=1)
        meant = f"did you mean {_ENDINGS_MEANT.get(near[0], near[0])}? " if near else ""
        raise UsageError(f"no manifest format is called {name!r}; {meant}docs/manifests.md lists all")
    reader: Reader = _import(name, format_.reader)
    return reader if name in FORMATS else _name_errors(name, reader)


def _name_errors(name: str, reader: Reader) -> Reader:
    """The reader of another distribution, whose errors that nobody expects name that distribution."""

    def read(source: Source, document: Document, faults: Faults) -> Iterator[Row]:
        try:
            yield from reader(source, document, faults)
        except (BrokenDocumentError, CfetchError):
            raise
        except Exception as error:
            from cfetch.base.entry_points import make_plugin_error  # few readers fail

            raise make_plugin_error("formats", name, error) from error

    return read


def _import(name: str, place: str) -> Any:  # noqa: ANN401 - as the place says
    return import_object(place) if name in FORMATS else import_part("formats", name, place)


@cache
def list_foreign_formats() -> dict[str, Format]:
    """The formats of other distributions. Raises UsageError: one is broken."""
    return {name: format_ for name, format_ in list_foreign("formats") if name not in FORMATS}


def find_more(source: Source, name: str) -> Continued | None:
    """What a document of the format ``name`` leaves to others; None: nothing."""
    format_ = FORMATS.get(name) or list_foreign_formats().get(name)
    if format_ is None or not format_.more:
        return None
    more: Continued | None = _import(name, format_.more)(source)
    return more


def ask_sign(place: str, text: Any) -> bool:  # noqa: ANN401 - a line, lines or a text, as the sign takes it
    """Whether the sign at ``place`` holds; that of a plug-in does not where there are no plug-ins.

    A list in cfetch's own formats is then read without them. The reader of any other one cannot be had.
    """
    if place.startswith(_PLUGIN) and not has_plugins():
        return False
    return bool(import_object(place)(text))


def parse_signs(kind: str, formats: dict[str, Format]) -> dict[str, list[frozenset[str]]]:
    """The sets of keys of one kind (``objects``, ``arrays``, ``files``, ``lines``) by format."""
    return {
        name: [frozenset(keys.split()) for keys in signs.split(",")]
        for name, format_ in formats.items()
        if (signs := getattr(format_, kind))
    }


def parse_endings() -> dict[str, str]:
    """The format by a file's ending."""
    return {ending: name for name, format_ in FORMATS.items() for ending in format_.endings.split()}
