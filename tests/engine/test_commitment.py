"""The contract of ``Commitment``: a pool cannot tell one volume from batches on several."""

import asyncio
from typing import Any

import pytest

from cfetch.base.clock import RunClock
from cfetch.base.config.settings import Settings
from cfetch.base.errors import LocalFault, Refused, VolumeFault
from cfetch.base.events import EntryFinished
from cfetch.base.virtual_clock import VirtualClock, run_virtual
from cfetch.engine.committing import make_commitment
from cfetch.engine.entry_records import EntryRecords
from cfetch.engine.idle_workers import IdleWorkers
from cfetch.engine.policies import policy_of
from cfetch.engine.pool_inputs import PoolInputs
from cfetch.engine.schedule import NEVER
from cfetch.engine.side_tasks import SideTasks
from cfetch.engine.stop_switch import StopSwitch
from cfetch.plugins.lab.bench.simulation.volume import SimVolume
from cfetch.show.counts import LiveCounts
from tests.engine.drive import ListPlan, entry_of
from tests.engine.flying import new_flights

KINDS = {"single": (1, False), "batched on one volume": (1, True), "batched on three": (3, True)}


class Scene:
    """A commitment with a run's own records and stop switch, and a worker that does as the test says."""

    def __init__(self, kind, files):
        volumes, named = KINDS[kind]
        batch: dict[str, Any] = {"batch": "b"} if named else {}
        hosts = ["a.test", "b.test"]
        entries = [entry_of(n, f"f{n}", b"four", host=hosts[n % 2], **batch) for n in range(files)]
        plan: Any = ListPlan(entries)
        self.entries = plan
        self.clock = RunClock(VirtualClock())
        self.records: list[Any] = []
        self.switch = StopSwitch(self.clock, lambda _: None, self.stop)
        self.idle = IdleWorkers()
        settings = Settings(concurrency=4)
        policy = policy_of("adaptive", settings.straggler, tick_s=0.1, concurrency=4)
        outside = PoolInputs(
            "i", self.clock, jitter=lambda: 0.5, emit=self.note, counts=LiveCounts(), confirm=lambda: None
        )
        in_flight = new_flights(policy)
        entry_records = EntryRecords(policy, in_flight, outside)
        self.volumes: list[Any] = [SimVolume(f"v{n}") for n in range(volumes)]
        self.commitment = make_commitment(
            plan,
            settings.placing,
            self.volumes,
            entry_records,
            self.switch,
            self.idle,
            in_flight,
            outside,
            backwards=False,
            bears=lambda host, now_s: (0, 4),
        )

    def stop(self):
        self.commitment.stop()

    def note(self, event):
        if isinstance(event, EntryFinished):
            self.records.append(event.record)

    @property
    def statuses(self):
        return {record.path: record.status for record in self.records}

    async def next(self):
        """What a worker would get; None when all is over."""
        commitment = self.commitment
        while not commitment.is_over:
            now_s = self.clock.now()
            waiting = commitment.schedule.take(now_s, commitment.opens_s)
            if isinstance(waiting, int):
                return commitment.hand_out(waiting, now_s)
            if waiting is not None:
                commitment.take(waiting)
                return waiting
            wait_s = commitment.schedule.next_s() - now_s
            await self.idle.wait(1.0 if wait_s == NEVER else max(wait_s, 0.001))
        return None


@pytest.fixture(params=KINDS)
def play(request):
    """Run ``act(scene)`` between the opening of a commitment and its end; returns the scene."""

    def run(act, files=5):
        async def main():
            scene = Scene(request.param, files)
            async with asyncio.TaskGroup() as group:
                await scene.commitment.open(SideTasks(group, scene.switch))
                await act(scene)
                await scene.commitment.close()
            scene.commitment.end()
            assert asyncio.all_tasks() == {asyncio.current_task()}
            assert len(scene.statuses) == len(scene.records), "an entry was ended twice"
            return scene

        return run_virtual(main())

    return run


def test_every_entry_is_handed_out_once_and_published(play):
    """All of them end as done, on a volume of the run, and only then is it over."""

    async def act(scene):
        while (transfer := await scene.next()) is not None:
            assert transfer.host == scene.entries.entry(transfer.index).url.host()
            assert scene.commitment.host_of(transfer.queue) == transfer.host
            assert await scene.commitment.find_standing(transfer) is None
            await scene.commitment.publish(transfer)
            scene.commitment.leave(transfer)

    scene = play(act)
    assert list(scene.statuses.values()) == ["done"] * 5
    assert sum(volume.done_files for volume in scene.volumes) == 5
    assert {record.volume for record in scene.records} <= {volume.name for volume in scene.volumes}


def test_what_is_in_place_is_skipped(play):
    """Nothing of it is published again."""

    async def act(scene):
        while (transfer := await scene.next()) is not None:
            scene.commitment.skip(transfer)
            scene.commitment.leave(transfer)

    scene = play(act)
    assert list(scene.statuses.values()) == ["skipped"] * 5
    assert {record.bytes for record in scene.records} == {4}
    assert not any(volume.done_files for volume in scene.volumes)


def test_what_cannot_be_had_fails_with_its_reason(play):
    """The run itself goes on."""

    async def act(scene):
        while (transfer := await scene.next()) is not None:
            scene.commitment.fail(transfer, Refused("404"))
            scene.commitment.leave(transfer)

    scene = play(act)
    assert {(record.status, record.error_kind) for record in scene.records} == {("failed", "refused")}
    assert len(scene.records) == 5
    assert scene.switch.fault is None


def test_what_was_put_back_comes_again_when_it_is_due(play):
    """As the same transfer, with all it knows; until then it waits, and nothing is over."""

    async def act(scene):
        first = await scene.next()
        scene.commitment.put_back(first, 7.0)
        scene.commitment.leave(first)
        assert not scene.commitment.is_over
        assert await scene.next() is first
        assert scene.clock.now() >= 7.0
        await scene.commitment.publish(first)
        scene.commitment.leave(first)

    assert list(play(act, files=1).statuses.values()) == ["done"]


def test_a_cancelled_worker_ends_its_entry_and_itself(play):
    """Nobody has moved the entry, so the cancellation is the run's."""

    async def act(scene):
        transfer = await scene.next()
        scene.switch.stop("the test says so")
        assert scene.commitment.interrupt(transfer) is False
        scene.commitment.leave(transfer)

    assert list(play(act, files=1).statuses.values()) == ["cancelled"]


def test_a_stop_ends_what_was_put_back(play):
    """It would have had another try; a later run begins where it is."""

    async def act(scene):
        transfer = await scene.next()
        scene.commitment.put_back(transfer, 100.0)
        scene.commitment.leave(transfer)
        scene.switch.stop("the test says so")

    assert list(play(act, files=1).statuses.values()) == ["cancelled"]


def test_a_fault_of_the_machine_is_raised_again(play):
    """No other volume would help: the entry has failed, and the worker ends the run."""
    fault = LocalFault("too many open files")

    async def act(scene):
        transfer = await scene.next()
        with pytest.raises(LocalFault) as raised:
            scene.commitment.fail_locally(transfer, fault)
        assert raised.value is fault
        scene.commitment.leave(transfer)
        scene.switch.fail(fault)

    scene = play(act, files=1)
    assert [(record.status, record.error) for record in scene.records] == [("failed", str(fault))]
    assert scene.switch.fault is fault


def test_a_fault_of_a_volume_is_raised_or_the_entry_comes_again(play):
    """Where there is another volume it begins anew there, as a new transfer; else it has failed."""

    async def act(scene):
        first = await scene.next()
        try:
            scene.commitment.fail_locally(first, VolumeFault("no"))
        except VolumeFault as fault:
            scene.commitment.leave(first)
            scene.switch.fail(fault)
            return
        scene.commitment.leave(first)
        second = await scene.next()
        assert second is not first
        assert second.index == first.index
        await scene.commitment.publish(second)
        scene.commitment.leave(second)

    scene = play(act, files=1)
    assert list(scene.statuses.values()) == ["done" if len(scene.volumes) > 1 else "failed"]
