"""Lists of ``sha256sum`` and similar tools: a hash and a file's name on each line; URLs need ``base_url``.

GNU lines are ``HASH  NAME`` (``HASH *NAME`` in binary mode), and the hash's length tells the algorithm; BSD
lines are ``SHA256 (NAME) = HASH``. If a line begins with a backslash, its name is escaped. ``./`` before a
name is removed, as ``find`` writes it. Blank lines and lines that begin with ``#`` are left out, as by
``sha256sum --check``.
"""

import re
from collections.abc import Iterator

from cfetch.manifest.digests import HEX_DIGITS
from cfetch.manifest.faults import Faults
from cfetch.manifest.rows import Document, Row
from cfetch.manifest.source import Source
from cfetch.manifest.urls import make_relative_url

_GNU = re.compile(r"(?P<escaped>\\?)(?P<hex>[0-9A-Fa-f]{32,128}) [ *](?P<name>.+)\Z")
_BSD = re.compile(r"(?P<escaped>\\?)(?P<tag>[A-Z0-9]{3,8}) \((?P<name>.+)\) = (?P<hex>[0-9A-Fa-f]+)\Z")
_BY_LENGTH = {HEX_DIGITS[name]: name for name in ("md5", "sha1", "sha256", "sha512")}
_ESCAPE = re.compile(r"\\([\\nr])")
_ESCAPED = {"\\": "\\", "n": "\n", "r": "\r"}


def is_checksum_line(line: str) -> bool:
    """Whether a line is of this format; no line of another format looks so."""
    match = _BSD.match(line) or _GNU.match(line)
    return match is not None and _algorithm(match) is not None


def read_checksum_list(source: Source, document: Document, faults: Faults) -> Iterator[Row]:
    """The rows: ``url``, ``path`` and the hash."""
    for line, text in source.lines(faults):
        if not text or text[0] == "#":
            continue
        match = _BSD.match(text) or _GNU.match(text)
        algorithm = _algorithm(match) if match else None
        if match is None or algorithm is None:
            faults.add(
                line,
                "it is not a line of a checksum list: a hash, two spaces and a name, or SHA256 (name) = hash",
            )
            continue
        name = match["name"]
        if match["escaped"]:
            name = _ESCAPE.sub(lambda escape: _ESCAPED[escape[1]], name)
        name = name.removeprefix("./")
        yield Row(line, {"url": make_relative_url(name), "path": name, algorithm: match["hex"]})


def _algorithm(match: re.Match[str]) -> str | None:
    tag = match.groupdict().get("tag")
    if tag is None:
        return _BY_LENGTH.get(len(match["hex"]))
    return tag.lower() if tag.lower() in HEX_DIGITS else None
