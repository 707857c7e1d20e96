"""``rclone lsjson -R [--hash]``: names relative to a base URL, sizes and hashes."""

from collections.abc import Iterator

from cfetch.manifest.digests import HEX_DIGITS
from cfetch.manifest.faults import Faults
from cfetch.manifest.formats.json_document import read_elements
from cfetch.manifest.formats.whole_json import get_object
from cfetch.manifest.rows import Document, Row
from cfetch.manifest.source import Source
from cfetch.manifest.url_completion import make_relative_url


def read_rclone_lsjson(source: Source, document: Document, faults: Faults) -> Iterator[Row]:
    """The rows: ``url``, ``path``, ``size`` and hashes. Directories are left out."""
    for row in read_elements(source):
        fields = row.fields
        path = fields.get("Path") if isinstance(fields, dict) else None
        if not isinstance(fields, dict) or not isinstance(path, str):
            yield row
            continue
        if fields.get("IsDir") is True:
            continue
        size = fields.get("Size")
        known = get_object(fields, "Hashes")
        digests = {name: known[name] for name in HEX_DIGITS if known.get(name)}
        place = {"url": make_relative_url(path), "path": path, "size": None if size == -1 else size}
        yield row._replace(fields=place | digests)
