"""Leases: each task's part of the connections that all tasks together may have to a host. Pure.

Leases are max-min fair: a task has less than another only if it wants no more, or if the rest cannot be
divided. A lease is granted only out of free connections, never out of those that another task may still use:
a task whose part shrinks keeps its connections under way, and reports their number at its next beat. So there
are never more than the limit allows. A host without a limit has no leases; its connections are only counted.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, TypeVar

TURN_S = 10.0  # with fewer connections than tasks, the tasks take turns, each of a few files
SETTLED_S = 0.5  # between two divisions, at least: a task beats once a second

K = TypeVar("K")


class Demand(NamedTuple):
    """A task at one host: the connections it has, the lease it follows, and the connections it can use.

    As it states its lease, a lost message costs nothing: the hub need not remember its last answer.
    """

    has: int
    lease: int
    wants: int


class _Claim(NamedTuple):
    wants: int
    has: int
    held: int  # the task may have so many until its next beat


class _Host:
    def __init__(self) -> None:
        self.claims: dict[int, _Claim] = {}
        self.has = self.held = 0
        self.parts: dict[int, int] = {}
        self.found_s: float | None = None  # when the parts were found; None: they have to be found anew

    def put(self, task: int, claim: _Claim | None) -> None:
        before = self.claims.pop(task, None)
        self.held += (claim.held if claim else 0) - (before.held if before else 0)
        self.has += (claim.has if claim else 0) - (before.has if before else 0)
        if claim is not None:
            self.claims[task] = claim
        if (before is None) is not (claim is None):
            self.found_s = None


def divide_fairly(wants: Mapping[K, int], most: int, first: Iterable[K]) -> dict[K, int]:
    """Max-min fair parts of ``most``, by claimant: none gets more than it wants; no wanted one stays free.

    A rest that cannot be divided evenly goes to the claimants that come ``first`` (all, in order).
    """
    level, left = 0, most
    at_level = sorted(wants.values())
    for place, want in enumerate(at_level):  # raise the level while all that want more can have it
        step = min(want - level, left // (len(at_level) - place))
        level += step
        left -= step * (len(at_level) - place)
        if level < want:
            break
    parts = {claimant: min(want, level) for claimant, want in wants.items()}
    for claimant in first:
        if left and wants[claimant] > level:
            parts[claimant] += 1
            left -= 1
    return parts


class Leases:
    """``limit_of``: connections to a host at a time, by its name and the time; None: it has no limit.

    Times are seconds on one monotonic clock.
    """

    def __init__(self, limit_of: Callable[[str, float], int | None]) -> None:
        self._limit_of = limit_of
        self._hosts: dict[str, _Host] = {}
        self._hosts_of: dict[int, frozenset[str]] = {}

    def take_demands(self, task: int, demands: Mapping[str, Demand], now_s: float) -> dict[str, int]:
        """Note the task's connections and wants at all its hosts. Returns its leases from now on."""
        for name in self._hosts_of.get(task, frozenset()) - demands.keys():
            self._put(name, task, None)
        self._hosts_of[task] = frozenset(demands)
        granted = {name: self._grant(name, task, demand, now_s) for name, demand in demands.items()}
        return {name: lease for name, lease in granted.items() if lease is not None}

    def forget(self, task: int) -> None:
        """Forget a task that has ended, or was silent for so long that it uses no lease any more."""
        for name in self._hosts_of.pop(task, frozenset()):
            self._put(name, task, None)

    def count_used(self, name: str, *, without: int | None = None) -> int:
        """How many connections tasks had to a host at their last beats; ``without``: all but this task."""
        host = self._hosts.get(name)
        if host is None:
            return 0
        left_out = None if without is None else host.claims.get(without)
        return host.has - (left_out.has if left_out is not None else 0)

    def _put(self, name: str, task: int, claim: _Claim | None) -> None:
        host = self._hosts.setdefault(name, _Host())
        host.put(task, claim)
        if not host.claims:
            del self._hosts[name]

    def _grant(self, name: str, task: int, demand: Demand, now_s: float) -> int | None:
        uses = max(demand.has, demand.lease)
        self._put(name, task, _Claim(demand.wants, demand.has, uses))
        most = self._limit_of(name, now_s)
        if most is None:
            return None
        host = self._hosts[name]
        if host.found_s is None or now_s - host.found_s >= SETTLED_S:
            self._find_parts(host, most, now_s)
        part = host.parts[task]
        lease = min(part, uses + max(0, most - host.held))
        host.put(task, _Claim(demand.wants, demand.has, max(uses, lease)))
        return lease

    def _find_parts(self, host: _Host, most: int, now_s: float) -> None:
        wants = {task: claim.wants for task, claim in host.claims.items()}
        asking = sum(want > 0 for want in wants.values())
        if asking > most:  # some tasks have none: other ones in each turn
            order = sorted(wants)
            start = int(now_s / TURN_S) * most % len(order)
            first = order[start:] + order[:start]
        else:  # a task keeps what it has
            first = sorted(wants, key=lambda task: (-host.claims[task].held, task))
        host.parts = divide_fairly(wants, most, first)
        host.found_s = now_s
