"""Judges what a reply means for the attempt that asked: a pure function of values.

The rules (sections of RFC 9110 in brackets):

1. Two different values of a header that may occur only once: it is unknown which is true. REFUSE.
2. The status decides the class; see ``STATUS`` and ``LATER`` below. 200 and 206 go on to the rules that
   follow.
3. A Content-Encoding is a label of the file, unless it names a known coding that nothing explains: not the
   manifest's hash or size, not an object store, not the file's own name or type (``codings.py``). Then
   ``ReplyOptions.encoded`` decides; such bytes are joined to no others, so REFUSE_RANGE if a part was asked
   for. A Transfer-Encoding other than ``chunked`` alone: REFUSE, as no client decodes it.
4. 206 without having asked for a range: REFUSE. With one [14.4]: Content-Range must be there, be a single
   byte range, start at the requested byte, end where its object ends, and agree with the manifest on the
   total; and the ETag [15.3.7] must be the part's, unless a hash will prove the bytes, as replicas behind one
   name give one file different ETags. If not: REFUSE_RANGE, that is, forget the part and ask for
   the whole. If an end was requested too, the range may end there or before [15.3.7], but not beyond.
5. 200 to a range [14.2] means that the server has another version or does not support ranges: ACCEPT from
   byte 0; but REFUSE_RANGE if an end was requested, as other attempts bring the rest.
6. A length that contradicts the manifest: REFUSE before a byte is read.
7. If an entry is a range of its object, every request asks for a range, and byte numbers are the object's
   from ``base`` on. If the object ends before the range ends, or a request for the whole range gets 416:
   REFUSE. A 200 brings the whole object, or an error page: the body is cut to the range if a hash will prove
   the bytes and the range begins within ``MAX_SKIPPED_BYTES``, else REFUSE; but REFUSE_RANGE if only a part
   of the range was requested, as its other bytes may be of another version.
8. A body that ends with the connection, without length or chunks, may be cut without a trace: it is
   ``framed=False``, and only a size or a hash of the manifest can prove it, or TLS, which tells its end
   (close_notify). The user may accept it without (``ReplyOptions.accept_unframed``).
9. The body is a web page, the name is not the name of a page, and neither size nor hash can detect that:
   REFUSE. It is a login page, a page of a captive portal, or an error with status 200.
10. 304 to a request with a condition [13.1]: UNCHANGED. If a record has only the hash of the ETag, and the
   reply names another ETag, the server compares only dates: REFUSE_RANGE, and the file is requested anew. A
   200 that names the ETag of the file in place, and no other length, is UNCHANGED too: the server knows no
   conditions.

Only a strong validator (an ETag without ``W/`` [13.1.5]) may join bytes of two replies.
"""

import re
from collections.abc import KeysView, Mapping
from enum import Enum
from typing import Protocol

import msgspec
from multidict import istr

from cfetch.base.config.wire import CAREFUL, ReplyOptions
from cfetch.base.secret import SecretUrl
from cfetch.storage.etags import is_same


class Action(Enum):
    """The step that the attempt has to take."""

    ACCEPT = "accept"
    REFUSE_RANGE = "refuse range"  # drop the part, ask again for the whole
    REFUSE = "refuse"  # this source cannot be used at all
    RETRY = "retry"
    WAIT = "wait"  # the server fetches or makes the file, and says when to ask again
    THROTTLE = "throttle"
    REFRESH = "refresh"  # the link has expired
    UNCHANGED = "unchanged"  # the file in place is the server's version


class Headers(Protocol):
    """Case-insensitive reply headers that may repeat."""

    def getall(self, key: str, default: list[str], /) -> list[str]:
        """All values of a header, in order."""

    def keys(self) -> KeysView[str]:
        """The names."""


class Asked(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The facts of the request by which its answer is judged; byte numbers are the file's.

    ``base``: where the file begins in the server's object, if the file is a range of the object; then
    ``size_bytes`` is known. ``has_hash``: the manifest's hash will prove the bytes. ``path`` and ``link``
    are the entry's.
    """

    from_byte: int = 0
    end_byte: int | None = None  # exclusive; None: to the end of the file
    size_bytes: int | None = None
    total_bytes: int | None = None  # the total size that the reply of the part's bytes stated
    validator: str | None = None  # the strong ETag of the part's bytes
    refuses_pages: bool = False  # by its name, the file is no web page
    unless: Mapping[str, str] = {}  # the headers by which the server can say that the file has not changed
    etag_hash: str | None = None  # the hash of the ETag of the file in place, if the ETag is too long
    standing_bytes: int | None = None  # the size of the file in place
    base: int | None = None
    has_hash: bool = False
    options: ReplyOptions = CAREFUL
    path: str = ""
    link: SecretUrl | None = None

    @property
    def joins(self) -> bool:
        """Whether the request asks for less than the whole file."""
        return self.from_byte > 0 or self.end_byte is not None

    @property
    def is_range(self) -> bool:
        """Whether the request asks for less than the whole object."""
        return self.base is not None or self.joins

    def find_end(self) -> int:
        """Find the end of the requested bytes in the file; only if the file is a range of an object."""
        assert self.size_bytes is not None
        return self.size_bytes if self.end_byte is None else self.end_byte


class Verdict(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """``from_byte``: where the body begins; ``body_bytes``: its length; ``total_bytes``: the object's length.

    ``framed`` is false for a body that only the end of the connection ends. ``reason`` is for a person.
    ``skip_bytes``: the body is the whole object, and the requested range begins after these bytes.
    ``coding``: the body is to be decoded. ``note``: what a person should know of an accepted reply.
    """

    action: Action
    reason: str = ""
    from_byte: int = 0
    body_bytes: int | None = None
    total_bytes: int | None = None
    validator: str | None = None
    framed: bool = True
    skip_bytes: int | None = None
    coding: str | None = None
    note: str = ""


STATUS: Mapping[int, Action] = {
    401: Action.REFRESH,  # clouds answer 401 or 403 for an expired signature
    403: Action.REFRESH,
    408: Action.RETRY,
    420: Action.THROTTLE,
    421: Action.RETRY,
    425: Action.RETRY,
    429: Action.THROTTLE,
    430: Action.THROTTLE,
    501: Action.REFUSE,
    503: Action.THROTTLE,
    505: Action.REFUSE,
    509: Action.THROTTLE,
    529: Action.THROTTLE,
}
# With the headers of a pause or of a limit that is used up, these mean: later.
LATER: Mapping[int, Action] = {
    202: Action.WAIT,
    403: Action.THROTTLE,
    409: Action.WAIT,
    413: Action.THROTTLE,
    423: Action.WAIT,
}
SINGLETONS = tuple(map(istr, ("Content-Length", "Content-Range", "ETag")))
_MEDIA_TYPE, _TRANSFER_ENCODING = istr("Content-Type"), istr("Transfer-Encoding")
_ENCODING = istr("Content-Encoding")
_NOTHING: list[str] = []
MAX_LENGTH = 2**63 - 1
MAX_SKIPPED_BYTES = 1 << 20  # useless bytes that a server without ranges may send: 0.1 s at 100 Mbit/s
_RANGE = re.compile(r"bytes (\d{1,19})-(\d{1,19})/(\d{1,19}|\*)", re.ASCII | re.IGNORECASE)
_ENDING = re.compile(r"\.([A-Za-z][A-Za-z0-9]{0,7})$")
_PAGES = {"html", "htm", "xhtml", "xht", "shtml", "mhtml", "php", "asp", "aspx", "jsp", "cgi", "do"}
_PAGE_TYPES = {"text/html", "application/xhtml+xml"}
_STRONG_ETAG = re.compile(r'"[\x21\x23-\x7e\x80-\xff]*"')


def is_page_name(name: str, *, bare: bool = True) -> bool:
    """Whether a path may name a web page: it has the ending of a page, or if ``bare`` no ending."""
    ending = _ENDING.search(name)
    return bare if ending is None else ending[1].lower() in _PAGES


def judge(status: int, headers: Headers, asked: Asked) -> Verdict:
    """Judge a reply by the rules above."""
    if status not in (200, 206):
        return _judge_status(status, headers, asked)
    media_type = _media_type(headers) if asked.refuses_pages else ""
    if media_type in _PAGE_TYPES:
        return _refuse(
            f"the server sends a web page ({media_type}) in its place: a login page, a captive portal or an "
            "error? If pages are meant, give --accept-html or --doubtful accept"
        )
    return _judge_body(status, headers, asked)


def _media_type(headers: Headers) -> str:
    stated = headers.getall(_MEDIA_TYPE, _NOTHING)
    return stated[0].partition(";")[0].strip().lower() if stated else ""


def _judge_body(status: int, headers: Headers, asked: Asked) -> Verdict:
    values: list[str | None] = []
    for name in SINGLETONS:
        stated = headers.getall(name, _NOTHING)
        if len(stated) > 1 and len(set(stated)) > 1:
            return _refuse(f"the reply has {len(stated)} different {name} headers")
        values.append(stated[0] if stated else None)
    length_text, range_text, etag = values
    length: int | None = None
    if length_text is not None:
        if not (length_text.isascii() and length_text.isdigit()) or len(length_text) > 19:
            return _refuse("the reply's Content-Length is not a number")
        length = int(length_text)
    transfer = headers.getall(_TRANSFER_ENCODING, _NOTHING)
    if transfer and [value.strip().lower() for value in transfer] != ["chunked"]:
        return _refuse("the reply has a Transfer-Encoding that was not asked for")
    framed = length is not None or bool(transfer)
    is_labelled = bool(headers.getall(_ENCODING, _NOTHING))
    if is_labelled and (coded := _judge_coding(status, headers, asked, length, range_text, framed)):
        return coded
    if status == 206 and asked.base is not None:
        return _judge_range(asked, asked.base, range_text, length, etag, framed)
    if status == 206:
        return _judge_partial(asked, range_text, length, etag, framed)
    states_part = range_text not in (None, f"bytes 0-{(length or 0) - 1}/{length}")
    if states_part and not is_vouched_for(asked):
        return _refuse(f"the server answers {status} for the whole, and says that it is a part of it")
    if asked.base is not None:
        return _judge_object(asked, asked.base, length, etag, framed)
    if asked.end_byte is not None:
        return _refuse_range("the server sends the whole file where a part of it was asked for")
    if length is not None and asked.size_bytes is not None and length != asked.size_bytes:
        return _refuse(
            f"the server has {length} bytes where the manifest says {asked.size_bytes}"
            + ("; its reply is encoded: --encoded decode unpacks it" if _name_coding(headers) else "")
        )
    action = Action.UNCHANGED if _is_standing(asked, _strong(etag), length) else Action.ACCEPT
    return Verdict(
        action=action, body_bytes=length, total_bytes=length, validator=_strong(etag), framed=framed
    )


def _name_coding(headers: Headers) -> str:
    from cfetch.wire.codings import read_codings  # few replies have the header

    return ", ".join(read_codings(headers.getall(_ENCODING, _NOTHING)))


def _judge_coding(
    status: int,
    headers: Headers,
    asked: Asked,
    length: int | None,
    range_text: str | None,
    framed: bool,
) -> Verdict | None:
    """Judge a reply with a Content-Encoding by rule 3; None: it is judged like any other."""
    from cfetch.wire.codings import is_from_store, is_own_coding, read_codings

    codings = read_codings(headers.getall(_ENCODING, _NOTHING))
    match = _RANGE.fullmatch(range_text or "") if status == 206 else None
    total = length if status == 200 else int(match[3]) if match is not None and match[3] != "*" else None
    if not codings or (asked.size_bytes is not None and asked.base is None and total == asked.size_bytes):
        return None
    names = (asked.path, "" if asked.link is None else asked.link.reveal())
    if len(codings) == 1 and is_own_coding(codings[0], names, _media_type(headers)):
        return None
    mode, coding = asked.options.encoded, ", ".join(codings)
    is_whole = asked.base is None and not (status == 206 and asked.joins)
    is_sized = asked.size_bytes is not None and is_whole  # a range has its size in any object
    is_vouched = asked.has_hash or is_sized or is_from_store(headers.keys())
    if mode != "decode" and is_vouched:
        return None
    if mode == "refuse":
        return _refuse(
            f"the reply is encoded ({coding}) although no coding was asked for, and --encoded refuse is set; "
            "--encoded keep takes its bytes as they are, --encoded decode unpacks them"
        )
    if status == 206 or asked.end_byte is not None or asked.base is not None:
        return _refuse_range(f"the reply to a range is encoded ({coding})")
    if mode == "keep":
        note = f"came encoded ({coding}), and is kept as it came; --encoded decode unpacks such files"
        return Verdict(action=Action.ACCEPT, body_bytes=length, total_bytes=length, framed=framed, note=note)
    if len(codings) > 1:
        return _refuse(f"the reply is encoded several times ({coding}), and cfetch unpacks one coding")
    return Verdict(action=Action.ACCEPT, framed=framed, coding=codings[0])


def _is_standing(asked: Asked, etag: str | None, length: int | None) -> bool:
    """Whether a 200 has the ETag and the length of the file in place: then the server ignores conditions."""
    kept = asked.etag_hash or asked.unless.get("If-None-Match")
    if None not in (length, asked.standing_bytes) and length != asked.standing_bytes:
        return False
    return etag is not None and kept is not None and is_same(kept, etag)


def is_vouched_for(asked: Asked) -> bool:
    """Whether the manifest has a size or a hash, by which the file can be proved whole."""
    return asked.has_hash or asked.size_bytes is not None


def _judge_status(status: int, headers: Headers, asked: Asked) -> Verdict:
    if status == 416 and asked.base is not None and not asked.joins:
        return _refuse("HTTP 416: the server's object ends before the range that the manifest states")
    if status == 416 and asked.is_range:
        return Verdict(action=Action.REFUSE_RANGE, reason="HTTP 416: the server has no such range")
    if status == 304 and asked.unless:
        kept, stated = asked.etag_hash, headers.getall("ETag", [])
        if kept is not None and not all(is_same(kept, etag) for etag in stated):
            return _refuse_range("HTTP 304 for a file of another ETag than the one in place came under")
        return Verdict(action=Action.UNCHANGED)
    if status in LATER:
        from cfetch.wire.pauses import states_pause  # it needs this module's types

        if states_pause(headers):
            said = (
                "the file is being made or fetched there"
                if LATER[status] is Action.WAIT
                else "too many requests"
            )
            return Verdict(action=LATER[status], reason=f"HTTP {status}: {said}")
    action = STATUS.get(status)
    if action is None:
        action = Action.RETRY if 500 <= status <= 599 else Action.REFUSE
    return Verdict(action=action, reason=f"HTTP {status}")


def _judge_partial(
    asked: Asked,
    range_text: str | None,
    length: int | None,
    etag: str | None,
    framed: bool,
) -> Verdict:
    if not asked.is_range:
        return _refuse("HTTP 206 although the whole file was asked for")
    match = _RANGE.fullmatch(range_text or "")
    if match is None:
        return _refuse_range("HTTP 206 without a readable Content-Range")
    first, last = int(match[1]), int(match[2])
    total = None if match[3] == "*" else int(match[3])
    if first != asked.from_byte:
        return _refuse_range(f"asked for byte {asked.from_byte}, got byte {first}")
    end = asked.end_byte
    if last < first or last > MAX_LENGTH or (end is not None and last >= end):
        return _refuse_range("the reply's Content-Range does not end where it was asked to")
    if end is None and total is not None and last != total - 1:
        return _refuse_range("the reply's Content-Range does not end where the file ends")
    known = asked.total_bytes if asked.size_bytes is None else asked.size_bytes
    if total is None and known is None:
        return _refuse_range("the reply does not say where the file ends")
    size_bytes = last + 1 if end is None else known if total is None else total
    if known is not None and size_bytes != known:
        return _refuse_range("the reply's Content-Range contradicts the manifest's size")
    return _accept_part(asked, last - first + 1, size_bytes, length, etag, framed)


def _judge_range(
    asked: Asked,
    base: int,
    range_text: str | None,
    length: int | None,
    etag: str | None,
    framed: bool,
) -> Verdict:
    """Judge a 206 to an entry that is a range of its object."""
    match = _RANGE.fullmatch(range_text or "")
    if match is None:
        return _refuse_range("HTTP 206 without a readable Content-Range")
    assert asked.size_bytes is not None
    first, last = int(match[1]), int(match[2])
    total = None if match[3] == "*" else int(match[3])
    if total is not None and total < base + asked.size_bytes:
        return _refuse_short(total, base + asked.size_bytes)
    if first != base + asked.from_byte:
        return _refuse_range(f"asked for byte {base + asked.from_byte}, got byte {first}")
    if last < first or last >= base + asked.find_end():
        return _refuse_range("the reply's Content-Range does not end where it was asked to")
    return _accept_part(asked, last - first + 1, asked.size_bytes, length, etag, framed)


def _accept_part(
    asked: Asked, body_bytes: int, total_bytes: int | None, length: int | None, etag: str | None, framed: bool
) -> Verdict:
    """Accept a 206 whose range is right, if its version and its length are right too."""
    if asked.validator is not None and etag != asked.validator and not asked.has_hash:
        return _refuse_range("the file changed on the server between two tries")
    if length is not None and length != body_bytes:
        return _refuse_range("Content-Length and Content-Range contradict each other")
    return Verdict(
        action=Action.ACCEPT,
        from_byte=asked.from_byte,
        body_bytes=body_bytes,
        total_bytes=total_bytes,
        validator=_strong(etag),
        framed=framed,
    )


def _judge_object(asked: Asked, base: int, length: int | None, etag: str | None, framed: bool) -> Verdict:
    """Judge a 200 to an entry that is a range of its object."""
    assert asked.size_bytes is not None
    if asked.joins:
        return _refuse_range("the server sends the whole object where a part of it was asked for")
    if length is not None and length < base + asked.size_bytes:
        return _refuse_short(length, base + asked.size_bytes)
    if not asked.has_hash:
        return _refuse(
            "the server ignores ranges: it sends the whole object, and the manifest has no hash that would "
            "prove a range of it"
        )
    if base > MAX_SKIPPED_BYTES:
        return _refuse(
            f"the server ignores ranges: it sends the whole object, and the range begins at byte {base}, "
            f"which is more than the {MAX_SKIPPED_BYTES} bytes that cfetch skips"
        )
    return Verdict(
        action=Action.ACCEPT,
        body_bytes=asked.size_bytes,
        total_bytes=asked.size_bytes,
        validator=_strong(etag),
        framed=framed,
        skip_bytes=base,
    )


def _strong(etag: str | None) -> str | None:
    return etag if etag is not None and _STRONG_ETAG.fullmatch(etag) else None


def _refuse_short(total_bytes: int, end: int) -> Verdict:
    return _refuse(f"the server's object has {total_bytes} bytes, and the range ends at byte {end}")


def _refuse(reason: str) -> Verdict:
    return Verdict(action=Action.REFUSE, reason=reason)


def _refuse_range(reason: str) -> Verdict:
    return Verdict(action=Action.REFUSE_RANGE, reason=reason)
