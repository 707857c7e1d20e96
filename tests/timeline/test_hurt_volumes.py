"""A volume that refuses while dead runs are cleared up: it keeps its own, which a later run finds there."""

import errno

import pytest

from cfetch.base.errors import LocalFault
from cfetch.timeline.attempts import Attempts
from cfetch.timeline.execution import roll_back
from cfetch.timeline.files import LocalFiles
from cfetch.timeline.tidying import tidy_up
from tests.timeline.real import nobody, start

MONTH_S = 30 * 86400.0


class Refusing(LocalFiles):
    """A volume that changes nothing while the test says so, as one that is read-only."""

    refuses = True

    def _check(self, path):
        if self.refuses:
            raise OSError(errno.EROFS, "Read-only file system", path)

    def copy(self, old, new):
        self._check(new)
        super().copy(old, new)

    def unlink(self, path):
        self._check(path)
        super().unlink(path)


class Scene:
    """A plan that goes to two volumes, one of which is hurt; ``order``: which of them comes first."""

    def __init__(self, processes, order=1):
        self.processes = processes
        self.roots = [processes.root / "well", processes.root / "hurt"]
        self.well, self.hurt = LocalFiles(self.roots[0]), Refusing(self.roots[1])
        self.volumes = [self.well, self.hurt][::order]

    def open(self, name):
        table = self.processes.table(name)
        table.attempts = Attempts(self.volumes)
        return table

    def leave(self, instant):
        """What a killed task leaves on both volumes."""
        for files in (self.well, self.hurt):
            files.make_directory(f"attempts/{instant}/1/t3")
            files.create(f"attempts/{instant}/1/t3/part", b"p")
            files.create(f"attempts/{instant}/elsewhere", b"m")

    def left(self):
        """What is there of it: for each volume, the names of files."""
        return [sorted(path.name for path in root.rglob("*") if path.is_file()) for root in self.roots]

    def close(self):
        self.well.close()
        self.hurt.close()


@pytest.fixture(params=[1, -1], ids=["hurt is last", "hurt is first"])
def scene(processes, request):
    made = Scene(processes, request.param)
    yield made
    made.close()


def test_a_volume_that_is_hurt_when_a_plan_is_completed_is_tidied_up_by_a_later_run(scene):
    """What dead tasks have left on the others goes at once, of each plan, and all else that is to go."""
    table = scene.open("x")
    instants = []
    for name in ("one", "two"):
        instants.append(scene.processes.schedule(table, fingerprint=name))
        start(table, instants[-1], on_lost=nobody).commit(files=2, size_bytes=20)
        scene.leave(instants[-1])
    table.files.create(f"heartbeats/{instants[0]}.json", b"{}")
    with pytest.raises(LocalFault, match="Read-only file system"):
        tidy_up(table, MONTH_S)
    assert scene.left() == [[], ["elsewhere", "elsewhere", "part", "part"]]
    assert table.files.names("heartbeats") == []
    scene.hurt.refuses = False
    tidy_up(table, MONTH_S)
    assert scene.left() == [[], []]


def test_a_volume_that_is_hurt_keeps_no_plan_from_going_on(scene):
    """Its dead run is rolled back where that is possible, and on the other volume when that is well."""
    dead = scene.open("dead")
    instant = scene.processes.schedule(dead)
    start(dead, instant, on_lost=nobody)
    scene.leave(instant)
    scene.processes.kill(dead)
    second = start(scene.open("second"), instant, on_lost=nobody, salvage=lambda dead: dead.names)
    assert second.epoch == 2
    assert scene.left() == [["elsewhere", "part"], ["elsewhere", "part"]]
    assert list(map(_list_parts, scene.roots)) == [["2-1"], ["t3"]]
    second.release()
    with pytest.raises(LocalFault, match="Read-only file system"):  # nobody is told that it is rolled back
        roll_back(scene.open("by hand"), instant)
    scene.hurt.refuses = False
    third = start(scene.open("third"), instant, on_lost=nobody)
    assert scene.left() == [["elsewhere"], ["elsewhere"]]
    third.release()


def _list_parts(root):
    return [path.parent.name for path in root.rglob("part")]


def test_an_only_volume_that_is_hurt_keeps_its_plan(scene):
    """Nothing could be written there anyway, and the owner of what it has might still be alive."""
    scene.volumes = [scene.hurt]
    dead = scene.open("dead")
    instant = scene.processes.schedule(dead)
    start(dead, instant, on_lost=nobody)
    scene.leave(instant)
    scene.processes.kill(dead)
    with pytest.raises(LocalFault, match="Read-only file system"):
        start(scene.open("second"), instant, on_lost=nobody)
