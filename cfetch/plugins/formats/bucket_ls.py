"""Listings of a bucket as text: ``s5cmd ls``, ``gsutil ls -l`` and ``-r``, ``rclone ls`` and ``lsl``.

Google's tools state whole URLs; the keys of the others are relative to a base URL.
"""

import re
from collections.abc import Iterator, Sequence

from cfetch.base.schemes import GS
from cfetch.manifest.faults import Faults
from cfetch.manifest.rows import Document, Row
from cfetch.manifest.source import Source
from cfetch.manifest.url_completion import make_relative_url

_CLOCK = r"[0-9]{2}:[0-9]{2}:[0-9]{2}"
_S5CMD = re.compile(
    rf"[0-9]{{4}}/[0-9]{{2}}/[0-9]{{2}} {_CLOCK} +(?:[A-Z_]{{1,40}} +)?"
    r"(?:[0-9a-f]{32}(?:-[0-9]{1,5})? +)?(?P<size>[0-9]{1,20}) {1,2}(?P<key>\S.*)\Z"
)
_GSUTIL = re.compile(
    rf" *(?P<size>[0-9]{{1,20}})  [0-9-]{{10}}T{_CLOCK}Z  (?P<url>gs://[^/]+/.+?)"
    r"(?:#[0-9]{1,20}  metageneration=[0-9]+)?\Z"
)
_LSL = re.compile(
    rf" *(?P<size>-?[0-9]{{1,20}}) [0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}} {_CLOCK}\.[0-9]{{9}} (?P<key>.+)\Z"
)
_LS = re.compile(r"(?=[ 0-9-]{9}) *(?P<size>-?[0-9]{1,20}) (?P<key>\S.*)\Z")  # rclone pads sizes to 9 digits
_SIZE_AND_KEY = re.compile(r"-?[0-9]{1,20} \S")
_ROUNDED = re.compile(
    rf"(?:[0-9/]{{10}} {_CLOCK} .{{0,100}}?| *)[0-9.]{{1,20}} ?[KMGTPE](?:iB)? {{1,2}}(?:\S+Z {{1,2}})?\S"
)
_PREFIX = re.compile(r" +(?:DIR {1,2}.+|gs://.+/)\Z")
_START = f"{GS}://"
_HEADING = re.compile(rf"{_START}.+/:\Z")
_REST = re.compile(r"\s*(?:TOTAL: .*)?\Z")
_KNOWN = (_S5CMD, _GSUTIL, _LSL)


def is_bucket_listing(lines: Sequence[str]) -> bool:
    """Whether the first lines of a list are of this format; the first has lost the spaces before it."""
    if any(known.match(line) for known in _KNOWN for line in lines[:2]) or any(map(_HEADING.match, lines)):
        return True
    first, rest = lines[0] if lines else "", lines[1:]
    if first.startswith("DIR ") or (_ROUNDED.match(first) and (_START in first or first[4:5] == "/")):
        return True
    return bool(rest) and _SIZE_AND_KEY.match(first) is not None and all(map(_LS.match, rest))


def read_bucket_ls(source: Source, document: Document, faults: Faults) -> Iterator[Row]:
    """The rows: ``url``, ``path``, and ``size`` where it is stated."""
    prefixes = 0
    for line, text in source.lines(faults, "leave out"):
        match = next(filter(None, (known.match(text) for known in (*_KNOWN, _LS))), None)
        if match is not None:
            place = match.groupdict()
            url, size = place.get("url"), int(place["size"])
            key = place["key"] if url is None else url.split("/", 3)[-1]
            if not key.endswith("/"):  # such a key marks an empty directory
                yield Row(
                    line,
                    {
                        "url": make_relative_url(key) if url is None else url,
                        "path": key,
                        "size": None if size < 0 else size,
                    },
                )
        elif text.startswith(_START) and not text.endswith(("/", ":")):
            yield Row(line, {"url": text, "path": text.split("/", 3)[-1]})
        elif _ROUNDED.match(text):
            faults.add(line, "its size is rounded; list the bucket without the option for readable sizes")
        elif _PREFIX.match(text):
            prefixes += 1
        elif not _REST.match(text) and not _HEADING.match(text) and not text.startswith(_START):
            faults.add(line, "it is not a line of a bucket's listing: a size, a time and a key")
    if prefixes:
        document.note_partial(f"prefixes that are left out: {prefixes}; list all that is below them")
