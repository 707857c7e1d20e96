"""One check for each key of an entry: it takes a JSON value, and returns the value for ``Entry``.

No check repairs a value, and no message quotes one: a value in the wrong place may be a secret.
"""

import math
import re
from collections.abc import Callable
from datetime import datetime
from functools import partial

from cfetch.base.secret import SecretText
from cfetch.manifest.digests import HEX_DIGITS, find_stated
from cfetch.manifest.entry import Digest, SafePath, UnsafePathError, safe_path
from cfetch.manifest.faults import kind_of, quoted_key

Headers = tuple[tuple[str, SecretText], ...]

MAX_INT = 2**63 - 1  # off_t, and a file's size in every system call
MAX_BATCH_CHARS = 200  # a batch's name is in metrics and in one line of the dashboard
MILLISECONDS_FROM = 100_000_000_000  # 1e11 s is the year 5138, 1e11 ms is 1973: no link's expiry is ambiguous

RESERVED_HEADERS = frozenset({
    "accept-encoding", "connection", "content-length", "host", "if-range", "range", "transfer-encoding",
})  # fmt: skip
"""The headers on which resuming, framing and verification depend: only cfetch sets them."""

_HEX = re.compile(r"[0-9A-Fa-f]+\Z")
_BASE64 = re.compile(r"[0-9A-Za-z+/]+={0,2}\Z")
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,200}\Z")  # RFC 9110 section 5.6.2
_NOT_IN_HEADERS = re.compile("[\x00-\x08\x0a-\x1f\x7f\ud800-\udfff]")
_NOT_IN_BATCH = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")


class FieldError(ValueError):
    """A value that is not allowed for its key; the message says what is allowed."""


def check_size(value: object) -> int:
    """Bytes or a position: 0 to 2**63-1, and of type integer, as ``true`` and ``1.0`` are mistakes."""
    if type(value) is int and 0 <= value <= MAX_INT:
        return value
    what = "one outside of it" if type(value) is int else kind_of(value)
    raise FieldError(f"it must be an integer from 0 to {MAX_INT}, not {what}")


def _check_stated_size(value: object) -> int | None:
    """Bytes of a file, which some programs write as a text; -1 is their word for not known."""
    is_text = type(value) is str and value.isascii() and value.isdigit() and len(value) < 20
    return None if str(value) == "-1" else check_size(int(str(value)) if is_text else value)


def check_path(value: object) -> SafePath:
    """A relative path, checked by ``safe_path``."""
    try:
        return safe_path(_check_string(value))
    except UnsafePathError as error:
        raise FieldError(str(error)) from None


def check_headers(value: object) -> Headers:
    """An object of header names to strings."""
    if type(value) is not dict:
        raise FieldError(f"it must be an object of names to strings, not {kind_of(value)}")
    seen = set()
    for name, text in value.items():
        if not _TOKEN.match(name):
            raise FieldError(f"the name {quoted_key(name)} is not a header's name")
        folded = name.lower()
        if folded in RESERVED_HEADERS:
            raise FieldError(f"{name} is set by cfetch itself; remove it")
        if folded in seen:
            raise FieldError(f"{name} is given twice")
        seen.add(folded)
        if type(text) is not str:
            raise FieldError(f"the value of {name} must be a string, not {kind_of(text)}")
        if _NOT_IN_HEADERS.search(text):
            raise FieldError(f"the value of {name} holds a control character")
    return tuple((name, SecretText(text)) for name, text in value.items())


def check_flag(value: object) -> bool:
    """``true`` or ``false``."""
    if type(value) is not bool:
        raise FieldError(f"it must be true or false, not {kind_of(value)}")
    return value


def _check_string(value: object) -> str:
    if type(value) is not str:
        raise FieldError(f"it must be a string, not {kind_of(value)}")
    return value


def check_hash(algorithm: str, value: object) -> Digest:
    """Hexadecimal digits, with or without the algorithm and a colon before them, as in ``sha256:…``."""
    text, digits = _check_string(value), HEX_DIGITS[algorithm]
    if len(text) != digits and (stated := find_stated(text)) is not None and stated[0] == algorithm:
        text = stated[1]
    if len(text) != digits or not _HEX.match(text):
        text = text.removeprefix(f"{algorithm}:").removeprefix(f"{algorithm}-")  # as in Subresource Integrity
        is_base64 = len(text) == -(-digits // 6) * 4 and _BASE64.match(text)
        hint = "; write the bytes of its base64 as such digits" if is_base64 else ""
        hint = hint if text else "; null says that there is none"
        raise FieldError(f"it must be {digits} hexadecimal digits{hint}")
    return Digest(algorithm, text.lower())


def _check_batch(value: object) -> str:
    text = _check_string(value)
    if not 1 <= len(text) <= MAX_BATCH_CHARS or _NOT_IN_BATCH.search(text):
        raise FieldError(f"it must have 1 to {MAX_BATCH_CHARS} characters and no control character")
    return text


def _check_expiry(value: object) -> float:
    """ISO 8601 with a zone, or a number since 1970: seconds below 1e11, milliseconds from there on."""
    if type(value) is str:
        return _parse_moment(value)
    if type(value) is not int and type(value) is not float:
        raise FieldError(f"it must be a date and time or a number of seconds, not {kind_of(value)}")
    if not math.isfinite(value) or not 0 <= value < MILLISECONDS_FROM * 1000:
        raise FieldError("it is not a time since 1970, in seconds or milliseconds")
    return float(value) if value < MILLISECONDS_FROM else value / 1000


def _parse_moment(text: str) -> float:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise FieldError("it is not an ISO 8601 date and time such as 2026-01-01T00:00:00Z") from None
    if moment.tzinfo is None:
        raise FieldError("it has no time zone; add Z for UTC")
    seconds = moment.timestamp()
    if not 0 <= seconds < MILLISECONDS_FROM:
        raise FieldError("it is not a time between 1970 and the year 5138")
    return seconds


CHECKS: dict[str, tuple[str, Callable[[object], object]]] = {
    "size": ("size_bytes", _check_stated_size),
    "offset": ("offset", check_size),
    "length": ("length", check_size),
    "path": ("path", check_path),
    **{algorithm: ("digest", partial(check_hash, algorithm)) for algorithm in HEX_DIGITS},
    "expires_at": ("expires_at", _check_expiry),
    "batch": ("batch", _check_batch),
    "headers": ("headers", check_headers),
    "assemble": ("assemble", check_flag),
}
"""A manifest's key -> the entry's field, and its check. ``url`` and ``mirrors`` need the base too.

If a row has several hashes, the strongest stays. ``length`` and ``assemble`` are no fields: ``rows.py`` makes
a range of ``length`` and ``offset``, and a piece because of ``assemble``.
"""
