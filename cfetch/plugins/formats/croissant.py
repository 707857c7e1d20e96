"""Croissant, the description of a data set for machine learning: its file objects.

Files inside an archive come with the archive. A whole repository is no file, and is left out. The older
description of schema.org, whose files are of the type ``DataDownload``, is read too.
"""

import re
from collections.abc import Iterator
from typing import Any

from cfetch.manifest.faults import BrokenDocumentError, Faults
from cfetch.manifest.formats.whole_json import list_objects, load_object, read_content_size
from cfetch.manifest.repository_urls import find_repository
from cfetch.manifest.rows import Document, Row
from cfetch.manifest.source import Source

_HEX = {name: re.compile(rf"[0-9A-Fa-f]{{{digits}}}\Z") for name, digits in (("sha256", 64), ("md5", 32))}


def read_croissant(source: Source, document: Document, faults: Faults) -> Iterator[Row]:
    """The rows: ``url``, ``size``, ``sha256`` or ``md5``."""
    repositories: list[str] = []
    rows = 0
    stated = load_object(source, "the description").get("distribution")
    for thing in list_objects([stated] if isinstance(stated, dict) else stated):
        kinds, form = thing.get("@type"), str(thing.get("encodingFormat"))
        names = kinds if isinstance(kinds, list) else [kinds]
        if (
            not any(str(kind).endswith(("FileObject", "DataDownload")) for kind in names)
            or "containedIn" in thing
        ):
            continue
        if form.startswith("git+"):
            repositories.append(str(thing.get("contentUrl")))
            continue
        hashes = {name: thing[name] for name in _HEX if _HEX[name].match(str(thing.get(name)))}
        rows += 1
        place = {"url": thing.get("contentUrl"), "path": _find_name(thing)}
        yield Row(0, place | {"size": read_content_size(thing), **hashes}, "distribution")
    if repositories:
        document.note_partial(f"repositories that are left out, with all their files: {len(repositories)}")
    if not rows and repositories:
        known = find_repository(repositories[0])
        way = f"give {known} as the manifest" if known else "give a list of the files, such as its tree"
        raise BrokenDocumentError(0, f"it names a repository and no files; {way}")


def _find_name(thing: dict[str, Any]) -> str | None:
    """The stated name, if the address ends in a number or a word instead of a file's name; else None."""
    name = thing.get("name")
    last = str(thing.get("contentUrl")).partition("?")[0].rpartition("/")[2]
    return name if isinstance(name, str) and "." in name.strip(".") and "." not in last else None
