"""The order of writes, names and records in a real run, and the checker on traces that are wrong."""

import pytest

from cfetch.plugins.lab.bench.content import Synthetic
from tests.crash.order import violations
from tests.crash.scene import Job, Scene, can_trace, serving

STAGE = "/to/.cfetch/attempts/i/0"
GOOD = f"""\
1 openat(6<{STAGE}>, "h1", O_RDWR|O_CREAT|O_EXCL, 0666) = 7<{STAGE}/h1>
1 write(7<{STAGE}/h1>, "bytes", 5) = 5
2 syncfs(4</to> <unfinished ...>
1 write(9</to/.cfetch/metrics/i.jsonl>, "other", 5) = 5
2 <... syncfs resumed>) = 0
1 renameat(6<{STAGE}>, "h1", 5</to/d>, "a") = 0
2 syncfs(4</to>) = 0
1 write(9</to/.cfetch/metrics/i.jsonl>, "{{\\"path\\":\\"d/a\\",\\"x\\":1,\\"status\\":\\"done\\"}}", 5) = 5
1 write(1<pipe:[1]>, "{{\\"schema\\":\\"cfetch.summary/1\\"", 5) = 5
""".splitlines()


def changed(drop=None, move=None, replace=()):
    """GOOD without line ``drop``, with line ``move[0]`` moved to ``move[1]``, with texts replaced."""
    lines = list(GOOD)
    if move:
        lines.insert(move[1], lines.pop(move[0]))
    if drop is not None:
        del lines[drop]
    return [line.replace(*replace) if replace else line for line in lines]


def test_a_good_trace_is_good():
    """Names and records after their flushes."""
    assert violations(GOOD, "/to") == []


BYTES = ["/to/d/a got its name before its bytes were flushed"]
NAME = ["d/a was vouched for before its name was flushed"]


@pytest.mark.parametrize(
    ("lines", "wrong"),
    [
        (changed(move=(1, 3)), BYTES),  # written while the flush was under way
        (changed(replace=("2 <... syncfs resumed>) = 0", "2 <... syncfs resumed>) = -1 EIO (x)")), BYTES),
        (changed(replace=("syncfs(4</to> <", "fdatasync(4</to/other> <")), BYTES),
        (changed(drop=6), NAME * 2),
        (changed(replace=("2 syncfs(4</to>) = 0", "2 fsync(4</to/e>) = 0")), NAME * 2),
        (changed(move=(7, 6)), NAME),
        (changed(move=(8, 6)), NAME),
        (changed(drop=5), ["d/a is vouched for and has no name"]),
        (changed(move=(5, 4)), BYTES),  # named while the flush was under way
    ],
)
def test_a_wrong_order_is_seen(lines, wrong):
    """Each of the four steps, out of its place."""
    assert violations(lines, "/to") == wrong


@pytest.mark.parametrize("one", ["fsync(7<{}/h1>", "fdatasync(7<{}/h1>"])
def test_a_flush_of_the_one_file_and_of_its_directory_will_do(one):
    """As well as a flush of all."""
    lines = [line.replace("syncfs(4</to> ", one.format(STAGE)) for line in GOOD]
    lines[6] = "2 fsync(5</to/d>) = 0"
    assert violations(lines, "/to") == []


@pytest.mark.skipif(can_trace() != "", reason=can_trace())
def test_c93_a_real_run_is_in_order(tmp_path, children):
    """Eighty files in several groups: nothing is named or vouched for too early."""
    files = {f"d{i % 3}/{i}": Synthetic(str(i), 500 * i) for i in range(80)}
    with serving(files, pace_bps=60_000.0) as origin:
        scene = Scene(tmp_path, origin.url, children, job=Job(files, hashed=tuple(files)[::2]))
        done = scene.traced("-s", "200000", more=("--json", "--concurrency", "8"))
    assert done.code == 0, done.said
    lines = scene.trace.read_text(errors="replace").splitlines()
    assert violations(lines, str(scene.to)) == []
    assert sum(" syncfs(" in line for line in lines) >= 4
    assert sum('\\"status\\":\\"done\\"' in line for line in lines) >= 2
    without = [line for line in lines if "syncfs" not in line]
    assert len(violations(without, str(scene.to))) >= 2 * len(files)
