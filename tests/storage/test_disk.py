"""``GuardedDisk`` on its own: steps in order, and what is true when one of them does not come back."""

import asyncio
import threading
import time
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from cfetch.base.errors import VolumeFault
from cfetch.storage.directory import Directory
from cfetch.storage.directory_volume import DirectoryVolume
from cfetch.storage.guarded_disk import MOST_UNWRITTEN_BYTES, GuardedDisk
from cfetch.storage.part import Part
from tests.engine.drive import entry_of

SOON_S = 60


class Hanging:
    """A step that does not come back before it is let go."""

    def __init__(self, answer="late"):
        self.begun = threading.Event()
        self.let_go = threading.Event()
        self._answer = answer

    def __call__(self):
        self.begun.set()
        assert self.let_go.wait(SOON_S)
        return self._answer


@asynccontextmanager
async def a_disk(*hanging):
    """Closed in the end, when what hangs was let go."""
    disk = GuardedDisk("v", time.monotonic)
    try:
        yield disk
    finally:
        for one in hanging:
            one.let_go.set()
        await asyncio.wait_for(disk.close(), SOON_S)
        await asyncio.to_thread(disk._thread.join, SOON_S)
        assert not disk._thread.is_alive()


async def until(true):
    async with asyncio.timeout(SOON_S):
        while not true():
            await asyncio.sleep(0.001)


async def begun(hanging):
    await until(hanging.begun.is_set)


async def test_steps_are_carried_out_in_the_order_in_which_they_were_asked_for():
    """Of every kind, in one thread that is not the loop's."""
    seen: list[tuple[str, str]] = []

    def step(name):
        seen.append((name, threading.current_thread().name))
        return name

    async with a_disk() as disk:
        disk.do(step, "a")
        disk.tidy(lambda: step("b"))
        first = asyncio.ensure_future(disk.call(lambda: step("c")))
        second = asyncio.ensure_future(disk.long(lambda: step("d")))
        await asyncio.sleep(0)
        disk.do(step, "e")
        assert await disk.call(lambda: step("f")) == "f"
        assert [await first, await second] == ["c", "d"]
    assert seen == [(name, "volume v") for name in "abcdef"]


async def test_what_takes_long_goes_beside():
    """Others do not wait for it; an error is the caller's."""
    hanging = Hanging("flushed")
    async with a_disk(hanging) as disk:
        beside = asyncio.ensure_future(disk.beside(hanging))
        await begun(hanging)
        assert await disk.call(lambda: 1) == 1
        hanging.let_go.set()
        assert await beside == "flushed"
        with pytest.raises(ZeroDivisionError):
            await disk.call(lambda: 1 // 0)
        with pytest.raises(ZeroDivisionError):
            await disk.beside(lambda: 1 // 0)
        assert await disk.call(lambda: 2) == 2


async def test_a_step_that_nobody_waits_for_tells_its_bug_to_the_next():
    """Steps keep their own errors; what escapes one is a bug, and is not passed over."""
    async with a_disk() as disk:
        disk.do(lambda: 1 // 0)
        await disk.call(lambda: None)
        with pytest.raises(ZeroDivisionError):
            disk.do(lambda: None)


async def test_whoever_has_too_much_waits():
    """Until the thread has written enough of it."""
    hanging = Hanging()
    written: list[int] = []
    async with a_disk(hanging) as disk:
        disk.do(hanging, size_bytes=1)
        disk.do(written.append, 1, size_bytes=MOST_UNWRITTEN_BYTES)
        assert disk.must_wait
        waiting = asyncio.ensure_future(disk.wait_for_room())
        await begun(hanging)
        await asyncio.sleep(0)
        assert not waiting.done()
        hanging.let_go.set()
        await asyncio.wait_for(waiting, SOON_S)
        assert not disk.must_wait
        await disk.wait_for_room()
        await disk.call(lambda: None)
    assert written == [1]


async def test_a_step_that_hangs_is_seen():
    """By how long it has not come back, in the thread or beside it."""
    hanging, other = Hanging(), Hanging()
    async with a_disk(hanging, other) as disk:
        assert disk.oldest_s(time.monotonic() + 5) == 0.0
        disk.do(hanging)
        await begun(hanging)
        assert disk.oldest_s(time.monotonic() + 5) >= 5
        hanging.let_go.set()
        await disk.call(lambda: None)
        await until(lambda: disk.oldest_s(time.monotonic() + 5) == 0.0)
        beside = asyncio.ensure_future(disk.beside(other))
        await begun(other)
        assert disk.oldest_s(time.monotonic() + 5) >= 5
        other.let_go.set()
        await beside


async def test_what_was_abandoned_fails_at_once_and_is_undone_when_it_comes_back():
    """Steps behind it are dropped, but for those that tidy up; what is asked for later is carried out."""
    hanging = Hanging("late")
    undone: list[str] = []
    seen: list[str] = []
    async with a_disk(hanging) as disk:
        first = asyncio.ensure_future(disk.call(hanging, undone.append))
        await begun(hanging)
        second = asyncio.ensure_future(disk.call(lambda: seen.append("call"), undone.append))
        await asyncio.sleep(0)
        disk.do(seen.append, "do")
        disk.tidy(lambda: seen.append("tidy"))
        old = disk.line
        disk.abandon("v is gone")
        for one in (first, second):
            with pytest.raises(VolumeFault, match="v is gone"):
                await asyncio.wait_for(one, SOON_S)
        assert str(old.fault) == "v is gone"
        assert disk.line.fault is None
        assert disk.is_stuck
        disk.do(seen.append, "new")
        assert (seen, undone) == ([], [])
        hanging.let_go.set()
        await disk.call(lambda: None)
        assert not disk.is_stuck
    assert (seen, undone) == (["tidy", "new"], ["late"])


@pytest.mark.parametrize("stands", [True, False])
async def test_a_file_that_is_opened_too_late_is_closed(tmp_path, monkeypatch, stands):
    """The disk was abandoned in between: nobody reads the file, and a run may meet that a thousand times."""
    volume = Directory(tmp_path, "attempts/i/0")
    entry = entry_of(0, "a", b"abc", digest=True)
    (tmp_path / "a").write_bytes(b"abc")
    real, hanging = volume.open_existing, Hanging()
    opened: list[int | None] = []

    def open_late(path):
        hanging()
        if not stands:
            (tmp_path / "a").unlink()
        opened.append(real(path))
        return opened[-1]

    monkeypatch.setattr(volume, "open_existing", open_late)
    async with a_disk(hanging) as disk:
        verifying = asyncio.ensure_future(
            DirectoryVolume(volume, durable=False, disk=disk).verify_existing(entry)
        )
        await begun(hanging)
        disk.abandon("v is gone")
        with pytest.raises(VolumeFault, match="v is gone"):
            await asyncio.wait_for(verifying, SOON_S)
        hanging.let_go.set()
        await asyncio.wait_for(disk.call(lambda: None), SOON_S)
        assert [descriptor is not None for descriptor in opened] == [stands]
        files = {str(link.resolve()) for link in Path("/proc/self/fd").iterdir()}
        assert str(tmp_path / "a") not in files
    volume.close()


async def test_what_was_abandoned_beside_the_others():
    """A flush that hangs counts as stuck until it comes back; a late error is nobody's."""
    hanging = Hanging()

    def fails():
        hanging()
        raise OSError("late")

    async with a_disk(hanging) as disk:
        beside = asyncio.ensure_future(disk.beside(fails))
        await begun(hanging)
        disk.abandon("v is gone")
        with pytest.raises(VolumeFault):
            await beside
        assert disk.is_stuck
        assert await disk.call(lambda: 1) == 1
        hanging.let_go.set()
        await until(lambda: not disk.is_stuck)


async def test_who_waits_for_room_is_told_that_the_volume_was_left():
    """And nothing counts as unwritten any more."""
    hanging = Hanging()
    async with a_disk(hanging) as disk:
        disk.do(hanging, size_bytes=MOST_UNWRITTEN_BYTES + 1)
        await begun(hanging)
        waiting = asyncio.ensure_future(disk.wait_for_room())
        await asyncio.sleep(0)
        disk.abandon("v is gone")
        with pytest.raises(VolumeFault, match="v is gone"):
            await waiting
        assert not disk.must_wait
        hanging.let_go.set()
        await disk.call(lambda: None)
        assert not disk.must_wait
        disk.do(lambda: None, size_bytes=MOST_UNWRITTEN_BYTES)
        assert not disk.must_wait


async def test_a_cancellation_waits_for_the_step():
    """It cannot be called back, so whoever is cancelled goes on only when it is over."""
    hanging = Hanging()
    async with a_disk(hanging) as disk:
        task = asyncio.ensure_future(disk.call(hanging))
        await begun(hanging)
        task.cancel()
        done, _ = await asyncio.wait([task], timeout=0.05)
        assert not done
        task.cancel()
        hanging.let_go.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await disk.call(lambda: 1) == 1


async def test_a_cancelled_call_that_is_abandoned_is_over_at_once():
    """The volume has failed and the run has stopped: both come together."""
    hanging = Hanging()
    undone: list[str] = []
    async with a_disk(hanging) as disk:
        task = asyncio.ensure_future(disk.call(hanging, undone.append))
        await begun(hanging)
        task.cancel()
        await asyncio.sleep(0)
        disk.abandon("v is gone")
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(task, SOON_S)
        hanging.let_go.set()
        await disk.call(lambda: None)
    assert undone == ["late"]


async def test_no_part_is_published_once_its_disk_was_left(tmp_path):
    """Its batch is on the way elsewhere; of one that is just being published the rest stays unnamed."""
    volume = Directory(tmp_path, "attempts/i/0")
    async with a_disk() as disk:
        part = Part(volume, entry_of(0, "a", b"abc"), disk)
        part.write(b"abc")
        part.finish()
        await disk.call(lambda: None)
        disk.abandon("v is gone")
        with pytest.raises(VolumeFault, match="v is gone"):
            part.publish()
        part.discard()
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
    volume.close()


@pytest.mark.parametrize("was_abandoned", [True, False])
async def test_closing_does_not_wait_for_a_disk_that_hangs(was_abandoned):
    """Whether it was abandoned before, or hangs only now."""
    hanging = Hanging()
    disk = GuardedDisk("v", time.monotonic, longest_end_s=SOON_S if was_abandoned else 0.01)
    disk.do(hanging)
    await begun(hanging)
    if was_abandoned:
        disk.abandon("v is gone")
    await disk.close()
    assert disk.is_stuck
    hanging.let_go.set()
    await asyncio.to_thread(disk._thread.join, SOON_S)
    assert not disk._thread.is_alive()


async def test_closing_waits_for_what_was_asked_for():
    """All of it is done when the run ends."""
    seen: list[Any] = []
    disk = GuardedDisk("v", time.monotonic)
    for n in range(100):
        disk.do(seen.append, n)
    disk.tidy(lambda: seen.append("tidy"))
    await disk.close()
    assert seen == [*range(100), "tidy"]
    await asyncio.to_thread(disk._thread.join, SOON_S)


async def test_an_answer_for_a_loop_that_is_closed():
    """A call comes back after the run: nobody is told, and the thread ends."""
    hanging = Hanging()
    made = []

    def run():
        async def main():
            disk = GuardedDisk("v", time.monotonic)
            made.append(disk)
            task = asyncio.ensure_future(disk.call(hanging))
            await begun(hanging)
            disk.abandon("v is gone")
            with pytest.raises(VolumeFault):
                await task
            disk.do(lambda: None, size_bytes=1)
            await disk.close()

        asyncio.run(main())

    await asyncio.to_thread(run)
    hanging.let_go.set()
    await asyncio.to_thread(made[0]._thread.join, SOON_S)
    assert not made[0]._thread.is_alive()


async def test_a_glance_is_not_waited_for_when_its_caller_is_cancelled():
    """A run that ends would hang with a disk that is only asked for its free space."""
    hanging = Hanging()
    async with a_disk(hanging) as disk:
        asking = asyncio.create_task(disk.glance(hanging))
        await begun(hanging)
        asking.cancel()
        await asyncio.wait([asking], timeout=SOON_S)
        assert asking.cancelled()
