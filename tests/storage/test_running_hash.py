"""The hash of a large file: the same digest as in the loop, in a bounded amount of memory."""

import hashlib
import random
import threading

import pytest

from cfetch.base.errors import Corrupt
from cfetch.storage import running_hash
from cfetch.storage.part import Part
from cfetch.storage.running_hash import (
    HANDED_BYTES,
    LARGE_BYTES,
    MOST_UNHASHED_BYTES,
    RunningHash,
    new_running_hash,
)
from tests.engine.drive import entry_of

BODY = random.Random(1).randbytes(LARGE_BYTES + 12_345)


class NoThreads:
    """Takes work, and never does it; or at once, if ``works``. If it ``fails``, no thread can be started."""

    def __init__(self, works=False, fails=False):
        self.works = works
        self.fails = fails
        self.handed = 0

    def submit(self, work):
        self.handed += 1
        if self.fails:
            raise RuntimeError("can't start new thread")
        if self.works:
            work()


@pytest.mark.parametrize("piece_bytes", [1, 4096, 256 << 10, 3 << 20])
@pytest.mark.parametrize(
    "threads",
    [None, NoThreads(), NoThreads(works=True), NoThreads(fails=True)],
    ids=["threads", "late", "at once", "none"],
)
def test_the_digest_is_that_of_all_bytes_in_order(monkeypatch, piece_bytes, threads):
    """However they come, and however late the threads are, or if there are none."""
    if threads is not None:
        monkeypatch.setattr(running_hash, "_threads", lambda: threads)
    body = BODY[:100_000] if piece_bytes == 1 else BODY
    running = RunningHash(hashlib.sha256())
    for start in range(0, len(body), piece_bytes):
        running.update(body[start : start + piece_bytes])
    copied = running.copy()
    assert running.hexdigest() == copied.hexdigest() == hashlib.sha256(body).hexdigest()


@pytest.mark.parametrize("piece_bytes", [1000, HANDED_BYTES, HANDED_BYTES + 1])
@pytest.mark.parametrize("threads", [None, NoThreads()], ids=["threads", "late"])
def test_the_caller_may_use_its_memory_again(monkeypatch, piece_bytes, threads):
    """The digest is that of the bytes as they were given."""
    if threads is not None:
        monkeypatch.setattr(running_hash, "_threads", lambda: threads)
    running, memory = RunningHash(hashlib.sha256()), bytearray(piece_bytes)
    for start in range(0, len(BODY), piece_bytes):
        data = BODY[start : start + piece_bytes]
        memory[: len(data)] = data
        running.update(memoryview(memory)[: len(data)])
        memory[:] = bytes(piece_bytes)
    assert running.hexdigest() == hashlib.sha256(BODY).hexdigest()


def test_what_waits_to_be_hashed_is_bounded(monkeypatch):
    """Where the threads are slower than the network, the loop hashes too."""
    threads = NoThreads()
    monkeypatch.setattr(running_hash, "_threads", lambda: threads)
    running = RunningHash(hashlib.sha256())
    for start in range(0, len(BODY), 65536):
        running.update(BODY[start : start + 65536])
        assert running._taken_bytes - running._hashed_bytes < MOST_UNHASHED_BYTES
    assert threads.handed > 1


def test_a_thread_hashes_while_the_loop_goes_on(monkeypatch):
    """What was handed over is hashed without another word."""
    done = threading.Event()

    class Noted:
        def update(self, data):
            assert threading.current_thread() is not threading.main_thread()
            done.set()

    RunningHash(Noted()).update(bytes(running_hash.HANDED_BYTES))  # type: ignore[arg-type]
    assert done.wait(60)


@pytest.mark.parametrize(("size_bytes", "beside"), [
    (None, False), (LARGE_BYTES - 1, False), (LARGE_BYTES, True),
])  # fmt: skip
def test_only_a_large_file_is_hashed_beside_the_loop(size_bytes, beside):
    """To hand a small one over would cost more than its hash."""
    assert isinstance(new_running_hash("sha256", size_bytes), RunningHash) == beside


def test_a_large_part_proves_itself_and_begins_anew(volume):
    """After wrong bytes the hash begins anew with the part."""
    entry = entry_of(0, "a", BODY, digest=True)
    part = Part(volume, entry)
    for start in range(0, len(BODY), 100_000):
        part.write(BODY[start : start + 100_000])
    assert part.verify(entry.size_bytes, entry.digest) == "sha256"
    part.restart()
    part.write(BODY[:-1] + b"x")
    with pytest.raises(Corrupt):
        part.verify(entry.size_bytes, entry.digest)
    part.write(BODY)
    assert part.verify(entry.size_bytes, entry.digest) == "sha256"
    part.discard()
