"""Plans which committed batch goes to which volume: when volumes are emptied, or made level. Pure.

A volume's *fill* is the share of its space for batches that they take: their bytes against these bytes and
the free ones. Volumes of one size are level when they hold the same bytes.
"""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from cfetch.engine.placement.chooser import Mode, VolumeState, choose, explain, reserve_bytes


class Shelf(NamedTuple):
    """A volume as it stands: the bytes and files of its batches, its free bytes, whether it may take more."""

    bytes: int
    files: int
    free_bytes: int
    usable: bool = True

    @property
    def spare_bytes(self) -> int:
        """The bytes that batches may take more."""
        return self.free_bytes - reserve_bytes(self.free_bytes)


class PlacedBatch(NamedTuple):
    """A batch on the volume ``home``."""

    home: int
    bytes: int
    files: int


class Move(NamedTuple):
    """The unit of this number goes from one volume to another one; ``why`` is for a person."""

    unit: int
    source: int
    target: int
    why: str


class Relocation(NamedTuple):
    """``moves`` in their order. ``stuck``: units that have to leave, and no volume can take; with reasons."""

    moves: Sequence[Move]
    stuck: Sequence[tuple[int, str]]


def plan_drain(
    units: Sequence[PlacedBatch],
    shelves: Sequence[Shelf],
    names: Sequence[str],
    leaving: AbstractSet[int],
    mode: Mode,
) -> Relocation:
    """Plan where the units of the volumes ``leaving`` go: the largest first, each to the least loaded volume.

    A unit whose home is no such volume stays.
    """
    loads = [(shelf.bytes, shelf.files) for shelf in shelves]
    moves: list[Move] = []
    stuck: list[tuple[int, str]] = []
    turn = 0
    going = (number for number, unit in enumerate(units) if unit.home in leaving)
    for number in sorted(going, key=lambda number: units[number].bytes, reverse=True):
        unit = units[number]
        states = [
            VolumeState(
                load_bytes=held_bytes,
                load_count=files,
                room_bytes=shelf.bytes + shelf.spare_bytes,
                usable=shelf.usable and index not in leaving,
            )
            for index, (shelf, (held_bytes, files)) in enumerate(zip(shelves, loads, strict=True))
        ]
        choice = choose(states, unit.bytes, unit.files, mode=mode, turn=turn)
        if choice.index is None:
            stuck.append((number, explain(choice, names)))
            continue
        turn = choice.index + 1
        held_bytes, files = loads[choice.index]
        loads[choice.index] = held_bytes + unit.bytes, files + unit.files
        why = f"{names[choice.index]} is the least loaded volume with room for it"
        moves.append(Move(number, unit.home, choice.index, why))
    return Relocation(moves, stuck)


def level_shares(shelves: Sequence[Shelf]) -> list[int]:
    """The bytes that each volume would hold if all had the same fill; a volume out of use keeps its own."""
    capacities = [shelf.bytes + shelf.spare_bytes if shelf.usable else 0 for shelf in shelves]
    capacity = sum(capacities)
    total = sum(shelf.bytes for shelf in shelves if shelf.usable)
    return [
        total * own // capacity if shelf.usable and capacity else shelf.bytes
        for shelf, own in zip(shelves, capacities, strict=True)
    ]


def least_bytes(shelves: Sequence[Shelf], bound_bytes: int) -> int:
    """The bytes that must move at least until no volume is more than ``bound_bytes`` off its share."""
    offs = [shelf.bytes - share for shelf, share in zip(shelves, level_shares(shelves), strict=True)]
    return max(
        sum(max(0, off - bound_bytes) for off in offs), sum(max(0, -off - bound_bytes) for off in offs)
    )


def plan_rebalance(
    units: Sequence[PlacedBatch], shelves: Sequence[Shelf], names: Sequence[str], bound_bytes: int
) -> Relocation:
    """Plan moves until no volume is more than ``bound_bytes`` above or below its share (``level_shares``).

    Each move goes from the volume that is most above to the one that is most below, if a unit fits, and is
    the smallest one that brings one of the two within the bound. No unit moves twice. Moved are at most
    ``least_bytes`` and one unit for each volume. If units are larger than the bound, the volumes may
    stay further apart; then no move of a single unit makes them more level.
    """
    offs = [shelf.bytes - share for shelf, share in zip(shelves, level_shares(shelves), strict=True)]
    spare = [shelf.spare_bytes for shelf in shelves]
    usable = [index for index, shelf in enumerate(shelves) if shelf.usable]
    on: dict[int, list[int]] = {index: [] for index in usable}
    for number, unit in sorted(enumerate(units), key=lambda item: item[1].bytes):
        if unit.home in on and unit.bytes:
            on[unit.home].append(number)
    moves: list[Move] = []
    while move := _next_move(units, offs, spare, on, bound_bytes):
        number, source, target = move
        size_bytes = units[number].bytes
        on[source].remove(number)
        offs[source] -= size_bytes
        offs[target] += size_bytes
        spare[target] -= size_bytes
        moves.append(
            Move(number, source, target, f"{names[source]} holds more for its size than {names[target]}")
        )
    return Relocation(moves, ())


def _next_move(
    units: Sequence[PlacedBatch],
    offs: Sequence[int],
    spare: Sequence[int],
    on: dict[int, list[int]],
    bound_bytes: int,
) -> tuple[int, int, int] | None:
    """The next unit with its source and target; None: the volumes are level, or no move helps."""
    from_most = sorted(on, key=lambda index: (-offs[index], index))
    for source in from_most:
        for target in sorted(on, key=lambda index: (offs[index], index)):
            over, under = offs[source] - bound_bytes, -offs[target] - bound_bytes
            if (over <= 0 and under <= 0) or offs[source] <= offs[target]:
                break  # the other targets have more
            needed = min(off for off in (over, under) if off > 0)
            most = min(offs[source] - offs[target] - 1, spare[target])
            fitting = [number for number in on[source] if units[number].bytes <= most]
            number = _pick(units, fitting, needed)
            if number is not None:
                return number, source, target
    return None


def _pick(units: Sequence[PlacedBatch], fitting: Sequence[int], needed: int) -> int | None:
    """The smallest unit of at least ``needed`` bytes, else the largest; ``fitting`` goes by size."""
    enough = next((number for number in fitting if units[number].bytes >= needed), None)
    return enough if enough is not None else next(reversed(fitting), None)
