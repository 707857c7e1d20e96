"""A program's own session of aiohttp: lent to all requests of one job."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

from cfetch.api.own_thread import Stop
from cfetch.base.errors import UsageError
from cfetch.wire.network import OWN_SESSION, OwnSession

T = TypeVar("T")


def lend(session: OwnSession | None, job: Callable[[Stop], T], *, waits: bool) -> Callable[[Stop], T]:
    """Let the job ask by ``session``. ``waits``: the caller's loop, if one runs, stands still meanwhile.

    Raises:
        UsageError: it is no session, or its event loop could not carry out a request.
    """
    if session is None:
        return job
    home = None if callable(session) else getattr(session, "_loop", None)
    if not callable(session) and home is None:
        raise UsageError(
            f"session is {type(session).__name__}, neither an aiohttp.ClientSession nor a function"
        )
    if home is not None and (not home.is_running() or (waits and home is _find_loop())):
        raise UsageError(
            "the event loop of the session does not run during this call; give a function that makes the "
            "session (session=lambda: aiohttp.ClientSession(…)), or await download_async or get_async"
        )

    def run(stop: Stop) -> T:
        OWN_SESSION.set(session)  # the job has a context of its own
        return job(stop)

    return run


def _find_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
