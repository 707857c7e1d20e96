"""What ``scale_model.py`` simulates: a world, the rules that hold in it, a manifest and its cut, a result."""

from array import array
from math import inf
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from cfetch.tasks.shares.cut import ExpectedPace, SharesCut, count_sharers, cut_shares

__all__ = ["ALL", "Flow", "Job", "Result", "Rules", "World", "clean", "ideal_s", "job_of", "most_at_once"]


class World(NamedTuple):
    """What there is. Sizes are log-normal; hosts by Zipf's law; ``lost_an_hour``: of each executor."""

    files: int = 100_000
    executors: int = 10
    slots: int = 4
    concurrency: int = 16
    median_bytes: float = 1.0 * (1 << 20)
    sigma: float = 1.66
    largest_bytes: float = 512.0 * (1 << 20)
    hosts: int = 2000
    zipf: float = 1.2
    per_host: int | None = None
    latency_s: float = 0.05
    task_bps: float = 30e6
    connection_bps: float = 10e6
    spread: float = 0.3
    slow_connections: float = 0.02
    slow_connection_by: float = 64.0
    slow_executors: float = 0.01
    slow_executor_by: float = 10.0
    lost_an_hour: float = 0.05
    launches_a_s: float = 230.0
    seed: int = 0

    @property
    def tasks(self) -> int:
        """That run at a time."""
        return self.executors * self.slots


class Rules(NamedTuple):
    """What is done about it."""

    mitigation: bool = False
    speculation: bool = False
    hub: bool = False


ALL = {
    "none": Rules(),
    "detector": Rules(mitigation=True),
    "speculation": Rules(speculation=True),
    "both": Rules(mitigation=True, speculation=True),
    "both and hub": Rules(mitigation=True, speculation=True, hub=True),
}


class Job(NamedTuple):
    """A manifest and its cut. ``order`` has the entries batch by batch, a batch from ``starts[b]`` on."""

    sizes: "npt.NDArray[np.int64]"
    host_of: "npt.NDArray[np.int64]"
    cut: SharesCut
    sharers: list[int]
    order: "npt.NDArray[np.int64]"
    starts: "npt.NDArray[np.int64]"
    ideal_s: float


class Result(NamedTuple):
    """One run. ``end_s``: when each entry stood; ``fetched``: how often it was.

    ``needless``: rescues from connections that were not slow. ``task_s``: of each copy that brought a batch
    to its end, by whether its executor was slow; ``most_at_host``: most connections at one host at a time,
    where that was watched; ``book_s``: processor time of the hub's book for so many ``beats``.
    """

    makespan_s: float
    ideal_s: float
    end_s: "npt.NDArray[np.float64]"
    fetched: "npt.NDArray[np.int8]"
    rescues: int
    needless: int
    copies: int
    lost: int
    skipped: int
    task_s: dict[bool, list[float]]
    most_at_host: dict[int, int]
    beats: int
    book_s: float

    @property
    def ratio(self) -> float:
        """Of the makespan to the ideal."""
        return self.makespan_s / self.ideal_s

    def until(self, share: float) -> float:
        """When so much of all files stood, against the ideal."""
        return float(np.quantile(self.end_s, share)) / self.ideal_s


def clean(world: World) -> World:
    """The same without anything slow or lost."""
    return world._replace(slow_connections=0.0, slow_executors=0.0, lost_an_hour=0.0)


def job_of(world: World, pace: ExpectedPace | None = None, cut: SharesCut | None = None) -> Job:
    """Draw the manifest and cut it, as the driver does."""
    dice = np.random.default_rng([world.seed, 1])
    drawn = np.exp(dice.normal(np.log(world.median_bytes), world.sigma, world.files))
    sizes = np.minimum(np.maximum(drawn, 1.0), world.largest_bytes).astype(np.int64)
    weights = 1.0 / np.arange(1, world.hosts + 1) ** world.zipf
    host_of = dice.choice(world.hosts, size=world.files, p=weights / weights.sum())
    if cut is None:
        pace = pace or ExpectedPace(concurrency=world.concurrency)
        cut = cut_shares(sizes.tolist(), host_of.tolist(), pace=pace, slots=world.tasks)
    shared = count_sharers(cut, host_of.tolist(), slots=world.tasks)
    batch_of = np.frombuffer(cut.share_of, dtype=np.uint32)
    order = np.argsort(batch_of, kind="stable")
    starts = np.searchsorted(batch_of[order], np.arange(len(cut.cost_s) + 1))
    return Job(sizes, host_of, cut, shared, order, starts, ideal_s(world, sizes))


def ideal_s(world: World, sizes: "npt.NDArray[np.int64]") -> float:
    """What no order of work can be faster than: all connections, or all tasks' bandwidth, busy to the end."""
    total = float(sizes.sum())
    slow = round(world.executors * world.slow_executors)
    capacity = world.slots * (world.executors - slow + slow / world.slow_executor_by)
    alone_s = (len(sizes) * world.latency_s + total / world.connection_bps) / world.concurrency
    return max(alone_s, total / world.task_bps) / capacity


class Flow:
    """An attempt at one entry. ``left``: bytes that it has to bring; ``weight`` of its connection."""

    __slots__ = ("left", "mitigations", "over", "place", "start_s", "v_end", "weight")

    def __init__(self, place: int, left: float, weight: float, mitigations: int, now_s: float) -> None:
        self.place = place
        self.left = left
        self.weight = weight
        self.mitigations = mitigations
        self.start_s = now_s
        self.v_end = inf
        self.over = False


def most_at_once(intervals: tuple["array[int]", "array[float]", "array[float]"]) -> dict[int, int]:
    """By host, the most connections at a time."""
    hosts, starts, ends = (np.asarray(one) for one in intervals)
    found: dict[int, int] = {}
    for host in np.unique(hosts):
        mine = hosts == host
        times = np.concatenate([ends[mine], starts[mine]])
        steps = np.repeat([-1, 1], mine.sum())
        found[int(host)] = int(np.cumsum(steps[np.lexsort((steps, times))]).max(initial=0))
    return found
