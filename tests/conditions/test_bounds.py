"""What a hostile reply may cost: memory and descriptors have a bound, however long the reply goes on."""

import asyncio
import os
import tracemalloc
from dataclasses import replace

import pytest

import cfetch.straggler.evidence  # noqa: F401 - runs on a busy machine import it, with numpy, in their middle
from cfetch.base.secret import SecretUrl
from cfetch.wire.http import HttpTransport
from tests.conditions.cases import CASES, Drip, always, chunked, head, raw, whole
from tests.conditions.runner import play
from tests.wire.raw_server import RawServer

BY_NAME = {case.name: case for case in CASES}
LARGE = bytes(24 << 20)
MANY = os.urandom(1) * 30_000
ENDLESS_CHUNKS = raw(
    head("200 OK", "Transfer-Encoding: chunked"), Drip(b"8000\r\n" + bytes(1 << 15) + b"\r\n")
)
HOSTILE = (
    *(case for case in CASES if case.numbers[0] in (28, 30, 31)),
    BY_NAME["32-endless-body"],
    replace(always("32-endless-chunks", ENDLESS_CHUNKS, "refused"), body=LARGE),
    replace(always("33-many-one-byte-chunks", chunked(*(MANY[:1] for _ in MANY)), "done"), body=MANY),
)
# Two buffers of 256 KiB between the library and us, the header limits, the server's own 64 KiB, and a run's
# bookkeeping. Nothing in it may grow with the reply: the largest here is 24 MiB.
PEAK_BYTES = 4 << 20


@pytest.mark.parametrize("case", HOSTILE, ids=lambda case: case.name)
async def test_c100_memory_and_descriptors_under_hostile_replies(case, tmp_path, bare):
    """The peak is far below what the server sent or would have sent; every descriptor is given back."""
    await play(case, "size", tmp_path / "warm")  # libraries and caches are there from now on
    before = len(os.listdir("/proc/self/fd"))
    tracemalloc.start()
    try:
        ran = await play(case, "size", tmp_path / "to")
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert ran.records["d/a"]["status"] == ("done" if case.expect["size"] == "done" else "failed")
    assert peak_bytes < PEAK_BYTES
    assert len(os.listdir("/proc/self/fd")) <= before  # some of earlier tests may have gone by now


async def test_c39_a_reader_slower_than_the_network(tmp_path):
    """The server has sent all and closed long before the end is read: still the whole body, no error."""
    body = os.urandom(1 << 20)
    transport = HttpTransport(connect_timeout_s=5.0)
    async with RawServer(*whole(body).steps, then="close") as server:
        response = await transport.open(SecretUrl(server.url), {}, {}, fresh=False)
        got = bytearray(await response.read())
        while server.ended < 1:
            got += await response.read() if len(got) < len(body) // 2 else b""
            await asyncio.sleep(0.001)
        while data := await response.read():
            got += data
    await transport.close()
    assert got == body
