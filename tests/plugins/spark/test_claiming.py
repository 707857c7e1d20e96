"""What becomes of a share whose task was cut off from the driver, or dies again and again. Without Spark."""

import threading
import time
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

from cfetch.base.clock import SystemClock
from cfetch.base.config.settings import Settings
from cfetch.base.config.straggler import StragglerConfig
from cfetch.base.errors import LocalFault
from cfetch.plugins.lab.bench.content import Synthetic
from cfetch.plugins.spark import claiming
from cfetch.plugins.spark.dealer import ShareDealer
from cfetch.tasks.hub.messages import ShareEnded, TaskFault
from cfetch.tasks.hub.registry import TaskRegistry
from cfetch.tasks.hub.server import HubPlace, open_hub
from cfetch.tasks.shares.dealing import MOST_DEATHS
from cfetch.tasks.shares.lending import read_order
from cfetch.tasks.shares.salvage import bury_dead_task
from cfetch.tasks.shares.work import Turn
from tests.engine.drive import tree
from tests.tasks.scene import files_of, read_receipts, served, share_of, spec_of, whole, write_manifest

LARGE, STAGED_BYTES = "0.big", 3 << 20
FILES = {LARGE: Synthetic(LARGE, 4 << 20)} | files_of(2)


class Gated:
    """A content whose bytes from ``STAGED_BYTES`` on wait for the gate; nothing else is served meanwhile."""

    def __init__(self, inner):
        self._inner = inner
        self.gate = threading.Event()
        self.size_bytes, self.etag = inner.size_bytes, inner.etag

    def read(self, offset, length):
        if offset >= STAGED_BYTES:
            self.gate.wait(60)
        return self._inner.read(offset, min(length, STAGED_BYTES - offset % STAGED_BYTES))

    def sha256(self):
        return self._inner.sha256()


class OneShare:
    """A source with one share, for one volume; ``said`` has the ends of its turns."""

    fault = None

    def __init__(self, share):
        self._share = share
        self._turns = [Turn(0, 1)]
        self.said = []

    def take(self, volumes):
        return self._turns.pop() if self._turns else None

    def fill(self, turn):
        return self._share

    def find_volume(self, task):
        return 0

    def is_mine(self, turn):
        return True

    def bury(self, turn):
        self.said.append(("buried", turn.task))
        self._turns = [Turn(0, turn.task + 1)]

    def renew(self, turn):
        """A share that takes more than a second, as on a busy machine, is renewed."""

    def end(self, turn):
        self.said.append(("brought", turn.task))

    def move(self, turn, fault):
        self.said.append(("refused", turn.task, fault.no_room))
        return True

    def is_over(self):
        return bool(self.said) and self.said[-1][0] == "brought"


@contextmanager
def dealing(tmp_path, origin, **settings):
    """A hub with a dealer, and the facts that a task needs; the driver takes its turns."""
    with open_hub(TaskRegistry(StragglerConfig(), None), HubPlace("127.0.0.1"), SystemClock()) as hub:
        spec = spec_of(tmp_path, Settings(**settings), hub.address)
        (tmp_path / "grants").mkdir()
        spec = msgspec.structs.replace(spec, volumes=(spec.destination,), grants=str(tmp_path / "grants"))
        share = share_of(tmp_path, write_manifest(tmp_path / "m.json", origin, FILES))
        placed: Any = OneShare(share._replace(batches=(3,), volume=0))
        dealer = ShareDealer(placed, Path(spec.grants), partial(bury_dead_task, placed, spec, hub))
        hub.deal_by(dealer)
        over = threading.Event()

        def take_turns():
            while not over.wait(0.01):
                dealer.note_driver_turn()

        driver = threading.Thread(target=take_turns)
        driver.start()
        try:
            yield spec, placed, dealer
        finally:
            over.set()
            driver.join()


def test_a_task_that_was_cut_off_puts_nothing_in_place(tmp_path):
    """It lives, is refused, and asks for the next share; what it has staged is continued."""
    large = Gated(FILES[LARGE])
    with (
        served(FILES | {LARGE: large}) as origin,
        dealing(tmp_path, origin, stall_timeout=600.0, mitigation=False, segments=1) as (
            spec,
            placed,
            dealer,
        ),
    ):
        task = threading.Thread(target=claiming.bring_shares, args=(spec, "a"))
        task.start()
        own = Path(spec.destination.fence, "t1")
        while STAGED_BYTES not in list_sizes(own):
            time.sleep(0.01)
        dealer.lose(1)
        large.gate.set()
        task.join(60)
        assert not task.is_alive()
        assert dealer.failure is None
        ranges = [request.range for request in origin.requests if request.path == LARGE]
        assert ranges == [None, f"bytes={STAGED_BYTES}-"]
    assert placed.said == [("buried", 1), ("brought", 2)]
    assert tree(tmp_path / "to") == whole(FILES)
    brought = [record for one in read_receipts(tmp_path) for record in one.records if record.is_in_place]
    assert {(record.path, record.task) for record in brought} == {(name, 2) for name in FILES}
    assert list(Path(spec.grants).iterdir()) == []


@pytest.mark.parametrize("has_read", [False, True])
def test_a_task_that_has_not_begun_when_its_share_is_taken_back_never_begins(tmp_path, monkeypatch, has_read):
    """It finds no order, or its grant withdrawn; it leaves no directory, and takes others."""

    def read_late(grants, task):
        order = read_order(grants, task)
        if task == 1:
            dealer.lose(task)
        return order if has_read else read_order(grants, task)

    monkeypatch.setattr(claiming, "read_order", read_late)
    with served(FILES) as origin, dealing(tmp_path, origin) as (spec, placed, dealer):
        claiming.bring_shares(spec, "a")
        assert [request.path for request in origin.requests if request.path == LARGE] == [LARGE]
    assert (placed.said, dealer.failure) == ([("buried", 1), ("brought", 2)], None)
    assert {record.task for one in read_receipts(tmp_path) for record in one.records} == {2}
    assert list(Path(spec.destination.fence).iterdir()) == []


def list_sizes(directory):
    """The sizes of the files there, as far as it stands."""
    with suppress(FileNotFoundError):
        return [path.stat().st_size for path in directory.iterdir()]
    return []


def test_a_share_that_kills_its_tasks_ends_the_run(tmp_path):
    """If it never gets shorter; what the deaths were over is said, and what to look at."""
    with served(FILES) as origin, dealing(tmp_path, origin) as (_, _, dealer):
        failures = []
        for _ in range(MOST_DEATHS + 1):
            dealer.lose(dealer.claim("a"))
            failures.append(dealer.failure)
        assert failures[:-1] == [None] * MOST_DEATHS
        assert isinstance(failures[-1], LocalFault)
        assert "died over the same files" in str(failures[-1])
        assert dealer.is_over


@pytest.mark.parametrize("is_volumes", [False, True])
def test_the_fault_of_a_volume_moves_its_batches_and_that_of_a_machine_does_not(tmp_path, is_volumes):
    """An executor that cannot work gives its share back, to the same volume; it leaves no grant."""
    with served(FILES) as origin, dealing(tmp_path, origin) as (spec, placed, dealer):
        task = dealer.claim("a")
        assert [path.name for path in Path(spec.grants).iterdir()] == [f"t{task}"]
        dealer.end(ShareEnded(task=task, fault=TaskFault("full", is_volumes=is_volumes, no_room=True)))
        assert placed.said == [("refused", 1, True) if is_volumes else ("buried", 1)]
        assert list(Path(spec.grants).iterdir()) == []
        dealer.end(ShareEnded(task=task))  # late
        assert len(placed.said) == 1


@pytest.mark.parametrize("is_mine", [False, True])
def test_what_no_other_volume_takes_ends_the_run_unless_a_copy_has_brought_it(tmp_path, is_mine):
    """Its volume refuses the share; nobody asks for another one if its files stand already."""
    with served(FILES) as origin, dealing(tmp_path, origin) as (_, placed, dealer):
        placed.is_mine, placed.move = lambda turn: is_mine, lambda turn, fault: False
        task = dealer.claim("a")
        dealer.end(ShareEnded(task=task, fault=TaskFault("it is gone", is_volumes=True)))
        assert str(dealer.failure) == ("it is gone" if is_mine else "None")
