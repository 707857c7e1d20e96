"""A host that says when it may be asked again is not asked before; a file that is not ready is waited for."""

import pytest

from cfetch.base.events import HostPaused
from tests.engine.drive import drive, entries_for, entry_of
from tests.engine.fake import Reply

BODY = b"x" * 1000
STAGED = Reply(status=202, headers={"Retry-After": "20"})


def test_a_success_that_used_up_the_limit_holds_the_host(tmp_path):
    """No file is asked for until the limit opens again; then all go on."""
    last = Reply(BODY, headers={"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "40"})
    outcome = drive(tmp_path, {"a": last, "b": Reply(BODY), "c": Reply(BODY)}, concurrency=1)
    assert [asked.t_s for asked in outcome.transport.opens] == pytest.approx([0, 40, 40], abs=0.5)
    (event,) = outcome.of(HostPaused)
    assert (event.pause_s, event.is_certain) == (40.0, True)


def test_a_pause_begins_before_its_reason_has_been_read(tmp_path):
    """The body of the refusal never ends, so it is read for two seconds: the others wait from the start."""
    endless = Reply(status=429, reason=b"<", cut=0, then="stall", headers={"Retry-After": "30"})
    scripts = {"a": [endless, Reply(BODY)]} | {f"b{n}": Reply(BODY, latency_s=0.5) for n in range(9)}
    outcome = drive(tmp_path, scripts, entries_for(scripts), concurrency=2)
    later = [asked.t_s for asked in outcome.transport.opens[2:]]
    assert min(later) == pytest.approx(32, abs=0.1)
    (event,) = outcome.of(HostPaused)
    assert event.reason.startswith("HTTP 429")


def test_a_limit_that_opens_in_a_day_holds_nobody_who_is_served(tmp_path):
    """The header may be wrong, and a refusal would say it again."""
    last = Reply(BODY, headers={"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "86400"})
    outcome = drive(tmp_path, {"a": last, "b": Reply(BODY)}, concurrency=1)
    assert outcome.statuses == ["done", "done"]
    assert outcome.elapsed_s < 5


def test_a_file_that_is_brought_from_tape_costs_no_try(tmp_path):
    """Asked for nine times, as often as its server says; the other file of the host does not wait."""
    scripts = {"a": [STAGED] * 9 + [Reply(BODY)], "b": Reply(BODY)}
    entries = [entry_of(0, "a", BODY), entry_of(1, "b", BODY)]
    outcome = drive(tmp_path, scripts, entries, max_attempts=2)
    assert outcome.statuses == ["done", "done"]
    assert outcome.records["b"].end_s < 1
    assert len(outcome.transport.of("a")) == 10


def test_a_file_that_never_gets_ready_ends_with_the_retry_budget(tmp_path):
    """The message says what the server does, and which option waits for longer."""
    outcome = drive(tmp_path, {"a": STAGED}, entries_for({"a": Reply(BODY)}), retry_budget=100.0)
    error = outcome.records["a"].error
    assert error.startswith("HTTP 202: the file is being made or fetched there")
    assert "pause of 20 s" in error
    assert "--retry-budget" in error


def test_an_error_of_the_server_with_a_pause_waits_that_long(tmp_path):
    """A 502 may name its pause too."""
    outcome = drive(tmp_path, {"a": [Reply(status=502, headers={"Retry-After": "17.5"}), Reply(BODY)]})
    assert [asked.t_s for asked in outcome.transport.of("a")] == pytest.approx([0, 17.5], abs=0.01)
