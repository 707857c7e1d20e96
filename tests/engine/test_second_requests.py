"""A server without ranges: where a place is idle, a crawling file is asked for a second time, whole."""

from typing import Any

import pytest

from tests.engine.drive import drive
from tests.engine.fake import Reply

KIB = 1 << 10
BODY = bytes(range(256)) * KIB
PLAIN: dict[str, Any] = {"etag": None, "ranges": False}
FAST = Reply(BODY, rate_bps=256 * KIB, **PLAIN)
QUICK = tuple(0.02 * n for n in range(1, 41))  # when the first 40 of 70 pieces come
CRAWLS = Reply(BODY, at_s=(*QUICK, *map(float, range(1, 31))), **PLAIN)


def play(tmp_path, *last, **how):
    scripts = {f"f{n}": [FAST] for n in range(16)} | {"last": list(last)}
    return drive(tmp_path, scripts, policy="adaptive", concurrency=8, max_concurrency=8, **how)


def outcomes(outcome):
    return [(a.outcome, a.helper, a.bytes == len(BODY)) for a in outcome.records["last"].attempts]


def test_the_second_request_wins(tmp_path):
    """The first one is over at once, its bytes are lost, and the file is that of the second."""
    outcome = play(tmp_path, CRAWLS, FAST)
    assert set(outcome.statuses) == {"done"}
    assert outcome.tree["last"] == BODY
    assert outcomes(outcome) == [("lost", False, False), ("done", True, True)]
    first, second = outcome.transport.of("last")
    assert (first.fresh, second.fresh, second.range) == (False, True, None)
    assert outcome.flagged == []
    assert outcome.pool._counts.ended.hedged == 1
    assert outcome.elapsed_s < 9.0  # left alone it takes until the 34th second
    assert (outcome.parts, outcome.transport.left_open()) == ([], [])


def test_the_first_request_wins(tmp_path):
    """It becomes fast again; the second one is over when the file is there, and leaves nothing."""
    recovers = Reply(BODY, at_s=(*QUICK, 1.8, 2.6, *[3.0] * 28), **PLAIN)
    outcome = play(tmp_path, recovers, Reply(BODY, rate_bps=128 * KIB, **PLAIN))
    assert outcome.tree["last"] == BODY
    assert sorted(outcomes(outcome)) == [("done", False, True), ("lost", True, False)]
    assert (outcome.parts, outcome.transport.left_open()) == ([], [])


@pytest.mark.parametrize(
    "how",
    [{"policy": "cloudfetch"}, {"segments": 1}, {"reply": {"etag": '"v1"', "ranges": True}}],
    ids=["the formula", "one attempt a file", "a server with ranges"],
)
def test_nobody_asks_twice_where_there_is_another_way(tmp_path, how):
    """Or where the user wants one attempt at a time."""
    how = {"policy": "adaptive"} | how
    plain = PLAIN | how.pop("reply", {})
    crawls = Reply(BODY, at_s=(*QUICK, *map(float, range(1, 31))), **plain)
    scripts = {f"f{n}": [Reply(BODY, rate_bps=256 * KIB, **plain)] for n in range(16)} | {"last": [crawls]}
    outcome = drive(tmp_path, scripts, concurrency=8, **how)
    assert "lost" not in [attempt.outcome for attempt in outcome.records["last"].attempts]


def test_the_second_request_fails(tmp_path):
    """Then the first one is judged again, and rescued in the ordinary way."""
    outcome = play(tmp_path, CRAWLS, Reply(status=503, **PLAIN), FAST)
    assert outcome.tree["last"] == BODY
    assert outcomes(outcome) == [("error", True, False), ("straggler", False, False), ("done", False, True)]
    assert (outcome.parts, outcome.transport.left_open()) == ([], [])
