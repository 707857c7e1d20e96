"""The rules that need no baseline: silence, and checks that came too late."""

from typing import NamedTuple

import pytest

from cfetch.straggler.stall import find_stalled, gap_s


class Attempt(NamedTuple):
    key: int
    request_s: float
    last_byte_s: float | None


@pytest.mark.parametrize(
    ("last_byte_s", "now_s", "is_stalled"),
    [
        pytest.param(None, 60.0, False, id="reply-awaited"),
        pytest.param(None, 60.1, True, id="no-reply"),
        pytest.param(40.0, 60.0, False, id="silent-for-the-time-out"),
        pytest.param(40.0, 60.1, True, id="silent-too-long"),
        pytest.param(999.0, 1000.0, False, id="old-but-alive"),
    ],
)
def test_stall_rule(last_byte_s, now_s, is_stalled):
    """Before the reply its own time-out holds, then the latest byte's age; exactly the limit is fine."""
    found = find_stalled([Attempt(7, 0.0, last_byte_s)], now_s, stall_timeout_s=20.0, reply_timeout_s=60.0)
    assert found == ((7,) if is_stalled else ())


def test_stall_rule_works_from_the_first_file():
    """X2: with nothing finished and every connection stuck, all are found; the living one is not."""
    attempts = [Attempt(i, 0.0, 1.0) for i in range(4)] + [Attempt(4, 0.0, 30.0)]
    assert find_stalled(attempts, 31.1, stall_timeout_s=30.0, reply_timeout_s=60.0) == (0, 1, 2, 3)


def test_infinite_time_outs_switch_the_rule_off():
    """Silence without limit is not a stall."""
    attempts = [Attempt(1, 0.0, None), Attempt(2, 0.0, 0.0)]
    assert find_stalled(attempts, 1e9, stall_timeout_s=float("inf"), reply_timeout_s=float("inf")) == ()


@pytest.mark.parametrize(
    ("previous_s", "now_s", "lost_s"),
    [
        pytest.param(None, 3600.0, 0.0, id="first-check"),
        pytest.param(10.0, 10.5, 0.0, id="in-time"),
        pytest.param(10.0, 15.0, 0.0, id="just-late"),
        pytest.param(10.0, 15.125, 5.125, id="too-late"),
        pytest.param(10.0, 3610.0, 3600.0, id="X10-suspended"),
    ],
)
def test_gap(previous_s, now_s, lost_s):
    """Only checks further apart than the limit have lost time between them."""
    assert gap_s(previous_s, now_s) == lost_s
