"""A project of a package index in JSON (PEP 691): the JSON form of ``/simple/NAME/``."""

from collections.abc import Iterator

from cfetch.manifest.digests import HEX_DIGITS
from cfetch.manifest.faults import Faults
from cfetch.manifest.formats.whole_json import get_object, list_objects, load_json
from cfetch.manifest.rows import Document, Row
from cfetch.manifest.source import Source


def read_package_index(source: Source, document: Document, faults: Faults) -> Iterator[Row]:  # noqa: ARG001 - a reader
    """The rows: ``url``, ``path``, ``size`` and the hashes."""
    for file in list_objects(load_json(source, "the index"), "files"):
        hashes = get_object(file, "hashes")
        fields = {"url": file.get("url"), "path": file.get("filename"), "size": file.get("size")}
        yield Row(0, fields | {name: hashes[name] for name in HEX_DIGITS if name in hashes}, "files")
