"""Listings of a bucket: ``aws s3 ls --recursive``, and the CSV files of an S3 inventory.

``aws s3 ls`` names no bucket, so its keys are relative to a base URL. An inventory names the bucket: without
a base URL its rows are ``s3://bucket/key``. Only current versions count. ETags are not used as hashes, as for
large or encrypted objects they are no hash of the content.
"""

import csv
import re
from collections.abc import Iterator, Sequence
from urllib.parse import unquote_plus

from cfetch.base.schemes import S3
from cfetch.manifest.faults import Faults
from cfetch.manifest.rows import Document, Row
from cfetch.manifest.source import Source
from cfetch.manifest.url_completion import make_relative_url

_MOMENT = "[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}"
_LS_LINE = re.compile(rf"{_MOMENT} +(?P<size>[0-9]{{1,20}}) (?P<key>.+)\Z")
_LS_HUMAN = re.compile(rf"{_MOMENT} +[0-9.]{{1,20}} (?:Bytes|[KMGTPE]iB) ")
_LS_REST = re.compile(r" *(?:PRE .*|Total (?:Objects|Size): .*)?\Z")
_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]\Z")
_MODIFIED = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+Z\Z")
_DIGITS = re.compile(r"[0-9]{1,20}\Z")
_FLAGS = ("true", "false")


def is_listing_line(line: str) -> bool:
    """Whether a line comes from ``aws s3 ls``."""
    is_file = _LS_LINE.match(line) or _LS_HUMAN.match(line)
    return is_file is not None or line.lstrip(" ").startswith("PRE ")


def is_inventory(lines: Sequence[str]) -> bool:
    """Whether the first lines are rows of an inventory: each cell quoted, one bucket, keys, mostly sizes.

    Without a time of the last change, the cells might be those of another table: all the rows have to agree.
    """
    rows = [_split(line) for line in lines if line.startswith('"')]
    if not rows:
        return False
    if (len(rows[0]) > 3 and _find_size(rows[0]) is not None) or _is_delete_marker(rows[0]):
        return True
    is_same = len(rows) == len(lines) and all(
        len(row) in (2, 3) and row[0] == rows[0][0] and _is_row(row) for row in rows
    )
    return is_same and all("." in row[1] or "/" in row[1] for row in rows)


def read_s3_listing(source: Source, document: Document, faults: Faults) -> Iterator[Row]:
    """The rows: ``url``, ``path`` and ``size``."""
    prefixes = 0
    for line, text in source.lines(faults, "leave out"):
        match = _LS_LINE.match(text)
        if match is None:
            prefixes += text.lstrip(" ").startswith("PRE ")
            if _LS_HUMAN.match(text):
                faults.add(line, "its size is rounded; list the bucket without --human-readable")
            elif not _LS_REST.match(text):
                faults.add(line, "it is not a line of aws s3 ls: a date, a time, a size and a key")
        elif not match["key"].endswith("/"):  # such a key marks an empty directory
            yield Row(
                line,
                {"url": make_relative_url(match["key"]), "path": match["key"], "size": int(match["size"])},
            )
    if prefixes:
        document.note_partial(f"prefixes that are left out: {prefixes}; list the bucket with --recursive")


def read_s3_inventory(source: Source, document: Document, faults: Faults) -> Iterator[Row]:
    """The rows: ``url``, ``path`` and ``size``."""
    for line, text in source.lines(faults, "leave out"):
        if not text:
            continue
        cells = _split(text)
        if _is_delete_marker(cells):
            continue
        if not _is_row(cells):
            faults.add(line, "it is not a row of an S3 inventory: a bucket, a key and perhaps a size")
            continue
        place = _find_size(cells)
        flags = [cell for cell in cells[2:place] if cell in _FLAGS]
        key = unquote_plus(cells[1])
        if (flags and (flags[0] == "false" or flags[1:2] == ["true"])) or key.endswith("/"):
            continue
        url = f"{S3}://{cells[0]}/{key}" if document.base() is None else make_relative_url(key)
        yield Row(line, {"url": url, "path": key, "size": None if place is None else int(cells[place])})


def _split(line: str) -> list[str]:
    try:
        return next(csv.reader([line], strict=True), [])
    except csv.Error:
        return []


def _is_delete_marker(cells: Sequence[str]) -> bool:
    """Whether a row of a versioned bucket's inventory is a delete marker, which has no size."""
    return len(cells) > 4 and _BUCKET.match(cells[0]) is not None and cells[4] == "true" and "" in cells[5:]


def _is_row(cells: Sequence[str]) -> bool:
    return len(cells) > 1 and _BUCKET.match(cells[0]) is not None and "://" not in cells[1]


def _find_size(cells: Sequence[str]) -> int | None:
    """The place of the size: just before the time of the last change, or the third of three cells."""
    if len(cells) < 3 or not _BUCKET.match(cells[0]):
        return None
    if len(cells) == 3:
        return 2 if _DIGITS.match(cells[2]) else None
    for place in range(2, len(cells) - 1):
        if _DIGITS.match(cells[place]) and _MODIFIED.match(cells[place + 1]):
            return place
    return None
