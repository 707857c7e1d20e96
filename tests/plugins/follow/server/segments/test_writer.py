"""The writer of segments: whatever step it dies at, readers have a whole feed and the next writer goes on."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cfetch.base.errors import Held, LocalFault, UsageError
from cfetch.plugins.follow.ranges import ALL_KEYS, Position
from cfetch.plugins.follow.server.segments.disk import SegmentDisk
from cfetch.plugins.follow.server.segments.files import DirectoryFiles
from cfetch.plugins.follow.server.segments.source import SegmentSource
from cfetch.plugins.follow.server.segments.writer import SKIPPED_LSNS, SegmentWriter
from cfetch.plugins.follow.source import NotModified, Page
from cfetch.testing.feed import cover, listed, span

BASE = "https://files.example/"


class Dead(BaseException):
    """The process ends here."""


class DyingDisk(SegmentDisk):
    """Dies before its ``at``-th step, or in the middle of it if that is a write."""

    def __init__(self, at, half=False):
        self.left, self.half = at, half

    def _step(self):
        self.left -= 1
        if self.left < 0:
            raise Dead

    def write(self, descriptor, data):
        if self.left == 0 and self.half:
            os.write(descriptor, data[: len(data) // 2])
        self._step()
        return super().write(descriptor, data)

    def sync(self, descriptor):
        self._step()
        super().sync(descriptor)

    def rename(self, old, new):
        self._step()
        super().rename(old, new)

    def sync_names(self, directory):
        self._step()
        super().sync_names(directory)

    def remove(self, path):
        self._step()
        super().remove(path)


def writer(root, **options):
    return SegmentWriter(root, base_url=BASE, roll_bytes=300, **options)


def row(name):
    return {"path": name, "url": "x"}


async def everything(root):
    """All changes that can be read: (range, LSN) to path, or to -path for a delete."""
    source = SegmentSource(DirectoryFiles(root))
    found = await listed(source)
    cover(found)
    seen: dict[tuple[str, int], str] = {}
    for live in found.ranges:
        for of in sorted({*live.ancestors, live.id}, key=int):
            owned = await span(source, of, live.id)
            next_lsn = 0
            while owned.last is None or next_lsn <= owned.last:
                page = await source.read(live.id, Position(of, next_lsn), live.keys, 3)
                if page == NotModified():
                    assert owned.last is None
                    break
                assert isinstance(page, Page)
                assert page.next_lsn > next_lsn or not next_lsn
                for change in page.changes:
                    assert (of, change.lsn) not in seen
                    seen[of, change.lsn] = change.path if change.entry else f"-{change.path}"
                next_lsn = page.next_lsn
    return seen


def work(root, disk, done):
    """All that a writer does. ``done`` gets what has been told to be on disk."""
    one = writer(root, disk=disk, new_id=lambda: "feed")
    try:
        for number in range(3):
            one.append([row(f"a{number}"), row(f"b{number}")])
            done += [f"a{number}", f"b{number}"]
        low, high = one.split("0")
        one.append([row(f"c{number}") for number in range(8)])
        done += [f"c{number}" for number in range(8)]
        one.roll()
        merged = one.merge(low, high)
        one.delete(["a0"])
        done += ["-a0"]
        one.split(merged)
        one.append([row("d")])
        done += ["d"]
    finally:
        one.close()


def count_of_steps(root):
    disk = DyingDisk(10**9)
    work(root, disk, [])
    return 10**9 - disk.left


@pytest.mark.parametrize("half", [False, True], ids=["before", "within"])
async def test_a_writer_that_dies_at_any_step_leaves_a_whole_feed(tmp_path, half):
    """What it had told is there, once; nothing that it had not begun is; and the next writer goes on."""
    steps = count_of_steps(tmp_path / "whole")
    assert steps > 70
    for at in range(steps):
        root = tmp_path / str(at)
        done: list[str] = []
        with contextlib.suppress(Dead):
            work(root, DyingDisk(at, half), done)
        if not (root / "index.json").exists():
            assert done == []
        else:
            seen = await everything(root)
            told = sorted(seen.values())
            assert [path for path in told if path in done] == sorted(done)
            assert len(told) <= len(done) + 8
        with writer(root) as after:
            after.append([row("after")])
        again = await everything(root)
        if done:
            assert {key: again.get(key) for key in seen} == seen, "what was seen is there, under its LSN"
        assert [path for path in again.values() if path == "after"] == ["after"]
        shutil.rmtree(root)


async def test_retiring_can_be_broken_off_at_any_step(tmp_path):
    def prepared(root):
        with writer(root) as one:
            for number in range(8):
                one.append([row(str(number))])
                one.roll()

    prepared(tmp_path / "whole")
    for at in range(12):
        root = tmp_path / str(at)
        prepared(root)
        one = writer(root, disk=DyingDisk(at))
        with contextlib.suppress(Dead):
            one.retire(time.time() + 60)
        seen = await everything(root)
        assert len(seen) in (0, 8)
        one.close()
        writer(root).close()
        assert len(list(root.glob("segments/*/*"))) == len(seen)


async def test_a_writer_that_was_closed_goes_on_in_the_same_segment(tmp_path):
    for name in "ab":
        with writer(tmp_path) as one:
            one.append([row(name)])
    assert await everything(tmp_path) == {("0", 1): "a", ("0", 2): "b"}
    assert [path.name for path in tmp_path.glob("segments/0/*")] == ["1.jsonl"]


async def test_after_a_writer_that_was_not_closed_no_lsn_is_given_twice(tmp_path):
    """Its last lines may have been seen by a reader, and lost with the machine's power."""
    one = writer(tmp_path)
    one.append([row("a")])
    one.append([row("seen, then lost")])
    os.close(one._lock)
    file = tmp_path / "segments/0/1.jsonl"
    file.write_bytes(file.read_bytes().split(b"\n")[0] + b'\n{"lsn":2,"op')
    for _ in range(2):  # these die too, before they have written
        two = writer(tmp_path)
        os.close(two._lock)
    with writer(tmp_path) as three:
        three.append([row("c")])
    seen = await everything(tmp_path)
    assert sorted(seen.values()) == ["a", "c"]
    assert min(lsn for _, lsn in seen if lsn > 1) >= 2 + SKIPPED_LSNS


async def test_nor_after_one_that_went_on_where_another_was_closed(tmp_path):
    """The power failure takes back all that it wrote, and the length is again what the closed one had."""
    with writer(tmp_path) as one:
        one.append([row("a")])
    file = tmp_path / "segments/0/1.jsonl"
    before = file.read_bytes()
    two = writer(tmp_path)
    two.append([row("seen, then lost")])
    os.close(two._lock)
    file.write_bytes(before)
    with writer(tmp_path) as three:
        three.append([row("b")])
    assert [lsn for (_, lsn), path in (await everything(tmp_path)).items() if path == "b"] > [SKIPPED_LSNS]


def test_one_writer_at_a_time(tmp_path):
    with writer(tmp_path), pytest.raises(Held, match="another process"):
        writer(tmp_path)
    writer(tmp_path).close()


def test_faulty_rows_publish_nothing(tmp_path):
    with writer(tmp_path) as one:
        for bad in ({"path": "../x", "url": "x"}, {"path": "a"}, {"path": "a", "url": "x", "lsn": "1"}):
            with pytest.raises(UsageError, match="nothing was published"):
                one.append([row("good"), bad])
        with pytest.raises(UsageError, match="bytes"):
            one.append([{**row("long"), "headers": {"X-A": "a" * (1 << 20)}}])
    assert not list(tmp_path.glob("segments/*/*"))


def test_what_cannot_be_split_or_merged(tmp_path):
    with writer(tmp_path) as one:
        with pytest.raises(UsageError, match="live are 0"):
            one.split("7")
        for at in (0, ALL_KEYS.high):
            with pytest.raises(UsageError, match="need a key"):
                one.split("0", at)
        low, high = one.split("0")
        _, higher = one.split(high)
        with pytest.raises(UsageError, match="not neighbours"):
            one.merge(low, higher)
        with pytest.raises(UsageError, match="no live range"):
            one.merge(low, "0")


def test_after_a_fault_the_writer_writes_nothing_more(tmp_path):
    """Also not the index when it is closed: nobody knows which one stands on the disk."""

    class FullDisk(DyingDisk):
        def _step(self):
            self.left -= 1
            if self.left == 0:
                raise OSError(28, "No space left on device")

    disk = FullDisk(10**9)
    one = writer(tmp_path, disk=disk)
    one.append([row("a")])
    disk.left = 4  # of the new index: written, flushed, renamed, and then the directory is not flushed
    with pytest.raises(LocalFault, match="No space left"):
        one.split("0")
    index = (tmp_path / "index.json").read_bytes()
    with pytest.raises(LocalFault, match="failed before"):
        one.append([row("b")])
    one.close()
    assert (tmp_path / "index.json").read_bytes() == index
    with writer(tmp_path) as two:
        assert len(two.ranges()) == 2


def test_a_directory_of_segments_without_an_index_is_left_alone(tmp_path):
    with writer(tmp_path) as one:
        one.append([row("a")])
    (tmp_path / "index.json").unlink()
    with pytest.raises(UsageError, match=r"no index\.json"):
        writer(tmp_path)
    assert list(tmp_path.glob("segments/*/*"))


KILLED = """
import sys, pathlib
from cfetch.plugins.follow.server.segments.writer import SegmentWriter
root, first = pathlib.Path(sys.argv[1]), int(sys.argv[2])
writer = SegmentWriter(root, base_url="https://x.example/", roll_bytes=500)
for number in range(first, 10**6):
    writer.append([{"path": f"{number}.{part}", "url": "x"} for part in range(5)])
    print(number, flush=True)
    if number % 3 == 0:
        live = writer.ranges()
        if len(live) < 4:
            writer.split(live[number % len(live)].id)
        else:
            writer.merge(live[0].id, live[1].id)
"""


async def test_a_writer_that_is_killed_again_and_again(tmp_path):
    """SIGKILL at whatever it is doing: all that it had told is there, once and in order for each path."""
    told = -1
    seen: dict[tuple[str, int], str] = {}
    for rounds in range(12):
        process = subprocess.Popen(
            [sys.executable, "-c", KILLED, str(tmp_path), str(told + 1)], stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        for _ in range(3 + rounds % 4):
            assert process.stdout.readline()
        process.send_signal(signal.SIGKILL)
        rest = process.stdout.read().split()
        process.wait()
        process.stdout.close()
        before, seen = seen, await everything(tmp_path)
        assert {key: seen[key] for key in before} == before
        told = max(int(path.partition(".")[0]) for path in seen.values())
        assert not rest or int(rest[-1]) <= told
        parts = [path for path in seen.values() if int(path.partition(".")[0]) < told]
        assert sorted(set(parts)) == sorted(parts), "once"
        assert len(parts) >= 5 * (told - rounds - 1)


def test_the_example_of_the_documentation(tmp_path):
    text = (Path(__file__).parents[5] / "docs/feed-segments.md").read_text()
    code = text.split("```python\n")[1].split("```")[0]
    exec(compile(code, "docs", "exec"), {"ROOT": tmp_path})
    assert (tmp_path / "index.json").exists()
