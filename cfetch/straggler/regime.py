"""Finds out which kind of server each host is, from its attempts under way and its replies."""

import math
from collections.abc import Collection
from typing import NamedTuple

import msgspec

from cfetch.straggler.burst import Bursts
from cfetch.straggler.cold import Cold
from cfetch.straggler.cures import MUCH, NO_CURE, Cure, Pace, Reply
from cfetch.straggler.fresh import MOST_HOSTS, Fresh
from cfetch.straggler.knowledge import HostKnowledge, Knowledge
from cfetch.straggler.policy import Live
from cfetch.straggler.watch import JudgedAttempt, Watch
from cfetch.straggler.wear import Wear

LEAST_GAIN_S = 0.2  # by which an attempt that is asked anew must end sooner
READ_S = 0.05  # the first bytes that are read may have been arriving for so long
SUPPOSED_LATENCY_S = 0.2  # of a request over a new connection, before any is measured
LEAST_REPLY_BYTES = 64 << 10  # of a reply that shows a rate


class Anew(NamedTuple):
    """Keys of attempts to break off and ask anew; ``witnesses``: the keys that only test whether it helps."""

    keys: list[int]
    witnesses: list[int]


class Regime:
    """The findings about one host; ``known``: those of an earlier run."""

    def __init__(self, known: HostKnowledge | None = None) -> None:
        self._known = known
        chunk_bytes, warms, retire_bytes = _cure_of(known)
        rate_bps = 0.0 if known is None else known.cured_bps
        self.bursts = Bursts(chunk_bytes)
        self.cold = Cold(rate_bps, warms=warms)
        self.wear = Wear(retire_bytes, rate_bps)

    def add_cure(self, learned: HostKnowledge) -> HostKnowledge:
        """Add how the host is best asked to the knowledge about it."""
        cure = (self.bursts.chunk_bytes, self.cold.warms, self.wear.retire_bytes)
        if cure == (0, False, 0):
            return learned
        is_old = self._known is not None and cure == _cure_of(self._known)
        return msgspec.structs.replace(
            learned,
            chunk_bytes=cure[0],
            warms=cure[1],
            retire_bytes=cure[2],
            cured_bps=self.wear.rate_bps if self.wear.retire_bytes else self.cold.rate_bps,
            cured_wall_s=self._known.cured_wall_s if is_old and self._known is not None else learned.wall_s,
        )

    def look(self, paces: list[Pace], now_s: float, latency_s: float) -> Anew:
        """Look at the attempts under way; ``latency_s``: the cost of a new request."""
        self.cold.look(paces)
        witness = self.bursts.look(paces, now_s)
        if witness is not None:
            return Anew([witness.key], [witness.key])
        return Anew([pace.key for pace in paces if self._is_cured(pace, latency_s)], [])

    def note_reply(self, reply: Reply, paces: list[Pace]) -> None:
        """Note a reply that came to its end; ``paces``: those of the attempts under way at its end."""
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
    """The regimes of all hosts of a run."""

    def __init__(self, watch: Watch, fresh: Fresh, knowledge: Knowledge) -> None:
        self._watch = watch
        self._fresh = fresh
        self._hosts = {host: Regime(known) for host, known in knowledge.hosts.items() if any(_cure_of(known))}
        self._paces: dict[str, list[Pace]] = {}  # by host, at the last look

    def look(self, attempts: Collection[Live], own_s: float) -> Anew:
        """Look at all attempts under way; ``own_s``: now, on the policy's own clock."""
        anew = Anew([], [])
        self._paces = self._watch.paces_of_flows(attempts)
        for host, paces in self._paces.items():
            fit = self._fresh.of(host)
            latency_s = SUPPOSED_LATENCY_S if fit is None else 2 * fit.first_byte_s
            of_host = self._of(host).look(paces, own_s, latency_s)
            anew.keys.extend(of_host.keys)
            anew.witnesses.extend(of_host.witnesses)
        return anew

    def note_reply(
        self, attempt: JudgedAttempt, size_bytes: int, carried_bytes: int, first_s: float, end_s: float
    ) -> None:
        """Note that an attempt has come to its end, its first byte after ``first_s``."""
        if size_bytes >= LEAST_REPLY_BYTES:
            flow_s = end_s - attempt.start_s - first_s + READ_S
            rate_bps = size_bytes / flow_s
            reply = Reply(attempt.asks, carried_bytes, size_bytes, rate_bps, attempt.start_s, end_s)
            self._of(attempt.host).note_reply(reply, self._paces.get(attempt.host, []))

    def choose_cure(self, host: str, now_s: float, *, is_first: bool) -> Cure:
        """Choose how the next attempt at ``host`` asks; call it once for each."""
        regime = self._hosts.get(host)
        return NO_CURE if regime is None else regime.choose_cure(now_s, is_first=is_first)

    def collect_knowledge(self, wall_s: float) -> Knowledge:
        """Collect what this run has learned about its hosts, for the next run."""
        learned = self._fresh.collect_knowledge(wall_s).hosts
        hosts = {
            name: self._hosts[name].add_cure(host) if name in self._hosts else host
            for name, host in learned.items()
        }
        return Knowledge(hosts=hosts)

    def _of(self, host: str) -> Regime:
        regime = self._hosts.get(host)
        if regime is None:
            if len(self._hosts) >= MOST_HOSTS:
                del self._hosts[next(iter(self._hosts))]
            regime = self._hosts[host] = Regime()
        return regime


def _cure_of(known: HostKnowledge | None) -> tuple[int, bool, int]:
    return (0, False, 0) if known is None else (known.chunk_bytes, known.warms, known.retire_bytes)
