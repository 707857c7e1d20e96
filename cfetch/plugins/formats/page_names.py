"""The names in a directory's page that are not UTF-8, as old archives have them.

A server lists the bytes of its file names. A link is asked for with exactly these bytes. For the name on
disk they are read as UTF-8 if they are UTF-8, whatever the page says: Apache states ISO-8859-1 by default,
also for names in UTF-8. Else the encodings count that the header and the page state; names that are in
neither are guessed together.

Python's text of a page keeps the bytes that are not UTF-8 as lone surrogates (``surrogateescape``), so that
its tags can be read before the encoding is known.
"""

import codecs
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import NamedTuple
from urllib.parse import quote, unquote_to_bytes

_SINGLE = (
    *(
        "cp866",
        "cp874",
        "cp1250",
        "cp1251",
        "cp1252",
        "cp1253",
        "cp1254",
        "cp1255",
        "cp1256",
        "cp1257",
        "cp1258",
    ),
    *(f"iso8859-{part}" for part in (2, 3, 4, 5, 6, 7, 8, 10, 13, 14, 15, 16)),
    *("koi8-r", "koi8-u", "mac-roman", "mac-cyrillic"),
)
_SEVERAL = ("cp932", "euc_jp", "gb18030", "big5hkscs", "cp949")
KNOWN = frozenset({*_SINGLE, *_SEVERAL})
"""The encodings of web pages that write ASCII as ASCII, by Python's names; others of Python's are no text."""

# Pages state the narrow name and use the broad encoding; browsers read them so too (WHATWG's Encoding).
_BROADER = {
    "ascii": "cp1252",
    "iso8859-1": "cp1252",
    "iso8859-9": "cp1254",
    "iso8859-11": "cp874",
    "tis-620": "cp874",
    "shift_jis": "cp932",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "big5": "big5hkscs",
    "euc_kr": "cp949",
}
_GUESSED = (
    *_SEVERAL,
    "koi8_r",
    "cp1251",
    "cp1252",
)  # more of single bytes only make guesses of a few bytes worse
_SHOWN = {
    "cp932": "Shift-JIS",
    "big5hkscs": "Big5",
    "euc_jp": "EUC-JP",
    "koi8_r": "KOI8-R",
    "cp949": "EUC-KR",
}
_HEADER = re.compile(r"""charset\s{0,20}=\s{0,20}["']?([A-Za-z0-9_.:-]{1,40})""", re.IGNORECASE)
_META = re.compile(rf"<meta\s[^<>]{{0,300}}?{_HEADER.pattern}", re.IGNORECASE)
_META_CHARS = 1 << 14  # browsers look into the first 1,024 bytes
_SAMPLE_BYTES = 1 << 16
_LINK_HIGH = re.compile("[\udc80-\udcff]")


class Names(NamedTuple):
    """``shown``: link, as for requests -> its last segment as a name; ``guess``: how, if by a guess."""

    shown: Mapping[str, str]
    guess: str | None


def read_text(data: bytes) -> str:
    """The text of a page; bytes that are not UTF-8 are lone surrogates."""
    return data.removeprefix(codecs.BOM_UTF8).decode("utf-8", "surrogateescape")


def find_stated(content_type: str | None, text: str) -> list[str]:
    """The encodings that the header and the page state, best first, as far as they are known."""
    statements = (_HEADER.search(content_type or ""), _META.search(text[:_META_CHARS]))
    names = (_find_encoding(match[1]) for match in statements if match is not None)
    return list(dict.fromkeys(name for name in names if name is not None))


def encode_link(link: str, stated: Iterable[str]) -> str:
    """Percent-encode a link with bytes that are not UTF-8, byte for byte; others stay as they are.

    The second byte of a character may be one of ASCII, such as a backslash, so whole characters are encoded.
    """
    if link.isascii() or not _LINK_HIGH.search(link):
        return link
    data = link.encode("utf-8", "surrogateescape")
    for encoding in stated:
        with suppress(UnicodeError):
            pieces = [(char, char.encode(encoding)) for char in data.decode(encoding)]
            if b"".join(piece for _, piece in pieces) == data:
                return "".join(char if char.isascii() else _quote_bytes(piece) for char, piece in pieces)
    return re.sub("[^\x00-\x7f]+", lambda match: quote(match[0], errors="surrogateescape"), link)


def read_names(links: Iterable[str], stated: Iterable[str]) -> Names:
    """The names of those links whose last segment is not UTF-8."""
    shown: dict[str, str] = {}
    unknown: dict[str, bytes] = {}
    stated = list(stated)
    for link in links:
        if "%" not in link:
            continue
        data = unquote_to_bytes(link.rstrip("/").rpartition("/")[2])
        if _decode(data, ("utf-8",)) is None:
            name = _decode(data, stated)
            if name is None:
                unknown[link] = data
            else:
                shown[link] = name
    guess = _guess(b"\n".join(unknown.values())[:_SAMPLE_BYTES]) if unknown else None
    for link, data in unknown.items():
        if guess is not None and (name := _decode(data, (guess,))) is not None:
            shown[link] = name
    return Names(shown, None if guess is None else _SHOWN.get(guess, guess.replace("cp", "windows-")))


def _quote_bytes(data: bytes) -> str:
    return "".join(f"%{byte:02X}" for byte in data)


def _find_encoding(label: str) -> str | None:
    try:
        name = codecs.lookup(label).name
    except (LookupError, ValueError):
        return None
    name = _BROADER.get(name, name)
    return name if name in KNOWN else None


def _decode(data: bytes, encodings: Iterable[str]) -> str | None:
    for encoding in encodings:
        with suppress(UnicodeError):
            return data.decode(encoding)
    return None


def _guess(sample: bytes) -> str | None:
    """The encoding that the names of a page seem to have; None: nothing fits.

    Single letters outside ASCII among those of ASCII are a Western language, which no statistics of a few
    bytes can tell from an Eastern European one; all else has runs of them, or second bytes.
    """
    western = _decode(sample, ("cp1252",))
    if western is not None and all(
        char.isascii() or (char.isalpha() and (before + after).isascii())
        for before, char, after in zip("\n" + western, western, western[1:] + "\n", strict=False)
    ):
        return "cp1252"
    try:
        from charset_normalizer import from_bytes
    except ImportError:  # the extra `charset`
        return "cp1252" if western is not None else None
    best = from_bytes(sample, cp_isolation=list(_GUESSED), threshold=1.0).best()
    return None if best is None else best.encoding
