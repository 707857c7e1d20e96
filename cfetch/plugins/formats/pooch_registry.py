"""A registry of pooch: ``NAME HASH`` or ``NAME HASH URL`` on each line, the hash SHA-256 or ``md5:…``.

A name with spaces is quoted as in a shell, or has a backslash before each.
"""

import re
import shlex
from collections.abc import Iterator

from cfetch.manifest.digests import HEX_DIGITS
from cfetch.manifest.faults import Faults
from cfetch.manifest.rows import Document, Row
from cfetch.manifest.source import Source
from cfetch.manifest.url_completion import make_relative_url

_LINE = re.compile(
    r"\s*(?P<name>\"[^\"]+\"|'[^']+'|(?:\\.|[^ \t\"'\\]++)++)[ \t]+"
    r"(?:(?P<algorithm>[a-z0-9_]{3,20}):)?"
    r"(?P<hex>[0-9A-Fa-f]{8,128})(?:[ \t]+(?P<url>(?:[A-Za-z]+://|doi:)[^ \t]+))?[ \t]*\Z"
)


def is_registry_line(line: str) -> bool:
    """Whether a line is of this format; in a checksum list, the hash comes first."""
    match = _LINE.match(line)
    return (
        match is not None
        and "://" not in match["name"]
        and (_algorithm(match) is not None or match["algorithm"] is not None)
    )


def read_pooch_registry(source: Source, document: Document, faults: Faults) -> Iterator[Row]:
    """The rows: ``url``, ``path`` and the hash."""
    for line, text in source.lines(faults, "leave out"):
        if not text or text.isspace() or text.lstrip()[0] == "#":
            continue
        match = _LINE.match(text)
        algorithm = _algorithm(match) if match else None
        if match is None or (algorithm is None and match["algorithm"] is None):
            faults.add(line, "it is not a line of a registry: a name, a hash and perhaps a URL")
            continue
        if algorithm is None:
            faults.add(
                line, f"it states a hash that cfetch cannot verify ({match['algorithm']}); remove the hash"
            )
            continue
        name = shlex.split(match["name"])[0]
        yield Row(
            line, {"url": match["url"] or make_relative_url(name), "path": name, algorithm: match["hex"]}
        )


def _algorithm(match: re.Match[str]) -> str | None:
    name = match["algorithm"] or "sha256"
    return name if len(match["hex"]) == HEX_DIGITS.get(name) else None
