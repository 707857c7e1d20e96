"""Listings of a bucket in JSON, as the stores' own tools print them.

``aws s3api list-objects-v2`` (the whole, or its ``Contents``), ``gcloud storage ls --json``, ``gcloud storage
objects list``, ``az storage blob list``, and, with an object on each line, ``s5cmd --json ls`` and ``mc ls
--json``. What a listing does not state, such as the bucket in that of ``aws``, comes from the base URL.
"""

import binascii
import re
from collections.abc import Iterator
from typing import Any

from cfetch.base.schemes import AZ, GS, S3, scheme_of
from cfetch.manifest.digests import needs_library
from cfetch.manifest.faults import BrokenDocumentError, Faults, Misfit
from cfetch.manifest.formats.advice import MESSAGES
from cfetch.manifest.formats.json_document import read_array, read_elements
from cfetch.manifest.formats.json_lines import read_plain_lines
from cfetch.manifest.formats.json_links import advise_queries
from cfetch.manifest.formats.whole_json import get_object
from cfetch.manifest.rows import Document, Row
from cfetch.manifest.source import Source
from cfetch.manifest.url_completion import make_relative_url

_GENERATION = re.compile(r"#[0-9]{1,20}\Z")
_DIGITS = re.compile(r"[0-9]{1,20}\Z")
_PREFIXES = ("prefix", "directory", "folder")  # no set: a type may be anything, also unhashable


def read_bucket_json(source: Source, document: Document, faults: Faults) -> Iterator[Row]:
    """The rows: ``url``, ``path``, ``size``, and the hashes that Google and Azure state."""
    prefixes = 0
    for row in _read_entries(source, document, faults):
        entry = row.fields
        if not isinstance(entry, dict):
            yield row  # ``check_row`` reports it
        elif entry.get("type") in _PREFIXES or ("properties" in entry and not entry["properties"]):
            prefixes += 1
        elif not _is_old(entry):
            fields = _make_fields(entry, document)
            if not str(fields["path"]).endswith("/"):  # such a key marks an empty directory
                yield row._replace(fields=fields)
    if prefixes:
        document.note_partial(f"prefixes that are left out: {prefixes}; list all that is below them")


def _read_entries(source: Source, document: Document, faults: Faults) -> Iterator[Row]:
    start = source.head()
    if start.startswith("["):
        yield from read_elements(source)
    elif '"Contents"' in start:
        others: dict[str, Any] = {}
        yield from read_array(source, "Contents", others)
        if others.get("NextToken") or others.get("IsTruncated") is True:
            document.note_partial(
                "the listing goes on: list the bucket without --max-items and --no-paginate"
            )
    elif '"items"' in start:  # the reply of Google's API
        others = {}
        for row in read_array(source, "items", others):
            if others.get("kind", "storage#objects") != "storage#objects":
                break
            yield row
        if others.get("kind") != "storage#objects":
            raise BrokenDocumentError(0, f"{MESSAGES['foreign-json']}{advise_queries(source)}")
        if others.get("nextPageToken"):
            document.note_partial("the listing goes on: gcloud storage ls --json lists a bucket as a whole")
    else:
        yield from read_plain_lines(source, faults)


def _is_old(entry: dict[str, Any]) -> bool:
    """Whether it is a deleted blob of Azure, a snapshot, or a version that is not the current one."""
    return bool(entry.get("deleted") or entry.get("snapshot")) or entry.get("isCurrentVersion") is False


def _make_fields(entry: dict[str, Any], document: Document) -> dict[str, object]:
    if "properties" in entry:
        return _read_azure(entry, document)
    if entry.get("kind") == "storage#object" and "mediaLink" in entry:
        entry = {**entry, "storage_url": f"{GS}://{entry.get('bucket')}/{entry.get('name')}"}
    if "metadata" in entry or "storage_url" in entry:
        return _read_google(entry)
    key = entry.get("Key", entry.get("key"))
    place: dict[str, object] = {"url": None, "path": key, "size": entry.get("Size", entry.get("size"))}
    if isinstance(key, str) and scheme_of(key) == S3:  # s5cmd
        return place | {"url": key, "path": key.split("/", 3)[-1]}
    if not isinstance(key, str):
        return place
    listed = entry.get("url")  # by mc: the address of the bucket, or of a prefix in it
    beside = listed[: listed.rfind("/") + 1] if isinstance(listed, str) else ""
    return place | {"url": ("" if document.given_base_url else beside) + make_relative_url(key)}


def _read_google(entry: dict[str, Any]) -> dict[str, object]:
    url = _GENERATION.sub("", str(entry.get("storage_url", entry.get("url"))))
    about = get_object(entry, "metadata") or entry
    size = about.get("size")
    return {
        "url": url,
        "path": url.split("/", 3)[-1],
        "size": int(size) if isinstance(size, str) and _DIGITS.match(size) else size,
        **_decode_hash("md5", about.get("md5Hash") or about.get("md5_hash")),
        **_decode_hash("crc32c", about.get("crc32c") or about.get("crc32c_hash")),
    }


def _read_azure(entry: dict[str, Any], document: Document) -> dict[str, object]:
    about, name, container = get_object(entry, "properties"), entry.get("name"), entry.get("container")
    is_alone = document.base() is None and isinstance(container, str)
    return {
        "url": f"{AZ}://{container}/{name}" if is_alone else make_relative_url(str(name)),
        "path": name,
        "size": about.get("contentLength"),
        **_decode_hash("md5", get_object(about, "contentSettings").get("contentMd5")),
    }


def _decode_hash(algorithm: str, stated: object) -> dict[str, object]:
    if stated is None or needs_library(algorithm) is not None:
        return {}
    try:
        return {algorithm: binascii.a2b_base64(str(stated), strict_mode=True).hex()}
    except ValueError:
        return {algorithm: Misfit("a value that is not base64")}
