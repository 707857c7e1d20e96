"""Items of the Internet Archive: ``ID_files.xml``, and the metadata of an item in JSON."""

import re
from collections.abc import Iterator
from pathlib import PurePosixPath

from cfetch.manifest.faults import Faults
from cfetch.manifest.formats.whole_json import get_object, list_objects, load_object
from cfetch.manifest.rows import Document, Row
from cfetch.manifest.source import Source
from cfetch.manifest.strict_json import read_digits
from cfetch.manifest.url_completion import make_relative_url
from cfetch.plugins.formats.xml_elements import read_elements

_DOWNLOADS = "https://archive.org/download/"
_FILES = re.compile(r"(.+)_files\.xml(?:\.[a-z]+)?\Z")
_HASHES = ("sha1", "md5")


def read_files(source: Source, document: Document, faults: Faults) -> Iterator[Row]:
    """The rows of ``ID_files.xml``: ``url``, ``path``, ``size`` and the hashes."""
    named = _FILES.match(PurePosixPath(source.name.partition("?")[0]).name)
    if named is not None and source.own_url is None:
        document.base_url = f"{_DOWNLOADS}{make_relative_url(named[1])}/"
    own = 0
    for file in read_elements(source, ("file",)):
        stated = {key: file.find_text(key) for key in ("size", *_HASHES)}
        row = _make_row(file.line, file.attributes.get("name", ""), stated)
        own += row is None
        if row is not None:
            yield row
    _note_own(document, own)


def read_item(source: Source, document: Document, faults: Faults) -> Iterator[Row]:
    """The rows of an item's metadata (``archive.org/metadata/ID``)."""
    item = load_object(source, "the item")
    identifier = get_object(item, "metadata").get("identifier")
    if isinstance(identifier, str):
        document.base_url = f"{_DOWNLOADS}{make_relative_url(identifier)}/"
    own = private = 0
    for file in list_objects(item, "files"):
        if file.get("private") in ("true", True):
            private += 1
            continue
        stated = {key: str(file.get(key) or "") for key in ("size", *_HASHES)}
        row = _make_row(0, str(file.get("name") or ""), stated)
        own += row is None
        if row is not None:
            yield row._replace(array="files")
    _note_own(document, own)
    if private:
        document.note_partial(f"files that are private, and that are left out: {private}")


def _make_row(line: int, name: str, stated: dict[str, str]) -> Row | None:
    """The row of a file; None: it is the list of files itself, which cannot state its own hash."""
    if name.endswith("_files.xml"):
        return None
    fields: dict[str, object] = {"url": make_relative_url(name), "path": name}
    if stated["size"]:
        fields["size"] = read_digits(stated["size"], "a text that is not all digits")
    return Row(line, fields | {key: stated[key] for key in _HASHES if stated[key]})


def _note_own(document: Document, own: int) -> None:
    if own:
        document.notes.append(f"lists of the item's files, which are left out: {own}")
