"""Bodies at a pace: each within its connection's rate, all together within the link's, shared max-min.

Bytes are counted out for all bodies in one go, as a fluid: that costs the same however fast they are.
"""

import asyncio
import math
from collections.abc import Callable, Sequence
from typing import Protocol

__all__ = ["Paced", "Pacer", "max_min"]

STEP_S = 0.002  # how often bytes are counted out: so late a body may end; 64 bodies cost an eighth of a core


class Paced(Protocol):
    """A body on its way. ``since_s``: when it began, on the loop's clock."""

    since_s: float

    def cap_bps(self) -> float:
        """The most it takes now, whatever the link has."""

    def grant(self, count: float, now_s: float) -> None:
        """It may send so many bytes more, of which a fraction may be left over for later."""


def max_min(caps: Sequence[float], total: float) -> list[float]:
    """Shares of ``total``: nobody beyond its cap, and none less than another that could give.

    Progressive filling (Bertsekas and Gallager, Data Networks, 2nd edition, 6.5.2).
    """
    if math.isinf(total):
        return list(caps)
    shares = [0.0] * len(caps)
    for place, index in enumerate(sorted(range(len(caps)), key=caps.__getitem__)):
        shares[index] = min(caps[index], total / (len(caps) - place))
        total -= shares[index]
    return shares


class Pacer:
    """Counts bytes out to the bodies that are on their way; asleep while there are none.

    ``link_bps``: what all together have now.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, link_bps: Callable[[], float]) -> None:
        self._loop = loop
        self._link_bps = link_bps
        self._bodies: dict[Paced, None] = {}  # in the order in which they came
        self._counted_s = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def add(self, body: Paced) -> None:
        """From now on ``body`` is granted bytes."""
        self._bodies[body] = None
        if self._timer is None:
            self._counted_s = self._loop.time()
            self._timer = self._loop.call_later(STEP_S, self._step)

    def remove(self, body: Paced) -> None:
        """It has all it needs, or is gone."""
        self._bodies.pop(body, None)
        if not self._bodies and self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _step(self) -> None:
        now_s = self._loop.time()
        bodies = list(self._bodies)
        shares = max_min([body.cap_bps() for body in bodies], self._link_bps())
        since_s, self._counted_s = self._counted_s, now_s
        self._timer = self._loop.call_at(now_s + STEP_S, self._step)
        for body, share_bps in zip(bodies, shares, strict=True):
            waited_s = now_s - max(since_s, body.since_s)
            if waited_s > 0 and body in self._bodies:  # one that ends may take others along
                body.grant(share_bps * waited_s, now_s)
