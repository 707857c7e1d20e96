"""What the volumes of a run share: the attempts that its hosts bear now."""

from types import SimpleNamespace
from typing import Any

from cfetch.base.errors import Throttled
from cfetch.engine.batches.arrivals import BatchQueues
from cfetch.engine.batches.borne import Borne
from cfetch.engine.hosts import Hosts
from cfetch.engine.placement.volume_slots import VolumeSlots
from cfetch.engine.schedule import Schedule
from cfetch.wire.retry import Limits

HOST_OF = [0, 0, 1, 1, 1, 1]  # two batches: entries 0 to 2, and 3 to 5


def make(most=16):
    queues = BatchQueues(2, lambda batch: range(3 * batch, 3 * batch + 3), HOST_OF)
    schedule: Schedule[Any] = Schedule([1] * 6, queues.of, len(queues), most_put_back=16, released=True)
    hosts = Hosts(4, Limits(5, 60.0))
    entries: Any = SimpleNamespace(hosts=["a", "b"])
    return schedule, hosts, Borne(entries, queues, schedule, hosts.bears, most=most)


def take(schedule, hosts):
    """Hand out all entries, and begin an attempt of each."""
    while (index := schedule.take(0.0, lambda *_: 0.0)) is not None:
        hosts.take_slot("ab"[HOST_OF[index]])


def test_hosts_with_entries_left_count_by_what_they_bear():
    """Never more than the run has slots for; afterwards, what still runs there."""
    schedule, hosts, borne = make()
    assert borne.count(0.0) == 8
    assert make(most=6)[2].count(0.0) == 6
    take(schedule, hosts)
    assert borne.count(0.0) == 6
    for _ in range(4):
        hosts.free_slot("b", 1.0)
    assert borne.count(1.0) == 2


def test_a_host_that_throttles_leaves_the_volumes_what_the_others_bear():
    """None while it pauses, and half of its slots after that."""
    _, hosts, borne = make()
    hosts.take_slot("b")
    error = Throttled("slow down", http_status=429, retry_after_s=10.0)
    hosts.note_end("b", error, 1.0, started_s=0.0, received=0, jitter=0.5)
    hosts.free_slot("b", 1.0)
    assert (borne.count(2.0), borne.count(12.0)) == (4, 6)


def test_entries_that_a_failed_volume_gives_back_count_again():
    """Their host seemed to be over."""
    schedule, hosts, borne = make()
    take(schedule, hosts)
    for name in "aabbbb":
        hosts.free_slot(name, 1.0)
    assert borne.count(1.0) == 16  # nobody bears anything: the run's own number
    schedule.withdraw(0)
    assert borne.count(1.0) == 4


def test_shares_add_up_to_what_is_borne():
    """What is rounded up goes to another volume in turn; with enough for all, rounding up does no harm."""
    shares = VolumeSlots(16, 3)
    seen = []
    for second in range(3):
        shares.note_waits(float(second), [0.0] * 3)
        seen.append(shares.divide([True] * 3, [0] * 3, 4))
    assert sorted(map(tuple, seen)) == [(1, 1, 2), (1, 2, 1), (2, 1, 1)]
    assert shares.divide([True] * 3, [0] * 3, 2) == [1, 1, 1]
    assert shares.divide([True] * 3, [0] * 3, 16) == shares.divide([True] * 3, [0] * 3) == [6, 6, 6]
