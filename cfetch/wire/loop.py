"""The event loop of a download: uvloop if it is installed (extra ``fast``), else asyncio's own."""

import asyncio
import traceback
from pathlib import Path
from typing import Any

_HOME = str(Path(__file__).parents[1])


def make_loop() -> asyncio.AbstractEventLoop:
    """Make a loop for connections and their timers."""
    try:
        import uvloop
    except ImportError:
        loop = asyncio.new_event_loop()
    else:
        loop = uvloop.new_event_loop()
    loop.set_exception_handler(_report)
    return loop


def _report(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Report errors that no other code gets.

    An error of a connection ends that connection, and its reader gets the error, so it is not reported.
    uvloop's TLS has such errors if a connection is closed while bytes come. An error that cfetch's own code
    has raised is a bug.
    """
    error = context.get("exception")
    if "transport" not in context or not isinstance(error, Exception) or _is_ours(error):
        loop.default_exception_handler(context)


def _is_ours(error: Exception) -> bool:
    frames = traceback.walk_tb(error.__traceback__)
    return any(frame.f_code.co_filename.startswith(_HOME) for frame, _ in frames)
