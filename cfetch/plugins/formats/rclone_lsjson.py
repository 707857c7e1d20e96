"""Directories in JSON: ``rclone lsjson -R [--hash]``, and the indexes of nginx and Caddy.

nginx writes these with ``autoindex_format json``, Caddy for those who ask for JSON.
"""

from collections.abc import Iterator

from cfetch.manifest.digests import HEX_DIGITS
from cfetch.manifest.faults import Faults
from cfetch.manifest.formats.json_document import read_elements, read_json
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


def read_index(source: Source, document: Document, faults: Faults) -> Iterator[Row]:
    """The rows: ``url`` and ``size``; directories are left out. A table that states URLs is read as any."""
    first = next(read_elements(source), None)
    keys = first.fields.keys() if first is not None and isinstance(first.fields, dict) else set()
    if "url" in keys and "is_dir" not in keys:
        yield from read_json(source, document, faults)
        return
    directories = 0
    for row in read_elements(source):
        fields = row.fields
        name = fields.get("name") if isinstance(fields, dict) else None
        if not isinstance(fields, dict) or not isinstance(name, str):
            yield row
        elif fields.get("is_dir") is True or fields.get("type") == "directory":
            directories += 1
        else:
            yield row._replace(fields={"url": make_relative_url(name), "size": fields.get("size")})
    if directories:
        document.note_partial(f"directories that are left out: {directories}; give their own lists of files")
