"""Batches that leave a volume in the middle: what stands there is copied, not fetched again."""

import pytest

from cfetch.plugins.lab.bench.origin import Origin
from tests.volumes.scene import KIB, MIB, Scene, named, records_of
from tests.volumes.test_mounts_that_hang import mirror, mirrors  # noqa: F401 - a fixture

FILES = named(1, 6, 4 * MIB)
TOTAL = sum(content.size_bytes for content in FILES.values())
END = "while [ ! -s out ]; do sleep 0.1; done"  # of the run
HELD_KIB = 8 << 10  # of the batch, when its volume is in trouble


def brought(kib=HELD_KIB):
    """A script that waits until so much of the batch is on its first volume."""
    held = "$(du -sk v0/.cfetch/attempts 2>/dev/null | cut -f1)"
    return f'while h={held}; [ "${{h:-0}}" -lt {kib} ]; do sleep 0.02; done'


def whole(scene, below):
    """Nothing wrong, nothing missing, nothing left."""
    return scene.faults(below), scene.missing(below), scene.debris(below)


@pytest.mark.parametrize(("hashed", "segments"), [(True, "1"), (False, "4")])
async def test_a_volume_that_is_full(tmp_path, namespaces, hashed, segments):
    """Somebody else fills it when a third of the batch is there; all bytes come from the server once."""
    async with Origin(FILES, pace_bps=4.0 * MIB) as origin:
        scene = Scene(tmp_path, origin.url, FILES, volumes=2, hashed=hashed)
        other = "v0/.cfetch/other"
        fill = f"dd if=/dev/zero of={other} bs=64k count=1000 2>/dev/null || true; {END}; rm {other}"
        words = ("--state", "st", "--concurrency", "4", "--segments", segments)
        told, _ = await scene.in_namespace("mounted v0 40m", f"{brought()}; {fill}", *words)
    assert (told["exit_code"], told["files"]["done"], told["volumes"][1]["files"]) == (0, 6, 6)
    assert whole(scene, tmp_path / "after") == ([], [], [])
    assert TOTAL <= told["bytes"]["fetched"] < TOTAL + 2 * MIB
    assert told["bytes"]["wasted"] == told["bytes"]["fetched"] - TOTAL


async def test_a_volume_that_becomes_read_only(tmp_path, namespaces, mirrors):  # noqa: F811
    """Its parts are read, and stay there, as nothing can be removed; only what they lack is fetched then."""
    async with Origin(FILES, pace_bps=4.0 * MIB) as origin:
        scene = Scene(tmp_path, origin.url, FILES, volumes=2)
        words = ("--state", "st", "--concurrency", "4", "--segments", "1")
        told, _ = await scene.in_namespace(
            mirror("v0"), f"{brought()}; said readonly", *words, afterwards="said well"
        )
    assert (told["exit_code"], told["files"]["done"], told["volumes"][1]["files"]) == (0, 6, 6)
    assert (scene.faults(tmp_path / "after"), scene.missing(tmp_path / "after")) == ([], [])
    parts = (tmp_path / "after/v0/.cfetch/attempts").glob("*/*/h*")
    held_bytes = sum(part.stat().st_size for part in parts if not part.suffix)
    attempts = [tried for record in records_of(told["metrics"]).values() for tried in record["attempts"]]
    assert sum(tried["bytes"] for tried in attempts if tried["outcome"] != "moved") == TOTAL - held_bytes
    assert held_bytes > HELD_KIB * KIB // 2


@pytest.mark.parametrize("trouble", ["unreadable", "mute"])
async def test_a_volume_that_cannot_be_read(tmp_path, namespaces, mirrors, trouble):  # noqa: F811
    """Both workers wait for it once, at the same time; then all of the batch is fetched."""
    async with Origin(FILES, pace_bps=8.0 * MIB) as origin:
        scene = Scene(tmp_path, origin.url, FILES, volumes=2)
        words = ("--state", "st", "--concurrency", "2")
        script = f"{brought()}; said {trouble}; {END}; said well"
        told, _ = await scene.in_namespace(mirror("v0"), script, *words)
    assert (told["exit_code"], told["files"]["done"], told["volumes"][1]["files"]) == (0, 6, 6)
    assert (scene.faults(tmp_path / "after"), scene.missing(tmp_path / "after")) == ([], [])
    assert told["bytes"]["fetched"] >= TOTAL + HELD_KIB * KIB // 2
    assert (tmp_path / "told").read_text().splitlines()[-1] in ("well 1", "well 2")


FULL = """
import errno, os, runpy, signal
from cfetch.storage.part_file import PartFile
from cfetch.storage.staging import Staging

taken, reads = 0, 0
write, read = PartFile._write, Staging.read_leftover

def refuse(self, data):
    global taken
    if self._volume.root.name == "v0":
        taken += len(data)
        if taken > {held}:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    write(self, data)

def die(self, *args):
    global reads
    reads += 1
    if reads == {reads}:
        os.kill(os.getpid(), signal.SIGKILL)
    return read(self, *args)

PartFile._write, Staging.read_leftover = refuse, die
runpy.run_module("cfetch", run_name="__main__", alter_sys=True)
"""


def held_bytes(scene):
    """The bytes of each file, by the part that holds most, or under its final name."""
    sizes: dict[str, int] = {}
    for root in scene.to:
        for part in root.glob(".cfetch/attempts/*/*/[hs]*"):
            if not part.suffix:
                sizes[part.name] = max(sizes.get(part.name, 0), part.stat().st_size)
        sizes |= {path: len(data) for path, data in scene.volume(int(root.name[1:])).files.items()}
    return sum(sizes.values())


@pytest.mark.parametrize(("reads", "hashed"), [(1, True), (7, False)])
async def test_killed_while_it_copies(tmp_path, hashed, reads):
    """The next run goes on with what is on either volume, and leaves nothing."""
    async with Origin(FILES, pace_bps=8.0 * MIB) as origin:
        scene = Scene(tmp_path, origin.url, FILES, volumes=2, hashed=hashed)
        words = scene.words("--concurrency", "4", "--segments", "1")
        script = FULL.format(held=10 * MIB, reads=reads)
        child = await scene.begun([words[0], "-c", script, *words[3:]])
        await child.communicate()
        assert child.returncode == -9
        held = held_bytes(scene)
        assert held > 7 * MIB
        found = await scene.run(segments=1)
        assert (found.code, *whole(scene, None)) == (0, [], [], [])
    assert found.summary["bytes"]["fetched"] <= TOTAL - held
    assert found.summary["bytes"]["wasted"] == 0
