"""When the feed server looks again: rings of the system, a net for lost ones, systems that cannot watch."""

import asyncio
import sys

import pytest

from cfetch.base.errors import UsageError
from cfetch.plugins.follow.server import scan_timer
from cfetch.plugins.follow.server.scan_timer import ScanTimer, _is_of_source
from tests.plugins.follow.server.test_process import Server, write


class Time:
    """Seconds that pass only when a test says so."""

    now_s = 0.0

    def __call__(self):
        return self.now_s


@pytest.fixture
def time():
    return Time()


@pytest.fixture
async def new_bell(time, monkeypatch):
    monkeypatch.setattr(scan_timer, "SAFETY_S", 3600.0)
    return ScanTimer(0.001, asyncio.Event(), time)


@pytest.fixture
async def bell(new_bell):
    """One that has been waited for: it waits for a ring from now on."""
    await new_bell.wait(is_sure=True)
    return new_bell


def begin(bell, **how):
    return asyncio.create_task(bell.wait(**({"is_sure": True} | how)))


async def test_a_change_ends_the_wait(bell, time, tmp_path):
    (tmp_path / "d").mkdir()
    async with bell.watch(tmp_path, print):
        time.now_s += 10
        waiting = begin(bell)
        while not waiting.done():  # the system may begin to watch a moment later
            (tmp_path / "d/file").write_text(f"{time.now_s}")
            await asyncio.wait([waiting], timeout=0.05)
        await waiting
    assert bell._rung_s == 10


async def test_after_a_change_scans_go_on_until_files_have_rested(bell, time, tmp_path):
    async with bell.watch(tmp_path, print):
        await asyncio.sleep(0)  # it watches from here on
        bell.ring()
        time.now_s += scan_timer.RESTING_S
        await begin(bell)
        time.now_s += 0.1
        waiting = begin(bell)
        bell.ring()
        await waiting


async def test_the_first_scan_is_followed_by_another(new_bell, time, tmp_path):
    """It may have met files that had not rested, and nobody rings for these again."""
    async with new_bell.watch(tmp_path, print):
        await asyncio.sleep(0)
        time.now_s += 100
        await begin(new_bell)


async def test_a_scan_that_failed_is_repeated_in_any_case(bell, time, tmp_path):
    async with bell.watch(tmp_path, print):
        time.now_s += 10
        await begin(bell, is_sure=False)


async def test_the_end_of_the_server_ends_the_wait(bell, time, tmp_path):
    async with bell.watch(tmp_path, print):
        time.now_s += 10
        waiting = begin(bell)
        bell._stop.set()
        await waiting


async def test_a_system_that_cannot_watch_is_scanned(bell, time, tmp_path, monkeypatch):
    lines: list[str] = []

    def refuse(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("watchfiles.awatch", refuse)
    async with bell.watch(tmp_path, lines.append):
        await asyncio.sleep(0)
        time.now_s += 10
        await begin(bell)
    assert lines == [f"cannot watch {tmp_path}: No space left on device; it is scanned every 0.001 s"]


async def test_without_the_library_it_is_said_what_to_install(bell, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "watchfiles", None)
    with pytest.raises(UsageError, match=r"cfetch\[watch\]"):
        async with bell.watch(tmp_path, print):
            pass


def test_the_servers_own_files_ring_nothing():
    """Else each change would be followed by a scan for the server's note of it."""
    assert _is_of_source(1, "/data/a") is True
    assert _is_of_source(1, "/data/.cfetch-feed/feed.sqlite") is False


async def test_a_real_server_that_watches(tmp_path):
    write(tmp_path, "a")
    async with Server(tmp_path, "--watch") as server:
        await server.has(1)
        write(tmp_path, "d/b")
        assert ("d/b", "upsert") in [row[1:] for rows in (await server.has(2)).values() for row in rows]
