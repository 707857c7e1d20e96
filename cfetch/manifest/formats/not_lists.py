"""Files that are no texts, but that users give as a manifest: their kinds, by their first bytes. Pure."""

import re

_TORRENT = re.compile(
    rb"d[0-9]{1,2}:(?:announce|announce-list|comment|created by|creation date|info|url-list)"
)
_BINARIES = (
    (b"PK\x03\x04", "zip"),
    (b"\xff\xfe", "utf-16"),
    (b"\xfe\xff", "utf-16"),
    (b"\xfd7zXZ\x00", "xz"),
    (b"BZh", "bzip2"),
    (b"\x1f\x8b", "compressed"),
    (b"\x28\xb5\x2f\xfd", "compressed"),
    (b"7z\xbc\xaf\x27\x1c", "zip"),
)

_TEXT = bytes(set(range(256)) - {*range(9), *range(14, 27), *range(28, 32), 127})
MOST_ODD = 20  # bytes of a text for each control character: fewer are damage in some rows of a list


def is_workbook(start: bytes) -> bool:
    """Whether a file with these first bytes is a spreadsheet's workbook."""
    if start.startswith(b"\xd0\xcf\x11\xe0"):  # the container of Excel before 2007, and of Word
        return b"W\0o\0r\0k\0b\0o\0o\0k" in start or b"B\0o\0o\0k" in start
    is_archive = start.startswith(b"PK\x03\x04")
    return is_archive and (b"xl/" in start or b"opendocument.spreadsheet" in start[:200])


def find_kind(start: bytes) -> str:
    """The kind of a file with these first bytes; empty if it may be a list."""
    if _TORRENT.match(start):
        return "torrent"
    for magic, kind in _BINARIES:
        if start.startswith(magic):
            return kind
    if start[257:262] == b"ustar":  # an archive of texts is nearly a text
        return "binary"
    is_binary = b"\0" in start and len(start.translate(None, _TEXT)) * MOST_ODD > len(start)
    return "binary" if is_binary else ""
