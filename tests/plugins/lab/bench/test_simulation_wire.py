"""The simulator's wire, by itself: what replies take is computed by hand, to the millisecond."""

import asyncio
import itertools

import pytest

from cfetch.base.clock import RunClock
from cfetch.base.errors import Transient
from cfetch.base.secret import SecretUrl
from cfetch.base.virtual_clock import VirtualClock, run_virtual
from cfetch.plugins.lab.bench.faults import Fault
from cfetch.plugins.lab.bench.network import (
    Burst,
    HostShare,
    Loss,
    NetworkChange,
    NetworkModel,
    Slow,
    Stall,
    Wear,
    connection_of,
)
from cfetch.plugins.lab.bench.simulation.exchange import WINDOW_BYTES
from cfetch.plugins.lab.bench.simulation.transport import SimTransport

MB = 1_000_000


class Wire:
    """A transport and the clock; ``get`` reads a reply to its end and tells when what came."""

    def __init__(self, network, sizes, faults):
        self.transport = SimTransport(network, 1, sizes, faults, clock=RunClock(VirtualClock()))

    def now(self):
        return asyncio.get_running_loop().time()

    async def open(self, index, host=0, *, fresh=False, **headers):
        wanted = {name.replace("_", "-"): value for name, value in headers.items()}
        return await self.transport.open(SecretUrl(f"http://{host}/{index}"), wanted, {}, fresh=fresh)

    async def get(self, index, host=0, *, fresh=False, after_s=0.0, **headers):
        await asyncio.sleep(after_s)
        response = await self.open(index, host, fresh=fresh, **headers)
        came = 0
        while data := await response.read():
            assert not any(data[:10])
            came += len(data)
        return came, self.now()


def play(scene, network, sizes=(MB,) * 9, faults=None):
    """Run ``scene(wire)`` in virtual time."""

    async def main():
        return await scene(Wire(network, sizes, faults))

    return run_virtual(main())


def both(*values):
    return pytest.approx(values, abs=1e-4)


def test_a_reply_takes_latency_connecting_and_its_bytes():
    """First 2 x 0.1 s and 1 MB at 2 MB/s; then the same connection, so 0.1 s less."""

    async def scene(wire):
        return [await wire.get(0), await wire.get(1), wire.transport.connections]

    first, second, connections = play(scene, NetworkModel(latency_s=0.1, rate_bps=2 * MB))
    assert first == both(MB, 0.7)
    assert second == both(MB, 1.3)
    assert connections == 1


@pytest.mark.parametrize(("rate_bps", "gap_s"), [(MB, 0.05), (14_600, 0.1), (100, 1.0)])
def test_a_reader_sees_bytes_come_in_small_pieces(rate_bps, gap_s):
    """Twenty times a second, or packet by packet; so a policy sees progress as it does on a real socket."""

    async def scene(wire):
        response, times = await wire.open(0), [0.0]
        while await response.read():
            times.append(wire.now())
        return {round(after - before, 6) for before, after in itertools.pairwise(times[:-1])}

    assert play(scene, NetworkModel(rate_bps=rate_bps), (int(10.5 * rate_bps * gap_s),)) == {gap_s}


def test_the_link_is_shared_so_that_nobody_could_have_more():
    """Caps of 1, 4 and 10 MB/s on a link of 9: they get 1, 4 and 4; and more once another has ended.

    The third has 4 MB after 1 s, when the second is done; then 8 MB/s (9 less the first's 1) for its 8 MB,
    of which the first ends after its 2 MB at 2 s, with all 9 MB/s never reached by a cap of 10.
    """
    hosts = (HostShare(rate_factor=0.1), HostShare(rate_factor=0.4), HostShare())

    async def scene(wire):
        return await asyncio.gather(wire.get(0, 0), wire.get(1, 1), wire.get(2, 2))

    network = NetworkModel(rate_bps=10 * MB, link_bps=9 * MB, hosts=hosts)
    results = play(scene, network, (2 * MB, 4 * MB, 12 * MB))
    assert results == [both(2 * MB, 2.0), both(4 * MB, 1.0), both(12 * MB, 2.0)]


def test_a_link_with_room_gives_each_what_its_connection_carries():
    """Two of 2 MB/s on 5 MB/s; a third, a second later, leaves each 5/3."""

    async def scene(wire):
        return await asyncio.gather(wire.get(0), wire.get(1), wire.get(2, after_s=1.0))

    results = play(scene, NetworkModel(rate_bps=2 * MB, link_bps=5 * MB), (4 * MB,) * 3)
    # two have 2 MB left each at 1 s: 1.2 s more; the third has 2 MB by then, and 2 MB/s from then on
    assert results == [both(4 * MB, 2.2), both(4 * MB, 2.2), both(4 * MB, 3.2)]


def test_a_slow_connection_is_slow_again_when_the_pool_gives_it_out():
    """The same one, at the same rate."""
    slow = NetworkModel(rate_bps=MB, slow=Slow(fraction=1, rate_bps=MB / 10))

    async def scene(wire):
        return [await wire.get(0), await wire.get(1)], wire.transport.connections

    assert play(scene, slow) == ([both(MB, 10.0), both(MB, 20.0)], 1)


def test_a_fresh_connection_is_another_and_the_pool_gets_it_then():
    """As with the real transport: what has brought a reply to its end is proven."""

    async def scene(wire):
        made = []
        for fresh in (True, True, False, True, False):
            await wire.get(0, fresh=fresh)
            made.append(wire.transport.connections)
        return made

    assert play(scene, NetworkModel(rate_bps=MB)) == [1, 2, 2, 3, 3]


def test_a_connection_turns_slow_after_so_many_bytes_of_its_life():
    """1.5 MB at 1 MB/s over two replies, then 0.1 MB/s for good."""
    network = NetworkModel(rate_bps=MB, slow=Slow(fraction=1, rate_bps=MB / 10, after_bytes=1_500_000))

    async def scene(wire):
        return [await wire.get(index) for index in range(3)]

    assert play(scene, network) == [both(MB, 1.0), both(MB, 6.5), both(MB, 16.5)]


def test_idle_connections_are_given_out_in_turn_and_not_for_ever():
    """The one that was idle longest first, as aiohttp does; after 15 s of idling none."""

    async def scene(wire):
        long, short = await wire.open(1), await wire.open(0)
        for response in (short, long):
            while await response.read():
                pass
        again = await wire.open(0)
        assert again.connection is short.connection
        assert (await wire.open(0)).connection is long.connection
        while await again.read():
            pass
        await wire.get(2, after_s=16.0)
        return wire.transport.connections

    assert play(scene, NetworkModel(rate_bps=MB), (MB, 2 * MB, MB)) == 3


def test_the_server_closes_a_connection_after_so_many_requests():
    """Two each."""

    async def scene(wire):
        for index in range(5):
            await wire.get(index)
        return wire.transport.connections

    assert play(scene, NetworkModel(rate_bps=MB, requests=2)) == 3


def test_a_reply_that_is_closed_early_costs_its_connection():
    """What had come counts as sent, read or not; the next request has a connection of its own."""

    async def scene(wire):
        response = await wire.open(0)
        await asyncio.sleep(0.25)
        response.close()
        response.close()
        assert response.read_buffered() == b""
        sent = wire.transport.sent_bytes
        await wire.get(1)
        return sent, wire.transport.connections

    assert play(scene, NetworkModel(rate_bps=MB)) == (250_000, 2)


@pytest.mark.parametrize("after", [0, 300_000])
def test_a_stalled_connection_sends_so_much_and_no_more(after):
    """With 0 there is no head; else a later request on it gets none either."""
    network = NetworkModel(rate_bps=MB, stalls=Stall(fraction=1, after_bytes=after))

    async def scene(wire):
        came = 0
        try:
            async with asyncio.timeout(60):
                response = await wire.open(0)
                while data := await response.read():
                    came += len(data)
        except TimeoutError:
            return came, wire.now()

    assert play(scene, network) == (after, 60.0)


def test_a_connection_that_has_stalled_gives_no_head_either():
    """Its first reply was whole, and was all that it had to give."""
    network = NetworkModel(rate_bps=MB, stalls=Stall(fraction=1, after_bytes=MB))

    async def scene(wire):
        first = await wire.get(0)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(60):
                await wire.open(1)
        return first

    assert play(scene, network) == both(MB, 1.0)


def test_after_a_change_everything_takes_longer_also_what_is_under_way():
    """1 MB/s until 0.5 s, a tenth until 2.5 s: 0.2 MB; then 1 MB/s again, and 2 x 0.1 s of latency."""
    network = NetworkModel(
        rate_bps=MB, changes=(NetworkChange(at_s=0.5, until_s=2.5, factor=10),), latency_s=0.1
    )

    async def scene(wire):
        late = asyncio.ensure_future(wire.get(1, after_s=1.0))
        return await wire.get(0), await late

    early, late = play(scene, network)
    assert early == both(MB, 2.5 + 0.5)  # 0.2 s for the head, 0.3 MB, 0.2 MB, 0.5 MB
    assert late == both(MB, 1.0 + 2.0 + 1.0)  # its head came after 2 s, when all was well again


def test_a_change_of_one_host_leaves_the_other_alone():
    """And the link."""
    network = NetworkModel(
        rate_bps=MB, hosts=(HostShare(), HostShare()), changes=(NetworkChange(at_s=0.5, factor=5, host=1),)
    )

    async def scene(wire):
        return await asyncio.gather(wire.get(0, 0), wire.get(1, 1))

    assert play(scene, network) == [both(MB, 1.0), both(MB, 3.0)]


def test_a_change_for_all_is_the_links_too():
    """A full link has a tenth."""
    network = NetworkModel(rate_bps=10 * MB, link_bps=2 * MB, changes=(NetworkChange(at_s=0.5, factor=10),))

    async def scene(wire):
        return await asyncio.gather(wire.get(0), wire.get(1))

    assert play(scene, network) == [both(MB, 5.5), both(MB, 5.5)]


def test_nobody_reads_so_the_server_waits():
    """A window is full after a while; reading lets the rest come."""

    async def scene(wire):
        response = await wire.open(0)
        await asyncio.sleep(100.0)
        came = len(response.read_buffered())
        began = wire.now()
        while data := await response.read():
            came += len(data)
        return came, wire.now() - began

    size = WINDOW_BYTES + 3 * MB
    assert play(scene, NetworkModel(rate_bps=MB), (size,)) == both(size, 3.0)


def test_a_reply_that_waits_for_its_reader_leaves_the_link_to_others():
    """10 MB at 10 MB/s, although another reply of 20 MB has not come yet."""

    async def scene(wire):
        await wire.open(0)
        return await wire.get(1, after_s=5.0)

    network = NetworkModel(rate_bps=10 * MB, link_bps=10 * MB)
    assert play(scene, network, (20 * MB, 10 * MB)) == both(10 * MB, 6.0)


def test_reading_so_much_and_no_more():
    """As under a rate limit; what is left is there at once."""

    async def scene(wire):
        response = await wire.open(0)
        await asyncio.sleep(2.0)
        first = len(await response.read(7))
        return first, len(await response.read()), await response.read(), wire.now()

    assert play(scene, NetworkModel(rate_bps=MB)) == (7, MB - 7, b"", 2.0)


@pytest.mark.parametrize(
    ("asked", "status", "came", "range_"),
    [
        ({}, 200, 1000, None),
        ({"Range": "bytes=200-"}, 206, 800, "bytes 200-999/1000"),
        ({"Range": "bytes=200-299"}, 206, 100, "bytes 200-299/1000"),
        ({"Range": "bytes=900-2000"}, 206, 100, "bytes 900-999/1000"),
        ({"Range": "bytes=200-", "If_Range": '"0"'}, 206, 800, "bytes 200-999/1000"),
        ({"Range": "bytes=200-", "If_Range": '"old"'}, 200, 1000, None),
        ({"Range": "bytes=1000-"}, 416, 0, "bytes */1000"),
    ],
)
def test_ranges_are_answered_as_a_server_does(asked, status, came, range_):
    """With a strong ETag that the next request may join by."""

    async def scene(wire):
        response = await wire.open(0, **asked)
        size = 0
        while data := await response.read():
            size += len(data)
        tell = response.headers.getall
        return response.status, size, tell("Content-Range", [None])[0], tell("ETag", [None])[0]

    etag = None if status == 416 else '"0"'
    assert play(scene, NetworkModel(), (1000,)) == (status, came, range_, etag)


def test_faults_of_the_scenario_hit_the_requests_that_they_are_for():
    """A slow first request, a refused one, one that breaks, one that ends early; and then all is well."""
    script = (
        Fault(kind="slow", rate_bps=1000),
        Fault(kind="status", status=503, retry_after_s=7),
        Fault(kind="reset", after_bytes=100),
        Fault(kind="truncate", after_bytes=10_000),
        Fault(kind="delay", delay_s=5),
    )

    async def scene(wire):
        slow = await wire.get(0)
        refused = await wire.open(0)
        refused.close()
        with pytest.raises(Transient):
            await wire.get(0)
        cut = await wire.get(0)
        before = wire.now()
        late = await wire.get(0)
        plain = await wire.get(0)
        reply = refused.status, refused.headers.getall("Retry-After", [])
        return slow, reply, cut[0], late[1] - before, plain[1] - late[1]

    slow, reply, cut, late, plain = play(scene, NetworkModel(rate_bps=MB), (1000,), {0: script})
    assert slow == both(1000, 1.0)
    assert reply == (503, ["7"])
    assert cut == 999  # the last byte never gets through
    assert late == pytest.approx(5.001)
    assert plain == pytest.approx(0.001)


def test_slow_start_doubles_in_each_round_trip():
    """14,600 bytes in the first 0.1 s, then 29,200, then 58,400; a used connection goes on as it was."""

    async def scene(wire):
        return [await wire.get(0), await wire.get(0)]

    network = NetworkModel(latency_s=0.1, rate_bps=MB, slow_start=True)
    first, second = play(scene, network, (14_600 * 7,))
    assert first == both(14_600 * 7, 0.2 + 0.3)
    assert second[1] - first[1] == pytest.approx(0.1 + 0.1022, abs=1e-3)


def test_a_reply_that_begins_fast_and_goes_on_slowly():
    """Each reply: 100,000 bytes in 0.1 s, and as many in 1 s."""

    async def scene(wire):
        return [await wire.get(0), await wire.get(0, Range="bytes=100000-199999")]

    network = NetworkModel(rate_bps=MB, burst=Burst(size_bytes=100_000, rate_bps=100_000))
    assert play(scene, network, (200_000,)) == [both(200_000, 1.1), both(100_000, 1.2)]


def test_a_connection_wears_out_over_its_replies():
    """A fifth of the rate after each 100,000 bytes, and no less than 100,000 B/s; a fresh one is new."""

    async def scene(wire):
        return [await wire.get(0), await wire.get(0), await wire.get(0, fresh=True)]

    network = NetworkModel(rate_bps=MB, wear=Wear(every_bytes=100_000, factor=0.2, least_bps=100_000))
    times = [time for _, time in play(scene, network, (150_000,))]
    assert times == pytest.approx([0.35, 0.35 + 0.25 + 1.0, 1.6 + 0.35], abs=1e-3)


def test_lost_packets_are_stretches_of_a_low_rate():
    """Of every 100,000 bytes 10,000 take ten times as long, wherever the first of them are."""

    async def scene(wire):
        return await wire.get(0)

    network = NetworkModel(rate_bps=MB, loss=Loss(every_bytes=100_000, for_bytes=10_000, factor=0.1))
    assert play(scene, network, (500_000,)) == both(500_000, 5 * (0.09 + 0.1))
    assert len({connection_of(network, 1, 0, number).loss_phase for number in range(9)}) == 9


def test_a_server_with_two_connections_lets_the_third_wait():
    """Until one of them is closed: an idle one holds its seat for the time that the client keeps it."""

    async def scene(wire):
        first = asyncio.gather(wire.get(0), wire.get(1))
        third = asyncio.ensure_future(wire.get(2))
        await first
        broken = await wire.open(3)
        await asyncio.sleep(0.5)
        broken.close()
        return await third

    assert play(scene, NetworkModel(rate_bps=MB, connections=2)) == both(MB, 2.5)

    async def idle(wire):
        await asyncio.gather(wire.get(0), wire.get(1))
        return await wire.get(2, fresh=True)

    assert play(idle, NetworkModel(rate_bps=MB, connections=2)) == both(MB, 1.0 + 15.0 + 1.0)


def test_who_stops_waiting_for_a_seat_leaves_the_line():
    """A request that is broken off while it waits takes no seat from the next."""

    async def scene(wire):
        running = asyncio.ensure_future(wire.get(0))
        await asyncio.sleep(0)
        second = asyncio.ensure_future(wire.get(1, fresh=True))
        third = asyncio.ensure_future(wire.get(2, fresh=True, after_s=0.1))
        await asyncio.sleep(0.5)
        second.cancel()
        (await wire.open(3, fresh=False)).close() if running.done() else None
        return await third

    assert play(scene, NetworkModel(rate_bps=MB, connections=1, requests=1)) == both(MB, 2.0)


def test_a_server_that_drowns_gives_each_the_less_the_more_there_are():
    """Two replies at full rate; with four each has a quarter of it, so that all have half of what two had."""

    async def scene(wire, count):
        return max([time for _, time in await asyncio.gather(*(wire.get(n) for n in range(count)))])

    network = NetworkModel(rate_bps=MB, drowns_above=2)
    assert play(lambda wire: scene(wire, 2), network) == pytest.approx(1.0, abs=1e-3)
    assert play(lambda wire: scene(wire, 4), network) == pytest.approx(4.0, abs=1e-3)


def test_a_reply_without_a_length_is_chunked():
    """The whole file only: a range still says what it brings."""

    async def scene(wire):
        whole = await wire.open(0)
        part = await wire.open(0, Range="bytes=0-99")
        return [dict(response.headers.items()) for response in (whole, part)]

    whole, part = play(scene, NetworkModel(rate_bps=MB, sizes=False))
    assert whole == {"ETag": '"0"', "Transfer-Encoding": "chunked"}
    assert part["Content-Length"] == "100"
