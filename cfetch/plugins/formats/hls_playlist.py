"""A playlist (M3U8) of HTTP Live Streaming (RFC 8216), or of a player: its segments and what they need.

The initialisation segment (EXT-X-MAP) and the keys are files too; a byte range of a file is an entry of its
own. A playlist of playlists is refused: it names variants of one film, and no segment. What the servers of a
live stream add later is not in the list.
"""

import re
from collections.abc import Iterator

from cfetch.base.schemes import is_web, scheme_of
from cfetch.manifest.faults import BrokenDocumentError, Faults
from cfetch.manifest.rows import Document, Row
from cfetch.manifest.source import Source

_TAG = re.compile(r"#(EXT-X-[A-Z-]+):?(.*)\Z")
_ADDRESS = re.compile(r'(?:\A|,)URI="([^"]+)"')
_INNER_RANGE = re.compile(r'(?:\A|,)BYTERANGE="([^"]+)"')
_RANGE = re.compile(r"([0-9]{1,18})(?:@([0-9]{1,18}))?[ \t]*\Z")
_VARIANTS = frozenset({"EXT-X-STREAM-INF", "EXT-X-I-FRAME-STREAM-INF", "EXT-X-MEDIA"})


def is_playlist(line: str) -> bool:
    """Whether a text begins as a playlist does."""
    return line.startswith(("#EXTM3U", "\ufeff#EXTM3U"))


def read_playlist(source: Source, document: Document, faults: Faults) -> Iterator[Row]:
    """The rows: ``url``, and ``offset`` and ``length`` of a byte range."""
    stated = ""
    ends: dict[str, int] = {}  # a range without a begin follows the range before it
    seen: set[str] = set()
    is_live = False
    for line, written in source.lines(faults):
        text = written.strip()
        tag = _TAG.match(text)
        if tag is not None and tag[1] in _VARIANTS:
            raise BrokenDocumentError(
                line,
                "it is a playlist of playlists (HLS): each line is a variant of the stream, such as a "
                "resolution, and no file of it; give the playlist of the variant that you want",
            )
        if tag is not None:
            is_live = (is_live or tag[1] == "EXT-X-TARGETDURATION") and tag[1] != "EXT-X-ENDLIST"
            if tag[1] == "EXT-X-BYTERANGE":
                stated = tag[2]
            elif tag[1] in ("EXT-X-MAP", "EXT-X-KEY") and (address := _ADDRESS.search(tag[2])):
                inner = _INNER_RANGE.search(tag[2])
                if tag[2] not in seen and not _has_other_scheme(address[1]):
                    seen.add(tag[2])
                    yield _row(line, address[1], inner[1] if inner else "", ends, faults)
        elif text and text[0] != "#":
            yield _row(line, text, stated, ends, faults)
            stated = ""
    if is_live:
        document.note_partial("the playlist has no end: its server may add segments to it")


def _row(line: int, url: str, stated: str, ends: dict[str, int], faults: Faults) -> Row:
    if not stated:
        return Row(line, {"url": url})
    match = _RANGE.match(stated)
    if match is None:
        faults.add(line, "its byte range must be LENGTH@BEGIN")
        return Row(line, {"url": url})
    begin = int(match[2]) if match[2] else ends.get(url, 0)
    ends.clear()
    ends[url] = begin + int(match[1])
    return Row(line, {"url": url, "offset": begin, "length": int(match[1])})


def _has_other_scheme(address: str) -> bool:
    """Whether the address has a scheme, but none of the web's: a key that a program gets in its own way."""
    return bool(scheme_of(address)) and not is_web(address)
