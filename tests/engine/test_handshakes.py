"""A connection whose handshake has no answer is no slow reply, and claims no more than is true."""

import pytest

from cfetch.base.events import EntryFinished, WidthChanged
from cfetch.show.makespan import Makespan
from tests.engine.drive import drive
from tests.engine.fake import Reply

NORMAL = Reply(bytes(100_000), latency_s=0.02, rate_bps=1e7)


def lost(handshake_s):
    """The kernel's first SYN has no answer; one that it sends after ``handshake_s`` has."""
    return Reply(bytes(100_000), latency_s=0.02, rate_bps=1e7, handshake_s=handshake_s)


@pytest.mark.parametrize("handshake_s", [1.0, 3.0, 7.0])
def test_a_claim_is_what_the_kernel_would_have_taken(tmp_path, handshake_s):
    """Eight of forty connections: both ways the run is played, and the claim is below the difference."""
    scripts = {f"f{n:02}": [lost(handshake_s), NORMAL] if n % 5 == 3 else NORMAL for n in range(40)}
    how = {"concurrency": 40, "segments": 1}
    left_alone = drive(tmp_path, scripts, mitigation=False, **how)
    mitigated = drive(tmp_path, scripts, policy="adaptive", **how)
    replay = Makespan()
    records = [event.record for event in mitigated.events if isinstance(event, EntryFinished)]
    for record in records:
        replay.add(record)
    assert 0.0 <= replay.saved_s() <= left_alone.elapsed_s - mitigated.elapsed_s + 1e-6
    cancelled = [a for record in records for a in record.attempts if a.outcome == "straggler"]
    assert all(attempt.unanswered for attempt in cancelled)
    assert bool(cancelled) == (handshake_s > 1.0)  # nobody cancels what the kernel is about to repeat


@pytest.mark.parametrize(("silent", "changes"), [(lost(60.0), 0), (Reply(bytes(100_000), latency_s=60.0), 1)])
def test_handshakes_without_an_answer_are_not_connections_that_hang(tmp_path, silent, changes):
    """Nobody has heard the request: the host does not lose a slot for it, as for a reply that never comes."""
    steady = Reply(bytes(100_000), latency_s=0.02, rate_bps=1e5)
    scripts = {f"f{n:02}": steady for n in range(60)} | {"f30": [silent, silent, steady]}
    outcome = drive(tmp_path, scripts, policy="adaptive", concurrency=8, max_concurrency=8, segments=1)
    cancelled = [a for a in outcome.records["f30"].attempts if a.outcome == "straggler"]
    assert [a.unanswered for a in cancelled] == [changes == 0] * 2
    assert sum("hang" in event.reason for event in outcome.of(WidthChanged)) == changes
