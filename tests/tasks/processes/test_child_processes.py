"""The threads that hold a run's processes: how the run ends if one of them fails."""

import time
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cfetch.base.errors import LocalFault
from cfetch.tasks.hub.account import Account
from cfetch.tasks.processes import child_processes
from cfetch.tasks.processes.child_processes import ChildProcesses
from cfetch.tasks.processes.messages import ChildAnswer
from cfetch.tasks.shares.dealing import CutShares, OwnShares
from cfetch.tasks.shares.work import RunSpec

NO_PLAN: Any = SimpleNamespace(entry=None)


class BadEnd:
    """A process that brings its share, and whose end fails."""

    def __init__(self, spec):
        pass

    def bring(self, order, renew, is_lost):
        return ChildAnswer()

    def close(self):
        raise LocalFault("its end fails")


@pytest.mark.parametrize("processes", [1, 3])
def test_a_process_whose_end_fails_leaves_no_thread_that_the_run_waits_for(monkeypatch, processes):
    """The run is over, with that error, and shows no process at work."""
    monkeypatch.setattr(child_processes, "Worker", BadEnd)
    brought: set[int] = set()
    children = ChildProcesses(
        spec=cast("RunSpec", None),
        bury_task=lambda _: None,
        processes=processes,
        wall=time.time,
        source=OwnShares(
            CutShares(NO_PLAN, [()] * 4, [1] * 4), Account(), brought.__contains__, time.monotonic
        ),
    )
    children.start()
    assert any(children.wait(10.0) for _ in range(30))
    assert isinstance(children.failure, LocalFault)
