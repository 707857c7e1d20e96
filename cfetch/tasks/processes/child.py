"""A child process of a run: it gets shares through its standard input, brings them, and answers each.

It ends when its standard input ends: the run is over, or the parent is gone. A thread gives the parent a sign
of life each second, as long as the work itself moves: a disk that does not answer stops only the thread that
waits for it.
"""

import os
import queue
import signal
import sys
import threading
import time
from contextlib import suppress
from types import FrameType
from typing import BinaryIO

import msgspec

from cfetch.base.errors import CfetchError, LocalFault, describe_bug
from cfetch.base.threads import start_thread
from cfetch.run.signals import HANDLED_SIGNALS
from cfetch.straggler.knowledge import merge_knowledge
from cfetch.tasks.hub.messages import TaskFault
from cfetch.tasks.processes.messages import (
    EVERY_S,
    SIGN_OF_LIFE,
    ChildAnswer,
    pack_message,
    read_message,
)
from cfetch.tasks.shares.task import STILL_S, bring_share
from cfetch.tasks.shares.work import Order, RunSpec
from cfetch.timeline.heartbeat import Heartbeats


class Signs:
    """The signs of life of this process. ``note_life``: the work moves.

    There are none while the work has not moved for ``limit_s``.
    """

    def __init__(self, answers: BinaryIO, limit_s: float) -> None:
        self._answers = answers
        self._limit_s = limit_s
        self._lock = threading.Lock()
        self._moved_s: float | None = None  # None: there is no work

    def note_life(self) -> None:
        """Note that the work moves."""
        self._moved_s = time.monotonic()

    def give(self) -> None:
        """Give a sign, unless the work stands still. Raises OSError: the parent is gone."""
        moved_s = self._moved_s
        if moved_s is None or time.monotonic() - moved_s <= self._limit_s:
            self._write(SIGN_OF_LIFE)

    def answer(self, answer: ChildAnswer) -> None:
        """Send the answer: the work is over. Raises OSError: the parent is gone."""
        self._moved_s = None
        self._write(pack_message(answer))

    def _write(self, data: bytes) -> None:
        with self._lock:
            self._answers.write(data)
            self._answers.flush()


def main() -> None:
    """Bring shares until the parent closes the pipe."""
    _leave_signals_to_parent()
    orders, answers = _take_pipes()
    try:
        _serve(orders, answers)
    except Exception as bug:  # noqa: BLE001 - its text may hold a secret, so only places are shown
        print("\n".join(describe_bug(bug)), file=sys.stderr)
        sys.stderr.flush()
        os._exit(CfetchError.exit_code)


def _leave_signals_to_parent() -> None:
    """Ignore Ctrl-C and a hangup, which all processes of a terminal get; the parent asks for an orderly end.

    This needs a handler, as a refresh command would inherit ignored or blocked signals.
    """

    def ignore(number: int, frame: FrameType | None) -> None:
        """Do nothing: the parent gets the signal too."""

    for number in HANDLED_SIGNALS:
        signal.signal(number, ignore)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, HANDLED_SIGNALS)  # the parent has blocked them until here


def _take_pipes() -> tuple[BinaryIO, BinaryIO]:
    """Take the pipes from and to the parent, so that neither prints nor started commands can use them."""
    orders, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    return orders, answers


def _serve(orders: BinaryIO, answers: BinaryIO) -> None:
    spec = read_message(orders, RunSpec)
    if spec is None:
        return
    given: queue.SimpleQueue[Order] = queue.SimpleQueue()

    def listen() -> None:
        while (order := read_message(orders, Order)) is not None:
            given.put(order)
        os._exit(0)  # at once, as if killed: no driver reads receipts now, and the next run may have begun

    expiry_s = Heartbeats(
        interval_s=spec.settings.heartbeat_interval, misses=spec.settings.heartbeat_misses
    ).expiry_s
    signs = Signs(answers, max(STILL_S, expiry_s))

    def show_life() -> None:
        with suppress(OSError):  # the parent is gone, and so is this process soon
            while True:
                signs.give()
                time.sleep(EVERY_S)

    start_thread(listen, "orders")
    start_thread(show_life, "signs of life")
    while True:
        answer = _bring(spec, given.get(), signs)
        knowledge = merge_knowledge(spec.knowledge, answer.learned, time.time())
        spec = msgspec.structs.replace(spec, knowledge=knowledge)  # the next share begins with it
        signs.answer(answer)


def _bring(spec: RunSpec, order: Order, signs: Signs) -> ChildAnswer:
    signs.note_life()
    try:
        return ChildAnswer(learned=bring_share(spec, *order, on_life=signs.note_life).learned)
    except LocalFault as fault:
        return ChildAnswer(fault=TaskFault.describe(fault))
