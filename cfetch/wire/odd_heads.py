"""Mends heads that the parser does not read, or reads otherwise than the judge, as curl and wget do. Pure.

Imported for the first such head. What is mended says nothing about where a body ends, or says it in one way
only: a header whose name is none is left out, a control character within a value is a space; a status line
may lack its usual spelling; lengths are those of ``repeated_lengths.py``. A NUL, and a line without a colon,
stay faults. Transfer codings are spelled in the judge's own way, so that the parser and the judge never
differ in whether a body comes in chunks.
"""

import re
from typing import NamedTuple

from cfetch.wire.repeated_lengths import HEAD_END, mend_lengths

_STATUS_LINE = re.compile(
    rb"(?:HTTP/(?P<version>\d(?:\.\d)?)|ICY)[ \t]+(?P<status>\d{3})(?:[ \t]+(?P<reason>.*))?\Z", re.IGNORECASE
)
_FIRST_LINE = re.compile(rb"[\r\n]*([^\r\n]+)")
_NAME = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+[ \t]*\Z")
_CONTROLS = re.compile(rb"[\x01-\x08\x0a-\x1f\x7f]")
_LENGTH = re.compile(rb"[ \t]*\+?([0-9]+)[ \t]*(?:bytes?)?[ \t]*\Z", re.IGNORECASE)


class MendedHead(NamedTuple):
    """The head as the parser reads it, with what comes behind it.

    ``is_odd``: more was mended than one length, so that the connection should not be used again.
    ``lengths``: those that the parser does not get.
    """

    data: bytes
    is_odd: bool
    lengths: tuple[bytes, ...] = ()


def find_bad_status(head: bytes) -> bytes | None:
    """The first line of a head, or of one behind interim replies, if its status is none; else None."""
    begin = 0
    while (line := _FIRST_LINE.match(head, begin)) is not None:
        match = _STATUS_LINE.match(line[1])
        if match is None or match["status"] < b"100":
            return line[1]
        end = HEAD_END.search(head, begin)
        if end is None or match["status"] >= b"200" or match["status"] == b"101":
            break
        begin = end.end()
    return None


def mend_head(head: bytes) -> MendedHead | None:
    """Mend a head whose end has come; None: there is nothing to mend."""
    end = HEAD_END.search(head)
    assert end is not None
    first, *rest = [line.removesuffix(b"\r") for line in head[: end.start()].lstrip(b"\r\n").split(b"\n")]
    lines = [_mend_status(first), *filter(None, map(_mend_line, rest))]
    is_odd = lines != [first, *rest]
    if is_odd:
        head = b"\r\n".join(lines) + head[end.start() :]
    mended = mend_lengths(head)
    if mended is not None:
        return MendedHead(mended.data, is_odd or bool(mended.lengths), mended.lengths)
    return MendedHead(head, is_odd) if is_odd else None


def spell_codings(codings: str) -> str:
    """The codings without parameters, empty words and ``identity``, in lower case."""
    words = (part.partition(";")[0].strip() for part in codings.lower().split(","))
    return ", ".join(word for word in words if word not in ("", "identity"))


def _mend_status(line: bytes) -> bytes:
    match = _STATUS_LINE.match(line)
    if match is None:
        return line
    version = b"1.0" if match["version"] in (None, b"1.0") else b"1.1"
    reason = _CONTROLS.sub(b" ", match["reason"] or b"").strip()
    return b" ".join((b"HTTP/" + version, match["status"], reason))


def _mend_line(line: bytes) -> bytes | None:
    """A line of the head; None: it is to be left out."""
    name, colon, value = line.partition(b":")
    if line[:1] in (b" ", b"\t"):  # it goes on with the line before
        return _CONTROLS.sub(b" ", line)
    if not colon:
        return line
    if not _NAME.match(name):
        return None
    match name.strip().lower():
        case b"content-length" if match := _LENGTH.match(value):
            value = b" " + match[1]
        case b"transfer-encoding":
            codings = spell_codings(value.decode("latin-1"))
            if not codings:
                return None
            value = b" " + codings.encode("latin-1")
    return name + colon + _CONTROLS.sub(b" ", value)
