"""The rule of ``--min-rate``: who is cancelled, who is let be, and that it comes to an end."""

from typing import NamedTuple

from cfetch.straggler.min_rate import FRESH, LOOK_S, MOST_IN_VAIN, WINDOW_S, Measured, MinRate

MIN_BPS = 1000
FOREVER = 10**9


class Line(NamedTuple):
    """An attempt at a steady rate from ``start_s`` on."""

    key: int
    rate_bps: float
    start_s: float = 0.0
    host: str = "h"
    size_bytes: int | None = FOREVER
    may_end: bool = True

    def measure(self, now_s):
        """As the engine would."""
        age_s = now_s - self.start_s
        received = int(self.rate_bps * age_s)
        left = None if self.size_bytes is None else self.size_bytes - received
        return Measured(self.key, self.key, self.host, self.start_s, age_s, received, left, self.may_end)


def watch(rule, lines, until_s, from_s=0.0):
    """Look at the lines until one is cancelled or waived: when that was, and the ruling."""
    now_s = from_s
    while now_s < until_s:
        now_s += LOOK_S
        ruling = rule.judge([line.measure(now_s) for line in lines])
        if ruling.too_slow or ruling.waived:
            return now_s, ruling
    return None


def test_a_lone_attempt_below_the_rate_is_cancelled_after_a_window():
    """Not before; with its rate, from which the rest of its time follows."""
    now_s, ruling = watch(MinRate(MIN_BPS), [Line(1, 900)], 60)
    assert now_s == LOOK_S + WINDOW_S
    assert [slow.key for slow in ruling.too_slow] == [1]
    assert 890 < ruling.too_slow[0].rate_bps < 910
    assert not ruling.waived


def test_the_stated_rate_itself_is_enough():
    """Also a size that nobody knows is judged, but no attempt that keeps the rate."""
    assert watch(MinRate(MIN_BPS), [Line(1, MIN_BPS)], 60) is None
    assert watch(MinRate(MIN_BPS), [Line(1, 900, size_bytes=None)], 60) is not None


def test_a_rest_that_is_shorter_than_a_window_is_left_alone():
    """A fresh connection would not have shown its rate by then."""
    assert watch(MinRate(MIN_BPS), [Line(1, 500, size_bytes=500 * 10)], 10) is None
    assert watch(MinRate(MIN_BPS), [Line(1, 500, size_bytes=500 * 11)], 10) is not None


def test_what_cancelling_could_cost_the_file_is_left_alone():
    """One failure more, and it would be given up."""
    assert watch(MinRate(MIN_BPS), [Line(1, 1, may_end=False)], 60) is None


def test_a_rate_that_falls_is_seen_within_a_window():
    """What an attempt brought before does not excuse it."""
    rule, age_s = MinRate(MIN_BPS), 0.0
    while age_s < 100:
        age_s += LOOK_S
        received = int(min(age_s, 50) * 1_000_000 + max(age_s - 50, 0))
        if rule.judge([Measured(1, 1, "h", 0.0, age_s, received, FOREVER, True)]).too_slow:
            break
    assert 50 < age_s <= 50 + WINDOW_S + LOOK_S


def test_a_process_that_stood_still_gives_all_a_new_window():
    """Bytes that nobody read did not come slowly."""
    rule = MinRate(MIN_BPS)
    assert watch(rule, [Line(1, 900)], WINDOW_S - LOOK_S) is None
    rule.forgive()
    now_s, _ = watch(rule, [Line(1, 900)], 60, from_s=WINDOW_S)
    assert now_s == WINDOW_S + LOOK_S + WINDOW_S


def test_a_file_that_is_slow_on_every_connection_goes_on():
    """After ``FRESH`` of them it is waived once and never cancelled again."""
    rule, now_s, cancelled = MinRate(MIN_BPS), 0.0, 0
    while True:
        now_s, ruling = watch(rule, [Line(1, 900, start_s=now_s)], now_s + 60, from_s=now_s)
        if ruling.waived:
            break
        cancelled += 1
    assert cancelled == FRESH
    assert ruling.waived == [(1, "h", FRESH)]
    assert watch(rule, [Line(1, 900, start_s=now_s)], now_s + 600, from_s=now_s) is None


def exhaust(rule, hosts=("h",)):
    """New slow files on and on, until a host is waived: the ruling, how many were cancelled, and when."""
    now_s, cancelled = 0.0, 0
    for key in range(100):
        for _ in range(FRESH + 1):
            lines = [Line(key, 900, start_s=now_s, host=hosts[key % len(hosts)])]
            now_s, ruling = watch(rule, lines, now_s + 60, from_s=now_s)
            cancelled += len(ruling.too_slow)
            if any(waived.key is None for waived in ruling.waived):
                return ruling, cancelled, now_s
    raise AssertionError("no host was waived")


def test_a_host_that_is_slower_as_a_whole_is_let_be():
    """A fixed number of connections is lost to it, however many files it has; others are still judged."""
    rule = MinRate(MIN_BPS)
    ruling, cancelled, now_s = exhaust(rule)
    assert ruling.waived == [(None, "h", MOST_IN_VAIN)]
    assert cancelled == 3 + 3 + 2  # of three files; each first one is no loss in vain, each fourth is waived
    assert watch(rule, [Line(200, 900, start_s=now_s)], now_s + 60, from_s=now_s) is None
    assert watch(rule, [Line(201, 900, start_s=now_s, host="i")], now_s + 60, from_s=now_s) is not None


def test_one_fast_connection_brings_the_rule_back():
    """The host can do it after all."""
    rule = MinRate(MIN_BPS)
    *_, now_s = exhaust(rule)
    later_s = now_s + 2 * WINDOW_S
    watch(rule, [Line(300, 2000, start_s=now_s)], later_s, from_s=now_s)
    assert watch(rule, [Line(301, 900, start_s=later_s)], later_s + 60, from_s=later_s) is not None


def test_fresh_connections_that_end_well_speak_for_the_host():
    """Of two connections one is slow: files are cancelled on and on, and no host is waived."""
    rule, now_s = MinRate(MIN_BPS), 0.0
    for key in range(5 * MOST_IN_VAIN):
        now_s, ruling = watch(rule, [Line(key, 900, start_s=now_s)], now_s + 60, from_s=now_s)
        assert [slow.key for slow in ruling.too_slow] == [key]
        fresh = Line(key, 900_000, start_s=now_s)
        rule.judge([fresh.measure(now_s + 0.1)])  # it is over within a window
        rule.judge([])
