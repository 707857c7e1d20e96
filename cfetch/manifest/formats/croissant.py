"""Croissant, the description of a data set for machine learning: its file objects.

Files inside an archive come with the archive. A whole repository is no file, and is left out.
"""

import re
from collections.abc import Iterator

from cfetch.manifest.faults import BrokenDocumentError, Faults
from cfetch.manifest.formats.whole_json import list_objects, load_json
from cfetch.manifest.rows import Document, Row
from cfetch.manifest.source import Source

_BYTES = re.compile(r"([0-9]{1,20})(?: ?B)?\Z")
_HEX = {name: re.compile(rf"[0-9A-Fa-f]{{{digits}}}\Z") for name, digits in (("sha256", 64), ("md5", 32))}


def read_croissant(source: Source, document: Document, faults: Faults) -> Iterator[Row]:  # noqa: ARG001 - a reader
    """The rows: ``url``, ``size``, ``sha256`` or ``md5``."""
    repositories = rows = 0
    for thing in list_objects(load_json(source, "the description"), "distribution"):
        kind, form = str(thing.get("@type")), str(thing.get("encodingFormat"))
        if not kind.endswith("FileObject") or "containedIn" in thing:
            continue
        if form.startswith("git+"):
            repositories += 1
            continue
        size = _BYTES.match(str(thing.get("contentSize")))
        hashes = {name: thing[name] for name in _HEX if _HEX[name].match(str(thing.get(name)))}
        rows += 1
        yield Row(
            0,
            {"url": thing.get("contentUrl"), "size": int(size[1]) if size else None, **hashes},
            "distribution",
        )
    if repositories:
        document.note_partial(f"repositories that are left out, with all their files: {repositories}")
    if not rows and repositories:
        raise BrokenDocumentError(
            0, "it names a repository and no files; give a list of the repository's files, such as its tree"
        )
