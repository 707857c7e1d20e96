"""The origin misbehaving: each kind of fault on the wire, and only where it was asked for."""

import asyncio

import pytest

from cfetch.plugins.lab.bench.content import Synthetic, pieces
from cfetch.plugins.lab.bench.faults import Fault
from cfetch.plugins.lab.bench.origin import Origin
from tests.plugins.lab.bench.raw import Raw, get

SIZE = 300_000
FILE = Synthetic("f", SIZE)
WHOLE = b"".join(pieces(FILE, 1000))


def serving(*script, **more):
    return Origin({"f": FILE, "other": b"fine", "tiny": b"x"}, {"f": script, "tiny": script}, **more)


async def test_a_status_once_then_the_file():
    """503 with Retry-After for the first request, on a connection that stays usable."""
    async with serving(Fault(kind="status", status=503, retry_after_s=7)) as origin, Raw(origin.url) as raw:
        first = await raw.get("f")
        second = await raw.get("f")
    assert (first.status, first.headers["retry-after"]) == (503, "7")
    assert (second.status, second.body) == (200, WHOLE)


async def test_a_script_of_several_faults():
    """403, then 500, then a reset, then the file."""
    script = (
        Fault(kind="status", status=403),
        Fault(kind="status", status=500),
        Fault(kind="reset", after_bytes=10),
    )
    async with serving(*script) as origin:
        replies = [await get(origin.url, "f") for _ in range(4)]
    assert [reply.status for reply in replies] == [403, 500, 200, 200]
    assert [reply.ended for reply in replies] == ["whole", "whole", "reset", "whole"]
    assert b"expired" in replies[0].body


@pytest.mark.parametrize(("kind", "ended"), [("reset", "reset"), ("truncate", "closed")])
@pytest.mark.parametrize("after", [0, 1, 100_000, 280_000])
async def test_a_body_cut_short(kind, ended, after):
    """Only ``after_bytes`` of the announced length are sent, then RST or FIN; a RST may overtake some."""
    async with serving(Fault(kind=kind, after_bytes=after)) as origin:
        reply = await get(origin.url, "f")
    assert reply.length == SIZE
    assert WHOLE[:after].startswith(reply.body)
    assert len(reply.body) == after or kind == "reset"
    assert reply.ended == ended


@pytest.mark.parametrize("kind", ["reset", "truncate"])
async def test_a_small_body_is_cut_too(kind):
    """``after_bytes`` beyond the end still withholds the last byte."""
    async with serving(Fault(kind=kind, after_bytes=1 << 20)) as origin:
        reply = await get(origin.url, "tiny")
    assert (reply.length, reply.body) == (1, b"")


async def test_a_cut_counts_from_the_start_of_a_range():
    """A resumed request gets its own ``after_bytes``."""
    async with serving(Fault(kind="truncate", after_bytes=50)) as origin:
        reply = await get(origin.url, "f", "Range: bytes=1000-")
    assert reply.body == WHOLE[1000:1050]


async def test_a_stall_sends_its_bytes_and_then_nothing():
    """The connection stays open and silent, while others are served."""
    async with serving(Fault(kind="stall", after_bytes=1000)) as origin, Raw(origin.url) as raw:
        raw.send("f")
        await raw.head()
        assert await raw.reader.readexactly(1000) == WHOLE[:1000]
        assert (await get(origin.url, "other")).body == b"fine"
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(raw.reader.read(1), 0.2)


async def test_a_client_that_leaves_a_stall_is_let_go():
    """A stalled connection that its client closes does not stay behind."""
    async with serving(Fault(kind="stall", after_bytes=0, first=0)) as origin:
        async with Raw(origin.url) as raw:
            raw.send("f")
            await raw.head()
            assert len(origin.live) == 1
        while origin.live:
            await asyncio.sleep(0.001)


async def test_a_delay_comes_before_the_headers():
    """Nothing arrives until the delay is over; then the whole file does."""
    async with serving(Fault(kind="delay", delay_s=0.1)) as origin, Raw(origin.url) as raw:
        loop = asyncio.get_running_loop()
        before = loop.time()
        reply = await raw.get("f")
        assert loop.time() - before >= 0.1
    assert reply.body == WHOLE


async def test_a_slow_body_keeps_its_rate_evenly():
    """After each piece, what has arrived is at most rate x (elapsed + two ticks)."""
    async with serving(Fault(kind="slow", rate_bps=1_000_000)) as origin, Raw(origin.url) as raw:
        loop = asyncio.get_running_loop()
        start = loop.time()
        raw.send("f")
        reply = await raw.head()
        got = b""
        while len(got) < reply.length:
            got += await raw.reader.read(1 << 20)
            assert len(got) <= 1_000_000 * (loop.time() - start + 0.1)
    assert got == WHOLE


async def test_a_slow_body_does_not_slow_the_others():
    """While one connection drips a file that would take an hour, another gets everything."""
    async with serving(Fault(kind="slow", rate_bps=100)) as origin, Raw(origin.url) as slow:
        slow.send("f")
        await slow.head()
        for _ in range(50):
            assert (await get(origin.url, "other")).body == b"fine"
        assert (await get(origin.url, "f")).body == WHOLE


async def test_a_pace_is_for_all_whom_no_fault_covers():
    """The pace throttles ordinary files; a fault of its own wins over it."""
    async with serving(Fault(kind="status", status=500), pace_bps=1_000_000) as origin:
        loop = asyncio.get_running_loop()
        assert (await get(origin.url, "f")).status == 500
        before = loop.time()
        assert (await get(origin.url, "f")).body == WHOLE
        assert loop.time() - before >= 0.15


async def test_heads_meet_no_fault_and_count_for_none():
    """A HEAD before the download leaves the fault for the download."""
    async with serving(Fault(kind="status", status=500)) as origin, Raw(origin.url) as raw:
        assert (await raw.get("f", method="HEAD")).status == 200
        assert (await raw.get("f")).status == 500


async def test_counts_are_per_file_and_across_connections():
    """The first request of a file is the first from anyone."""
    async with serving(Fault(kind="status", status=500)) as origin:
        assert [(await get(origin.url, "f")).status for _ in range(2)] == [500, 200]
        assert [(await get(origin.url, "tiny")).status for _ in range(2)] == [500, 200]
