"""The volume's and the disk's contracts, kept by each adapter and by each double that stands in for one."""

import asyncio
import time
from pathlib import Path

import pytest

from cfetch.engine.stream_window import StreamWindow
from cfetch.plugins.lab.bench.simulation.volume import SimVolume
from cfetch.storage.buckets.object_store import ObjectStore
from cfetch.storage.buckets.object_volume import ObjectStoreVolume
from cfetch.storage.directory import Directory
from cfetch.storage.directory_volume import DirectoryVolume
from cfetch.storage.disk import InlineDisk
from cfetch.storage.guarded_disk import GuardedDisk
from cfetch.storage.memory_volume import MemoryVolume
from cfetch.storage.resume import useful_parts
from cfetch.storage.volume import Volume
from cfetch.testing.volume import OTHER, DiskContract, KeepingVolumeContract, VolumeContract
from tests.engine.batches.test_placing import Volume as FailingDirectory
from tests.storage.s3_server import Bucket


class World:
    """See ``VolumeWorld``: one volume after the other, each with its run."""

    volume: Volume
    running: "asyncio.Task[None]"

    async def begin(self, volume):
        self.volume = volume
        await volume.open()
        self.running = asyncio.create_task(volume.run())
        return volume

    async def end(self):
        self.volume.drain()
        await self.running
        await self.volume.close()

    async def settle(self):
        """Nothing is tidied up beside."""

    def content(self, path):
        """Nothing is kept."""


class MemoryWorld(World):
    """Files that their reader has taken."""

    taken: dict[str, bytes]

    def content(self, path):
        return self.taken.get(path)


class DirectoryWorld(World):
    """Real files; between two runs it does what the timeline does with parts."""

    def __init__(self, root: Path, make, *, guarded, durable):
        self._root, self._make, self._guarded, self._durable = root, make, guarded, durable
        self._epoch = 0

    async def start(self):
        self._epoch += 1
        self._directory = self._make(self._root, f"attempts/i/{self._epoch}")
        disk = GuardedDisk("v", time.monotonic) if self._guarded else InlineDisk()
        return await self.begin(DirectoryVolume(self._directory, durable=self._durable, disk=disk))

    async def settle(self):
        await self.volume.free_bytes()
        disk = self.volume._disk  # type: ignore[attr-defined]
        await disk.call(lambda: None)

    async def next_run(self):
        await self.end()
        self._directory.unstage()
        attempts = self._root / ".cfetch/attempts/i"
        dead, kept = attempts / str(self._epoch), attempts / f"{self._epoch + 1}-{self._epoch}"
        names = useful_parts(path.name for path in dead.iterdir())
        kept.mkdir()
        for name in names:
            (dead / name).rename(kept / name)
        self._directory.close()
        return await self.start()

    def content(self, path):
        full = self._root / path
        return full.read_bytes() if full.exists() else None

    async def close(self):
        await self.end()
        self._directory.close()


class BucketWorld(World):
    """A real object store's server."""

    def __init__(self, bucket: Bucket):
        self._bucket = bucket
        self._runs = 0

    async def start(self):
        self._runs += 1
        return await self.begin(
            ObjectStoreVolume(
                ObjectStore(self._bucket.url, timeout_s=30.0),
                run_id=f"run-{self._runs}",
                confirm=lambda: None,
                monotonic=time.monotonic,
            )
        )

    async def settle(self):
        await self.volume.bucket.calls.wait_until_tidy()  # type: ignore[attr-defined]

    async def next_run(self):
        await self.end()
        return await self.start()

    def content(self, path):
        keys = self._bucket.keys()
        return self._bucket.get(path) if path in keys else None

    async def close(self):
        await self.end()


class TestMemoryVolume(VolumeContract):
    """What is in memory is handed over once, and nothing is left for a later run."""

    @pytest.fixture
    async def world(self):
        world = MemoryWorld()
        taken: dict[str, bytes] = {}
        room = StreamWindow([len(OTHER)] * 3, 10 * len(OTHER))
        volume = MemoryVolume(
            "memory", room, lambda _, entry, take: taken.update({entry.path: take()}), most_bytes=1 << 20
        )
        world.taken = taken
        await world.begin(volume)
        yield world
        await world.end()


class TestDirectoryVolume(KeepingVolumeContract):
    @pytest.fixture(params=[(False, True), (False, False), (True, True), (True, False)],
                    ids=["inline-power", "inline-crash", "guarded-power", "guarded-crash"])  # fmt: skip
    async def world(self, tmp_path, request):
        guarded, durable = request.param
        world = DirectoryWorld(tmp_path / "to", Directory, guarded=guarded, durable=durable)
        await world.start()
        yield world
        await world.close()


class TestFailingDirectory(KeepingVolumeContract):
    """The double of the tests of batches: as long as it is not told to fail, it is a volume like others."""

    @pytest.fixture
    async def world(self, tmp_path):
        world = DirectoryWorld(tmp_path / "to", FailingDirectory, guarded=True, durable=False)
        await world.start()
        yield world
        await world.close()


class TestObjectStoreVolume(KeepingVolumeContract):
    @pytest.fixture
    async def world(self, bucket):
        world = BucketWorld(bucket)
        await world.start()
        yield world
        await world.close()


class TestSimVolume(VolumeContract):
    @pytest.fixture(params=[float("inf"), 1e9], ids=["never behind", "1 GB/s"])
    async def world(self, request):
        world = World()
        await world.begin(SimVolume("v", request.param))
        yield world
        await world.end()


class TestInlineDisk(DiskContract):
    @pytest.fixture
    def disk(self):
        return InlineDisk()


class TestGuardedDisk(DiskContract):
    @pytest.fixture
    async def disk(self):
        disk = GuardedDisk("v", time.monotonic)
        yield disk
        await disk.close()
