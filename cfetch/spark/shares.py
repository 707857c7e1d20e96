"""A plan cut into batches for tasks, by the seconds that each is expected to take. Pure.

Seconds, and not bytes: a million small files and one huge one are both slow. A host that one batch can bear
goes into one batch as a whole, small hosts together; so its limits are one task's matter. A larger host is
dealt to several. A file that is a batch's worth is one. The longest batches are the first to be begun. All by
the placement's rule for what is known beforehand: the longest first, each to whom bears the least.
"""

from array import array
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from cfetch.placement.chooser import spread

__all__ = ["Pace", "Shares", "floors", "sharers", "shares"]

BATCHES_A_SLOT = 4  # so that the last ones even out what the first were wrong about
SHORTEST_S = 10.0  # a task costs some 50 ms of its own, and a round of them on all slots some 300
LONGEST_S = 120.0  # what the loss of an executor costs at most
SLACK = 1.02  # files are whole: else there is often a batch more than the slots divide, and a round for it
MOST_FILES = 20_000  # of a batch: they are in the memory of a task
MICRO = 1_000_000


class Pace(NamedTuple):
    """What a task is expected to do: the time to a file's first byte, its bytes a second, files at a time."""

    latency_s: float = 0.05
    rate_bps: float = 30e6
    concurrency: int = 16

    def cost_s(self, files: int, size_bytes: float) -> float:
        """Seconds for so many files of so many bytes together."""
        return files * self.latency_s / self.concurrency + size_bytes / self.rate_bps


class Shares(NamedTuple):
    """``batch_of``: the batch of each entry, from 0; ``cost_s``: of each batch."""

    batch_of: "array[int]"
    cost_s: list[float]


def shares(sizes: Sequence[int], host_of: Sequence[int], *, pace: Pace, slots: int) -> Shares:
    """Batches for ``slots`` tasks at a time.

    ``sizes`` are bytes, -1 for unknown, which counts as the mean.
    """
    known = [size for size in sizes if size >= 0]
    mean = sum(known) / len(known) if known else 1.0
    costs = [int(MICRO * pace.cost_s(1, size if size >= 0 else mean)) for size in sizes]
    total_s = sum(costs) / MICRO
    target = int(MICRO * target_s(total_s, slots))
    by_host: dict[int, list[int]] = {}
    found: list[list[int]] = []
    for entry, cost in enumerate(costs):
        if cost >= target:
            found.append([entry])
        else:
            by_host.setdefault(host_of[entry], []).append(entry)
    small: list[list[int]] = []
    for entries in by_host.values():
        queues = queues_for(sum(costs[one] for one in entries), len(entries), target)
        if queues == 1:
            small.append(entries)
            continue
        found += dealt_to(entries, [costs[one] for one in entries], queues)
    loads = [sum(costs[one] for one in entries) for entries in small]
    bins = queues_for(sum(loads), sum(map(len, small)), target)
    for hosts in dealt_to(list(range(len(small))), loads, bins) if small else []:
        found.append([entry for host in hosts for entry in small[host]])
    batch_of = array("I", bytes(4 * len(sizes)))
    filled = [(sum(costs[one] for one in entries), entries) for entries in found if entries]
    filled.sort(key=lambda one: one[0], reverse=True)
    for batch, (_, entries) in enumerate(filled):
        for entry in entries:
            batch_of[entry] = batch
    return Shares(batch_of, [cost / MICRO for cost, _ in filled])


def sharers(cut: Shares, host_of: Sequence[int], *, slots: int) -> list[int]:
    """With how many others at a time, itself among them, each batch shares the host that is asked most."""
    hosts_of: list[set[int]] = [set() for _ in cut.cost_s]
    for batch, host in zip(cut.batch_of, host_of, strict=True):
        hosts_of[batch].add(host)
    batches_of = Counter(host for hosts in hosts_of for host in hosts)
    return [min(slots, max(batches_of[host] for host in hosts)) for hosts in hosts_of]


def floors(
    cut: Shares, sizes: Sequence[int], host_of: Sequence[int], *, pace: Pace, per_host: int | None
) -> dict[int, float]:
    """Seconds that each host's files take however many slots there are.

    Its longest batch, as what stands in one is one task's; and all of it by ``per_host`` connections.
    """
    found: dict[int, float] = {}
    batches: dict[int, set[int]] = {}
    for batch, host in zip(cut.batch_of, host_of, strict=True):
        batches.setdefault(batch, set()).add(host)
    for batch, hosts in batches.items():
        if len(hosts) == 1:
            (host,) = hosts
            found[host] = max(found.get(host, 0.0), cut.cost_s[batch])
    if per_host is not None:
        files = Counter(host_of)
        known: Counter[int] = Counter()
        for size, host in zip(sizes, host_of, strict=True):
            known[host] += max(size, 0)
        for host, count in files.items():
            alone_s = pace.cost_s(count, known[host]) * pace.concurrency / per_host
            found[host] = max(found.get(host, 0.0), alone_s)
    return found


def target_s(total_s: float, slots: int) -> float:
    """What a batch is to take: a few for each slot, but no shorter and no longer than makes sense."""
    wanted_s = min(max(total_s / (BATCHES_A_SLOT * slots), SHORTEST_S), LONGEST_S)
    rounds = max(1, round(total_s / wanted_s / slots))  # a slot without a batch would be idle
    return max(SLACK * total_s / (rounds * slots), 1e-6)


def queues_for(cost: int, files: int, target: int) -> int:
    return max(1, round(cost / target), -(-files // MOST_FILES))


def dealt_to(items: Sequence[int], costs: Sequence[int], queues: int) -> list[list[int]]:
    dealt: list[list[int]] = [[] for _ in range(queues)]
    for item, queue in zip(items, spread(costs, queues), strict=True):
        dealt[queue].append(item)
    return dealt
