"""kill -9 on entering any system call, once and twice: what stands there, and what the next run makes of it.

The suite takes a sample; ``-m slow`` and ``benchmarks/crash_points.py`` take every call.
"""

import random
import re

import pytest

from cfetch.plugins.lab.bench.content import Synthetic
from cfetch.storage.resume import WORTH_KEEPING_BYTES
from tests.crash.scene import KIB, Job, Point, Scene, Weak, serving

pytestmark = pytest.mark.usefixtures("strace")
KILLED = 137
MOST_AGAIN = WORTH_KEEPING_BYTES + 512 * KIB  # a part without hash and note, and one write


def kill_and_finish(folder, url, children, durability, points):
    """The tree is right after each kill and complete after the next run; how many of ``points`` were met."""
    folder.mkdir()
    scene = Scene(folder, url, children, durability=durability)
    met = 0
    for point in points:
        killed = scene.killed_at(point)
        assert killed.code in (0, KILLED), (points, killed.said)
        assert scene.wrong() == [], points
        met += killed.code == KILLED
    again = scene.finish() + killed.held_bytes - scene.job.total_bytes
    assert 0 <= again <= MOST_AGAIN, points
    return met


def sample(points, count, dice):
    """Some calls of each kind; all of the rare ones come up before the common ones come up twice."""
    dice.shuffle(points)
    seen: dict[str, int] = {}
    ranked: list[tuple[int, int, Point]] = []
    for point in points:
        seen[point.call] = seen.get(point.call, 0) + 1
        ranked.append((seen[point.call], len(ranked), point))
    return [point for *_, point in sorted(ranked)[:count]]


@pytest.mark.parametrize("durability", ["power", "crash"])
def test_c92_killed_at_some_calls(tmp_path, url, children, durability):
    """Every final name is absent or whole; the next run completes the tree and leaves nothing of the dead."""
    dice = random.Random(92)
    scene = Scene(tmp_path, url, children, durability=durability)
    points = scene.points()
    work: list[tuple[Point, ...]] = [(point,) for point in sample(list(points), 6, dice)]
    work += [(dice.choice(points), dice.choice(points)) for _ in range(2)]
    met = [kill_and_finish(tmp_path / str(i), url, children, durability, one) for i, one in enumerate(work)]
    assert sum(met) >= 0.8 * sum(map(len, work))  # the number of writes differs from run to run


@pytest.mark.slow
@pytest.mark.parametrize("durability", ["power", "crash"])
def test_c92_killed_at_every_call(tmp_path, url, children, durability):
    """The long form, and a hundred pairs."""
    dice = random.Random(93)
    points = Scene(tmp_path, url, children, durability=durability).points()
    work: list[tuple[Point, ...]] = [(point,) for point in points]
    work += [(dice.choice(points), dice.choice(points)) for _ in range(100)]
    for i, one in enumerate(work):
        kill_and_finish(tmp_path / str(i), url, children, durability, one)


def test_c92_files_that_wait_for_their_group_are_not_fetched_again(tmp_path, children):
    """Killed at the first flush: small files are whole and have no names, and no note tells of them.

    On a busy machine the first flush comes before all sixty have; those that have are not fetched again.
    """
    files = {f"{i % 5}/{i}": Weak(Synthetic(str(i), 1000 + i)) for i in range(60)}
    with serving(files) as origin:
        scene = Scene(tmp_path, origin.url, children, job=Job(files, hashed=tuple(files)[::2]))
        killed = scene.killed_at(Point("syncfs", 1, ""))
        assert killed.code == KILLED
        assert scene.missing() == list(files)
        assert killed.held_bytes > 0
        assert list(tmp_path.rglob("*.note")) == []
        assert scene.finish() == scene.job.total_bytes - killed.held_bytes


def test_no_call_at_the_destination_loads_the_program(tmp_path, url, children):
    """A disk that fails under the interpreter is none that a download can report."""
    points = Scene(tmp_path, url, children).points()
    assert [
        point for point in points if re.search(r'[.]pyc?["> ]|[.]so["> ]|site-packages', point.line)
    ] == []
