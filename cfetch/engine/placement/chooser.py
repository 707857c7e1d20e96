"""Chooses the volume for a whole batch. Pure: a choice is a function of the known state of each volume.

The rule is that of opportunistic distribution: a batch is never divided, it goes to the least loaded volume,
and the caller counts it there at once, so that the next choice sees it. The mode says how load is measured.
"""

from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from enum import Enum
from heapq import heapreplace
from math import fsum
from typing import NamedTuple

import msgspec

OUT_OF_USE = "out of use"
NO_ROOM = "no room"
REFUSED = "does not take it"
PAUSED = "paused by `cfetch volume pause`"
SAME_ROOM = 0.01  # rooms that differ by less are taken for equal
RESERVE_BYTES = 16 << 20  # of a volume, kept free for cfetch's own files
RESERVE_SHARE = 0.01  # the largest reserve, as a share of the volume


class Mode(Enum):
    """The measure by which volumes are compared."""

    FINISH = "finish"
    COUNT = "count"
    ROUND_ROBIN = "round-robin"


class VolumeState(msgspec.Struct, frozen=True, gc=False):
    """The state of one volume, as far as a choice needs it.

    ``load_bytes`` and ``load_count`` (files) are assigned and unfinished; ``held_bytes`` and ``held_count``
    stand there. ``speed_bps`` is in bytes per second; 0 means not measured. ``room_bytes`` is for all
    unfinished batches together; None means unbounded. ``is_paused``: a person keeps batches from it.
    """

    load_bytes: int = 0
    load_count: int = 0
    speed_bps: float = 0.0
    room_bytes: int | None = None
    usable: bool = True
    held_bytes: int = 0
    held_count: int = 0
    is_paused: bool = False


class Earlier(NamedTuple):
    """What earlier runs have left: by volume its bytes and files, and whether it is paused; whose turn it is.

    ``held`` is empty if nothing is known. ``keep_turn`` gets the volume that comes next, at the end.
    """

    held: Sequence[tuple[int, int]] = ()
    paused: AbstractSet[int] = frozenset()
    turn: int = 0
    keep_turn: Callable[[int], None] = lambda index: None  # noqa: ARG005 - nobody asks


class PlacementVerdict(NamedTuple):
    """The verdict of a choice on one volume.

    ``cost`` is in seconds (finish), files (count) or places after the turn (round-robin); None means that the
    volume was no candidate, and ``why`` gives the reason. ``held_bytes`` stand there.
    """

    cost: float | None
    why: str
    held_bytes: int = 0


class Choice(NamedTuple):
    """The volume chosen, None if there was no candidate, and a verdict for each.

    ``is_measured``: the speed of some volume is known; without any the costs of ``FINISH`` are bytes.
    ``is_tie``: what stands on the volumes decided, as others would have finished it at the same time.
    """

    index: int | None  # type: ignore[assignment]  # tuple.index, which nobody needs here
    verdicts: tuple[PlacementVerdict, ...]
    mode: Mode = Mode.FINISH
    is_measured: bool = True
    is_tie: bool = False


def reserve_bytes(size_bytes: int) -> int:
    """The bytes that no batch may take, on a volume that has ``size_bytes`` free or to be filled."""
    return min(RESERVE_BYTES, int(RESERVE_SHARE * size_bytes))


def finish_s(load_bytes: int, batch_bytes: int, speed_bps: float) -> float:
    """Seconds until a volume would have finished its load and the batch."""
    return (load_bytes + batch_bytes) / speed_bps


def speeds_of(volumes: Sequence[VolumeState]) -> list[float]:
    """Each volume's speed; an unmeasured one gets the mean of the measured ones, or 1.0 if there is none."""
    known = [volume.speed_bps for volume in volumes if volume.speed_bps > 0]
    mean = fsum(known) / len(known) if known else 1.0
    return [volume.speed_bps if volume.speed_bps > 0 else mean for volume in volumes]


def choose(
    volumes: Sequence[VolumeState],
    size_bytes: int,
    count: int,  # noqa: ARG001 - adds the same to each, whatever the mode
    *,
    mode: Mode,
    turn: int = 0,
    without: AbstractSet[int] = frozenset(),
) -> Choice:
    """Choose the candidate with the least cost for a batch of ``count`` files; the lowest index on ties.

    In ``FINISH`` the less filled volume comes first on ties: at its beginning a run knows no speeds, so
    without this the first volume would get each run's first batch. Volumes out of use, paused ones, those in
    ``without`` and volumes without room for this batch are no candidates.
    """
    speeds = speeds_of(volumes)
    by_bytes = any(volume.room_bytes is None for volume in volumes)
    verdicts: list[PlacementVerdict] = []
    best: int | None = None
    least = 0.0
    for index, volume in enumerate(volumes):
        why = _objection(volume, size_bytes, refused=index in without)
        if why:
            verdicts.append(PlacementVerdict(None, why))
            continue
        match mode:
            case Mode.FINISH:
                cost = finish_s(volume.load_bytes, size_bytes, speeds[index])
            case Mode.COUNT:
                cost = float(volume.held_count + volume.load_count)
            case Mode.ROUND_ROBIN:
                cost = float((index - turn) % len(volumes))
        verdicts.append(PlacementVerdict(cost, "", volume.held_bytes))
        is_less = best is None or cost < least
        if not is_less and best is not None and cost == least and mode is Mode.FINISH:
            is_less = _is_emptier(volume, volumes[best], by_bytes=by_bytes)
        if is_less:
            best, least = index, cost
    is_measured = any(volume.speed_bps > 0 for volume in volumes)
    equal = [verdict for verdict in verdicts if verdict.cost == least]
    is_tie = mode is Mode.FINISH and len(equal) > 1 and any(verdict.held_bytes for verdict in equal)
    return Choice(best, tuple(verdicts), mode, is_measured, is_tie)


def _is_emptier(volume: VolumeState, other: VolumeState, *, by_bytes: bool) -> bool:
    """Whether less of the space that cfetch has on a volume is filled, as ``rebalance`` sees it.

    ``by_bytes``, and if both have as much room, the bytes are compared: directories of one disk state its
    room a moment apart, and what other programs write meanwhile must not decide.
    """
    room, other_room = volume.room_bytes or 0, other.room_bytes or 0
    if by_bytes or abs(room - other_room) <= SAME_ROOM * max(room, other_room):
        return volume.held_bytes < other.held_bytes
    return volume.held_bytes * (other.held_bytes + other_room) < other.held_bytes * (volume.held_bytes + room)


def _objection(volume: VolumeState, size_bytes: int, *, refused: bool) -> str:
    if not volume.usable:
        return OUT_OF_USE
    if volume.is_paused:
        return PAUSED
    if refused:
        return REFUSED
    if volume.room_bytes is not None and volume.load_bytes + size_bytes > volume.room_bytes:
        return NO_ROOM
    return ""


def explain(choice: Choice, names: Sequence[str]) -> str:
    """One line for a person: the volume that was chosen, and the reasons against the others."""
    others = ", ".join(
        f"{name} {_cost_text(verdict, choice)}"
        for index, (name, verdict) in enumerate(zip(names, choice.verdicts, strict=True))
        if index != choice.index
    )
    if choice.index is None:
        return f"nowhere: {others}" if others else "nowhere: there is no volume"
    chosen = _cost_text(choice.verdicts[choice.index], choice)
    if choice.mode is Mode.FINISH:
        chosen = f"done in {chosen}" if choice.is_measured else f"{chosen} with it, no speed is known yet"
    return f"{names[choice.index]}: {chosen}" + (f"; {others}" if others else "")


def _cost_text(verdict: PlacementVerdict, choice: Choice) -> str:
    if verdict.cost is None:
        return f"has {verdict.why}" if verdict.why == NO_ROOM else verdict.why
    match choice.mode:
        case Mode.FINISH:
            cost = f"{verdict.cost:.1f} s" if choice.is_measured else _mib(verdict.cost)
            return f"{cost} ({_mib(verdict.held_bytes)} there)" if choice.is_tie else cost
        case Mode.COUNT:
            return f"{verdict.cost:.0f} {'file' if verdict.cost == 1 else 'files'} there"
        case Mode.ROUND_ROBIN:
            return "its turn" if verdict.cost == 0 else f"{verdict.cost:.0f} after the turn"


def _mib(size_bytes: float) -> str:
    return f"{size_bytes / (1 << 20):.1f} MiB"


def spread(sizes: Sequence[int], volumes: int) -> list[int]:
    """The volume of each size if all are known beforehand: the largest first, each to the least loaded.

    Equal sizes keep their order; the lowest index on ties. The largest load is at most 4/3 - 1/(3 volumes)
    of the least possible (R. Graham, "Bounds on multiprocessing timing anomalies", 1969, theorem 2). Raises
    ValueError if there is no volume.
    """
    if volumes < 1:
        raise ValueError("there is no volume to spread over")
    loads = [(0, index) for index in range(volumes)]
    homes = [0] * len(sizes)
    for item in sorted(range(len(sizes)), key=sizes.__getitem__, reverse=True):
        load, index = loads[0]
        homes[item] = index
        heapreplace(loads, (load + sizes[item], index))
    return homes


def most_loaded(loads: Sequence[float]) -> int:
    """The volume to relieve: the largest load, the lowest index on ties. Raises ValueError without any."""
    return max(range(len(loads)), key=loads.__getitem__)
