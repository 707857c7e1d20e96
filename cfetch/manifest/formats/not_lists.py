"""Files that are no lists, but that users give as a manifest: their kinds, and advice for each.

The message names the kind, so that the user learns more than the place of the first bad byte.
"""

import re
from collections.abc import Sequence

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

MESSAGES = {
    "torrent": (
        "it is a torrent, and cfetch speaks http only; if it has web seeds, give their URLs as a list, and "
        "otherwise use a BitTorrent client"
    ),
    "zip": "it is an archive; unpack it, and give the list that is in it",
    "xz": "it is compressed by xz; give it as xz -dc FILE | cfetch … -",
    "bzip2": "it is compressed by bzip2; give it as bzip2 -dc FILE | cfetch … -",
    "compressed": "it is compressed twice; undo one of the two yourself",
    "utf-16": "it is UTF-16; save it as UTF-8, for example by iconv -f UTF-16 -t UTF-8 FILE",
    "html": (
        "it is an HTML page and no list: perhaps a login, an error, or the page about a file; if it is a "
        "list of a directory or of packages, say --from-format html-index or package-index"
    ),
    "foreign-json": (
        "it is JSON, and no list that cfetch knows: the key 'files' is missing, which holds the entries"
    ),
    "xml": "it is XML, and no list that cfetch knows",
    "within": (
        "its lines hold links within other text, such as quotes, YAML, Markdown or the commands of a script"
    ),
    "bucket-xml": (
        "it is a bucket's own list in XML; give the bucket as s3://NAME/, or s3://NAME/PREFIX/ (public data: "
        "AWS_SKIP_SIGNATURE=true)"
    ),
    "inventory-manifest": (
        "it is the manifest of an S3 inventory; give the files under its key files, which are the list, in "
        "one command"
    ),
    "text": (
        "it is some text and no list of links; to fetch a file by its URL, say `cfetch get URL`. If its "
        "lines are relative links, say --from-format urls"
    ),
    "cksum": (
        "it is a list of checksums by cksum, a CRC that cfetch cannot verify; `cut -d' ' -f3- LIST` prints "
        "its names, which --from-format urls reads, and sha256sum writes hashes. If it is a listing of sizes "
        "and names, say --from-format bucket-ls"
    ),
    "binary": "it is some file and no list of files; to fetch a file by its URL, say `cfetch get URL`",
}


def is_workbook(start: bytes) -> bool:
    """Whether a file with these first bytes is a spreadsheet's workbook."""
    if start.startswith(b"\xd0\xcf\x11\xe0"):  # the container of Excel before 2007, and of Word
        return b"W\0o\0r\0k\0b\0o\0o\0k" in start or b"B\0o\0o\0k" in start
    is_archive = start.startswith(b"PK\x03\x04")
    return is_archive and (b"xl/" in start or b"opendocument.spreadsheet" in start[:200])


_CKSUM = re.compile(r"[0-9]{5,10} [0-9]{1,20} \S")  # a CRC, a size and a name; ``rclone ls`` pads its sizes


def find_text_kind(lines: Sequence[str]) -> str:
    """The kind of a text with these first lines that is no list; empty if it may be one."""
    return "cksum" if lines and all(map(_CKSUM.match, lines)) else ""


def find_kind(start: bytes) -> str:
    """The kind of a file with these first bytes; empty if it may be a list."""
    if _TORRENT.match(start):
        return "torrent"
    for magic, kind in _BINARIES:
        if start.startswith(magic):
            return kind
    return "binary" if b"\0" in start else ""
