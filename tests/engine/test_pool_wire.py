"""The pool with the real transport against the real loopback origin: what virtual time cannot show."""

import asyncio
from typing import Any

import pytest

from cfetch.base.clock import RunClock, SystemClock
from cfetch.base.config.settings import Settings
from cfetch.base.events import EntryFinished, Event, StragglerCancelled, fan_out
from cfetch.base.secret import SecretUrl
from cfetch.engine.pool import Pool
from cfetch.engine.pool_inputs import PoolInputs
from cfetch.manifest.entry import Digest, Entry, safe_path
from cfetch.plugins.lab.bench.content import Synthetic
from cfetch.plugins.lab.bench.faults import Fault
from cfetch.plugins.lab.bench.origin import Origin
from cfetch.show.counts import LiveCounts
from cfetch.storage.directory import Directory
from cfetch.storage.directory_volume import DirectoryVolume
from cfetch.wire.http import HttpTransport
from tests.engine.drive import ListPlan, entry_of, tree
from tests.wire.raw_server import RawServer, reply


def stated(number, content, url, *, digest=True):
    return Entry(
        id=number,
        path=safe_path(content.name),
        url=SecretUrl(url + content.name),
        size_bytes=content.size_bytes,
        digest=Digest("sha256", content.sha256()) if digest else None,
    )


async def fetched(root, entries, **settings):
    """Run to the end: records by path, events."""
    events: list[Event] = []
    counts = LiveCounts()
    transport = HttpTransport(connect_timeout_s=5.0)
    volume = Directory(root, "attempts/i/0")
    plan: Any = ListPlan(entries)
    pool = Pool(
        plan,
        Settings(**settings),
        [DirectoryVolume(volume, durable=Settings(**settings).durability == "power")],
        transport,
        PoolInputs(
            instant="i",
            clock=RunClock(SystemClock()),
            jitter=lambda: 0.0,
            emit=fan_out(counts, events.append),
            counts=counts,
        ),
    )
    try:
        await pool.run()
    finally:
        await transport.close()
        volume.close()
    left = [repr(task.get_coro()) for task in asyncio.all_tasks()]
    assert not [name for name in left if "Pool." in name or "Monitor." in name]
    return {e.record.path: e.record for e in events if isinstance(e, EntryFinished)}, events


async def test_whole_files_of_all_sizes(tmp_path):
    """Empty, tiny, and larger than every buffer: the very bytes, by their hashes; nobody helps a slow one."""
    sizes = [0, 1, 16_384, 300_000, 5_000_000]
    files = {f"d/{size}": Synthetic(f"d/{size}", size) for size in sizes}
    async with Origin(files) as origin:
        entries = [stated(i, content, origin.url) for i, content in enumerate(files.values())]
        records, _ = await fetched(tmp_path, entries, segments=1)
        assert origin.connections <= len(sizes)
    assert {r.status for r in records.values()} == {"done"}
    assert {r.verified for r in records.values()} == {"sha256"}
    assert {path: len(data) for path, data in tree(tmp_path).items()} == {f"d/{s}": s for s in sizes}
    assert records["d/1"].attempts[0].peer.startswith("127.0.0.1:")


async def test_a_straggler_is_resumed_on_a_connection_that_never_came_from_the_pool(tmp_path):
    """Idle pooled connections are there to take, yet the second try opens its own, with If-Range."""
    files = {f"{i}": Synthetic(f"{i}", 400_000) for i in range(8)}
    slow = Fault(kind="slow", rate_bps=20_000)  # on a busy machine too it is the slowest by far
    async with Origin(files, {"7": slow}) as origin:
        entries = [stated(i, content, origin.url, digest=False) for i, content in enumerate(files.values())]
        records, events = await fetched(
            tmp_path, entries, padding=0.3, check_interval=0.05, concurrency=8, segments=1
        )
        before = {r.connection_id for r in origin.requests if r.path != "7"}
        first, second = [r for r in origin.requests if r.path == "7"]
    (told,) = [e for e in events if isinstance(e, StragglerCancelled)]
    assert second.range == f"bytes={told.kept_bytes}-"
    assert second.headers["if-range"] == files["7"].etag
    assert second.connection_id not in before | {first.connection_id}
    assert [a.outcome for a in records["7"].attempts] == ["straggler", "done"]
    assert [a.http_status for a in records["7"].attempts] == [200, 206]
    assert sum(a.bytes for a in records["7"].attempts) == 400_000
    assert tree(tmp_path)["7"] == bytes(files["7"].read(0, 400_000))


@pytest.mark.parametrize("fault", [
    Fault(kind="reset", after_bytes=100_000), Fault(kind="truncate", after_bytes=100_000),
    Fault(kind="status", status=503), Fault(kind="status", status=429, retry_after_s=0),
    Fault(kind="stall", after_bytes=100_000), Fault(kind="delay", delay_s=20),
    Fault(kind="truncate", after_bytes=0),
], ids=lambda fault: f"{fault.kind}-{fault.status or fault.after_bytes}")  # fmt: skip
async def test_a_fault_costs_one_try(tmp_path, fault):
    """Two requests, the right bytes, and what had arrived is not asked for again."""
    content = Synthetic("a", 1_000_000)
    async with Origin({"a": content}, {"a": fault}) as origin:
        records, _ = await fetched(  # one attempt at a time: a file that stands still gets help before that
            tmp_path, [stated(0, content, origin.url)], stall_timeout=0.3, check_interval=0.05, segments=1
        )
        requests = origin.requests
    assert len(requests) == 2
    assert requests[1].range == ("bytes=100000-" if fault.after_bytes else None)
    assert records["a"].status == "done"
    assert records["a"].attempts[1].from_byte == (fault.after_bytes or 0)
    assert len(tree(tmp_path)["a"]) == 1_000_000


ETAG = 'ETag: "v1"'
CUT = b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n" + ETAG.encode() + b"\r\n\r\nabcd"
WHOLE = reply(b"0123456789", ETAG)


@pytest.mark.parametrize(("case", "replies", "then", "status"), [
    ("26 gzip, as the size proves", [reply(b"0123456789", "Content-Encoding: gzip")], "keep", "done"),
    ("12 wrong start", [CUT, reply(b"23456789", ETAG, "Content-Range: bytes 2-9/10", status="206 x"),
                        reply(b"0123456789", ETAG)], "close", "done"),
    ("13 no range header", [CUT, reply(b"456789", ETAG, status="206 x"), WHOLE], "close", "done"),
    ("18 the whole again", [CUT, reply(b"0123456789", ETAG)], "close", "done"),
    ("19 416", [CUT, reply(b"", status="416 x"), reply(b"0123456789", ETAG)], "close", "done"),
    ("21 another version", [
        CUT, reply(b"456789", 'ETag: "v2"', "Content-Range: bytes 4-9/10", status="206 x"), WHOLE,
    ], "close", "done"),
    ("27 gzip on a 206", [CUT, reply(b"456789", ETAG, "Content-Range: bytes 4-9/*", "Content-Encoding: gzip",
                                     status="206 x"), reply(b"0123456789", ETAG)], "close", "done"),
    ("32 longer than stated", [b"HTTP/1.1 200 OK\r\n\r\n0123456789evil"], "close", "failed"),
    ("5 reset without length, size known", [b"HTTP/1.1 200 OK\r\n\r\n01234", WHOLE], "reset", "done"),
    ("31 endless headers", [b"HTTP/1.1 200 OK\r\n" + b"X: a\r\n" * 20_000, WHOLE], "close", "failed"),
    ("48 an error page", [reply(b"<html>login</html>")], "keep", "failed"),
    ("7 malformed chunk", [b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\n0123\r\nxx\r\n",
                           reply(b"0123456789")], "close", "done"),
])  # fmt: skip
async def test_hostile_replies_end_in_the_right_bytes_or_in_none(tmp_path, case, replies, then, status):
    """Only size known, so the protocol's rules alone have to keep wrong bytes out."""
    async with RawServer(*replies, then=then) as server:
        entry = Entry(id=0, path=safe_path("a"), url=SecretUrl(server.url + "a"), size_bytes=10)
        records, _ = await fetched(tmp_path, [entry])
    assert records["a"].status == status, case
    assert tree(tmp_path) == ({"a": b"0123456789"} if status == "done" else {})


@pytest.mark.parametrize("then", ["close", "reset"])
async def test_3_5_nobody_vouches_for_a_body_that_the_connection_ends(tmp_path, then):
    """The library takes even a reset for success here; without size and hash the entry fails."""
    async with RawServer(b"HTTP/1.1 200 OK\r\n\r\nhalf of it", then=then) as server:
        entry = Entry(id=0, path=safe_path("a"), url=SecretUrl(server.url + "a"))
        records, _ = await fetched(tmp_path, [entry])
    assert records["a"].status == "failed"
    assert "states no length" in records["a"].error
    assert records["a"].error.endswith("or by cfetch get --sha256, or take it with --accept-unframed")
    assert tree(tmp_path) == {}


async def test_105_no_secret_in_events_or_names(tmp_path):
    """A canary in query and headers, through a success, a refusal, a redirect and a broken reply."""
    canary = "CANARY0123456789"
    moved = reply(b"", f"Location: /x?sig={canary}", status="302 x")
    replies = [moved, reply(b"0123456789"), reply(b"", status="404 x"), b"junk\r\n\r\n"]
    async with RawServer(*replies, then="close") as server:
        entries = [
            entry_of(i, name, b"0123456789", host=f"127.0.0.1:{server.port}", query=f"?sig={canary}",
                     headers={"Authorization": canary})
            for i, name in enumerate("abc")
        ]  # fmt: skip
        records, events = await fetched(tmp_path, entries, concurrency=1, max_attempts=1)
    assert [records[p].status for p in "abc"] == ["done", "failed", "failed"]
    assert canary not in repr(events)
    assert len(server.heads) == 4
    assert all(canary in head for head in server.heads)
