"""What a reply with a part of an object means, by the rules of ``judge.py``. Pure.

Imported when the first 206 comes, or for the first entry that is a range of its object.
"""

from msgspec.structs import replace

from cfetch.wire.headers import RANGE
from cfetch.wire.verdict import Asked, ReplyAction, Verdict, find_strong, refuse, refuse_range

MAX_LENGTH = 2**63 - 1
_PROOF = "; if its body is the file, state the hash in the manifest"
MAX_SKIPPED_BYTES = 1 << 20  # useless bytes that a server without ranges may send: 0.1 s at 100 Mbit/s


def judge_partial(
    asked: Asked,
    range_text: str | None,
    length: int | None,
    etag: str | None,
    framed: bool,
) -> Verdict:
    """Judge a 206."""
    if not asked.is_range:
        return refuse(
            "HTTP 206 although the whole file was asked for; if it is the file, state the hash in the "
            "manifest, or by cfetch get --sha256"
        )
    match = RANGE.fullmatch(range_text or "")
    if match is None:
        return refuse_range("HTTP 206 without a readable Content-Range")
    first, last = int(match[1]), int(match[2])
    total = None if match[3] == "*" else int(match[3])
    if first != asked.from_byte:
        return refuse_range(f"asked for byte {asked.from_byte}, got byte {first}")
    end = asked.end_byte
    if last < first or last > MAX_LENGTH or (end is not None and last >= end):
        return refuse_range("the reply's Content-Range does not end where it was asked to")
    if end is None and total is not None and last != total - 1:
        return refuse_range("the reply's Content-Range does not end where the file ends")
    known = asked.total_bytes if asked.size_bytes is None else asked.size_bytes
    if total is None and known is None:
        return refuse_range("the reply does not say where the file ends")
    size_bytes = last + 1 if end is None else known if total is None else total
    if known is not None and size_bytes != known:
        return refuse_range("the reply's Content-Range contradicts the manifest's size")
    return _accept_part(asked, last - first + 1, size_bytes, length, etag, framed)


def judge_range(
    asked: Asked,
    base: int,
    range_text: str | None,
    length: int | None,
    etag: str | None,
    framed: bool,
) -> Verdict:
    """Judge a 206 to an entry that is a range of its object.

    Whatever the Content-Range says: a body of the range's length is taken if a hash will prove it.
    """
    verdict = _judge_stated_range(asked, base, range_text, length, etag, framed)
    if verdict.action is ReplyAction.ACCEPT or asked.joins or length != asked.size_bytes:
        return verdict
    if not asked.has_hash:
        return replace(verdict, reason=verdict.reason + _PROOF)
    return Verdict(
        action=ReplyAction.ACCEPT,
        body_bytes=length,
        total_bytes=asked.size_bytes,
        validator=find_strong(etag),
        framed=framed,
    )


def _judge_stated_range(
    asked: Asked,
    base: int,
    range_text: str | None,
    length: int | None,
    etag: str | None,
    framed: bool,
) -> Verdict:
    """Judge it by its Content-Range alone."""
    match = RANGE.fullmatch(range_text or "")
    if match is None:
        return refuse_range("HTTP 206 without a readable Content-Range")
    assert asked.size_bytes is not None
    first, last = int(match[1]), int(match[2])
    total = None if match[3] == "*" else int(match[3])
    if total is not None and total < base + asked.size_bytes:
        return _refuse_short(total, base + asked.size_bytes)
    if first != base + asked.from_byte:
        return refuse_range(f"asked for byte {base + asked.from_byte}, got byte {first}")
    if last < first or last >= base + asked.find_end():
        return refuse_range("the reply's Content-Range does not end where it was asked to")
    return _accept_part(asked, last - first + 1, asked.size_bytes, length, etag, framed)


def _accept_part(
    asked: Asked, body_bytes: int, total_bytes: int | None, length: int | None, etag: str | None, framed: bool
) -> Verdict:
    """Accept a 206 whose range is right, if its version and its length are right too."""
    if asked.validator is not None and etag != asked.validator and not asked.has_hash:
        return refuse_range("the file changed on the server between two tries")
    if length is not None and length != body_bytes:
        return refuse_range("Content-Length and Content-Range contradict each other")
    return Verdict(
        action=ReplyAction.ACCEPT,
        from_byte=asked.from_byte,
        body_bytes=body_bytes,
        total_bytes=total_bytes,
        validator=find_strong(etag),
        framed=framed,
    )


def judge_object(asked: Asked, base: int, length: int | None, etag: str | None, framed: bool) -> Verdict:
    """Judge a 200 to an entry that is a range of its object."""
    assert asked.size_bytes is not None
    if asked.joins:
        return refuse_range("the server sends the whole object where a part of it was asked for")
    if length is not None and length < base + asked.size_bytes:
        return _refuse_short(length, base + asked.size_bytes)
    if not asked.has_hash:
        return refuse(
            "the server ignores ranges: it sends the whole object, and the manifest has no hash that would "
            "prove a range of it"
        )
    if base > MAX_SKIPPED_BYTES:
        return refuse(
            f"the server ignores ranges: it sends the whole object, and the range begins at byte {base}, "
            f"which is more than the {MAX_SKIPPED_BYTES} bytes that cfetch skips"
        )
    return Verdict(
        action=ReplyAction.ACCEPT,
        body_bytes=asked.size_bytes,
        total_bytes=asked.size_bytes,
        validator=find_strong(etag),
        framed=framed,
        skip_bytes=base,
    )


def _refuse_short(total_bytes: int, end: int) -> Verdict:
    return refuse(f"the server's object has {total_bytes} bytes, and the range ends at byte {end}")
