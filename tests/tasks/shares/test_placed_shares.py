"""Shares for several volumes: who may have which, and what becomes of one that its task has lost."""

from contextlib import closing
from types import SimpleNamespace
from typing import Any

import pytest

from cfetch.base.clock import SystemClock
from cfetch.base.config.settings import Settings
from cfetch.base.errors import LocalFault
from cfetch.run.volumes import Volumes
from cfetch.tasks.hub.account import Account
from cfetch.tasks.shares.cut import ExpectedPace
from cfetch.tasks.shares.placed_batches import PlacedBatches
from cfetch.tasks.shares.placed_run import open_placed
from cfetch.tasks.shares.task_destination import open_destination
from tests.manifest.frozen import freeze
from tests.tasks.scene import files_of, spec_of, write_manifest


def test_a_share_that_was_lost_goes_to_the_next_one_who_sees_its_volume(tmp_path):
    """With the same batches, before any other; its former task is no holder any more."""
    roots = [tmp_path / "a", tmp_path / "b"]
    for root in roots:
        (root / ".cfetch/attempts/i/1").mkdir(parents=True)
    origin = SimpleNamespace(url="http://127.0.0.1:9")  # nothing is asked for
    manifest = write_manifest(tmp_path / "m.json", origin, files_of(40, 50 << 20), digest=False)
    spec = spec_of(tmp_path, Settings(to=tuple(map(str, roots))))
    (tmp_path / "plan").mkdir()
    with (
        manifest.open("rb") as source,
        freeze(source, name="m", directory=tmp_path / "plan") as plan,
        closing(Volumes(roots, state=tmp_path / "state", write_timeout_s=9.0)) as volumes,
        volumes.stage_parts("attempts/i/1", "i", 1, tmp_path / "state", "p"),
        closing(
            open_placed(
                plan, volumes, spec, Account(), None, SystemClock(), slots=8, pace=ExpectedPace(concurrency=1)
            )
        ) as placed,
    ):
        first, other = placed.take(), placed.take()
        assert first is not None
        assert other is not None
        here, there = (placed.find_volume(turn.task) for turn in (first, other))
        assert here is not None
        assert there is not None
        assert {here, there} == {0, 1}
        content = placed.fill(first)
        placed.bury(first)
        second = placed.take([there])
        assert second is None or second.share != first.share
        again = placed.take([here])
        assert again is not None
        assert (again.share, again.attempt) == (first.share, 0)
        assert again.task != first.task
        assert placed.fill(again) == content


@pytest.mark.parametrize("is_granted", [True, False])
async def test_a_task_that_has_lost_its_share_before_it_began_leaves_nothing(tmp_path, is_granted):
    """It looks for its grant once its directory of parts stands; who takes the share removes both in turn."""
    settings = Settings(to=(str(tmp_path / "to"),))
    spec = spec_of(tmp_path, settings)
    (tmp_path / "grants").mkdir()
    if is_granted:
        (tmp_path / "grants" / "t5").touch()
    opening = open_destination(
        spec.destination,
        settings,
        "t5",
        login={},
        monotonic=SystemClock().monotonic,
        is_useless=lambda: False,
        is_guarded=True,
        grants=str(tmp_path / "grants"),
    )
    parts = tmp_path / "to/.cfetch/attempts/i/1/t5"
    if is_granted:
        async with opening:
            assert parts.is_dir()
    else:
        with pytest.raises(LocalFault, match="another task has the share"):
            await opening.__aenter__()
    assert not parts.exists()


async def test_batches_on_a_volume_that_hangs_are_not_tidied_one_by_one():
    """Each would be waited for; the next run does it."""
    asked, closed = [], []

    class Volume:
        """Notes what is asked of it."""

        def __init__(self, *, is_stuck):
            self.is_stuck = is_stuck

        async def inspect_batches(self, batches):
            asked.append(self.is_stuck)
            return [SimpleNamespace(same_size=())]

        async def close(self):
            closed.append(self.is_stuck)

    def do_nothing():
        pass

    batch = SimpleNamespace(id="1", entries=(), recorded=set(), copies={}, standing={})
    batches: Any = SimpleNamespace(
        watch=SimpleNamespace(leave=do_nothing, close=do_nothing),
        _placing=SimpleNamespace(options=Settings().placing, earlier=None),
        _settled=[(batch, 0), (batch, 1)],
        _volumes=[Volume(is_stuck=True), Volume(is_stuck=False)],
        _plan=(),
    )
    await PlacedBatches.close(batches)
    assert (asked, closed) == ([False], [True, False])
