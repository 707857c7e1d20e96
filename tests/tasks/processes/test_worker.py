"""A child as its parent holds it."""

import io
import signal
import subprocess
import time

import msgspec
import pytest

from cfetch.base.config.settings import Settings
from cfetch.tasks.hub.messages import TaskFault
from cfetch.tasks.processes import worker
from cfetch.tasks.processes.child import Signs
from cfetch.tasks.processes.messages import HEAD_BYTES, ChildAnswer, pack_message, take_message
from cfetch.tasks.processes.worker import Worker
from cfetch.tasks.shares.work import Order, Share, Turn
from tests.tasks.scene import spec_of

MORE_THAN_A_PIPE_HOLDS = 1 << 20
ORDER = Order(Share([], 1), Turn(0, 1))


def test_the_start_of_a_child_does_not_wait_for_it(tmp_path, monkeypatch):
    """It can be ended while it takes in what it has to know: the crew starts it under its lock."""
    monkeypatch.setattr(worker, "_BOOT", "import time; time.sleep(10)")
    spec = msgspec.structs.replace(spec_of(tmp_path, Settings()), env={"X": "x" * MORE_THAN_A_PIPE_HOLDS})
    child = Worker(spec)
    child.kill()
    assert child.bring(ORDER) is None
    assert child.close() == -signal.SIGKILL


@pytest.mark.parametrize("size", [1, MORE_THAN_A_PIPE_HOLDS], ids=["waits", "does not even read"])
def test_a_child_that_stands_still_is_given_up(tmp_path, monkeypatch, size):
    """The parent waits neither for its answer nor for room in its pipe, and kills it at once."""
    monkeypatch.setattr(worker, "_BOOT", "import time; time.sleep(600)")
    monkeypatch.setattr(worker, "SILENT_S", 0.1)
    monkeypatch.setattr(worker, "TICK_S", 0.05)
    member = Worker(msgspec.structs.replace(spec_of(tmp_path, Settings()), env={"X": "x" * size}))
    assert member.bring(ORDER) is None
    assert member.is_silent
    assert member.close() == -signal.SIGKILL


def test_a_child_that_no_kill_ends_is_not_waited_for(tmp_path, monkeypatch):
    """A process that waits for a disk ends only when the disk answers; the run goes on without it."""
    monkeypatch.setattr(worker, "_BOOT", "import time; time.sleep(600)")
    monkeypatch.setattr(worker, "LEAVE_S", 0.01)
    member = Worker(spec_of(tmp_path, Settings()))
    monkeypatch.setattr(subprocess.Popen, "kill", lambda _: None)
    try:
        assert member.close() is None
    finally:
        member._process.send_signal(signal.SIGKILL)
        member._process.wait()


def test_signs_of_life_keep_a_child_and_are_no_answer(monkeypatch):
    """They end when its work does not move any more, and an answer behind them is found in any pieces."""
    now = 0.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    pipe = io.BytesIO()
    signs = Signs(pipe, limit_s=10.0)
    signs.note_life()
    for now in (9.0, 11.0, 12.0):  # noqa: B007 - the clock's
        signs.give()
    assert len(pipe.getvalue()) == HEAD_BYTES
    signs.note_life()
    signs.give()
    signs.answer(ChildAnswer(fault=TaskFault("full")))
    now = 100.0
    signs.give()  # without work there is nothing that stands still
    received, answers = bytearray(), list[ChildAnswer | None]()
    for byte in pipe.getvalue():
        received.append(byte)
        answers.append(take_message(received, ChildAnswer))
    assert [answer.fault for answer in answers if answer is not None] == [TaskFault("full")]
    assert len(pipe.getvalue()) == 3 * HEAD_BYTES + len(pack_message(ChildAnswer(fault=TaskFault("full"))))
    assert not received
