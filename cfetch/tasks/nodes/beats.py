"""The signs of life of nodes on a board: this node gives its own, and listens to the others.

Clocks are not compared. A node is dead when its count has not grown for as long as its beat states, by the
clock of the node that listens; or at once if it has said that it leaves, or if its process is known to have
ended on the same machine.
"""

from pathlib import Path
from typing import NamedTuple

from cfetch.timeline.files import LocalFiles
from cfetch.timeline.heartbeat import BeatThread, Heartbeats, Observer, Pulse, find_beat, make_unknown_beat
from cfetch.timeline.table import Node

BEAT_S = 2.0  # the longest time between two beats: a lease is some of them


class Heard(NamedTuple):
    """What a node has heard of another one.

    ``is_new``: its count has grown. ``is_gone``: it has ended for certain, and has not only been silent.
    """

    is_new: bool
    is_dead: bool
    is_gone: bool


class NodeBeats:
    """The beats of this node and of others, below the directory of a board. For one thread at a time."""

    def __init__(self, directory: Path, epoch: int, node: Node, heartbeats: Heartbeats) -> None:
        self._directory = directory
        self._epoch = epoch
        self._node = node
        self._heartbeats = heartbeats
        self._lives = 0
        self._pulse: Pulse | None = None
        self._beating: BeatThread | None = None
        self._files: LocalFiles | None = None
        self._counts: dict[str, int] = {}  # the last one of each other node
        self._observer = Observer(
            monotonic=node.monotonic, is_gone=node.is_gone, has_restarted=node.has_restarted
        )

    @property
    def name(self) -> str:
        """The name of this node. A node that was taken for dead comes back under another one."""
        return f"{self._node.owner.token}.{self._lives}"

    def begin(self) -> None:
        """Beat, before anything is claimed; under a new name if others may have taken this node for dead."""
        if self._pulse is not None and self._pulse.lost is None:
            return
        if self._beating is not None:
            self._beating.stop()
        self._files = self._files or LocalFiles(self._directory)
        self._lives += 1
        self._pulse = self._node.begin_pulse(self._files, self.name, self._epoch, self._heartbeats)
        self._beating = BeatThread(self._pulse, min(self._heartbeats.pause_s, BEAT_S), lambda _: None)

    def hear(self, name: str) -> Heard:
        """Listen to another node. The beats have begun."""
        assert self._files is not None
        beat, age_s = find_beat(self._files, name, self._node.wall())
        # The beat comes before the claim. If it is missing, this machine's cache may be older than both.
        beat = beat or make_unknown_beat(name, b"")
        verdict = self._observer.judge(name, self._epoch, beat, age_s)
        is_new = self._counts.get(name) != beat.counter
        self._counts[name] = beat.counter
        return Heard(is_new, not verdict.is_live, verdict.is_gone)

    def close(self) -> None:
        """Say that the node leaves: others may take its shares at once."""
        if self._beating is not None:
            self._beating.stop()
        if self._pulse is not None:
            self._pulse.end(released=True)
        if self._files is not None:
            self._files.close()
        self._pulse = self._beating = self._files = None
