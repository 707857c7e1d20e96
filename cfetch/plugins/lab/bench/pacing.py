"""Paces bodies: each within its connection's rate, all together within the link's, by max-min fairness.

A timer grants bytes to all bodies at once, as if they were a fluid: the cost does not depend on their rates.
"""

import asyncio
import math
from collections.abc import Callable, Sequence
from typing import Protocol

STEP_S = 0.002  # between grants, by which a body may end later; 64 bodies cost an eighth of a core


class Paced(Protocol):
    """A body on its way. ``since_s``: when it began, on the loop's clock."""

    since_s: float

    def cap_bps(self) -> float:
        """The highest rate that the connection can take now."""

    def grant(self, count: float, now_s: float) -> None:
        """Let it send ``count`` more bytes; a fraction of a byte is kept for later."""


def max_min(caps: Sequence[float], total: float) -> list[float]:
    """Divide ``total``: no share is above its cap, and none could grow at the cost of a larger one.

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
    """Grants bytes to the bodies under way; sleeps while there are none.

    ``link_bps``: the rate of all together now.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, link_bps: Callable[[], float]) -> None:
        self._loop = loop
        self._link_bps = link_bps
        self._bodies: dict[Paced, None] = {}  # in the order in which they came
        self._counted_s = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def add(self, body: Paced) -> None:
        """Begin to grant bytes to ``body``."""
        self._bodies[body] = None
        if self._timer is None:
            self._counted_s = self._loop.time()
            self._timer = self._loop.call_later(STEP_S, self._step)

    def remove(self, body: Paced) -> None:
        """Grant nothing more to ``body``: it is complete, or its connection is gone."""
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
            if waited_s > 0 and body in self._bodies:  # the end of one body may have removed others
                body.grant(share_bps * waited_s, now_s)
