"""Signals: who hears of them, also while the main thread hangs in a system call."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from cfetch.base.errors import Interrupted
from cfetch.run.signals import HANDLED_SIGNALS, listen

HANGS = """
import ctypes, sys, threading, time
from cfetch.base.errors import Interrupted
from cfetch.run.signals import listen

mutex = ctypes.create_string_buffer(64)
lock = ctypes.CDLL(None).pthread_mutex_lock  # no signal ends this call
lock(mutex)

def tell():
    while mutex[0] == b"\\1":  # in glibc it is 2 once somebody waits; before that a handler could still run
        time.sleep(0.001)
    print("listening", flush=True)

with listen(lambda _: print("handled", flush=True), end_s=float(sys.argv[1]), hangs="/mnt/v"):
    threading.Thread(target=tell, daemon=True).start()
    lock(mutex)
"""


def is_at_work(pid):
    """Whether its main thread runs, or a signal to the process has not reached it yet."""
    status = Path(f"/proc/{pid}/status").read_text()
    return re.search(r"State:\s*R", status) or not re.search(r"State:\s*Z|ShdPnd:\s*0+\n", status)


@pytest.mark.parametrize(
    ("end_s", "signals", "said"),
    [
        (
            "0.1",
            [signal.SIGTERM],
            "/mnt/v has not answered for 0.1 s; see whether it is still there",
        ),
        ("1e6", [signal.SIGTERM, signal.SIGTERM], ""),
        ("1e6", [signal.SIGINT, signal.SIGTERM], ""),
    ],
)
def test_a_process_that_hangs_is_ended(end_s, signals, said):
    """The first signal gives it a while, and names what it waits for; the second ends it at once."""
    words = [sys.executable, "-c", HANGS, end_s]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "listening\n"
        for number in signals:
            while is_at_work(child.pid):  # two signals of one number at a time would be one
                os.sched_yield()
            child.send_signal(number)
        out, errors = child.communicate(timeout=60)
    assert (child.returncode, out, errors) == (128 + signals[-1], "", f"cfetch: {said}\n" if said else "")


@pytest.fixture
def handlers():
    """The handlers of the signals, restored afterwards."""
    before = {number: signal.getsignal(number) for number in HANDLED_SIGNALS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("handlers")
def test_a_handler_of_the_caller_gets_the_first_signal_too():
    """There may be nothing left to end here. Python's own handler would raise, so it does not get it."""
    heard: list[Interrupted] = []
    passed_on, raised = [], []
    signal.signal(signal.SIGTERM, lambda number, _: passed_on.append(number))
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGTERM, signal.SIGINT):
        try:
            with listen(heard.append):
                signal.raise_signal(number)
        except KeyboardInterrupt:
            raised.append(number)
    assert [interrupted.signal_number for interrupted in heard] == [signal.SIGTERM, signal.SIGINT]
    assert (passed_on, raised) == ([signal.SIGTERM], [])


@pytest.mark.usefixtures("handlers")
def test_a_signal_that_the_caller_ignores_stays_ignored():
    """As SIGHUP under nohup."""
    heard: list[Interrupted] = []
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with listen(heard.append):
        signal.raise_signal(signal.SIGHUP)
    assert heard == []
