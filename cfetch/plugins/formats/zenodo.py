"""A record of Zenodo or of another InvenioRDM: ``/api/records/ID``, or its ``/files``.

Zenodo puts the files of a record into an array, InvenioRDM into an object ``entries``. The files of a deposit
are an array too.
"""

from collections.abc import Iterator
from typing import Any

from cfetch.manifest.faults import BrokenDocumentError, Faults
from cfetch.manifest.formats.whole_json import Hashes, get_object, list_objects, load_json
from cfetch.manifest.rows import Document, Row
from cfetch.manifest.source import Source
from cfetch.manifest.url_completion import make_relative_url


def read_zenodo(source: Source, document: Document, faults: Faults) -> Iterator[Row]:
    """The rows: ``url``, ``path``, ``size`` and ``md5``."""
    record = load_json(source, "the record")
    if isinstance(record, dict) and "hits" in record:
        raise BrokenDocumentError(
            0, "it is the answer of a search; give one of the records that it found: …/api/records/ID"
        )
    if get_object(record, "links").get("next"):
        document.note_partial("the answer goes on: its link next leads to further files, which are left out")
    hashes = Hashes()
    for file in _list_files(record):
        url = _find_content(record, file)
        size = file.get("size", file.get("filesize"))
        path = file.get("key", file.get("filename"))
        checksum = file.get("checksum")
        is_plain = isinstance(checksum, str) and ":" not in checksum  # in older records
        digest = {"md5": checksum} if is_plain else hashes.read(checksum)
        yield Row(0, {"url": url, "path": path, "size": size, **digest}, "files")
    document.notes += hashes.list_notes()


def _list_files(record: object) -> Iterator[dict[str, Any]]:
    listed = get_object(record, "files", "entries")
    if listed or isinstance(record, list):
        return list_objects(list(listed.values()) or record)
    return list_objects(record, "entries" if isinstance(record, dict) and "entries" in record else "files")


def _find_content(record: object, file: dict[str, Any]) -> object:
    """The address of a file's content; ``self`` of a file in ``entries`` is that of its description."""
    links = get_object(file, "links")
    own = links.get("content") or links.get("download") or links.get("self")
    key = file.get("key")
    if isinstance(own, str) and isinstance(key, str) and own.endswith(f"/{key}/content"):
        # not all of them encode the name, and after # or ? the rest would not be the path
        own = f"{own[: -len(f'{key}/content')]}{make_relative_url(key)}/content"
    if own or not isinstance(record, dict):
        return own
    record_links = get_object(record, "links")
    files = record_links.get("files") or f"{record_links.get('self')}/files"
    return f"{files}/{make_relative_url(str(key))}/content"
