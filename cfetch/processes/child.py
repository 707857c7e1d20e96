"""A child process of a run: it gets shares through its standard input, brings them, and answers each.

It ends when its standard input ends: the run is over, or the parent is gone.
"""

import os
import queue
import signal
import sys
import threading
import time
from types import FrameType
from typing import BinaryIO

import msgspec

from cfetch.errors import CfetchError, LocalFault, describe_bug
from cfetch.processes.messages import Answer, Order, read_message, write_message
from cfetch.run.signals import HANDLED_SIGNALS
from cfetch.shares.task import bring_share
from cfetch.shares.work import RunSpec, Share, TaskCopy
from cfetch.straggler.knowledge import merge_knowledge


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

    threading.Thread(target=listen, name="orders", daemon=True).start()
    while True:
        answer = _bring(spec, given.get())
        knowledge = merge_knowledge(spec.knowledge, answer.learned, time.time())
        spec = msgspec.structs.replace(spec, knowledge=knowledge)  # the next share begins with it
        write_message(answers, answer)


def _bring(spec: RunSpec, order: Order) -> Answer:
    share = Share(order.entries, order.sharers)
    try:
        return Answer(
            learned=bring_share(spec, share, TaskCopy(order.share, order.task, 0, order.executor)).learned
        )
    except LocalFault as fault:
        return Answer(fault=str(fault))
