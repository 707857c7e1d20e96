"""Shows each host's attempts and replies to its regime, which finds out what kind of server it is."""

from collections.abc import Collection
from typing import TYPE_CHECKING

from cfetch.straggler.check import Flagged
from cfetch.straggler.fresh_attempt import MOST_HOSTS, FreshAttempts
from cfetch.straggler.knowledge import HostKnowledge, Knowledge
from cfetch.straggler.watched_attempts import JudgedAttempt, WatchedAttempts
from cfetch.straggler.ways_to_ask import NO_CURE, Anew, EndedReply, FlowingAttempt, WayToAsk, cure_of

if TYPE_CHECKING:
    from cfetch.straggler.blackout import Blackouts
    from cfetch.straggler.host_regime import Regime
    from cfetch.straggler.policy import Live

READ_S = 0.05  # the first bytes that are read may have been arriving for so long
SUPPOSED_LATENCY_S = 0.2  # of a request over a new connection, before any is measured
LEAST_REPLY_BYTES = 64 << 10  # of a reply that shows a rate


class Regimes:
    """The regimes of all hosts of a run."""

    def __init__(self, watch: WatchedAttempts, fresh: FreshAttempts, knowledge: Knowledge) -> None:
        self._watch = watch
        self._fresh = fresh
        self._hosts = {
            host: _make_regime(known) for host, known in knowledge.hosts.items() if any(cure_of(known))
        }
        self._paces: dict[str, list[FlowingAttempt]] = {}  # by host, at the last look
        self._blackouts: Blackouts | None = None

    def learn_from(self, attempts: "Collection[Live]", own_s: float) -> Anew:
        """Learn from all attempts under way; ``own_s``: now, on the policy's own clock."""
        anew = Anew([], [])
        self._paces = {}
        if (fallen := self._watch.find_falls()) is not None:
            from cfetch.straggler.flows import list_flows  # in most runs none become slow

            self._paces = list_flows(*fallen, self._watch.live, attempts)
        for host, paces in self._paces.items():
            fit = self._fresh.of(host)
            latency_s = SUPPOSED_LATENCY_S if fit is None else 2 * fit.first_byte_s
            of_host = self._of(host).learn_from(paces, own_s, latency_s)
            anew.keys.extend(of_host.keys)
            anew.witnesses.extend(of_host.witnesses)
        return anew

    def flag_after_blackout(self, own_s: float, now_s: float, attempts: "Collection[Live]") -> list[Flagged]:
        """Flag the attempts that are to be asked anew in a blackout of their host, and at its end."""
        if self._blackouts is None:
            from cfetch.straggler.blackout import Blackouts  # not for a run of small files

            self._blackouts = Blackouts(self._watch)
        return self._blackouts.flag(own_s, now_s, attempts)

    def note_reply(
        self, attempt: JudgedAttempt, size_bytes: int, carried_bytes: int, first_s: float, end_s: float
    ) -> None:
        """Note that an attempt has come to its end, its first byte after ``first_s``."""
        if size_bytes >= LEAST_REPLY_BYTES:
            flow_s = end_s - attempt.start_s - first_s + READ_S
            rate_bps = size_bytes / flow_s
            reply = EndedReply(attempt.asks, carried_bytes, size_bytes, rate_bps, attempt.start_s, end_s)
            self._of(attempt.host).note_reply(reply, self._paces.get(attempt.host, []))

    def choose_cure(self, host: str, now_s: float, *, is_first: bool) -> WayToAsk:
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

    def _of(self, host: str) -> "Regime":
        regime = self._hosts.get(host)
        if regime is None:
            if len(self._hosts) >= MOST_HOSTS:
                del self._hosts[next(iter(self._hosts))]
            regime = self._hosts[host] = _make_regime(None)
        return regime


def _make_regime(known: HostKnowledge | None) -> "Regime":
    from cfetch.straggler.host_regime import Regime  # a run of small files has none

    return Regime(known)
