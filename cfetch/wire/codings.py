"""What a Content-Encoding means for a file: a label of the stored file, or a coding of the reply. Pure.

The header should name codings that were applied to this reply, and cfetch asks for none. Servers use it in
other ways: they label a ``.gz`` file with its own coding, object stores replay what an upload said
(``aws-chunked``), and some name a charset, or nothing. So only a known coding counts, and only if nothing
else explains it. Then the user's ``--encoded`` decides.
"""

import re
from collections.abc import Iterable

from cfetch.wire.headers import RANGE, Headers, read_media_type
from cfetch.wire.verdict import Asked, ReplyAction, Verdict, refuse, refuse_range

_NAMES = {"gzip": "gzip", "x-gzip": "gzip", "deflate": "deflate", "br": "br", "zstd": "zstd"}
_NAMES |= {"compress": "compress", "x-compress": "compress"}
_ENDINGS = {
    "gzip": {"gz", "gzip", "tgz", "taz", "svgz", "emz", "wmz", "vgz", "dz", "cpgz", "rds", "rda", "rdata"},
    "br": {"br", "tbr"},
    "zstd": {"zst", "zstd", "tzst"},
    "compress": {"z", "taz"},
    "deflate": {"zz", "zlib"},
}
_TYPES = {
    "gzip": {"application/gzip", "application/x-gzip", "application/x-tgz", "application/x-gunzip"},
    "br": {"application/x-br", "application/x-brotli", "application/brotli"},
    "zstd": {"application/zstd", "application/x-zstd"},
    "compress": {"application/x-compress"},
    "deflate": {"application/zlib"},
}
_STORES = frozenset(
    {"x-amz-request-id", "x-amz-id-2", "x-goog-stored-content-encoding", "x-ms-blob-type", "x-oss-request-id"}
)
MOST_CODINGS = 5  # curl's limit: each decoder may multiply the bytes by its ratio
_WORD = re.compile(r"[^,\s]+")


def read_codings(values: Iterable[str]) -> tuple[str, ...]:
    """The known codings that headers name, in their order; other words are no codings."""
    words = (word.lower() for value in values for word in _WORD.findall(value))
    return tuple(_NAMES[word] for word in words if word in _NAMES)


def _is_own_coding(coding: str, names: Iterable[str], media_type: str) -> bool:
    """Whether a file of one of these names, or of this type, is itself in the coding."""
    endings = {name.partition("?")[0].partition("#")[0].rpartition(".")[2].lower() for name in names}
    return not endings.isdisjoint(_ENDINGS[coding]) or media_type in _TYPES[coding]


def _is_from_store(header_names: Iterable[str]) -> bool:
    """Whether a reply with these headers is an object store's, whose labels come from the upload."""
    return any(name.lower() in _STORES for name in header_names)


def is_unpacked(stored: Iterable[str], stated: Iterable[str]) -> bool:
    """Whether Google's store has unpacked an object that it keeps in gzip, as nobody has asked for gzip.

    ``stored``: the values of ``x-goog-stored-content-encoding``; ``stated``: those of Content-Encoding.
    """
    return "gzip" in read_codings(stored) and "gzip" not in read_codings(stated)


def judge_coding(
    status: int,
    headers: Headers,
    asked: Asked,
    length: int | None,
    range_text: str | None,
    framed: bool,
) -> Verdict | None:
    """Judge a reply with a Content-Encoding by rule 3 of ``judge.py``; None: it is judged like any other."""
    codings = read_codings(headers.getall("Content-Encoding", []))
    match = RANGE.fullmatch(range_text or "") if status == 206 else None
    total = length if status == 200 else int(match[3]) if match is not None and match[3] != "*" else None
    if not codings or (asked.size_bytes is not None and asked.base is None and total == asked.size_bytes):
        return None
    names = (asked.path, "" if asked.link is None else asked.link.reveal())
    if len(codings) == 1 and _is_own_coding(codings[0], names, read_media_type(headers)):
        return None
    mode, coding = asked.options.encoded, ", ".join(codings)
    is_whole = asked.base is None and not (status == 206 and asked.joins)
    is_sized = asked.size_bytes is not None and is_whole  # a range has its size in any object
    is_vouched = asked.has_hash or is_sized or _is_from_store(headers.keys())
    if mode != "decode" and is_vouched:
        return None
    if mode == "refuse":
        return refuse(
            f"the reply is encoded ({coding}) although no coding was asked for, and --encoded refuse is set; "
            "--encoded keep takes its bytes as they are, --encoded decode unpacks them"
        )
    if status == 206 or asked.end_byte is not None or asked.base is not None:
        return refuse_range(f"the reply to a range is encoded ({coding})")
    if mode == "keep":
        note = f"came encoded ({coding}), and is kept as it came; --encoded decode unpacks such files"
        return Verdict(
            action=ReplyAction.ACCEPT, body_bytes=length, total_bytes=length, framed=framed, note=note
        )
    if len(codings) > MOST_CODINGS:
        return refuse(f"the reply is encoded {len(codings)} times; --encoded keep takes it as it is")
    return Verdict(action=ReplyAction.ACCEPT, framed=framed, coding=coding)
