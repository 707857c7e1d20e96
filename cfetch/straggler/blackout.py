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
from cfetch.straggler.check import Flagged
from cfetch.straggler.common_cause import LEAST_CROWD
from cfetch.straggler.handshake import find_syns
from cfetch.straggler.watched_attempts import MOST_DOUBLINGS, JudgedAttempt, WatchedAttempts

if TYPE_CHECKING:
    from cfetch.straggler.policy import Live

STANDS_S = 4.5  # without a byte of any attempt: servers that send in bursts pause for as long
PROBE_S = 0.5  # between two attempts that are asked anew while nothing comes
PROBE_SHARE = 0.05  # of the blackout so far: its end may be seen so much later
MOST_PROBED_S = 60.0  # since the last byte; later attempts run into their own time-outs, and fail
HUNG_S = 0.3  # without an answer, a handshake shows that nothing reaches the server
LOST_S = 1.5  # of a handshake without an answer: the kernel has asked again, in vain
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

    def look(self, own_s: float, now_s: float, attempts: "Iterable[Live]") -> list[Flagged]:
        """Look at all attempts in flight, and flag those that are to be asked anew.

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
            if len(of_host) < LEAST_CROWD:
                if moves:  # else the next crowd would be taken for the one that stood still
                    host.stood = host.revived_s = None
                chosen += _list_lost_handshakes(host, of_host, now_s)
            elif host.stood is not None:
                chosen += self._wait_for_life(host, of_host, now_s, moves=moves)
            elif now_s - host.moved_s >= STANDS_S:
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


def _list_lost_handshakes(
    host: _HostLife, of_host: "list[tuple[JudgedAttempt, Live]]", now_s: float
) -> list[JudgedAttempt]:
    """The last few attempts at a host whose handshakes have no answer, although it has lately sent bytes.

    So few cannot be compared. The host lives, so it is the path; a new connection may get another one. Each
    earlier rescue of the file doubles the wait, as a server may leave handshakes unanswered on purpose.
    """
    lost = []
    for attempt, seen in of_host:
        since_s = seen.connecting_since_s
        if since_s is None or seen.received or attempt.immune or attempt.flagged:
            continue
        waited_s = now_s - attempt.start_s
        last_s, next_s = find_syns(waited_s)
        is_due = waited_s >= LOST_S * patience(min(max(attempt.mitigations - 1, 0), MOST_DOUBLINGS))
        is_between = waited_s - last_s > ASKED_S and next_s - waited_s > ASKED_S
        if now_s - host.came_s < ALIVE_S and is_due and is_between:
            lost.append(attempt)
    return lost
