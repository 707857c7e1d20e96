"""A connection whose handshake has no answer is no slow reply, and claims no more than is true."""

import pytest

from cfetch.base.events import EntryFinished
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
