"""A record of Zenodo or of another InvenioRDM: ``/api/records/ID``, or its ``/files``."""

from collections.abc import Iterator

from cfetch.manifest.faults import Faults
from cfetch.manifest.formats.whole_json import get_object, hash_fields, list_objects, load_object
from cfetch.manifest.rows import Document, Row
from cfetch.manifest.source import Source


def read_zenodo(source: Source, document: Document, faults: Faults) -> Iterator[Row]:  # noqa: ARG001 - a reader
    """The rows: ``url``, ``path``, ``size`` and ``md5``."""
    record = load_object(source, "the record")
    if get_object(record, "links").get("next"):
        document.note_partial("the answer goes on: its link next leads to further files, which are left out")
    array = "entries" if "entries" in record else "files"
    for file in list_objects(record, array):
        links = get_object(file, "links")
        url = links.get("content") or links.get("download") or links.get("self")
        size = file.get("size", file.get("filesize"))
        path = file.get("key", file.get("filename"))
        checksum = file.get("checksum")
        digest = hash_fields(checksum)
        if isinstance(checksum, str) and ":" not in checksum:  # in older records
            digest = {"md5": checksum}
        yield Row(0, {"url": url, "path": path, "size": size, **digest}, array)
