"""Which event loop a download runs in."""

import asyncio
import sys

import pytest
import uvloop

from cfetch.manifest.hashing import new_hash
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


def raised(step, *args):
    """What a step raises, with its traceback."""
    try:
        step(*args)
    except Exception as error:
        return error
    raise AssertionError(step)


def closed():
    raise RuntimeError("unable to perform operation on <TCPTransport closed=True>; the handler is closed")


@pytest.mark.parametrize("has_uvloop", [True, False])
def test_the_error_of_a_connection_is_its_readers(monkeypatch, caplog, has_uvloop):
    """The loop says nothing of it, unless a line of ours has raised it; and all else is a bug."""
    if not has_uvloop:
        monkeypatch.setitem(sys.modules, "uvloop", None)
    loop = make_loop()
    foreign, ours = raised(closed), raised(new_hash, "nothing")
    loop.call_exception_handler(
        {"message": "Fatal error on SSL protocol", "exception": foreign, "transport": 1}
    )
    assert caplog.text == ""
    loop.call_exception_handler({"message": "Fatal error", "exception": ours, "transport": 1})
    loop.call_exception_handler({"message": "never retrieved", "exception": foreign})
    loop.call_exception_handler({"message": "a bare word"})
    loop.close()
    assert [record.message.splitlines()[0] for record in caplog.records] == [
        "Fatal error", "never retrieved", "a bare word",
    ]  # fmt: skip
