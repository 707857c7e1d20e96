"""Indexes of Debian's repositories: ``Packages``, ``Sources`` and ``Release``.

The addresses of ``Packages`` and ``Sources`` are relative to the repository, above ``dists/``; those of
``Release`` to its own directory.
"""

import re
from collections.abc import Iterator

from cfetch.manifest.faults import Faults
from cfetch.manifest.rows import Document, Row
from cfetch.manifest.source import Source
from cfetch.manifest.strict_json import read_digits
from cfetch.manifest.url_completion import make_relative_url

_FIELD = re.compile(r"([A-Za-z][A-Za-z0-9-]*):[ \t]*(.*)\Z")
_HEAD = re.compile(r"(?:Package|Origin|Suite|Codename): ?\S", re.IGNORECASE)
_SIGNS = re.compile(r"^(?:Filename|Directory|Checksums-Sha256|SHA256|MD5Sum):", re.MULTILINE)
_LISTED = re.compile(r" ([0-9A-Fa-f]{32,128}) +([0-9]{1,20}) (\S.*)\Z")
_LISTS = {"md5sum": "md5", "files": "md5", "sha1": "sha1", "sha256": "sha256", "sha512": "sha512",
          "checksums-sha1": "sha1", "checksums-sha256": "sha256", "checksums-sha512": "sha512"}  # fmt: skip


def is_index(head: str) -> bool:
    """Whether a text begins as an index does: a field of a package or a release, and hashes."""
    return _HEAD.match(head) is not None and _SIGNS.search(head) is not None


def read_index(source: Source, document: Document, faults: Faults) -> Iterator[Row]:
    """The rows: ``url``, ``path``, ``size`` and the hashes."""
    if source.own_url is not None and "/dists/" in source.own_url and not _is_release(source):
        document.base_url = source.own_url.partition("/dists/")[0] + "/"
    fields: dict[str, str] = {}
    files: dict[str, dict[str, object]] = {}
    listing, begin = "", 0
    for line, text in source.lines(faults):
        if not text.strip():
            yield from _make_rows(begin, fields, files)
            fields, files, listing = {}, {}, ""
            continue
        begin = begin if fields else line
        listed = _LISTED.match(text) if listing else None
        if listed is not None:
            file = files.setdefault(listed[3], {"size": int(listed[2])})
            file[listing] = listed[1]
        elif (field := _FIELD.match(text)) is not None:
            key = field[1].lower()
            listing = _LISTS.get(key, "") if not field[2] else ""
            if key in ("package", "filename", "directory", "size", "md5sum", "sha1", "sha256", "sha512"):
                fields[key] = field[2].strip()
    yield from _make_rows(begin, fields, files)


def _is_release(source: Source) -> bool:
    return not source.head().lower().startswith("package:")


def _make_rows(line: int, fields: dict[str, str], files: dict[str, dict[str, object]]) -> Iterator[Row]:
    if "filename" in fields:
        path = fields["filename"].removeprefix("./")
        row: dict[str, object] = {"url": make_relative_url(path), "path": path}
        if fields.get("size"):
            row["size"] = read_digits(fields["size"], "a text that is not all digits")
        hashes = {
            _LISTS[key]: fields[key] for key in ("md5sum", "sha1", "sha256", "sha512") if fields.get(key)
        }
        yield Row(line, row | hashes)
        return
    directory = fields.get("directory", "")
    for name, about in files.items():
        path = f"{directory.rstrip('/')}/{name}" if directory not in ("", ".") else name
        yield Row(line, {"url": make_relative_url(path), "path": path, **about})
