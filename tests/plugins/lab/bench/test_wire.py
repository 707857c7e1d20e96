"""The origin's pure half: heads, ranges, reply heads."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cfetch.plugins.lab.bench.http_messages import BadRequest, choose_slice, parse_head, reply_head

ETAG = '"e"'


@pytest.mark.parametrize(
    ("wanted", "size", "expected"),
    [
        (None, 10, (200, 0, 10)),
        ("bytes=0-", 10, (206, 0, 10)),
        ("bytes=3-5", 10, (206, 3, 6)),
        ("bytes=3-99", 10, (206, 3, 10)),
        ("bytes=9-9", 10, (206, 9, 10)),
        ("bytes=10-", 10, (416, 0, 0)),
        ("bytes=0-", 0, (416, 0, 0)),
        ("bytes=-4", 10, (206, 6, 10)),
        ("bytes=-40", 10, (206, 0, 10)),
        ("bytes=-0", 10, (416, 0, 0)),
        ("bytes=5-3", 10, (200, 0, 10)),
        ("bytes=1-2,4-5", 10, (200, 0, 10)),
        ("lines=1-2", 10, (200, 0, 10)),
        ("bytes=-", 10, (200, 0, 10)),
        ("bytes=٣-", 10, (200, 0, 10)),
    ],
)
def test_ranges(wanted, size, expected):
    """RFC 9110 §14: satisfiable ones are cut, unsatisfiable ones 416, the rest ignored."""
    headers = {} if wanted is None else {"range": wanted}
    assert choose_slice(headers, size, ETAG) == expected


@pytest.mark.parametrize(
    ("if_range", "status"),
    [(ETAG, 206), ('"other"', 200), ('W/"e"', 200), ("Sat, 01 Jan 2000 00:00:00 GMT", 200)],
)
def test_if_range_needs_the_very_same_strong_etag(if_range, status):
    """A Range with another validator gets the whole file."""
    assert choose_slice({"range": "bytes=2-", "if-range": if_range}, 10, ETAG).status == status


def test_if_range_guards_an_unsatisfiable_range_too():
    """A file that shrank is sent whole, not refused, when If-Range says that it changed."""
    assert choose_slice({"range": "bytes=20-", "if-range": '"old"'}, 10, ETAG) == (200, 0, 10)


def test_head_fields_lose_case_and_spaces():
    """Names are folded, values trimmed."""
    head = parse_head(b"GET /a?b HTTP/1.1\r\nRANGE:  bytes=0-1 \r\nhost: x")
    assert head.target == "/a?b"
    assert head.headers == {"range": "bytes=0-1", "host": "x"}


@pytest.mark.parametrize(
    ("raw", "keep"),
    [
        (b"GET / HTTP/1.1", True),
        (b"GET / HTTP/1.0", False),
        (b"GET / HTTP/1.1\r\nConnection: Close", False),
        (b"GET / HTTP/1.1\r\nConnection: keep-alive", True),
    ],
)
def test_connections_stay_open_in_http_1_1_unless_asked_to_close(raw, keep):
    """Keep-alive is the default of 1.1 only."""
    assert parse_head(raw).keep_alive is keep


@given(st.binary(max_size=200))
def test_any_bytes_are_a_head_or_a_bad_request(raw):
    """Garbage raises BadRequest and nothing else."""
    try:
        parse_head(raw)
    except BadRequest:
        return


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"GET /",
        b"GET  / HTTP/1.1",
        b"GET / HTTP/2",
        b"GET / HTTP/1.1\r\nbad",
        b"GET / HTTP/1.1\r\na : b",
    ],
)
def test_not_a_request(raw):
    """Broken request lines and fields are refused."""
    with pytest.raises(BadRequest):
        parse_head(raw)


def test_reply_head_text():
    """Status line, length, further fields, and the announcement of a close."""
    text = reply_head(206, 5, "ETag: x\r\n", keep_alive=False)
    assert (
        text == b"HTTP/1.1 206 Partial Content\r\nContent-Length: 5\r\nETag: x\r\nConnection: close\r\n\r\n"
    )
