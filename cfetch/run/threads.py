"""Tests at a run's start that the system permits the threads and the memory that it will need.

Libraries start some of the threads, and end the whole process if that fails (libuv calls abort). So does
numpy, which a run imports when its first files are judged: without memory its OpenBLAS calls exit(1), which
is the exit code of failed files. The limit of threads is the user's (``ulimit -u``) or a container's
(``pids``); the limit of addresses (``ulimit -v``) can stop both.
"""

import mmap
import threading
from contextlib import suppress

from cfetch.base.errors import ConfigError

OTHERS = 10  # 4 that resolve names, 4 that hash, 2 that write heartbeats
PER_VOLUME = 2  # one thread writes, the other checks whether the first hangs
ROOM_BYTES = 160 << 20  # of addresses, with all threads running: numpy takes 90 MiB, 64 bodies 48 MiB


def prove_threads(volumes: int) -> None:
    """Start as many threads at once as a run to ``volumes`` needs, map the memory, and end both.

    Raises:
        ConfigError: the system starts fewer, or has less room.
    """
    count, over = OTHERS + PER_VOLUME * volumes, threading.Event()
    started: list[threading.Thread] = []
    has_room = False
    try:
        with suppress(RuntimeError):
            while len(started) < count:
                thread = threading.Thread(target=over.wait, daemon=True)
                thread.start()
                started.append(thread)
        with suppress(OSError):  # the mapping has no rights, so no memory of the machine stands behind it
            mmap.mmap(-1, ROOM_BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, prot=0).close()
            has_room = True
    finally:
        over.set()
        for thread in started:
            thread.join()
    if len(started) < count:
        raise ConfigError(
            f"a run needs {count} threads, and the system starts only {len(started)}; raise the limit of the "
            "user (ulimit -u), of the container (pids) or of addresses (ulimit -v). Nothing was downloaded"
        )
    if not has_room:
        raise ConfigError(
            f"a run needs {ROOM_BYTES >> 20} MiB of address space beside its threads, and the system "
            "permits less; raise that limit (ulimit -v). Nothing was downloaded"
        )
