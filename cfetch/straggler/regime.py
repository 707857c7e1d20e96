"""What kind of server each host is: what its attempts under way and its replies have shown of it."""

import math
from typing import NamedTuple

from cfetch.straggler.burst import Bursts
from cfetch.straggler.cold import Cold
from cfetch.straggler.cures import MUCH, NO_CURE, Cure, Pace, Reply
from cfetch.straggler.wear import Wear

LEAST_GAIN_S = 0.2  # of an attempt that is asked anew


class Anew(NamedTuple):
    """Attempts to be broken off and asked anew, by key; ``witness``: to see whether it becomes faster."""

    cured: list[int]
    witness: int | None


class Regime:
    """What is known of one host."""

    def __init__(self, known: Cure = NO_CURE) -> None:
        self.bursts = Bursts(known.chunk_bytes)
        self.cold = Cold(warms=known.warms)
        self.wear = Wear(known.retire_bytes)

    def look(self, paces: list[Pace], now_s: float, latency_s: float) -> Anew:
        """Look at the attempts under way; ``latency_s``: what a new request costs."""
        self.cold.look(paces)
        witness = self.bursts.look(paces, now_s)
        cured = [pace.key for pace in paces if self._is_cured(pace, latency_s)]
        return Anew(cured, None if witness is None else witness.key)

    def note_reply(self, reply: Reply, paces: list[Pace]) -> None:
        """Note a reply that came to its end; ``paces`` of the attempts under way then."""
        self.bursts.note(reply)
        self.cold.note(reply)
        if reply.asks > 1:
            self.cold.hear(reply.rate_bps, paces)
        else:
            self.wear.note(reply, paces)

    def choose_cure(self, now_s: float, *, is_first: bool) -> Cure:
        """How the next attempt asks; call it once for each. ``is_first``: its object was never asked for."""
        is_fresh = self.wear.wants_witness(now_s)
        warms = self.cold.warms and is_first
        return Cure(self.bursts.chunk_bytes, warms, self.wear.retire_bytes, is_fresh)

    def _is_cured(self, pace: Pace, latency_s: float) -> bool:
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


class Regimes:
    """All hosts of a run."""

    def __init__(self) -> None:
        self._hosts: dict[str, Regime] = {}

    def of(self, host: str) -> Regime:
        """What is known of ``host``."""
        regime = self._hosts.get(host)
        if regime is None:
            regime = self._hosts[host] = Regime()
        return regime

    def choose_cure(self, host: str, now_s: float, *, is_first: bool) -> Cure:
        """Call ``Regime.choose_cure``."""
        regime = self._hosts.get(host)
        return NO_CURE if regime is None else regime.choose_cure(now_s, is_first=is_first)
