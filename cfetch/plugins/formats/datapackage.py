"""``datapackage.json`` (Frictionless Data): the resources that are files."""

import re
from collections.abc import Iterator
from typing import Any

from cfetch.manifest.faults import BrokenDocumentError, Faults
from cfetch.manifest.formats.advice import MESSAGES
from cfetch.manifest.formats.json_links import advise_queries
from cfetch.manifest.formats.whole_json import Hashes, list_objects, load_json
from cfetch.manifest.rows import Document, Row
from cfetch.manifest.source import Source
from cfetch.manifest.url_completion import make_relative_url

_MD5 = re.compile(r"[0-9A-Fa-f]{32}\Z")
_ABSOLUTE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


def read_datapackage(source: Source, document: Document, faults: Faults) -> Iterator[Row]:
    """The rows: ``url``, ``path`` if it is relative, ``size`` and a hash; a resource may have many files."""
    resources = list(list_objects(load_json(source, "the package"), "resources"))
    has_files = any({"path", "url", "data"} & resource.keys() for resource in resources)
    if not has_files and (way := advise_queries(source)):  # such as the state of Terraform
        raise BrokenDocumentError(0, f"{MESSAGES['foreign-json']}{way}")
    hashes = Hashes()
    for resource in resources:
        stated = resource.get("path") or resource.get("url")
        if stated is None and "data" in resource:  # the data is in the document itself
            continue
        paths: list[Any] = stated if isinstance(stated, list) else [stated]
        about: dict[str, object] = {}
        if len(paths) == 1:  # else size and hash are for all files together
            text = resource.get("hash")
            digest = {"md5": text} if isinstance(text, str) and _MD5.match(text) else hashes.read(text)
            about = {"size": resource.get("bytes"), **digest}
        for path in paths:
            is_relative = isinstance(path, str) and not _ABSOLUTE.match(path)
            place = {"url": make_relative_url(path), "path": path} if is_relative else {"url": path}
            yield Row(0, place | about, "resources")
    document.notes += hashes.list_notes()
