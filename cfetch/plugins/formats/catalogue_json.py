"""Replies of catalogues in JSON: CKAN, NASA's CMR, the Open Science Framework, Mendeley Data, and others.

The others are DSpace before version 7, and Modrinth's pack index.
"""

import re
from collections.abc import Iterator
from typing import Any

from cfetch.base.schemes import is_web
from cfetch.manifest.digests import find_algorithm
from cfetch.manifest.faults import BrokenDocumentError, Faults
from cfetch.manifest.formats.json_links import advise_queries
from cfetch.manifest.formats.whole_json import Hashes, get_object, list_objects, load_json, load_object
from cfetch.manifest.rows import Document, Row
from cfetch.manifest.source import Source
from cfetch.manifest.strict_json import read_digits

_DATA = "/data#"  # the end of CMR's relation of a link to the file itself


def read_ckan(source: Source, document: Document, faults: Faults) -> Iterator[Row]:
    """The rows of a package, or of the packages of a search: ``url``, and ``md5`` or another hash."""
    result = load_object(source, "the reply").get("result")
    packages = result if isinstance(result, list) else get_object(result, "results") or [result]
    if isinstance(result, dict) and isinstance(result.get("results"), list):
        packages = result["results"]
        if result.get("count", 0) > len(packages):
            document.note_partial(f"the answer goes on: it has {len(packages)} of {result['count']} packages")
    rows = pages = 0
    hashes = Hashes()
    for package in list_objects(packages):
        for resource in list_objects(package, "resources"):
            if resource.get("resource_type") in ("api", "documentation") or not resource.get("url"):
                pages += 1
                continue
            rows += 1
            yield Row(0, {"url": resource["url"]} | _read_hash(resource.get("hash"), hashes), "resources")
    if not rows:
        raise BrokenDocumentError(0, f"it is a reply of CKAN without files{advise_queries(source)}")
    document.notes += hashes.list_notes()
    if pages:
        document.notes.append(f"resources that are no files, which are left out: {pages}")


def _read_hash(text: object, hashes: Hashes) -> dict[str, object]:
    is_plain = isinstance(text, str) and text.isalnum() and len(text) in (32, 40, 64)
    names = {32: "md5", 40: "sha1", 64: "sha256"}
    return {names[len(str(text))]: text} if is_plain else hashes.read(text)


def list_distributions(described: object, document: Document) -> Iterator[Row]:
    """The rows of a catalogue in DCAT, whatever the prefix of its keys: ``url``, ``size`` and the hash."""
    waiting, hashes = [described], Hashes()
    while waiting:
        thing = waiting.pop()
        parts = thing if isinstance(thing, list) else []
        if isinstance(thing, dict):
            named = {re.split("[:/#]", key)[-1]: value for key, value in thing.items()}
            parts = list(thing.values())
            if (url := _get_value(named.get("downloadURL"))) is not None:
                size = str(_get_value(named.get("byteSize")) or "").removesuffix(".0")
                fields: dict[str, object] = {"url": url}
                fields |= {"size": read_digits(size, "a text that is not all digits")} if size else {}
                checksum = get_object(named, "checksum")
                stated = {re.split("[:/#]", key)[-1]: value for key, value in checksum.items()}
                name = re.split("[:/#_]", str(_get_value(stated.get("algorithm"))))[-1]
                algorithm = find_algorithm(name)
                hashes.unknown += bool(stated) and algorithm is None
                value = _get_value(stated.get("checksumValue"))
                yield Row(0, fields | ({algorithm: value} if algorithm else {}), "distribution")
        waiting += [part for part in reversed(parts) if isinstance(part, dict | list)]
    document.notes += hashes.list_notes()


def _get_value(stated: object) -> object:
    """The address or the value that JSON-LD states, which may be in an object or an array."""
    first = next(iter(stated), None) if isinstance(stated, list) else stated
    return first.get("@id", first.get("@value")) if isinstance(first, dict) else first


def read_cmr(source: Source, document: Document, faults: Faults) -> Iterator[Row]:
    """The rows of the granules that a search has found: ``url``. Sizes are in rounded megabytes."""
    feed = get_object(load_object(source, "the reply"), "feed")
    rows = 0
    for granule in list_objects(feed, "entry"):
        for link in list_objects(granule, "links"):
            href = str(link.get("href"))
            is_file = str(link.get("rel")).endswith(_DATA) and not link.get("inherited")
            if is_file and is_web(href) and not href.endswith("/"):
                rows += 1
                yield Row(0, {"url": href}, "links")
    if not rows:
        raise BrokenDocumentError(
            0, f"it is a reply of a catalogue (CMR) without links to data{advise_queries(source)}"
        )


def read_osf(source: Source, document: Document, faults: Faults) -> Iterator[Row]:
    """The rows of a list of files of the Open Science Framework: ``url``, ``path``, ``size``, hashes."""
    reply = load_object(source, "the reply")
    rows = directories = 0
    for file in list_objects(reply, "data"):
        about = get_object(file, "attributes")
        if about.get("kind") == "folder":
            directories += 1
            continue
        url = get_object(file, "links").get("download")
        if url is None:
            raise BrokenDocumentError(0, f"it is no list of files of the OSF{advise_queries(source)}")
        rows += 1
        hashes = get_object(about, "extra", "hashes")
        path = str(about.get("materialized_path") or about.get("name") or "").lstrip("/") or None
        known = {name: hashes[name] for name in ("sha256", "md5") if hashes.get(name)}
        yield Row(0, {"url": url, "path": path, "size": about.get("size"), **known}, "data")
    if get_object(reply, "links").get("next"):
        document.note_partial("the answer goes on: its link next leads to further files, which are left out")
    if directories:
        document.note_partial(f"directories that are left out: {directories}; give their own lists of files")
    if not rows and not directories:
        raise BrokenDocumentError(0, f"it is JSON, and no list that cfetch knows{advise_queries(source)}")


def read_modrinth(source: Source, document: Document, faults: Faults) -> Iterator[Row]:
    """The rows of ``modrinth.index.json``: ``url``, ``mirrors``, ``path``, ``size`` and the hashes."""
    for file in list_objects(load_object(source, "the index"), "files"):
        urls: Any = file.get("downloads")
        first, *mirrors = urls if isinstance(urls, list) and urls else [None]
        hashes = {name: get_object(file, "hashes")[name] for name in get_object(file, "hashes")}
        known = {name: hashes[name] for name in ("sha512", "sha1") if name in hashes}
        fields = {"url": first, "mirrors": mirrors, "path": file.get("path"), "size": file.get("fileSize")}
        yield Row(0, fields | known, "files")


def read_mendeley(source: Source, document: Document, faults: Faults) -> Iterator[Row]:
    """The rows of the files of a data set of Mendeley Data: ``url``, ``path``, ``size`` and ``sha256``."""
    for file in list_objects(load_json(source, "the reply")):
        content = get_object(file, "content_details")
        size = content.get("size", file.get("size"))
        fields = {"url": content.get("download_url"), "path": file.get("filename"), "size": size}
        digest = content.get("sha256_hash")
        yield Row(0, fields | ({"sha256": digest} if digest else {}), "files")


def read_dspace(source: Source, document: Document, faults: Faults) -> Iterator[Row]:
    """The rows of an item's bitstreams, as DSpace 5 and 6 list them; other bundles have no authors' files."""
    left_out, hashes = 0, Hashes()
    for bitstream in list_objects(load_json(source, "the reply")):
        if bitstream.get("bundleName", "ORIGINAL") != "ORIGINAL":
            left_out += 1
            continue
        checksum = get_object(bitstream, "checkSum")
        known = hashes.read_named(checksum.get("checkSumAlgorithm"), checksum.get("value"))
        fields = {
            "url": bitstream.get("retrieveLink"),
            "path": bitstream.get("name"),
            "size": bitstream.get("sizeBytes"),
        }
        yield Row(0, fields | known, "bitstreams")
    document.notes += hashes.list_notes()
    if left_out:
        document.notes.append(f"bitstreams of other bundles, which are left out: {left_out}")
