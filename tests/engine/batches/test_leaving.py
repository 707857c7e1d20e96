"""What the next volume makes of the parts of a batch that has left a volume: on virtual time."""

import pytest

from cfetch.base.errors import VolumeFault
from cfetch.base.events import Progress
from cfetch.show.wasted_bytes import wasted_bytes
from cfetch.storage.staging import Staging
from tests.engine.batches.test_placing import BODY, World, named, plain
from tests.engine.fake import Reply


@pytest.fixture
def world(tmp_path):
    return World(tmp_path, volumes=2)


def leave_first(world, **how):
    """The first volume gives no name to the batch, once, or ``times``."""
    return lambda _: vars(world.volumes[0]).update(broken_names=how.get("times", 1))


def test_wrong_bytes_are_not_taken_over(world, monkeypatch):
    """A disk reads other bytes than were written: the hash of the manifest tells, and they come again."""
    monkeypatch.setattr(Staging, "read_leftover", lambda self, leftover, offset, size: bytes(size))
    world.run(*named(1, 2), before=leave_first(world))
    assert set(world.statuses.values()) == {"done"}
    assert world.trees == [{}, {"b0/f0": BODY, "b0/f1": BODY}]
    assert len(world.transport.opens) == 4
    assert [wasted_bytes(record) for record in world.records.values()] == [len(BODY)] * 2
    assert world.debris == []


@pytest.mark.parametrize("broken", [OSError(5, "no"), b"short"])
def test_one_part_that_cannot_be_read_ends_the_copies(world, monkeypatch, broken):
    """All is fetched again, as the others are no better."""

    def read(self, leftover, offset, size_bytes):
        if isinstance(broken, OSError):
            raise broken
        return broken

    monkeypatch.setattr(Staging, "read_leftover", read)
    world.run(*named(1, 4), before=leave_first(world), concurrency=1)
    assert (len(world.trees[1]), len(world.transport.opens)) == (4, 8)
    assert world.debris == []


def test_a_part_in_the_hands_of_a_worker_is_copied(world):
    """Half a file had come, which its server goes on with on the other volume."""
    entries, scripts = named(1, 2, body=BODY * 64)
    size_bytes = len(BODY) * 64
    scripts["b0/f1"] = Reply(BODY * 64, rate_bps=size_bytes / 10)

    def fill(event):
        if isinstance(event, Progress) and event.t_s > 5 and not world.volumes[0].dead:
            world.volumes[0].dead = True
            (staging,) = world.pool._parts.commitment._stagings.here(0)
            world.pool._parts.commitment._watch.leave(staging, VolumeFault("it is full", no_room=True))

    world.run(entries, scripts, on=fill, mitigation=False)
    assert set(world.statuses.values()) == {"done"}
    assert sorted(world.trees[1]) == ["b0/f0", "b0/f1"]
    assert [one.range for one in world.transport.opens][:2] == [None, None]
    assert len(world.transport.opens) == 3
    begin = int(world.transport.opens[2].range.removeprefix("bytes=").split("-")[0])
    assert begin > size_bytes / 3
    assert world.debris == []


def test_a_batch_that_comes_back_finds_its_parts(world):
    """Neither volume gives names at first; on the volume that it had at first its parts are in place."""
    world.run(*named(1, 2), before=lambda world: [vars(v).update(broken_names=2) for v in world.volumes])
    assert set(world.statuses.values()) == {"done"}
    assert len(world.transport.opens) == 2
    assert world.debris == []


def test_room_is_given_back_if_no_other_volume_takes_the_batch(world):
    """The only room for it is that of its own parts: they go, and it begins anew there."""
    entries, scripts = plain(2, body=BODY * 64)
    most_bytes = 3 * 64 * len(BODY)

    def before(world):
        first, second = world.volumes
        second.dead = second.full = True
        vars(second)["free_bytes"] = lambda: 0
        real = first.publish
        first.broken_names = 1

        def free_bytes():
            files = (path for path in first.root.rglob("*") if path.is_file())
            return most_bytes - sum(path.stat().st_size for path in files)

        def publish(name, path):
            try:
                real(name, path)
            except VolumeFault as fault:
                raise VolumeFault(str(fault), no_room=True) from None

        vars(first).update(free_bytes=free_bytes, publish=publish)

    world.run(entries, scripts, before=before, batch_share=1.0)
    assert set(world.statuses.values()) == {"done"}
    assert sorted(world.trees[0]) == ["f0", "f1"]
    assert world.debris == []
