"""``--max-file-size``: a file that is larger is refused as early as that can be known. On virtual time."""

import pytest

from tests.engine.drive import drive, entry_of
from tests.engine.fake import Reply

BODY = b"x" * 1000


@pytest.mark.parametrize(("size", "framing", "most", "requests", "outcome"), [
    (True, "length", 999, 0, "failed"), (False, "length", 999, 1, "failed"),
    (False, "chunked", 999, 1, "failed"),
    (True, "length", 1000, 1, "done"), (False, "length", 1000, 1, "done"),
    (False, "chunked", 1000, 1, "done"),
])  # fmt: skip
def test_a_file_that_is_too_large_is_refused_once(tmp_path, size, framing, most, requests, outcome):
    """By the stated size without a request, by the reply's length, or at the first byte too many."""
    reply = Reply(BODY, framing=framing)
    ran = drive(tmp_path, {"a": reply}, [entry_of(0, "a", BODY, size=size)], max_file_size=most)
    record = ran.records["a"]
    assert (record.status, len(ran.transport.opens)) == (outcome, requests)
    assert outcome == "done" or "--max-file-size" in record.error
    assert ran.tree == ({"a": BODY} if outcome == "done" else {})
