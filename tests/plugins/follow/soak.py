"""A feed that grows and splits, its server and its follower killed again and again; then a judgement.

Every row of the stream is a version of a key with a link and a hash of its own, and its number as ``offset``;
so the metrics of the follower's plans tell which versions were applied, and in which order.
"""

import hashlib
import json
import random
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import msgspec

from cfetch.base.errors import CfetchError
from cfetch.plugins.follow.backends.http import split_range
from tests.engine.drive import tree

__all__ = ["Report", "Server", "begin", "soak"]

PROJECT = Path(__file__).parents[3]
KEYS = 60
DELETED = 0.1  # of the rows
ROWS_A_TURN = 5
TURN_S = 0.1
LIVES_S = (0.8, 4.0)  # of a follower
SERVER_LIVES_S = 9.0
LAST_RUN_S = 120.0
TRIES = 5  # of the last run, while the server may not have looked at the last rows
EXPECTED = {0, 1, -signal.SIGKILL}  # 1: the server was down when it was asked


class Report(msgspec.Struct):
    """Figures, and ``wrong``: what must not be."""

    seconds: float
    seed: int
    versions: int = 0
    deletes: int = 0
    splits: int = 0
    runs: int = 0
    kills: int = 0
    server_kills: int = 0
    applied: int = 0
    applied_again: int = 0
    gone: int = 0
    info_requests: int = 0
    info_requests_saved: int = 0
    wrong: list[str] = []


def body_of(key: str, version: int) -> bytes:
    """What a version's link brings."""
    return f"{key} {version}\n".encode() * (1 + version % 50)


class _Origin(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        key, _, version = self.path[1:].partition(".")
        body = body_of(key, int(version))
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class _OriginServer(ThreadingHTTPServer):
    def handle_error(self, *_):
        """Followers are killed in the middle of a reply."""


class _Stream:
    """Rows that are appended to a file, and what the mirror is to be in the end."""

    def __init__(self, path: Path, origin: str, dice: random.Random) -> None:
        self.path, self.origin, self.dice = path, origin, dice
        self.versions: dict[str, list[int]] = {}
        self.now: dict[str, bytes] = {}
        self.deletes = 0
        path.touch()

    def append(self, rows: int) -> None:
        lines: list[dict[str, object]] = []
        for _ in range(rows):
            key = f"d{self.dice.randrange(4)}/k{self.dice.randrange(KEYS)}"
            known = self.versions.setdefault(key, [])
            if key in self.now and self.dice.random() < DELETED:
                del self.now[key]
                self.deletes += 1
                lines.append({"op": "delete", "path": key})
                continue
            version = len(known)
            known.append(version)
            self.now[key] = body = body_of(key.replace("/", "_"), version)
            row: dict[str, object] = {
                "op": "upsert",
                "path": key,
                "url": f"{self.origin}/{key.replace('/', '_')}.{version}",
            }
            row |= {"size": len(body), "sha256": hashlib.sha256(body).hexdigest(), "offset": version}
            lines.append(row)
        with self.path.open("a") as file:
            file.writelines(json.dumps(line) + "\n" for line in lines)


class Server:
    """``cfetch feed serve`` of ``source``; a later start has the same port."""

    def __init__(self, folder: Path, source: Path, *more: str) -> None:
        self.folder, self.source, self.more = folder, source, more
        self.port = 0
        self.start()

    def start(self) -> None:
        words = [
            "feed",
            "serve",
            str(self.source),
            "--host",
            "127.0.0.4",  # nobody else takes a port of it between two starts
            "--port",
            str(self.port),
            "--rescan",
            "100ms",
            *self.more,
        ]
        self.process = begin(self.folder, words, stdout=subprocess.PIPE)
        assert self.process.stdout is not None
        self.url = json.loads(self.process.stdout.readline())["url"]
        self.port = int(self.url.rstrip("/").rpartition(":")[2])

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()


def begin(folder: Path, words: list[str], **how) -> "subprocess.Popen[bytes]":
    said = (folder / "said").open("ab")
    try:
        return subprocess.Popen(
            [sys.executable, "-m", "cfetch", *words],
            cwd=PROJECT,
            stderr=said,
            stdin=subprocess.DEVNULL,
            **how,
        )
    finally:
        said.close()


def soak(folder: Path, *, seconds: float, seed: int) -> Report:
    """Run it all in ``folder``, which is empty."""
    dice, report = random.Random(seed), Report(seconds, seed)
    origin = _OriginServer(("127.0.0.1", 0), _Origin)
    serving = threading.Thread(target=origin.serve_forever)
    serving.start()
    server = None
    try:
        stream = _Stream(folder / "changes.jsonl", f"http://127.0.0.1:{origin.server_port}", dice)
        stream.append(200)
        server = Server(folder, stream.path)
        _disturb(folder, server, stream, dice, report)
        _last_run(folder, server, stream, report)
        _judge(folder, stream, report)
    finally:
        if server is not None:
            server.kill()
        origin.shutdown()
        serving.join()
        origin.server_close()
    return report


def _follow(folder: Path, url: str, *more: str) -> list[str]:
    words = [
        "follow",
        url,
        "--to",
        str(folder / "to"),
        "--versions",
        "all",
        "--delete",
        "--max-delete",
        "100%",
        "--durability",
        "crash",
        "--allow-host",
        "*",
    ]
    return [*words, "--json", "--quiet", *more]


def _disturb(folder: Path, server: Server, stream: _Stream, dice: random.Random, report: Report) -> None:
    begun_s = time.monotonic()
    server_s = begun_s + SERVER_LIVES_S

    def is_over() -> bool:
        """Whether the time is up and each disturbance has been: a busy machine may need longer for that."""
        more_s = 0.0 if report.kills and report.splits else LAST_RUN_S
        return time.monotonic() > begun_s + report.seconds + more_s

    while not is_over():
        words = _follow(folder, server.url, *(["--once"] if dice.random() < 0.3 else ["--poll", "100ms"]))
        follower = begin(folder, words, stdout=subprocess.DEVNULL)
        report.runs += 1
        dies_s = time.monotonic() + dice.uniform(*LIVES_S)
        while time.monotonic() < dies_s and not is_over() and follower.poll() is None:
            stream.append(ROWS_A_TURN)
            if dice.random() < 0.15:
                with suppress(CfetchError):
                    split_range(server.url, None)
                    report.splits += 1
            if time.monotonic() > server_s:
                server.kill()
                server.start()
                report.server_kills += 1
                server_s = time.monotonic() + SERVER_LIVES_S
            time.sleep(TURN_S)
        if follower.poll() is None:
            follower.kill()
            report.kills += 1
        code = follower.wait()
        if code not in EXPECTED:
            report.wrong.append(f"a follower ended with {code}")


def _last_run(folder: Path, server: Server, stream: _Stream, report: Report) -> None:
    """Follow once the server has all rows; it looks at the stream now and then."""
    words = _follow(folder, server.url, "--once")
    for _ in range(TRIES):
        time.sleep(1.0)
        out, _ = begin(folder, words, stdout=subprocess.PIPE).communicate(timeout=LAST_RUN_S)
        told = json.loads(out)
        if told["exit_code"] or tree(folder / "to") == stream.now:
            break
    if told["exit_code"] or told["files"]["failed"]:
        report.wrong.append(f"the last run ended with {told['exit_code']}: {told['failures'][:3]}")
    feed = told["feed"]
    report.gone, report.info_requests = feed["gone"], feed["info_requests"]
    report.info_requests_saved = feed["info_requests_saved"]


def _judge(folder: Path, stream: _Stream, report: Report) -> None:
    report.versions = sum(map(len, stream.versions.values()))
    report.deletes = stream.deletes
    if tree(folder / "to") != stream.now:
        found = tree(folder / "to")
        odd = sorted(key for key in found.keys() | stream.now.keys() if found.get(key) != stream.now.get(key))
        report.wrong.append(f"{len(odd)} files are not as the source has them: {odd[:5]}")
    order: dict[str, list[int]] = {}
    for path in sorted((folder / "to/.cfetch/metrics").iterdir()):
        for line in path.read_text().splitlines():
            with suppress(ValueError):  # the last line of a run that was killed
                record = json.loads(line)
                if record["schema"] == "cfetch.file/1" and record["status"] in ("done", "skipped"):
                    order.setdefault(record["path"], []).append(record["offset"])
                    report.applied += 1
                    report.applied_again += record["status"] == "skipped"
    for key, versions in stream.versions.items():
        applied = order.get(key, [])
        if applied != sorted(applied):
            report.wrong.append(f"{key}: versions went back: {applied}")
        if set(applied) != set(versions):
            report.wrong.append(f"{key}: not applied: {sorted(set(versions) - set(applied))}")
    left = {path.name for path in (folder / "to/.cfetch/feeds").glob("*/*")}
    if left - {"checkpoint.json", "lock", "status.json", "tombstones.jsonl"}:
        report.wrong.append(f"left in the journal: {left}")
    said = (folder / "said").read_text()
    if "Traceback" in said or "a bug in cfetch" in said:
        report.wrong.append(f"said: {said[-2000:]}")
