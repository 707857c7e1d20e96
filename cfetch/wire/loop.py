"""The event loop of a download: uvloop where it is installed (extra ``fast``), asyncio's own elsewhere."""

import asyncio


def make_loop() -> asyncio.AbstractEventLoop:
    """Make a loop for connections and their timers."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()
