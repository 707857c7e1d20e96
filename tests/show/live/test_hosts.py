"""Which hosts the dashboard calls slow, and the panel that names them."""

from cfetch.base.events import BreakerClosed, HostPaused, WidthChanged
from cfetch.show.live.host_rows import hosts_panel
from cfetch.show.live.hosts import SlowHosts
from tests.show.records import active, started


def hosts(*events):
    state = SlowHosts()
    for event in (started(), *events):
        state.apply(event)
    return state


def downloads(host, *states):
    return [active(n, host=host, state=state, rate_bps=10.0) for n, state in enumerate(states)]


def states(*args):
    return [(host.name, host.state, host.active) for host in hosts(*args[2:]).list_slow(args[0], args[1])]


PAUSE = HostPaused(t_s=1.0, host="h", pause_s=5.0, reason="HTTP 429")
FAILING = HostPaused(t_s=1.0, host="g", pause_s=5.0, reason="failed 8 times in a row", is_failing=True)


def test_a_run_without_trouble_has_none():
    """One or two slow downloads are no matter of the host."""
    assert states(downloads("h", "ok", "ok", "slow"), 1.0) == []
    assert states(downloads("h", "slow", "slow"), 1.0) == []


def test_a_host_of_which_most_are_slow():
    """At least three, and more than half."""
    assert states(downloads("h", "slow", "straggler", "slow", "ok"), 1.0) == [("h", "slow", 4)]
    assert states(downloads("h", "slow", "slow", "slow", "ok", "ok", "ok"), 1.0) == []


def test_a_pause_is_named_until_it_is_over():
    """A breaker too, unless it closes before; it is the worst."""
    assert states([], 3.0, PAUSE, FAILING) == [("g", "out of use", 0), ("h", "paused", 0)]
    assert states([], 6.5, PAUSE, FAILING) == []
    assert states([], 3.0, FAILING, BreakerClosed(t_s=2.0, host="g")) == []


def test_a_host_with_fewer_slots():
    """As long as it has downloads; one with more than at first is not slow."""
    narrow = WidthChanged(t_s=1.0, host="h", slots=2, before=4, reason="stragglers")
    wide = WidthChanged(t_s=1.0, host="h", slots=8, before=4, reason="faster")
    assert states(downloads("h", "ok"), 2.0, narrow) == [("h", "narrow", 1)]
    assert states([], 2.0, narrow) == []
    assert states(downloads("h", "ok"), 2.0, wide) == []


def test_downloads_at_a_time():
    """Those of the host, where all come from one."""
    state = hosts(WidthChanged(t_s=1.0, host="h", slots=2, before=4, reason="stragglers"))
    assert state.count_slots(downloads("h", "ok")) == 2
    assert state.count_slots([*downloads("h", "ok"), *downloads("g", "ok")]) == 4
    assert state.count_slots([]) == 4


def test_the_panel_is_bounded_and_printable():
    """Rows, what did not fit in one line, and no control of a terminal."""
    slow = hosts(
        *(HostPaused(t_s=1.0, host=f"h{n}\x1b[2J", pause_s=5.0, reason="no\x1b") for n in range(9))
    ).list_slow([], 2.0)
    lines = [line.plain for line in hosts_panel(slow, 80, 4)]
    assert len(lines) == 4
    assert lines[-1] == "and 7 more"
    assert "\x1b" not in "".join(lines)
    assert len(hosts_panel(slow[:2], 80, 4)) == 3
