"""Asks TCP whether a file, or a host, gains by more connections; loaded with the first that could."""

from collections.abc import Callable, Iterable, Sequence

from cfetch.engine.attempt import Attempt
from cfetch.engine.attempts_under_way import AttemptsUnderWay, AttemptUnderWay
from cfetch.engine.segment_split import Candidate, Split, choose
from cfetch.straggler.segment_growth import LOOK, PROBE_BYTES, LinkSigns, SegmentGrowth
from cfetch.straggler.width import TcpSigns

LEAST_S = 2.0  # that the file must still take: with less, more connections hardly get to speed
SLOW = 2.0  # times what a fresh attempt takes
LEAST_KNOWN = 4  # connections, the most of which show the link
LEAST_PIECES = 4  # of a look's size must be left: what is less is there before the look has an answer


class LinkLooks:
    """The files that could be split, and what their connections have shown."""

    def __init__(self, in_flight: AttemptsUnderWay, most: int) -> None:
        """``most``: how many connections one file may have."""
        self._in_flight = in_flight
        self._most = most
        self._growth = SegmentGrowth()

    def choose(
        self,
        candidates: Sequence[Candidate],
        fresh_s: Callable[[str, int], float | None],
        idle: int,
        now_s: float,
    ) -> list[Split]:
        """Choose the attempts that ``idle`` workers help, as ``segment_split`` does, where TCP allows it."""
        self._growth.keep_only({transfer.entry.id for _, transfer in self._in_flight})
        looks: dict[int, Split] = {}  # by entry
        allowed: list[Candidate] = []
        for candidate in candidates:
            flight = self._in_flight.get(candidate.key)
            assert flight is not None
            most = self._count_allowed(flight, now_s)
            usual_s = fresh_s(candidate.host, candidate.left_bytes)
            if usual_s is not None and candidate.remaining_s > SLOW * usual_s:
                most = self._most  # slower than others were: it is not the link
            if most == LOOK:
                is_worth = (
                    candidate.remaining_s > LEAST_S and candidate.left_bytes > LEAST_PIECES * PROBE_BYTES
                )
                if is_worth and len(looks) < idle:
                    look = Split(candidate.key, candidate.left_bytes - PROBE_BYTES, 1)
                    looks.setdefault(flight.transfer.entry.id, look)
            elif candidate.attempts < most:
                # each may be split among as many as are left of the most that one file may have
                taken = max(candidate.attempts, self._most - (most - candidate.attempts))
                allowed.append(candidate._replace(attempts=taken))
        idle -= len(looks)
        return [*looks.values(), *choose(allowed, idle=idle, fresh_s=fresh_s, most_attempts=self._most)]

    def _count_allowed(self, flight: AttemptUnderWay, now_s: float) -> int:
        attempt, transfer = flight
        keys, owner = transfer.helpers.keys, self._in_flight.get(transfer.entry.id) or flight
        newest = min(keys, default=0)
        first_s = owner.attempt.first_byte_s
        return self._growth.allow(
            transfer.entry.id,
            now_s,
            began_s=owner.attempt.start_s if first_s is None else first_s,
            first_bytes=owner.attempt.from_byte,
            held_bytes=self._in_flight.held_bytes(attempt),
            attempts=1 + len(keys),
            signs=_read_signs(owner),
            newest=newest,
            new_trip_s=_find_trip_s(self._in_flight.get(newest)) if keys else None,
            most=self._most,
        )


def read_tcp_signs(attempts: Iterable[Attempt], host: str, usual_s: float) -> TcpSigns | None:
    """What TCP tells of most connections of ``host``; None: it tells it of too few.

    ``usual_s``: a round trip without a queue.
    """
    queued, lose, known = 0, 0, 0
    for attempt in attempts:
        if attempt.assignment.host != host or not attempt.received:
            continue
        figures = attempt.read_tcp_figures()
        if figures is not None:
            known += 1
            lose += figures.has_lost
            signs = LinkSigns(usual_s, figures.round_trip_s, figures.has_lost)
            queued += figures.has_lost and signs.stands_in_queue
    return None if known < LEAST_KNOWN else TcpSigns(queue=2 * queued > known, lose=2 * lose > known)


def _read_signs(flight: AttemptUnderWay) -> LinkSigns:
    reply, figures = flight.attempt.reply, flight.attempt.read_tcp_figures()
    if reply.connecting is None or figures is None:
        return LinkSigns()
    return LinkSigns(reply.connecting.round_trip_s, figures.round_trip_s, figures.has_lost)


def _find_trip_s(flight: AttemptUnderWay | None) -> float | None:
    """The round trip of a new connection's handshake; None: it has none yet."""
    connecting = None if flight is None else flight.attempt.reply.connecting
    return None if connecting is None else connecting.round_trip_s
