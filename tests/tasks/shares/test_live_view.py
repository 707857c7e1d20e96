"""What the driver shows of its tasks, by what it hears of them."""

import pytest

from cfetch.base.events import Event, ExecutorSlow, ExecutorView, Progress, WidthChanged
from cfetch.show.summary import Tally
from cfetch.tasks.hub.account import Account
from cfetch.tasks.hub.registry import EMPTY_VIEW
from cfetch.tasks.shares.live_view import LiveView
from tests.show.records import active, attempt, finished, record, segments, started


@pytest.fixture
def shown():
    """What is emitted, and a way to show a run of ``files`` in which ``records`` have ended."""
    events: list[Event] = []

    def show(files, *records, seen=EMPTY_VIEW):
        tally, account = Tally(), Account()
        for event in (started(files), *finished(*records)):
            tally(event)
        for one in records:
            account.add(one.id)
        LiveView(files, tally.live, account, lambda: 7.0, events.append, slots=16).show(seen)
        (live,) = [event for event in events if isinstance(event, Progress)]
        return live, tally.summary(7.0)

    return show


def test_the_live_view_and_the_summary_agree(shown):
    """On files, bytes and retries, of which a file has none that segments brought without an error."""
    again = record(1, 100, attempt(size=40, outcome="error"), attempt(2))
    live, summary = shown(3, segments("done", "done", "done"), again, record(2, 50, status="skipped"))
    assert (live.retries, summary.retries) == (1, 1)
    assert (live.bytes_wasted, summary.bytes.wasted) == (40, 40)
    assert (live.done, live.skipped, live.failed) == (2, 1, 0)
    assert (summary.files.done, summary.files.skipped, summary.files.failed) == (2, 1, 0)
    assert (live.t_s, live.bytes_done, live.waiting) == (7.0, 240, 0)


def test_segments_are_no_retries(shown):
    """However many a file has: live and in the summary."""
    live, summary = shown(1, segments("done", "done", "done"))
    assert (live.retries, summary.retries) == (0, 0)


def test_what_is_under_way_is_shown_once(shown):
    """By the hub: one of two copies, and nothing that has ended."""
    one, other = [active(5, bytes=10, executor="a"), active(6, bytes=7)], [active(5, bytes=30, executor="b")]
    segment = active(6, bytes=4)
    heard = EMPTY_VIEW._replace(
        active=[*one, segment, *other, active(0)], unshown=2, brought={1: (0, 1021), 2: (1, 230)}
    )
    live, _ = shown(10, record(0, 100, attempt()), seen=heard)
    assert [(one.id, one.bytes) for one in live.active] == [(5, 30), (6, 4)]
    assert (live.bytes_active, live.waiting, live.unshown) == (1021 + 230 - 10, 4, 2)


def test_files_without_a_report_count_as_in_one_process(shown):
    """Those that wait for their names, and those that have them while the driver has not heard of it yet."""
    heard = EMPTY_VIEW._replace(active=[active(9, bytes=3)], brought={7: (5, 303), 8: (0, 0)})
    live, _ = shown(10, record(0, 100, attempt()), seen=heard)
    assert (live.done, live.whole, live.waiting) == (1, 5, 3)
    assert (live.bytes_done, live.bytes_active) == (100, 303)


def test_never_more_files_than_there_are(shown):
    """Two copies of a task may have brought the same ones."""
    live, _ = shown(3, record(0, 100, attempt()), seen=EMPTY_VIEW._replace(brought={7: (2, 0), 8: (2, 0)}))
    assert (live.done, live.whole, live.waiting) == (1, 2, 0)


def test_an_executor_is_called_slow_once():
    """When it is first seen to be, and not each time that it is shown."""
    events: list[Event] = []
    view = LiveView(1, Tally().live, Account(), lambda: 7.0, events.append, slots=16)
    fast = ExecutorView(name="a", tasks=1, files=0, rate_bps=9.0, fraction=None)
    slow = ExecutorView(name="b", tasks=1, files=0, rate_bps=1.0, fraction=0.1)
    for executors in ([fast], [fast, slow], [fast, slow]):
        view.show(EMPTY_VIEW._replace(executors=executors))
    assert [event for event in events if not isinstance(event, Progress)] == [
        ExecutorSlow(t_s=7.0, executor="b", fraction=0.1)
    ]
    assert [len(event.executors) for event in events if isinstance(event, Progress)] == [1, 2, 2]


def test_a_limit_of_all_tasks_at_a_host_is_shown_when_it_changes():
    """The end of the run is explained by it."""
    events: list[Event] = []
    view = LiveView(1, Tally().live, Account(), lambda: 7.0, events.append, slots=16)
    for slots in (8, 8, 9):
        view.show(EMPTY_VIEW._replace(resetting={"h": slots}))
    changes = [(event.before, event.slots) for event in events if isinstance(event, WidthChanged)]
    assert changes == [(16, 8), (8, 9)]
