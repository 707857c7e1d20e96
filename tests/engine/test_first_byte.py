"""How long a first byte may take: a limit of its own, which grows from try to try. On virtual time."""

import pytest

from tests.engine.drive import drive, entries_for
from tests.engine.fake import Reply

BODY = b"x" * 1000


def bring(tmp_path, *replies, **settings):
    return drive(tmp_path, {"a": list(replies)}, entries_for({"a": Reply(BODY)}), segments=1, **settings)


def test_an_archive_that_is_made_in_forty_seconds_is_asked_for_once(tmp_path):
    """With the defaults: a silence before the first byte is work, and another request would start it anew."""
    outcome = bring(tmp_path, Reply(BODY, latency_s=40))
    assert (outcome.statuses, len(outcome.transport.opens)) == (["done"], 1)


def test_the_wait_doubles_from_try_to_try(tmp_path):
    """What was too short once is too short again; the error names the option."""
    outcome = bring(tmp_path, Reply(BODY, latency_s=70), first_byte_timeout=20.0)
    first, second, third = outcome.records["a"].attempts
    assert [first.end_s - first.start_s, second.end_s - second.start_s] == pytest.approx([20, 40], abs=1)
    assert third.outcome == "done"
    assert first.error == "no first byte within 20 s (--first-byte-timeout)"


def test_a_silence_in_the_middle_has_the_limit_of_a_stall(tmp_path):
    """Bytes have come: nothing is being made."""
    outcome = bring(tmp_path, Reply(BODY, cut=10, then="stall"), Reply(BODY), stall_timeout=30.0)
    first, _ = outcome.records["a"].attempts
    assert first.end_s == pytest.approx(30, abs=1)
    assert first.error == "no byte for 30 s (--stall-timeout)"
