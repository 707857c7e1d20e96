"""Volumes that do not answer: a system call of their threads is held, or fails, while the program runs."""

import asyncio
import json
import signal
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path

import pytest

from cfetch.plugins.lab.bench.origin import Origin
from cfetch.storage.guarded_disk import LONGEST_END_S
from tests.gate import Gate
from tests.volumes.hold import held
from tests.volumes.scene import KIB, Scene, named

PROMPT_S = 60  # of a run of seconds, where a call would be held for ever
RENAMES = ("rename", "renameat")


@asynccontextmanager
async def running(tmp_path, *, batches=12, gate=None, **how):
    """A child that writes to all of its volumes, and their threads.

    ``gate``: of each file only the beginning comes before there is such a file.
    """
    files = named(batches, 4, 40 * KIB)
    paced, held_back = Origin(files, pace_bps=80.0 * KIB), Gate(files, gate, head_bytes=KIB)
    async with paced if gate is None else held_back.open() as origin:
        scene = Scene(tmp_path, origin.url, files, **how.pop("scene", {}))
        told = tmp_path / "threads"
        words = scene.words(*how.pop("words", ("--write-timeout", "1s")))
        words[1:3] = ["-m", "tests.volumes.child", str(told)]
        child = await scene.begun(words)
        try:
            while not all(list(root.glob(".cfetch/attempts/*/1/h*")) for root in scene.to):
                assert child.returncode is None, await child.communicate()
                await asyncio.sleep(0.01)
            threads: dict[str, int] = {}
            while not all(str(root) in threads for root in scene.to):  # the child tells of them now and then
                await asyncio.sleep(0.01)
                threads = json.loads(told.read_text()) if told.exists() else {}
            yield scene, child, [threads[str(root)] for root in scene.to], origin
        finally:
            if child.returncode is None:
                child.kill()
                await child.wait()


async def end_of(scene, child):
    """Exit code, summary and words of a child that has to end although a call of its is held."""
    code, out, said = await asyncio.wait_for(scene.ended(child), PROMPT_S)
    return code, json.loads(out), said


def state_of(scene):
    return scene.faults(), scene.missing(), scene.debris()


@pytest.mark.parametrize(
    ("at", "calls", "names"),
    [
        (0, ("write",), True),
        (1, RENAMES, False),
        pytest.param(1, ("write",), False, marks=pytest.mark.slow),
        pytest.param(0, RENAMES, True, marks=pytest.mark.slow),
    ],
)
async def test_a_volume_that_hangs_is_left(tmp_path, holding, at, calls, names):
    """Its batches go to the others, the run ends well and at once, and a later run finds nothing to do."""
    how = {"scene": {"names": names}, "words": ("--write-timeout", "1s", "--batch-share", "0.1")}
    async with running(tmp_path, **how) as (scene, child, threads, origin):
        with held(threads[at], *calls) as hold:
            code, told, said = await end_of(scene, child)
            assert hold.caught.is_set()
        assert (code, told["status"], state_of(scene)) == (0, "completed", ([], [], []))
        why = f"{scene.to[at]} has not answered for 1 s; see whether it is still there"
        assert told["volumes"][at]["out_of_use"] == why
        assert f"{scene.to[at]}: out of use for 0.5s: {why}" in said
        asked = len(origin.requests)
        again = await scene.run(batch_share=0.1)
        assert (again.code, set(again.statuses().values()), len(origin.requests)) == (0, {"skipped"}, asked)


@pytest.mark.parametrize("calls", [pytest.param(("write",), marks=pytest.mark.slow), RENAMES])
async def test_what_comes_late_is_undone(tmp_path, holding, calls):
    """The call comes back when its batch is elsewhere; the volume is used again after the pause."""
    # three batches each half second, so that most of them begin when the call has come back
    words = ("--write-timeout", "1s", "--concurrency", "12", "--max-concurrency", "12")
    async with running(tmp_path, batches=36, words=words) as (scene, child, threads, _):
        with held(threads[1], *calls) as hold:
            said = b""
            while b"has not answered" not in said:
                said += await asyncio.wait_for(child.stderr.readline(), PROMPT_S)
            assert hold.caught.is_set()
            hold.release()
        code, told, _ = await end_of(scene, child)
    assert (code, state_of(scene)) == (0, ([], [], []))
    assert told["volumes"][1]["batches"] > 0
    assert told["bytes"]["wasted"] > 0


async def test_all_volumes_hang(tmp_path, holding):
    """Exit 3 after the deadline, with what is known of each; the next run fetches only what it must."""
    words = ("--write-timeout", "1s", "--placement-deadline", "2s")
    async with running(tmp_path, words=words) as (scene, child, threads, _):
        with ExitStack() as stack:
            holds = [stack.enter_context(held(thread, "write")) for thread in threads]
            code, told, _ = await end_of(scene, child)
            assert all(hold.caught.is_set() for hold in holds)
        assert (code, told["files"]["done"]) == (3, 0)
        message = told["failures"][0]["message"]
        assert all(f"{root}: {root} has not answered for 1 s" in message for root in scene.to)
        assert scene.faults() == []
        again = await scene.run()
        assert (again.code, state_of(scene)) == (0, ([], [], []))


async def test_an_interruption_while_a_volume_hangs(tmp_path, holding):
    """What can be closed is closed; the volume is not waited for longer than for any other write."""
    async with running(tmp_path, batches=30) as (scene, child, threads, _):
        with held(threads[1], "write") as hold:
            while not hold.caught.is_set():
                assert child.returncode is None, await child.communicate()
                await asyncio.sleep(0.01)
            child.send_signal(signal.SIGINT)
            async with asyncio.timeout(LONGEST_END_S * 0.8):
                code, told, _ = await end_of(scene, child)
        assert (code, told["status"], scene.faults()) == (130, "interrupted", [])
        again = await scene.run()
        assert (again.code, state_of(scene)) == (0, ([], [], []))


@pytest.mark.parametrize("call", ["write", "renameat"])
async def test_a_disk_with_errors(tmp_path, strace, call):
    """EIO for one volume, from the middle of the run on."""
    async with running(tmp_path, gate=tmp_path / "traced") as (scene, child, threads, _):
        options = ["-qq", "-o", str(tmp_path / "trace"), f"-etrace={call}", f"-einject={call}:error=EIO"]
        tracer = await scene.begun(["strace", *options, "-p", str(threads[1])])
        while "TracerPid:\t0\n" in Path(f"/proc/{threads[1]}/status").read_text():
            assert tracer.returncode is None, await tracer.communicate()
            await asyncio.sleep(0.01)
        (tmp_path / "traced").touch()
        code, told, said = await end_of(scene, child)
        await tracer.communicate()
    assert "INJECTED" in (tmp_path / "trace").read_text()
    assert (code, state_of(scene)) == (0, ([], [], []))
    assert "Input/output error (the disk reports an error; see the system's log)" in said
    assert told["volumes"][1]["out_of_use"] is not None
