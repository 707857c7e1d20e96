"""``repodata.json`` of a conda channel: the packages of one platform, read as a stream."""

from collections.abc import Iterator

from cfetch.manifest.faults import Faults
from cfetch.manifest.formats.json_document import read_members
from cfetch.manifest.rows import Document, Row
from cfetch.manifest.source import Source
from cfetch.manifest.urls import make_relative_url

_HASHES = ("sha256", "md5")


def read_repodata(source: Source, document: Document, faults: Faults) -> Iterator[Row]:
    """The rows: ``url``, ``path``, ``size`` and a hash; the addresses are relative to the document's."""
    for line, name, about in read_members(source, ("packages", "packages.conda")):
        if not isinstance(about, dict):
            faults.add(line, "a package must be an object")
            continue
        hashes = {key: about[key] for key in _HASHES if about.get(key)}
        yield Row(line, {"url": make_relative_url(name), "path": name, "size": about.get("size"), **hashes})
