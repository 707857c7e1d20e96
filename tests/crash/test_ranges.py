"""kill -9 while several streams write one part: at every call, and what the next run makes of it."""

import json
import random
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from typing import Any

import pytest

from cfetch.plugins.lab.bench.content import Synthetic
from cfetch.plugins.lab.bench.faults import Fault
from cfetch.storage.directory import Directory
from cfetch.storage.part import Part
from cfetch.storage.resume import read_note, useful_parts
from cfetch.storage.salvage import Salvage
from tests.crash.part_child import DATA
from tests.crash.process import command, ended, started
from tests.crash.scene import MIB, PROJECT, Job, Scene, serving
from tests.engine.drive import entry_of, tree

KILLED = 137


@pytest.fixture
def write_until_killed():
    """Write the part, killed at a call; whether it came so far."""
    command = [sys.executable, "-m", "tests.crash.part_child"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=PROJECT, text=True, bufsize=1, stdin=pipe, stdout=pipe) as child:
        answers = child.stdout
        assert answers is not None

        def write(root, n):
            print(json.dumps([str(root), n]), file=child.stdin)
            return json.loads(answers.readline())

        yield write


async def go_on(root):
    """What the next run does: the bytes that it finds, all of them right, and those that it has to bring."""
    attempts = root / ".cfetch/attempts/i"
    kept = attempts / "1-0"
    if (attempts / "0").exists():
        kept.mkdir()
        for name in useful_parts(path.name for path in (attempts / "0").iterdir()):
            (attempts / "0" / name).rename(kept / name)
        for path in (attempts / "0").iterdir():
            path.unlink()
    volume = Directory(root, "attempts/i/1")
    entry = entry_of(0, "a", DATA)
    part = Part(volume, entry)
    if volume.existing(entry.path) == len(DATA):
        Salvage(volume).remove_leftovers(entry)
        volume.close()
        return len(DATA)
    await Salvage(volume).adopt_leftover(entry, part)
    found = part.position
    while part.ranges is not None and (segment := part.ranges.take_first()) is not None:
        part.segment = segment
        part.write(DATA[segment.position : segment.end])
    if part.ranges is None and part.position < len(DATA):
        part.write(DATA[part.position :])
    part.verify(len(DATA), None)
    part.publish()
    volume.close()
    return found


async def test_c92_killed_at_every_call_of_a_part_in_ranges(tmp_path, write_until_killed):
    """What the next run finds is right, and not less than the last note told."""
    found = []
    for n in range(10_000):
        root = tmp_path / str(n)
        was_killed = write_until_killed(root, n)
        found.append(await go_on(root))
        assert tree(root) == {"a": DATA}, n
        assert [path for path in (root / ".cfetch").rglob("*") if path.is_file()] == [], n
        if not was_killed:
            break
    assert len(found) > 100
    assert sum(0 < bytes_ < len(DATA) for bytes_ in found) > 60
    assert found[-1] == len(DATA)


SIZE = 12 * MIB
STREAMS = ("--policy", "adaptive", "--concurrency", "8", "--segments", "16")
ON_IT = re.compile(r'\d+ +(\w+)\(.*[/"]r[0-9a-f]{32}')


def scene_of(folder, url, children):
    folder.mkdir()
    return Scene(folder, url, children, durability="crash", job=Job({"large": Synthetic("large", SIZE)}, ()))


@pytest.fixture(scope="module")
def origin():
    """Three seconds for one stream."""
    with serving({"large": Synthetic("large", SIZE)}, pace_bps=4.0 * MIB) as made:
        yield made


def points_of(scene, calls):
    """The first and some other calls to do with a part in ranges: name, and the number in its thread."""
    assert scene.traced(calls=calls, more=STREAMS).code == 0
    counts: Counter[tuple[str, str]] = Counter()
    found: dict[str, list[int]] = {}
    for line in scene.trace.read_text(errors="replace").splitlines():
        thread, call = line.split()[0], line.split()[1].partition("(")[0]
        counts[thread, call] += 1
        if ON_IT.match(line):
            found.setdefault(call, []).append(counts[thread, call])
    return [(call, n) for call, numbers in found.items() for n in dict.fromkeys([*numbers[:3], numbers[-1]])]


@pytest.mark.usefixtures("strace")
@pytest.mark.parametrize("most", [2, pytest.param(100, marks=pytest.mark.slow)])
def test_c92_a_real_run_in_several_streams_is_killed(tmp_path, origin, children, most):
    """At its first writes in place, notes and renames, and at the last ones."""
    calls = ("pwrite64", "renameat", "renameat2", "openat", "unlinkat")
    points = points_of(scene_of(tmp_path / "whole", origin.url, children), calls)
    assert {"pwrite64", "openat", "unlinkat"} < {call for call, _ in points}
    random.Random(92).shuffle(points)
    fetched: list[int] = []
    for call, n in points:
        if len(fetched) == most:
            break
        scene = scene_of(tmp_path / f"{call}{n}", origin.url, children)
        killed = scene.traced(f"-einject={call}:signal=SIGKILL:when={n}", calls=(call,), more=STREAMS)
        assert killed.code in (0, KILLED), killed.said
        assert scene.wrong() == []
        if killed.code == 0:  # no thread of this run has made so many such calls
            continue
        fetched.append(scene.finish())
    assert sum(0 < size_bytes < SIZE for size_bytes in fetched) >= len(fetched) // 2


def test_c92_interrupted_in_ranges_nothing_is_fetched_twice(tmp_path, children):
    """Ctrl-C: the note tells of every byte that is held. No stream ends before it, however late it comes."""
    large = {"large": Synthetic("large", SIZE)}
    held = dict.fromkeys(large, Fault(kind="stall", after_bytes=MIB, first=0))
    with serving(large, faults=held, pace_bps=4.0 * MIB) as origin:
        scene = scene_of(tmp_path / "job", origin.url, children)
        process = started(command(scene, "--quiet", *STREAMS))
        while not (notes := list(scene.to.glob(".cfetch/attempts/*/*/r*.note"))):
            assert process.poll() is None
            time.sleep(0.01)
        assert ended(process, signal.SIGINT).code == 130
        note: Any = read_note(notes[0].read_bytes())
        origin.script.faults = {}
        assert scene.finish() == SIZE - sum(end - start for start, end in note.held)
