"""Croissant, the description of a data set for machine learning: its file objects.

Files inside an archive come with the archive. A whole repository is no file, and is left out. The older
description of schema.org, whose files are of the type ``DataDownload`` or ``MediaObject``, is read too, also
as an array, as web pages hold it.
"""

import itertools
import re
from collections.abc import Iterator
from typing import Any

from cfetch.manifest.faults import BrokenDocumentError, Faults
from cfetch.manifest.formats.whole_json import list_objects, load_json, read_content_size
from cfetch.manifest.repository_urls import find_repository
from cfetch.manifest.rows import Document, Row
from cfetch.manifest.source import Source
from cfetch.plugins.formats.catalogue_json import list_distributions

_FILES = ("FileObject", "DataDownload", "MediaObject")
_HEX = {name: re.compile(rf"[0-9A-Fa-f]{{{digits}}}\Z") for name, digits in (("sha256", 64), ("md5", 32))}


def read_croissant(source: Source, document: Document, faults: Faults) -> Iterator[Row]:
    """The rows: ``url``, ``size``, ``sha256`` or ``md5``."""
    repositories: list[str] = []
    rows = others = 0
    described = load_json(source, "the description")
    things = list_objects(described if isinstance(described, list) else [described])
    for thing in itertools.chain.from_iterable(map(_list_parts, things)):
        kinds, form = thing.get("@type"), str(thing.get("encodingFormat"))
        names = kinds if isinstance(kinds, list) else [kinds]
        if not any(str(kind).endswith(_FILES) for kind in names) or "containedIn" in thing:
            others += "hasPart" in thing or "distribution" in thing
            continue
        if form.startswith("git+"):
            repositories.append(str(thing.get("contentUrl")))
            continue
        hashes = {name: thing[name] for name in _HEX if _HEX[name].match(str(thing.get(name)))}
        rows += 1
        place = {"url": thing.get("contentUrl"), "path": _find_name(thing)}
        yield Row(0, place | {"size": read_content_size(thing), **hashes}, "distribution")
    if others:
        document.note_partial(f"data sets within this one, whose files are left out: {others}")
    if repositories:
        document.note_partial(f"repositories that are left out, with all their files: {len(repositories)}")
    if not rows and repositories:
        known = find_repository(repositories[0])
        way = f"give {known} as the manifest" if known else "give a list of the files, such as its tree"
        raise BrokenDocumentError(0, f"it names a repository and no files; {way}")
    for row in list_distributions(described, document) if not rows else ():
        rows += 1
        yield row
    if not rows:
        raise BrokenDocumentError(
            0,
            "it describes a data set and names no file of it; its url is the page about it, not a file: look "
            "there for the files",
        )


def _list_parts(thing: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for key in ("distribution", "hasPart"):
        stated = thing.get(key)
        yield from list_objects([stated] if isinstance(stated, dict) else stated)


def _find_name(thing: dict[str, Any]) -> str | None:
    """The stated name, if the address ends in a number or a word instead of a file's name; else None."""
    name = thing.get("name")
    last = str(thing.get("contentUrl")).partition("?")[0].rpartition("/")[2]
    return name if isinstance(name, str) and "." in name.strip(".") and "." not in last else None
