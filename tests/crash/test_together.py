"""Two runs on one destination, while a third hand turns directories into symlinks and removes them."""

import os
import random
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

from cfetch.plugins.lab.bench.content import Synthetic
from tests.crash.scene import KIB, Children, Job, Scene, serving

FILES = {
    f"{folder}/{i}": Synthetic(f"{folder}/{i}", 20 * KIB * i)
    for folder in ("d", "d/e", "f")
    for i in range(6)
}
JOB = Job(FILES, hashed=tuple(FILES)[::2])
CODES = (
    0,
    1,
    3,
    4,
)  # all done; something stood in a place; the disk is not as it was; another run has the plan


class Meddler(threading.Thread):
    """Until stopped: replaces directories by symlinks to ``outside`` and back, or removes them."""

    def __init__(self, to, outside, seed):
        super().__init__()
        self._to, self._outside = to, outside
        self._dice = random.Random(seed)
        self._stopped = threading.Event()

    def run(self):
        while not self._stopped.wait(self._dice.uniform(0, 0.02)):
            place = self._to / self._dice.choice(["d", "d/e", "f"])
            with suppress(OSError):
                if self._dice.random() < 0.5:
                    shutil.rmtree(place)
                else:
                    place.rename(self._to / f"moved{self._dice.random()}")
                    place.symlink_to(self._outside)
                    self._stopped.wait(0.005)
                    place.unlink()

    def stop(self):
        self._stopped.set()
        self.join()
        for name in ("d/e", "d", "f"):
            with suppress(OSError):
                (self._to / name).unlink()
        for moved in self._to.glob("moved*"):
            shutil.rmtree(moved)


@pytest.fixture(scope="module")
def pair(children):
    with Children() as other:
        yield children, other


def one_round(folder, pair, seed, *, meddled):
    dice = random.Random(seed)
    folder.mkdir()
    outside = folder / "outside"
    outside.mkdir()
    with serving(FILES, pace_bps=2_000.0 * KIB) as origin, ThreadPoolExecutor(2) as pool:
        scenes = []
        for i, children in enumerate(pair):
            (folder / str(i)).mkdir()
            scene = Scene(folder / str(i), origin.url, children, durability="crash", job=JOB)
            scene.to = folder / "to"
            scenes.append(scene)
        meddler = Meddler(folder / "to", outside, seed)
        if meddled:
            meddler.start()
        first = pool.submit(scenes[0].run)
        threading.Event().wait(dice.uniform(0, 0.25))
        results = [scenes[1].run(), first.result()]
        if meddled:
            meddler.stop()
        for result in results:
            assert result.code in CODES, (seed, result)
            assert "Traceback" not in result.said
            assert result.said == "" if result.code == 0 else result.said.strip() != "", (seed, result)
        assert scenes[0].wrong() == [], seed
        assert os.listdir(outside) == [], seed
        if not meddled:
            assert scenes[0].missing() == [], seed
        scenes[0].finish()


def test_c95_two_runs_at_once(tmp_path, pair):
    """Both end well or say why not; the files are right, and a third run only tidies up."""
    for seed in range(3):
        one_round(tmp_path / str(seed), pair, seed, meddled=False)


def test_c104_two_runs_and_a_meddler(tmp_path, pair):
    """Nothing goes through the symlinks; what was taken away is there after the next run."""
    for seed in range(4):
        one_round(tmp_path / str(seed), pair, seed, meddled=True)


@pytest.mark.slow
@pytest.mark.parametrize("meddled", [True, False])
def test_c95_many_rounds(tmp_path, pair, meddled):
    """The long form."""
    for seed in range(100, 300):
        one_round(tmp_path / str(seed), pair, seed, meddled=meddled)
