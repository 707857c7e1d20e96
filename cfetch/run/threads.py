"""Tests at a run's start that the system permits the threads that it will need.

Libraries start some of them, and end the whole process if that fails (libuv calls abort). The limit is the
user's (``ulimit -u``) or a container's (``pids``).
"""

import threading
from contextlib import suppress

from cfetch.errors import ConfigError

OTHERS = 10  # 4 that resolve names, 4 that hash, 2 that write heartbeats
PER_VOLUME = 2  # one thread writes, the other checks whether the first hangs


def prove_threads(volumes: int) -> None:
    """Start as many threads at once as a run to ``volumes`` needs, and end them.

    Raises:
        ConfigError: the system starts fewer.
    """
    count, over = OTHERS + PER_VOLUME * volumes, threading.Event()
    started: list[threading.Thread] = []
    try:
        with suppress(RuntimeError):
            while len(started) < count:
                thread = threading.Thread(target=over.wait, daemon=True)
                thread.start()
                started.append(thread)
    finally:
        over.set()
        for thread in started:
            thread.join()
    if len(started) < count:
        raise ConfigError(
            f"a run needs {count} threads, and the system starts only {len(started)}; raise the limit of "
            "the user (ulimit -u) or of the container (pids). Nothing was downloaded"
        )
