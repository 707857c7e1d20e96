"""The judge's table, by the numbers of the conditions that downloads have to survive."""

import re

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from multidict import CIMultiDict

from cfetch.base.config.wire import ReplyOptions
from cfetch.storage.etags import keep_etag
from cfetch.wire.judge import judge
from cfetch.wire.partial_replies import MAX_SKIPPED_BYTES
from cfetch.wire.verdict import Asked, ReplyAction

A, R, RR, RETRY, THROTTLE, REFRESH = (
    ReplyAction.ACCEPT,
    ReplyAction.REFUSE,
    ReplyAction.REFUSE_RANGE,
    ReplyAction.RETRY,
    ReplyAction.THROTTLE,
    ReplyAction.REFRESH,
)
WHOLE = Asked(size_bytes=1000)
UNKNOWN = Asked()
ACCEPTING = Asked(options=ReplyOptions(accept_unframed=True))
PROVED = Asked(has_hash=True)
REFUSING = Asked(options=ReplyOptions(encoded="refuse"))
REST = Asked(from_byte=400, size_bytes=1000, validator='"a"')
UNSIZED_REST = msgspec.structs.replace(REST, size_bytes=None)
HASHED = Asked(from_byte=400, size_bytes=1000)  # a part without validator: only a hash lets it go on
MIDDLE = Asked(from_byte=400, end_byte=600, total_bytes=1000, validator='"a"')  # of a part in ranges
FIRST = Asked(end_byte=600, total_bytes=1000, validator='"a"')
RANGED = Asked(base=400, size_bytes=600)  # an entry that is a range of an object
RANGED_REST = Asked(base=400, from_byte=100, size_bytes=600, validator='"a"')
RANGED_HASHED = Asked(base=400, size_bytes=600, has_hash=True)
RANGED_FAR = Asked(base=MAX_SKIPPED_BYTES + 1, size_bytes=1, has_hash=True)
WHOLE_HASHED = Asked(size_bytes=1000, has_hash=True)
LONG = '"' + "x" * 65 + '"'
UNLESS = Asked(unless={"If-None-Match": '"a"'})
SIZED = Asked(unless={"If-None-Match": '"a"'}, standing_bytes=1000)
UNLESS_HASH = Asked(unless={"If-Modified-Since": "…"}, etag_hash=keep_etag(LONG))
LEN = ("Content-Length", "1000")
TAG = ("ETag", '"a"')
TAIL = ("Content-Length", "600")
RANGE = ("Content-Range", "bytes 400-999/1000")
CHUNKED = ("Transfer-Encoding", "chunked")


@pytest.mark.parametrize(("number", "asked", "status", "headers", "action"), [
    ("plain", WHOLE, 200, [LEN, TAG], A),
    ("the ETag of what is in place", UNLESS, 200, [LEN, TAG], ReplyAction.UNCHANGED),
    ("the long ETag of what is in place", UNLESS_HASH, 200, [LEN, ("ETag", LONG)], ReplyAction.UNCHANGED),
    ("the ETag and the length of what is in place", SIZED, 200, [LEN, TAG], ReplyAction.UNCHANGED),
    ("the ETag of what is in place, whose length is another", SIZED, 200, [TAIL, TAG], A),
    ("the ETag of what is in place, without a length", SIZED, 200, [CHUNKED, TAG], ReplyAction.UNCHANGED),
    ("another ETag than that of what is in place", UNLESS, 200, [LEN, ("ETag", '"b"')], A),
    ("a weak ETag like that of what is in place", UNLESS, 200, [LEN, ("ETag", 'W/"a"')], A),
    ("2 length is not the manifest's", WHOLE, 200, [("Content-Length", "999")], R),
    ("3 no length, size known", WHOLE, 200, [], A),
    ("6 chunked", WHOLE, 200, [CHUNKED], A),
    ("8 two lengths", UNKNOWN, 200, [LEN, ("Content-Length", "7")], R),
    ("8 the same length twice", UNKNOWN, 200, [LEN, LEN], A),
    ("9 a known transfer coding", UNKNOWN, 200, [("Transfer-Encoding", "gzip, chunked")], A),
    ("9 an unknown transfer coding", WHOLE, 200, [("Transfer-Encoding", "xz, chunked")], R),
    ("9 chunks within a coding", WHOLE, 200, [("Transfer-Encoding", "chunked, gzip, br")], R),
    ("9 a transfer coding of a part", REST, 206, [("Transfer-Encoding", "gzip, chunked"), TAG, RANGE], RR),
    ("9 identity is nothing", UNKNOWN, 200, [("Transfer-Encoding", "identity")], A),
    ("9 chunked twice", UNKNOWN, 200, [CHUNKED, CHUNKED], A),
    ("9 identity and chunked", UNKNOWN, 200, [("Transfer-Encoding", "identity, chunked")], A),
    ("9 a length beside chunks", UNKNOWN, 200, [LEN, CHUNKED], R),
    ("9 a length beside chunks, as the user accepts it", ACCEPTING, 200, [LEN, CHUNKED], A),
    ("9 another length beside chunks, and a size", WHOLE, 200, [TAIL, CHUNKED], A),
    ("8 two lengths, one is the size", WHOLE, 200, [LEN, ("Content-Length", "7")], A),
    ("8 two lengths, none is the size", WHOLE, 200, [TAIL, ("Content-Length", "7")], R),
    ("8 two lengths, a hash will tell", WHOLE_HASHED, 200, [TAIL, ("Content-Length", "7")], A),
    ("8 two lengths of a rest", REST, 206, [TAIL, ("Content-Length", "7"), TAG, RANGE], RR),
    ("8 two lengths beside chunks", UNKNOWN, 200, [LEN, ("Content-Length", "7"), CHUNKED], R),
    ("8 two lengths beside chunks, a size", WHOLE, 200, [TAIL, ("Content-Length", "7"), CHUNKED], A),
    ("10 huge, and a size", WHOLE, 200, [("Content-Length", "9" * 20)], A),
    ("10 negative", UNKNOWN, 200, [("Content-Length", "-5")], R),
    ("10 huge", UNKNOWN, 200, [("Content-Length", "9" * 20)], R),
    ("10 not a number", UNKNOWN, 200, [("Content-Length", "1e3")], R),
    ("10 not ASCII", UNKNOWN, 200, [("Content-Length", "\u0661")], R),
    ("10 empty", UNKNOWN, 200, [("Content-Length", "")], R),
    ("rest", REST, 206, [TAIL, TAG, RANGE], A),
    ("rest, unit in another case", REST, 206, [TAIL, TAG, ("Content-Range", "Bytes 400-999/1000")], A),
    ("12 starts elsewhere", REST, 206, [TAIL, TAG, ("Content-Range", "bytes 0-599/1000")], RR),
    ("12 ends early", REST, 206, [TAG, ("Content-Range", "bytes 400-998/1000")], RR),
    ("12 last before first", REST, 206, [TAG, ("Content-Range", "bytes 400-399/400")], RR),
    ("13 no Content-Range", REST, 206, [TAIL, TAG], RR),
    ("14 another total", REST, 206, [TAG, ("Content-Range", "bytes 400-1099/1100")], RR),
    ("14 last is not total - 1", REST, 206, [TAG, ("Content-Range", "bytes 400-999/1001")], RR),
    ("14 unknown total", REST, 206, [TAIL, TAG, ("Content-Range", "bytes 400-999/*")], A),
    ("14 length contradicts range", REST, 206, [("Content-Length", "601"), TAG, RANGE], RR),
    ("15 chunked, wrong start", REST, 206, [CHUNKED, TAG, ("Content-Range", "bytes 401-999/1000")], RR),
    ("15 chunked, right", REST, 206, [CHUNKED, TAG, RANGE], A),
    ("16 multipart", REST, 206, [("Content-Type", "multipart/byteranges; boundary=x"), TAG], RR),
    ("17 206 unasked for the whole", WHOLE, 206, [LEN, ("Content-Range", "bytes 0-999/1000")], A),
    ("17 206 unasked for a part", UNKNOWN, 206, [LEN, ("Content-Range", "bytes 0-999/2000")], R),
    ("17 206 unasked, without a range", WHOLE, 206, [LEN], R),
    ("17 206 unasked, and a hash", PROVED, 206, [LEN], A),
    ("18 200 to a range", REST, 200, [LEN, TAG], A),
    ("18 200 that says it is a part", Asked(), 200, [LEN, ("Content-Range", "bytes 0-999/5000")], R),
    ("18 200 that says it is all", Asked(), 200, [LEN, ("Content-Range", "bytes 0-999/1000")], A),
    ("18 200 of the stated size", WHOLE, 200, [LEN, ("Content-Range", "bytes 0-999/5000")], A),
    ("19 416 to a range", REST, 416, [("Content-Range", "bytes */300")], RR),
    ("19 416 unasked", WHOLE, 416, [], R),
    ("21 another ETag", REST, 206, [TAIL, ("ETag", '"b"'), RANGE], RR),
    ("21 an ETag in another case", REST, 206, [TAIL, ("ETag", '"A"'), RANGE], RR),
    ("21 the ETag became weak", REST, 206, [TAIL, ("ETag", 'W/"a"'), RANGE], RR),
    ("21 the ETag is gone", REST, 206, [TAIL, RANGE], RR),
    ("22 no validator, a hash decides", HASHED, 206, [TAIL, RANGE], A),
    ("25 two ETags", WHOLE, 200, [LEN, TAG, ("ETag", '"b"')], R),
    ("25 two ETags, a hash will tell", WHOLE_HASHED, 200, [LEN, TAG, ("ETag", '"b"')], A),
    ("25 two ranges", REST, 206, [TAG, RANGE, ("Content-Range", "bytes 0-1/1000")], R),
    ("25 two encodings", REFUSING, 200, [LEN, ("Content-Encoding", "gzip"), ("Content-Encoding", "br")], R),
    ("26 gzip", REFUSING, 200, [LEN, ("Content-Encoding", "gzip")], R),
    ("26 identity", WHOLE, 200, [LEN, ("Content-Encoding", "Identity")], A),
    ("27 gzip on a 206", UNSIZED_REST, 206, [TAIL, TAG, RANGE, ("Content-Encoding", "gzip")], RR),
    ("middle", MIDDLE, 206, [("Content-Length", "200"), TAG, ("Content-Range", "bytes 400-599/1000")], A),
    ("middle, unknown total", MIDDLE, 206, [TAG, ("Content-Range", "bytes 400-599/*")], A),
    ("middle, shorter", MIDDLE, 206, [TAG, ("Content-Range", "bytes 400-400/1000")], A),
    ("middle, longer", MIDDLE, 206, [TAG, ("Content-Range", "bytes 400-600/1000")], RR),
    ("middle, to the end", MIDDLE, 206, [TAIL, TAG, RANGE], RR),
    ("middle, backwards", MIDDLE, 206, [TAG, ("Content-Range", "bytes 400-399/1000")], RR),
    ("middle, starts elsewhere", MIDDLE, 206, [TAG, ("Content-Range", "bytes 399-599/1000")], RR),
    ("middle, another total", MIDDLE, 206, [TAG, ("Content-Range", "bytes 400-599/1001")], RR),
    ("middle, another ETag", MIDDLE, 206, [("ETag", '"b"'), ("Content-Range", "bytes 400-599/1000")], RR),
    ("middle, contradicted", MIDDLE, 206, [TAIL, TAG, ("Content-Range", "bytes 400-599/1000")], RR),
    ("middle, 200", MIDDLE, 200, [LEN, TAG], RR),
    ("middle, 416", MIDDLE, 416, [], RR),
    ("middle, gzip", MIDDLE, 206, [TAG, RANGE, ("Content-Encoding", "gzip")], RR),
    ("range", RANGED, 206, [TAIL, TAG, RANGE], A),
    ("range, of a longer object", RANGED, 206, [TAIL, ("Content-Range", "bytes 400-999/9000")], A),
    ("range, unknown total", RANGED, 206, [TAIL, ("Content-Range", "bytes 400-999/*")], A),
    ("range, by the file's own bytes", RANGED, 206, [TAIL, ("Content-Range", "bytes 0-599/1000")], RR),
    ("range, longer", RANGED, 206, [("Content-Range", "bytes 400-1000/1001")], RR),
    ("range, backwards", RANGED, 206, [("Content-Range", "bytes 400-399/1001")], RR),
    ("range, no Content-Range", RANGED, 206, [TAIL], RR),
    ("range, contradicted", RANGED, 206, [("Content-Length", "601"), RANGE], RR),
    ("range, contradicted, a hash", RANGED_HASHED, 206, [TAIL, ("Content-Range", "bytes 400-408/*")], A),
    ("range, no Content-Range, and a hash", RANGED_HASHED, 206, [TAIL], A),
    ("range, of another length, and a hash", RANGED_HASHED, 206, [LEN], RR),
    ("range, the object is too short", RANGED, 206, [("Content-Range", "bytes 400-998/999")], R),
    ("range, gzip", RANGED, 206, [TAIL, RANGE, ("Content-Encoding", "gzip")], RR),
    ("range, 416", RANGED, 416, [], R),
    ("range, 200", RANGED_HASHED, 200, [LEN], A),
    ("range, 200 without length", RANGED_HASHED, 200, [], A),
    ("range, 200 and no hash", RANGED, 200, [LEN], R),
    ("range, 200 of a shorter object", RANGED_HASHED, 200, [("Content-Length", "999")], R),
    ("range, 200 and far to skip", RANGED_FAR, 200, [], R),
    ("range, rest", RANGED_REST, 206, [TAG, ("Content-Range", "bytes 500-999/1000")], A),
    ("range, rest, another ETag", RANGED_REST, 206, [("Content-Range", "bytes 500-999/1000")], RR),
    ("range, rest, 200", RANGED_REST, 200, [LEN], RR),
    ("range, rest, 416", RANGED_REST, 416, [], RR),
    ("middle, no size known", Asked(end_byte=6), 206, [("Content-Range", "bytes 0-5/*")], RR),
    ("first", FIRST, 206, [TAG, ("Content-Range", "bytes 0-599/1000")], A),
    ("first, 200", FIRST, 200, [LEN, TAG], RR),
    ("first, 416", FIRST, 416, [], RR),
    *[(f"41 {code}", WHOLE, code, [], RETRY) for code in (408, 421, 425, 500, 502, 504, 522, 524, 599)],
    *[(f"41 {code}", WHOLE, code, [], THROTTLE) for code in (429, 503)],
    *[(f"45 46 {code}", WHOLE, code, [], REFRESH) for code in (401, 403)],
    *[(f"47 P22 {code}", WHOLE, code, [], R) for code in (400, 404, 405, 409, 410, 451, 501, 505)],
    *[(f"49 {code}", WHOLE, code, [LEN], R) for code in (100, 201, 202, 204, 205, 226, 300, 301, 304)],
    *[(f"49 {code}", UNKNOWN, code, [LEN], A) for code in (203, 218)],
    *[(f"49 {code}, and a hash", PROVED, code, [LEN], A) for code in (201, 300, 302)],
    *[(f"49 {code}, and no bytes", Asked(size_bytes=0), code, [LEN], A) for code in (204, 304)],
    *[(f"49 {code}, and a hash", PROVED, code, [LEN], R) for code in (199, 204, 304, 400, 404)],
    ("unheard of", WHOLE, 999, [], R),
    ("unless, 304", UNLESS, 304, [("ETag", '"other"')], ReplyAction.UNCHANGED),
    ("unless, 304 of the long ETag", UNLESS_HASH, 304, [("ETag", LONG)], ReplyAction.UNCHANGED),
    ("unless, 304 of the long ETag, weak", UNLESS_HASH, 304, [("ETag", f"W/{LONG}")], ReplyAction.UNCHANGED),
    ("unless, 304 without an ETag", UNLESS_HASH, 304, [], ReplyAction.UNCHANGED),
    ("unless, 304 of another ETag", UNLESS_HASH, 304, [TAG], RR),
    ("unless, 200", UNLESS_HASH, 200, [LEN, TAG], A),
])  # fmt: skip
def test_the_table(number, asked, status, headers, action):
    """Each condition has its one verdict."""
    assert judge(status, CIMultiDict(headers), asked).action is action, number


def test_what_an_accepted_reply_to_a_range_of_an_object_says():
    """Byte numbers are the file's; of a whole object, what stands before the file is to be skipped."""
    rest = judge(206, CIMultiDict([TAG, ("Content-Range", "bytes 500-999/1000")]), RANGED_REST)
    whole = judge(200, CIMultiDict([LEN]), RANGED_HASHED)
    assert (rest.from_byte, rest.body_bytes, rest.total_bytes, rest.skip_bytes) == (100, 500, 600, None)
    assert (whole.from_byte, whole.body_bytes, whole.total_bytes, whole.skip_bytes) == (0, 600, 600, 400)


def test_what_an_accepted_reply_says():
    """Where the body begins, how long it is, how long the object is, and its validator."""
    whole = judge(200, CIMultiDict([LEN, TAG]), UNKNOWN)
    rest = judge(206, CIMultiDict([TAIL, TAG, RANGE]), REST)
    assert (whole.from_byte, whole.body_bytes, whole.total_bytes, whole.validator) == (0, 1000, 1000, '"a"')
    assert (rest.from_byte, rest.body_bytes, rest.total_bytes, rest.validator) == (400, 600, 1000, '"a"')


@pytest.mark.parametrize(("headers", "framed"), [([LEN], True), ([CHUNKED], True), ([], False)])
def test_3_5_whether_an_end_can_be_told_from_a_cut(headers, framed):
    """Only a length or chunks tell."""
    assert judge(200, CIMultiDict(headers), UNKNOWN).framed is framed


@pytest.mark.parametrize(("headers", "said"), [
    ([LEN, TAIL], "several lengths, 600 and 1000 bytes, and nothing says which is the file's; state the"),
    ([("Content-Length", "9" * 20)], f"a length of {'9' * 20} bytes, which no file has; state the size or a"),
    ([LEN, TAG, ("ETag", '"b"')], "2 different ETag headers; state the hash in the manifest, or by cfetch"),
])  # fmt: skip
def test_a_reply_that_contradicts_itself_is_refused_with_the_way_out(headers, said):
    """It says what was stated."""
    contradicted = judge(200, CIMultiDict([TAIL, ("Content-Length", "7")]), WHOLE).reason
    assert "several lengths, 7 and 600 bytes, where the manifest says 1000; state the hash" in contradicted
    assert said in judge(200, CIMultiDict(headers), UNKNOWN).reason


@pytest.mark.parametrize(("etag", "validator"), [
    ('"a"', '"a"'), ('""', '""'), ('W/"a"', None), ("a", None), ('"a" ', None), ('"a"b"', None), ("*", None),
    ('"a\x1b"', None),
])  # fmt: skip
def test_22_only_a_strong_etag_is_a_validator(etag, validator):
    """Weak and malformed ones may not join bytes of two replies."""
    assert judge(200, CIMultiDict([LEN, ("ETag", etag)]), UNKNOWN).validator == validator


def test_200_to_a_range_begins_at_zero():
    """18: whatever was asked for."""
    assert judge(200, CIMultiDict([LEN]), REST).from_byte == 0


NAMES = st.sampled_from(["Content-Length", "content-range", "ETag", "Content-Encoding", "Transfer-Encoding"])
VALUES = st.one_of(
    st.text(max_size=30),
    st.integers(-5, 2000).map(str),
    st.builds("bytes {}-{}/{}".format, st.integers(0, 1100), st.integers(0, 1100), st.integers(0, 1100)),
    st.sampled_from(['"a"', 'W/"a"', "chunked", "gzip", "identity", "bytes 400-999/1000", "600"]),
)


@given(
    st.integers(100, 999) | st.sampled_from([200, 206]),
    st.lists(st.tuples(NAMES, VALUES), max_size=5),
    st.sampled_from([WHOLE, UNKNOWN, REST, HASHED, MIDDLE, FIRST]),
)
def test_any_reply_gets_a_verdict_and_an_accepted_one_fits(status, headers, asked):
    """Never an exception, never bytes from elsewhere, no foreign text in the reason."""
    verdict = judge(status, CIMultiDict(headers), asked)
    if verdict.action is A:
        assert verdict.from_byte == (asked.from_byte if status == 206 else 0)
        if asked.size_bytes is not None and verdict.total_bytes is not None:
            assert verdict.total_bytes == asked.size_bytes
        if asked.end_byte is not None:
            assert verdict.from_byte + (verdict.body_bytes or 0) <= asked.end_byte
            assert (status, verdict.total_bytes) == (206, 1000)
    else:
        assert re.fullmatch(r"[ -~]+", verdict.reason)
