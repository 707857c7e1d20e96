"""Decides how many connections may bring one file at a time: more only where they can bring more. Pure.

One connection fills many links. Others beside it then overflow the link's queue, all lose packets at once,
and the file comes later. So the first connection is left alone while it still gets to speed (TCP's slow
start). Then what its TCP shows decides:

- It has lost nothing, or nobody knows: the server or the path limits each connection, so all may come.
- It has lost packets, and its round trips are as short as at the start: packets are lost somewhere, or the
  queue is short. A few come, and the others if these have made the file faster. But after a queue TCP sends
  slowly enough to keep it short for seconds: unless the rate has halved, they wait until TCP can have filled
  it again.
- It has lost packets, and its round trips have become longer: it stands in a queue that it has filled.
  One connection for a small piece asks by its handshake whose queue that is. If the handshake took longer
  too, the link is full, and the next look waits. If it did not, twice, it is the queue of one flow's path,
  and all come.
"""

import math
from collections import deque
from typing import NamedTuple

from cfetch.base.backoff import double
from cfetch.straggler.link_queue import QUEUES
from cfetch.straggler.width import LATELY_S, LATELY_TRIPS

GROWS = 1.5  # times the bytes of the window before; slow start brings at least twice as many in two trips
WINDOW_S = 0.1  # a look
WINDOW_TRIPS = 2
FIRST_TRIPS = 3  # before that the first windows of TCP show no pace
FAR_S = 0.005  # of a round trip: less is our own processor
FEW = 4  # connections, where more may be in vain
ALL, LOOK = 1 << 16, -1  # answers: no limit; one more for a small piece, to look at the link
STEP_TRIPS, STEP_S = 8, 0.5  # until a step has shown what it brings: handshake, request, and slow start
WORTH = 1.3  # times the rate before, by four connections in place of one
SAME_QUEUE = 1 / 4  # of the one's queue in the other's handshake
FIRST_HOLD_S, LONGEST_HOLD_S = 2.0, 30.0  # until the next look at a full link; doubled each time
PROBE_BYTES = 256 << 10  # of the piece for a look: it comes in five round trips
STANDS_S, STANDS_TRIPS = 0.5, 4  # without a byte: TCP mends a loss sooner, so the connection may be dead
LOOKS, LEAST_LOOKS = 32, 3  # two show no growth
SLOWED, SLOWED_S = 0.5, 0.5  # of its best rate, over so long: the server has begun to limit it
PACKET_BYTES = 1448


class LinkSigns(NamedTuple):
    """What TCP shows of a connection; None: not known.

    ``usual_s``: a round trip at the start; ``present_s``: the latest. ``has_lost``: packets were lost.
    """

    usual_s: float | None = None
    present_s: float | None = None
    has_lost: bool | None = None

    @property
    def queue_s(self) -> float:
        """How much longer than at the start the latest round trip took."""
        return (self.present_s or 0.0) - (self.usual_s or 0.0)

    @property
    def stands_in_queue(self) -> bool:
        """Whether that is clearly longer."""
        return self.queue_s > (QUEUES - 1) * (self.usual_s or 0.0) + FAR_S


class _File:
    """One file. ``looks``: times and bytes held. ``is_open``: it may have all connections."""

    def __init__(self, began_s: float, held_bytes: int) -> None:
        self.looks = deque([(began_s, held_bytes)], maxlen=LOOKS)
        self.began_s = began_s
        self.is_open = False
        self.answer = 0
        self.step_bps: float | None = None  # before a step to few connections
        self.judged_s = began_s  # when that step can be judged
        self.has_passed = False  # a handshake has met no queue
        self.probed_queue_s: float | None = None  # of its connection, when a look was answered
        self.probed_newest = 0  # the newest other connection then: a look is judged by a newer one
        self.queued_s = -math.inf  # when its connection last stood in a queue
        self.best_bytes = 0.0  # that came within ``SLOWED_S``
        self.next_s = began_s
        self.hold_s = FIRST_HOLD_S

    def count_bytes(self, from_s: float, to_s: float) -> float:
        """The bytes that have come between two times."""
        return self._held_at(to_s) - self._held_at(from_s)

    def has_slowed(self, now_s: float) -> bool:
        """Whether its rate is clearly below its best one."""
        lately = self.count_bytes(now_s - SLOWED_S, now_s)
        self.best_bytes = max(self.best_bytes, lately)
        return lately < SLOWED * self.best_bytes

    def _held_at(self, when_s: float) -> float:
        before_s, before = self.looks[0]
        for then_s, held in self.looks:
            if then_s >= when_s:
                share = (when_s - before_s) / (then_s - before_s) if then_s > before_s else 1.0
                return before + max(0.0, share) * (held - before)
            before_s, before = then_s, held
        return before

    @property
    def is_judging(self) -> bool:
        """Whether a look or a step has no answer yet."""
        return self.probed_queue_s is not None or self.step_bps is not None

    def is_judging_by(self, newest: int) -> bool:
        """Whether there are connections by which a look or a step can be judged."""
        return self.step_bps is not None or (self.probed_queue_s is not None and newest != self.probed_newest)

    def wait(self, now_s: float) -> None:
        """Look at the link again later."""
        self.probed_queue_s, self.step_bps, self.has_passed = None, None, False
        self.next_s = now_s + self.hold_s
        self.hold_s = double(self.hold_s, LONGEST_HOLD_S)


class SegmentGrowth:
    """The files of a run that may be split."""

    def __init__(self) -> None:
        self._files: dict[int, _File] = {}

    def keep_only(self, ids: set[int]) -> None:
        """Forget the files that are not under way any more."""
        for entry_id in self._files.keys() - ids:
            del self._files[entry_id]

    def allow(
        self,
        entry_id: int,
        now_s: float,
        *,
        began_s: float,
        first_bytes: int,
        held_bytes: int,
        attempts: int,
        signs: LinkSigns,
        newest: int,
        new_trip_s: float | None,
        most: int,
    ) -> int:
        """How many connections the file may have; ``LOOK``: one more for a small piece, to look at the link.

        ``began_s``: when the first byte came, beyond ``first_bytes`` of earlier tries. ``attempts``: its
        connections now. ``signs``: of the first one. ``newest``: the key of the newest other one, or 0;
        ``new_trip_s``: the round trip of its handshake.
        """
        file = self._files.get(entry_id)
        if file is None:
            file = self._files[entry_id] = _File(began_s, first_bytes)
        if file.looks[-1][0] < now_s:  # else another of its connections has been looked at
            file.looks.append((now_s, held_bytes))
            file.queued_s = now_s if signs.stands_in_queue else file.queued_s
            if file.is_open or signs.usual_s is None:
                file.answer = most
            elif attempts > 1 and file.is_judging_by(newest):
                self._judge(file, now_s, signs, new_trip_s)
                file.answer = most if file.is_open else attempts
            else:
                file.answer = min(most, self._count_for(file, now_s, signs))
                file.probed_newest = newest
        return file.answer

    def _count_for(self, file: _File, now_s: float, signs: LinkSigns) -> int:
        """How many connections may bring a file, by those that bring it."""
        assert signs.usual_s is not None
        if file.is_judging:  # the others have not begun, or have ended before they were judged
            file.wait(now_s)
        stands_s = max(STANDS_S, STANDS_TRIPS * signs.usual_s)
        flowed_s = now_s - file.began_s
        if flowed_s > stands_s and not file.count_bytes(now_s - stands_s, now_s):
            file.is_open = True
            return ALL
        window_s = min(_window_s(signs.usual_s), flowed_s / 2)
        lately = file.count_bytes(now_s - window_s, now_s)
        grows = lately > GROWS * file.count_bytes(now_s - 2 * window_s, now_s - window_s)
        has_slowed = file.has_slowed(now_s)
        is_early = flowed_s < FIRST_TRIPS * signs.usual_s or len(file.looks) < LEAST_LOOKS
        if now_s < file.next_s or is_early or grows:
            return 1
        if not signs.has_lost:
            file.is_open = True
            return ALL
        if signs.stands_in_queue:
            file.probed_queue_s = signs.queue_s
            return LOOK
        refill_s = max(LATELY_S, LATELY_TRIPS * signs.usual_s)
        if not has_slowed and file.queued_s > file.began_s:
            refill_s = max(refill_s, _refill_s(lately / window_s, signs.usual_s))
        if now_s - max(file.queued_s, file.began_s) < refill_s:
            return 1  # TCP fills and empties a queue again and again: look when it is full
        file.step_bps, file.judged_s = lately / window_s, now_s + max(STEP_S, STEP_TRIPS * signs.usual_s)
        return FEW

    def _judge(self, file: _File, now_s: float, signs: LinkSigns, new_trip_s: float | None) -> None:
        """Judge a look at the link, or a step to few connections."""
        assert signs.usual_s is not None
        if file.probed_queue_s is not None:
            if new_trip_s is None:
                return
            least_s = min(file.probed_queue_s, signs.queue_s)  # meanwhile TCP may have emptied it
            if new_trip_s - signs.usual_s >= SAME_QUEUE * least_s:
                file.wait(now_s)
            else:  # one handshake may have met the queue when TCP had just emptied it
                file.is_open = file.has_passed
                file.has_passed, file.probed_queue_s = True, None
        elif file.step_bps is not None and now_s >= file.judged_s:
            window_s = _window_s(signs.usual_s)
            if file.count_bytes(now_s - window_s, now_s) >= WORTH * file.step_bps * window_s:
                file.is_open = True
            else:
                file.wait(now_s)


def _refill_s(rate_bps: float, usual_s: float) -> float:
    """How long TCP takes to fill a queue again after a loss: CUBIC's K (RFC 9438, 4.2) with its constants."""
    return float((0.75 * rate_bps * usual_s / PACKET_BYTES) ** (1 / 3))


def _window_s(usual_s: float) -> float:
    """The seconds over which the bytes of two times are compared."""
    return max(WINDOW_S, WINDOW_TRIPS * usual_s)
