"""One stream of several: what it asks for, and what each kind of reply does to its segment and the part."""

import asyncio
import random
import socket
from typing import Any

import pytest

from cfetch.base.clock import RunClock, SystemClock
from cfetch.base.errors import RangeRefused, Refused, Transient
from cfetch.base.secret import SecretUrl
from cfetch.engine.attempt import Assignment, Attempt, BreakOff
from cfetch.engine.fetching import Fetching, salvage
from cfetch.storage.directory import Directory
from cfetch.storage.held_ranges import Segment
from cfetch.storage.part import Part
from cfetch.wire.http import HttpTransport
from cfetch.wire.verdict import ReplyAction, Verdict
from tests.engine.drive import entry_of, split
from tests.wire.raw_server import RawServer, reply

DATA = random.Random("segment").randbytes(1_000_000)
SIZE = len(DATA)
START, END = 400_000, 700_000
ENTRY = entry_of(0, "a", DATA)
TAG = '"v1"'


@pytest.fixture
def volume(tmp_path):
    made = Directory(tmp_path / "to", "attempts/i/0")
    yield made
    made.close()


@pytest.fixture
async def transport():
    made = HttpTransport(connect_timeout_s=5.0)
    yield made
    await made.close()


@pytest.fixture
def part(volume):
    """One whose first 1000 bytes are here."""
    made = Part(volume, entry_of(0, "a", DATA))
    made.write(DATA[:1000])
    made.validator, made.total_bytes = TAG, SIZE
    yield made
    made.discard()


def partial(start, end, *, body=None, tag=TAG, total=SIZE, length=True):
    """The reply to a range, as it should be unless stated otherwise."""
    body = DATA[start:end] if body is None else body
    fields = (f"ETag: {tag}", f"Content-Range: bytes {start}-{end - 1}/{total}")
    return reply(body, *fields, status="206 Partial Content", length=length)


async def bring(sink, server, transport, *, size_bytes=SIZE, entry=ENTRY):
    """One attempt at it; what the monitor would see of it."""
    run = Attempt(Assignment(entry, 1), 0.0, from_byte=0, size_bytes=size_bytes, key=-1)
    fetching = Fetching(transport, RunClock(SystemClock()), None)
    await fetching.fetch(run, sink, url=SecretUrl(server.url), secrets={}, fresh=False)
    return run


def opened(part):
    """A segment in the middle, and the way to it for a stream that helps."""
    ranges = part.split_into_ranges(SIZE)
    split(ranges, part.segment, END)
    middle = split(ranges, part.segment, START)
    return ranges, middle, part.open_segment(middle)


async def test_a_stretch_is_asked_for_and_written_where_it_belongs(part, transport):
    """With its end, under the ETag of the other bytes; the connection serves for the next."""
    async with RawServer(partial(START, END), partial(0, 10)) as server:
        ranges, middle, sink = opened(part)
        run = await bring(sink, server, transport)
        assert server.line() == "GET / HTTP/1.1"
        assert server.fields()["range"] == f"bytes={START}-{END - 1}"
        assert server.fields()["if-range"] == TAG
        assert ranges.held == ((0, 1000), (START, END))
        assert middle not in ranges.out
        assert (run.from_byte, run.received, run.resumable) == (START, END - START, True)
        again = await transport.open(SecretUrl(server.url), {}, {}, fresh=False)
        again.close()
        assert server.connections == 1


async def test_less_than_asked_for_is_a_beginning(part, transport):
    """RFC 9110 15.3.7 lets a server send a part of the range; the rest is missing again."""
    async with RawServer(partial(START, 500_000)) as server:
        ranges, _, sink = opened(part)
        await bring(sink, server, transport)
    assert ranges.held == ((0, 1000), (START, 500_000))
    assert ranges.missing == [(500_000, END)]


async def test_a_body_that_is_cut_is_an_error(part, transport):
    """What came is kept, the rest is missing again."""
    cut = partial(START, END)[:-100_000]
    async with RawServer(cut, then="close") as server:
        ranges, _, sink = opened(part)
        with pytest.raises(Transient):
            await bring(sink, server, transport)
    assert ranges.missing[0][1] == END
    assert ranges.held_bytes > 1000


REFUSALS = {
    "the whole": reply(DATA, f"ETag: {TAG}"),
    "another version": partial(START, END, tag='"v2"'),
    "no version": reply(
        DATA[START:END], f"Content-Range: bytes {START}-{END - 1}/{SIZE}", status="206 Partial Content"
    ),
    "another beginning": partial(START + 1, END),
    "another end": partial(START, END + 1),
    "another size": partial(START, END, total=SIZE + 1),
    "no range": reply(DATA[START:END], f"ETag: {TAG}", status="206 Partial Content"),
    "no such range": reply(status="416 Range Not Satisfiable"),
    "lengths that contradict": partial(START, END, body=DATA[START : END - 5]),
}


@pytest.mark.parametrize("answer", REFUSALS.values(), ids=REFUSALS)
@pytest.mark.parametrize("owner", [False, True])
async def test_a_reply_that_cannot_be_joined(part, transport, answer, owner):
    """Nothing of it is written. Who helps gives its segment back; the owner begins the file anew."""
    async with RawServer(answer) as server:
        ranges, middle, sink = opened(part)
        if owner:
            part.segment, sink = middle, part
            middle.is_owners = True
        with pytest.raises(RangeRefused):
            await bring(sink, server, transport)
    assert (part.position, part.ranges) == ((0, None) if owner else (1000, ranges))
    assert ranges.held == ((0, 1000),)
    assert middle not in ranges.out
    assert owner or ranges.missing == [(START, END)]


class Pausing(RawServer):
    """Sends the first bytes of a reply, and the rest when it may."""

    def __init__(self, answer, first):
        super().__init__(answer)
        self.first = first
        self.goes_on = asyncio.Event()

    async def __aexit__(self, *error):
        self.goes_on.set()
        await super().__aexit__(*error)

    async def answer(self, writer, reply):
        writer.write(reply[: self.first])
        await writer.drain()
        await self.goes_on.wait()
        writer.write(reply[self.first :])
        await writer.drain()
        return "keep"


async def held(ranges, size_bytes):
    while ranges.held_bytes < size_bytes:
        await asyncio.sleep(0.001)


def chunked(*pieces):
    """The same range in chunks, which may be more or less of it than its head says."""
    body = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"
    head = partial(START, END, body=b"", length=False)
    return head.replace(b"ETag", b"Transfer-Encoding: chunked\r\nETag") + body


@pytest.mark.parametrize("owner", [False, True])
@pytest.mark.parametrize("later", [False, True])
async def test_more_than_was_stated(part, transport, owner, later):
    """A server that contradicts itself is not believed: what it sent for this segment is forgotten."""
    answer = chunked(DATA[START:END], b"more")
    async with Pausing(answer, len(answer) - (15 if later else 0)) as server:
        ranges, middle, sink = opened(part)
        if owner:
            part.segment, sink = middle, part
        task = asyncio.create_task(bring(sink, server, transport))
        if later:
            await held(ranges, 1000 + END - START)
        server.goes_on.set()
        with pytest.raises(Refused, match="more than"):
            await task
    assert part.position == (0 if owner else 1000)
    assert owner or ranges.missing == [(START, END)]


class Arrived:
    """A reply of which these bytes have come and were not read."""

    def __init__(self, data):
        self.data = data

    def read_buffered(self):
        return self.data


@pytest.mark.parametrize("in_ranges", [False, True])
@pytest.mark.parametrize("more", [b"", b"x"])
async def test_what_is_salvaged_of_a_reply_is_no_more_than_was_stated(part, in_ranges, more):
    """The last byte may have come when an attempt is broken off; a server that sends more is not believed."""
    sink, limit, begin = (opened(part)[2], END, START) if in_ranges else (part, SIZE, 1000)
    attempt = Attempt(Assignment(ENTRY, 1), 0.0, from_byte=begin, size_bytes=SIZE, key=-1)
    response: Any = Arrived(DATA[begin:limit] + more)
    attempt.reply.response, attempt.reply.verdict = response, Verdict(action=ReplyAction.ACCEPT)
    salvage(attempt, sink, limit, 1.0)
    assert attempt.received == (0 if more else limit - begin)
    assert part.position == 1000 + attempt.received


async def test_less_than_was_stated(part, transport):
    """The end of the chunks is not the end of the range: an error, and what came is kept."""
    async with RawServer(chunked(DATA[START:500_000])) as server:
        ranges, _, sink = opened(part)
        with pytest.raises(Transient, match="the body ended after 500000 of 700000 bytes"):
            await bring(sink, server, transport)
    assert ranges.held == ((0, 1000), (START, 500_000))
    assert ranges.missing == [(500_000, END)]


async def test_less_than_was_stated_of_what_another_has_brought(part, transport):
    """Then nothing is missing, and it is no error."""
    answer = chunked(DATA[START:500_000])
    async with Pausing(answer, len(answer) - 5) as server:
        ranges, middle, sink = opened(part)
        task = asyncio.create_task(bring(sink, server, transport))
        await held(ranges, 1000 + 100_000)
        rival = ranges.join(middle.position, middle.end)
        part.write_at(rival, DATA[rival.position : END])
        server.goes_on.set()
        await task
    assert ranges.held == ((0, 1000), (START, END))


async def test_an_end_that_comes_nearer_while_bytes_come(part, transport):
    """It stops there, without an error, and closes: the rest of the body is another's."""
    async with Pausing(partial(START, END), 100_000) as server:
        ranges, middle, sink = opened(part)
        task = asyncio.create_task(bring(sink, server, transport))
        await held(ranges, 90_000)
        at = middle.position + 150_000
        other = ranges.join(at, END)
        assert middle.end == END
        part.write_at(other, DATA[at : at + 10])
        server.goes_on.set()
        run = await task
    assert ranges.held == ((0, 1000), (START, at + 10))
    assert middle not in ranges.out
    assert (other.position, other.end) == (at + 10, END)
    assert run.received == at - START + ranges.twice_bytes


async def test_the_owners_own_request_is_cut_short(part, transport):
    """It asked for the rest of the file before anybody helped; only its share is written."""
    async with Pausing(partial(1000, SIZE), 100_000) as server:
        task = asyncio.create_task(bring(part, server, transport))
        while part.position < 90_000:
            await asyncio.sleep(0.001)
        ranges = part.split_into_ranges(SIZE)
        helper = part.open_segment(ranges.join(END, SIZE))
        helper.write(DATA[END : END + 10])
        server.goes_on.set()
        await task
        assert server.fields()["range"] == "bytes=1000-"
    assert ranges.held == ((0, END + 10),)
    assert part.segment is None
    helper.write(DATA[END + 10 :])
    assert part.verify(SIZE, None) == "size"


async def test_who_never_begins_costs_the_owner_nothing(part, transport):
    """Others were sent for most of what it asked for, and are refused: its own reply brings the file."""
    async with Pausing(partial(1000, SIZE), 100_000) as server:
        task = asyncio.create_task(bring(part, server, transport))
        while part.position < 90_000:
            await asyncio.sleep(0.001)
        ranges = part.split_into_ranges(SIZE)
        helpers = [part.open_segment(ranges.join(*ends)) for ends in ((START, END), (END, SIZE))]
        helpers[0].release_segment()
        server.goes_on.set()
        run = await task
        helpers[1].release_segment()
        assert len(server.heads) == 1
    assert (ranges.is_whole, ranges.twice_bytes, run.received) == (True, 0, SIZE - 1000)
    assert part.verify(SIZE, None) == "size"


async def test_opened_up_before_the_reply_is_here(part, transport):
    """The owner has asked to go on, and the reply is another version: all of it begins anew, in order."""
    whole = reply(DATA[::-1], 'ETag: "v2"')
    async with Pausing(whole, 10) as server:
        task = asyncio.create_task(bring(part, server, transport))
        while not server.heads:
            await asyncio.sleep(0.001)
        ranges, over = part.split_into_ranges(SIZE), list[Segment]()
        ranges.on_over = over.append
        helper = part.open_segment(split(ranges, part.segment, START))
        helper.write(DATA[START : START + 1000])
        server.goes_on.set()
        await task
    assert over == [helper.segment]
    assert (part.ranges, part.position, part.validator) == (None, SIZE, '"v2"')


async def test_opened_up_before_the_reply_is_here_and_it_fits(part, transport):
    """The owner goes on in its segment, whatever the others have brought meanwhile."""
    async with Pausing(partial(1000, SIZE), 10) as server:
        task = asyncio.create_task(bring(part, server, transport))
        while not server.heads:
            await asyncio.sleep(0.001)
        ranges = part.split_into_ranges(SIZE)
        helper = part.open_segment(split(ranges, part.segment, END))
        helper.write(DATA[END:])
        server.goes_on.set()
        run = await task
    assert (ranges.is_whole, part.ranges) == (True, ranges)
    assert run.received == END - 1000 + ranges.twice_bytes


async def test_a_stretch_that_is_overtaken_is_broken_off(part, transport):
    """While it waits for bytes; nothing more of it is written."""
    async with Pausing(partial(START, END), 100_000) as server:
        ranges, middle, sink = opened(part)
        runs = []

        async def main():
            run = Attempt(Assignment(ENTRY, 1), 0.0, from_byte=0, size_bytes=SIZE, key=-1)
            runs.append(run)
            fetching = Fetching(transport, RunClock(SystemClock()), None)
            with pytest.raises(asyncio.CancelledError):
                await fetching.fetch(run, sink, url=SecretUrl(server.url), secrets={}, fresh=False)
            assert run.was_broken_off()

        task = asyncio.create_task(main())
        await held(ranges, 50_000)
        ranges.on_over = lambda _: runs[0].break_off(BreakOff.OVERTAKEN)
        rival = ranges.join(middle.position, middle.end)
        part.write_at(rival, DATA[rival.position : rival.end])
        await task
    assert ranges.held == ((0, 1000), (START, END))
    assert (ranges.twice_bytes, middle in ranges.out) == (0, False)


async def test_overtaken_before_it_has_asked(part, transport):
    """Nothing is asked for."""
    async with RawServer(partial(START, END)) as server:
        ranges, middle, sink = opened(part)
        rival = ranges.join(middle.position, middle.end)
        part.write_at(rival, DATA[START:END])
        await bring(sink, server, transport)
        assert server.heads == []


async def test_from_another_source_only_under_a_hash(volume, transport):
    """An ETag speaks for the URL that stated it: none is sent along, and another one is no fault."""
    entry = entry_of(0, "a", DATA, digest=True)
    part: Any = Part(volume, entry)
    part.write(DATA[:1000])
    part.validator = TAG
    ranges = part.split_into_ranges(SIZE)
    sink = part.open_segment(split(ranges, part.segment, START), same_source=False)
    async with RawServer(partial(START, SIZE, tag='"mirror"')) as server:
        await bring(sink, server, transport, entry=entry)
        assert "if-range" not in server.fields()
    assert ranges.held == ((0, 1000), (START, SIZE))
    assert part.validator == TAG
    part.segment.end = START
    part.write(DATA[1000:START])
    await part.hash_rest()
    assert part.verify(SIZE, entry.digest) == "sha256"
    part.discard()


async def test_the_first_bytes_may_be_a_stretch_too(volume, transport):
    """Opened up before a byte was here; a reply without a range is refused there as well."""
    entry = entry_of(0, "a", DATA, digest=True)
    part: Any = Part(volume, entry)
    ranges = part.split_into_ranges(SIZE)
    part.release_segment()
    sink = part.open_segment(split(ranges, ranges.take_first(), 500_000))
    part.segment = ranges.out[0]
    async with RawServer(partial(0, 500_000), partial(500_000, SIZE)) as server:
        await bring(part, server, transport, entry=entry)
        await bring(sink, server, transport, entry=entry)
        assert [server.fields(n)["range"] for n in (0, 1)] == ["bytes=0-499999", "bytes=500000-999999"]
    assert ranges.is_whole
    await part.hash_rest()
    assert part.verify(SIZE, entry.digest) == "sha256"
    part.discard()


async def test_a_server_that_is_not_there(part, transport):
    """Its segment is given back."""
    with socket.create_server(("127.0.0.1", 0)) as gone:
        port = gone.getsockname()[1]
    ranges, middle, sink = opened(part)

    class Nowhere:
        url = f"http://127.0.0.1:{port}/"

    with pytest.raises(Transient):
        await bring(sink, Nowhere, transport)
    assert middle not in ranges.out
