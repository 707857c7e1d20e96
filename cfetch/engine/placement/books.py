"""The books of one placement: loads, room, and which volume may take which batch. Pure.

The placer (``placer.py``) changes the books. They are one ``BatchState`` for each unfinished batch and one
``VolumeBooks`` for each volume.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import takewhile
from math import inf
from operator import attrgetter
from typing import NamedTuple

import msgspec

from cfetch.base.breaker import CLOSED, Breaker, BreakerState
from cfetch.engine.placement.chooser import (
    NO_ROOM,
    PAUSED,
    Choice,
    Mode,
    VolumeState,
    choose,
    finish_s,
    most_loaded,
    speeds_of,
)

SMALLEST = attrgetter("size_bytes", "arrival")


class Placed(NamedTuple):
    """The placement of a batch. ``why`` is a few words; ``choice`` is there if all volumes were compared.

    ``stolen_from``: the volume in whose queue it was. ``probe``: it decides if the volume is used again.
    """

    batch: int
    volume: int
    why: str
    choice: Choice | None
    stolen_from: int | None = None
    probe: bool = False


class BatchState(msgspec.Struct, eq=False):
    """An unfinished batch, of which ``files`` are missing. ``volume``: by index.

    Its deadline runs from ``since_s`` (inf: it does not).

    ``refused``: volumes that have no room for it now, those among them that never will (``barred``) included.
    """

    number: int
    size_bytes: int
    files: int
    home: int | None
    arrival: int
    since_s: float
    queued_s: float = 0.0
    taken: bool = False
    volume: int | None = None
    placed: Placed | None = None
    refused: frozenset[int] = frozenset()
    barred: frozenset[int] = frozenset()
    retry_s: float = inf


class VolumeBooks(msgspec.Struct, eq=False):
    """One volume. ``queued`` is in the order of assignment; ``probe``: the batch that is a probe, if any.

    ``held_bytes`` and ``held_count`` (files) stand there. ``is_paused``: by a person, for the whole run.
    ``failed_s``: when it failed last.
    """

    breaker: Breaker = CLOSED
    evidence: int = 0
    load_bytes: int = 0
    load_count: int = 0
    probe: int | None = None
    queued: dict[int, BatchState] = {}
    running: dict[int, BatchState] = {}
    reason: str = ""
    room_bytes: int | None = None
    speed_bps: float = 0.0
    held_bytes: int = 0
    held_count: int = 0
    is_paused: bool = False
    failed_s: float = -inf

    @property
    def usable(self) -> bool:
        """Whether batches may be assigned to it: its breaker is closed."""
        return self.breaker.position is BreakerState.CLOSED

    def to_state(self) -> VolumeState:
        """The volume as the chooser sees it."""
        return VolumeState(
            self.load_bytes,
            self.load_count,
            self.speed_bps,
            self.room_bytes,
            self.usable,
            self.held_bytes,
            self.held_count,
            self.is_paused,
        )

    def has_room(self, size_bytes: int, *, empty: bool = False) -> bool:
        """Whether so many bytes fit beside its load; ``empty``: whether they would fit without any load."""
        return self.room_bytes is None or (0 if empty else self.load_bytes) + size_bytes <= self.room_bytes

    def may_take(self, index: int, batch: BatchState) -> bool:
        """Whether the batch, which this volume (number ``index``) has not refused, fits beside its load.

        A paused volume takes only a batch that is whole there.
        """
        is_open = not (self.is_paused and batch.files)
        return is_open and index not in batch.refused and self.has_room(batch.size_bytes)

    def add(self, batch: BatchState) -> None:
        """Queue the batch and add its load."""
        self.queued[batch.number] = batch
        self.load_bytes += batch.size_bytes
        self.load_count += batch.files

    def remove(self, batch: BatchState) -> None:
        """Remove the batch, queued or started, and subtract its load."""
        self.queued.pop(batch.number, None)
        self.running.pop(batch.number, None)
        self.load_bytes -= batch.size_bytes
        self.load_count -= batch.files
        if self.probe == batch.number:
            self.probe = None


def find_open_home(volumes: Sequence[VolumeBooks], batch: BatchState) -> int | None:
    """The volume that holds a part of the batch from an earlier run, if it is usable and has room."""
    home = batch.home
    if home is None or not volumes[home].usable or not volumes[home].may_take(home, batch):
        return None
    return home


def lacks_only_room(volumes: Sequence[VolumeBooks], batch: BatchState) -> bool:
    """Whether only the room that other batches take keeps the batch from a volume."""
    return any(
        volume.usable
        and not volume.is_paused
        and index not in batch.refused
        and volume.has_room(batch.size_bytes, empty=True)
        for index, volume in enumerate(volumes)
    )


def explain_refusals(volumes: Sequence[VolumeBooks], batch: BatchState, mode: Mode) -> tuple[str, ...]:
    """Each volume's reason against the batch: its last failure, and whether it lacks room or is paused."""
    known = [volume.to_state() for volume in volumes]
    choice = choose(known, batch.size_bytes, batch.files, mode=mode, without=batch.refused)
    lacks = [verdict.why * (verdict.why in (NO_ROOM, PAUSED)) for verdict in choice.verdicts]
    reasons = zip((volume.reason for volume in volumes), lacks, strict=True)
    return tuple("; ".join(filter(None, each)) for each in reasons)


def find_probe(
    volumes: Sequence[VolumeBooks], free: Iterable[BatchState], index: int, mode: Mode
) -> BatchState | None:
    """The probe for volume ``index``: the smallest of the ``free`` batches, else the smallest in a queue.

    ``free`` batches wait, and their deadlines are not over.
    """
    if volumes[index].probe is not None:
        return None
    waiting = (
        batch
        for batch in free
        if volumes[index].may_take(index, batch) and find_open_home(volumes, batch) is None
    )
    queued = (batch for victim in range(len(volumes)) for batch in _movable(volumes, victim, index, mode))
    return min(waiting, key=SMALLEST, default=None) or min(queued, key=SMALLEST, default=None)


def find_stealable(volumes: Sequence[VolumeBooks], index: int, mode: Mode) -> BatchState | None:
    """The last movable batch of the queue that ends last, if volume ``index`` would finish it sooner."""
    others = (other for other, volume in enumerate(volumes) if volume.queued)
    stealable = ((other, next(_movable(volumes, other, index, mode), None)) for other in others)
    victims = [(other, last) for other, last in stealable if last is not None]
    if not victims:
        return None
    speeds = speeds_of([volume.to_state() for volume in volumes])

    def cost(number: int, more_bytes: int, more_files: int) -> float:
        """When a volume would finish its load and this much more: seconds, or its files in count mode."""
        if mode is Mode.COUNT:
            return float(volumes[number].held_count + volumes[number].load_count + more_files)
        return finish_s(volumes[number].load_bytes, more_bytes, speeds[number])

    victim, batch = victims[most_loaded([cost(other, 0, 0) for other, _ in victims])]
    behind = list(takewhile(lambda other: other is not batch, reversed(volumes[victim].queued.values())))
    behind_bytes = sum(other.size_bytes for other in behind)
    behind_files = sum(other.files for other in behind)
    there = cost(victim, -behind_bytes, -behind_files)
    return batch if cost(index, batch.size_bytes, batch.files) < there else None


def _movable(volumes: Sequence[VolumeBooks], victim: int, index: int, mode: Mode) -> Iterator[BatchState]:
    """Batches that ``index`` may take from the ``victim``'s queue, the last first: no probe, none at home."""
    volume = volumes[victim]
    if victim == index or not volume.usable or mode is Mode.ROUND_ROBIN:
        return iter(())
    queued = reversed(volume.queued.values())
    return (batch for batch in queued if batch.home != victim and volumes[index].may_take(index, batch))
