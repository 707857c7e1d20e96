"""``git lfs ls-files --json``: names relative to a base URL, sizes and SHA-256."""

from collections.abc import Iterator

from cfetch.manifest.faults import Faults
from cfetch.manifest.formats.whole_json import list_objects, load_json
from cfetch.manifest.rows import Document, Row
from cfetch.manifest.source import Source
from cfetch.manifest.url_completion import make_relative_url


def read_lfs_files(source: Source, document: Document, faults: Faults) -> Iterator[Row]:
    """The rows: ``url``, ``path``, ``size`` and ``sha256``."""
    for file in list_objects(load_json(source, "the list"), "files"):
        name = str(file.get("name"))
        fields = {"url": make_relative_url(name), "path": name, "size": file.get("size")}
        yield Row(0, fields | {str(file.get("oid_type")): file.get("oid")}, "files")
