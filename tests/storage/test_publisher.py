"""Publishing in groups: what is flushed before what, and what happens when the disk says no."""

import asyncio
from contextlib import nullcontext
from functools import partial
from itertools import groupby
from types import SimpleNamespace
from typing import Any

import pytest

from cfetch.base.errors import Blocked, LocalFault, VolumeFault
from cfetch.base.virtual_clock import VirtualClock, run_virtual
from cfetch.storage import publisher as module
from cfetch.storage.disk import INLINE, InlineDisk
from cfetch.storage.publisher import Publisher
from cfetch.storage.volume_values import BatchRecord


class Volume:
    """Notes each flush; ``fails`` are the numbers of the flushes that cannot be done."""

    def __init__(self, log, fails=()):
        self.log = log
        self.fails = fails
        self.flushes = 0

    def one_look(self):
        return nullcontext()

    def flush(self):
        self.flushes += 1
        self.log.append("flush")
        if self.flushes in self.fails:
            raise LocalFault("the disk is broken")


class Part:
    """A verified part that notes what is done with it."""

    is_joined = False

    def __init__(self, name, log, position=10, error=None, *, in_memory=False, full=False):
        self.name, self.log, self.position, self.error = name, log, position, error
        self.is_in_memory, self.full = in_memory, full

    def finish(self):
        if self.full:
            raise LocalFault("the disk is full")
        self.log.append(f"finish {self.name}")

    def publish(self):
        if self.error:
            raise self.error
        self.log.append(f"publish {self.name}")

    def discard(self):
        self.log.append(f"discard {self.name}")

    def unpublish(self):
        self.log.append(f"unpublish {self.name}")


def commit(steps, *, durable=True, fails=(), log=None, disk=INLINE):
    """Run ``steps(committer, part)``, drain, and tell in which order things happened."""
    log = [] if log is None else log

    async def main():
        volume: Any = Volume(log, fails)
        committer = Publisher(volume, durable=durable, disk=disk)
        task = asyncio.create_task(committer.run())

        def add(name, **how):
            part: Any = Part(name, log, **how)
            committer.add([part], lambda error: log.append(f"ended {name} {error}"))

        await steps(committer, add)
        committer.drain()
        await task

    run_virtual(main())
    return log


def record_of(batch):
    return BatchRecord(id=batch, name=None, instant="i", entries=1, files=1, bytes=1, why="first")


async def two(committer, add):
    add("a")
    add("b")


def test_c93_bytes_are_flushed_before_names_and_names_before_anybody_is_told():
    """No name is given to bytes that a power cut could take, and nothing vouches for a name that it could."""
    assert commit(two) == [
        "finish a",
        "finish b",
        "flush",
        "publish a",
        "publish b",
        "flush",
        "ended a None",
        "ended b None",
    ]


def test_files_in_memory_are_written_many_at_a_time():
    """Written one after the other they cost half; none waits for more of them than a group."""
    written = []

    async def steps(committer, add):
        for number in range(module.WRITTEN_FILES):
            written.append(len(committer._pending))
            add(str(number), in_memory=True)
        written.append(len(committer._pending))

    log = commit(steps)
    assert written == [*[0] * module.WRITTEN_FILES, module.WRITTEN_FILES]
    assert log.index("flush") == module.WRITTEN_FILES


def test_a_file_waits_in_memory_for_a_moment_only():
    """Where files come slowly, a kill must not lose all that came in the time of a group."""

    async def steps(committer, add):
        add("a", in_memory=True)
        await VirtualClock().sleep(1.5 * module.WRITTEN_S)
        assert log == ["finish a"]

    log: list[str] = []
    assert commit(steps, log=log)[1:2] == ["flush"]


def test_a_file_in_memory_is_written_before_the_flush_that_covers_it():
    """However few there are: the flush that comes first would not cover what is written later."""

    async def steps(committer, add):
        add("a", in_memory=True)

    assert commit(steps) == ["finish a", "flush", "publish a", "flush", "ended a None"]


def test_87_a_file_in_memory_for_which_there_is_no_room():
    """It is told, and the others of its group go on."""

    async def steps(committer, add):
        add("a", in_memory=True, full=True)
        add("b", in_memory=True)

    log = commit(steps)
    assert log[:3] == ["discard a", "ended a the disk is full", "finish b"]
    assert log[-1] == "ended b None"


def test_without_durability_names_are_given_at_once():
    """The death of the process alone loses nothing that was written."""
    assert commit(two, durable=False) == ["publish a", "ended a None", "publish b", "ended b None"]


def test_without_durability_files_in_memory_get_their_names_when_they_are_written():
    """Many at a time as well, and the rest when no more come; one that has an obstacle is told."""
    named = []

    async def steps(committer, add):
        add("taken", in_memory=True, error=Blocked("a directory stands in its place"))
        for number in range(module.WRITTEN_FILES - 1):
            named.append(len(log))
            add(str(number), in_memory=True)
        named.append(len(log))
        add("last", in_memory=True)
        await VirtualClock().sleep(2 * module.GROUP_S)
        assert log[-1] == "ended last None"

    log: list[str] = []
    commit(steps, durable=False, log=log)
    assert named == [*[0] * (module.WRITTEN_FILES - 1), 2 * module.WRITTEN_FILES]
    assert "ended taken a directory stands in its place" in log


def test_a_group_that_cannot_be_flushed_is_never_published():
    """What the disk could not take may read right today and wrong tomorrow; a second flush may lie."""
    log = commit(two, fails=[1])
    assert [step for step in log if step.startswith("publish")] == []
    fault = "the disk is broken"
    assert log[-4:] == ["discard a", "discard b", f"ended a {fault}", f"ended b {fault}"]
    assert log.count("flush") == 1


def test_others_have_the_loop_between_the_names_of_a_group(monkeypatch):
    """Else a thousand names would hold up every download for tens of milliseconds."""
    monkeypatch.setattr(module, "NAMED_FILES", 2)

    class Log(list[str]):
        def append(self, line):
            super().append(line)
            if line.startswith(("publish", "ended")):
                asyncio.get_running_loop().call_soon(super().append, "others")

    async def steps(committer, add):
        for name in "abcde":
            add(name)

    log = commit(steps, log=Log())
    work = [line.startswith(("publish", "ended")) for line in log if not line.startswith("fl")]
    assert [len(list(lines)) for is_work, lines in groupby(work) if is_work] == [2, 2, 1] * 2


def test_a_volume_that_fails_amid_a_group_keeps_none_of_its_names(monkeypatch):
    """Those that were given before are taken back."""
    monkeypatch.setattr(module, "NAMED_FILES", 1)

    class Failing(InlineDisk):
        calls = 0

        async def call(self, step, undo=None):
            self.calls += 1
            if self.calls == 2:
                raise VolumeFault("it does not answer")
            return step()

    log = commit(two, disk=Failing())
    assert log.index("unpublish a") < log.index("discard a")
    assert [line for line in log if line.startswith(("publish", "ended"))] == [
        "publish a",
        "ended a it does not answer",
        "ended b it does not answer",
    ]


def test_c91_a_flush_of_names_may_fail_too():
    """Then nobody is told that the files are done, although each has its name; no second flush is tried."""
    log = commit(two, fails=[2])
    assert log[-3:] == ["flush", "ended a the disk is broken", "ended b the disk is broken"]
    assert log.count("flush") == 2


def test_a_place_that_is_taken_is_told_and_the_others_go_on():
    """One obstacle is no reason to keep the group back."""

    async def steps(committer, add):
        add("a", error=Blocked("a directory stands in its place"))
        add("b")

    log = commit(steps)
    assert "ended a a directory stands in its place" in log
    assert "discard a" in log
    assert "ended b None" in log


def test_many_files_cost_few_flushes():
    """Files that end within one group's time share a flush."""

    async def steps(committer, add):
        for number in range(100):
            add(str(number))
            await VirtualClock().sleep(0.01)

    assert commit(steps).count("flush") <= 1.0 / module.GROUP_S + 3


@pytest.mark.parametrize(("files", "position"), [(module.GROUP_FILES, 10), (1, module.MAX_PENDING_BYTES)])
def test_a_full_group_does_not_wait_for_more(files, position):
    """Files that come faster than groups are timed are flushed at once."""
    took_s = []

    async def steps(committer, add):
        clock = VirtualClock()
        for number in range(files):
            add(str(number), position=position)
        await committer.wait_for_room()
        while committer._pending:
            await clock.sleep(0.001)
        took_s.append(clock.monotonic())

    commit(steps)
    assert took_s[0] < module.GROUP_S / 2


def test_a_batch_waits_for_nothing():
    """Its record comes after two flushes, without the time for which a file waits for others."""
    log: list[str] = []
    took_s = []

    async def main():
        volume: Any = Volume(log)
        volume.records = SimpleNamespace(put=lambda name, text: log.append(f"record {name}"))
        publisher = Publisher(volume, durable=True)
        task = asyncio.create_task(publisher.run())
        part: Any = Part("a", log)
        for _ in range(2):  # the second one too
            ended, begun_s = asyncio.Event(), VirtualClock().monotonic()
            publisher.add([part], partial(note_end, ended), record_of("b"))
            await ended.wait()
            took_s.append(VirtualClock().monotonic() - begun_s)
        publisher.drain()
        await task

    def note_end(ended, error):
        assert error is None
        ended.set()

    run_virtual(main())
    assert log[:5] == ["finish a", "flush", "publish a", "flush", "record b"]
    assert max(took_s) < module.GROUP_S / 10


@pytest.mark.parametrize("position", [10, module.MAX_PENDING_BYTES])
def test_too_much_pending_makes_workers_wait(position):
    """By number and by bytes; the flush lets them go on."""
    order = []

    async def steps(committer, add):
        for number in range(module.MAX_PENDING_FILES if position == 10 else 1):
            add(str(number), position=position)
        order.append(len(committer._pending) > 0)
        await committer.wait_for_room()
        order.append(len(committer._pending) == 0)

    log = commit(steps)
    assert order == [True, True]
    assert log.count("flush") == 2
