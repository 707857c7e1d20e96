"""The origin enacting a network: what each connection is like, their link, what changes, several hosts.

Where bytes are counted, time is the loop's own and compared in one direction only: nothing may come too soon.
"""

import asyncio

import pytest

from cfetch.base.virtual_clock import run_virtual
from cfetch.plugins.lab.bench.content import Group, Synthetic, SyntheticSet, pieces
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
from cfetch.plugins.lab.bench.origin import Origin
from cfetch.plugins.lab.bench.pacing import STEP_S, Pacer, max_min
from cfetch.plugins.lab.bench.process import OriginProcess
from cfetch.plugins.lab.bench.spec import JournalEntry, OriginSpec
from tests.plugins.lab.bench.raw import Raw, get

SIZE = 100_000
FILE = Synthetic("f", SIZE)
BIG = Synthetic("big", 1 << 30)  # is not over while a test looks at it
WHOLE = b"".join(pieces(FILE))


def serving(network, **more):
    return Origin({"f": FILE, "g": FILE, "big": BIG}, network=network, **more)


async def sending(origin, raw, number=1):
    """The origin's side of a connection that has begun to send a body without end."""
    raw.send("big")
    await raw.head()
    (reply,) = (connection for connection in origin.live if connection.number == number)
    return reply


async def timed(raw, path="f"):
    """Seconds until the head, until the end; and the reply."""
    loop = asyncio.get_running_loop()
    start_s = loop.time()
    raw.send(path)
    reply = await raw.head()
    head_s = loop.time() - start_s
    reply.body = await raw.reader.readexactly(reply.length)
    return head_s, loop.time() - start_s, reply


async def test_latency_comes_before_the_head_and_twice_on_a_new_connection():
    """A new connection costs a round trip more, as in the network's rule."""
    async with serving(NetworkModel(latency_s=0.05)) as origin, Raw(origin.url) as raw:
        first_s, _, reply = await timed(raw)
        second_s, _, _ = await timed(raw)
    assert first_s >= 0.1
    assert second_s >= 0.05
    assert reply.body == WHOLE


async def test_each_connection_has_the_rate_that_its_number_draws():
    """The same as the simulator's: by seed, host and number."""
    network = NetworkModel(rate_bps=1e6, rate_sigma=0.5)
    async with serving(network, seed=3) as origin:
        for number in (1, 2):
            async with Raw(origin.url) as raw:
                _, whole_s, reply = await timed(raw)
            rate_bps = connection_of(network, 3, 0, number).rate_bps
            assert whole_s >= (SIZE - 1024) / rate_bps - 0.001
            assert reply.body == WHOLE


async def test_a_slow_phase_begins_at_its_byte_and_lasts_over_requests():
    """Fast up to there, counted over all requests of the connection; another connection has its own count."""
    network = NetworkModel(rate_bps=50e6, slow=Slow(fraction=1, rate_bps=1e6, after_bytes=SIZE + 10_000))
    async with serving(network) as origin, Raw(origin.url) as raw:
        await timed(raw)
        _, second_s, reply = await timed(raw, "g")
        assert second_s >= (SIZE - 10_000) / 1e6 - 0.001
        assert reply.body == WHOLE
        assert (await sending(origin, raw)).cap_bps() == 1e6
        async with Raw(origin.url) as other:
            assert (await sending(origin, other, number=2)).cap_bps() == 50e6


async def test_a_stall_holds_back_the_bytes_after_it_and_every_later_head():
    """So many bytes, then none; a stall at 0 gives no head at all, but the request is counted."""
    async with (
        serving(NetworkModel(stalls=Stall(fraction=1, after_bytes=1000))) as origin,
        Raw(origin.url) as raw,
    ):
        raw.send("f")
        assert (await raw.head()).length == SIZE
        assert await raw.reader.readexactly(1000) == WHOLE[:1000]
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(raw.reader.read(1), 0.1)
    async with serving(NetworkModel(stalls=Stall(fraction=1))) as origin, Raw(origin.url) as raw:
        raw.send("f")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(raw.reader.read(1), 0.1)
        assert [request.path for request in origin.requests] == ["f"]


async def test_a_connection_that_stalls_where_a_file_ends_gives_no_further_head():
    """Its bytes are used up."""
    async with (
        serving(NetworkModel(stalls=Stall(fraction=1, after_bytes=SIZE))) as origin,
        Raw(origin.url) as raw,
    ):
        assert (await raw.get("f")).body == WHOLE
        raw.send("g")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(raw.reader.read(1), 0.1)


async def test_all_connections_share_the_link():
    """Four files over four connections take four files' time of the link, however fast each could be."""
    loop = asyncio.get_running_loop()
    async with serving(NetworkModel(link_bps=2e6)) as origin:
        start_s = loop.time()
        replies = await asyncio.gather(*(get(origin.url, "f") for _ in range(4)))
        took_s = loop.time() - start_s
    assert all(reply.body == WHOLE for reply in replies)
    assert took_s >= 4 * (SIZE - 1024) / 2e6 - 0.001


async def test_a_client_that_does_not_read_leaves_its_share_to_the_others():
    """What the first would have had is not lost."""
    async with serving(NetworkModel(link_bps=40e6)) as origin, Raw(origin.url, limit=1024) as raw:
        connection = await sending(origin, raw)
        async with asyncio.timeout(60):
            while connection.cap_bps() > 0:
                await asyncio.sleep(STEP_S)
        assert (await get(origin.url, "f")).body == WHOLE


async def test_changes_hold_by_the_seconds_since_the_first_request():
    """Told by a clock that is passed in: rate, link and latency follow it; the other host stays as it was."""
    now = [100.0]
    slow = NetworkChange(at_s=10, until_s=20, factor=4, host=0)
    all_slow = NetworkChange(at_s=15, factor=2)
    network = NetworkModel(
        rate_bps=1e6, link_bps=8e6, changes=(slow, all_slow), hosts=(HostShare(), HostShare())
    )
    async with serving(network, clock=lambda: now[0]) as origin:
        await get(origin.url, "missing")
        factors = []
        for now[0] in (109.9, 110, 115, 120):
            factors.append((origin.factor(0), origin.factor(1), origin.link_bps()))
    assert factors == [(1, 1, 8e6), (4, 1, 8e6), (8, 2, 4e6), (2, 2, 4e6)]


async def test_a_change_slows_bodies_that_are_on_their_way():
    """Not only those that begin later."""
    network = NetworkModel(rate_bps=10e6, changes=(NetworkChange(at_s=1, factor=10),))
    now = [0.0]
    async with serving(network, clock=lambda: now[0]) as origin, Raw(origin.url) as raw:
        connection = await sending(origin, raw)
        assert connection.cap_bps() == 10e6
        now[0] = 1.0
        assert connection.cap_bps() == 1e6


async def test_the_server_closes_a_connection_after_its_last_request():
    """It says so with the last reply, as RFC 9112 9.6 wants, and the next connection serves anew."""
    async with serving(NetworkModel(requests=2)) as origin, Raw(origin.url) as raw:
        assert "connection" not in (await raw.get("f")).headers
        assert (await raw.get("g")).headers["connection"] == "close"
        assert await raw.closed()
        assert (await get(origin.url, "f")).status == 200


async def test_every_host_is_a_server_of_its_own():
    """Other addresses, the same files; connections are numbered by host, and rates are the host's."""
    hosts = (HostShare(), HostShare(rate_factor=0.001))
    async with serving(NetworkModel(rate_bps=1e9, hosts=hosts)) as origin:
        for url in origin.urls:
            async with Raw(url) as raw:
                connection = await sending(origin, raw)
                assert connection.cap_bps() == (1e9 if url == origin.url else 1e6)
            while origin.live:
                await asyncio.sleep(0)
    assert [url.split(":")[1] for url in origin.urls] == ["//127.0.0.1", "//127.0.0.2"]
    assert [(request.host, request.number, request.connection_id) for request in origin.requests] == [
        (0, 1, 1),
        (1, 1, 2),
    ]


async def test_files_stand_in_the_bucket_too():
    """As path-style requests to S3 ask for them; a fault counts both ways of asking."""
    async with Origin({"f": FILE}, bucket="bench") as origin:
        assert (await get(origin.url, "bench/f")).body == WHOLE
        assert (await get(origin.url, "f")).body == WHOLE
        assert (await get(origin.url, "other/f")).status == 404
        assert [(request.path, request.n) for request in origin.requests][:2] == [("f", 1), ("f", 2)]


async def test_an_origin_process_enacts_it_and_leaves_its_journal(tmp_path):
    """One URL a host; after its end, which GET came over which connection."""
    network = NetworkModel(latency_s=0.001, hosts=(HostShare(), HostShare()))
    journal = tmp_path / "journal.json"
    spec = OriginSpec(groups=(Group("g-", 2, 1000),), network=network, journal=str(journal))
    name, other = SyntheticSet(spec.groups)
    with OriginProcess(spec) as origin:
        assert len(origin.urls) == 2
        async with Raw(origin.urls[1]) as raw:
            await raw.get(name)
            await raw.get(name, method="HEAD")
            await raw.get(name)
        await get(origin.urls[1], other)
    assert JournalEntry.read(journal) == [
        JournalEntry(name, 1, 1, 1),
        JournalEntry(name, 2, 1, 1),
        JournalEntry(other, 1, 1, 2),
    ]


@pytest.mark.parametrize(
    ("caps", "total", "shares"),
    [
        ([], 5, []),
        ([1, 2], float("inf"), [1, 2]),
        ([4, 4], 10, [4, 4]),
        ([4, 4], 4, [2, 2]),
        ([9, 1, 9], 7, [3, 1, 3]),
        ([float("inf"), 1], 7, [6, 1]),
        ([0, float("inf"), float("inf")], 8, [0, 4, 4]),
    ],
)
def test_max_min_shares(caps, total, shares):
    """Nobody beyond its cap, and nobody less than another that could give."""
    assert max_min(caps, total) == shares


class Body:
    def __init__(self, cap, since_s):
        self.cap, self.since_s, self.got = cap, since_s, 0.0

    def cap_bps(self):
        return self.cap

    def grant(self, count, now_s):
        self.got += count


def test_the_pacer_counts_bytes_out_by_the_clock():
    """Rate times the time that a body was there, in virtual time; asleep when nobody is left."""

    async def story():
        loop = asyncio.get_running_loop()
        pacer = Pacer(loop, lambda: 300.0)
        slow, fast = Body(100, loop.time()), Body(1000, loop.time())
        pacer.add(slow)
        pacer.add(fast)
        await asyncio.sleep(1 + STEP_S / 2)
        assert (slow.got, fast.got) == pytest.approx((100, 200))
        late = Body(50, loop.time())
        pacer.add(late)
        await asyncio.sleep(1)
        assert late.got == pytest.approx(50 * (1 - STEP_S / 2), abs=0.01)  # up to the last step
        assert fast.got == pytest.approx(350, abs=2)
        for body in (slow, fast, late):
            pacer.remove(body)
        await asyncio.sleep(10)
        assert fast.got == pytest.approx(350, abs=2)

    run_virtual(story())


async def test_servers_that_know_no_ranges():
    """The whole file, whatever was asked, and no ETag to join by."""
    async with serving(NetworkModel(ranges=False)) as origin:
        reply = await get(origin.url, "f", "Range: bytes=10-")
        assert (reply.status, reply.body) == (200, WHOLE)
        assert reply.headers["accept-ranges"] == "none"
        assert "etag" not in reply.headers


@pytest.mark.parametrize(
    ("network", "first_bps", "then_bps", "mark"),
    [
        (NetworkModel(rate_bps=50e6, burst=Burst(size_bytes=20_000, rate_bps=1e5)), 50e6, 1e5, 20_000),
        (NetworkModel(rate_bps=50e6, wear=Wear(every_bytes=20_000, factor=0.01)), 50e6, 5e5, 20_000),
        (NetworkModel(rate_bps=50e6, slow_start=True, latency_s=0.01), 1.46e6, 2.92e6, 14_600),
    ],
    ids=["burst", "wear", "slow start"],
)
async def test_a_rate_that_changes_within_a_reply(network, first_bps, then_bps, mark):
    """The same bytes as in the simulator; grants of the pacer are counted here, not seconds."""
    async with serving(network) as origin, Raw(origin.url) as raw:
        connection = await sending(origin, raw)
        origin.pacer.remove(connection)
        body = connection._body
        body.granted, body._pace_end = 0.0, 0.0
        assert connection.cap_bps() == pytest.approx(first_bps)
        body.grant(1e9)
        assert body.granted == pytest.approx(mark)
        assert connection.cap_bps() == pytest.approx(then_bps)


async def test_lost_packets_slow_a_stretch_of_each_connection():
    """Of 10,000 bytes 4,000 come at a tenth of the rate, wherever the first of them are."""
    network = NetworkModel(rate_bps=1e6, loss=Loss(every_bytes=10_000, for_bytes=4_000, factor=0.1))
    async with serving(network) as origin, Raw(origin.url) as raw:
        connection = await sending(origin, raw)
        origin.pacer.remove(connection)
        stretches = []
        for _ in range(5):
            rate_bps, before = connection.cap_bps(), connection._body.granted
            connection._body.grant(1e9)
            stretches.append((rate_bps, round(connection._body.granted - before)))
        assert set(stretches[1:]) == {(1e6, 6000), (1e5, 4000)}


async def test_connections_beyond_the_servers_wait_for_one_to_close():
    """The second gets no head while the first is open, idle or not; then it is answered."""
    async with (
        serving(NetworkModel(connections=1)) as origin,
        Raw(origin.url) as first,
        Raw(origin.url) as second,
        Raw(origin.url) as third,
    ):
        assert (await first.get("f")).body == WHOLE
        second.send("f")
        while len(origin.live) < 3:
            await asyncio.sleep(0)
        third.send("g")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(second.reader.read(1), 0.1)
        assert (await first.get("g")).body == WHOLE
        first.writer.close()
        reply = await second.head()
        assert await second.reader.readexactly(reply.length) == WHOLE
        assert [request.number for request in origin.requests] == [1, 1, 2]


async def test_a_server_that_drowns_sends_the_less_the_more_it_sends():
    """Two replies at full rate; a third takes more than half of everyone's rate."""
    network = NetworkModel(rate_bps=9e6, drowns_above=2)
    async with serving(network) as origin, Raw(origin.url) as first, Raw(origin.url) as second:
        connection = await sending(origin, first)
        await sending(origin, second, number=2)
        assert connection.cap_bps() == 9e6
        async with Raw(origin.url) as third:
            await sending(origin, third, number=3)
            assert connection.cap_bps() == pytest.approx(4e6)
        while len(origin.live) > 2:
            await asyncio.sleep(0)
        assert connection.cap_bps() == 9e6


@pytest.mark.parametrize("rate_bps", [None, 50e6], ids=["as fast as it can", "paced"])
async def test_sizes_that_nobody_tells(rate_bps):
    """The whole file comes in chunks, with an end; a range says what it brings."""
    async with serving(NetworkModel(sizes=False, rate_bps=rate_bps)) as origin, Raw(origin.url) as raw:
        raw.send("f")
        head = await raw.reader.readuntil(b"\r\n\r\n")
        assert b"Transfer-Encoding: chunked" in head
        assert b"Content-Length" not in head
        body = b""
        while size := int(await raw.reader.readuntil(b"\r\n"), 16):
            body += (await raw.reader.readexactly(size + 2))[:-2]
        assert await raw.reader.readexactly(2) == b"\r\n"
        assert body == WHOLE
        assert (await raw.get("f", "Range: bytes=0-99")).body == WHOLE[:100]
