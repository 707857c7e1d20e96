"""The knowledge that runs have about hosts; the state keeps it, and the next run begins with it."""

import heapq
import math
from collections.abc import Mapping

import msgspec

HALF_LIFE_S = 7 * 86_400.0  # networks and servers change by the week
LEAST_WEIGHT = 1.0  # the weight of one file; a lighter host is dropped
MOST_WEIGHT = 256.0  # more would let a year of runs outvote a hundred new files; it fades in eight weeks
MAX_SPREAD = 2.0  # a larger sigma (a factor of 7) means that the line does not fit
MAX_LATENCY_S = 3600.0  # no run waits longer for a first byte
LEAST_BPS, MOST_BPS = 1e-6, 1e12  # no host is slower than a byte in days, or faster than 1 TB/s
CURED_S = 7 * 86_400.0  # after this time the cure is found anew, which takes a second
MOST_CURE_BYTES = 1 << 50
MOST_SERVED = 1 << 16  # no client has more ports
MOST_HOSTS = 512  # some 100 KB of file; a run knows its own hosts after a few files anyway


class HostKnowledge(msgspec.Struct, frozen=True):
    """How fast one connection to a host was: seconds to the first byte, bytes a second after it.

    ``spread`` is the sigma of the natural logarithm of measured over predicted durations. ``weight``: the
    number of files behind it, less for older ones. ``wall_s``: when it was learned, in seconds since 1970
    UTC. ``chunk_bytes``, ``warms`` and ``retire_bytes`` say how the host is best asked (``Cure``), as a run
    found at ``cured_wall_s``; ``cured_bps`` is the rate of the witness for the last two, by which the next
    run sees whether they still help. ``serves``: the number of connections that were served at a time while
    further ones hung; 0: none hung.
    """

    latency_s: float
    rate_bps: float
    spread: float
    weight: float
    wall_s: float
    chunk_bytes: int = 0
    warms: bool = False
    retire_bytes: int = 0
    cured_wall_s: float = 0.0
    cured_bps: float = 0.0
    serves: int = 0


class Knowledge(msgspec.Struct, frozen=True):
    """``hosts`` by name, as in ``Entry.url.host()``."""

    schema: str = "cfetch.baseline/1"
    hosts: dict[str, HostKnowledge] = {}


NOTHING = Knowledge()


def is_sound(host: HostKnowledge) -> bool:
    """Whether a run can have measured these numbers."""
    finite = all(map(math.isfinite, msgspec.structs.astuple(host)))
    return (
        finite
        and LEAST_BPS <= host.rate_bps <= MOST_BPS
        and 0 <= host.latency_s <= MAX_LATENCY_S
        and 0 <= host.spread <= MAX_SPREAD
        and host.weight >= 0
        and 0 <= host.chunk_bytes <= MOST_CURE_BYTES
        and 0 <= host.retire_bytes <= MOST_CURE_BYTES
        and 0 <= host.cured_bps <= MOST_BPS
        and 0 <= host.serves <= MOST_SERVED
    )


def age_knowledge(knowledge: Knowledge, wall_s: float) -> Knowledge:
    """The knowledge as it counts at ``wall_s``: weights halve every week, light hosts are dropped.

    A host that was learned in the future (a clock was wrong) counts as learned now.
    """
    return Knowledge(
        hosts={name: old for name, host in knowledge.hosts.items() if (old := _age_host(host, wall_s))}
    )


def add_served(learned: Knowledge, served: Mapping[str, int], known: Knowledge, wall_s: float) -> Knowledge:
    """Add how many connections hosts serve at a time; numbers that were ``known`` before keep their age."""
    hosts = dict(learned.hosts)
    for name in served.keys() & hosts.keys():
        before = known.hosts.get(name)
        is_old = before is not None and before.serves == served[name]
        found_s = before.cured_wall_s if is_old and before is not None else wall_s
        cured_wall_s = max(hosts[name].cured_wall_s, found_s)
        hosts[name] = msgspec.structs.replace(hosts[name], serves=served[name], cured_wall_s=cured_wall_s)
    return Knowledge(hosts=hosts)


def merge_knowledge(old: Knowledge, new: Knowledge, wall_s: float) -> Knowledge:
    """Join both, each by its weight at ``wall_s``; if there are too many hosts, the heaviest stay."""
    hosts = age_knowledge(old, wall_s).hosts
    for name, host in age_knowledge(new, wall_s).hosts.items():
        before = hosts.get(name)
        hosts[name] = host if before is None else _merge_hosts(before, host)
    kept = heapq.nlargest(MOST_HOSTS, hosts.items(), key=lambda item: item[1].weight)
    return Knowledge(hosts=dict(kept))


def _age_host(host: HostKnowledge, wall_s: float) -> HostKnowledge | None:
    age_s = max(0.0, wall_s - host.wall_s)
    weight = min(host.weight, MOST_WEIGHT) * 0.5 ** (age_s / HALF_LIFE_S)
    if weight < LEAST_WEIGHT:
        return None
    if not 0 <= wall_s - host.cured_wall_s <= CURED_S:
        return HostKnowledge(host.latency_s, host.rate_bps, host.spread, weight, wall_s)
    return msgspec.structs.replace(host, weight=weight, wall_s=wall_s)


def _merge_hosts(before: HostKnowledge, host: HostKnowledge) -> HostKnowledge:
    total = before.weight + host.weight
    share, rest = before.weight / total, host.weight / total
    return msgspec.structs.replace(  # the later run knew how the earlier run asked the host
        host,
        latency_s=share * before.latency_s + rest * host.latency_s,
        rate_bps=math.exp(share * math.log(before.rate_bps) + rest * math.log(host.rate_bps)),
        spread=min(share * before.spread + rest * host.spread, MAX_SPREAD),
        weight=min(total, MOST_WEIGHT),
        wall_s=max(before.wall_s, host.wall_s),
    )
