"""How even batches are placed, and what that is worth: the real Placer over simulated volumes.

Four volumes write what comes to them, each at its own speed, shared evenly by the batches under way there.
Files are log-uniform from 1 KiB to 1 GiB, cut into batches by cut(), which arrive the largest first for
``finish``, else in order. Nothing of this takes real time, and nothing is random but the sizes. Usage::

    python benchmarks/placement_simulation.py [--seeds N] [--files N] [--places K]

The ideal is all bytes over all speeds: every volume busy until the end. "Work" is what a volume wrote over
its speed.
"""

import argparse
import random
from collections.abc import Sequence
from math import inf
from statistics import fmean
from typing import NamedTuple

from cfetch.engine.placement.batches import Cut, cut
from cfetch.engine.placement.chooser import Mode
from cfetch.engine.placement.placer import Placer

MIB = 1 << 20
TICK_S = 1.0  # how often the speeds are measured
TRY_S = 1.0  # how long a volume that has failed lets a probe wait for its failure


class Scene(NamedTuple):
    """Volumes, by their speeds; the last one may fail for good at half of the ideal time."""

    name: str
    speeds_bps: tuple[float, ...]
    fails: bool = False


FAST, SLOW = 100.0 * MIB, 10.0 * MIB
SCENES = (
    Scene("four alike", (FAST,) * 4),
    Scene("one 10 times slower", (FAST, FAST, FAST, SLOW)),
    Scene("the slow one fails half-way", (FAST, FAST, FAST, SLOW), fails=True),
    Scene("one of four alike fails half-way", (FAST,) * 4, fails=True),
)
COLUMNS = (
    "volumes",
    "placement",
    "makespan, s",
    "/ ideal",
    "worst",
    "/ round-robin",
    "bytes max/mean",
    "work max/mean",
    "lost, MiB",
)


class Result(NamedTuple):
    """One simulated run. ``written``: bytes by volume; ``lost_bytes`` were written to no avail."""

    makespan_s: float
    ideal_s: float
    written: tuple[int, ...]
    work_s: tuple[float, ...]
    lost_bytes: float


class Simulation:
    """One run: ``running`` holds the bytes that are still to be written of each batch, by volume."""

    def __init__(self, batches: Cut, scene: Scene, mode: Mode, places: int) -> None:
        self.batches = batches
        self.mode = mode
        self.scene = scene
        self.places = places
        self.volumes = range(len(scene.speeds_bps))
        self.placer = Placer(len(self.volumes), mode=mode, deadline_s=inf)
        self.coming = list(reversed(batches.order if mode is Mode.FINISH else range(len(batches.bytes))))
        self.running: list[dict[int, float]] = [{} for _ in self.volumes]
        self.moved = [0.0 for _ in self.volumes]
        self.written = [0 for _ in self.volumes]
        self.now_s = 0.0
        self.left = len(batches.bytes)
        self.lost_bytes = 0.0
        self.ideal_s = sum(batches.bytes) / sum(scene.speeds_bps)
        self.fails_s = self.ideal_s / 2 if scene.fails else inf
        self.failed = False
        self.try_over_s = inf

    def run(self) -> Result:
        """Until everything is written."""
        tick_s = TICK_S
        while self.left:
            self.place()
            ends = min(self.end_s(at) for at in self.volumes)
            self.advance(min(ends, tick_s, self.fails_s, self.try_over_s, self.placer.next_s(self.now_s)))
            if self.now_s >= self.fails_s:
                self.fail()
            if self.now_s >= self.try_over_s:
                self.refuse()
            for at in self.volumes:
                self.finish(at)
            if self.now_s >= tick_s:
                tick_s = self.now_s + TICK_S
                self.measure()
        speeds = self.scene.speeds_bps
        work_s = tuple(done / speed for done, speed in zip(self.written, speeds, strict=True))
        return Result(self.now_s, self.ideal_s, tuple(self.written), work_s, self.lost_bytes)

    def place(self) -> None:
        """As an engine does in each round."""
        while True:
            while self.coming and self.placer.wants_more(self.now_s):
                batch = self.coming.pop()
                self.placer.submit(batch, self.batches.bytes[batch], self.batches.files[batch], self.now_s)
            self.placer.assign(self.now_s)
            began = [self.begin(at) for at in self.volumes]
            if not any(began):
                return

    def begin(self, at: int) -> bool:
        """One batch, if there is a place for it."""
        if len(self.running[at]) >= self.places:
            return False
        if self.running[at] and self.mode is Mode.FINISH and not self.placer.view(at).speed_bps:
            return (
                False  # the engine's rule: the first, largest batches must not fill a volume that may be slow
            )
        placed = self.placer.begin(at, self.now_s)
        if placed is None:
            return False
        self.running[at][placed.batch] = float(self.batches.bytes[placed.batch])
        if self.has_failed(at):
            self.try_over_s = self.now_s + TRY_S
        return True

    def has_failed(self, at: int) -> bool:
        """It is the last one's part to fail."""
        return self.failed and at == self.volumes[-1]

    def end_s(self, at: int) -> float:
        """When the next batch of a volume is written."""
        if not self.running[at] or self.has_failed(at):
            return inf
        least = min(self.running[at].values())
        return self.now_s + least * len(self.running[at]) / self.scene.speeds_bps[at]

    def advance(self, until_s: float) -> None:
        """Bytes come to every volume that is busy."""
        for at in self.volumes:
            if self.running[at] and not self.has_failed(at):
                share = (until_s - self.now_s) * self.scene.speeds_bps[at] / len(self.running[at])
                self.moved[at] += share * len(self.running[at])
                for batch in self.running[at]:
                    self.running[at][batch] -= share
        self.now_s = until_s

    def finish(self, at: int) -> None:
        """Batches of which less than half a byte is left: the rest is rounding."""
        for batch in [batch for batch, left in self.running[at].items() if left < 0.5]:
            del self.running[at][batch]
            self.placer.add_held(at, self.batches.bytes[batch], self.batches.files[batch])
            assert self.placer.finish(batch, self.now_s, of=at)
            self.written[at] += self.batches.bytes[batch]
            self.left -= 1

    def measure(self) -> None:
        """Volumes that were busy tell their speed."""
        for at in self.volumes:
            if self.moved[at]:
                self.placer.note_speed(at, int(self.moved[at]), TICK_S)
                self.moved[at] = 0.0

    def fail(self) -> None:
        """What was under way on the last volume is lost."""
        at = self.volumes[-1]
        self.failed, self.fails_s = True, inf
        self.lost_bytes = sum(self.batches.bytes[batch] - left for batch, left in self.running[at].items())
        self.running[at].clear()
        self.moved[at] = 0.0
        self.placer.volume_failed(at, self.now_s, "gone")

    def refuse(self) -> None:
        """A probe fails."""
        at = self.volumes[-1]
        self.try_over_s = inf
        for batch in self.running[at]:
            self.placer.fail(batch, self.now_s, of=at, reason="gone")
        self.running[at].clear()


def sizes_of(seed: int, files: int) -> list[int]:
    """Log-uniform from 1 KiB to 1 GiB."""
    dice = random.Random(seed)
    return [int(2.0 ** dice.uniform(10, 30)) for _ in range(files)]


def ratio(values: Sequence[float]) -> float:
    """The largest over the mean."""
    return max(values) / fmean(values)


def row(scene: Scene, mode: Mode, runs: list[Result], turns: list[Result]) -> str:
    """One line of the table: means over the seeds, and the worst against the ideal."""
    to_ideal = [run.makespan_s / run.ideal_s for run in runs]
    to_turns = [run.makespan_s / turn.makespan_s for run, turn in zip(runs, turns, strict=True)]
    cells = [
        scene.name,
        mode.value,
        f"{fmean(run.makespan_s for run in runs):.0f}",
        f"{fmean(to_ideal):.3f}",
        f"{max(to_ideal):.3f}",
        f"{fmean(to_turns):.2f}",
        f"{fmean(ratio(run.written) for run in runs):.2f}",
        f"{fmean(ratio(run.work_s) for run in runs):.2f}",
        f"{fmean(run.lost_bytes for run in runs) / MIB:.0f}",
    ]
    return f"| {' | '.join(cells)} |"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="Place batches on simulated volumes and print a table.")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--files", type=int, default=2000)
    parser.add_argument("--places", type=int, default=4, help="batches under way on each volume")
    words = parser.parse_args()
    cuts = [cut(sizes_of(seed, words.files), None) for seed in range(words.seeds)]
    print(f"{words.files} files, {words.seeds} seeds, {words.places} places on each volume\n")
    print(f"| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}")
    for scene in SCENES:
        by_mode = {mode: [Simulation(one, scene, mode, words.places).run() for one in cuts] for mode in Mode}
        for mode, runs in by_mode.items():
            print(row(scene, mode, runs, by_mode[Mode.ROUND_ROBIN]))


if __name__ == "__main__":
    main()
