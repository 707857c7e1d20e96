"""What a second run of a list without sizes costs: cfetch beside ``aria2c -c`` and ``wget -nc``.

A complete set is asked for again, then a list whose first run was interrupted half-way. The server's own log
counts requests and bodies. With ``--alone``, only cfetch's run that has nothing to do is measured::

    python benchmarks/second_runs.py [--files 20000] [--size 3000] [--alone]
"""

import argparse
import asyncio
import contextlib
import multiprocessing
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path

from cfetch.plugins.lab.bench.child import clean_environment
from cfetch.plugins.lab.bench.compare import CFETCH

LIMIT_S = 900.0


class Log:
    """A server of ``files`` equal files in a process of its own, and what it was asked."""

    def __init__(self, size_bytes: int) -> None:
        here, there = multiprocessing.Pipe()
        self._line = here
        self._process = multiprocessing.Process(target=_serve, args=(there, size_bytes), daemon=True)
        self._process.start()
        self.port: int = here.recv()

    def take(self) -> tuple[int, Counter[str]]:
        """How many requests there were since the last call, and the bodies by name."""
        self._line.send("take")
        asked: tuple[int, Counter[str]] = self._line.recv()
        return asked

    def close(self) -> None:
        """End the process."""
        self._process.terminate()
        self._process.join()


def _serve(line: Connection, size_bytes: int) -> None:
    requests = 0
    bodies: Counter[str] = Counter()
    body = os.urandom(size_bytes)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal requests
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                method, path, _ = head.split(" ", 2)
                fields = {
                    name.lower(): value.strip()
                    for name, _, value in (row.partition(":") for row in head.split("\r\n")[1:])
                }
                requests += 1
                first = int(fields.get("range", "bytes=0-")[6:].partition("-")[0] or 0)
                status, sent = ("206 Partial Content", body[first:]) if first else ("200 OK", body)
                if fields.get("if-none-match") == '"v"':
                    status, sent = "304 Not Modified", b""
                elif first >= size_bytes:
                    status, sent = "416 Range Not Satisfiable", b""
                more = f"Content-Range: bytes {first}-{size_bytes - 1}/{size_bytes}\r\n" if first else ""
                reply = f'HTTP/1.1 {status}\r\nETag: "v"\r\nContent-Length: {len(sent)}\r\n{more}\r\n'
                if method == "GET" and sent:
                    bodies[path[1:]] += 1
                writer.write(reply.encode() + (sent if method == "GET" else b""))
                await writer.drain()
        writer.close()

    async def serve() -> None:
        nonlocal requests, bodies
        server = await asyncio.start_server(answer, "127.0.0.1", 0, backlog=1024)
        line.send(server.sockets[0].getsockname()[1])
        ready = asyncio.Event()
        asyncio.get_running_loop().add_reader(line.fileno(), ready.set)
        while True:
            await ready.wait()
            ready.clear()
            if line.poll():
                line.recv()
                line.send((requests, bodies))
                requests, bodies = 0, Counter()

    asyncio.run(serve())


def _commands(urls: Path, to: Path) -> dict[str, list[str]]:
    """What each tool is told; as many connections as cfetch has at first."""
    found = {
        "cfetch": [*CFETCH, "download", str(urls), "--to", str(to), "--quiet"],
        "cfetch --existing check": [
            *(*CFETCH, "download", str(urls), "--to", str(to)),
            *("--quiet", "--existing", "check"),
        ],
        "aria2c -c": ["aria2c", "-c", "-q", "-i", str(urls), "-d", str(to), "-j16"],
        "wget -nc": ["wget", "-nc", "-q", "-i", str(urls), "-P", str(to)],
    }
    return {name: words for name, words in found.items() if shutil.which(words[0])}


def _place(complete: Path, to: Path, *, own: bool) -> None:
    """A complete set: cfetch's own tree, or a copy of the files alone."""
    if own:
        complete.rename(to)
    else:
        shutil.copytree(complete, to, copy_function=shutil.copyfile, ignore=shutil.ignore_patterns(".cfetch"))


def _count_whole(to: Path, size_bytes: int) -> set[str]:
    if not to.is_dir():
        return set()
    names = {entry.name for entry in os.scandir(to) if entry.name.endswith(".bin")}
    whole = {name for name in names if (to / name).stat().st_size == size_bytes}
    return {name for name in whole if not (to / f"{name}.aria2").exists()}


@contextlib.contextmanager
def _log_of(args: argparse.Namespace, urls: Path) -> Iterator[Log]:
    log = Log(args.size)
    urls.write_text("".join(f"http://127.0.0.1:{log.port}/{n:06}.bin\n" for n in range(args.files)))
    try:
        yield log
    finally:
        log.close()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--files", type=int, default=20_000)
    parser.add_argument("--size", type=int, default=3000)
    parser.add_argument("--alone", action="store_true")
    args = parser.parse_args()
    # extended attributes, which a folder in memory may lack, are part of what is measured
    outer = Path(tempfile.mkdtemp(prefix="cfetch-second-"))
    try:
        with _log_of(args, outer / "urls.txt") as log:
            _measure_complete(log, outer, args)
            if not args.alone:
                _measure_interrupted(log, outer, args)
    finally:
        shutil.rmtree(outer, ignore_errors=True)


def _measure_complete(log: Log, outer: Path, args: argparse.Namespace) -> None:
    urls, first = outer / "urls.txt", outer / "first"
    began_s = time.monotonic()
    subprocess.run(_commands(urls, first)["cfetch"], check=True, timeout=LIMIT_S, env=clean_environment())
    print(f"first run of cfetch: {args.files:,} files in {time.monotonic() - began_s:.1f} s")
    log.take()
    print(f"\n{'complete set, again':26} {'wall':>8} {'requests':>9} {'bodies':>7}")
    to = outer / "to"
    for name, words in list(_commands(urls, to).items())[: 1 if args.alone else None]:
        own = name.startswith("cfetch")
        _place(first, to, own=own)
        began_s = time.monotonic()
        subprocess.run(
            words, check=False, timeout=LIMIT_S, stderr=subprocess.DEVNULL, env=clean_environment()
        )
        wall_s = time.monotonic() - began_s
        requests, bodies = log.take()
        print(f"{name:26} {wall_s:7.2f}s {requests:9,} {bodies.total():7,}", flush=True)
        if own:
            to.rename(first)
        else:
            shutil.rmtree(to)
    shutil.rmtree(first)


def _measure_interrupted(log: Log, outer: Path, args: argparse.Namespace) -> None:
    print(f"\n{'interrupted, then again':26} {'in place':>8} {'again':>7} {'at end':>8}")
    for name, words in _commands(outer / "urls.txt", outer / "to").items():
        if "check" in name:
            continue
        to = outer / "to"
        child = subprocess.Popen(words, stderr=subprocess.DEVNULL, env=clean_environment())
        while child.poll() is None and len(_count_whole(to, args.size)) < args.files // 2:
            time.sleep(0.05)
        child.send_signal(signal.SIGINT)
        child.wait(LIMIT_S)
        whole = _count_whole(to, args.size)
        log.take()
        subprocess.run(
            words, check=False, timeout=LIMIT_S, stderr=subprocess.DEVNULL, env=clean_environment()
        )
        _, bodies = log.take()
        again = sum(bodies[name] for name in whole)
        at_end = len(_count_whole(to, args.size))
        print(f"{name:26} {len(whole):8,} {again:7,} {at_end:8,}", flush=True)
        shutil.rmtree(to)


if __name__ == "__main__":
    main()
