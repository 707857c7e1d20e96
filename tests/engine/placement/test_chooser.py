"""The choice itself: its cost, who is no candidate, ties, and what is said about it."""

import pytest

from cfetch.engine.placement.chooser import (
    Mode,
    PlacementVerdict,
    VolumeState,
    choose,
    explain,
    finish_s,
    most_loaded,
    speeds_of,
    spread,
)

MIB = 1 << 20
NAMES = ("/data1", "/data2", "/data3", "/data4")


def test_finish_time_counts_what_waits_there_and_the_batch():
    """Seconds; an empty slow one can still be later than a full fast one."""
    assert finish_s(300, 100, 200.0) == 2.0
    volumes = [VolumeState(speed_bps=10.0), VolumeState(load_bytes=900, speed_bps=200.0)]
    assert choose(volumes, 100, 1, mode=Mode.FINISH).index == 1
    assert choose(volumes, 10, 1, mode=Mode.FINISH).index == 0


def test_who_was_not_measured_counts_as_the_mean_of_the_others():
    """And as 1 byte per second when nobody was, so that the loads decide."""
    volumes = [VolumeState(speed_bps=100.0), VolumeState(), VolumeState(speed_bps=300.0)]
    assert speeds_of(volumes) == [100.0, 200.0, 300.0]
    assert speeds_of([VolumeState(), VolumeState()]) == [1.0, 1.0]
    assert choose([VolumeState(load_bytes=2), VolumeState(load_bytes=1)], 7, 1, mode=Mode.FINISH).index == 1


def test_count_looks_at_files_only():
    """Bytes and speeds do not matter to it."""
    volumes = [
        VolumeState(load_count=3, speed_bps=1e9),
        VolumeState(load_bytes=1 << 40, load_count=2, speed_bps=1.0),
    ]
    assert choose(volumes, 1, 1, mode=Mode.COUNT).index == 1


@pytest.mark.parametrize(("turn", "index"), [(0, 1), (1, 1), (2, 3), (3, 3), (4, 1)])
def test_round_robin_takes_the_next_that_can(turn, index):
    """From the turn on, around the end."""
    volumes = [VolumeState(usable=False), VolumeState(), VolumeState(room_bytes=4), VolumeState()]
    assert choose(volumes, 5, 1, mode=Mode.ROUND_ROBIN, turn=turn).index == index


@pytest.mark.parametrize("mode", [Mode.FINISH, Mode.COUNT])
def test_the_lowest_index_wins_ties(mode):
    """Whatever the order of the loads before it."""
    volumes = [VolumeState(9, 9), VolumeState(4, 4), VolumeState(4, 4), VolumeState(4, 4)]
    assert choose(volumes, 1, 1, mode=mode).index == 1


@pytest.mark.parametrize("mode", list(Mode))
def test_who_is_no_candidate_and_why(mode):
    """Room is for what it bears and the batch together: exactly full is room enough."""
    volumes = [
        VolumeState(usable=False),
        VolumeState(),
        VolumeState(6, 1, 0.0, 10),
        VolumeState(5, 1, 0.0, 10),
    ]
    choice = choose(volumes, 5, 1, mode=mode, without={1})
    assert choice.index == 3
    assert choice.verdicts[:3] == (
        PlacementVerdict(None, "out of use"),
        PlacementVerdict(None, "does not take it"),
        PlacementVerdict(None, "no room"),
    )
    assert choose(volumes[:3], 5, 1, mode=mode, without={1}).index is None
    assert choose([], 5, 1, mode=mode) == (None, (), mode, False, False)


def test_one_line_for_a_person():
    """Where, and what spoke against the others."""
    volumes = [
        VolumeState(load_bytes=42 * MIB, speed_bps=10.0 * MIB),
        VolumeState(load_bytes=21 * MIB, speed_bps=10.0 * MIB),
        VolumeState(usable=False),
        VolumeState(room_bytes=MIB),
    ]
    line = explain(choose(volumes, 10 * MIB, 3, mode=Mode.FINISH), NAMES)
    assert line == "/data2: done in 3.1 s; /data1 5.2 s, /data3 out of use, /data4 has no room"
    line = explain(choose([VolumeState(0, 30), VolumeState(0, 12)], 1, 1, mode=Mode.COUNT), NAMES[:2])
    assert line == "/data2: 12 files there; /data1 30 files there"
    line = explain(choose([VolumeState(0, 1)], 1, 1, mode=Mode.COUNT), NAMES[:1])
    assert line == "/data1: 1 file there"
    line = explain(choose([VolumeState(), VolumeState()], 1, 1, mode=Mode.ROUND_ROBIN, turn=1), NAMES[:2])
    assert line == "/data2: its turn; /data1 1 after the turn"


def test_one_line_when_there_is_no_candidate():
    """It says so, and why not each."""
    choice = choose([VolumeState(), VolumeState(usable=False)], 1, 1, mode=Mode.FINISH, without={0})
    assert explain(choice, NAMES[:2]) == "nowhere: /data1 does not take it, /data2 out of use"
    assert explain(choose([], 1, 1, mode=Mode.FINISH), ()) == "nowhere: there is no volume"
    one = VolumeState(speed_bps=1.0)
    assert explain(choose([one], 0, 1, mode=Mode.FINISH), ("/data",)) == "/data: done in 0.0 s"


def test_without_any_speed_the_bytes_are_told():
    """Seconds would be made up."""
    choice = choose([VolumeState(3 * MIB), VolumeState(5 * MIB)], MIB, 1, mode=Mode.FINISH)
    told = "/data1: 4.0 MiB with it, no speed is known yet; /data2 6.0 MiB"
    assert explain(choice, NAMES[:2]) == told


def test_spread_puts_the_largest_first():
    """B6 and B7's option for what is known beforehand; ties keep their order and take the lowest index."""
    assert spread([30, 100, 50], 4) == [2, 0, 1]
    assert spread([5, 5, 5, 5, 5], 2) == [0, 1, 0, 1, 0]
    assert spread([5, 5, 4, 4, 3, 3, 3], 3) == [0, 1, 2, 2, 0, 1, 0]  # Graham's worst: 11, where 9 can be
    assert spread([], 3) == []
    with pytest.raises(ValueError, match="no volume"):
        spread([1], 0)


def test_the_most_loaded_is_relieved_first():
    """The lowest index on ties."""
    assert most_loaded([3, 9, 9, 1]) == 1
    with pytest.raises(ValueError):
        most_loaded([])


def test_on_ties_the_less_filled_volume_comes_first():
    """By its share of the space that cfetch has there; by bytes where a space is unknown."""
    small, large = VolumeState(room_bytes=100, held_bytes=50), VolumeState(room_bytes=900, held_bytes=90)
    choice = choose([small, large], 10, 1, mode=Mode.FINISH)
    assert (choice.index, choice.is_tie) == (1, True)
    unknown = VolumeState(held_bytes=60)
    assert choose([small, large, unknown], 10, 1, mode=Mode.FINISH).index == 0
    busy = VolumeState(load_bytes=1, room_bytes=1000)
    assert choose([small, busy], 10, 1, mode=Mode.FINISH).index == 0  # no tie: it would be done sooner
    assert explain(choice, ["p0", "p1"]) == (
        "p1: 0.0 MiB (0.0 MiB there) with it, no speed is known yet; p0 0.0 MiB (0.0 MiB there)"
    )


def test_what_stands_is_part_of_the_count():
    """The ADR's rule over runs."""
    volumes = [
        VolumeState(load_count=1, held_count=200),
        VolumeState(held_count=150),
        VolumeState(load_count=151),
    ]
    choice = choose(volumes, 10, 1, mode=Mode.COUNT)
    assert (
        explain(choice, ["p0", "p1", "p2"]) == "p1: 150 files there; p0 201 files there, p2 151 files there"
    )
