"""Finds out which kind of server one host is: it sends bursts, has a cold cache, or wears connections."""

import math

import msgspec

from cfetch.straggler.burst import Bursts
from cfetch.straggler.cold_cache import ColdCache
from cfetch.straggler.connection_wear import ConnectionWear
from cfetch.straggler.knowledge import HostKnowledge
from cfetch.straggler.ways_to_ask import MUCH, Anew, EndedReply, FlowingAttempt, WayToAsk, cure_of

LEAST_GAIN_S = 0.2  # by which an attempt that is asked anew must end sooner


class Regime:
    """The findings about one host; ``known``: those of an earlier run."""

    def __init__(self, known: HostKnowledge | None = None) -> None:
        self._known = known
        chunk_bytes, warms, retire_bytes = cure_of(known)
        rate_bps = 0.0 if known is None else known.cured_bps
        self.bursts = Bursts(chunk_bytes)
        self.cold = ColdCache(rate_bps, warms=warms)
        self.wear = ConnectionWear(retire_bytes, rate_bps)

    def add_cure(self, learned: HostKnowledge) -> HostKnowledge:
        """Add how the host is best asked to the knowledge about it."""
        cure = (self.bursts.chunk_bytes, self.cold.warms, self.wear.retire_bytes)
        if cure == (0, False, 0):
            return learned
        is_old = self._known is not None and cure == cure_of(self._known)
        return msgspec.structs.replace(
            learned,
            chunk_bytes=cure[0],
            warms=cure[1],
            retire_bytes=cure[2],
            cured_bps=self.wear.rate_bps if self.wear.retire_bytes else self.cold.rate_bps,
            cured_wall_s=self._known.cured_wall_s if is_old and self._known is not None else learned.wall_s,
        )

    def learn_from(self, paces: list[FlowingAttempt], now_s: float, latency_s: float) -> Anew:
        """Learn from the attempts under way. Returns which to ask anew.

        ``latency_s``: the cost of a new request.
        """
        self.cold.learn_from(paces)
        witness = self.bursts.learn_from(paces, now_s)
        if witness is not None:
            return Anew([witness.key], [witness.key])
        return Anew([pace.key for pace in paces if self._is_cured(pace, latency_s)], [])

    def note_reply(self, reply: EndedReply, paces: list[FlowingAttempt]) -> None:
        """Note a reply that came to its end; ``paces``: those of the attempts under way at its end."""
        self.bursts.note(reply)
        self.cold.note(reply)
        if reply.asks > 1:
            self.cold.hear(reply.rate_bps, paces)
        else:
            self.wear.note(reply, paces)

    def choose_cure(self, now_s: float, *, is_first: bool) -> WayToAsk:
        """How the next attempt asks; call it once for each. ``is_first``: its object was never asked for."""
        is_fresh = self.wear.wants_witness(now_s)
        warms = self.cold.warms and is_first
        return WayToAsk(self.bursts.chunk_bytes, warms, self.wear.retire_bytes, is_fresh)

    def _is_cured(self, pace: FlowingAttempt, latency_s: float) -> bool:
        """Whether the attempt would bring its rest clearly sooner if it were asked anew."""
        better_bps = 0.0
        if self.cold.is_cured_by(pace):
            better_bps = self.cold.rate_bps
        elif self.bursts.is_cured_by(pace):
            better_bps = self.bursts.rate_bps
        if not (pace.is_free and better_bps):
            return False
        left_s = pace.left_bytes / pace.rate_bps if pace.rate_bps > 0 else math.inf
        return left_s > MUCH * (latency_s + pace.left_bytes / better_bps) + LEAST_GAIN_S
