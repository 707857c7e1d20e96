"""Finds out whether the connections of a host wear out: the more they have brought, the slower they are.

Replies over new connections show the usual rate. If replies over connections in use become clearly slower
than that, one attempt at a time gets a new connection, as a witness. If two witnesses in a row are clearly
faster than the old connections at the same time, a connection is retired once it has brought as many bytes as
the first slow ones had. If replies are then clearly slower than the witnesses were, connections are no longer
retired, until new witnesses confirm it.
"""

import math
from collections import deque

from cfetch.base.backoff import double
from cfetch.straggler.fresh_attempt import middle
from cfetch.straggler.ways_to_ask import EndedReply, FlowingAttempt, quantile

RECENT = 64  # replies: four rounds of 16 connections
LEAST_REPLIES = 8  # replies that show a rate
SLOWER, FASTER = 2 / 3, 1.5  # slower than new connections; faster than old ones
HIGH = 0.75  # quantile of the old connections: some are not worn yet
WITNESSES = 2  # faster ones in a row
LEAST_CURED = 16  # replies, after which retiring connections must have helped
FIRST_WAIT_S, MOST_WAIT_S = 1.0, 60.0  # after a witness that was not faster
# quantile of the bytes with which a connection was slow: one may have been so from the beginning
LOW = 1 / 16
LEAST_RETIRE_BYTES = 256 << 10  # a connection that brings less is not worth its handshake


class ConnectionWear:
    """The replies of one host.

    ``retire_bytes``: a connection is retired after these; 0: never. ``rate_bps``: the witnesses' rate.
    """

    def __init__(self, retire_bytes: int = 0, rate_bps: float = 0.0) -> None:
        self.retire_bytes = retire_bytes
        self.rate_bps = rate_bps
        self._since_s = -math.inf
        self._cured: deque[float] = deque(maxlen=LEAST_CURED)
        self._new: deque[float] = deque(maxlen=RECENT)
        self._old: deque[EndedReply] = deque(maxlen=RECENT)
        self._faster: list[float] = []  # rates of the faster witnesses in a row
        self._next_s = -math.inf
        self._wait_s = FIRST_WAIT_S

    def note(self, reply: EndedReply, paces: list[FlowingAttempt]) -> None:
        """Note a first reply of an object; ``paces``: those of the attempts under way when it ended."""
        if self.retire_bytes:
            self._doubt(reply)
        elif not reply.carried_bytes and self._is_slow():
            self._hear(reply, [pace.rate_bps for pace in paces if pace.carried_bytes])
        if reply.carried_bytes:
            self._old.append(reply)
        else:
            self._new.append(reply.rate_bps)

    def wants_witness(self, now_s: float) -> bool:
        """Whether the next attempt should have a new connection; call it once for each attempt."""
        if self.retire_bytes or now_s < self._next_s or not self._is_slow():
            return False
        self._next_s = now_s + self._wait_s
        return True

    def _is_slow(self) -> bool:
        if len(self._old) < LEAST_REPLIES or len(self._new) < LEAST_REPLIES:
            return False
        recent = [reply.rate_bps for reply in list(self._old)[-LEAST_REPLIES:]]
        return middle(recent) < SLOWER * middle(self._new)

    def _hear(self, witness: EndedReply, running_bps: list[float]) -> None:
        meanwhile = [reply.rate_bps for reply in self._old if reply.end_s > witness.began_s] + running_bps
        if not meanwhile or witness.rate_bps < FASTER * quantile(meanwhile, HIGH):
            self._wait(witness.end_s)
            return
        self._faster.append(witness.rate_bps)
        self._next_s = -math.inf
        slow = [reply.carried_bytes for reply in self._old if FASTER * reply.rate_bps < witness.rate_bps]
        if len(self._faster) >= WITNESSES and slow:
            self.retire_bytes = max(LEAST_RETIRE_BYTES, int(quantile(slow, LOW)))
            self.rate_bps, self._since_s = min(self._faster), witness.end_s

    def _doubt(self, reply: EndedReply) -> None:
        """Give the cure up if replies are not as fast as the witnesses were."""
        if reply.began_s < self._since_s or reply.carried_bytes >= self.retire_bytes:
            return
        self._cured.append(reply.rate_bps)
        if len(self._cured) == LEAST_CURED and FASTER * middle(self._cured) < self.rate_bps:
            self.retire_bytes, self.rate_bps = 0, 0.0
            self._cured.clear()
            self._old.clear()
            self._wait(reply.end_s)

    def _wait(self, now_s: float) -> None:
        """Begin anew, and wait before the next witness."""
        self._faster.clear()
        self._next_s = now_s + self._wait_s
        self._wait_s = double(self._wait_s, MOST_WAIT_S)
