"""Cuts a plan into shares for tasks, by the seconds that each share is expected to take. Pure.

Seconds count, not bytes: a million small files and one huge file are both slow. All files of a host go into
one share if one task can bear them, and several small hosts go into one share; then one task alone keeps the
limits of a host. A larger host is divided among several shares. A file that takes as long as a whole share is
a share of its own. The longest shares begin first, and among shares of about the same length the hosts take
turns, so that one host that throttles does not hold all tasks at a time. The division follows the placement's
rule for sizes that are known beforehand: the longest first, each to the share that has least.
"""

from array import array
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from cfetch.engine.placement.chooser import spread

SHARES_PER_SLOT = 4  # so that the last shares make up for wrong estimates of the first ones
SHORTEST_S = 10.0  # a task costs some 50 ms of its own, and a round of tasks on all slots some 300 ms
LONGEST_S = 120.0  # the most that the loss of an executor costs
SLACK = 1.02  # files are not divided, so shares differ; without slack one share more would need a round
MOST_FILES = 20_000  # of a share: they are in the memory of a task
MICRO = 1_000_000


class ExpectedPace(NamedTuple):
    """The expected speed of a task: time to a file's first byte, bytes a second, files at a time."""

    latency_s: float = 0.05
    rate_bps: float = 30e6
    concurrency: int = 16

    def cost_s(self, files: int, size_bytes: float) -> float:
        """Seconds for so many files of so many bytes together."""
        return files * self.latency_s / self.concurrency + size_bytes / self.rate_bps


class SharesCut(NamedTuple):
    """``share_of``: the share of each entry, from 0; ``cost_s``: the expected seconds of each share."""

    share_of: "array[int]"
    cost_s: list[float]

    def list_members(self, indexes: Sequence[int]) -> "list[array[int]]":
        """Which of ``indexes``, the entries that were cut, belong to each share."""
        members: list[array[int]] = [array("I") for _ in self.cost_s]
        for position, share in enumerate(self.share_of):
            members[share].append(indexes[position])
        return members


def cut_shares(
    sizes: Sequence[int],
    host_of: Sequence[int],
    *,
    pace: ExpectedPace,
    slots: int,
    batch_of: Sequence[int] | None = None,
) -> SharesCut:
    """Cut shares for ``slots`` tasks at a time; no batch is divided.

    ``sizes`` are bytes, -1 for unknown, which counts as the mean. ``batch_of``: each entry's named batch, -1
    for none.
    """
    known = sum(size >= 0 for size in sizes)
    mean = sum(size for size in sizes if size >= 0) / known if known else 1.0
    costs = array("q", (int(MICRO * pace.cost_s(1, size if size >= 0 else mean)) for size in sizes))
    target = choose_target(sum(costs) / MICRO, slots)
    if batch_of is None:
        return deal_items(costs, array("B", b"\1") * len(costs), host_of, target=target)
    items = _group_batches(costs, host_of, batch_of)
    dealt = deal_items(items.costs, items.files, items.hosts, target=target)
    return dealt._replace(share_of=array("I", (dealt.share_of[item] for item in items.item_of)))


class _Items(NamedTuple):
    """Batches and lone entries: ``item_of`` gives each entry's; a batch counts at its first entry's host."""

    item_of: "array[int]"
    costs: "array[int]"
    files: "array[int]"
    hosts: "array[int]"


def _group_batches(costs: Sequence[int], host_of: Sequence[int], batch_of: Sequence[int]) -> _Items:
    items = _Items(array("I"), array("q"), array("I"), array("I"))
    numbers: dict[int, int] = {}
    for cost, host, batch in zip(costs, host_of, batch_of, strict=True):
        item = len(items.costs) if batch < 0 else numbers.setdefault(batch, len(items.costs))
        if item == len(items.costs):
            items.costs.append(0)
            items.files.append(0)
            items.hosts.append(host)
        items.costs[item] += cost
        items.files[item] += 1
        items.item_of.append(item)
    return items


def deal_items(
    costs: Sequence[int], files: Sequence[int], host_of: Sequence[int], *, target: int
) -> SharesCut:
    """Make shares of about ``target`` of items, which are files, or groups of files of one host.

    Costs are microseconds; ``files``: how many files an item is. An item that takes so long is a share alone.
    """
    by_host: dict[int, array[int]] = {}
    shares: list[array[int]] = []
    for item, cost in enumerate(costs):
        if cost >= target:
            shares.append(array("I", [item]))
        else:
            by_host.setdefault(host_of[item], array("I")).append(item)
    small: list[tuple[int, int, array[int]]] = []
    for items in by_host.values():
        cost, count = sum(costs[item] for item in items), sum(files[item] for item in items)
        queues = count_shares(cost, count, target)
        if queues == 1:
            small.append((cost, count, items))
        else:
            shares += _deal_out(items, array("q", (costs[item] for item in items)), queues)
    loads = [cost for cost, _, _ in small]
    queues = count_shares(sum(loads), sum(count for _, count, _ in small), target)
    for hosts in _deal_out(range(len(small)), loads, queues) if small else []:
        shares.append(array("I", (item for host in hosts for item in small[host][2])))
    filled = [(sum(costs[item] for item in items), items) for items in shares if items]
    filled.sort(key=lambda pair: pair[0], reverse=True)
    filled = _let_hosts_take_turns(filled, [host_of[items[0]] for _, items in filled], target)
    share_of = array("I", bytes(4 * len(costs)))
    for share, (_, items) in enumerate(filled):
        for item in items:
            share_of[item] = share
    return SharesCut(share_of, [cost / MICRO for cost, _ in filled])


def _let_hosts_take_turns(
    filled: "Sequence[tuple[int, array[int]]]", hosts: Sequence[int], target: int
) -> "list[tuple[int, array[int]]]":
    """Spread the shares of each host evenly over the job, so that no time belongs to one host alone.

    ``filled``: cost and items of the shares, the longest first; ``hosts``: the host of each. Shares longer
    than ``target`` stay in front, and those shorter than half of it at the end, where they fill gaps.
    """
    shares_of, turns = Counter(hosts), Counter[int]()
    keys = []
    for (cost, _), host in zip(filled, hosts, strict=True):
        turns[host] += 1
        if target <= 2 * cost and cost <= SLACK * target:
            keys.append((1, turns[host] / shares_of[host]))
        else:
            keys.append((0 if cost > target else 2, 0.0))
    return [filled[place] for place in sorted(range(len(filled)), key=keys.__getitem__)]


def count_sharers(cut: SharesCut, host_of: Sequence[int], *, slots: int) -> list[int]:
    """Count for each share the tasks that ask its busiest host at a time, its own task among them."""
    hosts_of: list[set[int]] = [set() for _ in cut.cost_s]
    for share, host in zip(cut.share_of, host_of, strict=True):
        hosts_of[share].add(host)
    shares_of = Counter(host for hosts in hosts_of for host in hosts)
    return [min(slots, max(shares_of[host] for host in hosts)) for hosts in hosts_of]


def find_floors(
    cut: SharesCut, sizes: Sequence[int], host_of: Sequence[int], *, pace: ExpectedPace, per_host: int | None
) -> dict[int, float]:
    """The least seconds that each host's files take, however many slots there are.

    It is the larger of two times: the host's longest share without other hosts, and all of its files over
    ``per_host`` connections.
    """
    floors: dict[int, float] = {}
    hosts_of: dict[int, set[int]] = {}
    for share, host in zip(cut.share_of, host_of, strict=True):
        hosts_of.setdefault(share, set()).add(host)
    for share, hosts in hosts_of.items():
        if len(hosts) == 1:
            (host,) = hosts
            floors[host] = max(floors.get(host, 0.0), cut.cost_s[share])
    if per_host is not None:
        files = Counter(host_of)
        known: Counter[int] = Counter()
        for size, host in zip(sizes, host_of, strict=True):
            known[host] += max(size, 0)
        for host, count in files.items():
            alone_s = pace.cost_s(count, known[host]) * pace.concurrency / per_host
            floors[host] = max(floors.get(host, 0.0), alone_s)
    return floors


def choose_target(total_s: float, slots: int) -> int:
    """The microseconds that a share should take: a few shares for each slot, but none too short or long."""
    wanted_s = min(max(total_s / (SHARES_PER_SLOT * slots), SHORTEST_S), LONGEST_S)
    rounds = max(1, round(total_s / wanted_s / slots))  # a slot without a share would be idle
    return max(1, int(MICRO * SLACK * total_s / (rounds * slots)))


def count_shares(cost: int, files: int, target: int) -> int:
    """The number of shares for so much work."""
    return max(1, round(cost / target), -(-files // MOST_FILES))


def _deal_out(items: Sequence[int], costs: Sequence[int], queues: int) -> "list[array[int]]":
    """The items of each queue, with queues as even as their costs allow."""
    hands: list[array[int]] = [array("I") for _ in range(queues)]
    for item, queue in zip(items, spread(costs, queues), strict=True):
        hands[queue].append(item)
    return hands
