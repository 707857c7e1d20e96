"""What the hub answers, beat by beat; pure values."""

import msgspec
import pytest

from cfetch.base.config.straggler import StragglerConfig
from cfetch.base.config.wire import RateLimits
from cfetch.base.events import BaselineView
from cfetch.straggler.merged import SpeedSample
from cfetch.tasks.hub.leases import Demand
from cfetch.tasks.hub.messages import (
    MOST_BEAT_BYTES,
    MOST_DEMANDS,
    MOST_ORDERS_BYTES,
    MOST_SAMPLES,
    SILENT_S,
    Orders,
)
from cfetch.tasks.hub.registry import COMPARED_S, MOST_ENDED, TaskRegistry
from cfetch.tasks.shares.task import MOST_SHOWN
from tests.tasks.hub.beats import MIB, attempt, beat, samples


def registry_of(per_host=None, **options):
    return TaskRegistry(StragglerConfig(**options), per_host)


def test_each_task_judges_by_all_files_of_all_tasks():
    """As soon as enough of them have finished."""
    hub = registry_of()
    assert hub.answer(beat(1, under_way=4, **samples(10, 5)), 0.0).median_bps is None
    assert hub.answer(beat(2, under_way=0, **samples(10, 5)), 0.0).median_bps == 10 * MIB
    assert hub.view(0.0).baseline == BaselineView(median_bps=10 * MIB, finished=10, required=9)


def test_a_slow_executor_keeps_its_own_baseline_and_is_named():
    """All its tasks, and nobody else's; before any of its files has finished."""
    hub = registry_of()
    hub.answer(beat(1, executor="a", **samples(10, 20)), 0.0)
    hub.answer(beat(2, executor="b", under_way=5, active=[attempt(n) for n in range(5)]), 1.0)
    orders = hub.answer(beat(3, executor="b"), COMPARED_S)
    assert orders == Orders(median_bps=None)
    assert hub.answer(beat(1, executor="a"), COMPARED_S) == Orders(median_bps=10 * MIB)
    fractions = {one.name: one.fraction for one in hub.view(COMPARED_S).executors}
    assert fractions == {"a": None, "b": pytest.approx(0.1)}


def test_what_has_just_begun_says_nothing_of_its_speed():
    """Nor does what has no size."""
    hub = registry_of()
    hub.answer(beat(1, executor="a", **samples(10, 20)), 0.0)
    young = [attempt(n, elapsed_s=1.9) for n in range(9)]
    hub.answer(beat(2, executor="b", active=[*young, attempt(9, size_bytes=None)]), 1.0)
    assert all(one.fraction is None for one in hub.view(COMPARED_S).executors)


def test_a_silent_task_is_no_more():
    """Its leases go to others, its attempts are not shown; its executor is still known for as long."""
    hub = registry_of(per_host=4)
    assert hub.answer(beat(1, demands={"h": Demand(0, 0, 9)}, under_way=1), 0.0).leases == {"h": 4}
    assert hub.answer(beat(2, demands={"h": Demand(0, 0, 9)}), SILENT_S).leases == {"h": 0}
    assert hub.answer(beat(2, demands={"h": Demand(0, 0, 9)}), SILENT_S + COMPARED_S).leases == {"h": 4}
    assert [one.tasks for one in hub.view(SILENT_S + COMPARED_S).executors] == [1]
    assert hub.view(3 * SILENT_S) == hub.view(3 * SILENT_S)._replace(executors=[])


def test_a_task_that_is_known_to_be_dead_is_forgotten_at_once():
    """Another has its leases in the same moment; one that was never heard is nothing."""
    hub = registry_of(per_host=4)
    assert hub.answer(beat(1, demands={"h": Demand(0, 0, 9)}), 0.0).leases == {"h": 4}
    hub.forget(1)
    hub.forget(5)
    assert hub.answer(beat(2, demands={"h": Demand(0, 0, 9)}), 0.1).leases == {"h": 4}


def test_processes_of_one_machine_are_no_executors():
    """Their attempts are shown as those of one process."""
    hub = registry_of()
    hub.answer(beat(1, executor="", active=[attempt(1)]), 0.0)
    seen = hub.view(0.0)
    assert (seen.executors, [one.executor for one in seen.active]) == ([], [None])


def test_a_task_that_says_it_is_over_is_forgotten_at_once():
    """Another has its leases in the same moment, and what it has done is not forgotten."""
    hub = registry_of(per_host=4)
    hub.answer(beat(1, demands={"h": Demand(4, 0, 9)}, under_way=4, active_bytes=7), 0.0)
    assert hub.answer(beat(1, files=3, over=True), 0.5).leases == {}
    assert hub.answer(beat(2, demands={"h": Demand(0, 0, 9)}), 0.5).leases == {"h": 4}
    seen = hub.view(0.5)
    assert (seen.unshown, seen.brought) == (0, {1: (0, 0), 2: (0, 0)})
    assert [(one.tasks, one.files) for one in seen.executors] == [(1, 3)]


def test_what_is_shown():
    """Attempts with their executor; what beats leave out is counted; speed is that of the last beats."""
    hub = registry_of()
    hub.answer(beat(1, files=1, active=[attempt(1)], under_way=3, active_bytes=30), 0.0)
    hub.answer(beat(1, files=4, size_bytes=1000, active=[attempt(2)], under_way=3, active_bytes=30), 1.0)
    seen = hub.view(1.0)
    assert [(one.id, one.executor) for one in seen.active] == [(2, "a")]
    assert (seen.unshown, seen.brought) == (2, {1: (0, 1030)})
    (executor,) = seen.executors
    assert (executor.name, executor.tasks, executor.files, executor.rate_bps) == ("a", 1, 4, 300.0)


def test_files_that_tasks_have_brought():
    """They count until their reports are read, perhaps after the task's last beat; not those of the dead."""
    hub = registry_of()
    hub.answer(beat(1, whole=2, in_place=5, size_bytes=70, active_bytes=4), 0.0)
    hub.answer(beat(2, whole=1, in_place=9, size_bytes=90), 0.0)
    assert hub.view(0.0).brought == {1: (7, 74), 2: (10, 90)}
    hub.answer(beat(1, in_place=7, size_bytes=80, over=True), 1.0)
    hub.forget(2)
    assert hub.view(1.0).brought == {1: (7, 80)}
    for number in range(10, 10 + MOST_ENDED):
        hub.answer(beat(number, over=True), 2.0)
    assert 1 not in hub.view(2.0).brought


def test_a_beat_that_comes_twice_counts_files_once():
    """Its answer was lost, and it is said again."""
    hub = registry_of()
    for _ in range(2):
        hub.answer(beat(1, files=5), 0.0)
    assert [one.files for one in hub.view(0.0).executors] == [5]


def test_everybody_hears_of_the_stop():
    """Those that begin later too, and one that says goodbye."""
    hub = registry_of()
    assert not hub.answer(beat(1), 0.0).stop
    hub.stopping = True
    assert hub.answer(beat(2), 0.0).stop
    assert hub.answer(beat(2, over=True), 0.0).stop


def test_the_longest_messages_fit():
    """The longest paths and hosts, and as many of everything as a task may tell."""
    host = "h" * 255
    longest = msgspec.structs.replace(attempt(1 << 60), path="p" * 4000, host=host)
    demands = {f"{n:03d}{host[3:]}": Demand(1 << 20, 1 << 20, 1 << 20) for n in range(MOST_DEMANDS)}
    told = beat(
        1 << 60,
        executor=host,
        active=[longest] * MOST_SHOWN,
        demands=demands,
        samples=[SpeedSample(host, 1 << 50, 1e9)] * MOST_SAMPLES,
    )
    assert len(msgspec.msgpack.encode(told)) <= MOST_BEAT_BYTES
    orders = Orders(leases=dict.fromkeys(demands, 1 << 20), median_bps=1e9)
    assert len(msgspec.msgpack.encode(orders)) <= MOST_ORDERS_BYTES


def test_a_rate_is_divided_among_the_tasks_that_can_use_it():
    """All of it for the only one; never more than all, also while parts move from task to task."""
    hub = TaskRegistry(StragglerConfig(), None, RateLimits(total_bps=100, per_host_bps=40))
    most = 1 << 50
    alone = hub.answer(beat(1, rates={"": Demand(0, 0, most), "h": Demand(0, 0, most)}), 0.0).rates
    assert alone == {"": 100, "h": 40}
    second = hub.answer(beat(2, rates={"": Demand(0, 0, most)}), 1.0).rates
    assert second == {"": 0}  # the first may still use all
    first = hub.answer(beat(1, rates={"": Demand(0, 100, most)}), 2.0).rates
    assert first == {"": 50}
    assert hub.answer(beat(2, rates={"": Demand(0, 0, most)}), 3.0).rates == {"": 0}
    assert hub.answer(beat(1, rates={"": Demand(0, 50, 10)}), 4.0).rates == {"": 10}
    assert hub.answer(beat(2, rates={"": Demand(0, 0, most)}), 5.0).rates == {"": 50}
    assert hub.answer(beat(1, rates={"": Demand(0, 10, 10)}), 6.0).rates == {"": 10}
    assert hub.answer(beat(2, rates={"": Demand(0, 50, most)}), 7.0).rates == {"": 90}
    hub.forget(2)
    assert hub.answer(beat(1, rates={"": Demand(0, 10, most)}), 8.0).rates == {"": 100}


def test_a_pause_of_one_task_is_known_to_all_while_it_lasts():
    """With the seconds that are left of it; of two, the longer counts."""
    hub = registry_of()
    hub.answer(beat(1, pauses={"h": 5.0}), 0.0)
    assert hub.answer(beat(2), 2.0).pauses == {"h": 3.0}
    hub.answer(beat(3, pauses={"h": 1.0, "other": 9.0}), 3.0)
    assert hub.answer(beat(2), 4.0).pauses == {"h": 1.0, "other": 8.0}
    assert hub.answer(beat(1), 5.0).pauses == {"other": 7.0}


@pytest.mark.parametrize("per_host", [None, 64])
def test_a_host_that_throttles_is_leased_from_then_on(per_host):
    """As many connections as it served then, whether or not a limit is stated; other hosts are free."""
    hub, tasks = registry_of(per_host), range(8)
    for task in tasks:
        hub.answer(beat(task, demands={"h": Demand(8, 8, 8), "o": Demand(4, 4, 4)}), 0.0)
    leases = dict.fromkeys(tasks, 8)
    pauses = {"h": 10.0}
    for now_s in (1.0, 2.0, 3.0, 4.0):  # a task gets only what others no longer use
        for task in tasks:
            demands = {"h": Demand(min(4, leases[task]), leases[task], 16), "o": Demand(4, 4, 4)}
            orders = hub.answer(beat(task, demands=demands, pauses=pauses), now_s)
            leases[task], pauses = orders.leases.get("h", 8), {}
            assert ("o" in orders.leases) is (per_host is not None)
    assert list(leases.values()) == [4] * 8


def test_an_executor_that_is_gone_is_compared_with_no_other():
    """What it brought in better times does not make its successor slow."""
    hub = registry_of()
    hub.answer(beat(1, executor="a", **samples(10, 20)), 0.0)
    hub.answer(beat(1, executor="a", over=True), 1.0)
    later_s = 2 * SILENT_S
    hub.answer(beat(2, executor="b", **samples(1, 20)), later_s)
    assert all(one.fraction is None for one in hub.view(later_s + COMPARED_S).executors)


def test_a_host_that_resets_further_connections_is_leased_to_all_tasks():
    """The connections that they have, divided; each task hears that the host is alive."""
    hub = registry_of()
    for task in (1, 2):
        hub.answer(beat(task, demands={"h": Demand(8, 0, 8)}), 0.0)
    first = hub.answer(beat(1, demands={"h": Demand(4, 0, 8)}, resetting=["h"]), 1.0)
    assert first.alive == ["h"]
    assert hub.view(1.0).resetting == {"h": 12}  # its own of now, the other's of the last beat
    assert hub.answer(beat(2, demands={"h": Demand(8, 0, 8)}), 1.1).leases == {"h": 6}


@pytest.mark.parametrize("sign", ["a file", "bytes of a file"])
def test_a_host_that_serves_one_task_and_resets_another_is_leased_to_both(sign):
    """The second had no connection, and would give the host up."""
    hub, demands = registry_of(), {"h": Demand(8, 0, 8)}
    brings = {"active": [attempt(1)]} if sign == "bytes of a file" else samples(1, 1)
    hub.answer(beat(1, demands=demands), 0.0)
    hub.answer(beat(2, demands={"h": Demand(0, 0, 8)}, failing=["h"]), 0.1)
    assert hub.answer(beat(1, demands=demands, **brings), 1.0).leases == {}  # perhaps from before the failure
    hub.answer(beat(1, demands=demands), 2.0)
    assert hub.answer(beat(1, demands=demands, **brings), 3.0).leases == {"h": 4}
    orders = hub.answer(beat(2, demands={"h": Demand(0, 0, 8)}), 3.1)
    assert (orders.leases, orders.alive) == ({"h": 0}, ["h"])
    hub.answer(beat(1, demands={"h": Demand(4, 4, 8)}), 4.0)
    assert hub.answer(beat(2, demands={"h": Demand(0, 0, 8)}), 4.1).leases == {"h": 4}


def test_an_outage_of_a_host_is_no_limit():
    """No task gets anything from it; and what stands still is no sign of life."""
    hub, still = registry_of(), [attempt(1)]
    for t in range(8):
        for task in (1, 2):
            hub.answer(beat(task, demands={"h": Demand(1, 0, 8)}, failing=["h"], active=still), float(t))
    assert hub.view(9.0).resetting == {}


def test_the_own_bytes_of_a_task_that_failed_say_nothing_of_others():
    """The host has recovered."""
    hub = registry_of()
    hub.answer(beat(1, demands={"h": Demand(1, 0, 8)}, failing=["h"]), 0.0)
    hub.answer(beat(1, demands={"h": Demand(1, 0, 8)}, **samples(1, 1)), 4.0)
    assert hub.view(5.0).resetting == {}
