"""Notices that all attempts at a host stand still, and when the first sign of life comes. Pure.

After some seconds without an answer TCP waits longer and longer before it sends again. So once the network is
back, a connection stands still for up to as long as the network was away. A new one does not: so while
nothing comes, now and then one attempt is asked anew, to see the end soon. At the first sign of life (a byte
over any connection, or a handshake that is answered) all that have stood still are asked anew at once. Where
the first new handshake is answered, the server itself pauses, and nobody else is asked anew.
"""

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING

from cfetch.straggler.attempt_figures import patience
from cfetch.straggler.attempt_limits import GUARD_LATENCIES
from cfetch.straggler.check import Flagged
from cfetch.straggler.common_cause import LATELY_S, LEAST_CROWD
from cfetch.straggler.handshake import gains_by_another
from cfetch.straggler.watched_attempts import MOST_DOUBLINGS, JudgedAttempt, WatchedAttempts

if TYPE_CHECKING:
    from cfetch.straggler.policy import Live

STANDS_S = 4.5  # without a byte of any attempt: servers that send in bursts pause for as long
PROBE_S = 0.5  # between two attempts that are asked anew while nothing comes
PROBE_SHARE = 0.05  # of the blackout so far: its end may be seen so much later
MOST_PROBED_S = 60.0  # since the last byte; later attempts run into their own time-outs, and fail
HUNG_S = 0.3  # without an answer, a handshake shows that nothing reaches the server
LOST_S = 1.5  # of a handshake without an answer, at a distant host: the kernel has asked again, in vain
ALIVE_S = 10.0  # since the host has sent a byte; later its entries wait as for any host that is gone
ASKED_S = 0.5  # around the kernel's own next question, whose answer may be on its way
GRACE_S = 0.05  # until the next check: some go on by themselves


class _HostLife:
    """What is known of one host.

    ``moved_s``: when a byte last came, or our own side held one back; ``came_s``: when one came. ``stood``:
    what the attempts had when a blackout began. ``hung``: those whose handshakes had no answer.
    """

    def __init__(self, now_s: float) -> None:
        self.moved_s = self.probe_s = now_s
        self.came_s = -math.inf
        self.revived_s: float | None = None
        self.stood: dict[JudgedAttempt, int] | None = None
        self.hung: set[JudgedAttempt] = set()


class Blackouts:
    """The hosts of a run."""

    def __init__(self, watch: WatchedAttempts) -> None:
        self._watch = watch
        self._hosts: dict[str, _HostLife] = {}
        self._received: dict[JudgedAttempt, int] = {}

    def flag(self, own_s: float, now_s: float, attempts: "Iterable[Live]") -> list[Flagged]:
        """Flag the attempts in flight that are to be asked anew, and return them.

        ``own_s``: on the policy's own clock. A blackout says nothing about connections: nothing is learned.
        """
        flagged = []
        for attempt in self._choose(own_s, attempts):
            attempt.flagged = True
            elapsed_s = now_s - attempt.began_s
            expected_s = self._watch.bars.expected_s(attempt) or elapsed_s
            flagged.append(Flagged(attempt.key, elapsed_s, expected_s, is_probe=True))
        return flagged

    def _choose(self, now_s: float, attempts: "Iterable[Live]") -> list[JudgedAttempt]:
        before, self._received = self._received, {}
        by_host: dict[str, list[tuple[JudgedAttempt, Live]]] = {}
        came, held = set(), set()
        for seen in attempts:
            attempt = self._watch.live.get(seen.key)
            if attempt is None:
                continue
            self._received[attempt] = seen.received
            by_host.setdefault(attempt.host, []).append((attempt, seen))
            if seen.received > before.get(attempt, 0):
                came.add(attempt.host)
            elif seen.is_held:
                held.add(attempt.host)
        self._hosts = {name: self._hosts.get(name) or _HostLife(now_s) for name in by_host}
        chosen: list[JudgedAttempt] = []
        for name, of_host in by_host.items():
            host = self._hosts[name]
            moves = name in came or name in held
            host.moved_s = now_s if moves else host.moved_s
            host.came_s = now_s if name in came else host.came_s
            is_crowd = len(of_host) >= LEAST_CROWD
            if is_crowd and host.stood is not None:
                chosen += self._wait_for_life(host, of_host, now_s, moves=moves)
                continue
            if moves and not is_crowd:  # else the next crowd would be taken for the one that stood still
                host.stood = host.revived_s = None
            chosen += self._list_dead(host, of_host, now_s)
            if is_crowd and now_s - host.moved_s >= STANDS_S:
                stood = {attempt: seen.received for attempt, seen in of_host}
                host.stood, host.hung = stood if any(stood.values()) else None, set()
        return chosen

    def _wait_for_life(
        self, host: _HostLife, of_host: "list[tuple[JudgedAttempt, Live]]", now_s: float, *, moves: bool
    ) -> list[JudgedAttempt]:
        """Ask one attempt anew while nothing comes, and all that stand still once something has come."""
        stood = host.stood
        assert stood is not None
        host.hung |= {
            attempt
            for attempt, seen in of_host
            if seen.connecting_since_s is not None and now_s - attempt.start_s > HUNG_S
        }
        made = {
            attempt
            for attempt, seen in of_host
            if not seen.received
            and seen.connecting_since_s is None
            and (attempt in host.hung or (attempt not in stood and attempt.is_fresh))
        }
        if moves and not host.hung:  # it was a pause of the server
            host.stood = None
            return []
        if host.revived_s is None and (moves or made) and host.hung:
            host.revived_s = now_s
        stands = [
            attempt
            for attempt, seen in of_host
            if seen.received <= stood.get(attempt, 0) and attempt not in made
            if not (attempt.immune or attempt.flagged) and (seen.resumable or not seen.received)
        ]
        if host.revived_s is None:
            is_over = now_s - host.moved_s > MOST_PROBED_S
            if now_s < host.probe_s or is_over or not stands or (made and not host.hung):
                return []
            host.probe_s = now_s + max(PROBE_S, PROBE_SHARE * (now_s - host.moved_s))
            return [min(stands, key=lambda attempt: (attempt.start_s, attempt.key))]
        if now_s - host.revived_s < GRACE_S:
            return []
        revived_s, host.revived_s, host.stood = host.revived_s, None, None
        return [attempt for attempt in stands if attempt.start_s < revived_s]

    def _list_dead(
        self, host: _HostLife, of_host: "list[tuple[JudgedAttempt, Live]]", now_s: float
    ) -> list[JudgedAttempt]:
        """The attempts for which the run waits at the end, or the last few at a host, whose path is dead.

        The host has lately sent bytes, so a new connection may get another path. Of a connection that is made
        the path is dead if no packet has come for as long as a fresh attempt may take for the rest.
        """
        dead = []
        for attempt, seen in of_host:
            may_end = not (attempt.immune or attempt.flagged) and now_s - host.came_s < ALIVE_S
            if not may_end or not (len(of_host) < LEAST_CROWD or seen.slack_s < 0):
                continue
            if seen.connecting_since_s is not None:
                is_dead = self._is_handshake_lost(attempt, now_s, is_crowd=len(of_host) >= LEAST_CROWD)
            else:
                is_dead = seen.slack_s < 0 and seen.received > 0 and self._is_path_dead(attempt, seen)
            if is_dead and (seen.resumable or not seen.received):
                dead.append(attempt)
        return dead

    def _is_handshake_lost(self, attempt: JudgedAttempt, now_s: float, *, is_crowd: bool) -> bool:
        """Whether a handshake has no answer after several usual times, nor will have one soon.

        Where the host is far away or its queue is long, attempts of a crowd are judged among each other.
        Each earlier rescue of the file doubles the wait, as a server may leave some unanswered on purpose.
        """
        fit, waited_s = self._watch.bars.fresh.of(attempt.host), now_s - attempt.start_s
        answer_s = LOST_S if fit is None else max(HUNG_S, GUARD_LATENCIES * fit.first_byte_s)
        rescues = min(max(attempt.mitigations - 1, 0), MOST_DOUBLINGS)
        is_due = waited_s >= min(answer_s, LOST_S) * patience(rescues)
        is_near = answer_s < ASKED_S
        return (is_near or not is_crowd) and is_due and gains_by_another(waited_s, min(answer_s, ASKED_S))

    def _is_path_dead(self, attempt: JudgedAttempt, seen: "Live") -> bool:
        if attempt.column is None or attempt.size_bytes is None:
            return False
        evidence, column = self._watch.find_evidence(attempt)
        terms, silent_s = evidence.terms(column), seen.packet_age_s()
        rest_s = terms.limit_s + (attempt.size_bytes - seen.received) * terms.limit_s_per_byte
        least_s = max(LATELY_S, self._watch.fade_s(attempt.host))
        return silent_s is not None and silent_s > least_s and silent_s > rest_s
