"""Judges what a reply means for the attempt that asked: a pure function of values.

The rules (sections of RFC 9110 in brackets):

1. Two different values of a header that may occur only once, or a length that no file has: it is unknown
   what is true. The manifest's size or hash decides, else REFUSE (``repeated_lengths.py``).
2. The status decides the class; see ``STATUS`` and ``LATER`` in ``statuses.py``. 200 and 206 go on to
   the rules that follow; so does another 2xx that brings a file (203), and any 2xx or 3xx whose body a hash
   will prove.
3. A Content-Encoding is a label of the file, unless it names a known coding that nothing explains: not the
   manifest's hash or size, not an object store, not the file's own name or type (``codings.py``). Then
   ``ReplyOptions.encoded`` decides; such bytes are joined to no others, so REFUSE_RANGE if a part was asked
   for. A Transfer-Encoding is none of the file: ``identity`` is nothing, ``chunked`` counts once, and any
   other coding is decoded [9112: 6.1]. Chunks count, and not a length beside them [9112: 6.3]; but as that
   may be an attack or a confused proxy, REFUSE if neither manifest nor user vouches for the body.
4. 206 without having asked for a range: a 200 if its Content-Range is the whole, or a hash will prove the
   bytes; else REFUSE. With one [14.4]: Content-Range must be there, be a single
   byte range, start at the requested byte, end where its object ends, and agree with the manifest on the
   total; and the ETag [15.3.7] must be the part's, unless a hash will prove the bytes, as replicas behind one
   name give one file different ETags. If not: REFUSE_RANGE, that is, forget the part and ask for
   the whole. If an end was requested too, the range may end there or before [15.3.7], but not beyond.
5. 200 to a range [14.2] means that the server has another version or does not support ranges: ACCEPT from
   byte 0; but REFUSE_RANGE if an end was requested, as other attempts bring the rest.
6. A length that contradicts the manifest: REFUSE before a byte is read.
7. If an entry is a range of its object, every request asks for a range, and byte numbers are the object's
   from ``base`` on. A 206 with a body of the range's length is accepted, whatever its Content-Range says, if
   a hash will prove it. If the object ends before the range ends, or a request for the whole range gets 416:
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

from multidict import MultiDict, istr

from cfetch.storage.etags import is_same
from cfetch.wire.headers import RANGE, Headers, read_media_type
from cfetch.wire.verdict import Asked, ReplyAction, Verdict, find_strong, refuse, refuse_range

SINGLETONS = tuple(map(istr, ("Content-Length", "Content-Range", "ETag")))
_MEDIA_TYPE, _TRANSFER_ENCODING = istr("Content-Type"), istr("Transfer-Encoding")
_ENCODING = istr("Content-Encoding")
_NOTHING: list[str] = []
_ENDING = re.compile(r"\.([A-Za-z][A-Za-z0-9]{0,7})$")
_PAGES = {"html", "htm", "xhtml", "xht", "shtml", "mhtml", "php", "asp", "aspx", "jsp", "cgi", "do"}
PAGE_TYPES = {"text/html", "application/xhtml+xml"}
PAGE_REFUSED = (
    "the server sends a web page ({}) in its place: a login page, a captive portal or an error? Open the "
    "link in a browser to see; log in with --cookies or --bearer-env, or, if pages are meant, give "
    "--accept-html or --doubtful accept"
)


def is_page_name(name: str, *, bare: bool = True) -> bool:
    """Whether a path may name a web page: it has the ending of a page, or if ``bare`` no ending."""
    ending = _ENDING.search(name)
    return bare if ending is None else ending[1].lower() in _PAGES


def judge(status: int, headers: Headers, asked: Asked) -> Verdict:
    """Judge a reply by the rules above."""
    if status not in (200, 206):
        from cfetch.wire.statuses import NO_BODY, is_like_ok, judge_status  # nearly all replies have a body

        if not is_like_ok(status, asked):
            return judge_status(status, headers, asked)
        headers = headers if status not in NO_BODY else MultiDict()
        status = 200
    media_type = read_media_type(headers) if asked.refuses_pages else ""
    if media_type in PAGE_TYPES:
        return refuse(PAGE_REFUSED.format(media_type))
    return _judge_body(status, headers, asked)


def _judge_body(status: int, headers: Headers, asked: Asked) -> Verdict:
    values: list[str | None] = []
    for name in SINGLETONS:
        stated = headers.getall(name, _NOTHING)
        if len(stated) > 1 and len(set(stated)) > 1:
            from cfetch.wire.repeated_lengths import judge_odd  # few replies contradict themselves

            return judge_odd(name, status, headers, asked, _judge_body)
        values.append(stated[0] if stated else None)
    length_text, range_text, etag = values
    length: int | None = None
    transfer = headers.getall(_TRANSFER_ENCODING, _NOTHING)
    if transfer:
        from cfetch.wire.transfers import judge_transfer  # small files come without

        coded, is_chunked = judge_transfer(status, headers, asked, range_text)
        if coded is not None:
            return coded
    elif length_text is not None:
        if not (length_text.isascii() and length_text.isdigit()) or len(length_text) > 19:
            from cfetch.wire.repeated_lengths import judge_odd

            return judge_odd(SINGLETONS[0], status, headers, asked, _judge_body)
        length = int(length_text)
    framed = length is not None or (bool(transfer) and is_chunked)
    is_labelled = bool(headers.getall(_ENCODING, _NOTHING))
    if is_labelled:
        from cfetch.wire.codings import judge_coding  # few replies have the header

        coded = judge_coding(status, headers, asked, length, range_text, framed)
        if coded is not None:
            return coded
    is_as_whole = status == 206 and not asked.is_range and (asked.has_hash or _is_whole(range_text))
    status = 200 if is_as_whole else status
    if status == 206 or asked.base is not None:
        # nearly all replies bring a whole file
        from cfetch.wire.partial_replies import judge_object, judge_partial, judge_range
    if status == 206 and asked.base is not None:
        return judge_range(asked, asked.base, range_text, length, etag, framed)
    if status == 206:
        return judge_partial(asked, range_text, length, etag, framed)
    states_part = range_text not in (None, f"bytes 0-{(length or 0) - 1}/{length}")
    if states_part and not is_vouched_for(asked):
        return refuse(
            f"the server answers {status} for the whole, and says that it is a part of it; if it is the "
            "file, state the hash in the manifest, or by cfetch get --sha256"
        )
    if asked.base is not None:
        return judge_object(asked, asked.base, length, etag, framed)
    if asked.end_byte is not None:
        return refuse_range("the server sends the whole file where a part of it was asked for")
    if length is not None and asked.size_bytes is not None and length != asked.size_bytes:
        return refuse(
            f"the server has {length} bytes where the manifest says {asked.size_bytes}"
            + (
                "; its reply is encoded: --encoded decode unpacks it"
                if is_labelled and _is_coded(headers)
                else ""
            )
        )
    action = ReplyAction.UNCHANGED if _is_standing(asked, find_strong(etag), length) else ReplyAction.ACCEPT
    return Verdict(
        action=action, body_bytes=length, total_bytes=length, validator=find_strong(etag), framed=framed
    )


def _is_whole(range_text: str | None) -> bool:
    """Whether a Content-Range is that of a whole object."""
    match = RANGE.fullmatch(range_text or "")
    return match is not None and int(match[1]) == 0 and match[3] == str(int(match[2]) + 1)


def _is_standing(asked: Asked, etag: str | None, length: int | None) -> bool:
    """Whether a 200 has the ETag and the length of the file in place: then the server ignores conditions."""
    kept = asked.etag_hash or asked.unless.get("If-None-Match")
    if None not in (length, asked.standing_bytes) and length != asked.standing_bytes:
        return False
    return etag is not None and kept is not None and is_same(kept, etag)


def _is_coded(headers: Headers) -> bool:
    """Whether a reply with a Content-Encoding names a coding that is known."""
    from cfetch.wire.codings import read_codings  # few replies have the header

    return bool(read_codings(headers.getall(_ENCODING, _NOTHING)))


def is_vouched_for(asked: Asked) -> bool:
    """Whether the manifest has a size or a hash, by which the file can be proved whole."""
    return asked.has_hash or asked.size_bytes is not None
