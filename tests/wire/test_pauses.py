"""How long a reply asks to wait, and which codes mean later."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from multidict import CIMultiDict

from cfetch.wire.judge import judge
from cfetch.wire.pauses import find_pause_s, find_used_up_s
from cfetch.wire.verdict import Asked
from cfetch.wire.verdict import ReplyAction as Action

NOW = 1_784_000_000.0  # 2026-07-14T03:33:20Z
RETRY = "Retry-After"


def pause(*fields):
    return find_pause_s(CIMultiDict(zip(fields[::2], fields[1::2], strict=True)), NOW)


@pytest.mark.parametrize(("text", "seconds"), [
    ("2", 2.0), ("100", 100.0), (" 7 ", 7.0), ("0", 0.0), ("9" * 12, 999999999999.0),
    ("Tue, 14 Jul 2026 03:33:30 GMT", 10.0), ("Tuesday, 14-Jul-26 03:33:30 GMT", 10.0),
    ("Tue Jul 14 03:33:30 2026", 10.0), ("Tue, 14 Jul 2026 03:00:00 GMT", 0.0), ("-5", None),
    ("4.5", 4.5), (".128", 0.128), ("299.997", 299.997), ("1e3", None), ("nan", None),
    ("soon", None), ("", None), ("\u0662", None),
])  # fmt: skip
def test_42_p21_retry_after(text, seconds):
    """Seconds and all three date forms; a date that is over is now; anything else says nothing."""
    assert pause(RETRY, text) == seconds


@given(
    st.text(max_size=60)
    | st.from_regex(r"[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{1,5} \d\d:\d\d:\d\d [+-]?\w{3,5}")
)
@example("9" * 5000)
@example("Mon, 01 Jan 0001 00:00:00 +2359")
@example("Fri, 31 Dec 9999 23:59:59 -2359")
@example("Mon, 01 Jan 2026 00:00:00 +99999999999999")
def test_42_any_text_is_survived(text):
    """Never an exception, never a negative wait."""
    for name in (RETRY, "RateLimit", "X-RateLimit-Reset", "RateLimit-Remaining", "Date"):
        seconds = pause(name, text)
        assert seconds is None or seconds >= 0


@pytest.mark.parametrize(("seconds", "fields"), [
    (6.0, ("RateLimit", '"a";r=0;t=6')), (6.0, ("RateLimit", '"day";r=90;t=4000, "burst";r=0;t=6')),
    (4000.0, ("RateLimit", '"day";r=0;t=4000, "burst";r=0;t=6')), (6.0, ("RateLimit", '"a";t=6')),
    (5.0, ("RateLimit", "limit=10, remaining=0, reset=5")), (None, ("RateLimit", '"a";r=5;t=6')),
    (7.5, ("X-RateLimit-Reset-After", "7.5")), (9.0, ("RateLimit-Remaining", "0", "RateLimit-Reset", "9")),
    (30.0, ("X-RateLimit-Reset", "1784000030")), (30.0, ("x-rate-limit-reset", "1784000030000")),
    (0.0, ("X-RateLimit-Reset", "1783999000")),
    (None, ("X-RateLimit-Remaining", "12", "X-RateLimit-Reset", "9")),
    (10.0, ("X-RateLimit-Reset", "Tue, 14 Jul 2026 03:33:30 GMT")),
    (1.5, ("Retry-After-Ms", "1500")), (2.0, (RETRY, "2", "RateLimit", '"a";r=0;t=6')),
    (6.0, (RETRY, "soon", "RateLimit", '"a";r=0;t=6')), (None, ("X-RateLimit-Limit", "5")),
])  # fmt: skip
def test_42_headers_of_limits_state_a_pause(seconds, fields):
    """In all their forms; a limit of which something remains is not the one that refused."""
    assert pause(*fields) == seconds


@pytest.mark.parametrize(("name", "text"), [
    (RETRY, "Tue, 14 Jul 2026 02:00:20 GMT"), ("X-RateLimit-Reset", str(int(NOW) - 93 * 60)),
])  # fmt: skip
def test_42_a_time_is_compared_with_the_servers_own_clock(name, text):
    """The server's clock is 93 minutes and 20 seconds behind; the pause is 20 s, and not over."""
    assert pause(name, text, "Date", "Tue, 14 Jul 2026 02:00:00 GMT") == 20.0


@pytest.mark.parametrize(("seconds", "fields"), [
    (6.0, {"RateLimit": '"a";r=0;t=6'}), (6.0, {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "6"}),
    (0.0, {"X-RateLimit-Reset": "6"}), (0.0, {"RateLimit": '"a";r=1;t=6'}), (0.0, {"Retry-After": "6"}),
])  # fmt: skip
def test_42_a_success_may_say_that_it_was_the_last_for_now(seconds, fields):
    """Only by a limit of which nothing remains."""
    assert find_used_up_s(CIMultiDict(fields), NOW) == seconds


USED_UP = {"X-RateLimit-Remaining": "0"}


@pytest.mark.parametrize(("status", "fields", "action"), [
    (202, {RETRY: "1"}, Action.WAIT), (202, {}, Action.REFUSE), (423, {RETRY: "1"}, Action.WAIT),
    (409, {RETRY: "1"}, Action.WAIT), (409, {}, Action.REFUSE), (403, USED_UP, Action.THROTTLE),
    (403, {"X-RateLimit-Remaining": "9"}, Action.REFRESH), (403, {RETRY: "60"}, Action.THROTTLE),
    (413, {RETRY: "1"}, Action.THROTTLE), (413, {}, Action.REFUSE), (404, {RETRY: "1"}, Action.REFUSE),
    (529, {}, Action.THROTTLE), (420, {}, Action.THROTTLE),
])  # fmt: skip
def test_codes_that_mean_later(status, fields, action):
    """By the headers of a pause or of a used-up limit; an empty 202 of a firewall stays a failure."""
    assert judge(status, CIMultiDict(fields), Asked()).action is action
