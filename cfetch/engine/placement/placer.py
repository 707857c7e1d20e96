"""The state of one placement: whether a batch waits, is queued or is being written, and where. Pure.

A batch goes through three states. It *waits* until a volume is chosen; it is *queued* there until the
volume has a free slot; it is *started* until it is written. It is never divided. Its load is added at
assignment and subtracted whenever it leaves: the load of a volume is always that of its unfinished batches.

A volume is usable while its breaker is closed, and one failure opens it. After the pause one probe is let
through: a small batch, whose end decides whether the breaker closes.

Times are passed in and never go back. The caller works in rounds: report what happened, ``assign``,
``begin`` for each free slot, ``overdue``, then sleep until ``next_s`` at the longest.
"""

from bisect import insort
from collections.abc import Set as AbstractSet
from math import inf, nextafter
from operator import attrgetter
from typing import NamedTuple

import msgspec

from cfetch.base.breaker import CLOSED, LONGEST_PAUSE_S, BreakerState
from cfetch.engine.placement.books import (
    BatchState,
    Placed,
    VolumeBooks,
    explain_refusals,
    find_open_home,
    find_probe,
    find_stealable,
    lacks_only_room,
)
from cfetch.engine.placement.chooser import Earlier, Mode, VolumeState, choose
from cfetch.engine.placement.deadlines import Deadlines

LEAST_PROBES = 5  # of a volume within the deadline: one that recovers late in it must be tried
EVIDENCE = 3  # stragglers in a row: the source may be to blame for one or two
RETRY_S = 5.0  # disk space does not become free within a second
SMOOTHING = 0.3  # weight of the newest speed: the last two measurements have half of the weight

NOTHING_EARLIER = Earlier()
NEVER_ROOM = "no destination had room for all of it"
WHY = {Mode.FINISH: "done first there", Mode.COUNT: "fewest files there", Mode.ROUND_ROBIN: "its turn"}
ARRIVAL = attrgetter("arrival")


class Unplaceable(ValueError):
    """A batch that no volume can ever take. The message is for a person."""


class Overdue(NamedTuple):
    """A batch that was given up. ``reasons``: the last reason of each volume, by its index."""

    batch: int
    why: str
    reasons: tuple[str, ...]


class PlacementView(msgspec.Struct, frozen=True, gc=False):
    """The state of one volume for a person. ``queued`` and ``running`` are numbers of batches."""

    load_bytes: int
    load_count: int
    queued: int
    running: int
    speed_bps: float
    room_bytes: int | None
    breaker: BreakerState
    reason: str
    until_s: float


class Placer:
    """Places batches on ``volumes`` volumes. ``deadline_s``: how long a batch may be without a place.

    ``earlier`` tells what stands on the volumes. A paused one gets nothing, but batches that are whole there
    stay.

    The deadline of a batch runs while no volume takes it: while it waits, while it is queued as a probe, and
    while it is started and nothing of it is written. It stands still in the queue of a usable volume, and
    while the batch lacks only the room that other batches take. The first failure after ``note_progress``
    restarts it. While no volume can store anything, all batches share one deadline (``deadlines.py``).

    The deadline itself is a probe: each volume that is out of use is tried once more then, whatever its pause
    is, and batches wait for that answer. A volume that has failed since a batch's deadline is not tried for
    it again: with the pauses of several volumes it would never end.
    """

    def __init__(
        self, volumes: int, *, mode: Mode, deadline_s: float, earlier: Earlier = NOTHING_EARLIER
    ) -> None:
        self._volumes = [VolumeBooks(is_paused=index in earlier.paused) for index in range(volumes)]
        for volume, (held_bytes, held_count) in zip(self._volumes, earlier.held, strict=False):
            volume.held_bytes, volume.held_count = held_bytes, held_count
        self._mode = mode
        self.goes_by_speed = mode is Mode.FINISH
        self._deadline_s = deadline_s
        self._longest_pause_s = min(LONGEST_PAUSE_S, deadline_s / LEAST_PROBES)
        self._deadlines = Deadlines(self._volumes, deadline_s)
        self._batches: dict[int, BatchState] = {}
        self._waiting: list[BatchState] = []  # in the order of arrival
        self._arrivals = 0
        self._turn = earlier.turn

    # knowledge of the volumes

    def set_room(self, index: int, room_bytes: int | None) -> None:
        """Set the bytes that volume ``index`` can hold for all its unfinished batches; None: unbounded."""
        self._volumes[index].room_bytes = room_bytes

    def note_speed(self, index: int, size_bytes: int, seconds: float, *, weight: float = SMOOTHING) -> None:
        """Note that volume ``index`` wrote ``size_bytes`` in ``seconds`` (above 0) in which it was busy."""
        volume = self._volumes[index]
        speed = size_bytes / seconds
        known = volume.speed_bps
        volume.speed_bps = known + weight * (speed - known) if known > 0 else speed

    def note_straggler(self, index: int, now_s: float) -> bool:
        """Note that a file of volume ``index`` was far slower than the rest; True: that opened its breaker.

        The last usable volume stays in use, and so does a volume that is no worse than all others. Started
        batches stay where they are.
        """
        volume = self._volumes[index]
        volume.evidence += 1
        better = any(
            other.usable and not other.is_paused and other.evidence < volume.evidence
            for other in self._volumes
        )
        if not volume.usable or volume.evidence < EVIDENCE or not better:
            return False
        volume.reason = f"{volume.evidence} files in a row were far slower than the rest"
        volume.failed_s = now_s
        volume.breaker = volume.breaker.fail(now_s, threshold=1, longest_s=self._longest_pause_s)
        self._withdraw(volume, now_s)
        return True

    def steady(self, index: int) -> None:
        """Note that a file of volume ``index`` was as fast as the rest."""
        self._volumes[index].evidence = 0

    def view(self, index: int) -> PlacementView:
        """The state of volume ``index`` for a person."""
        volume = self._volumes[index]
        return PlacementView(
            volume.load_bytes,
            volume.load_count,
            len(volume.queued),
            len(volume.running),
            volume.speed_bps,
            volume.room_bytes,
            volume.breaker.position,
            volume.reason,
            volume.breaker.until_s,
        )

    def add_held(self, index: int, size_bytes: int, files: int) -> None:
        """Note that so much more stands on volume ``index``, before its batch is finished there."""
        self._volumes[index].held_bytes += size_bytes
        self._volumes[index].held_count += files

    @property
    def turn(self) -> int:
        """The volume that comes next, if each comes in turn."""
        return self._turn

    # batches come

    def wants_more(self, now_s: float) -> bool:  # noqa: ARG002 - as every other question
        """Whether another batch should arrive: fewer batches wait than volumes are usable, or none waits.

        A probe that waits at a volume out of use does not count, as it is no work for the others.
        """
        usable = [volume for volume in self._volumes if volume.usable]
        unstarted = len(self._waiting) + sum(len(volume.queued) for volume in usable)
        return unstarted < max(1, len(usable))

    def submit(
        self,
        batch: int,
        size_bytes: int,
        files: int,
        now_s: float,
        *,
        home: int | None = None,
        in_place: int = 0,
        without: AbstractSet[int] = frozenset(),
    ) -> None:
        """Add a batch that arrives. ``home``: the volume that holds a part of it from an earlier run.

        ``in_place`` of its files stand already; ``size_bytes`` are those of the others. ``without``: volumes
        that get it only if it has had no other place for ``RETRY_S``.

        Raises Unplaceable if there is no volume, no file in the batch, all are paused, or none has room for
        it even when empty; ValueError if the batch is already here.
        """
        if batch in self._batches:
            raise ValueError(f"batch {batch} is already here")
        if not self._volumes:
            raise Unplaceable("there is nowhere to put it: no destination was given")
        if files < 1:
            raise Unplaceable("the batch has no files")
        missing = files - in_place
        takers = [volume for volume in self._volumes if not (volume.is_paused and missing)]
        if not takers:
            raise Unplaceable("every destination is paused; `cfetch volume resume` lets it take batches")
        rooms = [volume.room_bytes for volume in takers if volume.room_bytes is not None]
        if len(rooms) == len(takers) and size_bytes > max(rooms):
            raise Unplaceable(f"no destination has room for its {size_bytes} bytes: the most is {max(rooms)}")
        arrived = BatchState(batch, size_bytes, missing, home, self._arrivals, since_s=now_s)
        arrived.refused = frozenset(without)
        self._arrivals += 1
        self._batches[batch] = arrived
        self._waiting.append(arrived)

    def assign(self, now_s: float) -> list[Placed]:
        """Assign a probe to each volume whose pause is over, then volumes to the waiting batches in order."""
        for batch in self._waiting:
            if batch.since_s == inf:
                batch.since_s = now_s
        probes = (self._probe(index, now_s) for index in range(len(self._volumes)))
        placed = [probe for probe in probes if probe is not None]
        waiting, self._waiting = self._waiting, []
        known = [volume.to_state() for volume in self._volumes] if waiting else []
        for batch in waiting:
            if now_s >= batch.retry_s:
                batch.refused = batch.barred
                batch.retry_s = inf
            chosen = self._choose(batch, known)
            if chosen is None:
                self._waiting.append(batch)
                if batch.refused != batch.barred:
                    batch.retry_s = min(batch.retry_s, now_s + RETRY_S)
                if lacks_only_room(self._volumes, batch):
                    batch.since_s = inf
                continue
            self._queue(batch, chosen, now_s)
            known[chosen.volume] = self._volumes[chosen.volume].to_state()
            placed.append(chosen)
        if self._waiting:
            self._deadlines.note_drought(now_s)
        return placed

    def _choose(self, batch: BatchState, known: list[VolumeState]) -> Placed | None:
        home = find_open_home(self._volumes, batch)
        if home is not None:
            return Placed(batch.number, home, "part of it is there", None)
        size_bytes, files = batch.size_bytes, batch.files
        choice = choose(known, size_bytes, files, mode=self._mode, turn=self._turn, without=batch.refused)
        if choice.index is None:
            return None
        self._turn = (choice.index + 1) % len(known)
        return Placed(batch.number, choice.index, WHY[self._mode], choice)

    def begin(self, index: int, now_s: float) -> Placed | None:
        """Start a batch on a free slot: the volume's next queued one, or one of another queue, or None."""
        volume = self._volumes[index]
        batch = next(iter(volume.queued.values()), None)
        if batch is None and volume.usable:
            batch = find_stealable(self._volumes, index, self._mode)
            if batch is not None:
                victim = self._leave_queue(batch, now_s)
                self._queue(batch, Placed(batch.number, index, "done sooner here", None, victim), now_s)
        if batch is None:
            return None
        assert batch.placed is not None
        del volume.queued[batch.number]
        volume.running[batch.number] = batch
        if batch.number == volume.probe:
            volume.breaker = volume.breaker.admit()
        else:
            batch.since_s += now_s - batch.queued_s
        return batch.placed

    # batches go

    def note_progress(self, batch: int) -> None:
        """Note that a part of the batch is durable: its deadline restarts at the next failure."""
        known = self._batches.get(batch)
        if known is not None and known.volume is not None:
            known.taken = True
            self._deadlines.note_stored()

    def finish(self, batch: int, now_s: float, *, of: int) -> bool:  # noqa: ARG002
        """Note that volume ``of`` wrote the batch. False: the batch has moved, so discard these files."""
        volume = self._volumes[of]
        if batch not in volume.running:
            return False
        if batch == volume.probe:
            volume.breaker = CLOSED
            volume.evidence = 0
        self._unload(volume.running[batch])
        del self._batches[batch]
        self._deadlines.note_stored()
        return True

    def fail(
        self, batch: int, now_s: float, *, of: int, reason: str, no_room: bool = False, for_good: bool = False
    ) -> list[int]:
        """Note that volume ``of`` could not write the batch, which waits again.

        Returns the queued batches that wait again because ``of`` is now out of use. ``no_room`` is no fault
        of the volume: only this batch avoids it, until the batch has had no other place for ``RETRY_S``, or
        ``for_good``. The failure of a batch that has left ``of`` before changes nothing.
        """
        volume = self._volumes[of]
        known = volume.running.get(batch) or volume.queued.get(batch)
        if known is None:
            return []
        was_usable, was_probe = volume.usable, batch == volume.probe
        volume.reason = reason
        self._wait(known, now_s)
        if no_room:
            known.refused |= {of}
            if for_good:
                known.barred |= {of}
            if was_probe:
                volume.breaker = volume.breaker.end_probe(now_s)
            return []
        volume.failed_s = now_s
        if was_usable or was_probe:  # otherwise it was begun before a failure that has been counted
            volume.breaker = volume.breaker.admit().fail(now_s, threshold=1, longest_s=self._longest_pause_s)
        return self._withdraw(volume, now_s) if was_usable else []

    def volume_failed(self, index: int, now_s: float, reason: str) -> list[int]:
        """Take back all batches of volume ``index``, which hangs or is gone. Returns the started ones.

        A pause that was over is doubled, as after a failed probe.
        """
        volume = self._volumes[index]
        volume.reason, volume.failed_s = reason, now_s
        if volume.breaker.opens_s(now_s) <= now_s:
            volume.breaker = volume.breaker.admit()
        volume.breaker = volume.breaker.fail(now_s, threshold=1, longest_s=self._longest_pause_s)
        self._withdraw(volume, now_s)
        started = list(volume.running.values())
        for batch in started:
            self._wait(batch, now_s)
        return [batch.number for batch in started]

    def cancel(self, batch: int) -> None:
        """Forget the batch, wherever it is."""
        known = self._batches.pop(batch, None)
        if known is None:
            return
        if known.volume is None:
            self._waiting.remove(known)
            return
        volume = self._volumes[known.volume]
        if batch == volume.probe:  # it shows nothing, so another probe may follow at once
            volume.breaker = volume.breaker.end_probe(volume.breaker.until_s)
        self._unload(known)

    def overdue(self, now_s: float) -> list[Overdue]:
        """Give up the waiting batches whose deadline is over or that each volume refuses for good.

        Call it after ``assign``.
        """
        over = [
            batch
            for batch in self._waiting
            if now_s > self._deadlines.of(batch) and not self._find_last_tries(batch)
        ]
        for batch in over:
            self._waiting.remove(batch)
            del self._batches[batch.number]
        late = f"no destination took it within {self._deadline_s:g} s"
        return [
            Overdue(
                batch.number,
                NEVER_ROOM if self._deadlines.is_barred(batch) else late,
                explain_refusals(self._volumes, batch, self._mode),
            )
            for batch in over
        ]

    def next_s(self, now_s: float) -> float:
        """When the next pause, deadline or refusal ends. ``inf``: none is running."""
        soonest = inf
        for index, volume in enumerate(self._volumes):
            if volume.breaker.position is BreakerState.OPEN and self._candidate(index, now_s) is not None:
                soonest = min(soonest, max(now_s, volume.breaker.until_s))
        for batch in self._waiting:
            over_s = self._next_of(batch)
            soonest = min(soonest, max(now_s, over_s), max(now_s, batch.retry_s))
        return soonest

    def _next_of(self, batch: BatchState) -> float:
        """When something is due for a waiting batch: its last tries at the deadline, or its end after it."""
        deadline_s = self._deadlines.of(batch)
        tries = self._find_last_tries(batch)
        if any(volume.probe is None for volume in tries):
            return deadline_s
        return inf if tries else nextafter(deadline_s, inf)

    def _find_last_tries(self, batch: BatchState) -> list[VolumeBooks]:
        """Find the volumes out of use that may yet take the batch: in a probe, or in their last try."""
        return [
            volume
            for index, volume in enumerate(self._volumes)
            if not volume.usable
            and volume.may_take(index, batch)
            and (volume.probe is not None or volume.failed_s < self._deadlines.of(batch))
        ]

    # moves between the states

    def _queue(self, batch: BatchState, placed: Placed, now_s: float) -> None:
        volume = self._volumes[placed.volume]
        batch.volume = placed.volume
        batch.placed = placed
        batch.queued_s = now_s
        batch.retry_s = inf
        volume.add(batch)

    def _unload(self, batch: BatchState) -> None:
        assert batch.volume is not None
        self._volumes[batch.volume].remove(batch)
        batch.volume = None
        batch.placed = None

    def _wait(self, batch: BatchState, now_s: float) -> None:
        """Take the batch back from its volume, and let it wait in the order of arrival."""
        assert batch.volume is not None
        volume = self._volumes[batch.volume]
        if batch.taken:
            batch.taken = False
            batch.since_s = now_s
        elif batch.number in volume.queued and batch.number != volume.probe:
            batch.since_s += now_s - batch.queued_s
        self._unload(batch)
        insort(self._waiting, batch, key=ARRIVAL)

    def _withdraw(self, volume: VolumeBooks, now_s: float) -> list[int]:
        queued = list(volume.queued.values())
        for batch in queued:
            self._wait(batch, now_s)
        return [batch.number for batch in queued]

    def _probe(self, index: int, now_s: float) -> Placed | None:
        volume = self._volumes[index]
        if volume.breaker.position is not BreakerState.OPEN:
            return None
        if volume.breaker.opens_s(now_s) > now_s and not self._is_last_try(index, now_s):
            return None
        batch = self._candidate(index, now_s)
        if batch is None:
            return None
        victim = None
        if batch.volume is None:
            self._waiting.remove(batch)
        else:
            victim = self._leave_queue(batch, now_s)
        placed = Placed(batch.number, index, "a probe after the pause", None, victim, probe=True)
        self._queue(batch, placed, now_s)
        volume.probe = batch.number
        return placed

    def _candidate(self, index: int, now_s: float) -> BatchState | None:
        failed_s = self._volumes[index].failed_s
        deadlines = ((batch, self._deadlines.of(batch)) for batch in self._waiting)
        free = (batch for batch, end_s in deadlines if now_s <= end_s or failed_s < end_s)
        return find_probe(self._volumes, free, index, self._mode)

    def _is_last_try(self, index: int, now_s: float) -> bool:
        """Whether a batch whose deadline has come may yet go to volume ``index``, which is in its pause."""
        volume = self._volumes[index]
        return any(
            volume.failed_s < self._deadlines.of(batch) <= now_s
            and volume.may_take(index, batch)
            and find_open_home(self._volumes, batch) is None
            for batch in self._waiting
        )

    def _leave_queue(self, batch: BatchState, now_s: float) -> int | None:
        """Take the batch out of its queue, in which its deadline stood still. Returns the volume it had."""
        victim = batch.volume
        batch.since_s += now_s - batch.queued_s
        self._unload(batch)
        return victim
