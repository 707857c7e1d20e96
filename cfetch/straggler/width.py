"""How many attempts one host gets at a time: as many as make it faster. Pure.

Each change is a trial. Only the bytes that the host brings a second with all its attempts together decide
about it. The number of stragglers does not matter here: bad connections are bad at any width, and the policy
cancels each of them.

At the start the slots double for as long as that is worth it. After that a step up is tried now and then,
and kept if the host becomes faster; or a step down is tried, and kept if nothing is lost, because a network
that became faster by itself looks like a step up that helped. More slots are not tried while all of a host's
attempts are slow at once, nor if our own processor could not handle them.

A full link shows in the handshakes of new connections before it shows in the rate (``link_queue.py``). Where
TCP tells that most connections stand in a queue and lose packets, no new one is needed to see it. A limit
that drops packets in place of queueing them shows in the losses alone: until a first trial has shown what
more slots bring, and if it brings nothing, such a link counts as full.

The slots fall below the start only if that makes the host faster: then it was drowning. A step up that made
it slower leads to that trial. If no step up is allowed, a small step down is tried, as soon as its possible
cost is a small share of the run's expected time. A host that was relieved is relieved further, at last slot
by slot, until that no longer helps.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from cfetch.base.backoff import double

if TYPE_CHECKING:
    from cfetch.straggler.link_queue import LinkQueue

FLOOR = 2  # a lone attempt has no witness: it may be slow, or the network may be
STEP = 1.25  # a failed step costs other users of the host at most a quarter more load for one period
WORTH = 0.2  # of the added share must show in the rate: 5 % for a full step; less is noise
SETTLE_S = 1.0  # new connections shake hands and get to speed
LONGEST_PERIOD_S = 60.0  # then the period counts as it is, as a slow host may not bring more before the end
FIRST_HOLD_S, LONGEST_HOLD_S = 10.0, 300.0  # between trials that fail: 13 in the first hour
REMEMBERED_HOLD_S = 60.0  # after two runs have seen connections hang, a third look can wait

DOUBLE = 2.0  # the step while the slots climb: the gain is large then, and shows soon
DOUBLE_WORTH = 0.4  # 40 % more bytes a second
DOUBLE_SETTLE_S = 0.3
EMPTY_BYTES = 64 << 10  # an attempt: before that the run has hardly filled a queue
FAR_S = 0.005  # a shorter handshake shows our own processor rather than a queue
SLACK = 0.5  # of the run's expected rest, which may become shorter
SLOW_START_TRIPS = 15  # round trips: ten segments double to a share of any link, and the loss is mended
MENDED_S = 4.0  # from the run's start: TCP has repeated the bursts that a limit without a queue has dropped
LATELY_S, LATELY_TRIPS = 1.0, 10  # since flows stood in a queue: TCP has filled it again by then
RAMP = 8  # looks for a doubling where handshakes are watched: queues of TCP fill and empty within that time
LESS, MORE = 0.9, 1.1  # times the slots must and may be in use while a rate is measured
HALF = 0.5  # a host that a step up has made slower is relieved quickly
THREE_QUARTERS = 0.75  # a trial at a host without signs of drowning must be cheap
RELIEF = 0.2  # the gain in speed that keeps a step down below the start
MOST_SILENT = 1 / 8  # of the attempts may be silent; with more, the rate shows nothing about the slots
MORE_RELIEF = 0.06  # gain of a further step, once drowning is known; two of seventeen slots bring it
PROBE_SHARE = 0.02  # of a run's time may be lost to such trials
PROBE_S = 0.24  # about the loss of one trial: a quarter of the slots for the time of a quick period


class WidthChange(NamedTuple):
    """A new number of ``slots`` in place of ``before``; ``reason`` is a clause for a person.

    ``is_refused``: the host has refused further connections.
    """

    before: int
    slots: int
    reason: str
    is_refused: bool = False


class TcpSigns(NamedTuple):
    """What TCP tells of a host: ``lose``: most connections have lost packets; ``queue``: and stand in one."""

    queue: bool
    lose: bool


class HostReading(NamedTuple):
    """The observation of a host, made a few times a second.

    ``received``: bytes that have come from it since the run's start; ``running`` attempts now. ``cpu_s``:
    processor time of the thread that runs the downloads; only differences mean anything. ``left_s``: the
    expected rest of the run. ``silent``: running attempts that have long waited for a first byte;
    ``waiting``: all that wait for it. ``handshakes_s``: what the connections of those running took, in the
    order of their start. ``ask_tcp``: asks what their TCP tells, by the round trip without a queue.
    """

    now_s: float
    received: int
    running: int
    cpu_s: float = 0.0
    left_s: float = 0.0
    silent: int = 0
    waiting: int = 0
    handshakes_s: Sequence[float] = ()
    ask_tcp: Callable[[float], TcpSigns | None] | None = None


class _Trial(NamedTuple):
    """The state before a trial: the slots, and the bytes a second with them; ``goal``: the slots tried."""

    level: int
    rate_bps: float
    began_s: float
    goal: int


@dataclass(slots=True)
class _Period:
    """The time over which a rate is measured, from ``since`` on; ``ends`` attempts completed in it.

    ``waits``: the sum, over its looks, of the share of attempts that waited for a first byte, above a half.
    """

    since: HostReading
    ends: int = 0
    waits: float = 0.0


class _Sample(NamedTuple):
    """The least that a period must hold before its rate counts: seconds, and ends of attempts or bytes.

    Ends and bytes are for each slot: a rate of fewer would show only latency or chance.
    """

    least_s: float
    ends_a_slot: int
    bytes_a_slot: int


FULL = _Sample(3.0, 4, 4 << 20)  # a dozen reports; the fluctuations of one connection even out over that
QUICK = _Sample(0.5, 2, 256 << 10)  # for large steps, whose gain shows soon
SURE = QUICK._replace(least_s=1.0)  # for the rates that first decide that a host drowns


@dataclass(slots=True)
class _Served:
    """The served connections: ``remembered`` from an earlier run until more are served; 0: not known.

    ``proven``: the slots that were all served before more were tried.
    """

    remembered: int
    proven: int = 0


@dataclass(slots=True)
class _Link:
    """What is known of the link. ``is_full``: more slots have brought nothing, so slots are not scarce.

    ``queue``: of a host that is far enough to show one. ``ramps``: a climb adds its slots little by little.
    ``usual_bps``: the rate of the last period. ``left_s``: the expected rest of the run. ``has_queued``: a
    climb has ended because the link was full, so what is slow with more slots is the link, not the host.
    ``ask_tcp`` asks TCP; ``asked_s``: when it was last asked without a trial; ``queued_s``: when it then last
    told of a queue. ``is_judged``: a trial of more slots has shown what they bring.
    """

    is_full: bool = False
    has_queued: bool = False
    queue: "LinkQueue | None" = None
    ramps: bool = False
    usual_bps: float = 0.0
    left_s: float = 0.0
    is_judged: bool = False
    ask_tcp: Callable[[float], TcpSigns | None] | None = None
    asked_s: float = 0.0
    queued_s: float = -math.inf

    def read_tcp(self) -> TcpSigns | None:
        """What TCP tells of most connections; None: nothing, or the host is near."""
        if self.ask_tcp is None or self.queue is None or not self.queue.is_far:
            return None
        return self.ask_tcp(self.queue.usual_s)

    def is_felt(self) -> bool | None:
        """Whether most connections stand in a queue that they have filled; None: TCP does not tell."""
        signs = self.read_tcp()
        return None if signs is None else signs.queue

    def look(self, now_s: float, *, calm: bool) -> None:
        """Notice a full link without a trial: all are slow and queue, or they lose from the start."""
        signs, self.asked_s = self.read_tcp(), now_s
        if signs is None:
            return
        if signs.queue:
            self.queued_s = now_s
        self.is_full |= (signs.queue and not calm) or (signs.lose and not self.is_judged)

    def has_queued_lately(self, now_s: float) -> bool:
        """Whether most connections stand in a queue, or have before TCP could fill it again after a loss."""
        since_s = self.queued_s + max(LATELY_S, LATELY_TRIPS * (self.queue.usual_s if self.queue else 0.0))
        return now_s < since_s or self.is_felt() is True

    def judge(self, *, is_worth: bool) -> None:
        """Note whether a trial of more slots was worth it.

        Where it was not and TCP tells of nothing, something else has disturbed it, such as a path that died.
        """
        signs = None if is_worth else self.read_tcp()
        self.is_full = not is_worth and (self.is_full or signs is None or any(signs))
        self.is_judged = True


class _Losses:
    """The cost of trials with fewer slots than at the start, as time of the run.

    ``left_s``: the time that they may still cost, out of a share of the run's whole expected time.
    """

    def __init__(self) -> None:
        self._first_s: float | None = None
        self._last_s = 0.0
        self._lost_s = 0.0
        self.left_s = 0.0

    def count(self, reading: HostReading, slots: int) -> None:
        """Add the time lost since the last look: the idle share of ``slots``, if each brings the same."""
        if self._first_s is None:
            self._first_s = self._last_s = reading.now_s
        self._lost_s += (reading.now_s - self._last_s) * max(0.0, 1.0 - reading.running / max(slots, 1))
        self._last_s = reading.now_s
        self.left_s = PROBE_SHARE * (reading.now_s - self._first_s + reading.left_s) - self._lost_s


class Width:
    """The slots of one host: from ``start`` up to ``most``, or down to very few.

    ``slots``: attempts that may be under way. ``served``: the number of connections that were served in an
    earlier run while further ones hung; the host begins with this number. The first trial comes at once: if
    more are served now, the slots climb, else the next trial waits.
    """

    def __init__(self, start: int, most: int, served: int = 0) -> None:
        self._served = _Served(served if FLOOR <= served < start else 0)
        self.slots = self._served.remembered or start
        self._start = start
        self._most = most
        self._climbs = most > start and not self._served.remembered  # no trial has failed yet
        self._drowns = False  # whether the host was slower with more slots
        self._is_relieved = False  # whether it has fewer slots than at the start because that was faster
        self._is_fine = False  # whether relief continues slot by slot
        self._trial: _Trial | None = None
        self._goes_down = False
        self._quiet_until_s = 0.0
        self._hold_s = REMEMBERED_HOLD_S if self._served.remembered else FIRST_HOLD_S
        self._period: _Period | None = None
        self._losses = _Losses()
        self._link = _Link()

    @property
    def fills_link(self) -> bool:
        """Whether more slots have brought nothing, so that slots are not scarce."""
        return self._link.is_full

    @property
    def slack_s(self) -> float:
        """Seconds that an attempt may take without delay for the run; 0: not known."""
        return SLACK * self._link.left_s if self._link.is_full else 0.0

    def note_end(self) -> None:
        """Note that an attempt completed."""
        if self._period is not None:
            self._period.ends += 1

    def yield_slot(self, now_s: float, served: int) -> WidthChange | None:
        """Give a slot up: a new connection hangs while the host serves ``served`` others.

        A host that serves a limited number of connections lets the others wait. Later trials of a step up may
        win the slot back. Connections that hang during a trial cost no slot that was proven before.
        """
        before, slots = self.slots, max(served, self._served.proven, self.slots - 1)
        if served < FLOOR or slots >= before:
            return None
        self._hold_s = FIRST_HOLD_S
        self._is_relieved = False
        self._end(now_s, slots, next_down=False)
        return WidthChange(before, slots, "new connections hang while others are served")

    def adjust(self, reading: HostReading, *, calm: bool) -> WidthChange | None:
        """Look at the host, a few times a second. ``calm`` False: it throttles, or all attempts are slow."""
        now_s, running, self._link.left_s = reading.now_s, reading.running, reading.left_s
        self._link.ask_tcp = reading.ask_tcp
        self._losses.count(reading, self._trial.level if self._trial and self._tries_few() else running)
        is_due = now_s >= self._link.asked_s + SETTLE_S and reading.received >= EMPTY_BYTES * running
        if is_due and self._link.queue is not None:
            self._link.look(now_s, calm=calm)
        self._end_bad_trial(now_s, calm=calm)
        if reading.handshakes_s and (self._link.queue is not None or reading.handshakes_s[-1] > FAR_S):
            self._watch_queue(reading)
        if self._trial is not None and self.slots < self._trial.goal:
            self.slots = min(self._trial.goal, self.slots + max(1, self._trial.level // RAMP))
            self._quiet_until_s = now_s + DOUBLE_SETTLE_S
        elif running > MORE * self.slots:  # attempts of a trial that is over have to end first
            self._period = None
        elif running < LESS * self.slots:  # a file has just ended, and the next has not begun
            self._period = None
            if self._trial is not None and now_s - self._trial.began_s > LONGEST_PERIOD_S / 2:
                self._end(now_s, self._trial.level, next_down=False)  # nothing more is left to fetch there
        elif self._period is not None:
            return self._measure(reading, self._period, calm=calm)
        elif now_s >= self._quiet_until_s:
            self._period = _Period(reading)
        return None

    def _end_bad_trial(self, now_s: float, *, calm: bool) -> None:
        """End a trial of more slots that has made all attempts slow, or one of few that costs too much."""
        trial = self._trial
        if trial is not None and not calm and self.slots > trial.level and self._link.is_felt() is not False:
            self._link.is_full = True
            self._end(now_s, trial.level, next_down=True)
            self._suspect_drowning(now_s)
        elif trial is not None and self._costs_too_much():
            self._end(now_s, trial.level, next_down=False)

    def _watch_queue(self, reading: HostReading) -> None:
        """End a trial of more slots once most of its new connections have queued: the link is full."""
        if self._link.queue is None:
            from cfetch.straggler.link_queue import LinkQueue  # servers nearby show none

            self._link.queue = LinkQueue(FAR_S)
        trial = self._trial
        is_climb = trial is not None and self.slots > trial.level
        is_empty = reading.received < EMPTY_BYTES * reading.running
        new = 2 if self._link.ramps or trial is None else max(2, reading.running - trial.level)
        made_s = reading.handshakes_s
        if self._link.queue.is_felt(made_s, is_empty=is_empty, is_climb=is_climb, new=new):
            self._link.is_full = True
            self._link.has_queued |= is_climb
            if trial is not None and is_climb:
                self._end(reading.now_s, trial.level, next_down=False)

    def _measure(self, reading: HostReading, period: _Period, *, calm: bool) -> WidthChange | None:
        """Judge the rate of the period so far, if it is long enough."""
        period.waits += reading.waiting / max(reading.running, 1) - HALF
        elapsed_s = reading.now_s - period.since.now_s
        came = reading.received - period.since.received
        large_steps = self._climbs or not calm or self._drowns or self.slots < self._start
        if reading.silent > MOST_SILENT * reading.running:  # slots that get no bytes show nothing
            calm = False
            if self._trial is None:
                self._served.proven = 0
        rate_bps = came / elapsed_s if elapsed_s > 0 else 0.0
        finds_drowning = self._may_probe(calm=calm) or (self._says_relief(rate_bps) and not self._drowns)
        sample = SURE if finds_drowning else QUICK if large_steps else FULL
        is_large = period.ends >= sample.ends_a_slot * self.slots or came >= sample.bytes_a_slot * self.slots
        if elapsed_s < sample.least_s or not (is_large or elapsed_s > LONGEST_PERIOD_S):
            return None
        self._period = None
        self._link.ramps = period.waits <= 0 and self._link.queue is not None and self._link.queue.is_far
        busy = (reading.cpu_s - period.since.cpu_s) / elapsed_s
        return self._judge_rate(reading.now_s, rate_bps, busy, calm=calm)

    def _tries_few(self) -> bool:
        """Whether fewer slots are tried than the host had at the start."""
        return self._trial is not None and self.slots < min(self._trial.level, self._start)

    def _may_probe(self, *, calm: bool) -> bool:
        """Whether fewer slots may be tried without any sign of drowning."""
        is_plain = self._trial is None and self.slots == self._most == self._start
        return calm and is_plain and self._losses.left_s >= PROBE_S

    def _says_relief(self, rate_bps: float) -> bool:
        """Whether a trial of fewer slots than at the start seems to help."""
        trial = self._trial
        return trial is not None and self._tries_few() and rate_bps >= (1 + RELIEF) * trial.rate_bps

    def _costs_too_much(self) -> bool:
        """Whether a trial of fewer slots without signs of drowning lasts too long: attempts end slowly."""
        return self._tries_few() and not self._drowns and self._period is None and self._losses.left_s < 0

    def _judge_rate(self, now_s: float, rate_bps: float, busy: float, *, calm: bool) -> WidthChange | None:
        if self._trial is None:
            self._try(now_s, rate_bps, busy, calm=calm)
            return None
        before, slots = self._trial, self.slots
        gain = rate_bps / before.rate_bps - 1 if before.rate_bps > 0 else 0.0
        is_worth = gain >= self._least_gain(before.level, slots)
        if slots > before.level:
            self._link.judge(is_worth=is_worth)
        if not is_worth:
            self._end(now_s, before.level, next_down=slots > before.level)
            self._drowns = False
            if slots > before.level and gain < -RELIEF and not self._is_relieved:
                self._suspect_drowning(now_s)
            elif slots < before.level and self._is_relieved:
                self._refine(now_s, slots)
            return None
        if gain > 0:
            more = f"{100 * gain:.0f} % more bytes a second"
            reason = f"{more} with {slots} than with {before.level} at a time"
        else:
            reason = f"it is as fast with {slots} as with {before.level} at a time"
        self._trial = None
        self._hold_s = FIRST_HOLD_S
        self._is_relieved = self._is_relieved and slots < self._start
        if 0 < self._served.remembered < slots:
            self._climbs, self._served.remembered = True, 0
        if slots < min(before.level, self._start):
            self._climbs, self._goes_down, self._drowns, self._is_relieved = False, True, True, True
        self._try(now_s, rate_bps, busy, calm=calm)  # continue in the same direction, from this rate
        return WidthChange(before.level, slots, reason)

    def _refine(self, now_s: float, slots: int) -> None:
        """Continue after a step down to ``slots`` that was too much: first slot by slot, then up again.

        The step up comes at once, because the network may have recovered by itself at the first step.
        """
        self._is_fine = not self._is_fine and slots < self.slots - 1
        self._drowns = self._goes_down = self._is_fine
        self._hold_s = FIRST_HOLD_S
        self._quiet_until_s = now_s + DOUBLE_SETTLE_S

    def _suspect_drowning(self, now_s: float) -> None:
        """Try fewer slots soon, as all attempts became slow with more."""
        if self._link.has_queued:
            return
        self._drowns = True
        self._quiet_until_s = now_s + SETTLE_S

    def _least_gain(self, before: int, slots: int) -> float:
        """How much the rate must have grown for a step from ``before`` to ``slots`` to stay."""
        if slots < min(before, self._start):
            return MORE_RELIEF if self._is_relieved else RELIEF
        if slots < before:
            return -WORTH * (before / slots - 1)
        if self._is_relieved and slots <= self._start:
            return -MORE_RELIEF  # in doubt the host gets its slots back
        return (DOUBLE_WORTH if self._climbs else WORTH) * (slots / before - 1)

    def _try(self, now_s: float, rate_bps: float, busy: float, *, calm: bool) -> None:
        """Try more slots, or fewer. ``busy``: the share of the time for which our own thread computed."""
        step = DOUBLE if self._climbs else STEP
        up = min(self._most, max(self.slots + 1, int(self.slots * step)))
        may_grow = calm and busy * (1.0 + self._least_gain(self.slots, up)) <= 1.0
        down = self._choose_fewer(rate_bps, calm=calm)
        self._link.usual_bps = rate_bps
        if self._goes_down or up == self.slots or not may_grow:
            self._goes_down = down < self.slots
        if not may_grow and not self._goes_down:
            return
        slots = down if self._goes_down else up
        if slots == self.slots or (slots == up and self._link.ramps and self._is_too_soon(now_s)):
            return
        if slots == up and self._link.has_queued_lately(now_s):  # more would only lengthen the queue
            self._link.is_full, self._quiet_until_s = True, now_s + SETTLE_S
            return
        if not (self._goes_down or self._is_relieved):
            self._served.proven = self.slots
        self._trial = _Trial(self.slots, rate_bps, now_s, slots)
        is_ramp = self._link.ramps and self._climbs and slots > self.slots
        self.slots = min(slots, self.slots + max(1, self.slots // RAMP)) if is_ramp else slots
        self._quiet_until_s = now_s + (DOUBLE_SETTLE_S if self._climbs or slots < self._start else SETTLE_S)

    def _is_too_soon(self, now_s: float) -> bool:
        """Whether slow start, which fills a queue for a moment, may still go on, or its losses be mended."""
        if self._link.queue is None:
            return False
        if now_s < SLOW_START_TRIPS * self._link.queue.usual_s:
            return True
        signs = self._link.read_tcp() if now_s < MENDED_S else None
        return signs is not None and signs.lose

    def _choose_fewer(self, rate_bps: float, *, calm: bool) -> int:
        """The slots of the next step down; the present number if none is to be tried."""
        slots, least = self.slots, min(FLOOR, self._start)
        if self._start < slots < self._most:
            return max(self._start, min(slots - 1, int(slots / STEP)))
        if self._drowns:
            share = HALF if slots >= self._start else THREE_QUARTERS
            return max(least, slots - 1 if self._is_fine else int(slots * share))
        # a rate that grows anyway would look like relief
        is_steady = abs(rate_bps - self._link.usual_bps) <= RELIEF * self._link.usual_bps
        may_probe = is_steady and self._may_probe(calm=calm)
        return max(least, int(slots * THREE_QUARTERS)) if may_probe else slots

    def _end(self, now_s: float, level: int, *, next_down: bool) -> None:
        self._trial, self._period = None, None
        self._climbs = False
        self._goes_down = next_down
        self.slots = level
        self._quiet_until_s = now_s + self._hold_s
        self._hold_s = double(self._hold_s, LONGEST_HOLD_S)
