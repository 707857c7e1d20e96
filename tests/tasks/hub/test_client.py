"""Tasks with a hub, without Spark: real pools, real sockets, a real origin."""

import asyncio
import json
import socket
import threading
import time
from contextlib import contextmanager
from typing import Any
from unittest.mock import Mock

import msgspec
import pytest

from cfetch.base.clock import SystemClock
from cfetch.base.config.settings import Settings
from cfetch.base.events import HostPaused, StragglerCancelled, WidthChanged
from cfetch.base.secret import SecretText
from cfetch.plugins.lab.bench.faults import Fault
from cfetch.straggler.merged import SpeedSample
from cfetch.tasks.hub import client as hub_client
from cfetch.tasks.hub import learned_limits
from cfetch.tasks.hub import registry as hub_registry
from cfetch.tasks.hub.client import BeatMaker
from cfetch.tasks.hub.learned_limits import HEARD_S
from cfetch.tasks.hub.leases import Demand
from cfetch.tasks.hub.messages import HubAddress
from cfetch.tasks.hub.registry import TaskRegistry
from cfetch.tasks.hub.server import HubPlace, open_hub
from cfetch.tasks.shares.task import bring_share
from cfetch.tasks.shares.work import Turn
from tests.engine.drive import tree
from tests.show.records import active, attempt, finished, progress, record
from tests.tasks.counting import counting
from tests.tasks.hub.beats import FakeTask, beat, count_tasks
from tests.tasks.scene import (
    files_of,
    read_receipts,
    served,
    share_of,
    spec_of,
    whole,
    write_manifest,
)

PER_HOST = 4
# a straggler would be asked for twice, and its first request be under way at the server for a while
LIMITED: dict[str, Any] = {"concurrency": 8, "per_host": PER_HOST, "mitigation": False}


@contextmanager
def hub_of(settings):
    registry = TaskRegistry(settings.straggler, settings.per_host, settings.rates)
    with open_hub(registry, HubPlace("127.0.0.1"), SystemClock()) as hub:
        yield hub


def plain_share(tmp_path, origin, folder, number, sharers=2):
    """Of files that a counting origin has."""
    rows = [{"url": f"{origin.url}{folder}{n}", "path": f"{folder}{n}", "size": 1000} for n in range(number)]
    manifest = tmp_path / f"{folder}.json"
    manifest.write_text(json.dumps({"version": 1, "files": rows}))
    return share_of(tmp_path, manifest, sharers)


@contextmanager
def begun(spec, share, turn):
    """A task in a thread; joined in the end."""
    thread = threading.Thread(target=bring_share, args=(spec, share, turn))
    thread.start()
    try:
        yield thread
    finally:
        thread.join(60)
        assert not thread.is_alive()


def wait_until(is_true):
    """What another thread does comes late on a busy machine."""
    end_s = time.monotonic() + 60
    while not is_true():
        assert time.monotonic() < end_s
        time.sleep(0.01)


def test_tasks_together_have_no_more_connections_than_there_may_be(tmp_path, monkeypatch):
    """Two of them, and all four of one when the other has ended: no fixed shares."""
    monkeypatch.setattr(hub_registry, "SILENT_S", 600.0)  # a task is forgotten by its last word only
    settings = Settings(to=(str(tmp_path / "to"),), **LIMITED)
    with counting(together=PER_HOST) as origin, hub_of(settings) as hub:
        spec = spec_of(tmp_path, settings, hub.address)
        long, short = plain_share(tmp_path, origin, "l", 300, 4), plain_share(tmp_path, origin, "s", 50, 4)
        with begun(spec, long, Turn(0, 1, 0, "a")), begun(spec, short, Turn(1, 2, 0, "b")):
            pass
        assert origin.most_asking == PER_HOST
        assert origin.requests == 350
        wait_until(lambda: count_tasks(hub) == 0)  # nobody waits for the answer to a last word
    assert len(tree(tmp_path / "to")) == 350


def test_a_task_uses_what_the_other_does_not(tmp_path):
    """Four connections where its fixed share is one: each of the first answers brings one more."""
    settings = Settings(to=(str(tmp_path / "to"),), **LIMITED)
    with counting(together=PER_HOST, free=PER_HOST - 1) as origin, hub_of(settings) as hub:
        spec = spec_of(tmp_path, settings, hub.address)
        bring_share(spec, plain_share(tmp_path, origin, "f", 50, sharers=4), Turn(0, 1, 0, "a"))
        assert origin.most_asking == PER_HOST


def test_a_task_uses_the_rate_that_no_other_uses(tmp_path):
    """Its fixed part would take five minutes."""
    files = files_of(1, 300_000)
    rates: dict[str, Any] = {"limit_rate": 1_000_000, "limit_rate_per_host": 500_000}
    settings = Settings(to=(str(tmp_path / "to"),), **rates)
    with served(files) as origin, hub_of(settings) as hub:
        spec = msgspec.structs.replace(spec_of(tmp_path, settings, hub.address), at_a_time=1000)
        share = share_of(tmp_path, write_manifest(tmp_path / "m.json", origin, files), 1000)
        bring_share(spec, share, Turn(0, 1, 0, "a"))
    (record,) = [record for one in read_receipts(tmp_path) for record in one.records]
    assert record.end_s - record.start_s < 100.0


def test_a_429_of_another_task_is_kept(tmp_path):
    """Nothing is asked before the other's pause is over."""
    files = files_of(8)
    settings = Settings(to=(str(tmp_path / "to"),), per_host=2)
    with served(files) as origin, hub_of(settings) as hub, FakeTask(hub.address) as other:
        host = origin.url.split("/")[2]
        began_s = time.monotonic()
        other.meet().ask(beat(9, pauses={host: 1.5}))
        spec = spec_of(tmp_path, settings, hub.address)
        share = share_of(tmp_path, write_manifest(tmp_path / "m.json", origin, files), 2)
        bring_share(spec, share, Turn(0, 1, 0, "a"))
        assert time.monotonic() - began_s >= 1.5
    assert tree(tmp_path / "to") == whole(files)


def test_a_pause_is_told_with_the_seconds_that_are_left_of_it():
    """A beat comes up to a second later: no task waits for longer than the host has asked."""
    beats = BeatMaker(beat(1), shown=1, now_s=iter([10.75, 11.5, 12.0]).__next__)
    pause = HostPaused(t_s=10.0, host="h", pause_s=1.0, reason="HTTP 429", is_certain=True)
    beats(pause)
    assert beats.make_beat({}).pauses == {"h": 0.25}
    beats(pause)
    assert beats.make_beat({}).pauses == {"h": 0.0}
    assert beats.make_beat({}).pauses == {}


def test_a_beat_counts_each_file_once():
    """Of those that were under way or whole when the pool last told, some have ended since."""
    beats = BeatMaker(beat(1), shown=1, now_s=lambda: 1.0)
    beats(*finished(record(0, 100, attempt(size=100))))
    beats(progress(1, done=1, whole=3, bytes_done=100, bytes_active=40, active=[active(7)]))
    now = beats.make_beat({})
    assert (now.files, now.in_place, now.whole, now.active_bytes, now.size_bytes) == (1, 1, 3, 40, 100)
    beats(*finished(record(1, 15, attempt(size=15))))
    now = beats.make_beat({})
    assert (now.files, now.in_place, now.whole, now.active_bytes, now.size_bytes) == (2, 2, 2, 25, 115)
    assert beats.make_beat({}, over=True).whole == 0


def test_hosts_that_reset_connections_or_do_not_answer_are_told_once():
    """A width that the policy has chosen is no refusal."""
    beats = BeatMaker(beat(1), shown=1, now_s=lambda: 1.0)
    for host, is_refused in (("h", True), ("other", False)):
        beats(WidthChanged(t_s=1.0, host=host, slots=4, before=8, reason="r", is_refused=is_refused))
    beats(HostPaused(t_s=1.0, host="dead", pause_s=1.0, reason="r", is_failing=True))
    first, second = beats.make_beat({}), beats.make_beat({})
    assert (first.resetting, first.failing, first.pauses) == (["h"], ["dead"], {})
    assert (second.resetting, second.failing) == ([], [])


def test_a_host_that_throttles_all_tasks_gets_no_more_than_a_part_of_their_connections(tmp_path, monkeypatch):
    """Without a stated limit: after another task's 429, there are no more than the host served then."""
    monkeypatch.setattr(learned_limits, "SLOWLY", 0.0)  # in a minute of a busy machine the limit would grow
    settings = Settings(to=(str(tmp_path / "to"),), concurrency=8)
    with counting() as origin, hub_of(settings) as hub, FakeTask(hub.address) as other:
        host = origin.url.split("/")[2]
        other.meet().ask(beat(9, demands={host: Demand(2, 0, 4)}, pauses={host: 0.1}))
        time.sleep(HEARD_S + 0.1)
        other.ask(beat(9, demands={host: Demand(2, 2, 2)}))
        other.ask(beat(9))
        spec, share = spec_of(tmp_path, settings, hub.address), plain_share(tmp_path, origin, "f", 200)
        origin.may_answer.clear()  # it begins with 8, before the first orders
        obey = hub_client.LeasedPool.obey

        def let_go(pool, orders):
            obey(pool, orders)
            origin.may_answer.set()

        monkeypatch.setattr(hub_client.LeasedPool, "obey", let_go)
        with begun(spec, share, Turn(0, 1, 0, "a")):
            while origin.requests < 100:
                time.sleep(0.01)
            origin.most_asking = 0
        assert origin.most_asking == 2
    assert len(tree(tmp_path / "to")) == 200


@pytest.mark.parametrize("trouble", ["refuses", "is silent", "is somebody else", "is not there"])
def test_without_a_hub_a_task_goes_by_its_fixed_share(tmp_path, trouble):
    """And brings its share to its end: a hub that cannot be reached costs nothing but the view."""
    settings = Settings(to=(str(tmp_path / "to"),), **LIMITED)
    with (
        socket.create_server(("127.0.0.1", 0)) as silent,
        hub_of(settings) as hub,
        counting(together=PER_HOST // 2) as origin,
    ):
        wrong = SecretText("00" * 32)
        at: HubAddress | None = HubAddress("127.0.0.1", silent.getsockname()[1], wrong)
        if trouble == "refuses":
            silent.close()
        elif trouble == "is somebody else":
            at = hub.address._replace(key=wrong)
        elif trouble == "is not there":
            at = None
        spec = spec_of(tmp_path, settings, at)
        bring_share(spec, plain_share(tmp_path, origin, "f", 50, sharers=2), Turn(0, 1, 0, "a"))
        assert origin.most_asking == PER_HOST // 2
    assert len(tree(tmp_path / "to")) == 50


def test_a_hub_that_is_slow_to_answer_is_waited_for(tmp_path, monkeypatch):
    """A fixed part would come on top of what it has leased to others."""
    waits, wait = [], hub_client.HubLine._wait

    def note_wait(self, left_s):
        waits.append(left_s)
        wait(self, left_s)

    monkeypatch.setattr(hub_client.HubLine, "_wait", note_wait)
    monkeypatch.setattr(hub_client, "FIRST_ANSWER_S", 60.0)  # for the connection, however busy the machine is
    monkeypatch.setattr(hub_client, "ANSWER_S", 600.0)
    settings = Settings(to=(str(tmp_path / "to"),), **LIMITED)
    with counting(together=PER_HOST) as origin, hub_of(settings) as hub:
        spec, share = spec_of(tmp_path, settings, hub.address), plain_share(tmp_path, origin, "f", 50)
        with begun(spec, share, Turn(0, 1, 0, "a")), hub._lock:
            wait_until(lambda: hub_client.ANSWER_S in waits)
            assert origin.requests == 0
        assert (origin.requests, origin.most_asking) == (50, PER_HOST)


@pytest.fixture
def pool():
    """What the line tells its pool."""
    return Mock(hub_client.LeasedPool)


def line_to_nobody(pool):
    address = HubAddress("127.0.0.1", 1, SecretText("00"))
    return hub_client.HubLine(address, BeatMaker(beat(1), shown=1, now_s=time.monotonic), pool)


async def test_a_process_that_stood_still_has_not_waited_in_vain(pool, monkeypatch):
    """It could have heard nothing: the answer may be there."""
    monkeypatch.setattr(hub_client, "FIRST_ANSWER_S", 3 * hub_client.TICK_S)
    line_to_nobody(pool).begin()
    time.sleep(4 * hub_client.TICK_S)
    for _ in range(5):
        await asyncio.sleep(0)
    pool.go_alone.assert_not_called()
    while not pool.go_alone.called:
        await asyncio.sleep(0.01)


@pytest.mark.parametrize(("late_s", "calls"), [(0.0, ["go_alone"]), (200.0, ["wait_for_orders"])])
async def test_leases_that_end_while_the_process_stands_still_may_be_others(pool, monkeypatch, late_s, calls):
    """A hub that is silent while the task runs is not waited for."""
    monkeypatch.setattr(
        hub_client, "TICK_S", 100.0
    )  # for which no busy machine lets this process stand still
    line = line_to_nobody(pool)
    line.begin()
    pool.reset_mock()
    line._note_answer(asyncio.get_running_loop().time() - late_s)
    while not pool.method_calls:
        await asyncio.sleep(0)
    assert [name for name, _, _ in pool.method_calls] == calls


def test_a_hub_that_dies_in_between_costs_nothing(tmp_path):
    """The task keeps its leases for a while, then has its fixed share."""
    settings = Settings(to=(str(tmp_path / "to"),), **LIMITED)
    with counting(together=PER_HOST) as origin, hub_of(settings) as hub:
        spec = spec_of(tmp_path, settings, hub.address)
        share = plain_share(tmp_path, origin, "f", 200)
        with begun(spec, share, Turn(0, 1, 0, "a")) as task:
            while origin.requests < 100:
                assert task.is_alive()
            hub.close()
        assert origin.requests == 200
        assert origin.most_asking == PER_HOST


def test_a_stop_comes_through_the_hub(tmp_path):
    """There is no file that says so."""
    held = next(iter(files_of(4)))
    settings = Settings(to=(str(tmp_path / "to"),), mitigation=False)
    stall = Fault(kind="stall", after_bytes=10, first=0)
    with served(files_of(4), {held: stall}) as origin, hub_of(settings) as hub:
        spec = spec_of(tmp_path, settings, hub.address)
        share = share_of(tmp_path, write_manifest(tmp_path / "m.json", origin, files_of(4)), 2)
        with begun(spec, share, Turn(0, 1, 0, "a")) as task:
            while [one.bytes for one in hub.view().active] != [10]:  # the others are in place
                assert task.is_alive()
            assert [one.executor for one in hub.view().active] == ["a"]
            assert not list((tmp_path / "receipts").glob("live-*"))  # the hub has it all
            hub.stop()
    assert read_receipts(tmp_path)
    assert not any(one.is_over for one in read_receipts(tmp_path))


def beside_others(tmp_path, late, *, bps, normal_bps, padding):
    """A task whose ``late`` files come slowly at first, while others have told what is normal."""
    files = files_of(6)
    rule: dict[str, Any] = {"quantile": 0.9, "multiplier": 1.1, "padding": padding, "check_interval": 0.05}
    settings = Settings(to=(str(tmp_path / "to"),), concurrency=6, policy="cloudfetch", **rule)
    faults = {name: Fault(kind="slow", rate_bps=bps, first=1) for name in list(files)[:late]}
    with served(files, faults) as origin, hub_of(settings) as hub, FakeTask(hub.address) as other:
        host = origin.url.split("/")[2]
        normal = [SpeedSample(host, 1000, normal_bps)] * 30
        other.meet().ask(beat(9, executor="b", samples=normal, finished=30))
        spec = spec_of(tmp_path, settings, hub.address)
        bring_share(
            spec,
            share_of(tmp_path, write_manifest(tmp_path / "m.json", origin, files), 2),
            Turn(0, 1, 0, "a"),
        )
    assert tree(tmp_path / "to") == whole(files)
    events = [event for one in read_receipts(tmp_path) for event in one.events]
    return [one for one in events if isinstance(one, StragglerCancelled)]


def test_the_first_file_of_a_task_is_judged_by_those_of_others(tmp_path):
    """None of its own would: all six have to finish for that.

    Normal is a second for a file: even on a busy machine this task is no slow executor, whose files all wait.
    """
    found = beside_others(tmp_path, 1, bps=10, normal_bps=1e3, padding=0.2)
    assert [(one.path, one.executor) for one in found] == [("d/0000.bin", "a")]


def test_files_of_a_slow_executor_are_not_begun_anew(tmp_path, monkeypatch):
    """All six come slowly, so it is not theirs: nobody is cancelled, and the executor is named."""
    monkeypatch.setattr(hub_client, "EVERY_S", 0.05)
    monkeypatch.setattr(hub_registry, "COMPARED_S", 0.0)
    monkeypatch.setattr(hub_registry, "YOUNG_S", 0.2)
    compare, slow = hub_registry.TaskRegistry._compare, set[str]()

    def note_slow(registry, now_s):
        compare(registry, now_s)
        slow.update(registry._slow)  # once its files have ended it is slow no more

    monkeypatch.setattr(hub_registry.TaskRegistry, "_compare", note_slow)
    assert beside_others(tmp_path, 6, bps=200, normal_bps=1e5, padding=4.0) == []
    assert slow == {"a"}
