"""Where batches go when a volume is emptied or volumes are made level: what holds for every case."""

from hypothesis import given
from hypothesis import strategies as st

from cfetch.engine.placement.chooser import Mode
from cfetch.engine.placement.relocation import (
    PlacedBatch,
    Relocation,
    Shelf,
    least_bytes,
    level_shares,
    plan_drain,
    plan_rebalance,
)

MIB = 1 << 20
FREE = st.integers(0, 200)
NAMES = ("v0", "v1", "v2", "v3", "v4")


@st.composite
def scenes(draw, free=FREE):
    """Units on volumes, sizes in MiB; each volume holds just its units."""
    count = draw(st.integers(2, 5))
    volumes = st.integers(0, count - 1)
    units = draw(
        st.lists(
            st.builds(
                lambda home, size, files: PlacedBatch(home, size * MIB, files),
                volumes,
                st.integers(0, 40),
                st.integers(1, 9),
            ),
            max_size=30,
        )
    )
    shelves = [
        Shelf(
            sum(unit.bytes for unit in units if unit.home == index),
            sum(unit.files for unit in units if unit.home == index),
            draw(free) * MIB,
            draw(st.booleans()) if index > 1 else True,
        )
        for index in range(count)
    ]
    return units, shelves


def after(units, shelves, relocation):
    """The bytes of each volume after the moves, which must be possible one after the other."""
    held, spare = [shelf.bytes for shelf in shelves], [shelf.spare_bytes for shelf in shelves]
    for move in relocation.moves:
        unit = units[move.unit]
        assert move.source == unit.home != move.target
        assert shelves[move.target].usable
        held[move.source] -= unit.bytes
        held[move.target] += unit.bytes
        spare[move.target] -= unit.bytes
        assert spare[move.target] >= 0
    assert len({move.unit for move in relocation.moves}) == len(relocation.moves)
    return held


@given(scenes(), st.sampled_from(list(Mode)))
def test_every_batch_leaves_or_has_a_reason(scene, mode):
    """Each batch of the volume goes to one volume with room that does not leave, or is named with why not."""
    units, shelves = scene
    planned = plan_drain(units, shelves, NAMES[: len(shelves)], {0}, mode)
    after(units, shelves, planned)
    gone = {move.unit for move in planned.moves}
    left = {number for number, _ in planned.stuck}
    assert gone | left == {number for number, unit in enumerate(units) if unit.home == 0}
    assert not gone & left
    assert all(move.target != 0 and move.why for move in planned.moves)
    assert all(why for _, why in planned.stuck)


def test_the_largest_go_first_to_the_least_loaded():
    """Emptying one of three volumes leaves the other two level, as their own batches count."""
    units = [PlacedBatch(0, size * MIB, 1) for size in (10, 30, 20)] + [PlacedBatch(1, 25 * MIB, 1)]
    shelves = [Shelf(60 * MIB, 3, 1 << 40), Shelf(25 * MIB, 1, 1 << 40), Shelf(0, 0, 1 << 40)]
    moves = plan_drain(units, shelves, NAMES[:3], {0}, Mode.FINISH).moves
    assert [(move.unit, move.target) for move in moves] == [(1, 2), (2, 1), (0, 2)]


@given(scenes(), st.integers(0, 30))
def test_what_moves_makes_volumes_more_level(scene, bound):
    """No move overfills a volume, and none makes the volumes less level."""
    units, shelves = scene
    planned = plan_rebalance(units, shelves, NAMES, bound * MIB)
    shares = level_shares(shelves)

    def spread(held):
        return sum((own - share) ** 2 for own, share in zip(held, shares, strict=True))

    before = spread([shelf.bytes for shelf in shelves])
    for number in range(1, len(planned.moves) + 1):
        now = spread(after(units, shelves, Relocation(planned.moves[:number], ())))
        assert now < before
        before = now


@given(scenes(free=st.just(1 << 24)), st.integers(1, 30))
def test_level_within_the_bound(scene, bound):
    """With room, and small batches, each volume ends within the bound; little more moves than must."""
    units, shelves = scene
    units = [unit._replace(bytes=min(unit.bytes, bound * MIB)) for unit in units]
    shelves = [
        shelf._replace(bytes=sum(unit.bytes for unit in units if unit.home == index))
        for index, shelf in enumerate(shelves)
    ]
    planned = plan_rebalance(units, shelves, NAMES, bound * MIB)
    held = after(units, shelves, planned)
    offs = [abs(own - share) for own, share in zip(held, level_shares(shelves), strict=True)]
    assert max(offs) <= bound * MIB
    moved = sum(units[move.unit].bytes for move in planned.moves)
    largest = max((unit.bytes for unit in units), default=0)
    assert moved <= least_bytes(shelves, bound * MIB) + len(shelves) * largest


def test_level_volumes_stay():
    """Nothing moves between volumes that differ by no more than the bound."""
    units = [PlacedBatch(0, 10 * MIB, 1), PlacedBatch(1, 12 * MIB, 1)]
    shelves = [Shelf(10 * MIB, 1, 1 << 40), Shelf(12 * MIB, 1, 1 << 40)]
    assert plan_rebalance(units, shelves, NAMES, MIB).moves == []


def test_a_larger_volume_holds_more():
    """The measure is the fill: a volume of three times the space takes three times the bytes."""
    units = [PlacedBatch(0, MIB, 1) for _ in range(40)]
    shelves = [Shelf(40 * MIB, 40, 2500 * MIB), Shelf(0, 0, 7580 * MIB)]
    assert len(plan_rebalance(units, shelves, NAMES, 0).moves) == 30
