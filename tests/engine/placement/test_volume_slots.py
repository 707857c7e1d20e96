"""How many entries are brought to each volume at a time."""

import pytest

from cfetch.engine.placement.volume_slots import Load, VolumeSlots, divide_slots

IDLE, QUICK = Load(False, 0, 0.0), Load(True, 8, 0.0)


@pytest.mark.parametrize(
    ("loads", "shares"),
    [
        ([QUICK], [16]),
        ([QUICK, QUICK], [8, 8]),
        ([QUICK, QUICK, QUICK], [6, 6, 6]),
        ([QUICK, IDLE], [16, 16]),
        ([], []),
        ([QUICK, Load(True, 8, 0.4)], [8, 8]),
        ([QUICK, Load(True, 8, 7.2)], [14, 2]),
        ([QUICK, Load(True, 8, 8.0)], [14, 2]),
        ([QUICK, Load(True, 2, 1.2)], [14, 2]),
        ([QUICK, Load(True, 8, 4.5)], [11, 5]),
        ([QUICK, Load(True, 8, 0.5)], [8, 8]),
        ([QUICK, Load(True, 6, 5.0), Load(True, 6, 3.0)], [10, 2, 4]),
        ([QUICK, QUICK, Load(True, 6, 5.2)], [7, 7, 2]),
        ([IDLE, Load(True, 16, 15.0)], [16, 2]),
        ([Load(True, 8, 8.0), Load(True, 8, 3.0)], [8, 8]),
        ([QUICK, Load(True, 0, 3.0)], [14, 2]),
    ],
)
def test_a_slow_volume_gets_what_it_needs_and_the_others_the_rest(loads, shares):
    """One that writes as fast as its share of the network keeps that share; where all are slow, all do."""
    assert divide_slots(16, loads) == shares


def test_everyone_has_a_place():
    """Also where there are more volumes than places."""
    assert divide_slots(2, [QUICK] * 5) == [1] * 5


@pytest.mark.parametrize("disk", [0.3, 0.8, 1.5, 2.5, 3.5, 6.9])
def test_the_share_of_a_slow_volume_comes_to_rest(disk):
    """``disk``: connections that the volume keeps up with; it needs as many, and one more."""
    for running in range(1, 9):
        shares, now = [], running
        for _ in range(10):
            waiting = max(0.0, now - disk)
            now = min(8, divide_slots(16, [QUICK, Load(True, now, waiting)])[1])
            shares.append(now)
        assert shares[-1] == shares[-2] >= min(8, disk)


def test_waiting_is_averaged():
    """Over half a second at least; from a second of it a second on, a volume is slow."""
    shares = VolumeSlots(8, 2)
    assert shares.divide([True, True], [4, 4]) == [4, 4]
    shares.note_waits(0.4, [0.0, 1.6])
    assert shares.divide([True, True], [4, 4]) == [4, 4]
    shares.note_waits(1.0, [0.0, 3.0])
    assert shares.divide([True, True], [4, 4]) == [6, 2]
    assert shares.divide([False, True], [0, 4], is_last=False) == [8, 2]
    assert shares.divide([False, True], [0, 4], is_last=True) == [8, 8]  # nobody else will need a place
    assert shares.divide([True, True], [4, 4], is_last=True) == [6, 2]
    shares.note_waits(2.0, [0.0, 3.2])
    assert shares.divide([True, True], [6, 2]) == [4, 4]
