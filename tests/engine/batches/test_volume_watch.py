"""What speaks against a volume (refused batches, a volume that fails, stragglers), and who is told of it."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from cfetch.base.errors import VolumeFault
from cfetch.base.events import VolumePaused
from cfetch.engine.batches.completion import BatchCompletion
from cfetch.engine.batches.staging import Batch, BatchSize, BatchStaging
from cfetch.engine.batches.volume_watch import VolumeWatch
from cfetch.engine.placement.chooser import Mode
from cfetch.engine.placement.placer import EVIDENCE, Placer
from tests.engine.flying import new_flights

MIB = 1 << 20
PAUSE_S = 0.5


class Volumes:
    """Two volumes, ``a`` and ``b``, under a real placer. All that is under way there is ``here``."""

    def __init__(self):
        self.events: list[Any] = []
        self.now_s = 0.0
        self.arrived = 0
        self.placer = Placer(2, mode=Mode.COUNT, deadline_s=60.0)
        self.work = asyncio.Event()
        self.here: list[BatchStaging] = []
        clock: Any = SimpleNamespace(now=lambda: self.now_s)
        stagings: Any = SimpleNamespace(
            here=lambda _: list(self.here),
            withdraw=self.here.remove,
            finish=lambda *_, **__: None,
            changed=self.work,
        )
        volumes: Any = [SimpleNamespace(name=name) for name in "ab"]
        outside: Any = SimpleNamespace(
            instant="i", clock=clock, emit=self.events.append, confirm=lambda: None
        )
        switch: Any = None  # another volume is left, so nothing ends the run
        self.watch = VolumeWatch(
            volumes,
            self.placer,
            stagings,
            new_flights(),
            switch,
            outside,
            patience_s=60.0,
        )
        self.completion = BatchCompletion(volumes, self.placer, stagings, self.watch, switch, outside)

    def news(self):
        """Whom the user was told of since the last call, and whether batches are to be placed anew."""
        told = [(type(event), event.volume) for event in self.events]
        is_set = self.work.is_set()
        self.events.clear()
        self.work.clear()
        return told, is_set

    def begin(self, volume_index):
        """The next batch of two files that is being staged on a volume: a new one, or one that came back."""
        self.arrived += 1
        self.placer.submit(self.arrived, MIB, 2, self.now_s, home=volume_index)
        self.placer.assign(self.now_s)
        placed = self.placer.begin(volume_index, self.now_s)
        assert placed is not None
        staging = BatchStaging(
            Batch(placed.batch, "b", None, range(2), BatchSize(MIB)), volume_index, "a test"
        )
        self.here.append(staging)
        return staging

    def bring(self, staging, *, mitigations):
        """A file of the batch has come."""
        transfer: Any = SimpleNamespace(mitigations=mitigations, part=SimpleNamespace(position=MIB // 2))
        self.completion.stage(staging, transfer)


PAUSED_A = [(VolumePaused, "a")]


@pytest.fixture
def volumes():
    return Volumes()


def test_a_volume_that_refuses_batches_is_told_of_once_a_pause(volumes):
    """Two batches were begun before it failed; the failed probe after the pause is a new one."""
    first, second = volumes.begin(0), volumes.begin(0)
    volumes.watch.leave(first, VolumeFault("no"))
    assert volumes.news() == (PAUSED_A, True)
    volumes.watch.leave(second, VolumeFault("no"))
    assert volumes.news() == ([], True)
    assert volumes.here == []
    volumes.now_s = PAUSE_S
    volumes.watch.leave(volumes.begin(0), VolumeFault("no"))
    assert volumes.news() == (PAUSED_A, True)


def test_a_full_volume_loses_the_batch_and_is_not_told_of(volumes):
    """There is room for a smaller one, perhaps."""
    volumes.watch.leave(volumes.begin(0), VolumeFault("full", no_room=True))
    assert volumes.news() == ([], True)
    assert volumes.here == []


def test_a_volume_that_fails_is_told_of_once_a_pause(volumes):
    """Several calls may fail while it is gone: all its batches go at the first, and nobody hears it twice."""
    volumes.begin(0)
    volumes.begin(0)
    volumes.watch.leave_all(0, VolumeFault("gone"))
    assert volumes.news() == (PAUSED_A, True)
    assert volumes.here == []
    volumes.watch.leave_all(0, VolumeFault("gone"))
    assert volumes.news() == ([], True)
    volumes.now_s = PAUSE_S
    volumes.begin(0)
    volumes.watch.leave_all(0, VolumeFault("gone again"))
    assert volumes.news() == (PAUSED_A, True)


def test_stragglers_that_take_a_volume_out_of_use_are_told_of(volumes):
    """No sooner, and no later ones."""
    for _ in range(EVIDENCE - 1):
        volumes.watch.note_straggler(0)
    assert volumes.news() == ([], False)
    volumes.watch.note_straggler(0)
    assert volumes.news() == (PAUSED_A, True)
    volumes.watch.note_straggler(0)
    assert volumes.news() == ([], False)


@pytest.mark.parametrize("mitigations", [0, 1])
def test_a_file_that_came_without_mitigation_clears_its_volume(volumes, mitigations):
    """The stragglers are to be in a row; a file that was one itself speaks for nothing."""
    staging = volumes.begin(0)
    for _ in range(EVIDENCE - 1):
        volumes.watch.note_straggler(0)
    volumes.bring(staging, mitigations=mitigations)
    volumes.watch.note_straggler(0)
    assert volumes.news()[0] == (PAUSED_A if mitigations else [])
