"""BagIt's ``fetch.txt`` (RFC 8493, section 2.2.3): on each line ``URL LENGTH FILEPATH``.

``-`` is an unknown length; so is 0, which NCBI writes for every file, as no one fetches an empty file.
Only CR, LF and % are percent-encoded in a path; spaces are part of it.
"""

import re
from collections.abc import Iterator

from cfetch.manifest.faults import Faults
from cfetch.manifest.rows import Document, Row
from cfetch.manifest.source import Source
from cfetch.manifest.strict_json import read_digits

_LINE = re.compile(r"(?P<url>\S+)[ \t]+(?P<length>\S+)[ \t]+(?P<path>[^ \t].*)\Z")
_HASH = re.compile(r"(?:[0-9A-Fa-f]{32}|[0-9A-Fa-f]{40}|[0-9A-Fa-f]{64}|[0-9A-Fa-f]{128})[ \t]*\Z")
_TFDS = re.compile(
    r"(?P<url>\S+)[\t ](?P<size>[0-9]{1,20})[\t ](?P<hex>[0-9A-Fa-f]{64})(?:\t(?P<name>[^\t]+))?[ \t]*\Z"
)
"""A line of the checksums of TensorFlow Datasets: URL, size, SHA-256 and, in newer ones, the file's name."""

_ENCODED = re.compile("%(0[Dd]|0[Aa]|25)")


def is_fetch_line(line: str) -> bool:
    """Whether a line is of this format: no other format has a length after a URL and blanks."""
    match = _LINE.match(line)
    return (
        match is not None and "://" in match["url"] and (match["length"] == "-" or match["length"].isdigit())
    )


def _read_checksums(match: re.Match[str]) -> dict[str, object]:
    fields: dict[str, object] = {"url": match["url"], "size": int(match["size"]), "sha256": match["hex"]}
    return fields if match["name"] is None else fields | {"path": match["name"]}


def read_bagit_fetch(source: Source, document: Document, faults: Faults) -> Iterator[Row]:
    """The rows: ``url``, ``path``, and ``size`` where it is stated."""
    zeros = 0
    for line, text in source.lines(faults, "leave out"):
        if not text or text.isspace():
            continue
        if (listed := _TFDS.match(text)) is not None:
            yield Row(line, _read_checksums(listed))
            continue
        match = _LINE.match(text)
        if match is None:
            faults.add(line, "it is not a line of fetch.txt: a URL, its length or -, and a path")
            continue
        if _HASH.match(match["path"]):
            faults.add(
                line,
                "its third field is a hash and no path; put a first row with names above: url,size,sha256",
            )
            continue
        path = _ENCODED.sub(lambda escape: chr(int(escape[1], 16)), match["path"])
        length = match["length"]
        zeros += length == "0"
        size = None if length in ("-", "0") else read_digits(length, "a length that is not all digits")
        yield Row(line, {"url": match["url"], "size": size, "path": path})
    if zeros:
        document.notes.append(f"lengths of 0, which are taken for unknown: {zeros}")
