"""``cfetch manifest check|convert|build``: faults before output, whole files or none, sizes from servers."""

import asyncio
import gzip
import hashlib
import io
import json
import os
import pty
import stat
import subprocess
import sys
import threading
from array import array
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from multidict import CIMultiDict

from cfetch.app.manifest_build import PROBES, UNKNOWN, _hash_tree, build_from_list, build_from_tree, probe
from cfetch.app.manifest_check import check, convert
from cfetch.base.errors import LocalFault, ManifestError, Refused, Transient, UsageError
from cfetch.base.secret import SecretUrl
from cfetch.base.virtual_clock import VirtualClock, run_virtual
from cfetch.manifest.entry import Digest
from cfetch.plugins.lab.bench.origin import Origin
from cfetch.run.manifest_reader import ManifestReader
from cfetch.run.open_manifest import open_manifest
from cfetch.storage.outputs import open_output
from cfetch.storage.tree import FoundFile, ReadOnlyTree, Stopped
from cfetch.wire.document import FIRST_BYTE, PROBE_S, Prober
from tests.app.command import cfetch
from tests.manifest.frozen import freeze

CANARY = "CANARY5ecret"
ROOT = Path(__file__).parents[2]
SHA = "ab" * 32


def write(path, *files, **top):
    path.write_text(json.dumps({**top, "files": files}))
    return str(path)


def silent(*_):
    """Told, and says nothing."""


# --- check


def test_check_counts(tmp_path):
    """What a manifest holds: files, bytes, hosts, what is unknown, when the first link ends."""
    files = [
        {"url": "https://a.example/x", "size": 5, "sha256": SHA, "expires_at": "2026-03-01T00:00:00Z"},
        {"url": "https://b.example/y", "expires_at": "2026-02-01T00:00:00Z"},
        {"url": "https://b.example/z", "size": 2},
    ]
    found = check(write(tmp_path / "m.json", *files))
    assert (found.files, found.bytes_known, found.sizes_unknown, found.without_hash) == (3, 7, 1, 2)
    assert [(file.path, file.url, file.size) for file in found.first[:2]] == [
        ("x", "https://a.example/x", 5),
        ("y", "https://b.example/y", None),
    ]
    assert found.hosts == {"a.example": 1, "b.example": 2}
    assert found.expires_at == "2026-02-01T00:00:00+00:00"


@pytest.mark.needs_plugins
def test_check_command(tmp_path):
    """All faults with their lines and exit code 2; --json is one document either way; a base URL is taken."""
    bad = "\n".join(
        ['{"url": "http://h/a", "size": -2}', '{"url": "u"}', '{"url": "sftp://h?sig=' + CANARY + '"}']
    )
    done = cfetch("manifest", "check", "-", "--json", stdin=bad)
    document = json.loads(done.stdout)
    assert (done.returncode, document["faults"]) == (2, 3)
    assert [fault["line"] for fault in document["first_faults"]] == [1, 2, 3]
    assert "stdin:2: url: it is relative" in done.stderr
    assert CANARY not in done.stdout + done.stderr
    good = cfetch("manifest", "check", "-", "--json", "--base-url", "http://h/", stdin=f"{SHA}  a\n")
    assert (good.returncode, json.loads(good.stdout)["files"]) == (0, 1)
    shown = cfetch("manifest", "check", "-", "--base-url", "http://h/", stdin=f"{SHA}  a\n")
    assert "          file  a  http://h/a\n" in shown.stdout
    assert "hosts  h (1)" in shown.stdout


# --- convert


def test_convert_names_what_is_lost(tmp_path):
    """The result alone is on stdout; what the format has no place for is named on stderr."""
    manifest = write(tmp_path / "m.json", {"url": "http://h/a", "size": 5})
    done = cfetch("manifest", "convert", manifest, "--to-format", "urls")
    assert (done.returncode, done.stdout) == (0, "http://h/a\n")
    assert "left out: size of 1 file" in done.stderr
    assert cfetch("manifest", "convert", manifest, "--to-format", "yaml").returncode == 2


@pytest.mark.parametrize(
    "words",
    [
        ["manifest", "convert", "--to-format", "urls"],
        ["manifest", "build", "--no-probe"],
        ["verify", "--to", "tests/manifest"],
    ],
)
def test_what_is_left_out_of_a_list_is_told(tmp_path, words):
    """By each command that reads it; nothing of that is on stdout."""
    manifest = tmp_path / "m.csv"
    manifest.write_text("image_url,label\nhttp://h/a,cat\nsftp://h/b,dog\n")
    done = cfetch(*words, manifest, "--bad-rows", "skip")
    assert "cfetch: rows with 1 fault were skipped\n" in done.stderr
    assert "columns that are left out: 'label'" in done.stderr


def test_convert_writes_nothing_of_a_faulty_manifest(tmp_path):
    """Faults are told before the first byte of output: an older file stays as it was."""
    output = tmp_path / "out.txt"
    output.write_text("older")
    manifest = write(tmp_path / "m.json", {"url": "http://h/a"}, {"url": "http://h/b", "size": -2})
    with pytest.raises(ManifestError):
        convert(manifest, "urls", output)
    with pytest.raises(UsageError, match="aria2, csv, curl"):
        convert(manifest, "yaml", output)
    assert output.read_text() == "older"
    assert sorted(tmp_path.iterdir()) == [tmp_path / "m.json", output]


@pytest.mark.parametrize(
    ("fields", "mode"),
    [({}, 0o644), ({"url": f"http://h/a?sig={CANARY}"}, 0o600), ({"headers": {"X": CANARY}}, 0o600)],
)
def test_secrets_are_written_for_the_owner_alone(tmp_path, fields, mode):
    """Signed URLs and headers go to a file that others cannot read, whatever the mode of the one before."""
    output = tmp_path / "out.jsonl"
    output.write_text("older")
    output.chmod(0o666)
    before = os.umask(0o022)
    try:
        convert(write(tmp_path / "m.json", {"url": "http://h/a", **fields}), "jsonl", output)
    finally:
        os.umask(before)
    assert stat.S_IMODE(output.stat().st_mode) == mode
    assert (CANARY in output.read_text()) == (mode == 0o600)


def test_secrets_never_on_a_terminal(tmp_path):
    """A manifest with signed URLs is not shown on a screen."""
    manifest = write(tmp_path / "m.json", {"url": f"http://h/a?sig={CANARY}"})
    parent, child = pty.openpty()
    try:
        done = subprocess.run(
            [sys.executable, "-m", "cfetch", "manifest", "convert", manifest, "--to-format", "json"],
            cwd=ROOT, stdout=child, stderr=subprocess.PIPE, text=True, timeout=60, check=False,
        )  # fmt: skip
    finally:
        os.close(child)
        shown = b""
        with suppress(OSError):  # the other end is closed: all has been read
            while data := os.read(parent, 4096):
                shown += data
        os.close(parent)
    assert done.returncode == 2
    assert "--output FILE" in done.stderr
    assert shown == b""


def test_output_is_whole_or_not_there(tmp_path):
    """An error in the middle leaves the older file and no temporary one; so does a directory that refuses."""
    output = tmp_path / "out"
    output.write_text("older")

    def fail_halfway():
        with open_output(output, private=False) as out:
            out.write("half" * 100_000)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail_halfway()
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert output.read_text() == "older"
    with pytest.raises(LocalFault, match="nowhere"), open_output(tmp_path / "nowhere/out", private=True):
        pass


@pytest.mark.needs_plugins
def test_convert_compressed_and_back(tmp_path):
    """A compressed foreign format becomes a native manifest that states the same."""
    text = f"http://h/a?x=1\thttp://m/a\n  out=d/a\n  checksum=sha-256={SHA}\n"
    (tmp_path / "list.txt.gz").write_bytes(gzip.compress(text.encode()))
    convert(str(tmp_path / "list.txt.gz"), "json", tmp_path / "m.json")
    convert(str(tmp_path / "m.json"), "aria2", tmp_path / "list.txt")
    assert (tmp_path / "list.txt").read_text() == text


# --- where a manifest comes from


def test_stdin_is_read_once_and_rewound(monkeypatch):
    """Standard input becomes a file that can be read from its start again."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"http://h/a\n")))
    with open_manifest("-") as (file, *_):
        assert file.read() == b"http://h/a\n"
        file.seek(0)
        assert file.read() == b"http://h/a\n"


def test_pipe_as_a_path_is_refused(tmp_path):
    """A pipe cannot be read twice; the message says how to give it instead."""
    os.mkfifo(tmp_path / "pipe")
    writer = os.open(tmp_path / "pipe", os.O_RDWR)
    try:
        with pytest.raises(UsageError, match="standard input"), open_manifest(str(tmp_path / "pipe")):
            pass
    finally:
        os.close(writer)


async def test_over_http():
    """A compressed list over http reads like a file; a missing one is told without the URL's query."""
    async with Origin({"list.csv.gz": gzip.compress(b"url,size\nhttp://h/a,7\n")}) as origin:
        found = await asyncio.to_thread(check, f"{origin.url}list.csv.gz?sig={CANARY}")
        assert (found.files, found.bytes_known) == (1, 7)
        with pytest.raises(UsageError, match="HTTP 404") as caught:
            await asyncio.to_thread(check, f"{origin.url}gone?sig={CANARY}")
    assert CANARY not in str(caught.value)


# --- build from a tree


@pytest.fixture
def tree(tmp_path):
    """A small tree with names that URLs must encode."""
    root = tmp_path / "tree"
    for path, content in {"b.txt": b"b", "a/x y%#?.bin": b"x" * 100, "a/é:1": b""}.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(content)
    (root / ".cfetch").mkdir()
    (root / ".cfetch/state").write_text("state")
    return root


def test_build_from_a_tree(tree, tmp_path):
    """Each file with size and SHA-256 and a relative URL that leads back to its name; others are told."""
    (tree / "link").symlink_to("b.txt")
    told: list[str] = []
    output = tmp_path / "m.json"
    build_from_tree(tree, output, base_url="http://h.example/d/", advance=silent, emit_line=told.append)
    with output.open("rb") as file, freeze(file, name="m", directory=tmp_path) as plan:
        entries = [plan.entry(i) for i in range(len(plan))]
    assert [entry.path for entry in entries] == ["a/x y%#?.bin", "a/é:1", "b.txt"]
    assert [entry.url.reveal() for entry in entries] == [
        "http://h.example/d/a/x%20y%25%23%3F.bin", "http://h.example/d/a/%C3%A9%3A1", "http://h.example/d/b.txt",
    ]  # fmt: skip
    assert [entry.size_bytes for entry in entries] == [100, 0, 1]
    assert entries[2].digest == Digest("sha256", hashlib.sha256(b"b").hexdigest())
    assert told == ["link: left out, it is a symlink or a special file"]


@pytest.mark.parametrize("name", ["a\nb", "back\\slash", "~home"])
def test_build_names_all_that_no_manifest_can_hold(tree, tmp_path, name):
    """Names that could never be downloaded are told at once, and no manifest is written."""
    (tree / name).write_bytes(b"")
    (tree / "a" / "c\x1b").write_bytes(b"")
    with pytest.raises(ManifestError) as caught:
        build_from_tree(tree, tmp_path / "m.json", advance=silent, emit_line=silent)
    assert caught.value.total == 2
    assert not (tmp_path / "m.json").exists()


def test_build_refuses_a_base_without_slash(tree, tmp_path):
    """The base is checked before anything is hashed."""
    with pytest.raises(UsageError, match="slash"):
        build_from_tree(tree, tmp_path / "m.json", base_url="http://h/d", advance=silent, emit_line=silent)


def test_leaving_a_build_ends_its_threads(tmp_path):
    """When the build is broken off, a thread in the middle of a large file ends at its next read."""
    begun, ended = threading.Event(), []

    class Endless(ReadOnlyTree):
        def walk(self):
            yield from (FoundFile("a", is_file=True), FoundFile("b", is_file=True))

        def hash_of(self, path, algorithm, read, **_range: Any):
            if path == "b":
                begun.set()
                try:
                    for _ in range(10**9):
                        read(1)
                except Stopped:
                    ended.append(path)
                    raise
            return "ab" * 32, 1

    with Endless(tmp_path) as tree:
        entries = _hash_tree(tree, silent)
        next(entries)
        assert begun.wait(30)
        entries.close()
    assert ended == ["b"]


def test_build_of_a_file_that_goes_away(tree, tmp_path, monkeypatch):
    """A file that cannot be read ends the build, named, and leaves no manifest."""

    def gone(self, path, algorithm, read):
        raise FileNotFoundError(2, "No such file or directory")

    monkeypatch.setattr(ReadOnlyTree, "hash_of", gone)
    with pytest.raises(LocalFault, match="cannot read a/x"):
        build_from_tree(tree, tmp_path / "m.json", advance=silent, emit_line=silent)
    assert not (tmp_path / "m.json").exists()


# --- build from a list


async def test_build_asks_servers_for_sizes(tmp_path):
    """Sizes that the list lacks are asked for, a byte at most is fetched, what is known is left alone."""
    files = {f"{i}.bin": b"x" * (10 * i) for i in range(40)}
    async with Origin({name: body for name, body in files.items() if name != "5.bin"}) as origin:
        rows: list[dict[str, object]] = [{"url": f"{origin.url}{name}?sig={CANARY}"} for name in files]
        rows[7] |= {"size": 12345}
        told: list[str] = []
        done = [0]

        def advance(number, size_bytes):
            done[0] += number

        manifest = write(tmp_path / "list.json", *rows, headers={"X-Key": CANARY})
        output = tmp_path / "m.json"
        failed = await asyncio.to_thread(
            build_from_list, manifest, output, ManifestReader(emit_line=told.append), advance=advance
        )
        document = json.loads(output.read_text())
        assert failed == 1
        assert [file.get("size") for file in document["files"]] == [
            {5: None, 7: 12345}.get(i, 10 * i) for i in range(40)
        ]
        assert document["headers"] == {"X-Key": CANARY}
        assert {request.headers["x-key"] for request in origin.requests} == {CANARY}
        assert "7.bin" not in {request.path.strip("/") for request in origin.requests}
    assert done == [40]
    assert [line.partition(" from ")[0] for line in told] == ["5.bin: HTTP 404"]
    assert stat.S_IMODE(output.stat().st_mode) == 0o600


async def test_build_command(tmp_path):
    """Exit code 1 when some files cannot be had, and the manifest all the same; no question where told so."""
    async with Origin({"a": b"abc"}) as origin:
        lines = f"{origin.url}a?sig={CANARY}\n{origin.url}gone?sig={CANARY}\n"
        done = await asyncio.to_thread(cfetch, "manifest", "build", "-", "--probe", stdin=lines)
        assert done.returncode == 1
        assert [file.get("size") for file in json.loads(done.stdout)["files"]] == [3, None]
        assert "gone: HTTP 404 from http" in done.stderr
        assert ", line 2; it is in the list, without size" in done.stderr
        assert CANARY not in done.stderr
        asked = len(origin.requests)
        quiet = await asyncio.to_thread(cfetch, "manifest", "build", "-", "--no-probe", stdin=lines)
        assert (quiet.returncode, len(origin.requests)) == (0, asked)


class Reply:
    """A scripted reply."""

    def __init__(self, status, body=b"", **headers):
        self.status = status
        self.headers = CIMultiDict((name.replace("_", "-"), value) for name, value in headers.items())
        self.body = [body] if body else []
        self.peer = None
        self.closed = False

    async def read(self):
        return self.body.pop(0) if self.body else b""

    def close(self):
        self.closed = True


class Scripted:
    """A transport that gives its replies in turn: a Reply, an error, or None for silence.

    HEAD is refused with ``head``, or answered from ``replies`` where that is None.
    """

    def __init__(self, *replies, head=405):
        self.replies = list(replies)
        self.head = head
        self.asked = []
        self.under_way = self.most = 0

    def keep_at_most(self, most):
        """None are kept."""

    async def close(self):
        """Nothing to give back."""

    async def open(self, url, headers, secrets, *, fresh, method="GET", connecting=None):
        self.asked.append((method, dict(headers), dict(secrets)))
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        try:
            await asyncio.sleep(1)
            reply = Reply(self.head) if method == "HEAD" and self.head else self.replies.pop(0)
            if reply is None:
                await asyncio.sleep(1e6)
        finally:
            self.under_way -= 1
        if isinstance(reply, Exception):
            raise reply
        return reply


def size_by(*replies, head=405, times=1):
    transport = Scripted(*replies, head=head)

    async def ask():
        prober = Prober(transport, VirtualClock(), lambda: 0.5)
        return [await prober.ask_size_bytes(SecretUrl("http://h/a"), {"X": "1"}) for _ in range(times)]

    found = run_virtual(ask())
    return found[0] if times == 1 else found, transport


HEAD: tuple[str, dict[str, str], dict[str, str]] = ("HEAD", {}, {"X": "1"})
GET = ("GET", FIRST_BYTE, {"X": "1"})


@pytest.mark.parametrize(
    ("reply", "size"),
    [
        (Reply(206, b"x", Content_Range="bytes 0-0/12345"), 12345),
        (Reply(206, b"x", Content_Range="bytes 0-0/*"), None),
        (Reply(206, b"x", Content_Range="bytes 0-0/-1"), None),
        (Reply(206, b"x"), None),
        (Reply(200, b"x" * 50, Content_Length="50"), 50),
        (Reply(200, b"", Content_Length="0"), 0),
        (Reply(200, b"x" * 50), None),
        (Reply(200, b"x", Content_Length="1", Content_Encoding="gzip"), None),
        (Reply(200, b"x", Content_Length="1", Transfer_Encoding="chunked"), None),
        (Reply(200, b"x", Content_Length="+5"), None),
        (Reply(416, Content_Range="bytes */0"), 0),
    ],
)
def test_what_replies_say_of_the_size(reply, size):
    """The total of a range, the length of a whole reply, zero for an empty file; else it is unknown."""
    found, transport = size_by(reply)
    assert found == size
    assert reply.closed
    assert transport.asked == [HEAD, GET]


def test_head_that_states_a_length_is_all():
    """No byte of the file is asked for."""
    reply = Reply(200, Content_Length="12345")
    found, transport = size_by(reply, head=None)
    assert (found, transport.asked) == (12345, [HEAD])
    assert reply.closed


@pytest.mark.parametrize("status", [400, 401, 403, 404, 405, 501])
def test_head_that_is_refused_is_asked_again_as_get(status):
    """A signature for GET refuses HEAD with 403, a small server with 501: both are no news of the file."""
    found, transport = size_by(Reply(206, b"x", Content_Range="bytes 0-0/9"), head=status)
    assert (found, transport.asked) == (9, [HEAD, GET])


@pytest.mark.parametrize(
    "head",
    [
        Reply(200),
        Reply(200, Content_Length="0"),
        Reply(200, Content_Length="7", Content_Encoding="gzip"),
        Reply(200, Transfer_Encoding="chunked"),
    ],
    ids=["none", "zero", "encoded", "chunked"],
)
def test_head_without_a_length_to_rely_on_is_asked_again_as_get(head):
    """Also for zero, which servers say that make no body for HEAD."""
    found, transport = size_by(head, Reply(206, b"x", Content_Range="bytes 0-0/9"), head=None)
    assert (found, transport.asked) == (9, [HEAD, GET])
    assert head.closed


@pytest.mark.parametrize(("status", "heads"), [(403, 1), (405, 1), (404, 3)])
def test_an_origin_that_refuses_head_is_asked_so_once(status, heads):
    """A list of a million signed links costs one question too many, not a million; 404 is about one file."""
    replies = [Reply(206, b"x", Content_Range=f"bytes 0-0/{n}") for n in (5, 6, 7)]
    found, transport = size_by(*replies, head=status, times=3)
    assert found == [5, 6, 7]
    assert transport.asked.count(HEAD) == heads
    assert transport.asked.count(GET) == 3


def test_two_lengths_are_none():
    """Nobody can know which of two values is true."""
    reply = Reply(200)
    reply.headers.extend([("Content-Length", "5"), ("Content-Length", "6")])
    assert size_by(reply)[0] is None


def test_passing_faults_are_tried_again():
    """Resets, 503 and silence are tried again, of HEAD as of GET; silence ends by itself."""
    good = Reply(206, b"x", Content_Range="bytes 0-0/9")
    found, transport = size_by(Transient("reset"), Reply(503), good)
    assert (found, len(transport.asked)) == (9, 4)
    found, transport = size_by(Reply(503), None, Reply(200, Content_Length="5"), head=None)
    assert (found, transport.asked) == (5, [HEAD] * 3)


@pytest.mark.parametrize(
    "reply", [*map(Reply, (404, 403, 410, 416, 301)), Reply(416, Content_Range="bytes */5")], ids=range(6)
)
def test_lasting_faults_are_not(reply):
    """A file that is not there, or that contradicts itself, is not asked for again."""
    with pytest.raises(Refused):
        size_by(reply)


def test_silence_gives_up():
    """A server that never answers costs a bounded time."""

    async def timed():
        prober = Prober(Scripted(None, None, None, None, head=None), VirtualClock(), lambda: 0)
        with pytest.raises(Transient, match="no answer"):
            await prober.ask_size_bytes(SecretUrl("http://h/a"), {})
        return asyncio.get_running_loop().time()

    assert run_virtual(timed()) <= 4 * (PROBE_S + 1)


def test_probing_is_bounded(tmp_path):
    """At most PROBES questions are under way at once, and every file is asked for once."""
    text = "".join(f"http://h/{i}\n" for i in range(5 * PROBES)).encode()
    transport = Scripted(*(Reply(206, b"x", Content_Range=f"bytes 0-0/{i}") for i in range(5 * PROBES)))
    with freeze(io.BytesIO(text), name="m", directory=tmp_path) as plan:
        sizes = array("q", plan.sizes)
        failed = run_virtual(probe(plan, sizes, transport, VirtualClock(), advance=silent, emit_line=silent))
    gets = [method for method, *_ in transport.asked].count("GET")
    assert (failed, transport.most, gets) == (0, PROBES, 5 * PROBES)
    assert UNKNOWN not in sizes
