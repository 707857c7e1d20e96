"""``TsvHttpData-1.0``, the URL lists of Google's Storage Transfer Service.

After a line with that name, each line has a URL, its size in bytes and its MD5 in base64, tab separated. Size
and MD5 may be left out. Paths are the URLs' last segments, as everywhere in cfetch; Google's service keeps
host and path.
"""

import base64
import binascii
from collections.abc import Iterator

from cfetch.manifest.faults import BrokenDocumentError, Faults, Misfit
from cfetch.manifest.rows import Document, Row
from cfetch.manifest.source import Source
from cfetch.manifest.strict_json import read_digits

FIRST_LINE = "TsvHttpData-1.0"

_COLUMNS = ("url", "size", "md5")


def read_tsv_http_data(source: Source, document: Document, faults: Faults) -> Iterator[Row]:
    """The rows: ``url``, and ``size`` and ``md5`` where they are stated."""
    lines = source.lines(faults, "leave out")
    if next(lines, (1, ""))[1].rstrip() != FIRST_LINE:
        raise BrokenDocumentError(1, f"its first line is not {FIRST_LINE}")
    for line, text in lines:
        if not text or text.isspace():
            continue
        cells = text.split("\t")
        if len(cells) > len(_COLUMNS):
            faults.add(line, f"the line has {len(cells)} cells, but there are only a URL, a size and an MD5")
            continue
        given = zip(_COLUMNS, cells, strict=False)
        yield Row(line, {column: _value(column, cell) for column, cell in given if cell})


def _value(column: str, cell: str) -> object:
    if column == "size":
        return read_digits(cell, "a cell that is not all digits")
    if column == "md5":
        try:
            return base64.b64decode(cell, validate=True).hex()
        except (binascii.Error, ValueError):  # ValueError: characters outside ASCII
            return Misfit("a cell that is not base64")
    return cell
