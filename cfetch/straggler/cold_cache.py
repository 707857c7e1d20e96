"""Finds out whether a host sends each object slowly the first time, and fast afterwards: a cold cache.

The witness is a later request for an object: a helper's, or one that follows a cancelled attempt. It is
compared with first requests over new connections at the same time, as a connection in use may be worn out.
"""

from collections import deque

from cfetch.straggler.fresh_attempt import middle
from cfetch.straggler.ways_to_ask import MUCH, EndedReply, FlowingAttempt, quantile

LEAST_FIRST = 4  # first requests that are slow at once
UNDISTURBED = 0.75  # of their best rates: a cold object's rate does not depend on other attempts
HIGH = 0.9  # quantile: one first request of ten may be fast for another reason
RECENT = 64  # first replies: a fast one shows that not all objects are cold
LEAST_WARMED = 8  # warmed replies, after which warming must have helped


class ColdCache:
    """The cache of one host. ``warms``: objects are first asked for a byte; ``rate_bps``: the witness's."""

    def __init__(self, rate_bps: float = 0.0, *, warms: bool = False) -> None:
        self.warms = warms
        self.rate_bps = rate_bps
        self._firsts: deque[float] = deque(maxlen=RECENT)
        self._warmed: deque[float] = deque(maxlen=LEAST_WARMED)
        self._is_refuted = False

    def learn_from(self, paces: list[FlowingAttempt]) -> None:
        """Look at the attempts under way."""
        later = [pace.rate_bps for pace in paces if pace.asks > 1]
        if later:
            self.hear(max(later), paces)

    def note(self, reply: EndedReply) -> None:
        """Note a reply that came to its end."""
        if reply.asks == 1:
            self._firsts.append(reply.rate_bps)
        elif self.warms:
            self._warmed.append(reply.rate_bps)
            if len(self._warmed) == LEAST_WARMED and MUCH * middle(self._warmed) < self.rate_bps:
                self.warms, self._is_refuted = False, True

    def hear(self, witness_bps: float, paces: list[FlowingAttempt]) -> None:
        """Compare the rate of a later request with those of the first requests under way."""
        slow = [pace for pace in paces if pace.is_first]
        firsts = [pace.best_bps for pace in slow]
        if self.warms or self._is_refuted or len(firsts) < LEAST_FIRST:
            return
        if sum(pace.rate_bps for pace in slow) < UNDISTURBED * sum(firsts):
            return  # they share a full link with the witness, or they fade
        high, usual = quantile([*firsts, *self._firsts], HIGH), middle(firsts)
        if usual > 0 and witness_bps >= MUCH * high * high / usual:  # beyond ``high`` by their spread again
            self.warms, self.rate_bps = True, witness_bps

    def is_cured_by(self, pace: FlowingAttempt) -> bool:
        """Whether the attempt is slow because it is the first request for its object."""
        return self.warms and pace.asks == 1
