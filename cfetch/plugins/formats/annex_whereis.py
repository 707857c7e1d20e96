"""``git annex whereis --json``: on each line a file, its key, and the places that have its content.

A file is fetched from its first http(s) address; the others are its mirrors. The key tells the size and, for
most backends, a hash of the content.
"""

import re
from collections.abc import Iterator

from cfetch.base.schemes import is_web
from cfetch.manifest.digests import HEX_DIGITS
from cfetch.manifest.faults import Faults
from cfetch.manifest.formats.json_lines import read_plain_lines
from cfetch.manifest.formats.whole_json import list_objects
from cfetch.manifest.rows import Document, Row
from cfetch.manifest.source import Source

_KEY = re.compile(r"(?P<backend>[A-Z0-9_]+?)E?(?:-s(?P<size>[0-9]{1,20}))?(?:-[mSC][0-9]+)*--(?P<name>.+)\Z")


def read_annex_whereis(source: Source, document: Document, faults: Faults) -> Iterator[Row]:
    """The rows: ``url``, ``path``, ``size``, a hash, and ``mirrors``."""
    without = 0
    for row in read_plain_lines(source, faults):
        entry = row.fields
        if not isinstance(entry, dict):
            yield row
            continue
        urls = [
            url
            for place in (*list_objects(entry, "whereis"), *list_objects(entry, "untrusted"))
            for url in _list(place.get("urls"))
            if isinstance(url, str) and is_web(url)
        ]
        if not urls:
            without += 1
            continue
        fields: dict[str, object] = {"url": urls[0], "path": entry.get("file"), "mirrors": urls[1:] or None}
        yield row._replace(fields=fields | _read_key(entry.get("key")))
    if without:
        document.note_partial(f"files that are left out, because no http(s) address has them: {without}")


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _read_key(key: object) -> dict[str, object]:
    match = _KEY.match(key) if isinstance(key, str) else None
    if match is None:
        return {}
    stated: dict[str, object] = {"size": int(match["size"])} if match["size"] else {}
    algorithm, digits = match["backend"].lower(), match["name"].partition(".")[0]
    if algorithm in HEX_DIGITS and len(digits) == HEX_DIGITS[algorithm]:
        stated[algorithm] = digits
    return stated
