"""The event loop of a download: uvloop where it is installed (extra ``fast``), asyncio's own elsewhere."""

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
    """Report what nobody else learns of.

    The error of a connection ends that connection, and its reader learns of it. uvloop's TLS has such errors
    where a connection is closed while bytes come. One that a line of ours has raised is a bug.
    """
    error = context.get("exception")
    if "transport" not in context or not isinstance(error, Exception) or _is_ours(error):
        loop.default_exception_handler(context)


def _is_ours(error: Exception) -> bool:
    frames = traceback.walk_tb(error.__traceback__)
    return any(frame.f_code.co_filename.startswith(_HOME) for frame, _ in frames)
