"""Starts threads. A system that starts no more of them is a limit of this machine, and no bug."""

import threading
from collections.abc import Callable
from typing import Any

from cfetch.base.errors import LocalFault


def start_thread(run: Callable[..., object], name: str, *arguments: Any) -> threading.Thread:  # noqa: ANN401 - as run takes
    """Start a thread that ends with the process, and carries out ``run(*arguments)``.

    Raises:
        LocalFault: a limit of the user, of the container, or of memory permits no more threads.
    """
    thread = threading.Thread(target=run, args=arguments, name=name, daemon=True)
    try:
        thread.start()
    except RuntimeError:
        raise LocalFault(
            "the system starts no more threads; raise the limit of the user (ulimit -u), of the container "
            "(pids) or of addresses (ulimit -v)"
        ) from None
    return thread
