"""The wire format of a feed: keys as text, and a change as a row of JSON. Input is checked strictly.

A row has ``lsn``, ``op`` ("upsert" or "delete"), ``path``, ``key`` unless it is ``key_of(path)``, and for an
upsert all other keys that a manifest's row may state (docs/feed-protocol.md).
"""

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from cfetch.base.errors import HostileFeed, ManifestError
from cfetch.manifest.faults import BrokenDocumentError, Faults, kind_of, quoted_key
from cfetch.manifest.fields import FieldError, check_path, check_size
from cfetch.manifest.rows import Document, Row, check_row, describe_unknown_key
from cfetch.manifest.strict_json import decode_text
from cfetch.plugins.follow.ranges import KEY_BITS, KeyRange, key_of
from cfetch.plugins.follow.source import Change

SCHEMA = "cfetch.feed/1"
KEY_DIGITS = KEY_BITS // 4
_KEY = re.compile(rf"[0-9a-f]{{{KEY_DIGITS}}}\Z")
_ID = re.compile(r"[A-Za-z0-9._-]{1,128}\Z")  # ids appear in URLs, in file names and on screens
SHOWN_FAULTS = 3  # of one row: more would hide the first one
ANY_BASE_URL = "http://feed.invalid/"  # for a publisher's check of relative URLs; readers have the true base
_OWN = ("lsn", "op", "key")


def format_key(key: int) -> str:
    """Write a key as 32 hex digits in lower case."""
    return f"{key:0{KEY_DIGITS}x}"


def _parse_key(text: object) -> int:
    """The key of ``format_key``. Raises: FieldError."""
    if type(text) is not str or not _KEY.match(text):
        raise FieldError(f"it must be a string of {KEY_DIGITS} hex digits in lower case")
    return int(text, 16)


def format_keys(keys: KeyRange) -> str:
    """Write ``LOW-HIGH``; without HIGH if it is the end of all keys, which would need one digit more."""
    return f"{format_key(keys.low)}-{'' if keys.high == 1 << KEY_BITS else format_key(keys.high)}"


def parse_keys(text: object) -> KeyRange:
    """The range of ``format_keys``.

    Raises: FieldError: the text is not a range, or the range holds no key.
    """
    if type(text) is not str:
        raise FieldError(f"it must be a string LOW-HIGH, not {kind_of(text)}")
    low, dash, high = text.partition("-")
    if not dash:
        raise FieldError("it must be LOW-HIGH, two keys with a dash between them")
    keys = KeyRange(_parse_key(low), _parse_key(high) if high else 1 << KEY_BITS)
    if keys.low >= keys.high:
        raise FieldError("it holds no key: its lower end is not below its upper end")
    return keys


def parse_lsn(value: object) -> int:
    """An LSN: an integer from 0 to 2**63-1. Raises: FieldError."""
    return check_size(value)


def check_id(value: object) -> str:
    """A feed's or a range's id: 1 to 128 letters, digits, dots, dashes, underscores. Raises: FieldError."""
    if type(value) is not str or not _ID.match(value) or value in (".", ".."):
        raise FieldError("it must be 1 to 128 letters, digits, dots, dashes and underscores")
    return value


class LeftOut(NamedTuple):
    """Files that a publisher has and its feed lacks: how many, and some of them by name and reason."""

    total: int
    files: Sequence[tuple[str, str]]


def decode_document(body: bytes, what: str) -> Any:  # noqa: ANN401 - JSON is any value
    """Decode one JSON document. Raises: HostileFeed: ``what`` is not JSON."""
    try:
        return decode_text(body.decode(), 1)
    except (UnicodeDecodeError, BrokenDocumentError) as error:
        why = "it is not UTF-8" if isinstance(error, UnicodeDecodeError) else str(error)
        raise HostileFeed(f"{what} cannot be read: {why}") from None


def check_members(
    value: object, what: str, required: tuple[str, ...], optional: tuple[str, ...] = ()
) -> dict[str, Any]:
    """Check for an object with these keys and no others. Raises HostileFeed: ``what`` is something else."""
    if type(value) is not dict:
        raise HostileFeed(f"{what} must be an object, not {kind_of(value)}")
    for key in required:
        if key not in value:
            raise HostileFeed(f"{what} has no {key!r}")
    for key in value:
        if key not in required and key not in optional:
            raise HostileFeed(f"{what}: {describe_unknown_key(key, (*required, *optional))}")
    return value


def parse_change(fields: object, document: Document, what: str) -> Change:
    """The change that a row states. ``document`` has the base of its URLs; ``what`` is the row's name.

    Raises:
        HostileFeed: it breaks the rules; all of its faults are named.
    """
    if type(fields) is not dict:
        raise HostileFeed(f"{what} must be an object, not {kind_of(fields)}")
    faults = Faults()
    own: dict[str, Any] = {}
    for key, check in (("lsn", parse_lsn), ("path", check_path)):
        try:
            if key not in fields:
                raise FieldError("it is missing")
            own[key] = check(fields[key])
        except FieldError as error:
            faults.add(0, f"{key}: {error}")
    op = fields.get("op")
    if op not in ("upsert", "delete"):
        faults.add(0, 'op: it must be "upsert" or "delete"')
    if "key" in fields:
        try:
            own["key"] = _parse_key(fields["key"])
        except FieldError as error:
            faults.add(0, f"key: {error}")
    elif "path" in own:
        own["key"] = key_of(own["path"])
    entry = None
    if op == "delete":
        for key in fields.keys() - {*_OWN, "path"}:
            faults.add(0, f"a delete states no {quoted_key(key)}")
    elif not faults.total:
        entry = check_row(Row(0, {k: v for k, v in fields.items() if k not in _OWN}), 0, document, faults)
    try:
        faults.raise_if_any(what)
    except ManifestError as error:
        faults_text = "; ".join(problem.message for problem in error.problems[:SHOWN_FAULTS])
        raise HostileFeed(f"{what}: {faults_text}") from None
    return Change(own["lsn"], own["key"], own["path"], entry)
