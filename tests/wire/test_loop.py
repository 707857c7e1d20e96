"""Which event loop a download runs in."""

import asyncio
import sys

import uvloop

from cfetch.wire.loop import make_loop


def test_uvloop_is_taken_where_it_is_installed(monkeypatch):
    """Else asyncio's own, without a word."""
    fast = make_loop()
    fast.close()
    assert isinstance(fast, uvloop.Loop)
    monkeypatch.setitem(sys.modules, "uvloop", None)
    plain = make_loop()
    plain.close()
    assert isinstance(plain, asyncio.SelectorEventLoop)
