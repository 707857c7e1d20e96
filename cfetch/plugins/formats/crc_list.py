"""Lists of CRC-32: a name and eight digits on each line (SFV); ``;`` begins a comment."""

import re
from collections.abc import Iterator, Sequence

from cfetch.manifest.faults import Faults
from cfetch.manifest.rows import Document, Row
from cfetch.manifest.source import Source
from cfetch.manifest.url_completion import make_relative_url

_END = re.compile(r"[ \t]([0-9A-Fa-f]{8})\Z")


def is_sfv(lines: Sequence[str]) -> bool:
    """Whether all lines that are no comment are of this format, and one says so or has letters in its CRC."""
    stated = [line for line in lines if line[0] != ";"]
    parts = [_split(line) for line in stated]
    are_hex = any(part is not None and not part[1].isdigit() for part in parts)
    return bool(stated) and all(parts) and are_hex and not any("://" in line for line in stated)


def _split(line: str) -> tuple[str, str] | None:
    """The name and the CRC of a line; None: it has not both."""
    text = line.rstrip(" \t")
    match = _END.search(text, max(0, len(text) - 9))
    name = text[:-9].strip(" \t")
    return (name, match[1]) if match is not None and name else None


def read_sfv(source: Source, document: Document, faults: Faults) -> Iterator[Row]:
    """The rows: ``url``, ``path`` and ``crc32``."""
    for line, text in source.lines(faults, "leave out"):
        if not text or text.isspace() or text[0] in ";#":
            continue
        parts = _split(text)
        if parts is None:
            faults.add(line, "it is not a line of an SFV list: a name and the eight digits of its CRC-32")
            continue
        path = parts[0].replace("\\", "/").removeprefix("./")
        yield Row(line, {"url": make_relative_url(path), "path": path, "crc32": parts[1]})
