"""What runs have learned about hosts, as a value: kept in the state, so that the next run begins with it."""

import heapq
import math

import msgspec

__all__ = ["MAX_SPREAD", "MOST_HOSTS", "NOTHING", "HostKnowledge", "Knowledge", "aged", "is_sound", "merged"]

HALF_LIFE_S = 7 * 86_400.0  # networks and servers change by the week
LEAST_WEIGHT = 1.0  # less than one file's word
MOST_WEIGHT = 256.0  # else a year of runs would outvote a hundred files of today; gone after eight weeks
MAX_SPREAD = 2.0  # a sigma beyond it (a factor of 7) says that the line does not fit, not what is normal
MAX_LATENCY_S = 3600.0  # nobody waits longer for a first byte
LEAST_BPS, MOST_BPS = 1e-6, 1e12  # a byte in minutes is slow enough, and no host sends a terabyte a second
MOST_HOSTS = 512  # some 100 KB of file; a run knows its own hosts after a few files anyway


class HostKnowledge(msgspec.Struct, frozen=True):
    """How one connection to a host was: seconds to the first byte, bytes per second after it.

    ``spread`` is the sigma of the natural logarithm of measured over predicted durations. ``weight``: of how
    many files, less for older ones. ``wall_s``: when it was learned, in seconds since 1970 UTC.
    """

    latency_s: float
    rate_bps: float
    spread: float
    weight: float
    wall_s: float


class Knowledge(msgspec.Struct, frozen=True):
    """By host name, as in ``Entry.url.host()``."""

    schema: str = "cfetch.baseline/1"
    hosts: dict[str, HostKnowledge] = {}


NOTHING = Knowledge()


def is_sound(host: HostKnowledge) -> bool:
    """Whether these are numbers that a run can have measured."""
    finite = all(map(math.isfinite, msgspec.structs.astuple(host)))
    return (
        finite
        and LEAST_BPS <= host.rate_bps <= MOST_BPS
        and 0 <= host.latency_s <= MAX_LATENCY_S
        and 0 <= host.spread <= MAX_SPREAD
        and host.weight >= 0
    )


def aged(knowledge: Knowledge, wall_s: float) -> Knowledge:
    """What it is worth at ``wall_s``: the weight halves every week, and what has none left is dropped.

    What was learned in the future (a clock was wrong) counts as learned now.
    """
    return Knowledge(
        hosts={name: old for name, one in knowledge.hosts.items() if (old := _aged(one, wall_s))}
    )


def merged(old: Knowledge, new: Knowledge, wall_s: float) -> Knowledge:
    """Both, each by its weight at ``wall_s``; of too many hosts those with most weight."""
    hosts = aged(old, wall_s).hosts
    for name, one in aged(new, wall_s).hosts.items():
        before = hosts.get(name)
        hosts[name] = one if before is None else _together(before, one)
    kept = heapq.nlargest(MOST_HOSTS, hosts.items(), key=lambda item: item[1].weight)
    return Knowledge(hosts=dict(kept))


def _aged(host: HostKnowledge, wall_s: float) -> HostKnowledge | None:
    age_s = max(0.0, wall_s - host.wall_s)
    weight = min(host.weight, MOST_WEIGHT) * 0.5 ** (age_s / HALF_LIFE_S)
    return msgspec.structs.replace(host, weight=weight, wall_s=wall_s) if weight >= LEAST_WEIGHT else None


def _together(one: HostKnowledge, other: HostKnowledge) -> HostKnowledge:
    total = one.weight + other.weight
    share, rest = one.weight / total, other.weight / total
    return HostKnowledge(
        latency_s=share * one.latency_s + rest * other.latency_s,
        rate_bps=math.exp(share * math.log(one.rate_bps) + rest * math.log(other.rate_bps)),
        spread=min(share * one.spread + rest * other.spread, MAX_SPREAD),
        weight=min(total, MOST_WEIGHT),
        wall_s=max(one.wall_s, other.wall_s),
    )
