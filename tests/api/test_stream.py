"""``stream``: files as bytes in memory, in order, each as soon as it is whole; no end leaves anything."""

import asyncio
import io
import tempfile
from contextlib import contextmanager, suppress

import lz4.frame
import pyarrow as pa
import pytest
from backports import zstd

import cfetch
from tests.api.slow_site import BODY
from tests.api.test_downloads import threads
from tests.app.site import Site


@pytest.fixture
def scratch(tmp_path, monkeypatch):
    """The directory for temporary files: the plan is there while a run lasts."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    yield tmp_path
    assert list(tmp_path.iterdir()) == []
    assert threads() == []


def names(items):
    """The paths of items, whose bytes are those of the server."""
    assert all(item.data == BODY for item in items)
    return [item.entry.path for item in items]


def test_files_come_in_the_order_of_the_source(site, scratch):
    """Also where an early one is slow, and memory holds few of them; the bytes are Python's own."""
    urls = [site.url(name) for name in ("a", "slow", *map(str, range(40)))]
    finished = []

    def let_go_late(event):
        finished.append(isinstance(event, cfetch.EntryFinished))
        if sum(finished) == 10:
            site.let_go()

    items = list(cfetch.stream(urls, memory="1M", on_event=let_go_late))
    assert names(items) == ["a", "slow", *map(str, range(40))]
    assert type(items[0].data) is bytes


def test_a_file_is_handed_over_as_soon_as_it_is_whole(site, scratch):
    """While the one behind it is under way; without order, also while the one before it is."""
    ordered = iter(cfetch.stream([site.url("a"), site.url("slow")]))
    assert next(ordered).entry.path == "a"
    del ordered
    for_any = iter(cfetch.stream([site.url("slow"), site.url("a")], ordered=False))
    assert next(for_any).entry.path == "a"
    site.let_go()
    assert [item.entry.path for item in for_any] == ["slow"]


def test_a_loop_that_is_left_ends_the_run(site, scratch):
    """By a break, or by an error of its own; and each loop is a run of its own."""
    stream = cfetch.stream([site.url("a"), site.url("slow")])
    for item in stream:
        assert item.entry.path == "a"
        break
    with suppress(ZeroDivisionError):
        for _ in stream:
            raise ZeroDivisionError
    assert threads() == []


def test_the_turn_of_a_file_that_cannot_be_had_raises(site, scratch):
    """What stands before it comes first; with a permitted failure it is left out."""
    urls = [site.url(name) for name in ("a", "b", "missing", "c")]
    came = []
    with pytest.raises(cfetch.Incomplete, match=r"missing cannot be had: HTTP 404") as caught:
        came += [item.entry.path for item in cfetch.stream(urls)]
    for_each = iter(cfetch.stream(urls))
    assert [next(for_each).entry.path, next(for_each).entry.path] == ["a", "b"]
    with pytest.raises(cfetch.Incomplete):
        next(for_each)
    assert caught.value.summary.files.failed == 1
    permitted = cfetch.stream(urls, settings=cfetch.Settings(max_failures=1))
    assert names(permitted) == ["a", "b", "c"]


async def test_a_stream_is_awaited_too(site, scratch):
    """The loop goes on meanwhile; a cancellation ends the run before it is raised."""
    assert [item.entry.path async for item in cfetch.stream([site.url("a"), site.url("b")])] == ["a", "b"]
    began = asyncio.Event()

    async def read():
        async for item in cfetch.stream([site.url("a"), site.url("slow")]):
            assert item.data == BODY
            began.set()

    task = asyncio.create_task(read())
    await began.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await asyncio.to_thread(threads) == []


def test_what_is_wrong_is_said_before_a_request(site, scratch):
    """A memory that is no size or that one file does not fit into; an engine elsewhere."""
    with pytest.raises(cfetch.ConfigError, match="memory is 'much'"):
        cfetch.stream([site.url("a")], memory="much")
    with pytest.raises(cfetch.UsageError, match="the least; give more"):
        list(cfetch.stream([site.url("a")], memory=1000))
    large = cfetch.Entry(url=site.url("a"), size=2 << 20)
    with pytest.raises(cfetch.UsageError, match="a has 2,097,152 bytes, and memory leaves 1,048,576"):
        list(cfetch.stream([large], memory="1M"))
    with pytest.raises(cfetch.ConfigError, match="engine is spark"):
        list(cfetch.stream([site.url("a")], settings=cfetch.Settings(engine="spark")))
    assert site.asked == []


@contextmanager
def serve(bodies):
    """A server whose file of each number is one of ``bodies``; yields the function that makes its URL."""
    site = Site()
    site.files = {str(number): body for number, body in enumerate(bodies)}
    try:
        yield lambda number: f"{site.url}{number}"
    finally:
        site.close()


def write_arrow(number, file_type=pa.ipc.new_stream):
    """An Arrow stream of three rows."""
    out = io.BytesIO()
    batch = pa.record_batch({"n": [3 * number, 3 * number + 1, 3 * number + 2]})
    with file_type(out, batch.schema) as writer:
        writer.write_batch(batch)
    return out.getvalue()


def test_record_batches_come_in_order(scratch):
    """From LZ4 frames, zstd and plain bytes alike, as a SQL statement's result has them; also from files."""
    packed = [
        lz4.frame.compress(write_arrow(0)),
        zstd.compress(write_arrow(1)),
        write_arrow(2),
        write_arrow(3, pa.ipc.new_file),
    ]
    with serve(packed) as url:
        stream = cfetch.stream([url(n) for n in range(4)])
        assert pa.Table.from_batches(stream.batches())["n"].to_pylist() == list(range(12))
        assert [item.data for item in cfetch.stream([url(0)], unpacked=True)] == [write_arrow(0)]
        assert [item.data for item in cfetch.stream([url(0)])] == packed[:1]


def test_what_a_file_unpacks_to_is_bounded(scratch):
    """A small file may become any number of bytes; one that is cut short is damaged."""
    bomb = lz4.frame.compress(bytes(3 << 20))
    with serve([bomb, bomb[:-9]]) as url:
        with pytest.raises(cfetch.CfetchError, match="unpacks to more than the 1MiB that half"):
            list(cfetch.stream([url(0)], unpacked=True, memory="2M"))
        with pytest.raises(cfetch.CfetchError, match=r"1: the packed bytes"):
            list(cfetch.stream([url(1)], unpacked=True, memory="16M"))


def test_no_more_is_begun_than_memory_holds(scratch):
    """However many connections there are: three files here, the one in the reader's hands included."""
    site = Site()
    site.files = {str(number): bytes(300_000) for number in range(20)}
    entries = [cfetch.Entry(url=f"{site.url}{number}", size=300_000) for number in range(20)]
    try:
        for number, _ in enumerate(cfetch.stream(entries, memory="1M")):
            assert max(int(name) for _, name, _ in site.asked) <= number + 2
    finally:
        site.close()
