"""Named batches brought by several nodes: each is whole, once, whoever dies at whatever step."""

import sys
import time

import pytest

from cfetch.plugins.lab.bench.content import Synthetic
from tests.crash.process import started
from tests.crash.scene import KIB, TIMEOUT_S, Children, Job, Scene, serving
from tests.tasks.nodes.soak import Place, find_leader, schedule
from tests.tasks.processes.soak import children_of, is_alive

FILES = {f"d/{n}": Synthetic(f"d/{n}", 64 * KIB) for n in range(40)}
BATCHES = {name: str(n // 4) for n, name in enumerate(FILES)}


class Nodes:
    """Two nodes at a time, one of which leads."""

    def __init__(self, place):
        self.place = place
        self.instant = schedule(place.scene, place)
        self.all = [self.begin(), self.begin()]

    def begin(self):
        words = [sys.executable, "-m", "cfetch", "plan", "run", self.instant, "--together", "--quiet"]
        return started([*words, *self.place.words, "--processes", "1", "-j", "4", "--segments", "1"])

    def are_at_work(self):
        """Whether none of them has ended."""
        return all(node.poll() is None for node in self.all)

    def kill(self, *, leader):
        """Kill the node that leads, or the other one, and its processes with it; a new one comes."""
        led_by = find_leader(self.place.state / f"heartbeats/{self.instant}.json")
        node = next((node for node in self.all if (node.pid == led_by) == leader), None)
        if led_by is None or node is None or not self.are_at_work():
            return 0
        children = children_of(node.pid)
        node.kill()
        node.communicate()
        while any(map(is_alive, children)):
            time.sleep(0.01)
        self.all[self.all.index(node)] = self.begin()
        return 1


@pytest.mark.parametrize("volumes", [1, 2])
def test_kills_of_nodes_leave_no_torn_batch(tmp_path, volumes):
    """Of the other node and of the leader; the plan is brought to its end, each batch whole and once."""
    with serving(FILES, pace_bps=256 * KIB) as origin:
        job = Job(FILES, hashed=tuple(FILES), batches=BATCHES)
        scene = Scene(tmp_path, origin.url, Children(), job=job)
        place = Place(scene, volumes)
        nodes, kills = Nodes(place), 0
        for due, leader in ((1, False), (17, True)):
            while nodes.are_at_work() and sum(len(list(root.glob("d/*"))) for root in place.roots) < due:
                time.sleep(0.005)
            kills += nodes.kill(leader=leader)
        said = [node.communicate(timeout=TIMEOUT_S) for node in nodes.all]
    assert kills
    assert [node.returncode for node in nodes.all] == [0, 0], said
    assert place.look() == []
