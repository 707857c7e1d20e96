"""A statement's result read in order and in memory, beside the same result downloaded in any order.

A statement server has ``--chunks`` Arrow chunks behind links that live for ``--life`` seconds; two in a
hundred of the first requests for a chunk are slow. Each connection has a steady speed. ``stream`` reads the
chunks in order, in a process of its own, and checks all bytes; ``cfetch.download`` puts them into a
directory. Prints wall times, links that were renewed, and the memory of the reading process above that of one
that has read a single small chunk::

    python benchmarks/stream_statement.py [--chunks 500] [--rounds 3] [--memory 256M] [--lz4]
"""

import argparse
import asyncio
import json
import multiprocessing
import os
import random
import re
import resource
import statistics
import tempfile
import time
from collections import Counter
from datetime import UTC, datetime
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any
from zlib import crc32  # faster than a hash, whose time would count as the stream's

import cfetch

CHUNK_BYTES = 1 << 20
RATE_BPS = 2 << 20  # of a connection: so that two shared cores do not decide
SLOW_BPS = 16 << 10
SLOW_SHARE = 0.02
TICK_S = 0.01
STATEMENT = "01ee-5f33-stream"
LINKS = 50  # in one reply


def make_chunk(number: int, *, packed: bool) -> bytes:
    """The bytes of a chunk; packed ones unpack to four times their size."""
    if not packed:
        return random.Random(number).randbytes(CHUNK_BYTES)
    from lz4 import frame

    plain = random.Random(number).randbytes(CHUNK_BYTES)
    return bytes(frame.compress(plain + bytes(3 * CHUNK_BYTES)))


class Server:
    """Serves the statement's API and its chunks, in one event loop."""

    def __init__(self, chunks: int, life_s: float, *, packed: bool) -> None:
        self.counts: Counter[str] = Counter()
        self._bodies = [make_chunk(number, packed=packed) for number in range(chunks)]
        picked = random.Random(7).sample(range(chunks), int(chunks * SLOW_SHARE))
        self._slow = set(picked)
        self._asked: set[int] = set()
        self._life_s = life_s
        self.url = ""

    def body(self, number: int) -> bytes:
        """The bytes of a chunk."""
        return self._bodies[number]

    def reply(self, first: int) -> dict[str, Any]:
        """The reply of the API with the links from a chunk on."""
        until = time.time() + self._life_s
        stated = datetime.fromtimestamp(until, UTC).isoformat().replace("+00:00", "Z")
        last = min(first + LINKS, len(self._bodies))
        links = []
        for number in range(first, last):
            link = {
                "chunk_index": number,
                "row_offset": number,
                "row_count": 1,
                "byte_count": len(self._bodies[number]),
                "external_link": f"{self.url}/chunk/{number}?until={until}",
                "expiration": stated,
            }
            if number == last - 1 and last < len(self._bodies):
                link["next_chunk_index"] = last
                link["next_chunk_internal_link"] = f"/api/2.0/sql/statements/{STATEMENT}/result/chunks/{last}"
            links.append(link)
        return {"external_links": links}

    def statement(self) -> dict[str, Any]:
        """The first reply."""
        manifest = {"format": "ARROW_STREAM", "total_chunk_count": len(self._bodies), "truncated": False}
        return {
            "statement_id": STATEMENT,
            "status": {"state": "SUCCEEDED"},
            "manifest": manifest,
            "result": self.reply(0),
        }

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of one connection."""
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                target = head.split(" ", 2)[1]
                path, _, query = target.partition("?")
                number = int(path.rpartition("/")[2]) if path[-1].isdigit() else 0
                if path == "/start":
                    self.counts.clear()
                    self._asked.clear()
                    await self._send(writer, json.dumps(self.statement()).encode())
                elif path == "/counts":
                    await self._send(writer, json.dumps(self.counts).encode())
                elif path.startswith("/api/"):
                    self.counts["links"] += 1
                    await self._send(writer, json.dumps(self.reply(number)).encode())
                elif time.time() > float(query.partition("=")[2]):
                    self.counts["expired"] += 1
                    await self._send(writer, b"expired", status="403 Forbidden")
                else:
                    is_slow = number in self._slow and number not in self._asked
                    self._asked.add(number)
                    self.counts["chunks"] += 1
                    await self._send_chunk(writer, number, head, SLOW_BPS if is_slow else RATE_BPS)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def _send_chunk(self, writer: asyncio.StreamWriter, number: int, head: str, bps: int) -> None:
        """Send a chunk or a range of it, as an object store does."""
        body, more, status = self._bodies[number], f'ETag: "{number}"\r\nAccept-Ranges: bytes\r\n', "200 OK"
        if match := re.search(r"(?im)^range: bytes=(\d+)-(\d*)", head):
            first, last = int(match[1]), int(match[2] or len(body) - 1)
            more += f"Content-Range: bytes {first}-{last}/{len(body)}\r\n"
            body, status = body[first : last + 1], "206 Partial Content"
        await self._send(writer, body, status=status, bps=bps, more=more)

    @staticmethod
    async def _send(
        writer: asyncio.StreamWriter,
        body: bytes,
        *,
        status: str = "200 OK",
        bps: int | None = None,
        more: str = "",
    ) -> None:
        head = f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n{more}\r\n"
        writer.write(head.encode())
        if bps is None:
            writer.write(body)
            await writer.drain()
            return
        began, sent = time.monotonic(), 0
        while sent < len(body):
            due = int((time.monotonic() - began + TICK_S) * bps)
            if due > sent:
                writer.write(body[sent:due])
                await writer.drain()
                sent = min(due, len(body))
            if sent < len(body):
                await asyncio.sleep(TICK_S)


def serve(channel: Connection, chunks: int, life_s: float, packed: bool) -> None:
    """The server's process; it sends its URL and the checksum of all bytes in order."""

    async def main() -> None:
        server = Server(chunks, life_s, packed=packed)
        listening = await asyncio.start_server(server.answer, "127.0.0.1", 0, limit=1 << 20)
        server.url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
        whole = 0
        for number in range(chunks):
            whole = crc32(make_chunk(number, packed=False) if packed else server.body(number), whole)
            if packed:
                whole = crc32(bytes(3 * CHUNK_BYTES), whole)
        channel.send((server.url, whole))
        async with listening:
            await listening.serve_forever()

    asyncio.run(main())


def ask(url: str) -> dict[str, Any]:
    """The JSON document at a URL."""
    from urllib.request import urlopen

    with urlopen(url) as reply:
        document: dict[str, Any] = json.load(reply)
    return document


def read(channel: Connection, url: str, kind: str, memory: str, packed: bool) -> None:
    """A reading process: sends seconds, the checksum of what came, and its memory above the start."""
    os.environ["DATABRICKS_TOKEN"] = "none"
    settings = cfetch.Settings(statement_host=url)
    small = {"url": f"{url}/api/warm", "path": "warm"}
    list(cfetch.stream([small], memory=memory, unpacked=packed))
    start_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    statement, whole, first_s = ask(f"{url}/start"), 0, 0.0
    began_s = time.monotonic()
    if kind == "download":
        with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as place:
            source = Path(place, "statement.json")
            source.write_text(json.dumps(statement))
            paths: dict[int, str] = {}

            def note(event: cfetch.Event) -> None:
                if isinstance(event, cfetch.EntryFinished):
                    paths[event.record.id] = event.record.path

            cfetch.download(source, to=Path(place, "out"), settings=settings, on_event=note)
            took_s = time.monotonic() - began_s
            for _, path in sorted(paths.items()):
                whole = crc32(Path(place, "out", path).read_bytes(), whole)
    else:
        stream = cfetch.stream(
            statement,
            ordered=kind != "unordered",
            memory=memory,
            unpacked=packed,
            settings=settings,
        )
        for _, data in stream:
            first_s = first_s or time.monotonic() - began_s
            whole = crc32(data, whole)
        took_s = time.monotonic() - began_s
    most_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    channel.send((took_s, first_s, whole, (most_kib - start_kib) / 1024, ask(f"{url}/counts")))


def measure(
    url: str, kind: str, memory: str, packed: bool
) -> tuple[float, float, int, float, dict[str, int]]:
    """Run one reading process."""
    here, there = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(
        target=read, args=(there, url, kind, memory, packed)
    )
    process.start()
    there.close()
    result: tuple[float, float, int, float, dict[str, int]] = here.recv()
    process.join()
    return result


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--chunks", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--memory", default="256M")
    parser.add_argument("--life", type=float, default=4.0, help="seconds that a link lives")
    parser.add_argument("--lz4", action="store_true", help="chunks that unpack to four times their size")
    args = parser.parse_args()
    here, there = multiprocessing.Pipe()
    server = multiprocessing.Process(target=serve, args=(there, args.chunks, args.life, args.lz4))
    server.start()
    try:
        url, whole = here.recv()
        took: dict[str, list[float]] = {}
        for _ in range(args.rounds):
            for kind in ("download", "ordered", "unordered"):
                took_s, first_s, digest, more_mib, counts = measure(url, kind, args.memory, args.lz4)
                took.setdefault(kind, []).append(took_s)
                is_right = digest == whole or kind == "unordered" or (args.lz4 and kind == "download")
                print(
                    f"{kind:9} {took_s:6.2f} s, first after {first_s:.2f} s, memory +{more_mib:.1f} MiB of "
                    f"{args.memory}, replies with links {counts.get('links', 0)}, "
                    f"expired {counts.get('expired', 0)}, {'right' if is_right else 'WRONG BYTES'}",
                    flush=True,
                )
        medians = {kind: statistics.median(times) for kind, times in took.items()}
        print(f"ordered stream over unordered download: {medians['ordered'] / medians['download']:.2f}")
    finally:
        server.terminate()
        server.join()


if __name__ == "__main__":
    main()
