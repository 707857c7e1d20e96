"""Slots and rescues of the adaptive policy over real sockets; the server waits for requests, for no time."""

import asyncio
from contextlib import asynccontextmanager

from tests.engine.drive import entry_of, tree
from tests.engine.test_pool_wire import fetched

BLOCK = 16 << 10


class Server:
    """Has files of ``size`` bytes.

    ``pace(server, path, position)`` is awaited before each block. ``asked``: path, connection, position.
    """

    def __init__(self, size, pace):
        self.body = bytes(n % 251 for n in range(size))
        self.pace = pace
        self.asked = []
        self.accepted = self.answering = self.most_answering = 0

    @asynccontextmanager
    async def serving(self, count):
        """Serve; the entries of ``count`` files."""
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        host = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        try:
            yield [entry_of(n, f"f{n}", self.body, host=host) for n in range(count)]
        finally:
            server.close()

    async def _serve(self, reader, writer):
        self.accepted += 1
        number = self.accepted
        try:
            while True:
                await self._answer((await reader.readuntil(b"\r\n\r\n")).decode(), number, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def _answer(self, head, number, writer):
        path, size = head.split()[1].lstrip("/"), len(self.body)
        (start, end), status = (0, size), "200 OK"
        for line in head.splitlines():
            if line.startswith("Range: bytes="):
                first, _, last = line.removeprefix("Range: bytes=").partition("-")
                start, end = int(first), int(last or size - 1) + 1
                status = f"206 x\r\nContent-Range: bytes {start}-{end - 1}/{size}"
        self.asked.append((path, number, start))
        self.answering += 1
        self.most_answering = max(self.most_answering, self.answering)
        try:
            writer.write(f'HTTP/1.1 {status}\r\nETag: "v"\r\nContent-Length: {end - start}\r\n\r\n'.encode())
            for begin in range(start, end, BLOCK):
                await self.pace(self, path, begin)
                writer.write(self.body[begin : min(begin + BLOCK, end)])
                await writer.drain()
        finally:
            self.answering -= 1


def are_right(server, root, records):
    """Whether all files came, with the very bytes."""
    statuses = {record.status for record in records.values()}
    return statuses == {"done"} and set(tree(root).values()) == {server.body}


async def test_a_run_grows_while_its_server_bears_more(tmp_path):
    """It begins with two, and no file comes to its end before four are asked for at a time."""
    four = asyncio.Event()

    async def pace(server, _, position):
        if server.answering >= 4:
            four.set()
        if not four.is_set():
            await (four.wait() if position + BLOCK >= len(server.body) else asyncio.sleep(0.01))

    server = Server(4 << 20, pace)
    options = {"concurrency": 2, "max_concurrency": 4, "segments": 1}
    async with server.serving(8) as entries:
        records, _ = await fetched(tmp_path, entries, **options)
    assert are_right(server, tmp_path, records)
    assert server.most_answering == 4


async def test_a_file_on_a_crawling_connection_goes_on_over_another(tmp_path):
    """From the byte that it had reached; the first connection never brings the rest."""
    for_good = asyncio.Event()

    async def pace(server, path, position):
        tries = sum(path == asked for asked, *_ in server.asked)
        if path == "f0" and tries == 1 and position:
            await for_good.wait()
        await asyncio.sleep(0.005)

    server = Server(8 * BLOCK, pace)
    async with server.serving(40) as entries:
        records, _ = await fetched(tmp_path, entries, concurrency=4, max_concurrency=4, segments=1)
        for_good.set()
    assert are_right(server, tmp_path, records)
    (_, slow, _), (_, fresh, position) = [asked for asked in server.asked if asked[0] == "f0"]
    assert (slow != fresh, position) == (True, BLOCK)
    assert [attempt.outcome for attempt in records["f0"].attempts] == ["straggler", "done"]
