"""How a run treats refusals whose reason is known. On virtual time."""

import pytest

from cfetch.base.events import StragglerCheck
from tests.engine.drive import drive, entries_for
from tests.engine.fake import Reply

BODY = b"x" * 1000


def refuse(status, code):
    return Reply(status=status, reason=f"<Error><Code>{code}</Code><Message>Words</Message></Error>".encode())


@pytest.mark.parametrize(("status", "code", "tries", "outcome"), [
    (403, "InvalidObjectState", 1, "failed"), (500, "ExpiredToken", 1, "failed"),
    (503, "RequestTimeTooSkewed", 1, "failed"), (400, "SlowDown", 2, "done"),
    (400, "RequestTimeout", 2, "done"),
])  # fmt: skip
def test_the_code_decides_about_another_try(tmp_path, status, code, tries, outcome):
    """Not the status: what is permanent is tried once, and what is busy again."""
    scripts = {"a": [refuse(status, code), Reply(BODY)]}
    outcome_of_run = drive(tmp_path, scripts, entries_for(scripts))
    assert (len(outcome_of_run.transport.opens), outcome_of_run.statuses) == (tries, [outcome])
    assert f"HTTP {status}, {code}: Words" in outcome_of_run.records["a"].attempts[0].error


def test_the_body_of_a_refusal_that_never_comes_costs_two_seconds(tmp_path):
    """The reason is only for people."""
    silent = Reply(status=404, reason=b"<", cut=0, then="stall")
    outcome = drive(tmp_path, {"a": silent}, entries_for({"a": Reply(BODY)}))
    assert outcome.statuses == ["failed"]
    assert outcome.elapsed_s == pytest.approx(2, abs=0.1)
    assert outcome.transport.left_open() == []


@pytest.mark.parametrize("policy", ["adaptive", "cloudfetch"])
def test_a_refusal_whose_reason_is_slow_is_no_straggler(tmp_path, policy):
    """Its status is known, and so is the pause that it asks for."""
    silent = Reply(status=503, reason=b"<", cut=0, then="stall", headers={"Retry-After": "5"})
    scripts = {f"f{n}": [Reply(BODY, latency_s=0.05)] for n in range(60)} | {"a": [silent, Reply(BODY)]}
    outcome = drive(tmp_path, scripts, entries_for(scripts), policy=policy, concurrency=8, padding=0.1)
    first, second = outcome.records["a"].attempts
    assert (first.outcome, second.outcome) == ("error", "done")
    assert second.start_s - first.start_s > 5
    checks = [event for event in outcome.events if isinstance(event, StragglerCheck)]
    assert bool(checks) == (policy == "cloudfetch")  # the formula looks at times alone
