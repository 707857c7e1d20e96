"""What ``apt-get --print-uris`` writes: ``'URL' NAME SIZE HASH:…`` for each package, often without a hash."""

import re
from collections.abc import Iterator
from urllib.parse import unquote

from cfetch.manifest.digests import HEX_DIGITS
from cfetch.manifest.faults import Faults
from cfetch.manifest.rows import Document, Row
from cfetch.manifest.source import Source

_LINE = re.compile(
    r"'(?P<url>[^' ]+://[^' ]+)' (?P<name>[^ /]+) (?P<size>\d{1,18})"
    r"(?: (?:(?P<algorithm>[A-Za-z0-9]+):(?P<hex>[0-9a-f]+))?)?\s*\Z"
)
_OTHER_NAMES = {"md5sum": "md5"}


def is_uri_line(line: str) -> bool:
    """Whether a line is of this format."""
    return _LINE.match(line) is not None


def read_apt_uris(source: Source, document: Document, faults: Faults) -> Iterator[Row]:
    """Yield the rows: ``url``, ``path``, ``size`` and the hash, unless cfetch does not know it."""
    for line, text in source.lines(faults, "leave out"):
        if not text or text.isspace():
            continue
        match = _LINE.match(text)
        if match is None:
            faults.add(line, "it is not 'URL' NAME SIZE HASH, as apt-get --print-uris writes")
            continue
        fields: dict[str, object] = {
            "url": match["url"],
            "path": unquote(match["name"]),
            "size": int(match["size"]),
        }
        algorithm = (match["algorithm"] or "").lower()
        algorithm = _OTHER_NAMES.get(algorithm, algorithm)
        if algorithm in HEX_DIGITS:
            fields[algorithm] = match["hex"]
        yield Row(line, fields)
