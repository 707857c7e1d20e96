"""Bytes as a fluid: each flow has a rate at any time, and its future is computed exactly.

The link is shared by max-min fairness (``max_min``, as in the real origin), which long TCP flows with equal
round trips approach. Rates change only when a flow begins, ends or meets another limit, or when the network
changes. So there are no time steps, and no errors from them: at each change the affected flows are settled
(bytes so far are added up), get their new rate, and set one timer for their next mark. A change costs O(1) on
a link that is not full, and O(n log n) for n flows on a full one.
"""

import asyncio
import math
from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter

from cfetch.base.clock import RunClock
from cfetch.plugins.lab.bench.network import NetworkModel, drown_factor, factor_at
from cfetch.plugins.lab.bench.pacing import max_min

FASTEST_BPS = 1e15  # the rate of a connection without limits
GRAIN_S = 2e-9  # twice the resolution of an event loop's clock, by which a timer may be early


@dataclass(slots=True, eq=False)
class Flow:
    """The bytes of one reply on their way.

    ``got`` bytes have come; ``on_due`` is called when it is ``mark`` bytes, or at time ``wake_s``.
    ``limit_bps``: the rate of its connection without changes of the network.
    """

    host: int
    limit_bps: float
    on_due: Callable[[], None]
    got: float = 0.0
    mark: float = 0.0
    wake_s: float = math.inf
    rate_bps: float = 0.0
    cap_bps: float = 0.0
    settled_s: float = 0.0
    timer: asyncio.TimerHandle | None = None
    timer_s: float = math.inf


class SimLink:
    """The link that all flows share. Make it inside the virtual loop, at the run's start."""

    def __init__(self, network: NetworkModel, clock: RunClock) -> None:
        self._network = network
        self._loop = asyncio.get_running_loop()
        self._clock = clock
        self._flows: dict[Flow, None] = {}  # in the order of their starts
        self._crowds = [0] * len(network.hosts)  # flows by host
        self._is_full = False
        self._factors = [1.0] * len(network.hosts)
        self._link_bps = network.link_bps
        self._read_factors()
        for change in network.changes:
            for at_s in (change.at_s, change.until_s):
                if at_s is not None and at_s > 0:
                    self._loop.call_later(at_s - clock.now(), self._apply_change)

    def now(self) -> float:
        """Seconds of the run."""
        return self._clock.now()

    def factor(self, host: int) -> float:
        """How many times as long everything takes at ``host`` now."""
        return self._factors[host]

    def start(self, flow: Flow) -> None:
        """Let the bytes of ``flow`` move."""
        flow.settled_s = self._loop.time()
        self._flows[flow] = None
        self._crowd(flow.host, 1)
        flow.cap_bps = self._cap(flow)
        self._divide_rate(flow)

    def stop(self, flow: Flow) -> None:
        """Stop ``flow``; harmless when it has stopped already."""
        if flow in self._flows:
            self.settle(flow)
            del self._flows[flow]
            flow.rate_bps = 0.0
            if flow.timer is not None:
                flow.timer.cancel()
                flow.timer = None
            self._crowd(flow.host, -1)
            self._divide_rate(None)

    def limit(self, flow: Flow, limit_bps: float) -> None:
        """Change the rate that the connection of ``flow`` can carry."""
        flow.limit_bps = limit_bps
        if flow in self._flows:
            flow.cap_bps = self._cap(flow)
            self._divide_rate(flow)

    def settle(self, flow: Flow) -> None:
        """Bring ``got`` up to now."""
        now_s = self._loop.time()
        got = flow.got + flow.rate_bps * (now_s - flow.settled_s)
        flow.settled_s = now_s
        flow.got = flow.mark if got >= flow.mark - max(flow.rate_bps * GRAIN_S, 1e-3) else got

    def arm(self, flow: Flow) -> None:
        """Set the timer for ``on_due`` after a change of ``mark``, ``wake_s`` or the rate."""
        due_s = flow.wake_s
        if flow.rate_bps > 0:
            due_s = min(due_s, flow.settled_s + (flow.mark - flow.got) / flow.rate_bps)
        if flow.timer is not None:
            if flow.timer_s <= due_s:
                return  # that timer will look again
            flow.timer.cancel()
            flow.timer = None
        if due_s < math.inf:
            flow.timer_s = due_s
            flow.timer = self._loop.call_at(due_s, self._fire, flow)

    def _fire(self, flow: Flow) -> None:
        flow.timer = None
        self.settle(flow)
        if flow.got >= flow.mark or self._loop.time() >= flow.wake_s - GRAIN_S:
            flow.on_due()
        else:
            self.arm(flow)

    def _cap(self, flow: Flow) -> float:
        rate_bps = min(flow.limit_bps, FASTEST_BPS) / self._factors[flow.host]
        return rate_bps * drown_factor(self._network, self._crowds[flow.host])

    def _crowd(self, host: int, more: int) -> None:
        """Count a flow that begins or ends; if its host drowns, the caps of all its flows change."""
        before = drown_factor(self._network, self._crowds[host])
        self._crowds[host] += more
        if drown_factor(self._network, self._crowds[host]) != before:
            for flow in self._flows:
                if flow.host == host:
                    flow.cap_bps = self._cap(flow)
            self._divide_all()

    def _read_factors(self) -> None:
        now_s = self.now() + GRAIN_S
        network = self._network
        self._factors = [factor_at(network, host, now_s) for host in range(len(network.hosts))]
        if network.link_bps is not None:
            self._link_bps = network.link_bps / factor_at(network, None, now_s)

    def _apply_change(self) -> None:
        self._read_factors()
        for flow in self._flows:
            self.settle(flow)
            flow.cap_bps = self._cap(flow)
        self._divide_all()

    def _divide_rate(self, changed: Flow | None) -> None:
        """Give every flow its rate; only the limit of ``changed`` is new."""
        if self._link_bps is None:
            if changed is not None:
                self._run(changed, changed.cap_bps)
            return
        was_full = self._is_full
        self._is_full = sum([flow.cap_bps for flow in self._flows]) > self._link_bps
        if was_full or self._is_full:
            self._divide_all()
        elif changed is not None:
            self._run(changed, changed.cap_bps)

    def _divide_all(self) -> None:
        link_bps = math.inf if self._link_bps is None else self._link_bps
        self._is_full = sum([flow.cap_bps for flow in self._flows]) > link_bps
        if not self._is_full:
            for flow in self._flows:
                self._run(flow, flow.cap_bps)
            return
        flows = sorted(self._flows, key=attrgetter("cap_bps"))
        for flow, rate_bps in zip(flows, max_min([flow.cap_bps for flow in flows], link_bps), strict=True):
            self._run(flow, rate_bps)

    def _run(self, flow: Flow, rate_bps: float) -> None:
        if rate_bps != flow.rate_bps:
            self.settle(flow)
            flow.rate_bps = rate_bps
            self.arm(flow)
