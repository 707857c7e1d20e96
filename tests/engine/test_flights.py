"""Attempts under way, by themselves: what the monitor, the hosts and the volumes' health read of them."""

from typing import Any

from cfetch.engine.attempt import Assignment, Attempt
from cfetch.engine.flights import Flights
from cfetch.storage.held_ranges import HeldRanges
from tests.engine.drive import entry_of

TRANSFER: Any = "the transfer"


def attempt(number=0, *, key=None, host="h", volume=0, from_byte=0, received=0):
    entry = entry_of(number, f"f{number}", b"x" * 100)
    made = Attempt(
        Assignment(entry, 1, host, volume_index=volume), 0.0, from_byte=from_byte, size_bytes=100, key=key
    )
    if received:
        made.note(1.0, received)
    return made


async def test_an_end_counts_once():
    """Whoever reports it a second time, or after the next attempt of the entry has begun, is told so."""
    flights, first, second = Flights(), attempt(), attempt()
    flights.add(first, TRANSFER)
    assert [flights.remove(first), flights.remove(first)] == [True, False]
    flights.add(second, TRANSFER)
    assert not flights.remove(first)
    assert flights.get(0) == (second, TRANSFER)
    assert flights.remove(second)
    assert (len(flights), flights.get(0), list(flights)) == (0, None, [])


async def test_bytes_land_on_their_volume_and_stay():
    """Of attempts that have ended too, whatever became of them."""
    flights = Flights()
    attempts = [attempt(n, volume=n % 2, received=10 * (n + 1)) for n in range(3)]
    for one in attempts:
        flights.add(one, TRANSFER)
    flights.remove(attempts[2])
    assert [flights.landed_bytes(0), flights.landed_bytes(1), flights.landed_bytes(2)] == [40, 20, 0]
    assert list(flights.of_volume(0)) == [attempts[0]]


async def test_hosts_are_asked_for_by_attempts_under_way():
    """What has ended is no more this moment's speed."""
    flights, gone = Flights(), attempt(2, host="a", received=9)
    for one in (attempt(0, host="a", received=5), attempt(1, host="b", received=7), gone):
        flights.add(one, TRANSFER)
    flights.remove(gone)
    assert flights.received_by_host() == {"a": 5, "b": 7}


async def test_bytes_of_an_entry_in_segments_count_once():
    """Its ranges say what is held; an attempt that is alone has what was there before it too."""
    flights = Flights()
    for one in (
        attempt(0, received=30),
        attempt(0, key=-1, received=50),
        attempt(1, from_byte=20, received=5),
    ):
        flights.add(one, TRANSFER)
    flights.share(0, HeldRanges(100, [(0, 30), (60, 100)]))
    assert flights.is_shared(0)
    assert flights.bytes_active() == 70 + 25
    flights.unshare(0)
    flights.unshare(0)
    assert not flights.is_shared(0)
