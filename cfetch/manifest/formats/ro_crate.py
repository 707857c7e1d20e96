"""``ro-crate-metadata.json`` (Research Object Crate): the data entities of type ``File``."""

import re
from collections.abc import Iterator
from urllib.parse import unquote

from cfetch.manifest.faults import Faults
from cfetch.manifest.formats.whole_json import list_objects, load_json
from cfetch.manifest.rows import Document, Row
from cfetch.manifest.source import Source

_ABSOLUTE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_DIGITS = re.compile(r"[0-9]{1,20}\Z")


def read_ro_crate(source: Source, document: Document, faults: Faults) -> Iterator[Row]:  # noqa: ARG001 - a reader
    """The rows: ``url``, ``path`` if it is relative, ``size`` and ``sha256``."""
    for entity in list_objects(load_json(source, "the crate"), "@graph"):
        kinds = entity.get("@type")
        name = entity.get("@id")
        is_file = "File" in (kinds if isinstance(kinds, list) else [kinds])
        if not is_file or not isinstance(name, str) or name.startswith("#"):
            continue
        size = entity.get("contentSize")
        fields: dict[str, object] = {
            "url": entity.get("contentUrl") or name,
            "size": int(size) if isinstance(size, str) and _DIGITS.match(size) else None,
            "sha256": entity.get("sha256"),
        }
        if isinstance(size, int):
            fields["size"] = size
        if not _ABSOLUTE.match(name):
            fields["path"] = unquote(name).removeprefix("./")
        yield Row(0, fields, "@graph")
