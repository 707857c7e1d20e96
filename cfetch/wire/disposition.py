"""Reads the name of a file from ``Content-Disposition`` (RFC 6266), also as sloppy servers write it. Pure.

What curl -J, wget and browsers take is taken: a name without quotes and with spaces, brackets or commas, a
quotation mark that is missing at the end, single quotes, no disposition type, the parts of RFC 2231, and a
word encoded for mail (RFC 2047). ``filename*`` wins, and directories are dropped (RFC 6266, 4.3).
"""

import re
from codecs import lookup
from collections.abc import Iterator
from urllib.parse import unquote_to_bytes

_KEY = re.compile(r"\s*(?:[A-Za-z-]+\s*;\s*)?([A-Za-z]+(?:\*\d{1,2})?\*?)\s*=\s*")
_PART = re.compile(r"filename\*(\d{1,2})(\*?)\Z")
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_ENCODED_WORD = re.compile(r"(?:=\?[A-Za-z0-9_-]+\?[BbQq]\?[^?\s]*\?=\s*)+")
MOST_PARTS = 100


def read_name(header: str) -> str | None:
    """The name in a header, without directories; None: there is none, or it cannot be decoded."""
    fields: dict[str, str] = {}
    for key, value in _split(header):
        fields.setdefault(key.lower(), value)
    for name in (_decode_extended(fields.get("filename*")), _join_parts(fields), fields.get("filename")):
        if name and (last := _read_word(name).replace("\\", "/").rpartition("/")[2]):
            return last
    return None


def _split(header: str) -> Iterator[tuple[str, str]]:
    """The parameters; a quoted value may hold semicolons, and one without quotes ends at a semicolon."""
    place = 0
    while place < len(header):
        match = _KEY.match(header, place)
        if match is None:
            place = header.find(";", place) + 1 or len(header)
            continue
        value, place = _read_value(header, match.end())
        yield match[1], value


def _read_value(header: str, start: int) -> tuple[str, int]:
    """A value, and where the next parameter begins."""
    if header[start : start + 1] != '"':
        end = header.find(";", start)
        value = (header[start:] if end < 0 else header[start:end]).strip()
        if value.startswith("'"):  # single quotes; the last one may be missing, as with double quotes
            value = value[1:].removesuffix("'")
        return value, len(header) if end < 0 else end + 1
    end = start + 1
    while end < len(header) and header[end] != '"':
        end += 2 if header[end] == "\\" else 1
    after = header.find(";", end)
    return _ESCAPED.sub(r"\1", header[start + 1 : end]), len(header) if after < 0 else after + 1


def _decode_extended(value: str | None) -> str | None:
    """``UTF-8'en'na%C3%AFve`` (RFC 8187); the value itself may hold quotation marks."""
    if value is None:
        return None
    charset, _, rest = value.partition("'")
    _, mark, text = rest.partition("'")
    return _decode(text, charset) if mark else None


def _decode(text: str, charset: str) -> str | None:
    try:
        return unquote_to_bytes(text.encode("utf-8", "surrogateescape")).decode(
            lookup(charset or "utf-8").name
        )
    except (LookupError, UnicodeError, ValueError):
        return None


def _join_parts(fields: dict[str, str]) -> str | None:
    """``filename*0="a"; filename*1*=%20b``: the parts of a long name (RFC 2231, 3 and 4)."""
    parts = {int(match[1]): (match[2], fields[key]) for key in fields if (match := _PART.match(key))}
    name, charset = "", "utf-8"
    for number in range(MOST_PARTS):
        if number not in parts:
            break
        is_encoded, value = parts[number]
        if is_encoded and not number:
            charset, _, rest = value.partition("'")
            value = rest.partition("'")[2]
        piece = _decode(value, charset) if is_encoded else value
        if piece is None:
            return None
        name += piece
    return name or None


def _read_word(name: str) -> str:
    """A word that is encoded as in mail, decoded; any other name as it is, with bytes of old servers read."""
    if any("\ud800" <= character <= "\udfff" for character in name):
        return name.encode("utf-8", "surrogateescape").decode("latin-1")  # the old rule of HTTP
    if not _ENCODED_WORD.fullmatch(name):
        return name
    from email.header import decode_header, make_header  # few servers do that

    try:
        return str(make_header(decode_header(name)))
    except (LookupError, UnicodeError, ValueError):
        return name
