"""Replies of the SQL statement API: shape, following, refusals."""

import json

import pytest

from cfetch.base.errors import ManifestError
from cfetch.manifest.formats.sql_statement import parse_chunk_links


def link(chunk, following=None, **fields):
    stated = {
        "chunk_index": chunk,
        "row_offset": 100 * int(chunk),
        "row_count": 100,
        "byte_count": 1000,
        "external_link": f"https://bucket.example/r/{chunk}?X-Amz-Signature=CANARY",
        "expiration": "2026-01-01T00:00:00.250Z",
    }
    going_on = (
        {}
        if following is None
        else {
            "next_chunk_index": following,
            "next_chunk_internal_link": f"/api/2.0/sql/statements/s/result/chunks/{following}?row_offset=1",
        }
    )
    return {**stated, **going_on, **fields}


def reply(*links, form="ARROW_STREAM", compression=None, total=None, state="SUCCEEDED", **top):
    manifest = {
        "format": form,
        "schema": {"column_count": 1, "columns": [{"name": "files", "position": 0}]},
        "total_chunk_count": total or len(links),
        "truncated": False,
    }
    if compression:
        manifest["result_compression"] = compression
    return json.dumps(
        {
            "statement_id": "s",
            "status": {"state": state},
            "manifest": manifest,
            "result": {"external_links": links},
            **top,
        }
    )


def bare(*links):
    return json.dumps({"external_links": links}).encode()


class Service:
    """Answers chunk requests from a table and remembers them."""

    def __init__(self, **replies):
        self.replies = {int(name[1:]): data for name, data in replies.items()}
        self.asked = []

    def __call__(self, chunk):
        self.asked.append(chunk)
        return self.replies[chunk]


def chunks_of(plan):
    return [plan.entry(i).chunk for i in range(len(plan))]


def test_entry_of_a_link(frozen):
    """A link becomes an entry with its size, row offset, expiry and secret headers."""
    plan = frozen(reply(link(0, 1), link(1, http_headers={"x-key": "CANARY"})))
    entry = plan.entry(1)
    assert (entry.size_bytes, entry.offset, entry.chunk, entry.path) == (1000, 100, 1, "chunk-00001.arrow")
    assert entry.expires_at == 1767225600.25
    assert entry.url.reveal() == "https://bucket.example/r/1?X-Amz-Signature=CANARY"
    assert [(name, value.reveal()) for name, value in entry.headers] == [("x-key", "CANARY")]
    assert "CANARY" not in repr(entry)


@pytest.mark.parametrize(
    ("stated", "ending"),
    [
        ({"form": "ARROW_STREAM"}, ".arrow"),
        ({"form": "JSON_ARRAY"}, ".json"),
        ({"form": "CSV"}, ".csv"),
        ({"form": "ARROW_STREAM", "compression": "LZ4_FRAME"}, ".arrow.lz4"),
        ({"form": "ARROW_STREAM", "compression": "NONE"}, ".arrow"),
        ({"form": "NEW_ONE"}, ""),
    ],
)
def test_ending(frozen, stated, ending):
    """The manifest's format and compression give the file its ending."""
    assert frozen(reply(link(0), **stated)).entry(0).path == "chunk-00000" + ending


def test_bare_reply(frozen):
    """The reply of a chunk request reads as well; it does not say a format, so the files have no ending."""
    assert frozen(bare(link(3)), "-").entry(0).path == "chunk-00003"


def test_follows_the_last_link(frozen):
    """With several links in one reply the last one says where to go on; nothing is read twice."""
    service = Service(c2=bare(link(2, 3), link(3, 4)), c4=bare(link(4)))
    plan = frozen(reply(link(0, 1), link(1, 2), total=5), fetch_chunk=service)
    assert service.asked == [2, 4]
    assert chunks_of(plan) == [0, 1, 2, 3, 4]
    assert plan.entry(4).path == "chunk-00004.arrow"


@pytest.mark.parametrize("ending", [{}, {"next_chunk_index": None}])
def test_no_next_ends(frozen, ending):
    """Where the last link names no next chunk the result ends, even if the manifest counts more."""
    service = Service()
    plan = frozen(reply(link(0, **ending), total=9), fetch_chunk=service)
    assert (chunks_of(plan), service.asked) == ([0], [])


def test_first_page_only_needs_a_way_on(error_of):
    """Without a way to ask, the fault says which chunks are missing and what to set."""
    message = error_of(reply(link(0, 1), link(1, 2), total=7)).problems[0].message
    assert "chunks 2 to 6 are missing" in message
    assert "DATABRICKS_TOKEN" in message
    assert "chunk 2 is missing" in error_of(reply(link(0, 1), link(1, 2), total=3)).problems[0].message
    assert "from chunk 1 on" in error_of(bare(link(0, 1))).problems[0].message


def test_chunk_without_rows_is_skipped(frozen):
    """A link with row_count 0 gives no entry, but is followed."""
    plan = frozen(reply(link(0, 1, row_count=0)), fetch_chunk=Service(c1=bare(link(1))))
    assert chunks_of(plan) == [1]


@pytest.mark.parametrize("top", [{"result": {}}, {"result": None}, {"result": {"external_links": []}}])
def test_empty_result(frozen, top):
    """A result without links is a plan without entries."""
    assert len(frozen(reply(**top))) == 0


@pytest.mark.parametrize(
    ("text", "word"),
    [
        (reply(link(0, 1), link(0)), "chunk 0 is given twice"),
        (reply(link(0, 1), link(1, 1)), "already read"),
        (reply(state="RUNNING"), "RUNNING"),
        (reply(state=7), "an integer"),
        (reply(result={"data_array": [["1"]]}), "INLINE"),
        (reply(result=[]), "result must be an object"),
        (reply(result={"external_links": {}}), "must be an array"),
        (reply("x"), "must be an object, not a string"),
        (reply(link(-1)), "chunk_index"),
        (reply(link("0")), "chunk_index"),
        (reply(link(0, row_count=1.5)), "row_count"),
        (reply(link(0, "1")), "next_chunk_index"),
        (reply(link(0, 0)), "already read"),
        (reply(link(0, byte_count=-2)), "chunk[0]: size"),
        (reply(link(0, external_link=None)), "chunk[0]: url"),
        (reply(link(0, expiration="CANARY")), "chunk[0]: expires_at"),
        (reply(link(0, http_headers={"Range": "CANARY"})), "chunk[0]: headers"),
        ('{"external_links":[],"external_links":[]}', "given twice"),
        ('{"external_links":[}', "not JSON"),
        ('{"external_links":"\udcff"}', "offset 19 is not UTF-8"),
    ],
)
def test_refused(error_of, text, word):
    """A reply that is not what the API returns is refused without a secret."""
    error = error_of(text, format="databricks-sql")
    assert error.total == 1
    assert word in str(error)
    assert "CANARY" not in str(error)


@pytest.mark.parametrize(
    ("data", "word"),
    [
        (bare(link(0)), "chunk 0 is given twice"),
        (bare(link(2)), "no link of that chunk"),
        (bare(), "no link of that chunk"),
        (b"<html>", "the reply for chunk 1: it is not JSON"),
        (b"[]", "chunk 1 must be an object"),
        (b"\xff", "chunk 1: the byte at offset 0"),
    ],
)
def test_strange_replies_for_chunks(error_of, data, word):
    """A reply for another chunk, or one that is no reply, ends the reading instead of going in circles."""
    assert word in str(error_of(reply(link(0, 1)), fetch_chunk=Service(c1=data)))


def test_parse_chunk_links():
    """Fresh links of one reply, whole or bare, with headers and expiry; faults of all links at once."""
    (fresh,) = parse_chunk_links(bare(link(7, 8, http_headers={"x": "v"})))
    assert (fresh.chunk, fresh.offset, fresh.expires_at, fresh.headers[0][0]) == (7, 700, 1767225600.25, "x")
    assert [entry.chunk for entry in parse_chunk_links(reply(link(0, 1), link(1, 2)).encode())] == [0, 1]
    with pytest.raises(ManifestError) as caught:
        parse_chunk_links(bare(link(0, external_link="x?CANARY"), link(1, byte_count=-2)))
    assert caught.value.total == 2
    assert "CANARY" not in str(caught.value)
    with pytest.raises(ManifestError):
        parse_chunk_links(b"")
