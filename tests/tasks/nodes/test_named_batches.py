"""Named batches brought by several nodes: each is whole, once, whoever dies at whatever step."""

import json
import sys
import time

from cfetch.plugins.lab.bench.content import Synthetic
from tests.crash.process import started
from tests.crash.scene import KIB, TIMEOUT_S, Children, Job, Scene, serving
from tests.tasks.nodes.soak import schedule
from tests.tasks.processes.soak import children_of, is_alive
from tests.tasks.processes.test_named_batches import find_wrong

FILES = {f"d/{n}": Synthetic(f"d/{n}", 64 * KIB) for n in range(40)}
BATCHES = {name: str(n // 4) for n, name in enumerate(FILES)}


class Nodes:
    """Two nodes at a time, one of which leads."""

    def __init__(self, scene):
        self.scene = scene
        self.instant = schedule(scene)
        self.all = [self.begin(), self.begin()]

    def begin(self):
        words = [sys.executable, "-m", "cfetch", "plan", "run", self.instant, "--together", "--quiet"]
        return started([*words, "--to", str(self.scene.to), "--processes", "1", "-j", "4", "--segments", "1"])

    def are_at_work(self):
        """Whether none of them has ended."""
        return all(node.poll() is None for node in self.all)

    def find_leader(self):
        """The process that holds the plan on the timeline."""
        beat = self.scene.to / f".cfetch/heartbeats/{self.instant}.json"
        return json.loads(beat.read_bytes())["owner"]["pid"] if beat.exists() else None

    def kill(self, *, leader):
        """Kill the node that leads, or the other one, and its processes with it; a new one comes."""
        led_by = self.find_leader()
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


def test_kills_of_nodes_leave_no_torn_batch(tmp_path):
    """Of the other node and of the leader; the plan is brought to its end, each batch whole and once."""
    with serving(FILES, pace_bps=256 * KIB) as origin:
        job = Job(FILES, hashed=tuple(FILES), batches=BATCHES)
        scene = Scene(tmp_path, origin.url, Children(), job=job)
        nodes, kills = Nodes(scene), 0
        for due, leader in ((1, False), (17, True)):
            while nodes.are_at_work() and len(list(scene.to.glob("d/*"))) < due:
                time.sleep(0.005)
            kills += nodes.kill(leader=leader)
        said = [node.communicate(timeout=TIMEOUT_S) for node in nodes.all]
    assert kills
    assert [node.returncode for node in nodes.all] == [0, 0], said
    assert scene.wrong() + scene.missing() + scene.debris() == []
    assert find_wrong([scene.to], BATCHES) == []
