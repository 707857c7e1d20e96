"""A child as its parent holds it."""

import signal

import msgspec

from cfetch.config.settings import Settings
from cfetch.processes import worker
from cfetch.processes.messages import Order
from cfetch.processes.worker import Worker
from tests.spark.scene import spec_of

MORE_THAN_A_PIPE_HOLDS = 1 << 20


def test_the_start_of_a_child_does_not_wait_for_it(tmp_path, monkeypatch):
    """It can be ended while it takes in what it has to know: the crew starts it under its lock."""
    monkeypatch.setattr(worker, "_BOOT", "import time; time.sleep(10)")
    spec = msgspec.structs.replace(spec_of(tmp_path, Settings()), env={"X": "x" * MORE_THAN_A_PIPE_HOLDS})
    child = Worker(spec)
    child.kill()
    assert child.bring(Order(share=0, task=1, sharers=1, entries=[])) is None
    assert child.close() == -signal.SIGKILL
