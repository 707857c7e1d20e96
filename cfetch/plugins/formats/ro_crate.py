"""``ro-crate-metadata.json`` (Research Object Crate): the data entities of type ``File``.

A crate may name a directory without its files; then only its maker can list them.
"""

import re
from bisect import bisect_left
from collections.abc import Iterator
from urllib.parse import unquote

from cfetch.manifest.faults import Faults
from cfetch.manifest.formats.whole_json import list_objects, load_json, read_content_size
from cfetch.manifest.rows import Document, Row
from cfetch.manifest.source import Source
from cfetch.plugins.formats.catalogue_json import list_distributions

_ABSOLUTE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")


def read_ro_crate(source: Source, document: Document, faults: Faults) -> Iterator[Row]:
    """The rows: ``url``, ``path`` if it is relative, ``size`` and ``sha256``."""
    directories: set[str] = set()
    files: list[str] = []
    crate = load_json(source, "the crate")
    for entity in list_objects(crate, "@graph"):
        kinds = entity.get("@type")
        name = entity.get("@id")
        named = kinds if isinstance(kinds, list) else [kinds]
        if not isinstance(name, str) or name.startswith("#"):
            continue
        if "Dataset" in named and name.endswith("/") and not _ABSOLUTE.match(name):
            directories.add(name.removeprefix("./"))
        if "File" not in named:
            continue
        files.append(name.removeprefix("./"))
        fields: dict[str, object] = {
            "url": _find_url(entity.get("contentUrl")) or name,
            "size": read_content_size(entity),
            "sha256": entity.get("sha256"),
        }
        if not _ABSOLUTE.match(name):
            fields["path"] = unquote(name).removeprefix("./")
        yield Row(0, fields, "@graph")
    if not files:  # a catalogue in DCAT may have a graph too
        yield from list_distributions(crate, document)
    files.sort()
    unlisted = [name for name in directories if name and not _has_prefix(files, name)]
    if unlisted:
        document.note_partial(f"directories whose files the crate does not name: {len(unlisted)}")


def _find_url(stated: object) -> object:
    """The address in ``contentUrl``, which may be a text, an object with it, or an array of these."""
    first = next(iter(stated), None) if isinstance(stated, list) else stated
    return first.get("@id") if isinstance(first, dict) else first


def _has_prefix(ordered: list[str], prefix: str) -> bool:
    place = bisect_left(ordered, prefix)
    return place < len(ordered) and ordered[place].startswith(prefix)
