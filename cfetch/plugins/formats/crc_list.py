"""Lists of CRC-32: a name and eight digits on each line (SFV); ``;`` begins a comment."""

import re
from collections.abc import Iterator, Sequence

from cfetch.manifest.faults import Faults
from cfetch.manifest.rows import Document, Row
from cfetch.manifest.source import Source
from cfetch.manifest.urls import make_relative_url

_SFV = re.compile(r"(?P<name>\S.*?)[ \t]+(?P<crc>[0-9A-Fa-f]{8})[ \t]*\Z")


def is_sfv(lines: Sequence[str]) -> bool:
    """Whether all lines that are no comment are of this format, and one says so or has letters in its CRC."""
    stated = [line for line in lines if line[0] != ";"]
    matches = [_SFV.match(line) for line in stated]
    are_hex = any(match is not None and not match["crc"].isdigit() for match in matches)
    return bool(stated) and all(matches) and are_hex and not any("://" in line for line in stated)


def read_sfv(source: Source, document: Document, faults: Faults) -> Iterator[Row]:
    """The rows: ``url``, ``path`` and ``crc32``."""
    for line, text in source.lines(faults):
        if not text or text.isspace() or text[0] in ";#":
            continue
        match = _SFV.match(text)
        if match is None:
            faults.add(line, "it is not a line of an SFV list: a name and the eight digits of its CRC-32")
            continue
        path = match["name"].replace("\\", "/").removeprefix("./")
        yield Row(line, {"url": make_relative_url(path), "path": path, "crc32": match["crc"]})
