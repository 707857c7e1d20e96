"""Attempts under way, by themselves: what the monitor, the hosts and the volumes' health read of them."""

from types import SimpleNamespace
from typing import Any

import pytest

from cfetch.base.config.settings import Settings
from cfetch.base.errors import Straggling, Throttled
from cfetch.base.events import Event, HostPaused, RescueGivenUp
from cfetch.engine.attempt import Assignment, Attempt
from cfetch.engine.hosts import Hosts
from cfetch.engine.widths import adjust_widths, estimate_left
from cfetch.show.counts import Counts
from cfetch.storage.held_ranges import HeldRanges
from cfetch.straggler.detector import Detector
from cfetch.straggler.width import Width
from cfetch.wire.retry import Limits
from cfetch.wire.transport import Connecting
from tests.engine.drive import entry_of
from tests.engine.flying import new_flights, new_transfer

TRANSFER = new_transfer()


def attempt(number=0, *, key=None, host="h", volume=0, from_byte=0, received=0):
    entry = entry_of(number, f"f{number}", b"x" * 100)
    made = Attempt(
        Assignment(entry, 1, host, volume_index=volume), 0.0, from_byte=from_byte, size_bytes=100, key=key
    )
    if received:
        made.note(1.0, received)
    return made


async def test_an_end_counts_once():
    """Reported a second time, or after the next attempt of the entry has begun, it changes nothing."""
    in_flight, transfer, first, second = new_flights(), new_transfer(), attempt(), attempt()
    in_flight.start(first, transfer)
    in_flight.end_unjudged(first, "interrupted", 1.0)
    in_flight.end_unjudged(first, "interrupted", 1.0)
    assert len(transfer.attempts) == 1
    in_flight.start(second, transfer)
    in_flight.end_unjudged(first, "interrupted", 1.0)
    assert in_flight.get(0) == (second, transfer)
    in_flight.end_unjudged(second, "interrupted", 1.0)
    assert (len(in_flight), in_flight.get(0), list(in_flight)) == (0, None, [])
    assert len(transfer.attempts) == 2


class Learner(Detector):
    """Notes which of its questions an attempt's end came by."""

    def __init__(self):
        super().__init__(Settings().straggler)
        self.heard = []

    def note_finish(self, entry_id, size_bytes, now_s, *, first_byte_s=None, carried_bytes=0):
        self.heard.append(("finish", size_bytes))

    def note_cancellation(self, key, now_s, wasted_bytes):
        self.heard.append(("cancellation", wasted_bytes))

    def note_pause(self, key):
        self.heard.append(("pause", key))


@pytest.mark.parametrize(
    ("outcome", "error", "heard"),
    [
        ("done", None, ("finish", 100_000)),
        ("straggler", Straggling("slow"), ("cancellation", 7)),
        ("error", Throttled("HTTP 503", http_status=503, retry_after_s=3.0), ("pause", 0)),
    ],
)
async def test_an_end_is_passed_on_to_all_who_learn_from_it(outcome, error, heard):
    """To the entry its record, to the policy what the outcome means, to the listeners the host's pause."""
    policy, hosts, transfer = Learner(), Hosts(4, Limits(5, 60.0)), new_transfer()
    events: list[Event] = []
    in_flight = new_flights(policy, hosts, events.append)
    transfer.part.position = 7
    hosts.take_slot("h")
    in_flight.start(begun := attempt(received=100_000), transfer)
    in_flight.end(begun, outcome, error, 2.0)
    assert policy.heard == [heard]
    assert [(record.outcome, record.bytes) for record in transfer.attempts] == [(outcome, 100_000)]
    assert [type(event) for event in events] == [HostPaused] * (outcome == "error")


async def test_the_short_rest_of_a_resumed_file_is_no_sample():
    """It shows the server's latency, not its speed."""
    policy, hosts = Learner(), Hosts(4, Limits(5, 60.0))
    in_flight = new_flights(policy, hosts)
    hosts.take_slot("h")
    in_flight.start(begun := attempt(from_byte=50, received=50), new_transfer())
    in_flight.end(begun, "done", None, 2.0)
    assert policy.heard == [("finish", None)]


async def test_bytes_land_on_their_volume_and_stay():
    """Of attempts that have ended too, whatever became of them."""
    in_flight = new_flights()
    attempts = [attempt(n, volume=n % 2, received=10 * (n + 1)) for n in range(3)]
    for one in attempts:
        in_flight.start(one, TRANSFER)
    in_flight.end_unjudged(attempts[2], "interrupted", 1.0)
    assert [in_flight.landed_bytes(0), in_flight.landed_bytes(1), in_flight.landed_bytes(2)] == [40, 20, 0]
    assert list(in_flight.of_volume(0)) == [attempts[0]]


async def test_hosts_are_asked_for_by_attempts_under_way():
    """What has ended is no more this moment's speed."""
    in_flight, gone = new_flights(), attempt(2, host="a", received=9)
    for one in (attempt(0, host="a", received=5), attempt(1, host="b", received=7), gone):
        in_flight.start(one, TRANSFER)
    in_flight.end_unjudged(gone, "interrupted", 1.0)
    assert in_flight.received_by_host() == {"a": 5, "b": 7}


def connected(after_s, measured_s=None, **how):
    """An attempt whose own connection was made after so long, as this process saw it, and the kernel."""
    made, times = attempt(**how), iter((0.0, after_s))
    made.reply.connecting = Connecting(times.__next__)
    made.reply.connecting.begin()
    made.reply.connecting.end()
    made.reply.connecting.round_trip_s = measured_s
    return made


async def test_the_handshakes_of_a_host_are_those_of_files_with_connections_of_their_own():
    """The kernel's measure counts; a connection that was there before has none, and a helper comes late."""
    in_flight = new_flights()
    waits = attempt(5)
    waits.reply.connecting = Connecting(lambda: 0.0)
    waits.reply.connecting.begin()
    for one in (
        connected(0.3, 0.05, number=0), attempt(1), connected(0.2, number=2),
        connected(0.9, number=2, key=-1), connected(0.4, number=3, host="b"), waits,
    ):  # fmt: skip
        in_flight.start(one, TRANSFER)
    assert in_flight.handshakes_by_host() == {"h": [0.05, 0.2], "b": [0.4]}


@pytest.mark.parametrize(("total_bytes", "left_bytes"), [(1000, 570), (-10, 688), (100, 0)])
async def test_the_rest_of_a_run_follows_from_its_sizes_or_from_what_has_come(total_bytes, left_bytes):
    """Three files of 100 bytes have ended, one has 80 of its bytes, one 50; eight wait."""
    in_flight, counts = new_flights(), Counts()
    counts.done, counts.done_bytes = 3, 300
    in_flight.start(attempt(0, received=80), TRANSFER)
    in_flight.start(attempt(1, received=50), TRANSFER)
    assert estimate_left(total_bytes, counts, in_flight, 8) == left_bytes


async def test_attempts_at_a_full_host_get_half_of_the_runs_rest():
    """At another host slots may be scarce."""
    widths: dict[int, Width] = {}

    def new_width(served):
        return widths.setdefault(len(widths), Width(4, 8, served))

    hosts = Hosts(8, Limits(5, 60.0), new_width=new_width)
    in_flight = new_flights(hosts=hosts)
    attempts = [attempt(0, host="a", received=50), attempt(1, host="b", received=50)]
    for one in attempts:
        hosts.take_slot(one.assignment.host)
        in_flight.start(one, TRANSFER)
    widths[0]._link.is_full = True
    clock: Any = SimpleNamespace(now=lambda: 10.0, cpu_s=lambda: 0.0)
    adjust_widths(hosts, in_flight, lambda _: None, clock, is_calm=True, left_bytes=200)
    assert [one.slack_s for one in attempts] == [pytest.approx(10.0), 0.0]  # 100 bytes took 10 s
    assert [one.record("straggler", None, 10.0).full_link for one in attempts] == [True, False]
    assert not attempts[0].record("done", None, 10.0).full_link
    adjust_widths(hosts, in_flight, lambda _: None, clock, is_calm=True, left_bytes=200, is_ending=True)
    assert [one.slack_s for one in attempts] == [-1.0, -1.0]


async def test_bytes_of_an_entry_in_segments_count_once():
    """Its ranges say what is held; an attempt that is alone has what was there before it too."""
    in_flight = new_flights()
    for one in (
        attempt(0, received=30),
        attempt(0, key=-1, received=50),
        attempt(1, from_byte=20, received=5),
    ):
        in_flight.start(one, TRANSFER)
    in_flight.note_ranges(0, HeldRanges(100, [(0, 30), (60, 100)]))
    assert in_flight.is_shared(0)
    assert in_flight.bytes_active() == 70 + 25
    in_flight.unshare(TRANSFER)
    in_flight.unshare(TRANSFER)
    assert not in_flight.is_shared(0)


async def test_bytes_stay_in_the_count_until_the_entry_has_ended():
    """Between two attempts, and while a whole file waits for its name, they are held by no attempt."""
    in_flight, transfer, ranges = new_flights(), new_transfer(), HeldRanges(100, [(0, 30)])
    transfer.part.position = 40
    first, second = attempt(received=40), attempt(from_byte=40, received=9)
    in_flight.start(first, transfer)
    assert (in_flight.bytes_active(), in_flight.bytes_resting()) == (40, 0)
    in_flight.end_unjudged(first, "HTTP 503", 1.0)
    assert (in_flight.bytes_active(), in_flight.bytes_resting()) == (0, 40)
    in_flight.start(second, transfer)
    assert (in_flight.bytes_active(), in_flight.bytes_resting()) == (49, 0)
    in_flight.end_unjudged(second, None, 2.0)
    in_flight.settle(0)
    assert (in_flight.bytes_active(), in_flight.bytes_resting()) == (0, 0)
    in_flight.note_ranges(1, ranges)
    other = new_transfer(1)
    in_flight.unshare(other)
    assert (in_flight.bytes_resting(), in_flight.count_whole()) == (30, 0)
    other.verified = "hash"
    assert in_flight.count_whole() == 1
    in_flight.settle(1)
    assert in_flight.count_whole() == 0


@pytest.mark.parametrize(("is_immune", "mitigations", "count"), [(True, 3, 1), (True, 0, 0), (False, 3, 0)])
async def test_an_entry_that_is_left_alone_is_announced(is_immune, mitigations, count):
    """Its attempt is immune because others were cancelled, and not because it is the last try."""
    events: list[Event] = []
    transfer = new_transfer()
    transfer.tries.mitigations = mitigations
    assignment = Assignment(entry_of(0, "a", b"x" * 100), 4, "h", is_immune=is_immune)
    new_flights(emit=events.append).start(Attempt(assignment, 2.0, from_byte=0, size_bytes=100), transfer)
    announced = [event for event in events if isinstance(event, RescueGivenUp)]
    assert [(event.t_s, event.path, event.host, event.rescues) for event in announced] == (
        [(2.0, "a", "h", 3)] * count
    )
