"""The hash of a large file, computed in a thread while the event loop takes the next bytes.

The libraries release the GIL while they hash, so on two cores the hash of a large file takes almost no extra
time. A small file is hashed in the loop, as a switch to a thread would take longer than its hash.
"""

import os
import threading
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache

from cfetch.manifest.digests import Bytes
from cfetch.manifest.hashing import Hash, new_hash
from cfetch.storage.spare_memory import BLOCK_BYTES, keep_piece

LARGE_BYTES = 4 << 20  # a smaller file is hashed in 3 ms
HANDED_BYTES = BLOCK_BYTES  # at a time: 0.2 ms of hashing, a tenth of that for the switch
MOST_UNHASHED_BYTES = 1 << 20  # for each file; beyond this the loop hashes too
MOST_THREADS = 4


def new_running_hash(algorithm: str, size_bytes: int | None) -> Hash:
    """A new hash for a file of this size. Raises UsageError: its library is not installed."""
    running = new_hash(algorithm, size_bytes)
    return running if size_bytes is None or size_bytes < LARGE_BYTES else RunningHash(running)


class RunningHash:
    """Implements ``hashing.Hash``. ``update`` keeps the bytes it is given until a thread has hashed them."""

    __slots__ = ("_handed", "_hashed_bytes", "_lock", "_pieces", "_running", "_taken_bytes")

    def __init__(self, running: Hash) -> None:
        self._running = running
        self._pieces: deque[Bytes] = deque()
        self._lock = threading.Lock()  # held by the thread that hashes
        self._taken_bytes = self._handed = 0
        self._hashed_bytes = 0  # counted by the thread that hashes

    def update(self, data: Bytes) -> None:
        """Take the next bytes, to be hashed soon."""
        self._pieces.append(keep_piece(data))
        self._taken_bytes += len(data)
        if self._taken_bytes - self._hashed_bytes >= MOST_UNHASHED_BYTES:
            self._hash_pieces()
        elif self._taken_bytes - self._handed >= HANDED_BYTES:
            self._handed = self._taken_bytes
            with suppress(RuntimeError):  # the system starts no more threads: the loop hashes when it must
                _threads().submit(self._hash_pieces)

    def hexdigest(self) -> str:
        """Hash the bytes that no thread has hashed yet, and return the digest of all bytes so far."""
        self._hash_pieces()
        return self._running.hexdigest()

    def copy(self) -> Hash:
        """A plain hash of all bytes so far, which goes on independently."""
        self._hash_pieces()
        return self._running.copy()

    def _hash_pieces(self) -> None:
        with self._lock:
            while self._pieces:
                piece = self._pieces.popleft()
                self._running.update(piece)
                self._hashed_bytes += len(piece)


@cache
def _threads() -> ThreadPoolExecutor:
    """The threads of this process, made when the first large file comes."""
    return ThreadPoolExecutor(min(MOST_THREADS, os.cpu_count() or 1), thread_name_prefix="hash")
