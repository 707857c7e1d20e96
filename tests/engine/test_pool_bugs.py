"""An error that nobody has foreseen, in any task of the pool, ends the run in good order with its reason."""

import asyncio
from itertools import count

import pytest

from cfetch.base.events import RunStopping
from cfetch.engine.batches.rounds import Rounds
from cfetch.engine.batches.volume_events import VolumesInUse
from cfetch.engine.bring_entry import EntryBringer
from cfetch.engine.monitor import Monitor
from cfetch.engine.pool import Pool
from cfetch.storage.publisher import Publisher
from tests.engine.drive import drive, entries_for
from tests.engine.fake import Reply

STEPS = (1, 3, 8)  # at the start, under way, and when some files have ended
TASKS = {
    "monitor": (Monitor, "check"),
    "monitor, helpers": (Pool, "_adjust_and_help"),
    "ticker": (Monitor, "report"),
    "worker": (EntryBringer, "bring"),
    "volume's task": (Publisher, "_publish_group"),
    "volumes' watch": (VolumesInUse, "measure_room"),
    "placing": (Rounds, "_round"),
}
LONG_S = 600.0  # of virtual time: the files take two seconds


class PlantedError(Exception):
    """Nobody has foreseen it."""


def scene():
    """Six files of two hosts that come slowly, and one that never comes whole."""
    scripts = {f"f{n}": Reply(body=b"x" * 2000, rate_bps=1000.0) for n in range(6)}
    return scripts | {"last": Reply(body=b"x" * 2000, cut=10, then="stall")}


@pytest.fixture(autouse=True)
def _bounded(monkeypatch):
    run = Pool.run

    async def run_bounded(self):
        async with asyncio.timeout(LONG_S):
            await run(self)

    monkeypatch.setattr(Pool, "run", run_bounded)


def plant(monkeypatch, owner, name, step):
    """Let one call of a method raise; from then on it works again."""
    original, calls = getattr(owner, name), count(1)

    def call(self, *args):
        if next(calls) == step:
            raise PlantedError
        return original(self, *args)

    monkeypatch.setattr(owner, name, call)
    return calls


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("batch", [None, "b"], ids=["files", "batches"])
@pytest.mark.parametrize("task", TASKS)
def test_an_error_in_a_task_ends_the_run(tmp_path, monkeypatch, task, batch, step):
    """The error is raised when nothing is under way any more, and the reason names its type."""
    scripts, reasons = scene(), list[str]()
    calls = plant(monkeypatch, *TASKS[task], step)
    more = {} if batch is None else {"batch": batch}
    how = {"entries": entries_for(scripts, **more), "durability": "power", "concurrency": 3}

    def note(event):
        if isinstance(event, RunStopping):
            reasons.append(event.reason)

    raised: Exception | None = None
    try:
        drive(tmp_path, scripts, listener=note, stall_timeout=5.0, max_attempts=2, **how)
    except (PlantedError, ExceptionGroup) as error:
        raised = error
    if raised is None:
        assert next(calls) <= step  # the run was over before
        return
    assert type(raised) is PlantedError or "volumes' watch" in task  # it has a group of its own
    (reason,) = reasons
    assert type(raised).__name__ in reason


@pytest.mark.parametrize("step", STEPS)
def test_an_error_of_a_listener_ends_the_run(tmp_path, step):
    """Whichever task emits: none waits for another one that is gone."""
    events = count(1)

    def fail(_event):
        if next(events) >= step:
            raise PlantedError

    with pytest.raises(PlantedError):
        drive(tmp_path, scene(), listener=fail, stall_timeout=5.0, max_attempts=2)


def test_a_stop_that_cannot_be_reported_is_a_stop(tmp_path):
    """A signal always ends the run, although whoever is told of it has failed."""

    def fail(event):
        if isinstance(event, RunStopping):
            raise PlantedError

    scripts = {"stuck": Reply(body=b"x" * 2000, cut=10, then="stall")}
    outcome = drive(tmp_path, scripts, listener=fail, stop_at=1.0, stall_timeout=500.0)
    assert outcome.statuses == ["cancelled"]
    assert outcome.elapsed_s < LONG_S / 100
